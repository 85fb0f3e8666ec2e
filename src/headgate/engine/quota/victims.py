"""Whom a workload would preempt, by the rules in force."""

from __future__ import annotations

from msgspec import Struct

from headgate.model.quota_settings import QuotaSettings
from headgate.preemption.quota.classical import classical_victims
from headgate.preemption.quota.fair import fair_victims
from headgate.preemption.quota.search import Preemptor, Victim, VictimSearch, fitness_with
from headgate.quota.assignment import Assignment
from headgate.quota.ledger import Ledger
from headgate.quota.modes import Fitness, Mode
from headgate.quota.order import Applicant
from headgate.quota.tree import FlavorResource, Usage

_PREEMPT = Mode.PREEMPT

Needed = tuple[FlavorResource, ...]
"""What is short."""


class VictimsFor(Struct, gc=False):
    """Whom one workload would preempt. The same question is answered once, for the ledger does not change meanwhile."""

    ledger: Ledger
    head: Applicant
    find: VictimSearch
    known: dict[tuple[Usage, Needed], tuple[Victim, ...]] = {}

    def of(self, assignment: Assignment) -> tuple[Victim, ...]:
        """Those who make room for all of it; nobody where there is room, or where there can be none."""
        if assignment.mode is not _PREEMPT:
            return ()
        return self._victims(self._preemptor(assignment.usage, assignment.needing_preemption))

    def fitness(self, of: FlavorResource, amount: int) -> Fitness:
        """How it would go if only this was short."""
        preemptor = self._preemptor(((of, amount),), (of,))
        return fitness_with(self.ledger, preemptor, self._victims(preemptor))

    def _preemptor(self, usage: Usage, needed: Needed) -> Preemptor:
        return Preemptor(self.head.queue, self.head.priority, self.head.ordered, usage, needed)

    def _victims(self, preemptor: Preemptor) -> tuple[Victim, ...]:
        question = preemptor.usage, preemptor.needed
        found = self.known.get(question)
        if found is None:
            found = self.known[question] = self.find(self.ledger, preemptor)
        return found


def search_by(settings: QuotaSettings) -> VictimSearch:
    """How victims are found by these settings."""
    strategies = settings.fair
    if not strategies:
        return classical_victims
    return lambda ledger, preemptor: fair_victims(ledger, preemptor, strategies)
