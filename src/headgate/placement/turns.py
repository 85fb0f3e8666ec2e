"""Pods exactly alike that have a say about each other: what is left to the next as one after the other is placed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from headgate.placement.columns import Amounts
from headgate.placement.places import NO_PLACE, foremost, only
from headgate.placement.plugins import Limit, Mask


class Seats(Struct, frozen=True):
    """Seats in the order in which they would be taken if nothing but their places mattered."""

    rows: NDArray[np.intp]
    places: Amounts
    draws: Amounts


class Turns:
    """Takes one seat after the other: each time the best of the next seats of those cells that may get one more.

    A cell is all rows that every limit treats alike: so its own seats are always taken in their order.
    """

    def __init__(self, seats: Seats, limits: Sequence[Limit]) -> None:
        self._seats = seats
        cells, first = _cells(seats.rows, limits)
        self._order = np.argsort(cells, kind="stable")
        self._ends = np.cumsum(np.bincount(cells, minlength=len(first)))
        self._next = self._ends - np.bincount(cells, minlength=len(first))
        self._tallies = [_Tally(limit, seats.rows[first]) for limit in limits]
        self._places = seats.places[self._order[self._next]]  # of the next seat of each cell
        self._draws = seats.draws[self._order[self._next]]

    def take(self, count: int) -> NDArray[np.intp]:
        """The indexes of so many seats; fewer when no cell may get one more."""
        taken: list[int] = []
        while len(taken) < count and (cell := self._best()) is not None:
            taken.append(self._order.item(self._next.item(cell)))
            self._advance(cell)
        return np.array(taken, dtype=np.intp)

    def _best(self) -> int | None:
        places = self._places
        for tally in self._tallies:
            places = only(places, tally.open())
        return foremost(places, self._draws)

    def _advance(self, cell: int) -> None:
        for tally in self._tallies:
            tally.add(cell)
        self._next[cell] += 1
        if self._next[cell] == self._ends[cell]:
            self._places[cell] = NO_PLACE
            return
        seat = self._order[self._next[cell]]
        self._places[cell], self._draws[cell] = self._seats.places[seat], self._seats.draws[seat]


class _Tally:
    """One limit as seats are taken, by cell."""

    def __init__(self, limit: Limit, rows: NDArray[np.intp]) -> None:
        self._limit = limit
        self._totals = limit.totals.copy()
        self._ids = limit.ids[rows]
        self._counted = limit.counted[rows]

    def open(self) -> Mask:
        compared = self._limit.compared
        fewest = self._totals[compared].min() if len(compared) else 0
        may_grow: Mask = self._totals <= fewest + self._limit.ahead
        return may_grow[self._ids]

    def add(self, cell: int) -> None:
        if self._counted[cell]:
            self._totals[self._ids[cell]] += 1


def _cells(rows: NDArray[np.intp], limits: Sequence[Limit]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """For each of the rows the number of its cell, and by cell the index of its first row."""
    traits = [limit.ids[rows] * 2 + limit.counted[rows] for limit in limits]
    cells = np.zeros(len(rows), dtype=np.intp)
    for trait in traits:
        _, first, cells = np.unique(cells * (trait.max() + 1) + trait, return_index=True, return_inverse=True)
    return cells, first
