"""The quota plane: reserves and releases quota for Workloads of Kueue's kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from operator import call
from typing import assert_never

from headgate.engine.deadlines import Timer
from headgate.engine.in_flight import AwaitedPermits, InformPermits
from headgate.engine.journal import Journal
from headgate.engine.metrics import ADMISSION, Number, PluginObserver, unwatched
from headgate.engine.planes import saturated_entry, saturated_event
from headgate.engine.quota import events
from headgate.engine.quota.admission_cycle import AdmissionCycle
from headgate.engine.quota.admission_loop import AdmissionLoop
from headgate.engine.quota.cache import QuotaCache
from headgate.engine.quota.finalizers import InUse
from headgate.engine.quota.gauges import (
    Measured,
    cohort_gauges,
    local_gauges,
    queue_gauges,
    usage_gauges,
    workload_gauges,
)
from headgate.engine.quota.metrics import AdmissionMetrics
from headgate.engine.quota.object_cache import QuotaObjectCache
from headgate.engine.quota.statuses import QueueStatuses
from headgate.engine.quota.workload_records import LazyEvent, WorkloadRecord, WorkloadRecords
from headgate.lifecycle.terminating import running_since
from headgate.lifecycle.workload.conditions import ADMITTED, FINISHED, no_longer_gated
from headgate.lifecycle.workload.deadlines import next_deadline
from headgate.lifecycle.workload.next_step import Step, next_step
from headgate.model.effects import Delete, Effect, PatchSpec, PatchStatus, QueuePriority, Write
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.keys import Key, Kind
from headgate.model.objects import Object
from headgate.model.queues import LocalQueue, QueuedWorkload, QueuedWorkloadStatus
from headgate.model.resources import saturated
from headgate.model.settings import Settings
from headgate.queueing.backoff import Backoff
from headgate.quota.pending_workload import changed_from_outside

_WORKLOAD = Kind.KUEUE_WORKLOAD  # found sooner than members of enums
_CHANGES = (PatchStatus, PatchSpec, Delete)
TIMER = "quota"
MOST_STEPS = 10  # of one workload at once; each rule is true of it at most once


class QuotaPlane:
    """One plane of the engine: `absorb` takes observations and answers, `decide` yields writes and timers."""

    timer = TIMER
    reads = (
        Kind.NAMESPACE,
        Kind.LIMIT_RANGE,
        Kind.RUNTIME_CLASS,
        Kind.RESOURCE_FLAVOR,
        Kind.ADMISSION_CHECK,
        Kind.WORKLOAD_PRIORITY_CLASS,
        Kind.COHORT,
        Kind.CLUSTER_QUEUE,
        Kind.LOCAL_QUEUE,
        Kind.KUEUE_WORKLOAD,
    )

    def __init__(self, settings: Settings, journal: Journal, watch: PluginObserver = unwatched) -> None:
        self._settings = settings.quota
        self._keeps_finished = settings.quota.retention.after_finished is None
        self._journal = journal
        self._objects = QuotaObjectCache(settings.quota)
        backoff = Backoff(settings.initial_backoff, settings.max_backoff)
        self.permits = InformPermits()
        self._records = WorkloadRecords(backoff, self.permits)
        self._cache = QuotaCache(self._objects, settings.quota)
        self._metrics = AdmissionMetrics(self._objects.reports_on, self._cache.cohorts_above)
        self._loop = AdmissionLoop(
            settings.quota,
            watch(AdmissionCycle(), ADMISSION),
            objects=self._objects,
            cache=self._cache,
            records=self._records,
            metrics=self._metrics,
            journal=journal,
            evicted=self._mark_dirty,
        )
        self._in_use = InUse(self._objects, self._cache.usage, backoff)
        self._statuses = QueueStatuses(
            self._objects,
            self._cache.usage,
            self._in_use,
            backoff,
            self.permits,
            is_fair=settings.quota.is_fair,
            consumptions=self._cache.consumptions,
        )
        consumptions = self._cache.consumptions
        self._timer = Timer(
            TIMER,
            self._records.deadlines,
            self._records.writes.deadlines,
            self._in_use.writes.deadlines,
            self._cache.backoffs,
            *self._statuses.deadlines,
            *(() if consumptions is None else (consumptions.samples,)),
        )
        self._dirty: dict[Key, bool] = {}  # of whom something was heard; whether to look again if it looks the same
        self._waited_for_pods = False
        self.deciding: Key | None = None

    def absorb(self, event: Event, now: float) -> Iterable[Effect]:
        emitted: Iterable[LazyEvent] = ()
        if isinstance(event, Observed):
            found = event.object
            if isinstance(found, QueuedWorkload):
                emitted = self._observe_workload(found, now)
            else:
                self._observe(found, now)
        elif isinstance(event, Outcome):
            emitted = self._answer(event.effect, event.trouble, now)
        elif isinstance(event, Gone):
            self._delete(event.key, event.uid, now)
        elif not isinstance(event, TimerFired):
            assert_never(event)
        return list(map(call, emitted)) if emitted else ()

    @property
    def awaited_permits(self) -> AwaitedPermits | None:
        """The informative writes that wait for permits; None when none does."""
        return AwaitedPermits.of_all(self._records.awaited_permits, self._statuses.awaited_permits)

    def decide(self, now: float) -> Iterator[Effect]:
        records, is_due = self._records, self._timer.at <= now
        self._apply_object_changes(now)
        self._sample(now)
        if is_due:
            self._mark_all_dirty(sorted(records.deadlines.due(now)))
            records.flush_due(now)
        if records.forgotten:
            self._requeue_forgotten(now)
        self._examine_all(now)
        self._wake_when_pods_are_ready(now)
        if is_due:
            self._cache.flush_backoff(now)
        self._loop.run(now)
        if records.refused:
            self._loop.report_refusals(now)
        self._examine_all(now)
        if records.has_unsent:
            yield from records.send(now)
        yield from self._in_use.settle(now, is_due=is_due)
        yield from self._statuses.settle(self._cache.ledger, now, is_due=is_due)
        yield from self._timer.wake_at(now, now if self._loop.goes_on else None)

    def check(self) -> None:
        """Asserts what must hold after every step: no reservation made in it exceeds the quota of its queue."""
        ledger = self._cache.ledger
        for assumed in self._loop.assumed.values():
            node = ledger.node(assumed.queue)
            assert node is not None, f"{assumed.key} got quota of {assumed.queue}, which is not there"
            for of, amount in assumed.usage:
                over = -node.accounts[of].available() if amount else 0
                assert over <= 0, f"{assumed.key} got {amount} of {of}, {over} more than there is"
            assert assumed.key not in self._cache.pending, f"{assumed.key} both waits and holds quota"

    def collect(self) -> Iterator[Number]:
        """All metrics of the plane: name, labels and value."""
        yield from self._metrics.collect()
        measured = Measured(self._objects, self._cache, self._settings)
        yield from queue_gauges(measured)
        yield from cohort_gauges(measured)
        yield from local_gauges(measured)
        yield from workload_gauges(measured, self._records)
        yield from usage_gauges(measured)

    # what is now true

    def _answer(self, written: Write, trouble: WriteError | None, now: float) -> Iterable[LazyEvent]:
        """Takes the server's answer to a write; returns the events of a write that was accepted."""
        if not isinstance(written, _CHANGES):
            return ()
        key = written.target.key
        if key.kind is _WORKLOAD:
            self._dirty.setdefault(key, False)
            return self._records.answer(written, trouble, now)
        if isinstance(written, PatchStatus):
            self._statuses.answered(written, trouble, now)
        elif isinstance(written, PatchSpec):
            self._in_use.answered(written, trouble, now)
        return ()

    def _observe_workload(self, workload: QueuedWorkload, now: float) -> Iterable[LazyEvent]:
        key = workload.key
        record = self._records.get(key)
        if record is not None:
            if record.observed.uid == workload.uid:
                self._note_change(record, workload, now)
                self._dirty.setdefault(key, False)
                return self._records.observe(record, workload)
            self._delete(key, record.observed.uid, now)
        if self._cache.ledger.allocations.histories:  # nobody is evaluated again for a new workload alone
            self._cache.ledger.forget_allocations(self._objects.queue_of(workload))
        self._dirty[key] = False
        self._records.add(workload)
        return self._warn(workload, now) if record is None else ()

    def _warn(self, workload: QueuedWorkload, now: float) -> tuple[LazyEvent, ...]:
        names = saturated(*[pod_set.shape.requests for pod_set in workload.pod_sets])
        if not names:
            return ()
        entry = saturated_entry(workload.key, names, now)
        self._journal.write(entry)
        return (partial(saturated_event, workload.target, entry),)

    def _note_change(self, record: WorkloadRecord, after: QueuedWorkload, now: float) -> None:
        before = record.observed
        if self._cache.ledger.allocations.histories and changed_from_outside(before, after):
            self._cache.changed_from_outside(before, now)
            self._cache.changed_from_outside(after, now)
        if before.queue != after.queue:
            self._cache.leave_local(record)
        given = before.status.admission
        queue = given.cluster_queue if given is not None else self._objects.queue_of(after)
        self._metrics.observe(record, after, queue, now)
        if given is not None and self._cache.pending.priced and running_since(before) != running_since(after):
            self._cache.pending.reprice(queue, now)  # those who wait for a gate may cost more or less work
        used = self._cache.consumptions
        if used is not None and not before.is_true(ADMITTED) and after.is_true(ADMITTED):
            local = self._objects.local_of(after)
            used.settle(record, local, self._objects.queue_of(after), now)
            self._statuses.mark_dirty(local)

    def _observe(self, found: Object, now: float) -> None:
        if isinstance(found, LocalQueue):
            known = self._objects.locals.get(found.key)
            if known is None or known.labels != found.labels:
                self._metrics.sum_up()
        self._objects.observe(found)
        if self._cache.consumptions is not None and isinstance(found, LocalQueue):
            self._cache.consumptions.open(found, self._cache.members(found.key).values(), now)
        self._in_use.observe(found.key)

    def _delete(self, key: Key, uid: str, now: float) -> None:
        if key.kind is not _WORKLOAD:
            self._objects.lose(key, uid)
            self._statuses.lose(key)
            self._in_use.lose(key)
            self._metrics.forget(key)
            if self._cache.consumptions is not None and key not in self._objects.locals:
                self._cache.consumptions.close(key)
            return
        record = self._records.lose(key, uid)
        if record is not None:
            if not record.is_finished:
                self._cache.changed_from_outside(record.observed, now)
            self._cache.remove(record, now)
            self._dirty.pop(key, None)
            self._journal.forget(key)

    def _mark_dirty(self, key: Key) -> None:
        """The workload is examined in this step even if it looks the same as when it was last examined."""
        self._dirty[key] = True

    def _mark_all_dirty(self, keys: Iterable[Key]) -> None:
        self._dirty.update(dict.fromkeys(keys, True))

    # what to do

    def _apply_object_changes(self, now: float) -> None:
        """Applies changes of queues, cohorts, flavors, checks and namespaces, and marks their workloads dirty."""
        objects = self._objects
        if objects.reshaped and objects.take_reshaped():
            self._metrics.sum_up()
            self._cache.reshape(now)
            self._in_use.mark_leaving_dirty()
            self._statuses.mark_shares_dirty()
        elif objects.relabeled and objects.take_relabeled():
            self._cache.ledger.allocations.forget_all()
            self._cache.wake_all(now)
        if objects.changed_queues or objects.changed_locals or objects.changed_classes:
            self._cache.objects_changed(now)
            self._mark_changed_dirty()

    def _mark_changed_dirty(self) -> None:
        objects = self._objects
        for queue in objects.changed_queues:
            self._statuses.mark_dirty(Key(Kind.CLUSTER_QUEUE, "", queue))
            objects.changed_locals.update(dict.fromkeys(objects.locals_of(queue)))
            self._mark_all_dirty(self._cache.reservations(queue))
        for local in objects.changed_locals:
            self._statuses.mark_dirty(local)
            self._mark_all_dirty(self._cache.members(local))
        if objects.changed_classes:
            self._mark_all_dirty(self._records)
        objects.changed_queues, objects.changed_locals, objects.changed_classes = {}, {}, {}

    def _sample(self, now: float) -> None:
        """Samples the usage of LocalQueues whose interval is over, and reorders their ClusterQueues by it."""
        if self._cache.consumptions is None:
            return
        for local in self._cache.consumptions.sample(now):
            self._statuses.mark_dirty(local)
            queue = self._objects.locals[local].cluster_queue
            self._cache.ledger.forget_allocations(queue)
            self._cache.pending.reorder(queue)

    def _requeue_forgotten(self, now: float) -> None:
        """Decisions that did not take effect are made anew, and so are refusals that followed from them."""
        for key in self._records.take_forgotten():
            record = self._records.get(key)
            if record is not None:
                self._journal.write(events.forgotten(record.observed, now))
                self._mark_dirty(key)
                self._cache.pending.wake(self._objects.queue_of(record.observed), now)

    def _examine_all(self, now: float) -> None:
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, {}
        find, place = self._records.get, self._cache.place
        for key, looks_again in dirty.items():
            self.deciding = key
            record = find(key)
            if record is None:
                continue
            if looks_again:
                record.examined = record.cached = None
            if not record.is_examined() and record.is_open():
                if record.is_finished and self._keeps_finished and record.decided.deleted is None:
                    record.examined = record.decided  # nothing more becomes of it
                    self._records.deadlines.drop(key)
                else:
                    self._examine(record, now)
                    self._set_deadline(record, now)
            place(record, now)
            if record.decided.status.admission is None:
                self._loop.report_bypassed(record, now)
        self.deciding = None

    def _set_deadline(self, record: WorkloadRecord, now: float) -> None:
        """Of a workload just examined, so only a deadline in the future counts."""
        at, deadlines = next_deadline(record.decided, self._settings), self._records.deadlines
        if at is not None and at > now:
            deadlines.set(record.key, at)
        else:
            deadlines.drop(record.key)

    def _examine(self, record: WorkloadRecord, now: float) -> None:
        """Applies lifecycle steps until none is left, or one needs a write of its own, as a change of the spec."""
        for _ in range(MOST_STEPS):
            workload = record.decided
            step = self._priority_step(workload) if workload.priority_class is not None else None
            step = step or next_step(workload, self._objects.queue_snapshot(workload), now)
            if step is None:
                record.examined = workload
                return
            is_status = isinstance(step.change, QueuedWorkloadStatus)
            if not is_status and (record.wanted is not None or record.sent is not None):
                return
            self._apply_step(record, step, now)
            if not is_status:
                return
        raise AssertionError(f"{record.key} never comes to rest")

    def _apply_step(self, record: WorkloadRecord, step: Step, now: float) -> None:
        workload = record.decided
        if step.decision:
            self._journal.write(events.stepped(workload, step, now))
        if (
            step.decision == "requeue"
            and workload.status.requeue is not None
            and workload.status.requeue.at is not None
        ):
            self._cache.changed_from_outside(workload, now)
        informs = step.decision == "wait" and not no_longer_gated(workload, step.reason)
        self._records.want(record, step.change, *events.step_events(workload, step, now), informs=informs)

    def _priority_step(self, workload: QueuedWorkload) -> Step | None:
        """The step to the priority its WorkloadPriorityClass has now; None when it has that."""
        value = self._objects.priority_of(workload)
        if value is None or value == workload.priority or workload.deleted is not None or workload.is_true(FINISHED):
            return None
        message = f"its WorkloadPriorityClass is worth {value}, not {workload.priority}"
        return Step("prioritize", "PriorityChanged", message, QueuePriority(value))

    def _wake_when_pods_are_ready(self, now: float) -> None:
        """With blockAdmission, pending workloads are evaluated again once the pods of all admitted are ready."""
        waits = self._settings.block_admission and self._cache.usage.waiting_for_pods > 0
        if self._waited_for_pods and not waits:
            self._cache.wake_all(now)
        self._waited_for_pods = waits
