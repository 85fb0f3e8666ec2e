"""PodDisruptionBudgets: which pods use a budget up, and which would exceed it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.model.keys import Key
from headgate.model.objects import DisruptionBudget
from headgate.model.pod import Pod
from headgate.model.selectors import selects


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
