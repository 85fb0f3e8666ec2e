"""Watches pods that were asked to leave nodes nobody reaches, and removes them when their time is up."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from headgate.lifecycle.terminating.failure_recovery import is_unreachable, may_be_removed, removal, removed_at
from headgate.model.effects import Delete, Effect
from headgate.model.events import Outcome, Trouble
from headgate.model.keys import Key
from headgate.model.node import Node
from headgate.model.pod import Pod

TRY_AGAIN_AFTER = 10.0  # seconds


class FailureRecovery:
    """Holds only pods that may be removed; turned off, none."""

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._pods: dict[Key, Pod] = {}
        self._unreachable: dict[str, str] = {}  # uids of such nodes by name
        self._looks: list[tuple[float, Key]] = []  # pods to be looked at when a time has come
        self._asked: dict[Key, str] = {}  # uids of those that are being removed

    def put_pod(self, pod: Pod) -> None:
        if not self._is_on or not may_be_removed(pod):
            self._drop(pod.key)
            return
        known = self._pods.get(pod.key)
        self._pods[pod.key] = pod
        if known is None or known.deleted != pod.deleted or known.node != pod.node:
            heapq.heappush(self._looks, (removed_at(pod), pod.key))

    def drop_pod(self, key: Key, uid: str) -> None:
        known = self._pods.get(key)
        if known is not None and known.uid == uid:
            self._drop(key)

    def put_node(self, node: Node) -> None:
        if not is_unreachable(node):
            self._unreachable.pop(node.name, None)
        elif self._is_on and node.name not in self._unreachable:
            self._unreachable[node.name] = node.uid
            for pod in self._pods.values():
                if pod.node == node.name:
                    heapq.heappush(self._looks, (removed_at(pod), pod.key))

    def drop_node(self, key: Key, uid: str) -> None:
        if self._unreachable.get(key.name) == uid:
            del self._unreachable[key.name]

    def answered(self, outcome: Outcome, now: float) -> None:
        """What did not take hold is tried again."""
        effect, trouble = outcome.effect, outcome.trouble
        if not isinstance(effect, Delete) or trouble in (None, Trouble.GONE):
            return
        if self._asked.get(effect.target.key) == effect.target.uid:
            del self._asked[effect.target.key]
            heapq.heappush(self._looks, (now + TRY_AGAIN_AFTER, effect.target.key))

    def settle(self, now: float) -> Iterator[Effect]:
        while self._looks and self._looks[0][0] <= now:
            pod = self._pods.get(heapq.heappop(self._looks)[1])
            if pod is None or pod.key in self._asked or pod.node not in self._unreachable or removed_at(pod) > now:
                continue
            self._asked[pod.key] = pod.uid
            yield from removal(pod, now)

    def next_looks(self) -> list[float]:
        return [at for at, _ in self._looks[:1]]

    def _drop(self, key: Key) -> None:
        self._pods.pop(key, None)
        self._asked.pop(key, None)
