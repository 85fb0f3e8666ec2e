"""Numbers as text: the Kubernetes quantity grammar (`500m`, `1.5Gi`, `12e6`) in exact integers, counts, durations."""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

LARGEST = 2**63 - 1  # no amount handed out is larger in magnitude
MOST_DIGITS = 1000  # of number or exponent; far beyond any meaning, it bounds the work one text can cause
NANOS = 10**9

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SUFFIX_OF_POWER = {power: suffix for suffix, power in _DECIMAL.items()}
_SUFFIX_OF_SHIFT = {shift: suffix for suffix, shift in _BINARY.items()}

_SHAPE = re.compile(r"([+-]?)(?=[0-9.])([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")

WRONG_SHAPE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_NUMBER = "unable to parse numeric part of quantity"
WRONG_SUFFIX = "unable to parse quantity's suffix"


class InvalidQuantity(ValueError):
    """The text is no quantity; `reason` is worded as an API server words it."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"{text!r} is not a quantity: {reason}")
        self.text, self.reason = text, reason


class Notation(StrEnum):
    """How a quantity was written, and will be written again."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


class Quantity(Struct, frozen=True, gc=False, eq=False):
    """An exact amount. Quantities of one amount are equal, however they are written."""

    nanos: int
    notation: Notation = Notation.DECIMAL

    @property
    def value(self) -> int:
        """Whole units, rounded up (away from zero)."""
        return _bounded(_rounded_up(self.nanos, NANOS))

    @property
    def milli_value(self) -> int:
        """Thousandths, rounded up (away from zero)."""
        return _bounded(_rounded_up(self.nanos, NANOS // 1000))

    def __str__(self) -> str:
        """The canonical text: no fraction, the largest suffix of its notation that loses nothing."""
        if self.notation is Notation.BINARY and abs(self.nanos) >= 1024 * NANOS and self.nanos % NANOS == 0:
            return _binary_text(self.nanos // NANOS)
        return _decimal_text(self.nanos, self.notation)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: Quantity) -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: Quantity) -> bool:
        return self.nanos >= other.nanos


def parse_quantity(text: str) -> Quantity:
    """The amount the text stands for; raises InvalidQuantity.

    What is finer than a billionth is rounded up, so that asking for something never becomes asking for nothing.
    """
    found = _SHAPE.fullmatch(text)
    if found is None:
        raise InvalidQuantity(text, WRONG_SHAPE)
    sign, whole, fraction, suffix = found.group(1), found.group(2), found.group(3) or "", found.group(4)
    digits = whole + fraction
    if not 0 < len(digits) <= MOST_DIGITS:
        raise InvalidQuantity(text, WRONG_NUMBER)
    power, shift, notation = _scale(text, suffix)
    nanos = _nanos(int(digits), power - len(fraction), shift)
    if notation is Notation.BINARY:
        nanos = min(nanos, LARGEST * NANOS)
    return Quantity(-nanos if sign == "-" else nanos, notation)


def _scale(text: str, suffix: str) -> tuple[int, int, Notation]:
    """The power of ten, the power of two and the notation a suffix stands for."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], 0, Notation.DECIMAL
    if suffix in _BINARY:
        return 0, _BINARY[suffix], Notation.BINARY
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None:
        raise InvalidQuantity(text, WRONG_SUFFIX)
    if len(exponent.group(1)) > 5 or abs(int(exponent.group(1))) > MOST_DIGITS:
        raise InvalidQuantity(text, f"exponent must be between -{MOST_DIGITS} and {MOST_DIGITS}")
    return int(exponent.group(1)), 0, Notation.EXPONENT


def _nanos(digits: int, power: int, shift: int) -> int:
    """digits × 10^power × 2^shift in billionths, rounded up."""
    power += 9
    amount = digits << shift
    return amount * 10**power if power >= 0 else _rounded_up(amount, 10**-power)


def _rounded_up(amount: int, unit: int) -> int:
    """Division away from zero."""
    return -(-amount // unit) if amount >= 0 else amount // unit


def _bounded(amount: int) -> int:
    return max(-LARGEST, min(LARGEST, amount))


def _decimal_text(nanos: int, notation: Notation) -> str:
    power, largest = -9, 18 if notation is not Notation.EXPONENT else MOST_DIGITS
    if nanos == 0:
        return "0"
    while nanos % 1000 == 0 and power < largest:
        nanos, power = nanos // 1000, power + 3
    if notation is Notation.EXPONENT:
        return f"{nanos}e{power}" if power else str(nanos)
    return f"{nanos}{_SUFFIX_OF_POWER[power]}"


def _binary_text(units: int) -> str:
    shift = 0
    while units % 1024 == 0 and shift < 60:
        units, shift = units // 1024, shift + 10
    return f"{units}{_SUFFIX_OF_SHIFT[shift]}" if shift else str(units)


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
