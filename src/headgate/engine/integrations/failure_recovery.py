"""Removes terminating pods of unreachable nodes, once their time is up: nobody else can say that they ended.

Kueue's FailureRecoveryPolicy, for pods that say it is safe. Without it the capacity they owe is never free again.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.engine.deadlines import Deadlines
from headgate.engine.in_flight import InFlightWrites, WritePolicy, WriteResult
from headgate.model.effects import Delete, Effect, EmitEvent, EventType, PatchStatus, PodCondition, PodRun
from headgate.model.events import Outcome
from headgate.model.keys import Key
from headgate.model.node import Node
from headgate.model.pod import ENDED, Phase, Pod
from headgate.queueing.backoff import Backoff

SAFE_TO_REMOVE = "kueue.x-k8s.io/safe-to-forcefully-delete"
UNREACHABLE = "node.kubernetes.io/unreachable"
PATIENCE = 60.0  # seconds beyond its grace that a pod has to end by itself
RECOVERY, REASON = "KueueFailureRecovery", "KueueForcefullyDeleted"
TRY_AGAIN_AFTER = 10.0  # seconds
POLICY = WritePolicy(Backoff(TRY_AGAIN_AFTER, TRY_AGAIN_AFTER), resends=False, refusal_rest=TRY_AGAIN_AFTER)


class FailureRecovery:
    """Keeps only pods that may be removed; none when it is turned off."""

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._unreachable: dict[str, str] = {}  # uids of such nodes by name
        self._deadlines = Deadlines[Key]()  # pods to be looked at when a time has come
        self._deletions = InFlightWrites[Key, Delete](POLICY)
        self._removed: dict[Key, None] = {}  # pods whose deletion was accepted, and that are not gone yet
        self.pods: dict[Key, Pod] = {}

    def put_pod(self, pod: Pod) -> None:
        if not self._is_on or not may_be_removed(pod):
            self._drop(pod.key)
            return
        known = self.pods.get(pod.key)
        if known is not None and known.uid != pod.uid:
            self._drop(pod.key)
        self.pods[pod.key] = pod
        if known is None or known.deleted != pod.deleted or known.node != pod.node:
            self._deadlines.set(pod.key, removed_at(pod))

    def drop_pod(self, key: Key, uid: str) -> None:
        known = self.pods.get(key)
        if known is not None and known.uid == uid:
            self._drop(key)

    def put_node(self, node: Node) -> None:
        if not is_unreachable(node):
            self._unreachable.pop(node.name, None)
        elif self._is_on and node.name not in self._unreachable:
            self._unreachable[node.name] = node.uid
            for pod in self.pods.values():
                if pod.node == node.name:
                    self._deadlines.set(pod.key, removed_at(pod))

    def drop_node(self, key: Key, uid: str) -> None:
        if self._unreachable.get(key.name) == uid:
            del self._unreachable[key.name]

    def answer(self, outcome: Outcome, now: float) -> None:
        """A deletion that failed is decided anew later; one that was accepted is not repeated."""
        effect = outcome.effect
        if not isinstance(effect, Delete):
            return
        key = effect.target.key
        result = self._deletions.answer(key, effect, outcome.trouble, "", now)
        if result in (WriteResult.CONFIRMED, WriteResult.REFUSED):
            self._removed[key] = None

    def settle(self, now: float) -> Iterator[Effect]:
        """Removes the pods whose time is up."""
        failed = [key for key, _, _ in self._deletions.due(now)]
        for key in (*self._deadlines.due(now), *failed):
            pod = self.pods.get(key)
            if pod is None or key in self._removed or key in self._deletions:
                continue
            if pod.node in self._unreachable and removed_at(pod) <= now:
                yield from self._remove(pod, now)

    @property
    def deadlines(self) -> tuple[Deadlines[Key], ...]:
        """When to call `settle`."""
        return self._deadlines, self._deletions.deadlines

    def _remove(self, pod: Pod, now: float) -> Iterator[Effect]:
        for effect in removal(pod, now):
            if isinstance(effect, Delete):
                self._deletions.send(pod.key, effect)
            yield effect

    def _drop(self, key: Key) -> None:
        if self.pods.pop(key, None) is not None:
            self._deadlines.drop(key)
            self._deletions.forget(key)
            self._removed.pop(key, None)


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
