"""What is known of workloads that may run elsewhere: at home with their jobs, and on every worker cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headgate.engine.integrations.job_index import JobIndex
from headgate.lifecycle.jobframework.generic_job import GenericJob
from headgate.lifecycle.jobframework.stateful_set import workload_key
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import PREBUILT_WORKLOAD
from headgate.model.objects import Job, Namespace, Object
from headgate.model.owners import StatefulSet
from headgate.model.pod import Pod
from headgate.model.queues import QueuedWorkload
from headgate.model.quota_settings import QuotaSettings

Part = Job | Pod | StatefulSet
"""An object that a job consists of."""
NOTHING: Mapping[str, dict[Key, Part]] = {}


class FleetIndex:
    """Objects as observed. Every method that takes one returns the Workloads it concerns.

    What was observed on a worker cluster is kept while that is cut off.
    """

    def __init__(self, settings: QuotaSettings) -> None:
        self.jobs = JobIndex(settings)
        self._parts: dict[Key, Part] = {}  # at home
        self._replicas: dict[Key, dict[str, QueuedWorkload]] = {}  # by Workload and cluster
        self._clones: dict[Key, dict[str, dict[Key, Part]]] = {}
        self._of_cluster: dict[str, dict[Key, Key]] = {}  # the Workload of each object, by cluster

    def __iter__(self) -> Iterator[Key]:
        """All Workloads, at home or elsewhere."""
        return iter({**self.jobs.workloads, **self._replicas, **self._clones})

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

    def remote_version(self, cluster: str, key: Key) -> str:
        workload = self._of_cluster.get(cluster, {}).get(key)
        if workload is None:
            return ""
        if key.kind is Kind.KUEUE_WORKLOAD:
            return self._replicas[workload][cluster].version
        return self._clones[workload][cluster][key].version

    def put_remote(self, cluster: str, found: Object) -> list[Key]:
        before = self.drop_remote(cluster, found.key, "")
        if isinstance(found, QueuedWorkload):
            workload = found.key
            self._replicas.setdefault(workload, {})[cluster] = found
        elif isinstance(found, Job | Pod | StatefulSet):
            name = found.labels.get(PREBUILT_WORKLOAD, "")
            workload = Key(Kind.KUEUE_WORKLOAD, found.key.namespace, name)
            self._clones.setdefault(workload, {}).setdefault(cluster, {})[found.key] = found
        else:
            return []
        self._of_cluster.setdefault(cluster, {})[found.key] = workload
        return [*before, workload]

    def drop_remote(self, cluster: str, key: Key, uid: str) -> list[Key]:
        """The object is gone, unless it is another than the one with this uid; an empty uid is that of any."""
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
        known = list(self._of_cluster.get(cluster, ()))
        return [workload for key in known for workload in self.drop_remote(cluster, key, "")]
