"""Debt: quota that was released while its pods still hold capacity of their nodes, until they are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from headgate.lifecycle.jobframework.pod_writes import is_gated
from headgate.lifecycle.workload.conditions import FINISHED, QUOTA_RESERVED, true_since
from headgate.model.kueue_names import CLUSTER_QUEUE_NAME, FLAVORS, POD_SET
from headgate.model.pod import ENDED, Pod
from headgate.model.queues import QueuedWorkload

DebtKey = tuple[str, str, str]
"""Cluster queue, flavor and resource."""
STUCK_AFTER = 30.0  # seconds beyond its grace after which a pod that does not end is reported


class PodOccupancy(Struct, frozen=True):
    """The started pods of a job beside the places its quota is for; counts are by pod set."""

    owing: tuple[Pod, ...] = ()  # they hold capacity whose quota is free, or another's by now
    on_nodes: Mapping[str, int] = {}  # places whose pods are on nodes
    terminates_with_quota: bool = False  # some pods terminate whose quota is still held


def is_started(pod: Pod) -> bool:
    """Whether it holds capacity, or is about to, by quota that it was admitted with."""
    holds_capacity = pod.holds_room if pod.deleted is not None else pod.phase not in ENDED
    return holds_capacity and FLAVORS in pod.annotations and not is_gated(pod)


def is_terminating(pod: Pod) -> bool:
    """Whether it is being deleted and still holds capacity that it was admitted to."""
    return pod.deleted is not None and pod.holds_room and FLAVORS in pod.annotations


def occupancy(pods: Sequence[Pod], workload: QueuedWorkload | None) -> PodOccupancy:
    """The occupancy of a job with these started pods, given its Workload.

    A pod that was deleted while quota was held for its job keeps its place until another is started there.
    """
    since = reserved_since(workload)
    places = places_of(workload)
    free = [pod for pod in pods if is_terminating(pod) and not _has_quota(pod, since)]
    terminating = sorted((pod for pod in pods if is_terminating(pod) and _has_quota(pod, since)), key=_deletion_order)
    running = [pod for pod in pods if not is_terminating(pod)]
    started = _by_pod_set([*running, *terminating])
    excess = {name: min(_count(terminating, name), over) for name, over in _beyond(started, places).items()}
    pushed_out = [pod for name, count in excess.items() for pod in _of(terminating, name)[:count]]
    on_nodes = _by_pod_set(pod for pod in (*running, *terminating) if pod.node)
    on_nodes.subtract(excess)
    return PodOccupancy((*free, *pushed_out), on_nodes, len(pushed_out) < len(terminating))


def reserved_since(workload: QueuedWorkload | None) -> float | None:
    """Since when quota is held for the job; None: it is not."""
    if workload is None or workload.status.admission is None or workload.is_true(FINISHED):
        return None
    return true_since(workload, QUOTA_RESERVED)


def places_of(workload: QueuedWorkload | None) -> dict[str, int]:
    """How many pods of each set have quota."""
    if workload is None or workload.status.admission is None:
        return {}
    return {assigned.name: assigned.count for assigned in workload.status.admission.pod_sets}


def taken_by(pod: Pod) -> Mapping[DebtKey, int]:
    """What the pod takes, by the quota it was started with."""
    queue = pod.labels.get(CLUSTER_QUEUE_NAME, "")
    return {
        (queue, flavor, resource): 1 if resource == "pods" else pod.shape.requests[resource]
        for resource, flavor in flavors_of(pod)
        if resource == "pods" or pod.shape.requests[resource]
    }


def flavors_of(pod: Pod) -> list[tuple[str, str]]:
    """The flavor of each resource, as the pod's annotation says since it started."""
    parts = [part.partition("=") for part in pod.annotations.get(FLAVORS, "").split(",")]
    return [(resource, flavor) for resource, found, flavor in parts if found]


def is_stuck(pod: Pod, now: float) -> bool:
    """Whether it should have been gone for a while."""
    return pod.deleted is not None and pod.holds_room and now >= pod.deleted + STUCK_AFTER


def _has_quota(pod: Pod, since: float | None) -> bool:
    """Quota that was reserved only after the pod was deleted is held for others than this pod."""
    return pod.deleted is not None and since is not None and since <= pod.deleted - pod.grace


def _beyond(started: Mapping[str, int], places: Mapping[str, int]) -> dict[str, int]:
    over = {name: count - places.get(name, 0) for name, count in sorted(started.items())}
    return {name: count for name, count in over.items() if count > 0}


def _pod_set(pod: Pod) -> str:
    return pod.labels.get(POD_SET, "")


def _by_pod_set(pods: Iterable[Pod]) -> Counter[str]:
    return Counter(_pod_set(pod) for pod in pods)


def _of(pods: Sequence[Pod], name: str) -> list[Pod]:
    return [pod for pod in pods if _pod_set(pod) == name]


def _count(pods: Sequence[Pod], name: str) -> int:
    return len(_of(pods, name))


def _deletion_order(pod: Pod) -> tuple[object, ...]:
    return pod.deleted, pod.key
