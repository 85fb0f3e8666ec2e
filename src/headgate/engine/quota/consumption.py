"""Usage-based fair sharing: the decayed usage of LocalQueues.

An average that forgets by halves is kept for each local queue and shown in its status, from where the next process
goes on. It moves whenever a sample is taken and whenever a workload is admitted. A workload that holds quota and does
not show yet that it is admitted counts in advance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from headgate.engine.deadlines import Deadlines
from headgate.engine.quota.object_cache import QuotaObjectCache
from headgate.engine.quota.queue_usage import QueueUsages
from headgate.engine.quota.workload_records import WorkloadRecord
from headgate.lifecycle.workload.conditions import ADMITTED, second
from headgate.model.effects import Consumption
from headgate.model.keys import Key, Kind
from headgate.model.quantity import NANOS
from headgate.model.queues import WHOLE_WEIGHT, LocalQueue
from headgate.model.resources import Resources
from headgate.model.settings import RESOURCE_WEIGHT, UsageSharing
from headgate.quota.fair_sharing import Amounts, by_resource, decayed, entry_penalty
from headgate.quota.ledger import LocalUse, Reservation
from headgate.quota.pending_workload import PendingWorkload

SHORTEST_INTERVAL = 1.0  # seconds: statuses show whole ones
WHOLE_USE = NANOS * RESOURCE_WEIGHT
"""One unit of a resource that weighs one, of a local queue that weighs one."""


class _LocalQueueConsumption:
    """The decayed usage of one LocalQueue."""

    __slots__ = ("at", "consumed", "in_advance", "shown")

    def __init__(self, local: LocalQueue, now: float) -> None:
        self.consumed = dict(local.consumed)
        self.at = second(now)  # when that was so
        if local.consumed_at is not None and any(self.consumed.values()):
            self.at = min(local.consumed_at, self.at)
        self.shown = Consumption(local.consumed, self.at)
        self.in_advance: Counter[str] = Counter()

    def move(self, in_use: Amounts, half_life: float, now: float) -> bool:
        """Decays the usage to this time; False when there was none."""
        until = max(self.at, second(now))
        before, self.consumed = self.consumed, decayed(self.consumed, in_use, until - self.at, half_life)
        self.at = until
        return any(before.values()) or any(in_use.values())

    def show(self) -> None:
        self.shown = Consumption(Resources.of(self.consumed), self.at)


class Consumptions:
    """The decayed usage of all LocalQueues."""

    def __init__(self, sharing: UsageSharing, objects: QuotaObjectCache, usage: QueueUsages) -> None:
        self._sharing = sharing
        self._weights = dict(sharing.weights)
        self._objects = objects
        self._usage = usage
        self._accounts: dict[Key, _LocalQueueConsumption] = {}
        self.samples = Deadlines[Key]()  # when to call `sample`

    # what is read

    def used(self, local: Key) -> LocalUse:
        """Weighted usage; infinite where the weight is zero."""
        found, account = self._objects.locals.get(local), self._accounts.get(local)
        weight = found.fair_weight if found is not None else WHOLE_WEIGHT
        if weight <= 0:
            return math.inf
        return self._weighed(account) * WHOLE_WEIGHT // weight if account is not None else 0

    def used_by(self, head: PendingWorkload) -> LocalUse:
        return self.used(self._objects.local_of(head.workload))

    def used_by_reservation(self, reservation: Reservation) -> LocalUse:
        """The usage of the reservation's LocalQueue; zero where the ClusterQueue does not order by usage."""
        matters = self._matters(reservation.queue)
        return self.used(Key(Kind.LOCAL_QUEUE, reservation.key.namespace, reservation.local)) if matters else 0

    def shown(self, local: Key) -> Consumption | None:
        account = self._accounts.get(local)
        return account.shown if account is not None else None

    # what happens

    def open(self, local: LocalQueue, members: Iterable[WorkloadRecord], now: float) -> None:
        """A LocalQueue with these workloads is observed; its status is taken over the first time."""
        if local.key in self._accounts:
            return
        account = self._accounts[local.key] = _LocalQueueConsumption(local, now)
        for record in members:
            if record.entry_penalty is not None and record.entry_penalty[0] == local.key:
                account.in_advance.update(record.entry_penalty[1])
        self.samples.set(local.key, self._due(account))

    def close(self, local: Key) -> None:
        self._accounts.pop(local, None)
        self.samples.drop(local)

    def sample(self, now: float) -> list[Key]:
        """Samples the LocalQueues that are due; returns those whose usage changed."""
        moved = []
        for key in sorted(self.samples.due(now)):
            account = self._accounts[key]
            if self._due(account) <= now and self._move(key, account, now):
                account.show()
                moved.append(key)
            self.samples.set(key, self._due(account))
        return moved

    def place(self, record: WorkloadRecord, local: Key) -> None:
        """Charges the entry penalty of a reservation that is not observed as admitted, or drops it."""
        reservation = record.reservation
        if reservation is None:
            self.drop_penalty(record)
        elif not record.observed.is_true(ADMITTED) and self._matters(reservation.queue):
            self._enter(record, local, reservation)

    def settle(self, record: WorkloadRecord, local: Key, queue: str, now: float) -> None:
        """The workload is observed as admitted: its penalty becomes usage."""
        penalty = record.entry_penalty[1] if record.entry_penalty is not None else {}
        self.drop_penalty(record)
        account = self._accounts.get(local)
        if account is None or not self._matters(queue):
            return
        self._move(local, account, now)
        for name, amount in penalty.items():
            account.consumed[name] = account.consumed.get(name, 0) + amount
        account.show()

    def drop_penalty(self, record: WorkloadRecord) -> None:
        """Drops the workload's entry penalty."""
        if record.entry_penalty is None:
            return
        (local, penalty), record.entry_penalty = record.entry_penalty, None
        account = self._accounts.get(local)
        if account is not None:
            account.in_advance.subtract(penalty)

    def _enter(self, record: WorkloadRecord, local: Key, reservation: Reservation) -> None:
        if record.entry_penalty is not None and record.entry_penalty[0] == local:
            return
        self.drop_penalty(record)
        penalty = entry_penalty(by_resource(reservation.usage), self._sharing.interval, self._sharing.half_life)
        record.entry_penalty = local, penalty
        if local in self._accounts:
            self._accounts[local].in_advance.update(penalty)

    def _move(self, local: Key, account: _LocalQueueConsumption, now: float) -> bool:
        in_use = by_resource(tuple(self._usage.local(local).usage.items()))
        return account.move(in_use, self._sharing.half_life, now)

    def _weighed(self, account: _LocalQueueConsumption) -> int:
        names = account.consumed.keys() | account.in_advance.keys()
        return sum(
            self._weights.get(name, RESOURCE_WEIGHT) * (account.consumed.get(name, 0) + account.in_advance[name])
            for name in names
        )

    def _matters(self, queue: str) -> bool:
        found = self._objects.queues.get(queue)
        return found is not None and found.usage_based

    def _due(self, account: _LocalQueueConsumption) -> float:
        return account.at + max(self._sharing.interval, SHORTEST_INTERVAL)
