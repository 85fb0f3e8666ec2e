"""Pods that cannot stop because nobody reaches their node: those that say it is safe are declared failed and removed.

Kueue's FailureRecoveryPolicy. Without it the capacity such pods owe is never free again.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.model.effects import Delete, Effect, EmitEvent, EventType, PatchStatus, PodCondition, PodRun
from headgate.model.node import Node
from headgate.model.pod import ENDED, Phase, Pod

SAFE_TO_REMOVE = "kueue.x-k8s.io/safe-to-forcefully-delete"
UNREACHABLE = "node.kubernetes.io/unreachable"
PATIENCE = 60.0  # seconds beyond its grace that a pod has to end by itself
RECOVERY, REASON = "KueueFailureRecovery", "KueueForcefullyDeleted"


def may_be_removed(pod: Pod) -> bool:
    """It is being deleted, is on a node, and says that nothing is lost when it is gone before it has stopped."""
    return pod.deleted is not None and bool(pod.node) and pod.annotations.get(SAFE_TO_REMOVE) == "true"


def removed_at(pod: Pod) -> float:
    """When its time is up."""
    assert pod.deleted is not None, f"{pod.key} is not being deleted"
    return pod.deleted + PATIENCE


def is_unreachable(node: Node) -> bool:
    return any(taint.key == UNREACHABLE for taint in node.taints)


def removal(pod: Pod, now: float) -> Iterator[Effect]:
    """Why first, then how it ended, so that it holds nothing any more even if a finalizer keeps it; then the object."""
    message = (
        f"Pod forcefully terminated after {pod.grace + PATIENCE:.0f}s grace period due to unreachable node "
        f"`{pod.node}` (triggered by `{SAFE_TO_REMOVE}` annotation)"
    )
    yield PatchStatus(pod.target, PodCondition(RECOVERY, "True", REASON, message, now))
    if pod.phase not in ENDED:
        yield PatchStatus(pod.target, PodRun(Phase.FAILED, now))
    yield Delete(pod.target, grace=0)
    yield EmitEvent(pod.target, EventType.WARNING, REASON, "ForcefulTermination", message, now)
