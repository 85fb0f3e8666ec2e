"""Whom a workload would preempt, by the rules in force."""

from __future__ import annotations

from headgate.model.quota_settings import QuotaSettings
from headgate.preemption.quota_classical import classical_victims
from headgate.preemption.quota_fair import fair_victims
from headgate.preemption.quota_search import Preemptor, Victim, VictimSearch, fitness_with
from headgate.quota.assignment import Assignment
from headgate.quota.ledger import Ledger
from headgate.quota.modes import Fitness
from headgate.quota.order import Applicant
from headgate.quota.tree import FlavorResource, Usage


class VictimsFor:
    """Whom one workload would preempt. The same question is answered once, for the ledger does not change meanwhile."""

    def __init__(self, ledger: Ledger, head: Applicant, settings: QuotaSettings) -> None:
        self._ledger = ledger
        self._head = head
        self._find = _search(settings)
        self._known: dict[Preemptor, tuple[Victim, ...]] = {}

    def __call__(self, assignment: Assignment) -> tuple[Victim, ...]:
        return self._victims(self._preemptor(assignment.usage, assignment.needing_preemption))

    def fitness(self, of: FlavorResource, amount: int) -> Fitness:
        """How it would go if only this was short."""
        preemptor = self._preemptor(((of, amount),), (of,))
        return fitness_with(self._ledger, preemptor, self._victims(preemptor))

    def _preemptor(self, usage: Usage, needed: tuple[FlavorResource, ...]) -> Preemptor:
        return Preemptor(self._head.queue, self._head.priority, self._head.ordered, usage, needed)

    def _victims(self, preemptor: Preemptor) -> tuple[Victim, ...]:
        if preemptor not in self._known:
            self._known[preemptor] = self._find(self._ledger, preemptor)
        return self._known[preemptor]


def _search(settings: QuotaSettings) -> VictimSearch:
    strategies = settings.fair
    if not strategies:
        return classical_victims
    return lambda ledger, preemptor: fair_victims(ledger, preemptor, strategies)
