"""The fleet plane: workloads of this cluster that run on others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeVar, assert_never

from headgate.engine.deadlines import Deadlines, Timer
from headgate.engine.fleet.clusters import WorkerClusters
from headgate.engine.fleet.fleet_index import FleetIndex
from headgate.engine.fleet.reconciler import FleetWorkload, Reconciliation
from headgate.engine.fleet.writes import HOME, DispatchTroubles, FleetWrites, Trouble, object_of
from headgate.engine.journal import Entry, Journal
from headgate.engine.metrics import Number
from headgate.fleet.replicas import Answer, Replica, Workers
from headgate.lifecycle.jobframework.stateful_set import OWNER_KIND
from headgate.lifecycle.workload.conditions import EVICTED, QUOTA_RESERVED
from headgate.model.effects import (
    Connect,
    Create,
    Effect,
    EmitEvent,
    EventType,
    FleetEffect,
    PatchStatus,
    PreemptionGateStates,
    RemoteWrite,
    Write,
)
from headgate.model.events import (
    Event,
    FleetEvent,
    Gone,
    Observed,
    Outcome,
    RemoteConnection,
    RemoteEvent,
    TimerFired,
    Unreadable,
    WriteError,
)
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import ADMISSION_GATE, JOB_OWNER_KIND, MULTIKUEUE, OPENED_GATE
from headgate.model.objects import Job, Object
from headgate.model.pod import Phase, Pod
from headgate.model.queues import (
    AdmissionCheck,
    CheckState,
    CheckStatus,
    MultiKueueCluster,
    MultiKueueConfig,
    QueuedWorkload,
)
from headgate.model.settings import Settings

TIMER = "fleet"
NO_WORKERS = Workers((), frozenset())
NO_CHECK = CheckStatus("", CheckState.READY)
"""Stands for the check of a workload that runs elsewhere and whose queue has no MultiKueue check any more."""
SWEEP = Key(Kind.MULTIKUEUE_CONFIG, "", "")
"""Stands for all orphans where deadlines are kept by Workload."""
NO_ADAPTER = "No multikueue adapter found"
T = TypeVar("T")


class FleetPlane:
    """Dispatches the Workloads of queues with a MultiKueue admission check to worker clusters.

    A workload that something happened to, at home or elsewhere, is looked at once a step, as it is then.
    """

    reads: tuple[Kind, ...] = (
        Kind.NAMESPACE,
        Kind.ADMISSION_CHECK,
        Kind.MULTIKUEUE_CONFIG,
        Kind.MULTIKUEUE_CLUSTER,
        Kind.KUEUE_WORKLOAD,
        Kind.JOB,
        Kind.STATEFUL_SET,
        Kind.POD,
    )
    remote_reads: tuple[Kind, ...] = (Kind.KUEUE_WORKLOAD, Kind.JOB, Kind.STATEFUL_SET, Kind.POD)
    """The kinds to observe on worker clusters: of those objects that have the label of our origin."""
    timer = TIMER

    def __init__(self, settings: Settings, journal: Journal) -> None:
        self._settings, self._journal = settings.multikueue, journal
        self._clusters = WorkerClusters()
        self._index = FleetIndex(settings.quota)
        self._writes = FleetWrites()
        self._touched: dict[Key, None] = {}
        self._homes: dict[Key, None] = {}  # Workloads at home with a MultiKueue check
        self._orphans: dict[Key, None] = {}  # remote ones that nobody at home owns, until the next sweep
        self._leaving: dict[Key, None] = {}  # remote ones whose Workload at home is gone
        self._signalled: dict[Key, float] = {}  # when a replica was first seen to be blocked
        self._deadlines = Deadlines[Key]()
        self._timer = Timer(TIMER, self._deadlines, self._writes.in_flight.deadlines)
        self._idle_timer = Timer(TIMER, self._writes.in_flight.idle_deadlines, idle=True)
        self._dispatched: Counter[tuple[str, str]] = Counter()  # by ClusterQueue and cluster
        self._admitted: Counter[tuple[str, str]] = Counter()
        self._opened: Counter[str] = Counter()  # gates, by cluster
        self._troubles = DispatchTroubles()
        self._sent_elsewhere: list[tuple[Key, str, Write]] = []  # in this step
        self.deciding: Key | None = None

    # what is now true

    def absorb(self, event: Event | FleetEvent, now: float) -> Iterable[Effect | FleetEffect]:
        match event:
            case Observed(object=found):
                self._observe(found)
            case Gone(key=key, uid=uid):
                self._lose(key, uid)
            case Outcome():
                self._answer(HOME, event, now)
            case RemoteEvent(cluster, told):
                return self._absorb_remote(cluster, told, now)
            case RemoteConnection():
                if self._clusters.hear(event, now):
                    self._touch(self._concerned())
            case TimerFired():
                pass
            case _:
                assert_never(event)
        return ()

    def _observe(self, found: Object) -> None:
        self._writes.observe(HOME, found.key, found.version)
        if isinstance(found, MultiKueueCluster | MultiKueueConfig | AdmissionCheck):
            if self._clusters.observe(found):
                self._touch(self._index)
            return
        if isinstance(found, QueuedWorkload):
            self._leaving.pop(found.key, None)
            self._orphans.pop(found.key, None)
        self._touch(self._index.put(found))

    def _lose(self, key: Key, uid: str) -> None:
        self._writes.gone(HOME, key)
        if key.kind in (Kind.MULTIKUEUE_CLUSTER, Kind.MULTIKUEUE_CONFIG, Kind.ADMISSION_CHECK):
            self._clusters.lose(key, uid)
            self._touch(self._concerned())
            return
        self._touch(self._index.drop(key, uid))
        if key.kind is Kind.KUEUE_WORKLOAD and key not in self._index.jobs.workloads:
            self._leaving[key] = None

    def _absorb_remote(
        self, cluster: str, told: Observed | Gone | Unreadable | Outcome, now: float
    ) -> Iterable[Effect | FleetEffect]:
        match told:
            case Observed(object=found):
                self._writes.observe(cluster, found.key, found.version)
                self._touch(self._index.put_remote(cluster, found))
            case Gone(key=key, uid=uid):
                self._writes.gone(cluster, key)
                self._touch(self._index.drop_remote(cluster, key, uid))
            case Unreadable(key=key, version=version):
                self._writes.observe(cluster, key, version)
                self._touch(self._index.put_unreadable(cluster, told, now))
            case Outcome():
                workload = self._writes.decided_for(cluster, told.effect)
                self._answer(cluster, told, now)
                is_ours = self._index.is_known(cluster, object_of(told.effect))
                trouble = self._troubles.answered(workload, cluster, told) if workload and not is_ours else None
                if workload is not None and trouble is not None:
                    self._touch([workload])
                    return self._said(workload, [trouble], now)
        return ()

    def _answer(self, cluster: str, outcome: Outcome, now: float) -> None:
        if isinstance(outcome.effect, EmitEvent):
            return
        decided_for = self._writes.answer(cluster, outcome, now)
        if outcome.trouble is WriteError.REFUSED:
            key, where = object_of(outcome.effect), f" on worker cluster {cluster}" if cluster else ""
            message = f"{key}{where}: {outcome.message or 'the server refuses the write'}"
            self._journal.write(Entry(now, decided_for or key, "fail", "Refused", message))
        if decided_for is not None:
            self._touch([decided_for])

    def _said(self, workload: Key, troubles: Iterable[Trouble], now: float) -> Iterator[EmitEvent]:
        """What keeps a cluster from taking a workload is told by an event at home; the message of its check follows."""
        home = self._index.jobs.workloads.get(workload)
        for trouble in troubles:
            if home is not None:
                self._journal.write(Entry(now, workload, "fail", trouble.reason, trouble.text))
                yield EmitEvent(home.target, EventType.WARNING, trouble.reason, "Dispatching", trouble.text, now)

    def _touch(self, keys: Iterable[Key]) -> None:
        self._touched.update(dict.fromkeys(keys))

    def _concerned(self) -> list[Key]:
        """Workloads that are or may be on worker clusters."""
        return [key for key in self._index if key in self._homes or self._is_elsewhere(key)]

    def _is_elsewhere(self, key: Key) -> bool:
        return bool(self._index.replicas(key) or self._index.clones(key) or self._index.unread(key))

    # what to do

    def decide(self, now: float) -> Iterator[Effect | FleetEffect]:
        self._sent_elsewhere = []
        self._touch(self._deadlines.due(now))
        self._touch(self._writes.due(now))
        yield from self._connect()
        if self._touched.pop(SWEEP, self) is None:
            self._sweep()
        touched, self._touched = self._touched, {}
        for key in touched:
            if key.kind is Kind.KUEUE_WORKLOAD:
                self.deciding = key
                yield from self._reconcile(key, now)
            else:
                self._clusters.look_again()
        self.deciding = None
        for write, version in self._clusters.statuses(now):
            if self._writes.send(HOME, write, write.target.key, version):
                yield write
        yield from self._timer.wake_at(now)
        yield from self._idle_timer.wake_at(now)

    def _connect(self) -> Iterator[Connect | FleetEffect]:
        """What was known of a cluster that is replaced or gone is forgotten."""
        for effect in self._clusters.connections():
            self._touch(self._index.drop_cluster(effect.cluster))
            self._touch(self._concerned())
            self._writes.forget_cluster(effect.cluster)
            yield effect

    def _reconcile(self, key: Key, now: float) -> Iterator[Effect | FleetEffect]:
        self._deadlines.drop(key)
        home = self._index.jobs.workloads.get(key)
        check = self._check_of(home)
        if check is not None:
            self._homes[key] = None
        else:
            self._homes.pop(key, None)
            if not self._is_elsewhere(key):
                self._forget(key)
                return
        if home is None and key not in self._leaving:
            self._note_orphan(key, now)
            return
        if home is not None:
            yield from self._look_for_trouble(home, now)
        state = self._state_of(key, home, check, now)
        look = Reconciliation(state, self._settings, now)
        yield from self._sent(state, look)
        if look.wake is not None:
            self._deadlines.set(key, look.wake)

    def _look_for_trouble(self, home: QueuedWorkload, now: float) -> Iterator[EmitEvent]:
        """By what the connected clusters have of it."""
        troubles, index = self._troubles, self._index
        unread, replicas = index.unread(home.key), self._of_connected(index.replicas(home.key))
        troubles.settle(home, replicas, index.clones(home.key), unread)
        if home.is_true(QUOTA_RESERVED) and not home.is_true(EVICTED):
            yield from self._said(home.key, troubles.see_replicas(home, replicas, now), now)
        yield from self._said(home.key, troubles.see_unread(home.key, self._of_connected(unread)), now)

    def _of_connected(self, found: Mapping[str, T]) -> dict[str, T]:
        return {cluster: each for cluster, each in found.items() if self._clusters.is_connected(cluster)}

    def _sent(self, state: FleetWorkload, look: Reconciliation) -> Iterator[Effect | FleetEffect]:
        """Those of the writes that can be sent now; what the journal says of a write is written when it is sent."""
        sent = True
        for cluster, write in look.writes():
            entries, look.entries = look.entries, []
            if isinstance(write, EmitEvent):
                if sent:
                    yield write
                continue
            sent = self._writes.send(cluster, write, state.key, self._version_of(cluster, write))
            if not sent:
                continue
            for entry in entries:
                self._journal.write(entry)
                self._count(entry, state)
            if cluster == HOME:
                yield write
            else:
                if isinstance(write, Create) and write.key == state.key:
                    self._dispatched[_queue_of(state.home), cluster] += 1
                self._sent_elsewhere.append((state.key, cluster, write))
                yield RemoteWrite(cluster, write)

    def _state_of(self, key: Key, home: QueuedWorkload | None, check: CheckStatus | None, now: float) -> FleetWorkload:
        clusters, index = self._clusters, self._index
        if check is NO_CHECK:
            workers = clusters.all_workers
        else:
            workers = clusters.workers_of(check.name) if check is not None else NO_WORKERS
        job = index.job_of(home) if home is not None and check is not None else None
        parts = index.parts_of(job) if job is not None else ()
        named = (*workers.clusters, home.status.cluster) if home is not None else workers.clusters
        lost = [name for name in dict.fromkeys(named) if not clusters.is_connected(name)]
        unread, connected = self._of_connected(index.unread(key)), clusters.connected
        if unread:
            connected -= unread.keys()
            workers = Workers(workers.clusters, workers.connected - unread.keys())
        return FleetWorkload(
            key=key,
            home=home,
            check=check,
            workers=workers,
            connected=connected,
            lost_since={name: clusters.lost_since(name) for name in lost}
            | {name: min(each.since for each in objects.values()) for name, objects in unread.items()},
            unseen=frozenset(name for name in lost if clusters.is_unseen(name)),
            replicas=index.replicas(key),
            clones=index.clones(key),
            unread=unread,
            troubles=self._troubles.texts(key),
            rests=self._troubles.rests(key),
            job=job,
            parts=parts,
            problem=_problem(home, parts) if home is not None else "",
            signalled=self._signalled_at(key, connected, now),
        )

    def _signalled_at(self, key: Key, connected: Collection[str], now: float) -> float | None:
        blocked = any(
            Replica(cluster, workload).answer is Answer.BLOCKED
            for cluster, workload in self._index.replicas(key).items()
            if cluster in connected
        )
        if not blocked:
            self._signalled.pop(key, None)
            return None
        return self._signalled.setdefault(key, now)

    def _check_of(self, home: QueuedWorkload | None) -> CheckStatus | None:
        """How its MultiKueue check stands. What runs elsewhere goes on there, or stops, when its queue has none."""
        if home is None:
            return None
        found = next((one for one in home.status.checks if self._clusters.is_multikueue(one.name)), None)
        if found is not None or not home.is_true(QUOTA_RESERVED):
            return found
        stops = home.is_true(EVICTED) and (self._is_elsewhere(home.key) or self._shows_it_runs(home))
        return NO_CHECK if home.status.cluster or stops else None

    def _shows_it_runs(self, home: QueuedWorkload) -> bool:
        """Whether its job at home still shows that it runs on a worker cluster."""
        job = self._index.job_of(home)
        return job is not None and any(
            (part.active > 0 and part.managed_by == MULTIKUEUE)
            if isinstance(part, Job)
            else isinstance(part, Pod) and part.phase is Phase.RUNNING and ADMISSION_GATE in part.gates
            for part in self._index.parts_of(job)
        )

    def _version_of(self, cluster: str, write: Write) -> str:
        if isinstance(write, Create):
            return ""
        key = write.target.key
        return self._index.jobs.version_of(key) if cluster == HOME else self._index.remote_version(cluster, key)

    # orphans

    def _note_orphan(self, key: Key, now: float) -> None:
        """Waits for the next sweep: what another process of ours is about to own is not removed at once."""
        if self._settings.gc_interval and key not in self._orphans:
            self._orphans[key] = None
            if SWEEP not in self._deadlines:
                self._deadlines.set(SWEEP, now + self._settings.gc_interval)

    def _sweep(self) -> None:
        orphans, self._orphans = self._orphans, {}
        self._leaving.update(orphans)
        self._touch(orphans)

    def _forget(self, key: Key) -> None:
        self._leaving.pop(key, None)
        self._orphans.pop(key, None)
        self._signalled.pop(key, None)
        self._troubles.forget(key)

    def check(self) -> None:
        """Asserts what must hold after every step: it stands at home where a workload may run, and may preempt."""
        for key, cluster, write in self._sent_elsewhere:
            home = self._index.jobs.workloads.get(key)
            if isinstance(write, Create) and write.key != key:
                runs_on = home.status.cluster if home is not None else ""
                assert runs_on == cluster, f"the job of {key} is created on {cluster}, but home says {runs_on!r}"
            elif isinstance(write, PatchStatus) and isinstance(write.change, PreemptionGateStates):
                promise = home.annotations.get(OPENED_GATE, "") if home is not None else ""
                assert promise.startswith(f"{cluster}@"), f"the gate of {key} opens on {cluster}, promised: {promise!r}"

    # metrics

    def _count(self, entry: Entry, state: FleetWorkload) -> None:
        cluster = str(entry.numbers.get("cluster", ""))
        if entry.decision == "dispatch":
            self._admitted[_queue_of(state.home), cluster] += 1
        elif entry.decision == "ungate":
            self._opened[cluster] += 1

    def collect(self) -> Iterator[Number]:
        for (queue, cluster), count in sorted(self._dispatched.items()):
            yield "multikueue_workloads_dispatched_total", (("cluster", cluster), ("cluster_queue", queue)), count
        for (queue, cluster), count in sorted(self._admitted.items()):
            yield "multikueue_workloads_admitted_total", (("cluster", cluster), ("cluster_queue", queue)), count
        for cluster, count in sorted(self._opened.items()):
            yield "headgate_preemption_gates_opened_total", (("cluster", cluster),), count
        for name, connected in self._clusters.each():
            yield "headgate_worker_cluster_connected", (("cluster", name),), int(connected)
        for name, count in sorted(self._index.count_unread().items()):
            yield "headgate_worker_cluster_unreadable_objects", (("cluster", name),), count


def _queue_of(home: QueuedWorkload | None) -> str:
    given = home.status.admission if home is not None else None
    return given.cluster_queue if given is not None else ""


def _problem(home: QueuedWorkload, parts: Iterable[object]) -> str:
    """Why it can never run on a worker cluster."""
    kind = home.annotations.get(JOB_OWNER_KIND, OWNER_KIND)
    if kind != OWNER_KIND or (home.owner is None and not home.owners):
        return NO_ADAPTER if kind == OWNER_KIND else f"{NO_ADAPTER} for {kind}"
    for part in parts:
        if isinstance(part, Job) and part.managed_by != MULTIKUEUE:
            return (
                "The owner is not managed by Kueue: "
                f'Expecting spec.managedBy to be "{MULTIKUEUE}" not "{part.managed_by}"'
            )
    return ""
