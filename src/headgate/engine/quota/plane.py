"""Quota admission: workloads get quota of their queues, and give it back; the unit is a workload, not a pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import assert_never

from headgate.engine.journal import Journal
from headgate.engine.planes import Number
from headgate.engine.quota import telling
from headgate.engine.quota.admission_cycle import AdmissionCycle
from headgate.engine.quota.books import Books
from headgate.engine.quota.counts import QuotaCounts
from headgate.engine.quota.cycles import Cycles
from headgate.engine.quota.deadlines import Deadlines
from headgate.engine.quota.desk import Desk, Sheet, Telling
from headgate.engine.quota.finalizers import InUse
from headgate.engine.quota.gauges import Measured, cohort_gauges, queue_gauges
from headgate.engine.quota.local_gauges import local_gauges, usage_gauges
from headgate.engine.quota.pace import Pace
from headgate.engine.quota.statuses import QueueStatuses
from headgate.engine.quota.surroundings import QuotaSurroundings
from headgate.engine.quota.workload_gauges import workload_gauges
from headgate.engine.scheduler.events import saturated_entry, saturated_event
from headgate.engine.scheduler.plugins import ADMISSION, Watch, unwatched
from headgate.lifecycle.quota_conditions import ADMITTED, FINISHED
from headgate.lifecycle.quota_deadlines import next_deadline
from headgate.lifecycle.quota_next import Step, next_step
from headgate.model.effects import (
    Delete,
    Effect,
    EmitEvent,
    PatchSpec,
    PatchStatus,
    QueuedWorkloadStatus,
    QueuePriority,
    Write,
)
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, Trouble
from headgate.model.keys import Key, Kind
from headgate.model.objects import Object
from headgate.model.queues import LocalQueue, QueuedWorkload
from headgate.model.resources import saturated
from headgate.model.settings import Settings
from headgate.queueing.backoff import Backoff
from headgate.quota.order import changed_from_outside

_WORKLOAD = Kind.KUEUE_WORKLOAD  # found sooner than members of enums
_CHANGES = (PatchStatus, PatchSpec, Delete)
MOST_STEPS = 10  # of one workload at once; each rule is true of it at most once


class QuotaPlane:
    """One plane of the engine. `absorb` takes what is now true, `decide` yields what to do about it."""

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

    def __init__(self, settings: Settings, journal: Journal, watch: Watch = unwatched) -> None:
        self._settings = settings.quota
        self._journal = journal
        self._surroundings = QuotaSurroundings(settings.quota)
        backoff = Backoff(settings.initial_backoff, settings.max_backoff)
        self._desk = Desk(backoff)
        self._books = Books(self._surroundings, settings.quota)
        self._counts = QuotaCounts(self._surroundings.tells_of, self._books.cohorts_above)
        self._cycles = Cycles(
            settings.quota,
            watch(AdmissionCycle(), ADMISSION),
            surroundings=self._surroundings,
            books=self._books,
            desk=self._desk,
            counts=self._counts,
            journal=journal,
        )
        self._in_use = InUse(self._surroundings, self._books.tally, backoff)
        self._statuses = QueueStatuses(
            self._surroundings,
            self._books.tally,
            self._in_use,
            backoff,
            is_fair=settings.quota.is_fair,
            consumptions=self._books.consumptions,
        )
        self._deadlines = Deadlines()
        self._touched: dict[Key, bool] = {}  # of whom something was heard; whether to look again if it looks the same
        self._event_pace = Pace(seconds=0.125, ahead=200)
        self._waited_for_pods = False
        self.deciding: Key | None = None

    def absorb(self, event: Event, now: float) -> Iterable[Effect]:
        told: Iterable[Telling] = ()
        if isinstance(event, Observed):
            found = event.object
            if isinstance(found, QueuedWorkload):
                told = self._observe_workload(found, now)
            else:
                self._observe(found, now)
        elif isinstance(event, Outcome):
            told = self._hear(event.effect, event.trouble, now)
        elif isinstance(event, Gone):
            self._lose(event.key, event.uid, now)
        elif not isinstance(event, TimerFired):
            assert_never(event)
        return self._paced(told, now) if told else ()

    def decide(self, now: float) -> Iterator[Effect]:
        self._settle_surroundings(now)
        self._sample(now)
        for key in self._deadlines.due(now):
            self._touch(key)
        self._settle_forgotten(now)
        self._examine_all(now)
        self._wake_when_all_are_ready(now)
        self._cycles.run(now, self._touch)
        self._cycles.tell(now)
        self._examine_all(now)
        yield from self._desk.send(now)
        yield from self._in_use.settle(now)
        yield from self._statuses.settle(self._books.ledger, now)
        yield from self._deadlines.wake_later(self._other_deadlines(), now)

    def check(self) -> None:
        """What must hold after every step, for what this step touched: no quota was given that was not there."""
        ledger = self._books.ledger
        for promise in self._cycles.promises.values():
            node = ledger.node(promise.queue)
            assert node is not None, f"{promise.key} got quota of {promise.queue}, which is not there"
            for of, amount in promise.usage:
                over = -node.accounts[of].available() if amount else 0
                assert over <= 0, f"{promise.key} got {amount} of {of}, {over} more than there is"
            assert promise.key not in self._books.pending, f"{promise.key} both waits and holds quota"

    def numbers(self) -> Iterator[Number]:
        """What can be counted or measured now, by metric, labels and value."""
        yield from self._counts.numbers()
        measured = Measured(self._surroundings, self._books, self._settings)
        yield from queue_gauges(measured)
        yield from cohort_gauges(measured)
        yield from local_gauges(measured)
        yield from workload_gauges(measured, self._desk, self._cycles.refusals)
        yield from usage_gauges(measured)

    # what is now true

    def _paced(self, events: Iterable[Telling], now: float) -> Iterable[EmitEvent]:
        """Conditions say all that matters: where thousands come and go, most events are left out."""
        return [tell() for tell in events if self._event_pace.take(now)]

    def _hear(self, written: Write, trouble: Trouble | None, now: float) -> Iterable[Telling]:
        """How a write went."""
        if not isinstance(written, _CHANGES):
            return ()
        key = written.target.key
        if key.kind is _WORKLOAD:
            self._touched.setdefault(key, False)
            return self._desk.answer(written, trouble, now)
        if isinstance(written, PatchStatus):
            self._statuses.answered(written, trouble, now)
        elif isinstance(written, PatchSpec):
            self._in_use.answered(written, trouble, now)
        return ()

    def _observe_workload(self, workload: QueuedWorkload, now: float) -> Iterable[Telling]:
        key = workload.key
        sheet = self._desk.get(key)
        if sheet is not None and sheet.seen.uid == workload.uid:
            self._note_change(sheet, sheet.seen, workload, now)
        else:
            if sheet is not None:
                self._lose(key, sheet.seen.uid, now)
            self._books.came_from_outside(workload)
        self._touched.setdefault(key, False)
        told = self._desk.observe(workload)
        return told if sheet is not None else (*told, *self._warn(workload, now))

    def _warn(self, workload: QueuedWorkload, now: float) -> Iterator[Telling]:
        names = {name for pod_set in workload.pod_sets for name in saturated(pod_set.shape.requests)}
        if names:
            entry = saturated_entry(workload.key, tuple(sorted(names)), now)
            self._journal.write(entry)
            yield partial(saturated_event, workload.target, entry)

    def _note_change(self, sheet: Sheet, before: QueuedWorkload, after: QueuedWorkload, now: float) -> None:
        if self._books.ledger.allocations and changed_from_outside(before, after):
            self._books.changed_from_outside(before, now)
            self._books.changed_from_outside(after, now)
        if before.queue != after.queue:
            self._books.leave_local(sheet)
        given = before.admission
        queue = given.cluster_queue if given is not None else self._surroundings.queue_of(after)
        self._counts.seen(before, after, queue, now)
        used = self._books.consumptions
        if used is not None and not before.is_true(ADMITTED) and after.is_true(ADMITTED):
            local = self._surroundings.local_of(after)
            used.settle(after.key, local, self._surroundings.queue_of(after), now)
            self._statuses.touch(local)

    def _observe(self, found: Object, now: float) -> None:
        if isinstance(found, LocalQueue):
            known = self._surroundings.locals.get(found.key)
            if known is None or known.labels != found.labels:
                self._counts.sum_up()
        self._surroundings.observe(found)
        if self._books.consumptions is not None and isinstance(found, LocalQueue):
            self._books.consumptions.open(found, now)
        self._in_use.touch(found.key)

    def _lose(self, key: Key, uid: str, now: float) -> None:
        if key.kind is not _WORKLOAD:
            self._surroundings.lose(key, uid)
            self._statuses.lose(key)
            self._in_use.lose(key)
            self._counts.forget(key)
            if self._books.consumptions is not None and key not in self._surroundings.locals:
                self._books.consumptions.close(key)
            return
        sheet = self._desk.lose(key, uid)
        if sheet is not None:
            if not sheet.is_finished:
                self._books.changed_from_outside(sheet.seen, now)
            self._books.remove(sheet, now)
            self._cycles.refusals.drop(key)
            self._counts.lose(key)
            self._deadlines.drop(key)
            self._touched.pop(key, None)
            self._journal.forget(key)

    def _touch(self, key: Key) -> None:
        """Something around it has changed, or its time has come."""
        self._touched[key] = True

    def _touch_all(self, keys: Iterable[Key]) -> None:
        self._touched.update(dict.fromkeys(keys, True))

    # what to do

    def _settle_surroundings(self, now: float) -> None:
        """Other queues, other quota: whoever is concerned is looked at again."""
        around = self._surroundings
        if around.take_reshaped():
            self._counts.sum_up()
            self._books.reshape(now)
            self._in_use.touch_leaving()
        elif around.take_relabeled():
            self._books.ledger.allocations.forget_all()
            self._books.wake_all(now)
        if around.changed_queues or around.changed_locals or around.changed_classes:
            self._books.surroundings_changed(now)
            self._touch_changed()

    def _touch_changed(self) -> None:
        around = self._surroundings
        for queue in around.changed_queues:
            self._statuses.touch(Key(Kind.CLUSTER_QUEUE, "", queue))
            around.changed_locals.update(dict.fromkeys(around.locals_of(queue)))
            self._touch_all(self._books.holders(queue))
        for local in around.changed_locals:
            self._statuses.touch(local)
            self._touch_all(self._books.members(local))
        if around.changed_classes:
            self._touch_all(self._desk)
        around.changed_queues, around.changed_locals, around.changed_classes = {}, {}, {}

    def _sample(self, now: float) -> None:
        """What local queues used lately is worked out anew, and with it who goes first."""
        if self._books.consumptions is None:
            return
        for local in self._books.consumptions.sample(now):
            self._statuses.touch(local)
            queue = self._surroundings.locals[local].cluster_queue
            self._books.ledger.forget_allocations(queue)
            self._books.pending.reorder(queue)

    def _settle_forgotten(self, now: float) -> None:
        """What was decided did not come about: decided anew, and so is what others were refused for its sake."""
        self._desk.give_up(now)
        for key in self._desk.take_forgotten():
            sheet = self._desk.get(key)
            if sheet is not None:
                self._journal.write(telling.forgotten(sheet.seen, now))
                self._touch(key)
                self._books.pending.wake(self._surroundings.queue_of(sheet.seen), now)

    def _examine_all(self, now: float) -> None:
        if not self._touched:
            return
        touched, self._touched = self._touched, {}
        find, place = self._desk.get, self._books.place
        for key, looks_again in touched.items():
            self.deciding = key
            sheet = find(key)
            if sheet is None:
                continue
            if looks_again:
                sheet.rested = sheet.placed = None
            if not sheet.is_at_rest and sheet.is_open:
                self._examine(sheet, now)
                self._deadlines.put(key, next_deadline(sheet.now, self._settings), now)
            place(sheet, now)
            if sheet.now.admission is None:
                self._cycles.pass_over(sheet, now)
        self.deciding = None

    def _examine(self, sheet: Sheet, now: float) -> None:
        """Step after step, as far as one write goes: what changes the spec is a write of its own."""
        for _ in range(MOST_STEPS):
            workload = sheet.now
            step = self._priority_step(workload) if workload.priority_class is not None else None
            step = step or next_step(workload, self._surroundings.around(workload), now)
            if step is None:
                sheet.rested = workload
                return
            is_status = isinstance(step.change, QueuedWorkloadStatus)
            if not is_status and (sheet.wanted is not None or sheet.sent is not None):
                return
            self._take(workload, step, now)
            if not is_status:
                return
        raise AssertionError(f"{sheet.seen.key} never comes to rest")

    def _take(self, workload: QueuedWorkload, step: Step, now: float) -> None:
        if step.decision:
            self._journal.write(telling.stepped(workload, step, now))
        if step.decision == "requeue" and workload.requeue is not None and workload.requeue.at is not None:
            self._books.changed_from_outside(workload, now)
        self._desk.want(workload.key, step.change, *telling.step_events(workload, step, now))

    def _priority_step(self, workload: QueuedWorkload) -> Step | None:
        """Its WorkloadPriorityClass is worth something else by now."""
        value = self._surroundings.priority_of(workload)
        if value is None or value == workload.priority or workload.deleted is not None or workload.is_true(FINISHED):
            return None
        message = f"its WorkloadPriorityClass is worth {value}, not {workload.priority}"
        return Step("prioritize", "PriorityChanged", message, QueuePriority(value))

    def _wake_when_all_are_ready(self, now: float) -> None:
        """Where nothing is admitted before the pods of all are ready, everybody gets a chance when they are."""
        waits = self._settings.block_admission and self._books.tally.waiting_for_pods > 0
        if self._waited_for_pods and not waits:
            self._books.wake_all(now)
        self._waited_for_pods = waits

    def _other_deadlines(self) -> tuple[float | None, ...]:
        consumptions = self._books.consumptions
        return (
            self._desk.next_deadline(),
            self._in_use.next_deadline(),
            self._books.pending.next_deadline(),
            self._statuses.next_deadline(),
            self._cycles.refusals.next_deadline(),
            consumptions.next_deadline() if consumptions is not None else None,
        )
