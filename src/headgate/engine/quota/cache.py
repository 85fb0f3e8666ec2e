"""Where every workload stands: it holds quota, waits for it, or neither. Never both."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from headgate.engine.quota.consumption import Consumptions
from headgate.engine.quota.object_cache import QuotaObjectCache
from headgate.engine.quota.queue_usage import CountedWorkload, QueueUsages, WorkloadPhase
from headgate.engine.quota.workload_records import WorkloadRecord
from headgate.lifecycle.quota_conditions import ADMITTED, PODS_READY
from headgate.model.keys import Key
from headgate.model.queues import QueuedWorkload, StopPolicy
from headgate.model.quota_settings import QuotaSettings
from headgate.quota.ledger import Ledger, Reservation
from headgate.quota.pending_queues import PendingQueues
from headgate.quota.pending_workload import may_queue, ordered_at, with_requests
from headgate.quota.requests import reservation_of

_PENDING, _RESERVING, _ADMITTED = WorkloadPhase.PENDING, WorkloadPhase.RESERVING, WorkloadPhase.ADMITTED
_RUNS = StopPolicy.NONE


class QuotaCache:
    """The ledger, the queues and the counts, brought in line with one workload at a time.

    Quota counts as held from the moment it is promised until its return is seen, so that no mistake, delay or
    lost answer can give it away twice.
    """

    def __init__(self, objects: QuotaObjectCache, settings: QuotaSettings) -> None:
        self._objects = objects
        self._settings = settings
        self.usage = QueueUsages()
        sharing = settings.usage_sharing
        self.consumptions = Consumptions(sharing, objects, self.usage) if sharing is not None else None
        used = self.consumptions
        self.ledger = Ledger(local_use=used.used_by_reservation if used is not None else None)
        self.pending = PendingQueues(objects.may_enter, used.used_by if used is not None else None)
        self._held: dict[Key, Reservation] = {}
        self._by_local: dict[Key, dict[Key, None]] = {}

    def reshape(self, now: float) -> None:
        """Other queues and cohorts; who held quota holds it still."""
        queues, cohorts = list(self._objects.queues.values()), list(self._objects.cohorts.values())
        self.ledger = self.ledger.rebuilt(queues, cohorts)
        forest = self.ledger.forest
        trees = {name: forest.tree_of(name) for name in forest.queues}
        self.pending.configure(queues, trees, self._objects.inactive, now)

    def wake_all(self, now: float) -> None:
        for root in self.ledger.forest.roots:
            first = next(root.leaves(), None)
            if first is not None:
                self.pending.wake(first.name, now)

    def came_from_outside(self, workload: QueuedWorkload) -> None:
        """The workload is new: its tree may preempt as if it never had. Nobody is tried again for that alone."""
        if self.ledger.allocations:
            self.ledger.forget_allocations(self._objects.queue_of(workload))

    def changed_from_outside(self, workload: QueuedWorkload, now: float) -> None:
        """The workload went or was changed, or its time has come: whose preemption was withheld is tried again."""
        if self.ledger.allocations:
            queue = self._objects.queue_of(workload)
            if self.ledger.forget_allocations(queue):
                self.pending.wake(queue, now)

    def surroundings_changed(self, now: float) -> None:
        """As `changed_from_outside`, of all trees."""
        if self.ledger.allocations.forget_all():
            self.wake_all(now)

    def members(self, local: Key) -> Iterator[Key]:
        """The workloads that name this local queue."""
        return iter(list(self._by_local.get(local, ())))

    def reservations(self, queue: str) -> list[Key]:
        """The workloads that hold quota of this cluster queue."""
        return [reservation.key for reservation in self.ledger.reservations(queue)]

    def cohorts_above(self, queue: str) -> list[str]:
        """Its own cohort first, the whole tree last."""
        node = self.ledger.node(queue)
        return [cohort.name for cohort in node.ancestors()] if node is not None else []

    def place(self, record: WorkloadRecord, now: float) -> None:
        """The workload stands where what is seen and decided of it puts it."""
        workload, held, is_open, placed = record.now, record.held, record.is_open, record.placed
        if placed is not None:
            before, held_before, was_open = placed
            same = workload is before or workload.looks_like(before)
            if same and was_open is is_open and held_before == held:
                return
        record.placed = workload, held, is_open
        local, reservation = record.local or self._enter(record), None
        if held is None:
            self._place_other(workload, local, now, may_wait=is_open)
        elif workload.admission is None:
            reservation = self._place_holder(structs.replace(workload, admission=held), local, now)
        else:
            reservation = self._place_holder(workload, local, now)
        if self.consumptions is not None:
            self.consumptions.place(record.seen, local, reservation)

    def assume(self, record: WorkloadRecord, queue: str) -> None:
        """A cycle gave it quota of this queue. That is settled in ledger and queues, and remains to be noted here."""
        workload, local = record.now, record.local
        reservation = self.ledger.reservation(queue, workload.uid)
        assert reservation is not None and local is not None, "only who waits is given quota"
        record.placed = workload, record.held, record.is_open
        self._held[workload.key] = reservation
        self._count(workload, local, reservation)
        if self.consumptions is not None:
            self.consumptions.place(record.seen, local, reservation)

    def _enter(self, record: WorkloadRecord) -> Key:
        """It is one of those that name its local queue."""
        local = record.local = self._objects.local_of(record.seen)
        self._by_local.setdefault(local, {})[record.seen.key] = None
        return local

    def _place_holder(self, workload: QueuedWorkload, local: Key, now: float) -> Reservation:
        reservation = self._reserve_observed(workload, now)
        self.pending.delete(workload.key)
        self._count(workload, local, reservation)
        return reservation

    def _count(self, workload: QueuedWorkload, local: Key, reservation: Reservation) -> None:
        of = self.usage.local_usage(local, reservation.queue)
        if workload.is_true(ADMITTED):
            waits_for_pods = not reservation.evicted and _waits_for_pods(workload)
            standing = CountedWorkload(of, _ADMITTED, reservation.usage, waits_for_pods)
        else:
            standing = CountedWorkload(of, _RESERVING, reservation.usage)
        self.usage.put(workload.key, standing)

    def _place_other(self, workload: QueuedWorkload, local: Key, now: float, *, may_wait: bool) -> None:
        """It waits, if anything."""
        key = workload.key
        if key in self._held:
            self._let_go(key, now)
        queue = self._lets_in(local, workload) if may_wait else None
        if queue is not None:
            ordered = ordered_at(workload, self._settings)
            self.pending.add(with_requests(workload, queue, self._objects.requests(workload), ordered), now)
            of = self.usage.local_usage(local, queue)
            self.usage.put(key, CountedWorkload(of, _PENDING) if key in self.pending else None)
        else:
            self.pending.leave(key, now)
            self.usage.put(key, None)

    def remove(self, record: WorkloadRecord, now: float) -> None:
        """The workload is gone."""
        key = record.seen.key
        if key in self._held:
            self._let_go(key, now)
        self.pending.leave(key, now)
        self.usage.put(key, None)
        self.leave_local(record)
        if self.consumptions is not None:
            self.consumptions.leave(key)

    def leave_local(self, record: WorkloadRecord) -> None:
        """It no longer names the local queue it named."""
        if record.local is not None:
            del self._by_local[record.local][record.seen.key]
            record.local = record.placed = None  # it may come back to it before it is looked at

    def _reserve_observed(self, workload: QueuedWorkload, now: float) -> Reservation:
        reservation = reservation_of(workload, ordered_at(workload, self._settings))
        assert reservation is not None
        before = self._held.get(workload.key)
        if before is not None and (before.queue != reservation.queue or before.uid != reservation.uid):
            self._let_go(workload.key, now)
        self._held[workload.key] = reservation
        known = self.ledger.reservation(reservation.queue, reservation.uid)
        if known == reservation:
            return reservation
        if known is not None and reservation.evicted and structs.replace(known, evicted=True) == reservation:
            self.ledger.mark_evicted(known)
            return reservation
        self.ledger.hold(reservation)
        if known is not None and _gives_back(known, reservation):
            self.pending.wake(reservation.queue, now)
        return reservation

    def _let_go(self, key: Key, now: float) -> None:
        before = self._held.pop(key)
        self.ledger.leave(before.queue, before.uid)
        self.pending.wake(before.queue, now)

    def _lets_in(self, local: Key, workload: QueuedWorkload) -> str | None:
        """The queue it may wait in. One that is stopped keeps those who wait, but its local queue must let them in."""
        found = self._objects.locals.get(local)
        if found is None or found.deleted is not None or found.stop_policy is not _RUNS:
            return None
        if workload.deleted is not None or not may_queue(workload):
            return None
        return found.cluster_queue if found.cluster_queue in self._objects.queues else None


def _gives_back(before: Reservation, after: Reservation) -> bool:
    held = dict(after.usage)
    return any(amount > held.get(of, 0) for of, amount in before.usage)


def _waits_for_pods(workload: QueuedWorkload) -> bool:
    """Nobody would say it of a workload without an owner, unless somebody has begun to."""
    told = workload.condition(PODS_READY)
    return told.status != "True" if told is not None else workload.owner is not None
