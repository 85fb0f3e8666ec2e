"""What is known of workloads that may run elsewhere: at home with their jobs, and on every worker cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct

from headgate.engine.integrations.job_index import JobIndex
from headgate.lifecycle.jobframework.generic_job import GenericJob
from headgate.lifecycle.jobframework.stateful_set import workload_key
from headgate.model.events import Unreadable
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import PREBUILT_WORKLOAD
from headgate.model.objects import Job, Namespace, Object, StatefulSet
from headgate.model.pod import Pod
from headgate.model.queues import QueuedWorkload
from headgate.model.settings import QuotaSettings

Part = Job | Pod | StatefulSet
"""An object that a job consists of."""
NOTHING: Mapping[str, dict[Key, Part]] = {}


class Unread(Struct, frozen=True):
    """An object of a worker cluster that cannot be read, and since when it was so."""

    told: Unreadable
    since: float


ALL_READ: Mapping[str, dict[Key, Unread]] = {}


class FleetIndex:
    """Objects as observed. Every method that takes one returns the Workloads it concerns.

    What was observed on a worker cluster is kept while that is cut off, and of an object while it cannot be read.
    """

    def __init__(self, settings: QuotaSettings) -> None:
        self.jobs = JobIndex(settings)
        self._parts: dict[Key, Part] = {}  # at home
        self._replicas: dict[Key, dict[str, QueuedWorkload]] = {}  # by Workload and cluster
        self._clones: dict[Key, dict[str, dict[Key, Part]]] = {}
        self._of_cluster: dict[str, dict[Key, Key]] = {}  # the Workload of each object, by cluster
        self._unread: dict[Key, dict[str, dict[Key, Unread]]] = {}  # by Workload and cluster
        self._unread_of: dict[tuple[str, Key], Key] = {}  # the Workload of each of these

    def __iter__(self) -> Iterator[Key]:
        """All Workloads, at home or elsewhere."""
        return iter({**self.jobs.workloads, **self._replicas, **self._clones, **self._unread})

    # at home

    def put(self, found: Object) -> list[Key]:
        match found:
            case QueuedWorkload():
                self.jobs.put_workload(found)
                return [found.key]
            case Job() | Pod() | StatefulSet():
                return [workload for key in self._put_part(found) for workload in self._workloads_of(key)]
            case Namespace():
                touched = self.jobs.put_namespace(found)
                return [workload for key in touched for workload in self._workloads_of(key)]
            case _:
                return []

    def _put_part(self, part: Part) -> list[Key]:
        if isinstance(part, Pod) and part.held is None:
            return []
        self._parts[part.key] = part
        if isinstance(part, StatefulSet):
            return self.jobs.put_stateful_set(part)
        return self.jobs.put_job(part) if isinstance(part, Job) else self.jobs.put_pod(part)

    def drop(self, key: Key, uid: str) -> list[Key]:
        concerned = [key] if key.kind is Kind.KUEUE_WORKLOAD else list(self._workloads_of(key))
        part = self._parts.get(key)
        if part is not None and part.uid == uid:
            del self._parts[key]
        self.jobs.drop(key, uid)
        return concerned

    def job_of(self, workload: QueuedWorkload) -> GenericJob | None:
        """The job at home that the Workload is for."""
        for key in self.jobs.jobs_of(workload):
            job = self.jobs.find(key)
            if job is not None and job.workload_key == workload.key and job.owns(workload):
                return job
        return None

    def parts_of(self, job: GenericJob) -> tuple[Part, ...]:
        return tuple(self._parts[target.key] for target in job.parts if target.key in self._parts)

    def _workloads_of(self, key: Key) -> Iterator[Key]:
        """The Workloads of the job of that key: the one it is to have, and those that say they are its own."""
        part = self._parts.get(key)
        job = self.jobs.find(workload_key(part) if isinstance(part, StatefulSet) else key)
        if job is None:
            return
        workload, others = self.jobs.workload_of(job)
        for found in (workload, *others):
            if found is not None:
                yield found.key

    # on worker clusters

    def replicas(self, workload: Key) -> Mapping[str, QueuedWorkload]:
        return self._replicas.get(workload, {})

    def clones(self, workload: Key) -> Mapping[str, dict[Key, Part]]:
        return self._clones.get(workload, NOTHING)

    def unread(self, workload: Key) -> Mapping[str, dict[Key, Unread]]:
        return self._unread.get(workload, ALL_READ)

    def count_unread(self) -> Counter[str]:
        """Objects that cannot be read, by cluster."""
        return Counter(cluster for cluster, _ in self._unread_of)

    def is_known(self, cluster: str, key: Key) -> bool:
        """Whether an object of that key with the label of our origin is there."""
        return key in self._of_cluster.get(cluster, ()) or (cluster, key) in self._unread_of

    def remote_version(self, cluster: str, key: Key) -> str:
        if (unread := self._unread_of.get((cluster, key))) is not None:
            return self._unread[unread][cluster][key].told.version
        workload = self._of_cluster.get(cluster, {}).get(key)
        if workload is None:
            return ""
        if key.kind is Kind.KUEUE_WORKLOAD:
            return self._replicas[workload][cluster].version
        return self._clones[workload][cluster][key].version

    def put_remote(self, cluster: str, found: Object) -> list[Key]:
        before, workload = self.drop_remote(cluster, found.key, ""), remote_workload(found)
        if isinstance(found, QueuedWorkload):
            self._replicas.setdefault(workload, {})[cluster] = found
        elif isinstance(found, Job | Pod | StatefulSet):
            self._clones.setdefault(workload, {}).setdefault(cluster, {})[found.key] = found
        else:
            return []
        self._of_cluster.setdefault(cluster, {})[found.key] = workload
        return [*before, workload]

    def put_unreadable(self, cluster: str, told: Unreadable, now: float) -> list[Key]:
        """What was observed of the object before is kept."""
        place = cluster, told.key
        known = self._unread_of.get(place) or self._of_cluster.get(cluster, {}).get(told.key)
        workload = known or _workload_named(told.key, told.workload)
        unread = self._unread.setdefault(workload, {}).setdefault(cluster, {})
        since = unread[told.key].since if told.key in unread else now
        unread[told.key] = Unread(told, since)
        self._unread_of[place] = workload
        return [workload]

    def _drop_unread(self, cluster: str, key: Key, uid: str) -> list[Key]:
        workload = self._unread_of.get((cluster, key))
        if workload is None:
            return []
        clusters = self._unread[workload]
        if uid and clusters[cluster][key].told.uid != uid:
            return []
        del clusters[cluster][key], self._unread_of[cluster, key]
        if not clusters[cluster]:
            del clusters[cluster]
        if not clusters:
            del self._unread[workload]
        return [workload]

    def drop_remote(self, cluster: str, key: Key, uid: str) -> list[Key]:
        """The object is gone, unless it is another than the one with this uid; an empty uid is that of any."""
        return [*self._drop_unread(cluster, key, uid), *self._drop_read(cluster, key, uid)]

    def _drop_read(self, cluster: str, key: Key, uid: str) -> list[Key]:
        known = self._of_cluster.get(cluster, {})
        workload = known.get(key)
        if workload is None:
            return []
        if key.kind is Kind.KUEUE_WORKLOAD:
            replicas = self._replicas[workload]
            if uid and replicas[cluster].uid != uid:
                return []
            del replicas[cluster]
            if not replicas:
                del self._replicas[workload]
        else:
            clones = self._clones[workload]
            if uid and clones[cluster][key].uid != uid:
                return []
            del clones[cluster][key]
            if not clones[cluster]:
                del clones[cluster]
            if not clones:
                del self._clones[workload]
        del known[key]
        if not known:
            del self._of_cluster[cluster]
        return [workload]

    def drop_cluster(self, cluster: str) -> list[Key]:
        """The cluster is not ours to look at any more."""
        unread = [key for name, key in self._unread_of if name == cluster]
        known = [*self._of_cluster.get(cluster, ()), *unread]
        return [workload for key in known for workload in self.drop_remote(cluster, key, "")]


def remote_workload(found: Object) -> Key:
    """The Workload that an object of a worker cluster is, or is a clone for."""
    if found.key.kind is Kind.KUEUE_WORKLOAD:
        return found.key
    labels = found.labels if isinstance(found, Job | Pod | StatefulSet) else {}
    return _workload_named(found.key, labels.get(PREBUILT_WORKLOAD, ""))


def _workload_named(key: Key, name: str) -> Key:
    return key if key.kind is Kind.KUEUE_WORKLOAD else Key(Kind.KUEUE_WORKLOAD, key.namespace, name)
