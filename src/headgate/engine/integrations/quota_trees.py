"""Which queues share quota, and how much of each flavor all queues have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from headgate.model.keys import Key, Kind
from headgate.model.queues import Admission, ClusterQueue, Cohort

FlavorResource = tuple[str, str]
Amounts = Mapping[FlavorResource, int]


class QuotaTrees:
    """ClusterQueues and Cohorts as observed. `version` changes with whatever is asked of them here."""

    def __init__(self) -> None:
        self._above: dict[Key, str] = {}  # the cohort above each
        self._quotas: dict[Key, Amounts] = {}
        self._nominal: Counter[FlavorResource] = Counter()
        self.version = 0

    def put(self, queue: ClusterQueue | Cohort) -> bool:
        """Whether quota or structure is another than before."""
        above = queue.cohort if isinstance(queue, ClusterQueue) else queue.parent
        nominal = {
            (flavor.flavor, resource): quota.nominal
            for group in queue.groups
            for flavor in group.flavors
            for resource, quota in flavor.quotas
        }
        if self._quotas.get(queue.key) == nominal and self._above[queue.key] == above:
            return False
        self.drop(queue.key)
        self._above[queue.key], self._quotas[queue.key] = above, nominal
        self._nominal.update(nominal)
        return True

    def drop(self, key: Key) -> None:
        self._above.pop(key, None)
        for name, amount in self._quotas.pop(key, {}).items():
            self._nominal[name] -= amount
            if not self._nominal[name]:
                del self._nominal[name]
        self.version += 1

    def nominal(self, name: FlavorResource) -> int:
        """The nominal quota of all queues together."""
        return self._nominal[name]

    def root(self, queue: str) -> Key:
        """What all queues have in common that can borrow of each other: the topmost cohort, or the queue alone.

        Cohorts that form a ring lend nothing; such a queue shares with nobody.
        """
        at = own = Key(Kind.CLUSTER_QUEUE, "", queue)
        passed = {own}
        while above := self._above.get(at, ""):
            at = Key(Kind.COHORT, "", above)
            if at in passed:
                return own
            passed.add(at)
        return at


def granted_quota(admission: Admission) -> Amounts:
    """What was given, by flavor and resource."""
    total: Counter[FlavorResource] = Counter()
    for assigned in admission.pod_sets:
        for resource, flavor in assigned.flavors:
            total[flavor, resource] += assigned.usage[resource]
    return dict(total)
