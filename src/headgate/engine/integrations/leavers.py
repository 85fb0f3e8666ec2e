"""Pods that were asked to leave and still take room, and which of them should be gone by now."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from headgate.lifecycle.debt import STUCK_AFTER, is_leaving, is_stuck
from headgate.model.keys import Key
from headgate.model.pod import Pod


class Leavers:
    """Knows when to look whether a pod is stuck."""

    def __init__(self) -> None:
        self._pods: dict[Key, Pod] = {}
        self._overdue: list[tuple[float, Key]] = []  # when to see whether a pod that leaves is stuck
        self.stuck: dict[Key, None] = {}

    def put(self, pod: Pod) -> bool:
        """Whether the pod left, and does not leave any more."""
        if not is_leaving(pod):
            return self.drop(pod.key)
        known = pod.key in self._pods
        self._pods[pod.key] = pod
        if not known:
            self._look_at(pod)
        return False

    def drop(self, key: Key) -> bool:
        """Whether the pod left."""
        self.stuck.pop(key, None)
        return self._pods.pop(key, None) is not None

    def newly_stuck(self, now: float) -> Iterator[Pod]:
        """Pods that should be gone and are not; each once."""
        while self._overdue and self._overdue[0][0] <= now:
            pod = self._pods.get(heapq.heappop(self._overdue)[1])
            if pod is None or pod.key in self.stuck:
                continue
            if is_stuck(pod, now):
                self.stuck[pod.key] = None
                yield pod
            else:
                self._look_at(pod)

    def next_looks(self) -> list[float]:
        return [at for at, _ in self._overdue[:1]]

    def _look_at(self, pod: Pod) -> None:
        assert pod.deleted is not None, f"{pod.key} does not leave"
        heapq.heappush(self._overdue, (pod.deleted + STUCK_AFTER, pod.key))
