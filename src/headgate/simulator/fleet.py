"""What concerns several clusters of a run: invariants, checked after every round on what it changed, and counts.

Independent of the engine's own caches on purpose, and of what any process has observed: it reads the servers' objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from headgate.engine.journal import Journal
from headgate.model.events import Gone, Observed
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import MULTIKUEUE, MULTIKUEUE_ORIGIN, PREBUILT_WORKLOAD
from headgate.model.objects import Job, StatefulSet
from headgate.model.pod import Pod
from headgate.model.queues import QueuedWorkload
from headgate.model.settings import MultiKueueSettings
from headgate.simulator.invariants import BrokenInvariant
from headgate.simulator.network import Network
from headgate.simulator.observing import ObjectChange

PREEMPTED = "Preempted"


class ManagerCluster(Struct, frozen=True):
    """A cluster whose process has the fleet role."""

    cluster: str
    settings: MultiKueueSettings
    journal: Callable[[], Journal | None]


class ClusterCounts(Struct):
    """What a worker cluster did. Work is in pod-seconds."""

    dispatches: int = 0  # Workloads that a manager created there
    gates_opened: int = 0
    preemptions: int = 0
    work_lost: float = 0.0


class Work(Struct, frozen=True):
    """What runs on a worker cluster: a Job, a StatefulSet or a pod that has a manager's label, or its original."""

    origin: str
    key: Key


class Owned(Struct, frozen=True):
    """The object whose pods are some work, and the Workload it belongs to."""

    work: Work
    workload: Key


class FleetInvariants:
    """A workload runs in at most one cluster, and at most one preemption gate of it is open per timeout window.

    Work on a cluster that its manager could not reach for `workerLostTimeout` may be started elsewhere.
    """

    def __init__(self, managers: Sequence[ManagerCluster], clusters: Iterable[str], network: Network) -> None:
        self._managers = {manager.settings.origin: manager for manager in reversed(managers)}
        self._network = network
        self.counts = {cluster: ClusterCounts() for cluster in clusters}
        self._replicas: dict[tuple[str, Key], dict[str, QueuedWorkload]] = {}  # by origin, key and cluster
        self._evicted: set[str] = set()  # uids of Workloads
        self._owned: dict[str, Owned] = {}  # by uid
        self._live: dict[Work, dict[str, dict[str, str]]] = {}  # cluster, pod uid and its owner's
        self._running: dict[str, Work] = {}  # by pod uid
        self._touched: dict[Work, None] = {}
        self._unreached_since: dict[tuple[str, str], float] = {}  # by origin and cluster
        self._abandoned: set[str] = set()  # uids of owners

    def observe(self, cluster: str, changes: Iterable[ObjectChange], now: float) -> None:
        """Changes of the cluster's objects, in order. Raises BrokenInvariant."""
        for change in changes:
            match change:
                case Observed(QueuedWorkload() as workload):
                    self._count_preemption(cluster, workload, now)
                    self._see_replica(cluster, workload, now)
                case Observed(Job() | StatefulSet() as owner):
                    self._see_owner(cluster, owner)
                case Observed(Pod() as pod):
                    self._see_pod(cluster, pod)
                case Gone(key, uid):
                    self._lose(cluster, key, uid)

    def check(self, now: float) -> None:
        """Checks what the round touched. Raises BrokenInvariant."""
        self._note_unreached(now)
        touched, self._touched = self._touched, {}
        for work in touched:
            clusters = [cluster for cluster, pods in self._live.get(work, {}).items() if self._counts(pods)]
            if len(clusters) > 1:
                self._broken(work, f"runs in {' and in '.join(sorted(clusters))}")

    def _counts(self, pods: Mapping[str, str]) -> bool:
        return any(owner not in self._abandoned for owner in pods.values())

    def _broken(self, work: Work, what: str) -> None:
        owners = [owner for pods in self._live[work].values() for owner in pods.values()]
        workload = next((self._owned[owner].workload for owner in owners if owner in self._owned), work.key)
        raise BrokenInvariant(f"{work.key.name} {what}", workload, self._managers[work.origin].journal())

    def _note_unreached(self, now: float) -> None:
        """Notes for how long managers do not reach workers; in the end what runs there counts no longer."""
        for origin, manager in self._managers.items():
            for worker in self.counts:
                if self._network.reaches(manager.cluster, worker):
                    self._unreached_since.pop((origin, worker), None)
                    continue
                since = self._unreached_since.setdefault((origin, worker), now)
                if now - since >= manager.settings.worker_lost_timeout:
                    self._abandon(origin, worker)

    def _abandon(self, origin: str, cluster: str) -> None:
        for work, clusters in self._live.items():
            if work.origin == origin:
                self._abandoned.update(clusters.get(cluster, {}).values())

    # Workloads

    def _count_preemption(self, cluster: str, workload: QueuedWorkload, now: float) -> None:
        evicted = workload.condition("Evicted")
        if evicted is None or evicted.status != "True":
            self._evicted.discard(workload.uid)
            return
        if workload.uid in self._evicted or evicted.reason != PREEMPTED:
            return
        self._evicted.add(workload.uid)
        counts, admitted = self.counts[cluster], workload.condition("Admitted")
        counts.preemptions += 1
        if admitted is not None and admitted.status == "True":
            counts.work_lost += sum(each.count for each in workload.pod_sets) * max(0.0, now - admitted.at)

    def _see_replica(self, cluster: str, workload: QueuedWorkload, now: float) -> None:
        origin = workload.labels.get(MULTIKUEUE_ORIGIN, "")
        manager = self._managers.get(origin)
        if manager is None or manager.cluster == cluster:
            return
        replicas = self._replicas.setdefault((origin, workload.key), {})
        before = replicas.get(cluster)
        replicas[cluster] = workload
        if before is None or before.uid != workload.uid:
            self.counts[cluster].dispatches += 1
            before = None
        if opened_at(workload) is not None and (before is None or opened_at(before) is None):
            self.counts[cluster].gates_opened += 1
            self._check_gates(manager, cluster, replicas, now)

    def _check_gates(
        self, manager: ManagerCluster, cluster: str, replicas: Mapping[str, QueuedWorkload], now: float
    ) -> None:
        timeout = manager.settings.single_cluster_preemption_timeout
        for other, replica in replicas.items():
            at = opened_at(replica)
            if other != cluster and at is not None and now - at < timeout:
                what = (
                    f"its preemption gate was opened in {cluster}, {now - at:g} s after the one in {other} and "
                    f"less than {timeout:g} s, while that is open"
                )
                raise BrokenInvariant(what, replica.key, manager.journal())

    # what runs

    def _see_owner(self, cluster: str, owner: Job | StatefulSet) -> None:
        origin = self._origin(cluster, owner.labels)
        if origin is not None:
            self._owned[owner.uid] = Owned(Work(origin, owner.key), _workload_of(owner.key, owner.labels))

    def _origin(self, cluster: str, labels: Mapping[str, str]) -> str | None:
        """The manager's, of what has its label, or is in its own cluster."""
        if (origin := labels.get(MULTIKUEUE_ORIGIN)) in self._managers:
            return origin
        return next((origin for origin, manager in self._managers.items() if manager.cluster == cluster), None)

    def _see_pod(self, cluster: str, pod: Pod) -> None:
        owner = pod.owner.uid if pod.owner is not None and pod.owner.uid in self._owned else pod.uid
        if owner not in self._owned:
            origin = self._origin(cluster, pod.labels)
            if origin is None:
                return
            self._owned[owner] = Owned(Work(origin, pod.key), _workload_of(pod.key, pod.labels))
        work = self._owned[owner].work
        if pod.holds_room and pod.deleted is None:
            self._live.setdefault(work, {}).setdefault(cluster, {})[pod.uid] = owner
            self._running[pod.uid] = work
            self._touched[work] = None
        else:
            self._stop(cluster, pod.uid)

    def _stop(self, cluster: str, pod: str) -> None:
        work = self._running.pop(pod, None)
        if work is not None:
            clusters = self._live[work]
            del clusters[cluster][pod]
            if not clusters[cluster]:
                del clusters[cluster]

    def _lose(self, cluster: str, key: Key, uid: str) -> None:
        if key.kind is Kind.KUEUE_WORKLOAD:
            self._evicted.discard(uid)
            for origin in self._managers:
                replicas = self._replicas.get((origin, key), {})
                if cluster in replicas and replicas[cluster].uid == uid:
                    del replicas[cluster]
        elif key.kind is Kind.POD:
            self._stop(cluster, uid)
        self._abandoned.discard(uid)


def opened_at(workload: QueuedWorkload) -> float | None:
    """When its manager opened its gate; None while that is closed."""
    return next((gate.at for gate in workload.status.gate_statuses if gate.open and gate.name == MULTIKUEUE), None)


def _workload_of(key: Key, labels: Mapping[str, str]) -> Key:
    """The Workload of a clone, which names it; otherwise the object itself."""
    name = labels.get(PREBUILT_WORKLOAD)
    return key if name is None else Key(Kind.KUEUE_WORKLOAD, key.namespace, name)


def fleet_summary(counts: Mapping[str, ClusterCounts]) -> dict[str, object]:
    """What all worker clusters did, together and each."""
    total = ClusterCounts(
        sum(each.dispatches for each in counts.values()),
        sum(each.gates_opened for each in counts.values()),
        sum(each.preemptions for each in counts.values()),
        sum(each.work_lost for each in counts.values()),
    )
    return {"fleet": {**_shown(total), "clusters": {name: _shown(each) for name, each in counts.items()}}}


def _shown(counts: ClusterCounts) -> dict[str, object]:
    return {
        "dispatches": counts.dispatches,
        "gatesOpened": counts.gates_opened,
        "preemptions": counts.preemptions,
        "workLostSeconds": round(counts.work_lost, 6),
    }
