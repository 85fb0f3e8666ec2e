"""Which group a pod says it belongs to."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headgate.api.wire import Metadata, Wire
from headgate.model.groups import GroupKey
from headgate.model.keys import Key, Kind

WORKLOAD = "scheduling.headgate.dev/workload"
POD_GROUP = "scheduling.headgate.dev/pod-group"
REPLICA = "scheduling.headgate.dev/pod-group-replica-key"
GROUP_NAME = "scheduling.k8s.io/group-name"  # Volcano's too, and the one it looks at first
VOLCANO_GROUP_NAME = "scheduling.volcano.sh/group-name"
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_TOTAL = "kueue.x-k8s.io/pod-group-total-count"
KUEUE_SERVING = "kueue.x-k8s.io/pod-group-serving"

_COUNT = re.compile(r"[0-9]{1,9}")
_NOTHING: Mapping[str, str] = {}


class WorkloadReference(Wire, frozen=True):
    name: str
    pod_group: str
    pod_group_replica_key: str = ""


class SchedulingGroup(Wire, frozen=True):
    pod_group_name: str | None = None


def group_and_total(
    metadata: Metadata, reference: WorkloadReference | None, scheduling: SchedulingGroup | None
) -> tuple[GroupKey | None, int]:
    """The pod's group, and how many pods that has where the pods themselves say so (else 0).

    Of several ways to name a group the first counts: our labels, spec.workloadRef, spec.schedulingGroup,
    Volcano's annotations, Kueue's label or annotation. Kueue's counts only with a total of at least one pod, and
    not of pods that serve: these come one after another, and each does its work without the others.
    """
    labels, annotations = metadata.labels or _NOTHING, metadata.annotations or _NOTHING
    space = metadata.namespace
    if workload := labels.get(WORKLOAD):
        return GroupKey(Key(Kind.WORKLOAD, space, workload), labels.get(POD_GROUP, ""), labels.get(REPLICA, "")), 0
    if reference is not None:
        key = Key(Kind.WORKLOAD, space, reference.name)
        return GroupKey(key, reference.pod_group, reference.pod_group_replica_key), 0
    if scheduling is not None and scheduling.pod_group_name:
        return GroupKey(Key(Kind.POD_GROUP, space, scheduling.pod_group_name)), 0
    if volcano := annotations.get(GROUP_NAME) or annotations.get(VOLCANO_GROUP_NAME):
        return GroupKey(Key(Kind.VOLCANO_POD_GROUP, space, volcano)), 0
    if (total := annotations.get(KUEUE_TOTAL)) and annotations.get(KUEUE_SERVING) != "true":
        return _group_of_kueue(space, labels.get(KUEUE_GROUP) or annotations.get(KUEUE_GROUP), total)
    return None, 0


def _group_of_kueue(namespace: str, name: str | None, total: str) -> tuple[GroupKey | None, int]:
    count = int(total) if _COUNT.fullmatch(total) else 0
    return (GroupKey(Key(Kind.KUEUE_WORKLOAD, namespace, name)), count) if name and count else (None, 0)
