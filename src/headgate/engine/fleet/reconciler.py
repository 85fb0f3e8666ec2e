"""What is to be done about one workload that may run on worker clusters. The order of the rules is Kueue's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, structs

from headgate.engine.fleet.fleet_index import Part, Unread
from headgate.engine.fleet.writes import HOME
from headgate.engine.journal import Entry
from headgate.fleet.clones import job_clone, job_status, pod_clone, pod_status, stateful_set_clone, workload_clone
from headgate.fleet.orchestrator import Dispatched, GateRules, OpenGate, Promise, WaitUntil, is_hopeless, next_gate
from headgate.fleet.replicas import Drift, Nominated, Replica, Workers, drift, nominate, winner
from headgate.lifecycle.jobframework.generic_job import GenericJob
from headgate.lifecycle.jobframework.job_workload import pod_set_entries
from headgate.lifecycle.workload import eviction
from headgate.lifecycle.workload.conditions import ADMITTED, EVICTED, FINISHED, QUOTA_RESERVED, second, true_since
from headgate.model.effects import (
    Activation,
    Annotations,
    Create,
    Delete,
    EmitEvent,
    EventType,
    Finalizers,
    PatchSpec,
    PatchStatus,
    PreemptionGateStates,
    QueuePriority,
    Write,
)
from headgate.model.keys import Key, Kind, Target
from headgate.model.kueue_names import IN_USE, MULTIKUEUE, OPENED_GATE
from headgate.model.objects import Job, StatefulSet
from headgate.model.pod import ENDED, Phase, Pod
from headgate.model.quantity import counted
from headgate.model.queues import CheckState, CheckStatus, GateStatus, QueuedWorkload
from headgate.model.settings import MultiKueueSettings

LOST = "Admitting remote lost"
LONGEST_MESSAGE = 1024  # characters of what a worker cluster says; a status that is too long is refused at home
REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?")
OUT_OF_STEP = frozenset({"OutOfSync", "OwnerNotFound"})
"""Reasons of remote Workloads that are finished although their job is not."""

ClusterWrite = tuple[str, Write]
"""A write and the cluster it is for; HOME for our own."""


class FleetWorkload(Struct, frozen=True):
    """A workload as it is at home and on all worker clusters.

    `home` is None when it is gone; `check` is how its MultiKueue admission check stands, None where it has none. A
    cluster whose objects of it cannot be read is not `connected`: it is waited for as for one that does not answer.
    """

    key: Key
    home: QueuedWorkload | None
    check: CheckStatus | None
    workers: Workers
    connected: frozenset[str]  # also clusters that are not among its workers
    lost_since: Mapping[str, float | None]  # of its workers that are not connected; None: not known yet
    unseen: frozenset[str]  # those of its workers that were not connected since our process started
    replicas: Mapping[str, QueuedWorkload]
    clones: Mapping[str, Mapping[Key, Part]]
    unread: Mapping[str, Mapping[Key, Unread]] = {}  # on clusters that count as cut off because of that
    troubles: Mapping[str, str] = {}  # what keeps a cluster from taking it
    rests: Mapping[str, float] = {}  # until when nothing is created on a cluster
    job: GenericJob | None = None  # at home
    parts: tuple[Part, ...] = ()  # what that consists of
    problem: str = ""  # why it can never be dispatched
    signalled: float | None = None  # when one of its replicas was first seen to be blocked


class Reconciliation:
    """One look at one workload: `writes` yields what is due, afterwards `wake` says when time alone may change that."""

    def __init__(self, state: FleetWorkload, settings: MultiKueueSettings, now: float) -> None:
        self._state, self._settings, self._now = state, settings, now
        self.wake: float | None = None
        self.entries: list[Entry] = []

    def writes(self) -> Iterator[ClusterWrite]:
        state, home, check = self._state, self._state.home, self._state.check
        if home is None or check is None or not _is_to_run(home, check):
            yield from self._retire()
        elif home.is_true(EVICTED):
            yield from self._stop()
        elif state.problem:
            yield self._checked(home, check, CheckState.REJECTED, state.problem)
        elif not state.parts:
            return  # its job is gone, and so will it be
        elif check.state is CheckState.READY or _has_other_check(home, check):
            yield from self._keep(home, check)
        elif check.state is CheckState.PENDING:
            yield from self._dispatch(home, check)

    # it is to run nowhere

    def _retire(self) -> Iterator[ClusterWrite]:
        """Removes it from every cluster that can be asked, and brings its job at home to rest."""
        for cluster in self._everywhere():
            yield from self._remove(cluster)
        if self._state.check is not None and not self._running_at():
            yield from self._rest()

    def _stop(self) -> Iterator[ClusterWrite]:
        """Evicted at home: the cluster it runs on stops it first; only then does it give back its quota at home."""
        running = self._running_at()
        for cluster in self._everywhere():
            replica = self._state.replicas.get(cluster)
            clones, unread = self._state.clones, self._state.unread
            if cluster not in clones or cluster in unread or replica is None or replica.deleted is not None:
                yield from self._remove(cluster)
            elif replica.active and replica.is_true(QUOTA_RESERVED):
                yield cluster, PatchSpec(replica.target, Activation(False))
        if running:
            yield from self._mirror(self._state.clones[running])
        else:
            yield from self._rest()

    def _rest(self) -> Iterator[ClusterWrite]:
        """The job at home shows that nothing of it runs, once that is so."""
        writes = list(self._mirror({}))
        if writes and not self._may_run_elsewhere():
            yield from writes

    def _may_run_elsewhere(self) -> bool:
        """Whether a cluster that is cut off may still run it; none does for longer than is waited for a lost one."""
        timeout, until = self._settings.worker_lost_timeout, list[float]()
        for cluster in self._state.workers.clusters:
            if cluster in self._state.connected:
                continue
            since = self._state.lost_since.get(cluster)
            if since is None:
                return True  # nothing was heard of it since our process started
            if any(_is_clone(key) and not each.told.is_leaving for key, each in self._unread(cluster).items()):
                return True
            if (cluster in self._state.clones or cluster in self._state.unseen) and self._now < since + timeout:
                until.append(since + timeout)
        for at in until:
            self._wake_at(at)
        return bool(until)

    def _runs_where_lost(self) -> bool:
        """Whether its job was seen on a cluster that is cut off, for as long as is waited for a lost cluster. It was
        evicted at home, where nobody knew whether it runs.
        """
        lost_since, timeout = self._state.lost_since, self._settings.worker_lost_timeout
        lost = [lost_since.get(one) for one in self._state.clones if one not in self._state.connected]
        until = max((since + timeout for since in lost if since is not None), default=0.0)
        if until > self._now:
            self._wake_at(until)
        return until > self._now

    def _everywhere(self) -> list[str]:
        found = {**self._state.replicas, **self._state.clones}
        return sorted({cluster for cluster in found if cluster in self._state.connected} | self._state.unread.keys())

    def _unread(self, cluster: str) -> Mapping[Key, Unread]:
        return self._state.unread.get(cluster, {})

    def _remove(self, cluster: str) -> Iterator[ClusterWrite]:
        """Its job first, then its Workload: so nothing runs that no Workload stands for.

        The finalizers of pods that have stopped are removed there once their Workload is gone. What cannot be read can
        be deleted nevertheless.
        """
        clones, unread = self._state.clones.get(cluster, {}), self._unread(cluster)
        for part in clones.values():
            if part.deleted is None and part.key not in unread:
                yield cluster, Delete(Target(part.key, part.uid))
        for key, each in unread.items():
            if not each.told.is_leaving and (_is_clone(key) or not clones):
                yield cluster, Delete(Target(key, each.told.uid))
        replica = self._state.replicas.get(cluster)
        if replica is None or unread or not all(_has_stopped(part) for part in clones.values()):
            return
        if replica.deleted is None:
            yield cluster, Delete(replica.target)
        elif IN_USE in replica.finalizers:
            rest = tuple(name for name in replica.finalizers if name != IN_USE)
            yield cluster, PatchSpec(_exact(replica), Finalizers(rest))

    # a cluster has admitted it

    def _keep(self, home: QueuedWorkload, check: CheckStatus) -> Iterator[ClusterWrite]:
        cluster = home.status.cluster
        for other in self._everywhere():
            if other != cluster:
                yield from self._remove(other)
        if cluster not in self._state.connected:
            yield from self._wait_for_lost(home, check, cluster)
            return
        replica = self._state.replicas.get(cluster)
        if replica is None or replica.deleted is not None:
            yield self._checked(home, check, CheckState.RETRY, LOST)
        elif replica.is_true(FINISHED):
            yield from self._finish(home, check, cluster, replica)
        elif replica.is_true(EVICTED) or not replica.is_true(ADMITTED):
            evicted = replica.condition(EVICTED)
            why = _cut(evicted.message) if evicted is not None else "The workload is not admitted"
            yield self._checked(home, check, CheckState.RETRY, f"Workload evicted on worker cluster {cluster}: {why}")
        else:
            yield from self._in_step(home, cluster, replica)
            yield from self._sync_clones(cluster)
            yield from self._mirror(self._clones_for(cluster, replica))
            yield from self._show(home, check, cluster)

    def _show(self, home: QueuedWorkload, check: CheckStatus, cluster: str) -> Iterator[ClusterWrite]:
        """The check says where it was admitted, and what keeps it from running there."""
        message = "; ".join(part for part in (_admitted_on(cluster), self._state.troubles.get(cluster)) if part)
        wanted = structs.replace(check, state=CheckState.READY, message=message)
        if wanted != check and check in home.status.checks:
            yield HOME, PatchStatus(_exact(home), structs.replace(home.status, checks=_with_check(home, wanted)))

    def _wait_for_lost(self, home: QueuedWorkload, check: CheckStatus, cluster: str) -> Iterator[ClusterWrite]:
        since = self._state.lost_since.get(cluster)
        if since is None:
            return  # nothing was heard of it since our process started
        until = since + self._settings.worker_lost_timeout
        if self._now < until:
            self._wake_at(until)
            yield from self._show(home, check, cluster)
        else:
            yield self._checked(home, check, CheckState.RETRY, LOST)

    def _finish(
        self, home: QueuedWorkload, check: CheckStatus, cluster: str, replica: QueuedWorkload
    ) -> Iterator[ClusterWrite]:
        """Its job at home shows how it ended before its Workload does: afterwards the remote ones are removed."""
        why = replica.condition(FINISHED)
        if why is None or why.reason in OUT_OF_STEP:
            message = (
                f"Workload finished on worker cluster {cluster} without its job: {_cut(why.message) if why else ''}"
            )
            yield self._checked(home, check, CheckState.RETRY, message)
            return
        mirrored = list(self._mirror(self._clones_for(cluster, replica)))
        yield from mirrored
        if not mirrored:
            reason = why.reason if REASON.fullmatch(why.reason) else FINISHED
            self._note("finish", reason, f"finished on worker cluster {cluster}")
            yield HOME, PatchStatus(_exact(home), eviction.finished(home, reason, _cut(why.message), self._now))

    # it waits to be admitted by one

    def _dispatch(self, home: QueuedWorkload, check: CheckStatus) -> Iterator[ClusterWrite]:
        others = [one for one in home.status.checks if one.name != check.name]
        if any(one.state is not CheckState.READY for one in others) or self._runs_where_lost():
            return
        won = winner([each for each in self._replicas() if _may_win(home, each)])
        if won is not None:
            yield from self._adopt(home, check, won)
            return
        yield from self._nominate(home, check)

    def _adopt(self, home: QueuedWorkload, check: CheckStatus, won: Replica) -> Iterator[ClusterWrite]:
        """Its name stands at home before its job is created there, so it is known where the workload may run."""
        for other in self._everywhere():
            if other != won.cluster:
                yield from self._remove(other)
        if any(cluster != won.cluster for cluster in self._everywhere() if self._has_clones(cluster)):
            return  # it still runs there
        message = _admitted_on(won.cluster)
        ready = structs.replace(check, state=CheckState.READY, message=message, at=second(self._now))
        status = structs.replace(
            home.status, checks=_with_check(home, ready), cluster=won.cluster, nominated_clusters=()
        )
        self._note("dispatch", "Admitted", message, {"cluster": won.cluster})
        yield HOME, PatchStatus(_exact(home), status)

    def _nominate(self, home: QueuedWorkload, check: CheckStatus) -> Iterator[ClusterWrite]:
        state, shown = self._state, home.status.nominated_clusters
        nominated = nominate(self._settings, state.workers, Nominated(shown, check.at), self._now)
        if nominated.next_round is not None:
            self._wake_at(nominated.next_round)
        replicas = self._replicas()
        refusals = _refusals(replicas) if is_hopeless(replicas) else ""
        message = "; ".join(text for text in (refusals, self._troubles_on(shown)) if text)
        at = check.at if nominated.clusters == shown else second(self._now)
        wanted = structs.replace(check, message=message, at=at)
        if wanted != check or nominated.clusters != shown:
            status = structs.replace(
                home.status, checks=_with_check(home, wanted), nominated_clusters=nominated.clusters
            )
            self._note("nominate", "Dispatched", message or f"dispatched to {', '.join(nominated.clusters)}")
            yield HOME, PatchStatus(_exact(home), status)
        for cluster in shown:
            if cluster in state.connected and cluster not in state.replicas:
                if state.rests.get(cluster, self._now) > self._now:
                    self._wake_at(state.rests[cluster])
                else:
                    yield cluster, self._replica_for(home)
        for cluster in self._everywhere():
            if cluster not in nominated.clusters or self._has_failed_pods(cluster):
                yield from self._remove(cluster)
            elif cluster in state.replicas and cluster in state.connected:
                yield from self._in_step(home, cluster, state.replicas[cluster])
        if self._settings.orchestrated:
            yield from self._orchestrate(home, replicas)

    def _has_failed_pods(self, cluster: str) -> bool:
        """Whether pods were cloned there that have ended, and one of them failed. The workload was evicted there and is
        dispatched again without having been removed: a Job would start again, such pods have to be created anew.
        """
        clones = self._state.clones.get(cluster, {}).values()
        failed = any(isinstance(part, Pod) and part.phase is Phase.FAILED for part in clones)
        return failed and all(isinstance(part, Pod) and part.phase in ENDED for part in clones)

    def _replica_for(self, home: QueuedWorkload) -> Create:
        assert self._state.job is not None, f"{home.key} is dispatched without its job"
        settings, pod_sets = self._settings, pod_set_entries(self._state.job)
        return workload_clone(home, pod_sets, settings.origin, gated=settings.orchestrated)

    def _orchestrate(self, home: QueuedWorkload, replicas: Sequence[Replica]) -> Iterator[ClusterWrite]:
        since = true_since(home, QUOTA_RESERVED) or 0.0
        promise = Promise.read(home.annotations.get(OPENED_GATE, ""), since)
        awaited = tuple(
            name
            for name in home.status.nominated_clusters
            if name in self._state.connected and name not in self._state.replicas
        )
        rules = GateRules(self._settings.single_cluster_preemption_timeout, self._settings.proposal_window)
        state = Dispatched(tuple(replicas), awaited, promise, self._state.signalled)
        match next_gate(state, rules, self._now):
            case WaitUntil(at):
                self._wake_at(at)
            case OpenGate(replica, is_new=True):
                yield from self._promise(home, replica)
            case OpenGate(replica):
                yield replica.cluster, _opened(replica, self._now)

    def _promise(self, home: QueuedWorkload, replica: Replica) -> Iterator[ClusterWrite]:
        promise = Promise(replica.cluster, second(self._now))
        message = f"Preemption is allowed on worker cluster {replica.cluster}{_cost(replica, self._now)}"
        self._note("ungate", "PreemptionGateOpened", message, {"cluster": replica.cluster})
        yield HOME, PatchSpec(_exact(home), Annotations({OPENED_GATE: promise.text}))
        yield (
            HOME,
            EmitEvent(home.target, EventType.NORMAL, "PreemptionGateOpened", "Ungating", message, self._now),
        )

    # parts that several rules have in common

    def _troubles_on(self, clusters: Sequence[str]) -> str:
        return "; ".join(text for cluster, text in self._state.troubles.items() if cluster in clusters)

    def _has_clones(self, cluster: str) -> bool:
        return cluster in self._state.clones or any(_is_clone(key) for key in self._unread(cluster))

    def _replicas(self) -> list[Replica]:
        """In the order of the MultiKueueConfig, then by name."""
        order = {name: place for place, name in enumerate(self._state.workers.clusters)}
        names = sorted(self._state.replicas, key=lambda name: (order.get(name, len(order)), name))
        return [Replica(name, self._state.replicas[name], name in self._state.connected) for name in names]

    def _in_step(self, home: QueuedWorkload, cluster: str, replica: QueuedWorkload) -> Iterator[ClusterWrite]:
        """A replica that is not like the workload at home any more is changed, or removed to be created anew."""
        if replica.deleted is not None or replica.is_true(FINISHED):
            yield from self._remove(cluster)
            return
        match drift(home, replica):
            case Drift.PRIORITY:
                yield cluster, PatchSpec(_exact(replica), QueuePriority(home.priority))
            case Drift.SPEC:
                yield from self._remove(cluster)

    def _sync_clones(self, cluster: str) -> Iterator[ClusterWrite]:
        """Creates the clones that are missing, and deletes those of pods that are gone or going at home.

        The pods of a StatefulSet are its own matter.
        """
        there, parts = self._state.clones.get(cluster, {}), self._state.parts
        sets = tuple(part for part in parts if isinstance(part, StatefulSet))
        for part in sets or parts:
            if part.key not in there and not _has_ended(part):
                yield cluster, _clone(part, self._state.key, self._settings.origin)
        staying = {part.key for part in parts if part.deleted is None}
        for key, clone in there.items():
            if not sets and isinstance(clone, Pod) and key not in staying and clone.deleted is None:
                yield cluster, Delete(clone.target)

    def _clones_for(self, cluster: str, replica: QueuedWorkload) -> Mapping[Key, Part]:
        """Without pods that are older than the replica, which a group of the same name left behind."""
        found = self._state.clones.get(cluster, {})
        return {
            key: part for key, part in found.items() if not isinstance(part, Pod) or part.created >= replica.created
        }

    def _mirror(self, clones: Mapping[Key, Part]) -> Iterator[ClusterWrite]:
        """The job at home shows what its clone does."""
        for part in self._state.parts:
            clone = clones.get(part.key)
            if isinstance(part, Job):
                job = job_status(part, clone if isinstance(clone, Job) else None, self._now)
                if job is not None and part.managed_by == MULTIKUEUE:
                    yield HOME, PatchStatus(Target(part.key, part.uid, part.version), job)
            elif isinstance(part, Pod):
                pod = pod_status(part, clone if isinstance(clone, Pod) else None, self._now)
                if pod is not None:
                    yield HOME, PatchStatus(Target(part.key, part.uid, part.version), pod)

    def _running_at(self) -> str:
        """The connected cluster that has its job; empty where none has."""
        return min((cluster for cluster in self._state.clones if cluster in self._state.connected), default="")

    def _checked(self, home: QueuedWorkload, check: CheckStatus, state: CheckState, message: str) -> ClusterWrite:
        """Without a check its workload is evicted as the check would have it."""
        wanted = structs.replace(check, state=state, message=message, at=second(self._now))
        if check in home.status.checks:
            status = structs.replace(home.status, checks=_with_check(home, wanted))
        else:
            status = eviction.evicted(home, eviction.CHECK, message, self._now)
        self._note("check", state.value, message)
        return HOME, PatchStatus(_exact(home), status)

    def _note(self, decision: str, reason: str, message: str, numbers: Mapping[str, int | str] | None = None) -> None:
        self.entries.append(Entry(self._now, self._state.key, decision, reason, message, numbers or {}))

    def _wake_at(self, at: float) -> None:
        self.wake = at if self.wake is None else min(self.wake, at)


def _is_to_run(home: QueuedWorkload, check: CheckStatus) -> bool:
    if home.is_true(FINISHED) or home.deleted is not None:
        return False
    return home.is_true(QUOTA_RESERVED) and check.state is not CheckState.REJECTED


def _has_other_check(home: QueuedWorkload, check: CheckStatus) -> bool:
    """Whether it runs elsewhere by another check than this one, which its queue has now."""
    return check.state is CheckState.PENDING and bool(home.status.cluster) and home.is_true(ADMITTED)


def _may_win(home: QueuedWorkload, replica: Replica) -> bool:
    if replica.cluster not in home.status.nominated_clusters or replica.workload.is_true(FINISHED):
        return False
    return drift(home, replica.workload) is not Drift.SPEC


def _opened(replica: Replica, now: float) -> PatchStatus:
    others = tuple(gate for gate in replica.workload.status.gate_statuses if gate.name != MULTIKUEUE)
    gates = (*others, GateStatus(MULTIKUEUE, True, second(now)))
    return PatchStatus(_exact(replica.workload), PreemptionGateStates(gates))


def _admitted_on(cluster: str) -> str:
    return f'The workload was admitted on "{cluster}"'


def _is_clone(key: Key) -> bool:
    return key.kind is not Kind.KUEUE_WORKLOAD


def _cut(message: str) -> str:
    return message[:LONGEST_MESSAGE]


def _refusals(replicas: Sequence[Replica]) -> str:
    each = ", ".join(f"{replica.cluster} ({replica.refusal})" for replica in replicas if replica.connected)
    return f"No worker cluster can admit it, not even by preemption: {each}"


def _cost(replica: Replica, now: float) -> str:
    offer = replica.proposal
    if offer is None:
        return ""
    return (
        f": {counted(offer.victims, 'workload')} of priority up to {offer.highest_priority}, "
        f"{offer.work_lost(now)} pod-seconds of work lost"
    )


def _clone(part: Part, workload: Key, origin: str) -> Create:
    match part:
        case Job():
            return job_clone(part, workload, origin)
        case StatefulSet():
            return stateful_set_clone(part, workload, origin)
        case Pod():
            return pod_clone(part, workload, origin)


def _has_ended(part: Part) -> bool:
    if isinstance(part, Job):
        return bool(part.ended)
    return part.deleted is not None or (isinstance(part, Pod) and part.phase in ENDED)


def _has_stopped(part: Part) -> bool:
    """It is being deleted, and nothing of it runs."""
    return isinstance(part, Pod) and part.deleted is not None and not part.holds_room


def _with_check(home: QueuedWorkload, wanted: CheckStatus) -> tuple[CheckStatus, ...]:
    return tuple(wanted if one.name == wanted.name else one for one in home.status.checks)


def _exact(workload: QueuedWorkload) -> Target:
    return Target(workload.key, workload.uid, workload.version)
