"""PodDisruptionBudgets: which pods use a budget up, and which would exceed it, for many sets of victims at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from headgate.model.keys import Key
from headgate.model.objects import DisruptionBudget
from headgate.model.pod import Pod
from headgate.model.selectors import selects
from headgate.placement.table import Amounts
from headgate.preemption.candidates import Candidates, Units
from headgate.preemption.units import Flags


class Budgets:
    """The disruption budgets of a cluster as last observed. They are best effort here as upstream: never a veto."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[Key, DisruptionBudget]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def put(self, budget: DisruptionBudget) -> None:
        """The budget is there and looks like this."""
        self._by_namespace.setdefault(budget.key.namespace, {})[budget.key] = budget

    def drop(self, key: Key) -> None:
        """The budget is gone."""
        kept = self._by_namespace.get(key.namespace, {})
        kept.pop(key, None)
        if not kept:
            self._by_namespace.pop(key.namespace, None)

    def matching(self, pod: Pod) -> tuple[DisruptionBudget, ...]:
        """The budgets that evicting the pod would use up.

        Not those that count it as disrupted already. As in kube-scheduler, a budget whose selector is empty counts
        nobody, and a pod without labels is counted by none.
        """
        budgets = self._by_namespace.get(pod.key.namespace)
        if not budgets or not pod.labels:
            return ()
        return tuple(budget for budget in budgets.values() if _counts(budget, pod))

    def knows_names_in(self, namespace: str) -> bool:
        """Whether a budget there has pods on record as disrupted already, so that labels alone do not decide."""
        return any(budget.already_disrupted for budget in self._by_namespace.get(namespace, {}).values())

    def violations(self, units: Iterable[Sequence[Pod]]) -> list[int]:
        """For units evicted in this order, how many pods of each exceed a budget.

        Every budget starts with what it allows now and is used up in the given order.
        """
        left: dict[Key, int] = {}
        return [sum(self._goes_beyond(pod, left) for pod in pods) for pods in units]

    def _goes_beyond(self, pod: Pod, left: dict[Key, int]) -> bool:
        beyond = False
        for budget in self.matching(pod):
            left[budget.key] = left.get(budget.key, budget.disruptions_allowed) - 1
            beyond |= left[budget.key] < 0
        return beyond


def _counts(budget: DisruptionBudget, pod: Pod) -> bool:
    if not budget.selector or pod.key.name in budget.already_disrupted:
        return False
    return selects(budget.selector, pod.labels)


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
