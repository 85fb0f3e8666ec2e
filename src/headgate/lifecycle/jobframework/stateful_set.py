"""StatefulSets: all pods of one are a group that is admitted as a whole, made for it before the pods are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Raw

from headgate.lifecycle.jobframework import pod_writes
from headgate.lifecycle.jobframework.generic_job import WantedPodSet, topology_request
from headgate.lifecycle.jobframework.pod_group import PodGroupAdapter
from headgate.model.effects import Effect, Owners, PatchSpec
from headgate.model.keys import Key, Kind, Target
from headgate.model.kueue_names import IS_GROUP_WORKLOAD, JOB_OWNER_KIND, JOB_OWNER_NAME, stateful_set_workload
from headgate.model.objects import StatefulSet
from headgate.model.pod import ENDED, Pod
from headgate.model.queues import QueuedWorkload, TopologyRequest
from headgate.model.settings import QuotaRelease

POD_SET_NAME = "main"
OWNER_KIND = "apps/v1, Kind=StatefulSet"
"""How its Workload says whose it is."""
SCALED_TO_ZERO = "StatefulSet scaled to zero; workload on hold"
_templates = msgspec.json.Decoder(dict[str, Raw])


def workload_key(owner: StatefulSet) -> Key:
    name = stateful_set_workload(owner.key.name, owner.uid, owner.labels)
    return Key(Kind.KUEUE_WORKLOAD, owner.key.namespace, name)


class StatefulSetAdapter(PodGroupAdapter):
    """A StatefulSet and the pods of it that are there. It never ends, and its own controller replaces its pods."""

    problem = ""
    missing = ending = None
    reclaimable = ()
    part_labels: Sequence[Mapping[str, str]] = ()

    def __init__(
        self, owner: StatefulSet, pods: Sequence[Pod], workload: QueuedWorkload | None, release: QuotaRelease
    ) -> None:
        super().__init__(pods, workload, release)
        self._set = owner
        self.parts = (owner.target, *self.parts)
        self.uid, self.on_hold = owner.uid, "" if owner.replicas else SCALED_TO_ZERO
        kind = {JOB_OWNER_KIND: OWNER_KIND, JOB_OWNER_NAME: owner.key.name}
        self.workload_annotations = {IS_GROUP_WORKLOAD: "true", **kind}

    @property
    def key(self) -> Key:
        return workload_key(self._set)

    @property
    def owners(self) -> tuple[Target, ...]:
        return (self._set.target,)

    @property
    def labels(self) -> Mapping[str, str]:
        return self._set.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self._set.annotations

    @property
    def pod_priority_class(self) -> str:
        return self._set.pods.priority_class

    @property
    def is_complete(self) -> bool:
        return self._set.replicas > 0

    @property
    def is_terminating(self) -> bool:
        return self._set.deleted is not None

    def pod_sets(self) -> tuple[WantedPodSet, ...]:
        spec = _templates.decode(self._set.template).get("spec", Raw(b"{}"))
        template = Raw(msgspec.json.encode({"spec": spec}))
        return (WantedPodSet(POD_SET_NAME, template, self._set.replicas, topology=self._topology),)

    def matches(self, workload: QueuedWorkload) -> bool:
        """What has quota is left as it is: pods beyond it keep their gate."""
        if workload.status.admission is not None or not self._set.replicas or len(workload.pod_sets) != 1:
            return True
        (wanted,) = workload.pod_sets
        mine = (self._set.replicas, self._set.pods.needs, self._topology)
        return mine == (wanted.count, wanted.needs, wanted.topology)

    @property
    def _topology(self) -> TopologyRequest:
        return topology_request(self._set.pods.annotations)

    def sync_parts(self, workload: QueuedWorkload | None, now: float) -> Iterator[Effect]:
        """Pods that are done are let go; the place of each is taken by the next of its name."""
        if workload is not None and self._set.target not in workload.owners:
            target = Target(workload.key, workload.uid, workload.version)
            yield PatchSpec(target, Owners((*workload.owners, self._set.target)))
        for pod in self._pods:
            if pod.phase in ENDED or pod.deleted is not None:
                yield from pod_writes.finalize(pod)

    def delete(self) -> Iterator[Effect]:
        """What serves is not for us to delete."""
        return iter(())
