"""Quota that was given back by pods that still take room on their nodes: a debt, until they are really gone."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.model.kueue_names import CLUSTER_QUEUE_NAME, FLAVORS
from headgate.model.pod import Pod

DebtKey = tuple[str, str, str]
"""Cluster queue, flavor and resource."""
STUCK_AFTER = 30.0  # seconds beyond its grace after which a pod that does not end is reported


def debt_of(pod: Pod, reserved_since: float | None) -> Mapping[DebtKey, int]:
    """What the pod still takes although its quota is free; nothing while quota is held for it.

    Quota that was reserved for its work only after the pod was asked to leave is held for others than this pod.
    """
    if pod.deleted is None or not pod.holds_room or FLAVORS not in pod.annotations:
        return {}
    asked_to_leave = pod.deleted - pod.grace
    if reserved_since is not None and reserved_since <= asked_to_leave:
        return {}
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
