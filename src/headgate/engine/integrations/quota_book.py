"""What queues own in all, and what started work uses of it: the arithmetic of room where no nodes can be seen."""

from __future__ import annotations

from collections import Counter

from headgate.engine.integrations.asking import Amounts, FlavorResource, Question
from headgate.model.keys import Key
from headgate.model.queues import ClusterQueue, Cohort


class QuotaBook:
    """Keeps totals by flavor and resource, across all queues."""

    def __init__(self) -> None:
        self._quotas: dict[Key, Amounts] = {}
        self._owned: Counter[FlavorResource] = Counter()
        self._uses: dict[Key, Amounts] = {}
        self._used: Counter[FlavorResource] = Counter()

    def put_queue(self, queue: ClusterQueue | Cohort) -> bool:
        """Whether it owns something else than before."""
        nominal = {
            (flavor.flavor, resource): quota.nominal
            for group in queue.groups
            for flavor in group.flavors
            for resource, quota in flavor.quotas
        }
        if self._quotas.get(queue.key, {}) == nominal:
            return False
        _replace(self._quotas, self._owned, queue.key, nominal)
        return True

    def drop_queue(self, key: Key) -> None:
        _replace(self._quotas, self._owned, key, {})

    def uses(self, work: Key, used: Amounts) -> bool:
        """Whether it used something, and now nothing."""
        used_some = work in self._uses
        _replace(self._uses, self._used, work, used)
        return used_some and work not in self._uses

    def owned(self, name: FlavorResource) -> int:
        return self._owned[name]

    def short(self, question: Question, owed: Amounts) -> Amounts:
        """By how much the work and all that runs and leaves is more than there is quota for, where there is debt."""
        own = self._uses.get(question.ask.work, {})
        missing = {
            name: self._used[name] - own.get(name, 0) + owed.get(name, 0) + amount + extra - self._owned[name]
            for name, amount in question.amounts.items()
            if (extra := question.extra.get(name, 0)) or owed.get(name)
        }
        return {name: amount for name, amount in missing.items() if amount > 0}


def _replace(known: dict[Key, Amounts], total: Counter[FlavorResource], key: Key, now: Amounts) -> None:
    """Keep the total of what each key stands for."""
    total.subtract(known.pop(key, {}))
    total.update(now)
    if now:
        known[key] = now
