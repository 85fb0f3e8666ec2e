"""Names of the objects that controllers create: deterministic, and scattered so that they do not read as numbers."""

from __future__ import annotations

LONGEST_NAME = 63
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_STRIDE = 6_180_340  # shares no factor with the number of suffixes, so no two counts give one suffix


def child_name(owner: str, count: int) -> str:
    """The name of the object that an owner creates after so many others."""
    return f"{owner[: LONGEST_NAME - 6]}-{_suffix(count)}"


def _suffix(count: int) -> str:
    number = (count + 1) * _STRIDE % len(_LETTERS) ** 5
    letters = []
    for _ in range(5):
        number, position = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[position])
    return "".join(letters)
