"""Which jobs there are, who owns them, and which Workload belongs to each.

A new kind of job is one more adapter in `headgate.lifecycle.jobframework` and its place in `JobIndex`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from headgate.lifecycle.jobframework.generic_job import GenericJob
from headgate.lifecycle.jobframework.job import JobAdapter
from headgate.lifecycle.jobframework.job_workload import JobPriority, job_priority
from headgate.lifecycle.jobframework.pod import PodAdapter
from headgate.lifecycle.jobframework.pod_group import PodGroupAdapter, group_of
from headgate.lifecycle.jobframework.stateful_set import StatefulSetAdapter, workload_key
from headgate.model.keys import Key, Kind, Target
from headgate.model.kueue_names import PREBUILT_WORKLOAD, QUEUE_NAME
from headgate.model.objects import Job, Namespace, PriorityClass, StatefulSet
from headgate.model.pod import Pod
from headgate.model.queues import QueuedWorkload, ResourceFlavor, WorkloadPriorityClass
from headgate.model.settings import QuotaSettings

MAX_ANCESTORS = 10
OwningJob = Job | StatefulSet


class NotManaged(Enum):
    """Why a Job or StatefulSet does not wait for quota by itself."""

    NO_QUEUE_NAME = "it names no queue"
    NAMESPACE = "its namespace is not selected"
    OWNER = "an owner of it waits for quota"


class JobOwners:
    """Jobs and StatefulSets by their owners. A job of an owner that waits for quota has no Workload of its own.

    `manages_all`: also those that name no queue wait for quota.
    """

    def __init__(self, *, manages_all: bool) -> None:
        self._manages_all = manages_all
        self._known: dict[Key, OwningJob] = {}
        self._owned_by: dict[Key, dict[Key, None]] = {}

    def put(self, found: OwningJob) -> None:
        known = self._known.get(found.key)
        if known is not None and known.owner != found.owner:
            self.drop(known)
        self._known[found.key] = found
        if found.owner is not None:
            self._owned_by.setdefault(found.owner.key, {})[found.key] = None

    def drop(self, found: OwningJob) -> None:
        self._known.pop(found.key, None)
        owned = self._owned_by.get(found.owner.key) if found.owner is not None else None
        if owned is not None and found.owner is not None:
            owned.pop(found.key, None)
            if not owned:
                del self._owned_by[found.owner.key]

    def is_queued(self, found: OwningJob) -> bool:
        """Whether it waits for quota, by its own labels."""
        return bool(found.labels.get(QUEUE_NAME)) or self._manages_all

    def managed_ancestor(self, found: OwningJob) -> OwningJob | None:
        """The topmost of its owners that waits for quota; None where none does."""
        top: OwningJob | None = None
        for _ in range(MAX_ANCESTORS):
            owner = found.owner
            parent = None if owner is None else self._known.get(owner.key)
            if owner is None or parent is None or parent.uid != owner.uid:
                break
            top, found = parent if self.is_queued(parent) else top, parent
        return top

    def descendants(self, owner: Key, depth: int = MAX_ANCESTORS) -> Iterator[Key]:
        """All that it owns, or that these own."""
        for key in self._owned_by.get(owner, ()) if depth else ():
            yield key
            yield from self.descendants(key, depth - 1)


class JobIndex:
    """Objects as observed, put together to jobs. Decides nothing.

    A job goes by the key of its object; a group of pods, which has none, by that of its Workload.
    """

    def __init__(self, settings: QuotaSettings) -> None:
        self._settings = settings
        self._jobs: dict[Key, Job] = {}
        self._sets: dict[Key, StatefulSet] = {}
        self._set_of: dict[Key, Key] = {}  # stateful sets by their Workload
        self._owners = JobOwners(manages_all=settings.manages_all)
        self._pods: dict[Key, Pod] = {}
        self._groups: dict[Key, dict[Key, Pod]] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._managed_namespaces: set[str] = set()  # those that the settings select
        self.workloads: dict[Key, QueuedWorkload] = {}
        self._owned: dict[Key, dict[Key, None]] = {}  # Workloads by their controller
        self._prebuilt: dict[Key, Key] = {}  # jobs by the Workload they ask for

    # what is now true; each returns the jobs to be reconciled

    def put_job(self, job: Job) -> list[Key]:
        self._jobs[job.key] = job
        self._note_prebuilt(job)
        self._owners.put(job)
        return [job.key, *self._owners.descendants(job.key)]

    def put_stateful_set(self, found: StatefulSet) -> list[Key]:
        known = self._sets.get(found.key)
        before = self._drop_set(known) if known is not None and known.uid != found.uid else []
        self._sets[found.key] = found
        self._set_of[workload_key(found)] = found.key
        self._owners.put(found)
        return [*before, workload_key(found), *self._owners.descendants(found.key)]

    def put_pod(self, pod: Pod) -> list[Key]:
        known = self._pods.get(pod.key)
        before = self._drop_pod(known) if known is not None else []
        self._pods[pod.key] = pod
        if group := _group_key(pod):
            self._groups.setdefault(group, {})[pod.key] = pod
        else:
            self._note_prebuilt(pod)
        return list(dict.fromkeys([*before, job_key(pod)]))

    def put_workload(self, workload: QueuedWorkload) -> list[Key]:
        before = self.drop_workload(workload.key)
        self.workloads[workload.key] = workload
        if workload.is_controlled and workload.owner is not None:
            self._owned.setdefault(workload.owner.key, {})[workload.key] = None
        return list(dict.fromkeys([*before, *self.jobs_of(workload)]))

    def put_namespace(self, namespace: Namespace) -> list[Key]:
        known = self._namespaces.get(namespace.key.name)
        self._namespaces[namespace.key.name] = namespace
        if all(part.holds(namespace.labels) for part in self._settings.namespaces):
            self._managed_namespaces.add(namespace.key.name)
        else:
            self._managed_namespaces.discard(namespace.key.name)
        if known is not None and known.labels == namespace.labels:
            return []
        return [key for key in (*self._jobs, *self._set_of) if key.namespace == namespace.key.name]

    def drop(self, key: Key, uid: str) -> list[Key]:
        """The object is gone, unless another has its name by now."""
        if (workload := self.workloads.get(key)) is not None and workload.uid == uid:
            return self.drop_workload(key)
        if (pod := self._pods.get(key)) is not None and pod.uid == uid:
            return self._drop_pod(pod)
        if (job := self._jobs.get(key)) is not None and job.uid == uid:
            return self._drop_job(job)
        if (found := self._sets.get(key)) is not None and found.uid == uid:
            return self._drop_set(found)
        if key.kind is Kind.NAMESPACE and (known := self._namespaces.get(key.name)) is not None and known.uid == uid:
            del self._namespaces[key.name]
            self._managed_namespaces.discard(key.name)
        return []

    def drop_workload(self, key: Key) -> list[Key]:
        known = self.workloads.pop(key, None)
        if known is None:
            return []
        if known.is_controlled and known.owner is not None:
            owned = self._owned[known.owner.key]
            del owned[key]
            if not owned:
                del self._owned[known.owner.key]
        return self.jobs_of(known)

    # what that means

    def everything(self) -> list[Key]:
        single = [key for key, pod in self._pods.items() if not group_of(pod)]
        return list(dict.fromkeys([*self._jobs, *self._set_of, *self._groups, *single]))

    def jobs_of(self, workload: QueuedWorkload) -> list[Key]:
        """The jobs that this Workload concerns; the key of its owner also when there is no such object."""
        return list(dict.fromkeys(self._concerned(workload)))

    def _concerned(self, workload: QueuedWorkload) -> Iterator[Key]:
        if workload.is_controlled and workload.owner is not None:
            yield workload.owner.key
            yield from self._owners.descendants(workload.owner.key)
        if workload.key in self._set_of:
            yield from self._owners.descendants(self._set_of[workload.key])
        if workload.owners or workload.key in self._groups:
            yield workload.key
        if workload.key in self._prebuilt:
            yield self._prebuilt[workload.key]

    def find(self, key: Key) -> GenericJob | None:
        """The job of that key, if it is there and is ours to manage."""
        release = self._settings.quota_release
        if (job := self._jobs.get(key)) is not None:
            return JobAdapter(job, release) if self.not_managed(job) is None else None
        if key in self._groups or key in self._set_of:
            return self._find_group(key, list(self._groups.get(key, {}).values()))
        pod = self._pods.get(key)
        return PodAdapter(pod, release) if pod is not None else None

    def _find_group(self, key: Key, pods: list[Pod]) -> GenericJob | None:
        workload, release = self.workloads.get(key), self._settings.quota_release
        ours = workload if workload is not None and not workload.is_controlled else None
        owner = self._sets[self._set_of[key]] if key in self._set_of else None
        if owner is not None and self.not_managed(owner) is None:
            return StatefulSetAdapter(owner, pods, ours, release)
        return PodGroupAdapter(pods, ours, release) if pods else None

    def child_job_of(self, key: Key) -> tuple[Job, QueuedWorkload | None] | None:
        """A Job whose owner waits for quota, with the Workload of that owner; None where this is no such Job."""
        job = self._jobs.get(key)
        selected = job is not None and self.selects(job.key.namespace)
        ancestor = self._owners.managed_ancestor(job) if job is not None and selected else None
        if job is None or ancestor is None:
            return None
        is_set = ancestor.key.kind is Kind.STATEFUL_SET
        found = self.find(workload_key(self._sets[ancestor.key]) if is_set else ancestor.key)
        return job, None if found is None else self.workload_of(found)[0]

    def workload_of(self, job: GenericJob) -> tuple[QueuedWorkload | None, tuple[QueuedWorkload, ...]]:
        """The Workload of that job, and others that name it as their controller."""
        named = self.workloads.get(job.workload_key)
        if job.controller is None:
            return named, ()
        others = [each for each in self._controlled(job.controller) if each is not named]
        if named is not None or PREBUILT_WORKLOAD in job.labels or not others:
            return named, tuple(others)
        return others[0], tuple(others[1:])

    def orphaned_workloads(self, key: Key) -> Iterator[QueuedWorkload]:
        """Workloads whose owner, an object of that key or the pods of that group, is not there any more."""
        if key.kind is Kind.KUEUE_WORKLOAD:
            workload = self.workloads.get(key)
            if workload is not None and workload.owners and key not in self._groups and key not in self._set_of:
                yield workload
            return
        there = self._jobs.get(key) or self._pods.get(key)
        uid = there.uid if there is not None else ""
        for name in sorted(self._owned.get(key, {})):
            workload = self.workloads[name]
            if workload.owner is not None and workload.owner.uid != uid:
                yield workload

    def created(self, key: Key) -> float | None:
        """When there was all of it; None when that is not known, as of a Job that has been changed since."""
        if (job := self._jobs.get(key)) is not None:
            return job.created if job.generation <= 1 else None
        if (members := self._groups.get(key)) is not None:
            return max((pod.created for pod in members.values()), default=None)
        pod = self._pods.get(key)
        return pod.created if pod is not None else None

    def version_of(self, key: Key) -> str:
        found = self._jobs.get(key) or self._pods.get(key) or self.workloads.get(key)
        return found.version if found is not None else ""

    def workload_for(self, pod: Pod) -> QueuedWorkload | None:
        """The Workload of the job that the pod belongs to."""
        if group := _group_key(pod):
            return self.workloads.get(group)
        owner = pod.owner if _is_of_job(pod) and pod.owner is not None else pod.target
        return next(self._controlled(owner), None)

    def _controlled(self, controller: Target) -> Iterator[QueuedWorkload]:
        for name in sorted(self._owned.get(controller.key, {})):
            workload = self.workloads[name]
            if workload.owner == controller:
                yield workload

    def not_managed(self, found: OwningJob) -> NotManaged | None:
        """Why it does not wait for quota by itself; None if it does."""
        if not self._owners.is_queued(found):
            return NotManaged.NO_QUEUE_NAME
        if not self.selects(found.key.namespace):
            return NotManaged.NAMESPACE
        return NotManaged.OWNER if self._owners.managed_ancestor(found) is not None else None

    def selects(self, namespace: str) -> bool:
        """Whether jobs of the namespace may be managed."""
        return namespace in self._managed_namespaces

    def _drop_job(self, job: Job) -> list[Key]:
        del self._jobs[job.key]
        self._drop_prebuilt(job)
        self._owners.drop(job)
        return [job.key, *self._owners.descendants(job.key)]

    def _drop_set(self, found: StatefulSet) -> list[Key]:
        del self._sets[found.key], self._set_of[workload_key(found)]
        self._owners.drop(found)
        return [workload_key(found), *self._owners.descendants(found.key)]

    def _drop_pod(self, pod: Pod) -> list[Key]:
        del self._pods[pod.key]
        group = _group_key(pod)
        if group is None:
            self._drop_prebuilt(pod)
            return [pod.key]
        members = self._groups[group]
        del members[pod.key]
        if not members:
            del self._groups[group]
        return [group]

    def _note_prebuilt(self, found: Job | Pod) -> None:
        if name := found.labels.get(PREBUILT_WORKLOAD):
            self._prebuilt[Key(Kind.KUEUE_WORKLOAD, found.key.namespace, name)] = found.key

    def _drop_prebuilt(self, found: Job | Pod) -> None:
        if name := found.labels.get(PREBUILT_WORKLOAD):
            self._prebuilt.pop(Key(Kind.KUEUE_WORKLOAD, found.key.namespace, name), None)


def job_key(pod: Pod) -> Key:
    return _group_key(pod) or pod.key


def job_of(pod: Pod) -> Key:
    """As `job_key`, also for pods of Jobs."""
    return pod.owner.key if _is_of_job(pod) and pod.owner is not None else job_key(pod)


def _is_of_job(pod: Pod) -> bool:
    """A pod that waits for quota by itself is no part of another job."""
    return pod.held is None and pod.owner is not None and pod.owner.key.kind is Kind.JOB


def _group_key(pod: Pod) -> Key | None:
    name = group_of(pod)
    return Key(Kind.KUEUE_WORKLOAD, pod.key.namespace, name) if name else None


FlavorOrClass = ResourceFlavor | WorkloadPriorityClass | PriorityClass


class FlavorsAndClasses:
    """ResourceFlavors and the classes that give jobs their priority, by name."""

    reads = (Kind.PRIORITY_CLASS, Kind.WORKLOAD_PRIORITY_CLASS, Kind.RESOURCE_FLAVOR)

    def __init__(self) -> None:
        self._flavors: dict[str, ResourceFlavor] = {}
        self._workload_classes: dict[str, WorkloadPriorityClass] = {}
        self._pod_classes: dict[str, PriorityClass] = {}
        self._versions: dict[Key, tuple[str, str]] = {}

    def put(self, found: FlavorOrClass) -> bool:
        """Whether that is another version than before."""
        match found:
            case ResourceFlavor():
                self._flavors[found.key.name] = found
            case WorkloadPriorityClass():
                self._workload_classes[found.key.name] = found
            case PriorityClass():
                self._pod_classes[found.key.name] = found
        seen, self._versions[found.key] = self._versions.get(found.key), (found.uid, found.version)
        return seen != (found.uid, found.version)

    def drop(self, key: Key, uid: str) -> None:
        known = self._versions.get(key)
        if known is None or known[0] != uid:
            return
        del self._versions[key]
        by_kind: Mapping[Kind, dict[str, ResourceFlavor] | dict[str, WorkloadPriorityClass] | dict[str, PriorityClass]]
        by_kind = dict(zip(self.reads, (self._pod_classes, self._workload_classes, self._flavors), strict=True))
        by_kind[key.kind].pop(key.name, None)

    @property
    def flavors(self) -> Mapping[str, ResourceFlavor]:
        return self._flavors

    def rank(self, job: GenericJob) -> JobPriority | str:
        """Its priority, or the object that has to be created first."""
        return job_priority(job, self._workload_classes, self._pod_classes)
