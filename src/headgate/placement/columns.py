"""Amounts by name and row: one array a name, so that a rule reads one resource of all nodes at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Amounts = NDArray[np.int64]
LARGEST_SUM = 2**60  # what a cell says of a larger sum; a few such cells can be added up in 64 bits
EXACT_IN_MILLIONS = LARGEST_SUM >> 20  # a million times this much is no larger sum
FEW_COLUMNS = 64  # names up to which nobody looks for columns of zeros


class Columns:
    """Exact amounts; a name nobody gave an amount yet is zero everywhere.

    A sum beyond LARGEST_SUM shows as LARGEST_SUM. The exact one is kept beside, so that taking away what was added
    leaves what was there before.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._columns: dict[str, Amounts] = {}
        self._beyond: dict[tuple[str, int], int] = {}  # the exact sums of cells that cannot hold theirs
        self._cells: dict[str, memoryview] = {}  # the same amounts, in which to change a single one is faster
        self._sweep_at = FEW_COLUMNS

    def __getitem__(self, name: str) -> Amounts:
        """The amounts of all rows, to be read only."""
        column = self._columns.get(name)
        if column is None:
            column = np.zeros(self._rows, dtype=np.int64)
            column.flags.writeable = False
        return column

    def at(self, name: str, rows: Any) -> Any:
        """The amounts of these rows; of one row a plain number, with which arithmetic is several times faster."""
        if type(rows) is int:
            cells = self._cells.get(name)
            return 0 if cells is None else cells[rows]
        return self[name][rows]

    def names(self) -> Iterable[str]:
        return self._columns.keys()

    def grow(self, rows: int) -> None:
        for name, column in self._columns.items():
            self._keep(name, padded(column, rows))
        self._rows = rows

    def add(self, row: int, amounts: Iterable[tuple[str, int]], sign: int) -> None:
        known, beyond = self._cells, self._beyond
        for name, amount in amounts:
            try:
                cells = known[name]
            except KeyError:
                cells = self.open(name).data
            there = cells[row] + sign * amount
            if beyond or there >= LARGEST_SUM:
                self._put_exactly(name, row, beyond.get((name, row), cells[row]) + sign * amount)
            else:
                cells[row] = there

    def exceeded(self, row: int, amounts: Iterable[tuple[str, int]], most: Columns) -> str | None:
        """The first of these names of which the row has more here than there."""
        here, there = self._cells, most._cells
        for name, _ in amounts:
            if name in here and here[name][row] > (there[name][row] if name in there else 0):
                return name
        return None

    def beyond(self) -> set[int]:
        """The rows with a sum that its cell cannot hold."""
        return {row for _, row in self._beyond}

    def put(self, row: int, amounts: Iterable[tuple[str, int]]) -> None:
        self.clear(row)
        self.add(row, amounts, 1)

    def clear(self, row: int) -> None:
        for column in self._columns.values():
            column[row] = 0
        if self._beyond:
            self._beyond = {at: amount for at, amount in self._beyond.items() if at[1] != row}

    def _put_exactly(self, name: str, row: int, amount: int) -> None:
        self._cells[name][row] = min(amount, LARGEST_SUM)
        if amount >= LARGEST_SUM:
            self._beyond[name, row] = amount
        else:
            self._beyond.pop((name, row), None)

    def open(self, name: str) -> Amounts:
        """The amounts of all rows, to be changed. Users choose the names, so columns that are all zero are dropped."""
        if name in self._columns:
            return self._columns[name]
        if len(self._columns) >= self._sweep_at:
            for empty in [each for each, column in self._columns.items() if not column.any()]:
                del self._columns[empty], self._cells[empty]
            self._sweep_at = max(FEW_COLUMNS, 2 * len(self._columns))
        self._keep(name, np.zeros(self._rows, dtype=np.int64))
        return self._columns[name]

    def _keep(self, name: str, column: Amounts) -> None:
        self._columns[name], self._cells[name] = column, column.data


def padded(column: Amounts, rows: int) -> Amounts:
    """The same amounts, with zeros for the rows that are new."""
    if len(column) >= rows:
        return column
    return np.concatenate([column, np.zeros(rows - len(column), dtype=np.int64)])


def times(amount: Any, count: Any) -> Any:
    """So many times the amount, at most about LARGEST_SUM. Either may be an array; the amount is one of a request."""
    if type(amount) is not int:
        return amount * np.minimum(count, LARGEST_SUM // np.maximum(amount, 1))
    if amount <= EXACT_IN_MILLIONS:
        return amount * count
    most = LARGEST_SUM // amount
    return amount * (min(count, most) if type(count) is int else np.minimum(count, most))


KEPT_CHANGES = 1 << 16


class ChangeLog:
    """An endless list of changed rows of which the newest part is kept; readers hold a cursor into it."""

    def __init__(self) -> None:
        self.end = 0  # where the next change will stand
        self._rows: list[int] = []

    def append(self, row: int) -> None:
        self.end += 1
        self._rows.append(row)
        if len(self._rows) > KEPT_CHANGES:
            del self._rows[: KEPT_CHANGES // 2]

    def since(self, cursor: int) -> list[int] | None:
        """The rows changed from `cursor` on, in order; None when that is too long ago to tell."""
        first = self.end - len(self._rows)
        return None if cursor < first else self._rows[cursor - first :]
