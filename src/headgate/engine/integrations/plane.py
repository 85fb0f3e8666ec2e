"""Integrations: jobs and pods wait for quota, start when they are admitted, stop when they are told to go, and end."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import assert_never

from headgate.engine.integrations.debt_and_holds import DebtAndHolds
from headgate.engine.integrations.debt_statuses import DebtStatuses
from headgate.engine.integrations.failure_recovery import FailureRecovery
from headgate.engine.integrations.job_index import FlavorOrClass, FlavorsAndClasses, JobIndex, job_key
from headgate.engine.integrations.metrics import StartLatencies
from headgate.engine.integrations.writes import Writes
from headgate.engine.journal import Entry, Journal
from headgate.engine.planes import Number
from headgate.lifecycle.jobframework.generic_job import GenericJob
from headgate.lifecycle.jobframework.job import suspend_child_job
from headgate.lifecycle.jobframework.reconciler import JobState, expires_at, reconcile, without_finalizer
from headgate.lifecycle.workload.conditions import ADMITTED, EVICTED, FINISHED
from headgate.model.effects import Create, Effect, EmitEvent, EventType, JobStart, PatchSpec, PodStart, WakeAt
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, Trouble
from headgate.model.keys import Key, Kind
from headgate.model.node import Node
from headgate.model.objects import Job, Namespace, Object
from headgate.model.owners import StatefulSet
from headgate.model.pod import Pod
from headgate.model.queues import ClusterQueue, Cohort, QueuedWorkload
from headgate.model.quota_settings import DEPLOYMENTS, JOBS, PODS, STATEFUL_SETS
from headgate.model.settings import Settings

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
    "Started": "start",
    "Stopped": "stop",
    "FinishedWorkload": "finish",
    "ExcessPodDeleted": "delete",
    "WaitingForRoom": "hold",
    "Suspended": "stop",
    "Deleted": "delete",
}
"""What the journal calls what an event tells of."""


class IntegrationsPlane:
    """One plane of the engine. Work that something has happened to is looked at once a step, as it is then."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        self._journal = journal
        self._kinds = frozenset(kind for name in settings.quota.frameworks for kind in _KINDS[name])
        self._index = JobIndex(settings.quota)
        self._classes = FlavorsAndClasses()
        self._latencies = StartLatencies(self._index)
        self._writes = Writes()
        self._debt = DebtAndHolds(
            self._index.workload_for,
            self._classes.flavors,
            settings.quota.max_hold,
            settings.quota.debt_percent,
        )
        self._debt_statuses = DebtStatuses(journal)
        self._recovery = FailureRecovery(is_on=settings.quota.recovers_failures)
        self._touched: dict[Key, None] = {}
        self._kept_for = settings.quota.retention.after_deactivated
        self._copied = settings.quota.copied_labels
        self._looks: list[tuple[float, Key]] = []  # work to be looked at when a time has come
        self._look_at: dict[Key, float] = {}
        self._alarms: dict[bool, float] = {}  # those that were set; the key says whether it is only a safety net
        self._warnings: dict[Key, str] = {}
        self._started: list[Key] = []
        self.deciding: Key | None = None
        self._starting: dict[Key, None] = {}  # work whose start is under way

    @property
    def reads(self) -> tuple[Kind, ...]:
        """Pods are read also where only Jobs are held back: those of Jobs leave their nodes later than their quota."""
        held = tuple(kind for kind in (Kind.JOB, Kind.STATEFUL_SET) if kind in self._kinds)
        return (
            Kind.NAMESPACE,
            *FlavorsAndClasses.reads,
            *_QUEUE_KINDS,
            Kind.KUEUE_WORKLOAD,
            *held,
            Kind.NODE,
            Kind.POD,
        )

    def absorb(self, event: Event, now: float) -> Iterator[Effect]:
        match event:
            case Observed(object=found):
                self._touch(self._observe(found))
            case Gone(key=key, uid=uid):
                self._touch(self._lose(key, uid))
            case Outcome():
                self._answered(event, now)
            case TimerFired():
                pass
            case _:
                assert_never(event)
        return iter(())

    def decide(self, now: float) -> Iterator[Effect]:
        self._started = []
        self._debt.mark_dirty(self._touched)
        yield from self._report_stuck_pods(now)
        self._touch(self._writes.due(now))
        while self._looks and self._looks[0][0] <= now:
            job = heapq.heappop(self._looks)[1]
            self._look_at.pop(job, None)
            self._touch([job])
        self._touch(self._debt.take_unblocked())
        while touched := self._take_touched(now):
            for key in touched:
                self.deciding = key
                yield from self._decide_about(key, now)
                self._touch(self._debt.take_unblocked())
        self.deciding = None
        yield from self._recovery.settle(now)
        yield from self._debt_statuses.settle(self._debt.debt_of, self._debt.changed_debts(), now)
        yield from self._wake_later(now)

    def check(self) -> None:
        """Nothing starts without quota: what must hold after every step, for what this step started."""
        for key in self._started:
            job = self._index.find(key)
            workload = self._index.workload_of(job)[0] if job is not None else None
            assert workload is not None, f"{key} was started without a Workload"
            assert workload.is_true(ADMITTED), f"{key} was started though {workload.key} is not admitted"
            assert not workload.is_true(FINISHED), f"{key} was started though {workload.key} is finished"

    def numbers(self) -> Iterator[Number]:
        yield from self._latencies
        for queue, debt in self._debt.debts():
            for (flavor, resource), amount in sorted(debt.items()):
                labels = (("cluster_queue", queue), ("flavor", flavor), ("resource", resource))
                yield "headgate_released_debt", labels, amount
        yield "headgate_work_waiting_for_room", (), self._debt.held
        yield "headgate_stuck_terminating_pods", (), self._debt.stuck

    # what is now true

    def _observe(self, found: Object) -> list[Key]:
        """Notes how the object is; returns the work it concerns."""
        self._writes.observed(found.key, found.version)
        match found:
            case Pod():
                return self._observe_pod(found)
            case Job():
                return self._index.put_job(found) if Kind.JOB in self._kinds else []
            case StatefulSet():
                return self._index.put_stateful_set(found) if Kind.STATEFUL_SET in self._kinds else []
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
        return []

    def _observe_pod(self, pod: Pod) -> list[Key]:
        self._debt.put_pod(pod)
        self._recovery.put_pod(pod)
        return [] if pod.held is None or Kind.POD not in self._kinds else self._index.put_pod(pod)

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

    def _touch(self, jobs: Iterable[Key]) -> None:
        for key in jobs:
            self._touched[key] = None

    # how effects went

    def _answered(self, outcome: Outcome, now: float) -> None:
        self._debt_statuses.answered(outcome, now)
        self._recovery.answered(outcome, now)
        job = self._writes.answered(outcome, now)
        if job is None:
            return
        if outcome.trouble is None:
            self._latencies.written(outcome, job, now)
        if outcome.trouble is Trouble.REFUSED:
            message = outcome.message or "the server refuses the write"
            self._journal.write(Entry(now, job, "fail", "Refused", message))
        if outcome.trouble is Trouble.GONE:
            self._touch([job])

    # what to do

    def _take_touched(self, now: float) -> dict[Key, None]:
        """The work to be decided about next, with that whose hold is another than before."""
        touched, self._touched = self._touched, {}
        for key in touched if self._debt.may_hold else ():
            self._update_candidate(key, now)
        return touched | dict.fromkeys(self._debt.update_holds(now))

    def _update_candidate(self, key: Key, now: float) -> None:
        """Notes whether the work has started, or is about to and may be held."""
        job = self._index.find(key)
        workload = self._index.workload_of(job)[0] if job is not None else None
        self._debt.set_running(key, workload if job is not None and self._runs(job, workload, now) else None)
        if job is not None and workload is not None and self._is_about_to_start(job, workload):
            self._debt.add_candidate(key, workload)
        else:
            self._debt.drop_candidate(key)

    def _is_about_to_start(self, job: GenericJob, workload: QueuedWorkload) -> bool:
        if not workload.is_true(ADMITTED) or workload.is_true(EVICTED) or workload.is_true(FINISHED):
            return False
        if workload.deleted is not None or job.is_terminating or job.may_run:
            return False
        if job.key in self._starting and not self._is_settled(job):
            return False
        return job.can_start and job.owns(workload) and job.matches(workload)

    def _decide_about(self, key: Key, now: float) -> Iterator[Effect]:
        for left in self._index.orphaned_workloads(key):
            yield from self._pass(key, list(without_finalizer(left)))
        job = self._index.find(key)
        if job is None:
            child = self._index.child_job_of(key)
            yield from self._pass(key, [] if child is None else list(suspend_child_job(*child, now)))
            self._debt.forget(key)
            self._starting.pop(key, None)
            self._warnings.pop(key, None)
            self._forget_story(key)
            return
        workload, extras = self._index.workload_of(job)
        self._look_later(key, job.next_release(now))
        if workload is not None and (until := expires_at(workload, self._kept_for)) is not None and until > now:
            self._look_later(key, until)
        yield from self._pass(key, list(reconcile(self._job_state(job, workload, extras, now))))
        if self._is_settled(job):
            self._starting.pop(key, None)
        elif key in self._starting:
            self._debt.drop_candidate(key)
        self._debt.set_running(key, workload if self._runs(job, workload, now) else None)

    def _runs(self, job: GenericJob, workload: QueuedWorkload | None, now: float) -> bool:
        """Whether some of the work may run by this Workload."""
        if workload is None or workload.is_true(FINISHED):
            return False
        return job.may_run or not self._is_settled(job) or self._leaves_with_quota(job, workload, now)

    def _leaves_with_quota(self, job: GenericJob, workload: QueuedWorkload, now: float) -> bool:
        """Its pods were asked to leave and owe nothing, for the quota of the room they take is still theirs."""
        return (_is_evicted(job, workload) and job.occupies_nodes(now)) or self._debt.terminates_with_quota(job.key)

    def _forget_story(self, key: Key) -> None:
        """That of a group is its Workload's, which may be there still."""
        if key.kind is not Kind.KUEUE_WORKLOAD:
            self._journal.forget(key)

    def _job_state(
        self, job: GenericJob, workload: QueuedWorkload | None, extras: tuple[QueuedWorkload, ...], now: float
    ) -> JobState:
        rank, settled = (
            self._classes.rank(job),
            self._is_settled(job) and self._may_release(job, workload, now),
        )
        return JobState(
            job=job,
            workload=workload,
            rank=rank,
            flavors=self._classes.flavors,
            now=now,
            is_settled=settled,
            hold=self._debt.hold_of(job.key),
            extras=extras,
            kept_for=self._kept_for,
            copied=self._copied,
        )

    def _is_settled(self, job: GenericJob) -> bool:
        return not any(self._writes.is_pending(part.key) for part in job.parts)

    def _may_release(self, job: GenericJob, workload: QueuedWorkload | None, now: float) -> bool:
        """Pods that leave may owe only so much; beyond that, quota is held until they are gone."""
        if workload is None or workload.admission is None or workload.is_true(FINISHED):
            self._debt.released(job.key)
            return True
        is_terminating_started = _is_evicted(job, workload) and not job.is_active(now)
        return (
            not is_terminating_started
            or not job.occupies_nodes(now)
            or self._debt.may_release(job.key, workload.admission)
        )

    def _pass(self, job: Key, effects: list[Effect]) -> Iterator[Effect]:
        """What may go out now, and what is told of it."""
        versions = {key: self._index.version_of(key) for effect in effects for key in _targets(effect)}
        for effect in self._writes.passing(job, effects, versions):
            if isinstance(effect, EmitEvent) and not self._record(job, effect):
                continue
            if isinstance(effect, PatchSpec) and isinstance(effect.change, JobStart | PodStart):
                self._started.append(job)
                self._starting[job] = None
            yield effect

    def _record(self, job: Key, event: EmitEvent) -> bool:
        """A warning is given once, not each time its cause is found again."""
        if event.type is EventType.WARNING:
            if self._warnings.get(job) == event.message:
                return False
            self._warnings[job] = event.message
        self._journal.write(Entry(event.at, job, _DECISIONS.get(event.reason, "note"), event.reason, event.message))
        return True

    def _report_stuck_pods(self, now: float) -> Iterator[Effect]:
        """A pod that should be gone and is not takes room that nobody can count on."""
        for pod in self._debt.newly_stuck(now):
            self._journal.write(Entry(now, job_key(pod), "note", "StuckTerminating", f"{pod.key.name}: {_STUCK}"))
            yield EmitEvent(pod.target, EventType.WARNING, "StuckTerminating", "Terminating", _STUCK, now)

    # when to look again

    def _look_later(self, job: Key, at: float | None) -> None:
        if at is not None and self._look_at.get(job) != at:
            self._look_at[job] = at
            heapq.heappush(self._looks, (at, job))

    def _wake_later(self, now: float) -> Iterator[WakeAt]:
        """One alarm for whatever comes first, and one as a safety net; later ones are set when these have rung."""
        self._alarms = {idle: at for idle, at in self._alarms.items() if at > now}
        times = [(self._looks[0][0], False)] if self._looks else []
        times += [*self._writes.next_looks(), *((at, True) for at in self._debt.next_looks())]
        others = (*self._debt_statuses.next_looks(), *self._recovery.next_looks(), *self._debt.holds_end())
        times += [(at, False) for at in others]
        for at, idle in sorted(times):
            if idle not in self._alarms or at < self._alarms[idle]:
                self._alarms[idle] = max(at, now)
                yield WakeAt(self._alarms[idle], TIMER, idle)


def _is_evicted(job: GenericJob, workload: QueuedWorkload) -> bool:
    return workload.is_true(EVICTED) or job.is_terminating


def _targets(effect: Effect) -> tuple[Key, ...]:
    return () if isinstance(effect, WakeAt | Create) else (effect.target.key,)
