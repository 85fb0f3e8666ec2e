"""Numbers and durations in messages, as people say them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration_text(seconds: float) -> str:
    """A duration to the microsecond: 0.5s, 90s, 31m, 1h2m3s."""
    rounded = round(float(seconds), 6)
    if rounded < 120 or not rounded.is_integer():
        return f"{rounded:.6f}".rstrip("0").rstrip(".") + "s"
    return "".join(units_of(int(rounded)))


def units_of(seconds: int) -> list[str]:
    """Days, hours, minutes and seconds, without those of which there are none."""
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if seconds >= size:
            parts.append(f"{seconds // size}{unit}")
            seconds %= size
    return parts
