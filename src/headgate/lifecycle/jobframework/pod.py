"""Single pods: held back by a scheduling gate, and never started twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headgate.lifecycle import terminating
from headgate.lifecycle.jobframework import pod_writes
from headgate.lifecycle.jobframework.generic_job import (
    Ending,
    PodSetInfos,
    Stop,
    WantedPodSet,
    requests_topology,
    topology_request,
)
from headgate.model.effects import Delete, Effect
from headgate.model.keys import Key, Kind, Target
from headgate.model.kueue_names import PREBUILT_WORKLOAD, workload_name
from headgate.model.pod import ENDED, Phase, Pod
from headgate.model.queues import QueuedWorkload
from headgate.model.settings import QuotaRelease

POD_SET_NAME = "main"


class PodAdapter:
    """One pod by itself. What it asks for cannot change, but for the topology that its annotations request."""

    missing = None
    problem = on_hold = ""
    is_complete = True
    workload_annotations: Mapping[str, str] = {}
    reclaimable = ()

    def __init__(self, pod: Pod, release: QuotaRelease) -> None:
        self.pod = pod
        self._release = release
        self.key, self.uid = pod.key, pod.uid
        self.labels, self.annotations = pod.labels, pod.annotations
        self.part_labels: Sequence[Mapping[str, str]] = (pod.labels,)
        self.controller: Target | None = Target(pod.key, pod.uid)
        self.parts = self.owners = (Target(pod.key, pod.uid),)
        self.pod_priority_class = pod_writes.held(pod).priority_class
        self.is_terminating = pod.deleted is not None
        self.may_run = pod_writes.may_run(pod)
        name = pod.labels.get(PREBUILT_WORKLOAD) or workload_name("Pod", "", pod.key.name, pod.uid)
        self.workload_key = Key(Kind.KUEUE_WORKLOAD, pod.key.namespace, name)

    @property
    def can_start(self) -> bool:
        return pod_writes.can_start(self.pod)

    @property
    def can_restart(self) -> bool:
        """Only if it never ran: a pod that is stopped is deleted."""
        return pod_writes.is_gated(self.pod) and not self.is_terminating

    @property
    def ending(self) -> Ending | None:
        if self.pod.phase not in ENDED:
            return None
        if self.pod.phase is Phase.SUCCEEDED:
            return Ending("Succeeded", "Pod finished successfully")
        return Ending("Failed", "Pod failed")

    @property
    def is_ready(self) -> bool:
        return pod_writes.held(self.pod).ready or self.pod.phase is Phase.SUCCEEDED

    def is_active(self, now: float) -> bool:
        return terminating.is_active((self.pod,), now, self._release)

    def occupies_nodes(self, now: float) -> bool:
        return self.pod.holds_room

    def next_release(self, now: float) -> float | None:
        return terminating.next_release((self.pod,), now, self._release)

    def pod_sets(self) -> tuple[WantedPodSet, ...]:
        topology = topology_request(self.pod.annotations)
        return (WantedPodSet(POD_SET_NAME, pod_writes.template(self.pod), 1, topology=topology),)

    def owns(self, workload: QueuedWorkload) -> bool:
        if workload.owner is None:
            return self.pod.labels.get(PREBUILT_WORKLOAD) == workload.key.name
        return workload.is_controlled and workload.owner.uid == self.pod.uid

    def matches(self, workload: QueuedWorkload) -> bool:
        if len(workload.pod_sets) != 1:
            return False
        is_admitted = workload.status.admission is not None
        return is_admitted or requests_topology(workload.pod_sets[0], self.labels, self.annotations)

    def start(self, workload: QueuedWorkload, given: PodSetInfos) -> Iterator[Effect]:
        yield pod_writes.start(self.pod, given[workload.pod_sets[0].name])

    def start_elsewhere(self) -> Iterator[Effect]:
        """Its gate stays."""
        return iter(())

    def stop(self, why: Stop) -> Iterator[Effect]:
        if self.may_run:
            yield from pod_writes.stop(self.pod, why)

    def sync_parts(self, workload: QueuedWorkload | None, now: float) -> Iterator[Effect]:
        return iter(())

    def delete(self) -> Iterator[Effect]:
        yield Delete(self.pod.target)

    def finalize(self) -> Iterator[Effect]:
        yield from pod_writes.finalize(self.pod)
