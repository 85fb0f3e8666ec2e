"""Minimizes several amounts subject to a predicate, by bisection."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

Enough = Callable[[tuple[int, ...]], bool | None]
"""Whether these amounts are enough; None if that takes too long to find out."""


class Range(Struct, frozen=True):
    """Amounts from 0 to `most`. A good `guess`, and a `grain` that thresholds are multiples of, save evaluations."""

    most: int
    guess: int = 0
    grain: int = 1


def smallest(enough: Enough, ranges: Sequence[Range]) -> tuple[int, ...] | None:
    """Amounts that are enough, and are not with one unit less of any; None where none are.

    Amounts that come first are made as small as possible first. More is not always better, since others may take it
    first: so what was found for one amount is looked at again after the others.
    """
    found = _plenty(enough, ranges)
    if found is None:
        return None
    for index, one in enumerate(ranges):
        found = _with_least(enough, found, index, one)
    while (again := _reducible(enough, found)) is not None:
        found = _with_least(enough, found, again, Range(found[again], found[again] - 1))
    return found


def _plenty(enough: Enough, ranges: Sequence[Range]) -> tuple[int, ...] | None:
    """The largest amounts, or, if these cannot be evaluated, the guess doubled until it is enough."""
    most = tuple(one.most for one in ranges)
    answer = enough(most)
    amounts = most if answer else tuple(min(one.most, max(one.guess, one.grain)) for one in ranges)
    while answer is not False and amounts != most:
        if enough(amounts):
            return amounts
        amounts = tuple(min(one.most, 2 * amount) for one, amount in zip(ranges, amounts, strict=True))
    return most if answer else None


def _reducible(enough: Enough, amounts: tuple[int, ...]) -> int | None:
    """The first amount of which one unit less is enough."""
    if len(amounts) == 1:
        return None  # that is how it was found
    fewer = (index for index, amount in enumerate(amounts) if amount and enough(_with(amounts, index, amount - 1)))
    return next(fewer, None)


def _with(amounts: tuple[int, ...], index: int, amount: int) -> tuple[int, ...]:
    return (*amounts[:index], amount, *amounts[index + 1 :])


def _with_least(enough: Enough, amounts: tuple[int, ...], index: int, wanted: Range) -> tuple[int, ...]:
    if not amounts[index] or enough(_with(amounts, index, 0)):
        return _with(amounts, index, 0)
    too_little, plenty = 0, amounts[index]
    for tried in (wanted.guess, wanted.guess - 1):
        if too_little < tried < plenty:
            too_little, plenty = (too_little, tried) if enough(_with(amounts, index, tried)) else (tried, plenty)
    for grain in (wanted.grain, 1):
        while plenty - too_little > 1:
            middle = _between(too_little, plenty, grain)
            if middle is None:
                break
            too_little, plenty = (too_little, middle) if enough(_with(amounts, index, middle)) else (middle, plenty)
        if plenty - too_little > 1 and not enough(_with(amounts, index, plenty - 1)):
            break
    return _with(amounts, index, plenty)


def _between(low: int, high: int, grain: int) -> int | None:
    """The middle multiple of the grain that lies between the two."""
    first, last = low // grain + 1, -(-high // grain) - 1
    return (first + last) // 2 * grain if first <= last else None
