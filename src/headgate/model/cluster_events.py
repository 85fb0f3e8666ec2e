"""What may turn a refusal into a yes. Refusals name them; queues wake by them."""

from __future__ import annotations

from enum import StrEnum, auto


class ClusterEvent(StrEnum):
    NODE_ADDED = auto()
    NODE_CHANGED = auto()  # labels, taints, allocatable or unschedulable; or it is gone
    ROOM_FREED = auto()  # a pod left a node, or takes less of it
    NEIGHBOURS_CHANGED = auto()  # a pod came to a node, or others' selectors see it differently
    CLAIMS_CHANGED = auto()  # a claim to storage or devices, or what it is bound to
    MEMBERS_CHANGED = auto()  # the pods of a group, where a plugin or members queued one by one listen to it
    CANDIDATES_CHANGED = auto()  # who may be preempted: a running pod's priority, shield or group
    QUEUE_CAPACITY_FREED = auto()  # a queue of Volcano may have capacity for more pods
