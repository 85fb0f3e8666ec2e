"""What was used is forgotten by halves: in exact integers, rounded down, alike on every machine.

Amounts are billionths of whole units (a core, a byte, a device), so that even the small part that one sample of a few
minutes adds to an average over a week is more than nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from headgate.model.quantity import NANOS
from headgate.model.resources import CPU
from headgate.quota.tree import Usage

BITS = 62
ONE = 1 << BITS
MICROS = 10**6  # in a second

Amounts = Mapping[str, int]
"""Billionths of whole units, by resource."""


def _roots(count: int) -> Iterable[int]:
    root = ONE >> 1
    for _ in range(count):
        root = math.isqrt(root * ONE)
        yield root


_ROOTS = tuple(_roots(40))
"""A half to the power of 1/2, 1/4, 1/8 and so on, each as a part of ONE."""


def remaining(seconds: float, half_life: float) -> int:
    """What is left after so long, as a part of ONE."""
    whole, rest = divmod(max(0, round(seconds * MICROS)), round(half_life * MICROS))
    life, part = round(half_life * MICROS), ONE
    for root in _ROOTS:
        rest *= 2
        if rest >= life:
            rest -= life
            part = part * root >> BITS
    return part >> whole if whole < BITS else 0


def decayed(consumed: Amounts, in_use: Amounts, seconds: float, half_life: float) -> dict[str, int]:
    """The average moves from what it was towards what is in use; without a half-life everything is forgotten."""
    if not half_life:
        return {}
    kept = remaining(seconds, half_life)
    names = sorted(consumed.keys() | in_use.keys())
    return {
        name: (consumed.get(name, 0) * kept >> BITS) + (in_use.get(name, 0) * (ONE - kept) >> BITS) for name in names
    }


def entry_penalty(asked: Amounts, interval: float, half_life: float) -> dict[str, int]:
    """What one sampling interval of such use adds: charged in advance, so that many cannot enter before the next."""
    return decayed({}, asked, interval, half_life)


def by_resource(usage: Usage) -> dict[str, int]:
    """All flavors together, in billionths."""
    amounts: dict[str, int] = {}
    for of, amount in usage:
        amounts[of.resource] = amounts.get(of.resource, 0) + amount * (NANOS // 1000 if of.resource == CPU else NANOS)
    return amounts
