"""The units that may be preempted, as arrays: one line a unit, and one for every node a unit is on; and what they lose.

What each row carries once some of them are gone is here too (`Loads`). The work that is lost with a pod is counted in
millionths of a node-second: its share of its node in thousandths (the largest over all resources it requests), times
the milliseconds since its last checkpoint. A share needs no exchange rate between cores and devices: who holds half of
a node's GPUs keeps others from half of that node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from headgate.model.keys import Key
from headgate.model.pod import GroupKey, Pod
from headgate.placement.table import LARGEST_SUM, PODS, Amounts, Columns, NodeTable
from headgate.preemption.units import ALONE, NOWHERE, Flags, Running, Times, Unit

Units = NDArray[np.intp]
"""Indexes of units."""

THOUSANDTHS = 1000
NODE_SECOND = 1_000_000  # of the unit of work


class Loads:
    """Pods sorted by row, so that what is freed on each row is one sum over neighbours in an array."""

    def __init__(self, running: Running, lines: Units, unit_of: Units, terminating: Units) -> None:
        rows = running.rows[lines]
        order = np.argsort(rows, kind="stable")
        self._running = running
        self._lines, self.units = lines[order], unit_of[order]
        self._rows, self._starts = np.unique(rows[order], return_index=True)
        self._terminating = terminating
        self._overfull = list(running.nodes.overfull())
        self._held: dict[tuple[str, bool], Amounts] = {}
        self._base: dict[tuple[str, bool], Amounts] = {}

    def after(self, gone: Flags) -> After:
        return After(self, gone)

    def base(self, name: str, scored: bool) -> Amounts:
        """By row, what is there without the pods being deleted."""
        base = self._base.get((name, scored))
        if base is None:
            there = (self._running.nodes.scored if scored else self._running.nodes.requested)[name].copy()
            held = self._columns(scored)[name][self._terminating]
            np.subtract.at(there, self._running.rows[self._terminating], held)
            base = self._base[name, scored] = self._where_known(there)
        return base

    def less(self, name: str, scored: bool, evicted: Flags) -> Amounts:
        """By row, what is there without those evicted as well."""
        there = self.base(name, scored).copy()
        held = self._held.get((name, scored))
        if held is None:
            held = self._held[name, scored] = self._columns(scored)[name][self._lines]
        if len(self._starts):
            there[self._rows] -= np.add.reduceat(held * evicted, self._starts)
        return self._where_known(there)

    def _where_known(self, there: Amounts) -> Amounts:
        """A row with more on it than a number can say stays full, whatever is evicted."""
        if self._overfull:
            there[self._overfull] = LARGEST_SUM
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


def work_lost(running: Running, lines: Amounts, now: float) -> Amounts:
    """The work each of these running pods would lose if it was stopped now; never negative."""
    return shares(running, running.nodes, lines) * unsaved(running, lines, now)


def shares(running: Running, nodes: NodeTable, lines: Amounts) -> Amounts:
    """How much of its node each pod holds, in thousandths, by the resource of which it holds most."""
    rows = running.rows[lines]
    largest = np.zeros(len(lines), dtype=np.int64)
    for name in list(running.requests.names()):
        if name != PODS:
            there = nodes.allocatable[name][rows]
            held = running.requests[name][lines] * THOUSANDTHS // np.maximum(there, 1)
            largest = np.maximum(largest, np.where(there > 0, held, 0))
    return largest


def unsaved(running: Running, lines: Amounts, now: float) -> Amounts:
    """Milliseconds since each pod's work was last saved: at its last checkpoint, or else never since it started.

    A pod that saves its work at intervals was last saved when the latest of them ended. One that has not started has
    nothing to lose. Whatever a pod says of its checkpoints, it loses no more than the time it runs.
    """
    age = np.maximum(np.nan_to_num(now - running.started[lines]), 0)
    every = running.checkpoint_every[lines]
    with np.errstate(invalid="ignore", divide="ignore"):
        since: Times = np.where(every > 0, np.mod(age, every), age)
    saved = now - running.checkpointed[lines]
    since = np.where(np.isnan(saved), since, np.minimum(saved, age))
    milliseconds: Amounts = np.rint(np.maximum(since, 0) * 1000).astype(np.int64)
    return milliseconds


class Shares(Struct, frozen=True):
    """One line for every row a unit is on: which unit, which row, and how much of each name it holds there."""

    units: Units
    rows: Amounts
    amounts: dict[str, Amounts]

    def held(self, name: str) -> Amounts:
        """How much of this name each holds; zeros where nobody holds any."""
        found = self.amounts.get(name)
        return np.zeros(len(self.units), dtype=np.int64) if found is None else found

    def picked(self, which: NDArray[Any]) -> Shares:
        """Some of them, in the order they are picked."""
        held = {name: amounts[which] for name, amounts in self.amounts.items()}
        return Shares(self.units[which], self.rows[which], held)


class Reach(Struct, frozen=True):
    """Where it is not priority alone that decides who may be evicted for a preemptor."""

    kept: frozenset[Key] = frozenset()  # never evicted for it
    given: frozenset[Key] = frozenset()  # may be evicted for it, whatever their priority


BY_PRIORITY = Reach()


class Candidates:
    """All units of lower priority than the preemptor's, or within its reach all the same.

    Pods being deleted are none of them: they count as gone.
    """

    def __init__(
        self,
        running: Running,
        priority: int,
        now: float,
        but: Key | GroupKey | None = None,
        *,
        gone: Units | None = None,
        reach: Reach = BY_PRIORITY,
    ) -> None:
        """Not among them are the pods of the group `but` and the lines that are `gone`."""
        running.refresh()
        self.running = running
        self.now = now
        here: Flags = running.rows != NOWHERE
        if gone is not None:
            here[gone] = False
        if isinstance(but, GroupKey) and (own := running.gang_list.number_of(but)) != ALONE:
            here = here & (running.gangs != own)
        self.terminating = np.flatnonzero(here & running.terminating)  # lines of pods that are being deleted anyway
        others = np.flatnonzero(here & ~running.terminating)
        self.lines, self.unit_of = _below(running, others, priority, _standing(running, reach))
        self.count = int(self.unit_of.max(initial=-1)) + 1
        self.displaces: Amounts = np.zeros(self.count, dtype=np.int64)  # estimated work, where a search looks ahead

    @cached_property
    def priority(self) -> Amounts:
        """Of each unit."""
        highest = np.full(self.count, np.iinfo(np.int64).min, dtype=np.int64)
        np.maximum.at(highest, self.unit_of, self.running.priorities[self.lines])
        return highest

    @cached_property
    def size(self) -> Amounts:
        """How many pods each unit has."""
        return np.bincount(self.unit_of, minlength=self.count)

    @cached_property
    def first(self) -> NDArray[np.intp]:
        """One line of each unit."""
        first = np.zeros(self.count, dtype=np.intp)
        first[self.unit_of[::-1]] = self.lines[::-1]
        return first

    @cached_property
    def started(self) -> Times:
        """When the first pod of each unit started; now for one that has not."""
        times = np.full(self.count, self.now)
        np.minimum.at(times, self.unit_of, np.nan_to_num(self.running.started[self.lines], nan=self.now))
        return times

    @cached_property
    def draws(self) -> Amounts:
        draws = np.full(self.count, np.iinfo(np.int64).max, dtype=np.int64)
        np.minimum.at(draws, self.unit_of, self.running.draws[self.lines])
        return draws

    @cached_property
    def gang(self) -> Amounts:
        """The number of each unit's gang, ALONE for a pod without."""
        return self.running.gangs[self.first]

    @cached_property
    def whole(self) -> Flags:
        whole: Flags = self.running.whole[self.first]
        return whole

    @cached_property
    def lost(self) -> Amounts:
        """The work each unit would lose, in whole node-seconds: what is compared, shown and proven is one number."""
        lost = np.zeros(self.count, dtype=np.int64)
        np.add.at(lost, self.unit_of, work_lost(self.running, self.lines, self.now))
        return (lost + NODE_SECOND // 2) // NODE_SECOND

    @property
    def weight(self) -> Amounts:
        """What evicting each unit costs, with what it displaces."""
        return self.lost + self.displaces

    @cached_property
    def spare(self) -> Amounts:
        """For each gang, how many of its running pods it can lose and still have enough; negative: it has too few."""
        running = self.running
        members = running.gangs[(running.rows != NOWHERE) & ~running.terminating]
        counts = np.bincount(members[members != ALONE], minlength=len(running.gang_list.keys))
        return counts - np.array(running.gang_list.min_counts, dtype=np.int64)

    @cached_property
    def shares(self) -> Shares:
        """What each unit holds on each of its rows."""
        running, rows = self.running, self.running.rows[self.lines]
        if not self.whole.any():
            held = {name: running.requests[name][self.lines] for name in list(running.requests.names())}
            return Shares(self.unit_of, rows, held)
        table = len(running.nodes.nodes)
        codes, share_of = np.unique(self.unit_of * table + rows, return_inverse=True)
        held = {name: np.zeros(len(codes), dtype=np.int64) for name in list(running.requests.names())}
        for name, amounts in held.items():
            np.add.at(amounts, share_of, running.requests[name][self.lines])
        return Shares(codes // table, codes % table, held)

    def shares_on(self, rows: NDArray[np.intp], units: Units) -> Shares:
        """What these units hold on these rows, unit by unit in the given order."""
        places = np.full(self.count, NOWHERE, dtype=np.intp)
        places[units] = np.arange(len(units))
        here = np.zeros(len(self.running.nodes.nodes), dtype=np.bool_)
        here[rows] = True
        some = np.flatnonzero((places[self.shares.units] != NOWHERE) & here[self.shares.rows])
        return self.shares.picked(some[np.argsort(places[self.shares.units[some]], kind="stable")])

    def unit_at(self, line: int) -> int:
        """The unit of a candidate's line."""
        return int(self._unit_at[line])

    def lines_of(self, unit: int) -> list[int]:
        return self._sorted_lines[self._bounds[unit] : self._bounds[unit + 1]]

    def lines_of_all(self, units: Units) -> Units:
        """The lines of all of these units together."""
        return self.lines[as_flags(units, self.count)[self.unit_of]]

    def pods_of(self, unit: int) -> tuple[Pod, ...]:
        return tuple(self.running.pod_at(line) for line in self.lines_of(unit))

    def is_whole_unit(self, pods: Sequence[Pod]) -> bool:
        """Whether the pods among these that run and are not terminating are one unit, and all of it."""
        found = [line for pod in pods if (line := self.running.line_of(pod)) is not None]
        lines = sorted(line for line in found if not self.running.terminating[line])
        if not lines:
            return True
        units = self.unit_of[self.lines == lines[0]].tolist()
        return bool(units) and sorted(self.lines_of(units[0])) == lines

    def units(self, indexes: Units) -> tuple[Unit, ...]:
        """These units as values."""
        lines = zip(*(of[indexes].tolist() for of in (self.priority, self.whole, self.gang)), strict=True)
        return tuple(self._unit(index, *line) for index, line in zip(indexes.tolist(), lines, strict=True))

    def _unit(self, index: int, priority: int, whole: bool, gang: int) -> Unit:
        pods = tuple(self._settled(line) for line in self.lines_of(index))
        return Unit(self.running.gang_list.key_of(gang) if whole else pods[0].key, priority, pods)

    def _settled(self, line: int) -> Pod:
        """The pod with its node, also where its binding is only assumed."""
        pod = self.running.pod_at(line)
        return pod if pod.node else structs.replace(pod, node=self.running.nodes.name_at(int(self.running.rows[line])))

    def after(self, gone: Flags) -> After:
        """The loads once these units and all pods being deleted are gone."""
        return self._loads.after(gone)

    def after_deletions(self) -> After:
        """The loads once the pods being deleted are gone, and nobody else."""
        return self.after(np.zeros(self.count, dtype=np.bool_))

    def on_rows(self, rows: Flags) -> Flags:
        """The units with a pod on one of these rows."""
        there = np.zeros(self.count, dtype=np.bool_)
        there[self.unit_of[rows[self.running.rows[self.lines]]]] = True
        return there

    @cached_property
    def _loads(self) -> Loads:
        return Loads(self.running, self.lines, self.unit_of, self.terminating)

    @cached_property
    def _unit_at(self) -> Units:
        units = np.full(len(self.running.pods), NOWHERE, dtype=np.intp)
        units[self.lines] = self.unit_of
        return units

    @cached_property
    def _sorted_lines(self) -> list[int]:
        lines: list[int] = self.lines[np.lexsort((self.running.draws[self.lines], self.unit_of))].tolist()
        return lines

    @cached_property
    def _bounds(self) -> list[int]:
        return [0, *np.cumsum(self.size).tolist()]


def _standing(running: Running, reach: Reach) -> Amounts:
    """The priorities of all lines, with those that are kept above every preemptor and those that are given below."""
    if reach is BY_PRIORITY:
        return running.priorities
    standing = running.priorities.copy()
    standing[running.lines_of(reach.kept)] = np.iinfo(np.int64).max
    standing[running.lines_of(reach.given)] = np.iinfo(np.int64).min
    return standing


def _below(
    running: Running, lines: NDArray[np.intp], priority: int, standing: Amounts
) -> tuple[NDArray[np.intp], Units]:
    """The lines of units that stand below the priority, and which unit each belongs to."""
    if not running.whole[lines].any():
        lines = lines[standing[lines] < priority]
        return lines, np.arange(len(lines))
    codes = np.where(running.whole[lines], len(running.pods) + running.gangs[lines], lines)
    _, unit_of = np.unique(codes, return_inverse=True)
    highest = np.full(int(unit_of.max()) + 1, np.iinfo(np.int64).min, dtype=np.int64)
    np.maximum.at(highest, unit_of, standing[lines])
    below = highest[unit_of] < priority
    lines, unit_of = lines[below], unit_of[below]
    return lines, np.unique(unit_of, return_inverse=True)[1]


def as_flags(units: Sequence[int] | Units, count: int) -> Flags:
    flags = np.zeros(count, dtype=np.bool_)
    flags[np.asarray(units, dtype=np.intp)] = True
    return flags
