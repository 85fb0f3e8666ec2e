"""What each row carries once some units are gone, and the pods that are being deleted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headgate.placement.columns import LARGEST_SUM, Amounts, Columns
from headgate.preemption.units import Flags, Running

Units = NDArray[np.intp]
"""Indexes of units."""


class Loads:
    """Pods sorted by row, so that what is freed on each row is one sum over neighbours in an array."""

    def __init__(self, running: Running, lines: Units, unit_of: Units, terminating: Units) -> None:
        rows = running.rows[lines]
        order = np.argsort(rows, kind="stable")
        self._running = running
        self._lines, self.units = lines[order], unit_of[order]
        self._rows, self._starts = np.unique(rows[order], return_index=True)
        self._terminating = terminating
        self._held: dict[tuple[str, bool], Amounts] = {}
        self._base: dict[tuple[str, bool], Amounts] = {}

    def after(self, gone: Flags) -> After:
        return After(self, gone)

    def base(self, name: str, scored: bool) -> Amounts:
        """By row, what is there without the pods being deleted."""
        if (name, scored) not in self._base:
            there = (self._running.nodes.scored if scored else self._running.nodes.requested)[name].copy()
            held = self._columns(scored)[name][self._terminating]
            np.subtract.at(there, self._running.rows[self._terminating], held)
            self._base[name, scored] = self._where_known(there)
        return self._base[name, scored]

    def less(self, name: str, scored: bool, evicted: Flags) -> Amounts:
        """By row, what is there without those evicted as well."""
        there = self.base(name, scored).copy()
        if (name, scored) not in self._held:
            self._held[name, scored] = self._columns(scored)[name][self._lines]
        if len(self._starts):
            there[self._rows] -= np.add.reduceat(self._held[name, scored] * evicted, self._starts)
        return self._where_known(there)

    def _where_known(self, there: Amounts) -> Amounts:
        """A row with more on it than a number can say stays full, whatever is evicted."""
        if beyond := self._running.nodes.overfull():
            there[list(beyond)] = LARGEST_SUM
        return there

    def _columns(self, scored: bool) -> Columns:
        return self._running.scored if scored else self._running.requests


class After:
    """The loads with these units gone."""

    def __init__(self, loads: Loads, gone: Flags) -> None:
        self._loads = loads
        self._evicted: Flags = gone[loads.units]

    def requested(self, name: str) -> Amounts:
        """A fresh array, by row."""
        return self._loads.less(name, False, self._evicted)

    def scored(self, name: str) -> Amounts:
        return self._loads.less(name, True, self._evicted)
