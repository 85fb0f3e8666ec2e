"""Integrations: jobs and pods wait for quota, start when they are admitted, stop when they are told to go, and end."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import assert_never

from headgate.engine.integrations.debt_and_holds import Room
from headgate.engine.integrations.debt_statuses import DebtStatuses
from headgate.engine.integrations.failure_recovery import FailureRecovery
from headgate.engine.integrations.job_index import Measure, Measures, Works, work_key
from headgate.engine.integrations.metrics import StartWaits
from headgate.engine.integrations.writes import Writes
from headgate.engine.journal import Entry, Journal
from headgate.engine.planes import Number
from headgate.lifecycle.jobframework.generic_job import Work
from headgate.lifecycle.jobframework.job import held_with_its_maker
from headgate.lifecycle.jobframework.reconciler import Scene, decisions, expires_at, without_finalizer
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
        self._works = Works(settings.quota)
        self._measures = Measures()
        self._waits = StartWaits(self._works)
        self._writes = Writes()
        self._room = Room(
            self._works.workload_for, self._measures.flavors, settings.quota.max_hold, settings.quota.debt_percent
        )
        self._debt_statuses = DebtStatuses(journal)
        self._recovery = FailureRecovery(is_on=settings.quota.recovers_failures)
        self._touched: dict[Key, None] = {}
        self._kept_for = settings.quota.retention.after_deactivated
        self._copied = settings.quota.copied_labels
        self._looks: list[tuple[float, Key]] = []  # work to be looked at when a time has come
        self._look_at: dict[Key, float] = {}
        self._alarms: dict[bool, float] = {}  # those that were set; the key says whether it is only a safety net
        self._warned: dict[Key, str] = {}
        self._started: list[Key] = []
        self.deciding: Key | None = None
        self._starting: dict[Key, None] = {}  # work whose start is under way

    @property
    def reads(self) -> tuple[Kind, ...]:
        """Pods are read also where only Jobs are held back: those of Jobs leave their nodes later than their quota."""
        held = tuple(kind for kind in (Kind.JOB, Kind.STATEFUL_SET) if kind in self._kinds)
        return (Kind.NAMESPACE, *Measures.reads, *_QUEUE_KINDS, Kind.KUEUE_WORKLOAD, *held, Kind.NODE, Kind.POD)

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
        self._room.look_anew(self._touched)
        yield from self._report_stuck(now)
        self._touch(self._writes.due(now))
        while self._looks and self._looks[0][0] <= now:
            work = heapq.heappop(self._looks)[1]
            self._look_at.pop(work, None)
            self._touch([work])
        self._touch(self._room.take_woken())
        while touched := self._take_touched(now):
            for key in touched:
                self.deciding = key
                yield from self._decide_about(key, now)
                self._touch(self._room.take_woken())
        self.deciding = None
        yield from self._recovery.settle(now)
        yield from self._debt_statuses.settle(self._room.debt_of, self._room.changed_debts(), now)
        yield from self._wake_later(now)

    def check(self) -> None:
        """Nothing starts without quota: what must hold after every step, for what this step started."""
        for key in self._started:
            work = self._works.find(key)
            workload = self._works.workload_of(work)[0] if work is not None else None
            assert workload is not None, f"{key} was started without a Workload"
            assert workload.is_true(ADMITTED), f"{key} was started though {workload.key} is not admitted"
            assert not workload.is_true(FINISHED), f"{key} was started though {workload.key} is finished"

    def numbers(self) -> Iterator[Number]:
        yield from self._waits
        for queue, debt in self._room.debts():
            for (flavor, resource), amount in sorted(debt.items()):
                labels = (("cluster_queue", queue), ("flavor", flavor), ("resource", resource))
                yield "headgate_released_debt", labels, amount
        yield "headgate_work_waiting_for_room", (), self._room.held
        yield "headgate_stuck_terminating_pods", (), self._room.stuck

    # what is now true

    def _observe(self, found: Object) -> list[Key]:
        """Notes how the object is; returns the work it concerns."""
        self._writes.observed(found.key, found.version)
        match found:
            case Pod():
                return self._observe_pod(found)
            case Job():
                return self._works.put_job(found) if Kind.JOB in self._kinds else []
            case StatefulSet():
                return self._works.put_stateful_set(found) if Kind.STATEFUL_SET in self._kinds else []
            case QueuedWorkload():
                return self._works.put_workload(found)
            case Namespace():
                return self._works.put_namespace(found)
            case ClusterQueue():
                self._debt_statuses.put_queue(found)
                self._room.put_queue(found)
            case Cohort():
                self._room.put_queue(found)
            case Node():
                self._room.put_node(found)
                self._recovery.put_node(found)
            case _ if isinstance(found, Measure) and self._measures.put(found):
                return self._works.everything()
        return []

    def _observe_pod(self, pod: Pod) -> list[Key]:
        self._room.put_pod(pod)
        self._recovery.put_pod(pod)
        return [] if pod.held is None or Kind.POD not in self._kinds else self._works.put_pod(pod)

    def _lose(self, key: Key, uid: str) -> list[Key]:
        match key.kind:
            case Kind.CLUSTER_QUEUE | Kind.COHORT:
                self._waits.forget(key.name)
                self._room.drop_queue(key)
                self._debt_statuses.drop_queue(key, uid)
            case Kind.NODE:
                self._room.drop_node(key, uid)
                self._recovery.drop_node(key, uid)
            case Kind.POD:
                self._room.drop_pod(key, uid)
                self._recovery.drop_pod(key, uid)
        self._measures.drop(key, uid)
        concerned = self._works.drop(key, uid)
        if concerned:
            self._writes.gone(key)
        return concerned

    def _touch(self, works: Iterable[Key]) -> None:
        for key in works:
            self._touched[key] = None

    # how effects went

    def _answered(self, outcome: Outcome, now: float) -> None:
        self._debt_statuses.answered(outcome, now)
        self._recovery.answered(outcome, now)
        work = self._writes.answered(outcome, now)
        if work is None:
            return
        if outcome.trouble is None:
            self._waits.written(outcome, work, now)
        if outcome.trouble is Trouble.REFUSED:
            message = outcome.message or "the server refuses the write"
            self._journal.write(Entry(now, work, "fail", "Refused", message))
        if outcome.trouble is Trouble.GONE:
            self._touch([work])

    # what to do

    def _take_touched(self, now: float) -> dict[Key, None]:
        """The work to be decided about next, with that whose hold is another than before."""
        touched, self._touched = self._touched, {}
        for key in touched if self._room.may_hold else ():
            self._note_start(key, now)
        return touched | dict.fromkeys(self._room.settle_holds(now))

    def _note_start(self, key: Key, now: float) -> None:
        """Notes whether the work has started, or is about to and may be held."""
        work = self._works.find(key)
        workload = self._works.workload_of(work)[0] if work is not None else None
        self._room.uses(key, workload if work is not None and self._runs(work, workload, now) else None)
        if work is not None and workload is not None and self._is_about_to_start(work, workload):
            self._room.awaits(key, workload)
        else:
            self._room.starts(key)

    def _is_about_to_start(self, work: Work, workload: QueuedWorkload) -> bool:
        if not workload.is_true(ADMITTED) or workload.is_true(EVICTED) or workload.is_true(FINISHED):
            return False
        if workload.deleted is not None or work.is_going or work.may_run:
            return False
        if work.key in self._starting and not self._is_settled(work):
            return False
        return work.can_start and work.owns(workload) and work.matches(workload)

    def _decide_about(self, key: Key, now: float) -> Iterator[Effect]:
        for left in self._works.left_behind(key):
            yield from self._pass(key, list(without_finalizer(left)))
        work = self._works.find(key)
        if work is None:
            child = self._works.held_in_the_name_of(key)
            yield from self._pass(key, [] if child is None else list(held_with_its_maker(*child, now)))
            self._room.forget(key)
            self._starting.pop(key, None)
            self._warned.pop(key, None)
            self._forget_story(key)
            return
        workload, extras = self._works.workload_of(work)
        self._look_later(key, work.next_release(now))
        if workload is not None and (until := expires_at(workload, self._kept_for)) is not None and until > now:
            self._look_later(key, until)
        yield from self._pass(key, list(decisions(self._scene(work, workload, extras, now))))
        if self._is_settled(work):
            self._starting.pop(key, None)
        elif key in self._starting:
            self._room.starts(key)
        self._room.uses(key, workload if self._runs(work, workload, now) else None)

    def _runs(self, work: Work, workload: QueuedWorkload | None, now: float) -> bool:
        """Whether some of the work may run by this Workload."""
        if workload is None or workload.is_true(FINISHED):
            return False
        return work.may_run or not self._is_settled(work) or self._leaves_with_quota(work, workload, now)

    def _leaves_with_quota(self, work: Work, workload: QueuedWorkload, now: float) -> bool:
        """Its pods were asked to leave and owe nothing, for the quota of the room they take is still theirs."""
        return (_is_leaving(work, workload) and work.takes_room(now)) or self._room.keeps_places(work.key)

    def _forget_story(self, key: Key) -> None:
        """That of a group is its Workload's, which may be there still."""
        if key.kind is not Kind.KUEUE_WORKLOAD:
            self._journal.forget(key)

    def _scene(
        self, work: Work, workload: QueuedWorkload | None, extras: tuple[QueuedWorkload, ...], now: float
    ) -> Scene:
        rank, settled = self._measures.rank(work), self._is_settled(work) and self._may_release(work, workload, now)
        return Scene(
            work=work,
            workload=workload,
            rank=rank,
            flavors=self._measures.flavors,
            now=now,
            is_settled=settled,
            hold=self._room.hold_of(work.key),
            extras=extras,
            kept_for=self._kept_for,
            copied=self._copied,
        )

    def _is_settled(self, work: Work) -> bool:
        return not any(self._writes.is_pending(part.key) for part in work.parts)

    def _may_release(self, work: Work, workload: QueuedWorkload | None, now: float) -> bool:
        """Pods that leave may owe only so much; beyond that, quota is held until they are gone."""
        if workload is None or workload.admission is None or workload.is_true(FINISHED):
            self._room.owes(work.key)
            return True
        is_leaving = _is_leaving(work, workload) and not work.is_active(now)
        return not is_leaving or not work.takes_room(now) or self._room.may_owe(work.key, workload.admission)

    def _pass(self, work: Key, effects: list[Effect]) -> Iterator[Effect]:
        """What may go out now, and what is told of it."""
        versions = {key: self._works.version_of(key) for effect in effects for key in _targets(effect)}
        for effect in self._writes.passing(work, effects, versions):
            if isinstance(effect, EmitEvent) and not self._tells(work, effect):
                continue
            if isinstance(effect, PatchSpec) and isinstance(effect.change, JobStart | PodStart):
                self._started.append(work)
                self._starting[work] = None
            yield effect

    def _tells(self, work: Key, event: EmitEvent) -> bool:
        """A warning is given once, not each time its cause is found again."""
        if event.type is EventType.WARNING:
            if self._warned.get(work) == event.message:
                return False
            self._warned[work] = event.message
        self._journal.write(Entry(event.at, work, _DECISIONS.get(event.reason, "note"), event.reason, event.message))
        return True

    def _report_stuck(self, now: float) -> Iterator[Effect]:
        """A pod that should be gone and is not takes room that nobody can count on."""
        for pod in self._room.newly_stuck(now):
            self._journal.write(Entry(now, work_key(pod), "note", "StuckTerminating", f"{pod.key.name}: {_STUCK}"))
            yield EmitEvent(pod.target, EventType.WARNING, "StuckTerminating", "Terminating", _STUCK, now)

    # when to look again

    def _look_later(self, work: Key, at: float | None) -> None:
        if at is not None and self._look_at.get(work) != at:
            self._look_at[work] = at
            heapq.heappush(self._looks, (at, work))

    def _wake_later(self, now: float) -> Iterator[WakeAt]:
        """One alarm for whatever comes first, and one as a safety net; later ones are set when these have rung."""
        self._alarms = {idle: at for idle, at in self._alarms.items() if at > now}
        times = [(self._looks[0][0], False)] if self._looks else []
        times += [*self._writes.next_looks(), *((at, True) for at in self._room.next_looks())]
        others = (*self._debt_statuses.next_looks(), *self._recovery.next_looks(), *self._room.holds_end())
        times += [(at, False) for at in others]
        for at, idle in sorted(times):
            if idle not in self._alarms or at < self._alarms[idle]:
                self._alarms[idle] = max(at, now)
                yield WakeAt(self._alarms[idle], TIMER, idle)


def _is_leaving(work: Work, workload: QueuedWorkload) -> bool:
    return workload.is_true(EVICTED) or work.is_going


def _targets(effect: Effect) -> tuple[Key, ...]:
    return () if isinstance(effect, WakeAt | Create) else (effect.target.key,)
