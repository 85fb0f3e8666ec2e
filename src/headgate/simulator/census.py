"""Counts over a whole run: what became of the pods, and how long they waited for a node."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from headgate.model.events import Gone, Observed
from headgate.model.keys import Kind
from headgate.model.pod import Phase, Pod
from headgate.simulator.observing import Sight


class Census:
    def __init__(self) -> None:
        self.created = self.bound = self.succeeded = self.failed = 0
        self.waits: list[float] = []
        self._known: dict[str, Pod] = {}
        self._since: dict[str, float] = {}
        self._waiting: dict[str, None] = {}

    def count(self, sights: Iterable[Sight], now: float) -> None:
        for sight in sights:
            match sight:
                case Observed(Pod() as pod):
                    self._count(pod, now)
                case Gone(key, uid) if key.kind is Kind.POD:
                    for book in (self._known, self._since, self._waiting):
                        book.pop(uid, None)

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def _count(self, pod: Pod, now: float) -> None:
        known = self._known.get(pod.uid)
        self._known[pod.uid] = pod
        if known is None:
            self.created += 1
            self._since[pod.uid] = now
        if pod.wants_node:
            self._waiting[pod.uid] = None
        elif self._waiting.pop(pod.uid, 0) is None and pod.node:
            self.waits.append(now - self._since[pod.uid])
        self.bound += bool(pod.node) and not (known and known.node)
        before = known.phase if known else Phase.PENDING
        self.succeeded += pod.phase is Phase.SUCCEEDED and before is not Phase.SUCCEEDED
        self.failed += pod.phase is Phase.FAILED and before is not Phase.FAILED and pod.deleted is None


def summary_of(censuses: Iterable[Census], decisions: int, effects: int) -> dict[str, object]:
    every = list(censuses)
    waits = sorted(wait for census in every for wait in census.waits)
    return {
        "pods": {
            "created": sum(census.created for census in every),
            "bound": sum(census.bound for census in every),
            "succeeded": sum(census.succeeded for census in every),
            "failed": sum(census.failed for census in every),
            "pending": sum(census.pending for census in every),
        },
        "decisions": decisions,
        "effects": effects,
        "waitingSeconds": {
            "min": round(waits[0], 6),
            "median": round(statistics.median(waits), 6),
            "max": round(waits[-1], 6),
        }
        if waits
        else None,
    }
