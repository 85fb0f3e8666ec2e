"""The disruption controller: the status of PodDisruptionBudgets, with the disruptions allowed now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.model.effects import BudgetStatus, Effect, PatchStatus
from headgate.model.events import Event, Gone, Observed, Outcome, WriteError
from headgate.model.keys import Key, Kind, Target
from headgate.model.objects import DisruptionBudget
from headgate.model.pod import ENDED, Phase, Pod
from headgate.model.selectors import selects
from headgate.world.controller import PERMANENT


class DisruptionController:
    """Writes the counts in the status of budgets. `disruptedPods` is written by the API server at evictions.

    Simpler than the real one in two ways: a running pod is ready; and percentages are of the selected pods that have
    not ended, not of the scale of their controllers. The real one allows no disruption of a Job's pods there, because a
    Job has no scale subresource.
    """

    reads = (Kind.DISRUPTION_BUDGET, Kind.POD)

    def __init__(self) -> None:
        self._budgets: dict[str, dict[Key, DisruptionBudget]] = {}  # by namespace
        self._pods: dict[str, dict[Key, Pod]] = {}  # by namespace
        self._written: dict[str, BudgetStatus] = {}  # by the budget's uid

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        touched = dict.fromkeys(namespace for event in batch if (namespace := self._observe(event)))
        return [
            effect
            for namespace in touched
            for budget in self._budgets.get(namespace, {}).values()
            for effect in self._update_status(budget, self._pods.get(namespace, {}).values())
        ]

    def _observe(self, event: Event) -> str:
        """Keeps what the event says; returns the namespace it concerns, or an empty string."""
        match event:
            case Observed(DisruptionBudget() as budget):
                self._budgets.setdefault(budget.key.namespace, {})[budget.key] = budget
                return budget.key.namespace
            case Observed(Pod() as pod):
                self._pods.setdefault(pod.key.namespace, {})[pod.key] = pod
                return pod.key.namespace
            case Gone(key, uid):
                return self._delete(key, uid)
            case Outcome(PatchStatus(target, BudgetStatus()), WriteError() as trouble) if trouble not in PERMANENT:
                self._written.pop(target.uid, None)
                return target.key.namespace
        return ""

    def _delete(self, key: Key, uid: str) -> str:
        """Forgets the object of that uid; one created since under the same name stays."""
        self._written.pop(uid, None)
        for known in (self._budgets, self._pods):
            there = known.get(key.namespace, {})
            if key in there and there[key].uid == uid:
                del there[key]
        return key.namespace

    def _update_status(self, budget: DisruptionBudget, pods: Iterable[Pod]) -> list[Effect]:
        """Patches the status where it differs from the last one written, or was changed by somebody else."""
        status = budget_status(budget, pods)
        if self._written.get(budget.uid) == status and budget.disruptions_allowed == status.allowed:
            return []
        self._written[budget.uid] = status
        return [PatchStatus(Target(budget.key, budget.uid, budget.version), status)]


def budget_status(budget: DisruptionBudget, pods: Iterable[Pod]) -> BudgetStatus:
    """The status of the budget, given all pods of its namespace."""
    requirements = budget.selector
    chosen = [] if requirements is None else [pod for pod in pods if selects(requirements, pod.labels)]
    healthy = sum(_is_healthy(pod, budget) for pod in chosen)
    expected, desired = _desired(budget, chosen)
    allowed = max(0, healthy - desired) if expected else 0
    return BudgetStatus(budget.generation, expected, healthy, desired, allowed)


def _is_healthy(pod: Pod, budget: DisruptionBudget) -> bool:
    return pod.phase is Phase.RUNNING and pod.deleted is None and pod.key.name not in budget.already_disrupted


def _desired(budget: DisruptionBudget, chosen: Sequence[Pod]) -> tuple[int, int]:
    """The expected pods, and how many of them must be healthy."""
    least, most_missing = budget.min_available, budget.max_unavailable
    if least is not None and not least.percent:
        return len(chosen), least.number
    expected = sum(pod.phase not in ENDED for pod in chosen)
    if most_missing is not None:
        return expected, max(0, expected - most_missing.of(expected))
    return (0, 0) if least is None else (expected, least.of(expected))
