"""Fewer pods than asked for: the most that can be had."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from headgate.quota.requests import Ask

R = TypeVar("R")


def most_pods(asks: Sequence[Ask], attempt: Callable[[Sequence[int]], R | None]) -> R | None:
    """The outcome with the fewest pods left out, each pod set giving in proportion to what it can spare.

    `attempt` answers for the counts of all pod sets, with None when these are still too many.
    """
    total = sum(ask.spare for ask in asks)
    best: R | None = None
    low, high = 0, total + 1  # with `high` fewer it can be done, or it cannot be done at all
    while total and low < high:
        middle = (low + high) // 2
        found = attempt(_reduced(asks, middle, total))
        if found is None:
            low = middle + 1
        else:
            best, high = found, middle
    return best


def _reduced(asks: Sequence[Ask], fewer: int, total: int) -> list[int]:
    return [ask.count - ask.spare * fewer // total for ask in asks]
