"""Which work there is, and which Workload belongs to it. A new kind of work is one more adapter and its place here."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.lifecycle.jobs import JobWork
from headgate.lifecycle.pod_group_members import group_of
from headgate.lifecycle.pod_groups import GroupWork
from headgate.lifecycle.pods import PodWork
from headgate.lifecycle.quota_conditions import FINISHED, QUOTA_RESERVED, true_since
from headgate.lifecycle.work import Work
from headgate.model.keys import Key, Kind, Target
from headgate.model.kueue_names import PREBUILT_WORKLOAD, QUEUE_NAME
from headgate.model.objects import Job, Namespace
from headgate.model.pod import Pod
from headgate.model.queues import QueuedWorkload
from headgate.model.quota_settings import QuotaSettings


class Works:
    """Holds objects as observed and puts them together. Decides nothing.

    Work goes by the key of its object; a group of pods, which has none, by that of its Workload.
    """

    def __init__(self, settings: QuotaSettings) -> None:
        self._settings = settings
        self._jobs: dict[Key, Job] = {}
        self._pods: dict[Key, Pod] = {}
        self._groups: dict[Key, dict[Key, Pod]] = {}
        self._namespaces: dict[str, Namespace] = {}
        self.workloads: dict[Key, QueuedWorkload] = {}
        self._owned: dict[Key, dict[Key, None]] = {}  # Workloads by their controller
        self._prebuilt: dict[Key, Key] = {}  # work by the Workload it asks for

    # what is now true; each returns the work that may have to be looked at anew

    def put_job(self, job: Job) -> list[Key]:
        self._jobs[job.key] = job
        self._note_prebuilt(job)
        return [job.key]

    def put_pod(self, pod: Pod) -> list[Key]:
        known = self._pods.get(pod.key)
        before = self._drop_pod(known) if known is not None else []
        self._pods[pod.key] = pod
        if group := _group_key(pod):
            self._groups.setdefault(group, {})[pod.key] = pod
        else:
            self._note_prebuilt(pod)
        return list(dict.fromkeys([*before, work_key(pod)]))

    def put_workload(self, workload: QueuedWorkload) -> list[Key]:
        before = self.drop_workload(workload.key)
        self.workloads[workload.key] = workload
        if workload.is_controlled and workload.owner is not None:
            self._owned.setdefault(workload.owner.key, {})[workload.key] = None
        return list(dict.fromkeys([*before, *self.works_of(workload)]))

    def put_namespace(self, namespace: Namespace) -> list[Key]:
        known = self._namespaces.get(namespace.key.name)
        self._namespaces[namespace.key.name] = namespace
        if known is not None and known.labels == namespace.labels:
            return []
        return [key for key in self._jobs if key.namespace == namespace.key.name]

    def drop(self, key: Key, uid: str) -> list[Key]:
        """The object is gone, unless another has its name by now."""
        if (workload := self.workloads.get(key)) is not None and workload.uid == uid:
            return self.drop_workload(key)
        if (pod := self._pods.get(key)) is not None and pod.uid == uid:
            return self._drop_pod(pod)
        if (job := self._jobs.get(key)) is not None and job.uid == uid:
            del self._jobs[key]
            self._drop_prebuilt(job)
            return [key]
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
        return self.works_of(known)

    # what that means

    def everything(self) -> list[Key]:
        single = [key for key, pod in self._pods.items() if not group_of(pod)]
        return [*self._jobs, *self._groups, *single]

    def works_of(self, workload: QueuedWorkload) -> list[Key]:
        """The work that looks at this Workload; the key of its owner also when there is no such object."""
        return list(dict.fromkeys(self._claimants(workload)))

    def _claimants(self, workload: QueuedWorkload) -> Iterator[Key]:
        if workload.is_controlled and workload.owner is not None:
            yield workload.owner.key
        if workload.owners or workload.key in self._groups:
            yield workload.key
        if workload.key in self._prebuilt:
            yield self._prebuilt[workload.key]

    def find(self, key: Key) -> Work | None:
        """The work of that key, if it is there and is ours to hold back."""
        release = self._settings.quota_release
        if (job := self._jobs.get(key)) is not None:
            return JobWork(job, release) if self._is_managed(job) else None
        if (members := self._groups.get(key)) is not None:
            workload = self.workloads.get(key)
            ours = workload is not None and not workload.is_controlled
            return GroupWork(list(members.values()), workload if ours else None, release)
        pod = self._pods.get(key)
        return PodWork(pod, release) if pod is not None else None

    def workload_of(self, work: Work) -> tuple[QueuedWorkload | None, tuple[QueuedWorkload, ...]]:
        """The Workload of that work, and others that say they are its own."""
        named = self.workloads.get(work.workload_key)
        if work.controller is None:
            return named, ()
        others = [each for each in self._controlled(work.controller) if each is not named]
        if named is not None or PREBUILT_WORKLOAD in work.labels or not others:
            return named, tuple(others)
        return others[0], tuple(others[1:])

    def left_behind(self, key: Key) -> Iterator[QueuedWorkload]:
        """Workloads whose owner, an object of that key or the pods of that group, is not there any more."""
        if key.kind is Kind.KUEUE_WORKLOAD:
            workload = self.workloads.get(key)
            if workload is not None and workload.owners and key not in self._groups:
                yield workload
            return
        there = self._jobs.get(key) or self._pods.get(key)
        uid = there.uid if there is not None else ""
        for name in sorted(self._owned.get(key, {})):
            workload = self.workloads[name]
            if workload.owner is not None and workload.owner.uid != uid:
                yield workload

    def version_of(self, key: Key) -> str:
        found = self._jobs.get(key) or self._pods.get(key) or self.workloads.get(key)
        return found.version if found is not None else ""

    def reserved_since(self, pod: Pod) -> float | None:
        """Since when quota is held for the work the pod belongs to; None: it is not."""
        workload = self._workload_for(pod)
        if workload is None or workload.admission is None or workload.is_true(FINISHED):
            return None
        return true_since(workload, QUOTA_RESERVED)

    def _workload_for(self, pod: Pod) -> QueuedWorkload | None:
        if group := _group_key(pod):
            return self.workloads.get(group)
        of_job = pod.owner is not None and pod.owner.key.kind is Kind.JOB
        owner = pod.owner if of_job and pod.owner is not None else pod.target
        return next(self._controlled(owner), None)

    def _controlled(self, controller: Target) -> Iterator[QueuedWorkload]:
        for name in sorted(self._owned.get(controller.key, {})):
            workload = self.workloads[name]
            if workload.owner == controller:
                yield workload

    def _is_managed(self, job: Job) -> bool:
        """It names a queue, or all jobs wait; its namespace is one of ours, and no work of ours made it."""
        namespace = self._namespaces.get(job.key.namespace)
        if namespace is None or not all(part.holds(namespace.labels) for part in self._settings.namespaces):
            return False
        if job.owner is not None and job.owner.key in self._jobs:
            return False
        return bool(job.labels.get(QUEUE_NAME)) or self._settings.manages_all

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


def work_key(pod: Pod) -> Key:
    return _group_key(pod) or pod.key


def _group_key(pod: Pod) -> Key | None:
    name = group_of(pod)
    return Key(Kind.KUEUE_WORKLOAD, pod.key.namespace, name) if name else None
