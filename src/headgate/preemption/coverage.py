"""Which budgets count which candidates, and which evictions exceed them, for many sets of victims at once."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.placement.columns import Amounts
from headgate.preemption.budgets import Budgets
from headgate.preemption.candidates import Candidates
from headgate.preemption.loads import Units
from headgate.preemption.units import Flags


class Coverage:
    """For each budget how many pods of each unit it counts."""

    def __init__(self, among: Candidates, budgets: Budgets) -> None:
        self._among = among
        self._budgets = budgets
        self._allowed: dict[Key, int] = {}
        self._counts: dict[Key, Amounts] = {}
        if budgets:
            self._count_all()

    @property
    def counted(self) -> Flags:
        """The units of which evicting some pod would use up a budget."""
        counted: Flags = np.zeros(self._among.count, dtype=np.bool_)
        for counts in self._counts.values():
            counted |= counts > 0
        return counted

    def beyond(self, units: Units, sets: Units) -> Amounts:
        """How many pods of each unit exceed a budget, when each set of units is evicted in the given order.

        `sets` numbers the set of each unit, ascending. Every set starts with what the budgets allow now.
        """
        if len(self._counts) > 1 and (self._among.size[units] > 1).any():
            return self._one_by_one(units, sets)
        worst = np.zeros(len(units), dtype=np.int64)
        first = np.searchsorted(sets, sets)
        for key, counts in self._counts.items():
            counted = counts[units]
            used = np.cumsum(counted)
            used = used - (used - counted)[first]
            worst = np.maximum(worst, np.clip(used - self._allowed[key], 0, counted))
        return worst

    def violations(self, units: Units, sets: Units, count: int) -> Amounts:
        """For each of `count` sets, how many pods are evicted beyond budgets; a pod counts once for each it exceeds."""
        total = np.zeros(count, dtype=np.int64)
        for key, counts in self._counts.items():
            used = np.zeros(count, dtype=np.int64)
            np.add.at(used, sets, counts[units])
            total += np.maximum(used - self._allowed[key], 0)
        return total

    def _one_by_one(self, units: Units, sets: Units) -> Amounts:
        """Pod by pod: of a gang one budget may count these pods and another those."""
        beyond = np.zeros(len(units), dtype=np.int64)
        bounds = np.flatnonzero(np.diff(sets, prepend=-1, append=-1))
        for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            evicted = [self._among.pods_of(unit) for unit in units[start:end].tolist()]
            beyond[start:end] = self._budgets.violations(evicted)
        return beyond

    def _count_all(self) -> None:
        """Pods with equal labels are matched once."""
        known: dict[Hashable, tuple[Key, ...]] = {}
        lines = zip(self._among.lines.tolist(), self._among.unit_of.tolist(), strict=True)
        for line, unit in lines:
            pod = self._among.running.pod_at(line)
            alike = (pod.key.namespace, *pod.labels.items())
            keys = known.get(alike)
            if keys is None or self._budgets.knows_names_in(pod.key.namespace):
                keys = known[alike] = self._matching(pod)
            for key in keys:
                self._counts[key][unit] += 1

    def _matching(self, pod: Pod) -> tuple[Key, ...]:
        budgets = self._budgets.matching(pod)
        for budget in budgets:
            self._allowed[budget.key] = budget.disruptions_allowed
            self._counts.setdefault(budget.key, np.zeros(self._among.count, dtype=np.int64))
        return tuple(budget.key for budget in budgets)
