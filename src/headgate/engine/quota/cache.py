"""The quota cache: reservations, pending queues and queue usage, updated one workload at a time.

A workload holds quota, waits for it, or does neither; never both."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from headgate.engine.deadlines import Deadlines
from headgate.engine.quota.consumption import Consumptions
from headgate.engine.quota.object_cache import QuotaObjectCache
from headgate.engine.quota.queue_usage import CountedWorkload, QueueUsages, WorkloadPhase
from headgate.engine.quota.workload_records import WorkloadRecord
from headgate.lifecycle.workload.conditions import ADMITTED, PODS_READY, with_status
from headgate.model.keys import Key
from headgate.model.queues import QueuedWorkload, StopPolicy
from headgate.model.settings import QuotaSettings
from headgate.quota.ledger import Ledger, Reservation
from headgate.quota.pending_queues import PendingQueues
from headgate.quota.pending_workload import may_queue, ordered_at, with_requests
from headgate.quota.requests import reservation_of

_PENDING, _RESERVING, _ADMITTED = WorkloadPhase.PENDING, WorkloadPhase.RESERVING, WorkloadPhase.ADMITTED
_RUNS = StopPolicy.NONE


class QuotaCache:
    """The ledger, the pending queues and the usage of queues, as the workload records have them.

    Quota counts as held from when it is assumed until its release is observed, so that no mistake, delay or lost
    answer can reserve it twice.
    """

    def __init__(self, objects: QuotaObjectCache, settings: QuotaSettings) -> None:
        self._objects = objects
        self._settings = settings
        self.usage = QueueUsages()
        sharing = settings.usage_sharing
        self.consumptions = Consumptions(sharing, objects, self.usage) if sharing is not None else None
        used = self.consumptions
        self.ledger = Ledger(local_use=used.used_by_reservation if used is not None else None)
        self.backoffs = Deadlines[Key]()  # of pending workloads
        self.pending = PendingQueues(objects.may_enter, used.used_by if used is not None else None, self.backoffs)
        self._by_local: dict[Key, dict[Key, WorkloadRecord]] = {}

    def reshape(self, now: float) -> None:
        """Rebuilds the cohort trees. Reservations stay; pending workloads are evaluated again."""
        queues, cohorts = list(self._objects.queues.values()), list(self._objects.cohorts.values())
        self.ledger = self.ledger.rebuilt(queues, cohorts)
        forest = self.ledger.forest
        trees = {name: forest.tree_of(name) for name in forest.queues}
        self.pending.configure(queues, trees, self._objects.inactive, now)

    def flush_backoff(self, now: float) -> None:
        """Pending workloads whose back-off is over are evaluated again, and may preempt as before it."""
        for queue in self.pending.flush_backoff(self.backoffs.due(now), now):
            self.ledger.forget_allocations(queue)

    def wake_all(self, now: float) -> None:
        for root in self.ledger.forest.roots:
            first = next(root.leaves(), None)
            if first is not None:
                self.pending.wake(first.name, now)

    def changed_from_outside(self, workload: QueuedWorkload, now: float) -> None:
        """The workload was deleted or changed, or its back-off ended: its tree's withheld preemptions are retried."""
        if self.ledger.allocations.histories:
            queue = self._objects.queue_of(workload)
            if self.ledger.forget_allocations(queue):
                self.pending.wake(queue, now)

    def objects_changed(self, now: float) -> None:
        """Queues, flavors or classes changed: withheld preemptions of all trees are tried again."""
        if self.ledger.allocations.forget_all():
            self.wake_all(now)

    def members(self, local: Key) -> Mapping[Key, WorkloadRecord]:
        """The workloads that name this LocalQueue."""
        return self._by_local.get(local, {})

    def reservations(self, queue: str) -> list[Key]:
        """The workloads that hold quota of this ClusterQueue."""
        return [reservation.key for reservation in self.ledger.reservations(queue)]

    def cohorts_above(self, queue: str) -> list[str]:
        """The cohorts above a ClusterQueue, its parent first, the root last."""
        node = self.ledger.node(queue)
        return [cohort.name for cohort in node.ancestors()] if node is not None else []

    def place(self, record: WorkloadRecord, now: float) -> None:
        """Brings the reservation, the pending queues and the usage in line with the record."""
        workload, held, is_open = record.decided, record.held(), record.is_open()
        if record.cached is not None:
            before, held_before, was_open = record.cached
            same = workload is before or workload.looks_like(before)
            if same and was_open is is_open and held_before == held:
                return
        record.cached = workload, held, is_open
        local = record.local or self._enter(record)
        if held is None:
            self._queue(record, local, now, may_wait=is_open and not record.is_finished)
        elif workload.status.admission is None:
            self._reserve(record, with_status(workload, structs.replace(workload.status, admission=held)), local, now)
        else:
            self._reserve(record, workload, local, now)
        if self.consumptions is not None:
            self.consumptions.place(record, local)

    def assume(self, record: WorkloadRecord, reservation: Reservation, now: float) -> None:
        """The pending workload holds this quota from now on, and waits no longer."""
        workload, local = record.decided, record.local
        assert local is not None, "only pending workloads are given quota"
        self.ledger.reserve(reservation)
        self.pending.delete(record.key)
        self.pending.reprice(reservation.queue, now)
        record.cached = workload, record.held(), record.is_open()
        record.reservation, record.requests = reservation, None
        self._count(record, workload, local, reservation)
        if self.consumptions is not None:
            self.consumptions.place(record, local)

    def _enter(self, record: WorkloadRecord) -> Key:
        """The workload is one of those that name its LocalQueue."""
        local = record.local = self._objects.local_of(record.observed)
        self._by_local.setdefault(local, {})[record.key] = record
        return local

    def _reserve(self, record: WorkloadRecord, workload: QueuedWorkload, local: Key, now: float) -> None:
        """The workload holds the quota of its admission, and waits for none."""
        reservation = reservation_of(workload, ordered_at(workload, self._settings))
        assert reservation is not None
        before = record.reservation
        if before is not None and before.queue != reservation.queue:
            self._release(record, now)
        record.reservation, record.requests = reservation, None
        self._put_on_ledger(reservation, now)
        self.pending.delete(workload.key)
        self._count(record, workload, local, reservation)

    def _put_on_ledger(self, reservation: Reservation, now: float) -> None:
        known = self.ledger.reservation(reservation.queue, reservation.uid)
        if known == reservation:
            return
        self.pending.reprice(reservation.queue, now)
        if known is not None and reservation.evicted and structs.replace(known, evicted=True) == reservation:
            self.ledger.mark_evicted(known)
            return
        self.ledger.reserve(reservation)
        if known is not None and (_gives_back(known, reservation) or reservation.priority < known.priority):
            self.pending.wake(reservation.queue, now)

    def _release(self, record: WorkloadRecord, now: float) -> None:
        """The quota it held is free, and workloads that wait for it are evaluated again."""
        reservation, record.reservation = record.reservation, None
        if reservation is not None:
            self.ledger.release(reservation.queue, reservation.uid)
            self.pending.wake(reservation.queue, now)

    def _queue(self, record: WorkloadRecord, local: Key, now: float, *, may_wait: bool) -> None:
        """The workload holds no quota, and waits for it if its LocalQueue lets it in."""
        workload = record.decided
        if record.reservation is not None:
            self._release(record, now)
        queue = self._queue_for(local, workload) if may_wait else None
        if queue is None:
            self._dequeue(record, now)
            return
        requests = record.requests = self._objects.requests(workload)
        ordered = ordered_at(workload, self._settings)
        is_pending = self.pending.add(with_requests(workload, queue, requests, ordered), now)
        self._count_as(record, CountedWorkload((local, queue), _PENDING) if is_pending else None)

    def _dequeue(self, record: WorkloadRecord, now: float) -> None:
        self.pending.give_up(record.key, now)
        record.requests = None
        self._count_as(record, None)

    def _count(self, record: WorkloadRecord, workload: QueuedWorkload, local: Key, reservation: Reservation) -> None:
        place = local, reservation.queue
        if workload.is_true(ADMITTED):
            waits_for_pods = not reservation.evicted and _waits_for_pods(workload)
            counted = CountedWorkload(place, _ADMITTED, reservation.usage, waits_for_pods)
        else:
            counted = CountedWorkload(place, _RESERVING, reservation.usage)
        self._count_as(record, counted)

    def _count_as(self, record: WorkloadRecord, counted: CountedWorkload | None) -> None:
        self.usage.replace(record.counted, counted)
        record.counted = counted

    def remove(self, record: WorkloadRecord, now: float) -> None:
        """The workload is gone."""
        self._release(record, now)
        self._dequeue(record, now)
        self.leave_local(record)
        if self.consumptions is not None:
            self.consumptions.drop_penalty(record)

    def leave_local(self, record: WorkloadRecord) -> None:
        """The workload no longer names the LocalQueue it named."""
        if record.local is not None:
            members = self._by_local[record.local]
            del members[record.key]
            if not members:
                del self._by_local[record.local]
            record.local = record.cached = None  # it may come back to it before it is examined

    def _queue_for(self, local: Key, workload: QueuedWorkload) -> str | None:
        """The ClusterQueue it may wait for; None when its LocalQueue or the workload itself keeps it out."""
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
    """PodsReady is awaited of workloads with an owner, and of others once the condition was set."""
    ready = workload.condition(PODS_READY)
    return ready.status != "True" if ready is not None else workload.owner is not None
