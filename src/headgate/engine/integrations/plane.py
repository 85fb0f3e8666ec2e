"""The integrations plane: jobs and pods get a Workload, start when it is admitted, stop when it is evicted, and end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from headgate.engine.deadlines import Deadlines, Timer
from headgate.engine.integrations.debt import DebtStatuses
from headgate.engine.integrations.debt_and_holds import DebtAndHolds
from headgate.engine.integrations.failure_recovery import FailureRecovery
from headgate.engine.integrations.job_index import FlavorOrClass, FlavorsAndClasses, JobIndex, job_key
from headgate.engine.integrations.writes import JobWrites
from headgate.engine.journal import Entry, Journal
from headgate.engine.metrics import Bounds, Distributions, Number
from headgate.lifecycle.jobframework.generic_job import GenericJob
from headgate.lifecycle.jobframework.job import suspend_child_job
from headgate.lifecycle.jobframework.reconciler import JobState, expires_at, reconcile, without_finalizer
from headgate.lifecycle.workload.conditions import ADMITTED, EVICTED, FINISHED, second, true_conditions, true_since
from headgate.model.effects import (
    ClusterQueueDebt,
    Create,
    Delete,
    Effect,
    EmitEvent,
    EventType,
    JobStart,
    PatchSpec,
    PatchStatus,
    PodStart,
    WakeAt,
    Write,
)
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import ADMISSION_GATE
from headgate.model.node import Node
from headgate.model.objects import Job, Namespace, Object, StatefulSet
from headgate.model.pod import Pod
from headgate.model.queues import ClusterQueue, Cohort, QueuedWorkload
from headgate.model.settings import DEPLOYMENTS, JOBS, PODS, STATEFUL_SETS, Settings

TIMER = "integrations"
_KINDS = {
    JOBS: (Kind.JOB,),
    PODS: (Kind.POD,),
    DEPLOYMENTS: (Kind.POD,),
    STATEFUL_SETS: (Kind.STATEFUL_SET, Kind.POD),
}
_QUEUE_KINDS = (Kind.CLUSTER_QUEUE, Kind.COHORT)
_STUCK = "the pod has not ended within its grace period; the room that its quota stood for is still taken"
_DECISIONS = {
    "CreatedWorkload": "create",
    "UpdatedWorkload": "update",
    "DeletedWorkload": "delete",
    "Started": "start",
    "Stopped": "stop",
    "FinishedWorkload": "finish",
    "ExcessPodDeleted": "delete",
    "WaitingForRoom": "hold",
    "Suspended": "stop",
    "Deleted": "delete",
}
"""What the journal calls the decision that an event reports."""

CREATION = "kueue_workload_creation_latency_seconds"
GATE_REMOVAL = "kueue_pod_scheduling_gate_removal_seconds"
BOUNDS: Mapping[str, Bounds] = {
    CREATION: tuple(0.01 * 2**n for n in range(11)),
    GATE_REMOVAL: (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
}


class IntegrationsPlane:
    """A plane of the engine. Each job that something happened to is reconciled once a step, as it is then."""

    timer = TIMER

    def __init__(self, settings: Settings, journal: Journal) -> None:
        quota = settings.quota
        self._journal = journal
        self._kinds = frozenset(kind for name in quota.frameworks for kind in _KINDS[name])
        self._index = JobIndex(quota)
        self._classes = FlavorsAndClasses()
        self._latencies = StartLatencies(self._index)
        self._writes = JobWrites()
        self._debt = DebtAndHolds(self._index.workload_for, self._classes.flavors, quota.max_hold, quota.debt_percent)
        self._debt_statuses = DebtStatuses(journal)
        self._recovery = FailureRecovery(is_on=quota.recovers_failures)
        self._kept_for = quota.retention.after_deactivated
        self._copied = quota.copied_labels
        self._touched: dict[Key, None] = {}  # jobs to be reconciled
        self._has_news = True  # something was absorbed since the last decision
        self._retries = Deadlines[Key]()  # jobs to be reconciled when a time has come
        writes = self._writes.in_flight
        self._timer = Timer(
            TIMER, self._retries, writes.deadlines, *self._debt_statuses.deadlines, *self._recovery.deadlines
        )
        self._idle_timer = Timer(TIMER, writes.idle_deadlines, self._debt.terminating.deadlines, idle=True)
        self._warnings: dict[Key, str] = {}  # the last one given, by job
        self._started: list[Key] = []  # jobs that this step started
        self._starting: dict[Key, None] = {}  # jobs whose start is in flight
        self.deciding: Key | None = None

    @property
    def reads(self) -> tuple[Kind, ...]:
        """Pods are read also where only Jobs are managed: those of Jobs hold capacity longer than quota."""
        managed = tuple(kind for kind in (Kind.JOB, Kind.STATEFUL_SET) if kind in self._kinds)
        queues = (*FlavorsAndClasses.reads, *_QUEUE_KINDS, Kind.KUEUE_WORKLOAD)
        return (Kind.NAMESPACE, *queues, *managed, Kind.NODE, Kind.POD)

    def absorb(self, event: Event, now: float) -> Iterable[Effect]:
        match event:
            case Observed(object=found):
                self._has_news = True
                self._touched.update(dict.fromkeys(self._observe(found)))
            case Gone(key=key, uid=uid):
                self._has_news = True
                self._touched.update(dict.fromkeys(self._lose(key, uid)))
            case Outcome():
                self._answer(event, now)
                return self._writes.take_events(event)
            case TimerFired():
                self._has_news = True
            case _:
                assert_never(event)
        return ()

    def decide(self, now: float) -> Iterator[Effect]:
        self._started = []
        is_due = self._timer.at <= now or self._idle_timer.at <= now
        if not self._has_news and not is_due:
            return
        self._has_news = False
        self._debt.begin_step(self._touched)
        if self._debt.terminating.pods:
            yield from self._report_stuck_pods(now)
        if is_due:
            self._touched.update(dict.fromkeys((*self._writes.due(now), *self._retries.due(now))))
        self._touch_unblocked()
        while touched := self._take_touched(now):
            for key in touched:
                self.deciding = key
                yield from self._reconcile(key, now)
                self._touch_unblocked()
        self.deciding = None
        if self._recovery.pods:
            yield from self._recovery.settle(now)
        if self._debt_statuses.has_work or self._debt.debts.changed_queues:
            debts = self._debt.debts
            yield from self._debt_statuses.settle(debts.of_queue, debts.take_changed_queues(), now)
        yield from self._timer.wake_at(now, self._debt.holds_until if self._debt.holds else None)
        yield from self._idle_timer.wake_at(now)

    def check(self) -> None:
        """Nothing starts without quota: what must hold after every step, for what this step started."""
        for key in self._started:
            job = self._index.find(key)
            workload = self._index.workload_of(job)[0] if job is not None else None
            assert workload is not None, f"{key} was started without a Workload"
            assert workload.is_true(ADMITTED), f"{key} was started though {workload.key} is not admitted"
            assert not workload.is_true(FINISHED), f"{key} was started though {workload.key} is finished"

    def collect(self) -> Iterator[Number]:
        yield from self._latencies
        for queue, debt in self._debt.debts.by_queue():
            for (flavor, resource), amount in sorted(debt.items()):
                labels = (("cluster_queue", queue), ("flavor", flavor), ("resource", resource))
                yield "headgate_released_debt", labels, amount
        yield "headgate_work_waiting_for_room", (), len(self._debt.holds)
        yield "headgate_stuck_terminating_pods", (), len(self._debt.terminating.stuck)

    # what is now true

    def _observe(self, found: Object) -> Iterable[Key]:
        """Notes how the object is; returns the jobs it concerns."""
        if found.key in self._writes.pending:
            self._writes.observe(found.key, found.version)
        match found:
            case Pod():
                return self._observe_pod(found)
            case Job():
                return self._index.put_job(found) if Kind.JOB in self._kinds else ()
            case StatefulSet():
                return self._index.put_stateful_set(found) if Kind.STATEFUL_SET in self._kinds else ()
            case QueuedWorkload():
                return self._index.put_workload(found)
            case Namespace():
                return self._index.put_namespace(found)
            case ClusterQueue():
                self._debt_statuses.put_queue(found)
                self._debt.put_queue(found)
            case Cohort():
                self._debt.put_queue(found)
            case Node():
                self._debt.put_node(found)
                self._recovery.put_node(found)
            case _ if isinstance(found, FlavorOrClass) and self._classes.put(found):
                return self._index.everything()
        return ()

    def _observe_pod(self, pod: Pod) -> Iterable[Key]:
        self._debt.put_pod(pod)
        if pod.deleted is not None or pod.key in self._recovery.pods:
            self._recovery.put_pod(pod)
        return () if pod.held is None or Kind.POD not in self._kinds else self._index.put_pod(pod)

    def _lose(self, key: Key, uid: str) -> list[Key]:
        match key.kind:
            case Kind.CLUSTER_QUEUE | Kind.COHORT:
                self._latencies.forget(key.name)
                self._debt.drop_queue(key)
                self._debt_statuses.drop_queue(key, uid)
            case Kind.NODE:
                self._debt.drop_node(key, uid)
                self._recovery.drop_node(key, uid)
            case Kind.POD:
                self._debt.drop_pod(key, uid)
                self._recovery.drop_pod(key, uid)
        self._classes.drop(key, uid)
        concerned = self._index.drop(key, uid)
        if concerned:
            self._writes.gone(key)
        return concerned

    # how writes went

    def _answer(self, outcome: Outcome, now: float) -> None:
        effect = outcome.effect
        if isinstance(effect, PatchStatus) and isinstance(effect.change, ClusterQueueDebt):
            self._has_news = True
            self._debt_statuses.answer(outcome, now)
            return
        if isinstance(effect, Delete) and effect.target.key in self._recovery.pods:
            self._has_news = True
            self._recovery.answer(outcome, now)
        if (effect.key if isinstance(effect, Create) else effect.target.key) not in self._writes.pending:
            return
        job = self._writes.answer(outcome, now)
        if job is None:
            return
        self._has_news = True
        if outcome.trouble is None:
            self._latencies.written(outcome, job, now)
        if outcome.trouble is WriteError.REFUSED:
            message = outcome.message or "the server refuses the write"
            self._journal.write(Entry(now, job, "fail", "Refused", message))

    # what to do

    def _report_stuck_pods(self, now: float) -> Iterator[Effect]:
        """A pod that should be gone and is not holds capacity that nobody can count on."""
        for pod in self._debt.terminating.newly_stuck(now):
            self._journal.write(Entry(now, job_key(pod), "note", "StuckTerminating", f"{pod.key.name}: {_STUCK}"))
            yield EmitEvent(pod.target, EventType.WARNING, "StuckTerminating", "Terminating", _STUCK, now)

    def _touch_unblocked(self) -> None:
        if self._debt.unblocked:
            self._touched.update(dict.fromkeys(self._debt.take_unblocked()))

    def _take_touched(self, now: float) -> dict[Key, None]:
        """The jobs to be reconciled next, with those whose hold is another than before."""
        touched, self._touched = self._touched, {}
        if not self._debt.may_hold and not self._debt.holds:
            return touched
        for key in touched if self._debt.may_hold else ():
            self._update_candidate(key, now)
        return touched | dict.fromkeys(self._debt.update_holds(now))

    def _update_candidate(self, key: Key, now: float) -> None:
        """Notes whether the job has started, or is about to and may be held."""
        job = self._index.find(key)
        workload = self._index.workload_of(job)[0] if job is not None else None
        true = true_conditions(workload)
        is_settled = job is not None and self._is_settled(job)
        runs = job is not None and self._runs(job, workload, true, is_settled, now)
        self._debt.set_running(key, workload if runs else None)
        if job is not None and workload is not None and self._is_about_to_start(job, workload, true, is_settled):
            self._debt.add_candidate(key, workload)
        else:
            self._debt.drop_candidate(key)

    def _is_about_to_start(
        self, job: GenericJob, workload: QueuedWorkload, true: frozenset[str], is_settled: bool
    ) -> bool:
        if ADMITTED not in true or EVICTED in true or FINISHED in true:
            return False
        if workload.deleted is not None or job.is_terminating or job.may_run or workload.status.cluster:
            return False
        if job.key in self._starting and not is_settled:
            return False
        return job.can_start and job.owns(workload) and job.matches(workload)

    def _reconcile(self, key: Key, now: float) -> Iterator[Effect]:
        for workload in self._index.orphaned_workloads(key):
            yield from self._send(key, list(without_finalizer(workload)))
        job = self._index.find(key)
        if job is None:
            child = self._index.child_job_of(key)
            yield from self._send(key, [] if child is None else list(suspend_child_job(*child, now)))
            self._forget(key)
            return
        found, extras = self._index.workload_of(job)
        true = true_conditions(found)
        self._reconcile_later(key, job, found, now)
        is_settled = self._is_settled(job)
        state = JobState(
            job=job,
            workload=found,
            true=true,
            rank=self._classes.rank(job),
            flavors=self._classes.flavors,
            now=now,
            is_settled=is_settled and self._may_release(job, found, true, now),
            hold=self._debt.hold_of(key) if self._debt.holds else None,
            extras=extras,
            kept_for=self._kept_for,
            copied=self._copied,
        )
        effects = list(reconcile(state))
        if key in self._warnings and not any(map(_is_warning, effects)):
            del self._warnings[key]  # what is warned of once more is news
        if effects:
            yield from self._send(key, effects)
            is_settled = self._is_settled(job)
        if is_settled:
            self._starting.pop(key, None)
        elif key in self._starting:
            self._debt.drop_candidate(key)
        self._debt.set_running(key, found if self._runs(job, found, true, is_settled, now) else None)

    def _forget(self, key: Key) -> None:
        """The job is gone. The journal of a group is its Workload's, which may be there still."""
        self._debt.forget(key)
        self._writes.forget(key)
        self._retries.drop(key)
        self._starting.pop(key, None)
        self._warnings.pop(key, None)
        if key.kind is not Kind.KUEUE_WORKLOAD or not self._index.version_of(key):
            self._journal.forget(key)

    def _runs(
        self, job: GenericJob, workload: QueuedWorkload | None, true: frozenset[str], is_settled: bool, now: float
    ) -> bool:
        """Whether a part of the job may run by this Workload, or terminates with quota of it and so owes nothing."""
        if workload is None or FINISHED in true:
            return False
        if job.may_run or not is_settled:
            return True
        is_stopping = EVICTED in true or job.is_terminating
        if is_stopping and job.occupies_nodes(now):
            return True
        return self._debt.debts.occupancy(job.key).terminates_with_quota

    def _is_settled(self, job: GenericJob) -> bool:
        """Whether no write to the job's own objects is in flight."""
        pending = self._writes.pending
        return not pending or not any(part.key in pending for part in job.parts)

    def _may_release(self, job: GenericJob, workload: QueuedWorkload | None, true: frozenset[str], now: float) -> bool:
        """Whether quota may be released: terminating pods may owe only so much."""
        if workload is None or workload.status.admission is None or FINISHED in true:
            self._debt.released(job.key)
            return True
        if EVICTED not in true and not job.is_terminating:
            return True
        if job.is_active(now) or not job.occupies_nodes(now):
            return True
        return self._debt.may_release(job.key, workload.status.admission)

    def _send(self, job: Key, effects: list[Effect]) -> Iterator[Effect]:
        """Those of the effects that may be sent now. Events are in the journal, and sent when their write is done.

        A warning is about the job as it is, and waits for no write.
        """
        versions = {key: self._index.version_of(key) for key in _targets(effects)}
        last: Write | None = None
        for effect in self._writes.passing(job, effects, versions):
            if isinstance(effect, EmitEvent):
                if not self._record(job, effect):
                    continue
                if last is not None and effect.type is EventType.NORMAL:
                    self._writes.hold(last, effect)
                    continue
            elif not isinstance(effect, WakeAt):
                last = effect
            if isinstance(effect, PatchSpec) and isinstance(effect.change, JobStart | PodStart):
                self._started.append(job)
                self._starting[job] = None
            yield effect

    def _record(self, job: Key, event: EmitEvent) -> bool:
        """Writes the event to the journal; False for a warning that was given already."""
        if event.type is EventType.WARNING:
            if self._warnings.get(job) == event.message:
                return False
            self._warnings[job] = event.message
        self._journal.write(Entry(event.at, job, _DECISIONS.get(event.reason, "note"), event.reason, event.message))
        return True

    # when to look again

    def _reconcile_later(self, key: Key, job: GenericJob, workload: QueuedWorkload | None, now: float) -> None:
        """Sets a deadline for when time alone releases quota of the job, or has it deleted."""
        at = job.next_release(now)
        if self._kept_for is not None and workload is not None:
            expires = expires_at(workload, self._kept_for)
            if expires is not None and expires > now:
                at = expires if at is None else min(at, expires)
        if at is not None:
            self._retries.set(key, at)


def _is_warning(effect: Effect) -> bool:
    return isinstance(effect, EmitEvent) and effect.type is EventType.WARNING


def _targets(effects: Iterable[Effect]) -> list[Key]:
    return [effect.target.key for effect in effects if not isinstance(effect, WakeAt | Create)]


class StartLatencies:
    """A later process makes none of these writes again, so nothing is counted twice."""

    def __init__(self, index: JobIndex) -> None:
        self._index = index
        self._latencies = Distributions(BOUNDS)

    def written(self, outcome: Outcome, job: Key, now: float) -> None:
        """A write for this job is done."""
        match outcome.effect:
            case Create(key=Key(kind=Kind.KUEUE_WORKLOAD)):
                self._created(job, now)
            case PatchSpec(change=PodStart()):
                self._started(job, now)
            case _:
                pass

    def __iter__(self) -> Iterator[Number]:
        return iter(self._latencies)

    def _created(self, job: Key, now: float) -> None:
        """Times of creation have whole seconds, so this one is taken to have them too."""
        since = self._index.created(job)
        if since is not None:
            kind = "Job" if job.kind is Kind.JOB else "Pod"
            self._latencies.observe(CREATION, (("job_kind", kind),), second(now) - since)

    def _started(self, job: Key, now: float) -> None:
        found = self._index.find(job)
        workload = self._index.workload_of(found)[0] if found is not None else None
        since = true_since(workload, ADMITTED) if workload is not None else None
        if workload is None or workload.status.admission is None or since is None:
            return
        is_group = str(job.kind is Kind.KUEUE_WORKLOAD).lower()
        queue = workload.status.admission.cluster_queue
        labels = (("cluster_queue", queue), ("is_group", is_group), ("name", ADMISSION_GATE))
        self._latencies.observe(GATE_REMOVAL, labels, now - since)

    def forget(self, queue: str) -> None:
        """The cluster queue is gone."""
        self._latencies.forget({"cluster_queue": queue})
