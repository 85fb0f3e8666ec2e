"""Quota that was given back by pods that still take room on their nodes: a debt, until they are really gone."""

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
    """How the started pods of some work stand to the places that quota is held for; counts are by pod set."""

    owing: tuple[Pod, ...] = ()  # they take room whose quota is free, or another's by now
    on_nodes: Mapping[str, int] = {}  # places whose pods take room
    terminates_with_quota: bool = False  # some pods leave whose quota is still held


def is_started(pod: Pod) -> bool:
    """Whether it takes room, or is about to, by quota that we gave it."""
    occupies_nodes = pod.holds_room if pod.deleted is not None else pod.phase not in ENDED
    return occupies_nodes and FLAVORS in pod.annotations and not is_gated(pod)


def is_terminating(pod: Pod) -> bool:
    """Whether it was asked to leave and still takes room that we gave it."""
    return pod.deleted is not None and pod.holds_room and FLAVORS in pod.annotations


def occupancy(pods: Sequence[Pod], workload: QueuedWorkload | None) -> PodOccupancy:
    """How started pods of one work stand, given its Workload.

    A pod that was asked to leave while quota was held for its work keeps its place until another is started there.
    """
    since = reserved_since(workload)
    places = places_of(workload)
    free = [pod for pod in pods if is_terminating(pod) and not _has_quota(pod, since)]
    leaving = sorted((pod for pod in pods if is_terminating(pod) and _has_quota(pod, since)), key=_order_of_leaving)
    staying = [pod for pod in pods if not is_terminating(pod)]
    started = _by_pod_set([*staying, *leaving])
    excess = {name: min(_count(leaving, name), over) for name, over in _beyond(started, places).items()}
    pushed_out = [pod for name, count in excess.items() for pod in _of(leaving, name)[:count]]
    on_nodes = _by_pod_set(pod for pod in (*staying, *leaving) if pod.node)
    on_nodes.subtract(excess)
    return PodOccupancy((*free, *pushed_out), on_nodes, len(pushed_out) < len(leaving))


def reserved_since(workload: QueuedWorkload | None) -> float | None:
    """Since when quota is held for the work; None: it is not."""
    if workload is None or workload.admission is None or workload.is_true(FINISHED):
        return None
    return true_since(workload, QUOTA_RESERVED)


def places_of(workload: QueuedWorkload | None) -> dict[str, int]:
    """How many pods of each set have quota."""
    if workload is None or workload.admission is None:
        return {}
    return {assigned.name: assigned.count for assigned in workload.admission.pod_sets}


def debt_of(pod: Pod, reserved_since: float | None) -> Mapping[DebtKey, int]:
    """What one pod by itself still takes although its quota is free; nothing while quota is held for it."""
    return {} if not is_terminating(pod) or _has_quota(pod, reserved_since) else taken_by(pod)


def taken_by(pod: Pod) -> Mapping[DebtKey, int]:
    """What the pod takes, by the quota it was started with."""
    queue = pod.labels.get(CLUSTER_QUEUE_NAME, "")
    return {
        (queue, flavor, resource): 1 if resource == "pods" else pod.shape.requests[resource]
        for resource, flavor in flavors_of(pod)
        if resource == "pods" or pod.shape.requests[resource]
    }


def flavors_of(pod: Pod) -> list[tuple[str, str]]:
    """The flavor of each resource, as the pod was told when it started."""
    parts = [part.partition("=") for part in pod.annotations.get(FLAVORS, "").split(",")]
    return [(resource, flavor) for resource, found, flavor in parts if found]


def is_stuck(pod: Pod, now: float) -> bool:
    """Whether it should have been gone for a while."""
    return pod.deleted is not None and pod.holds_room and now >= pod.deleted + STUCK_AFTER


def _has_quota(pod: Pod, since: float | None) -> bool:
    """Quota that was reserved only after the pod was asked to leave is held for others than this pod."""
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


def _order_of_leaving(pod: Pod) -> tuple[object, ...]:
    return pod.deleted, pod.key
