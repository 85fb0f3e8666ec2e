"""How many workloads each queue has, and how much they hold: counted as they change, never recounted."""

from __future__ import annotations

from collections import Counter, defaultdict
from enum import StrEnum

from msgspec import Struct

from headgate.model.keys import Key
from headgate.quota.tree import FlavorResource, Usage


class Place(StrEnum):
    """Where a workload stands with its queues."""

    PENDING = "pending"
    RESERVING = "reserving"
    ADMITTED = "admitted"


_PENDING, _ADMITTED = Place.PENDING, Place.ADMITTED


class Standing(Struct, frozen=True, gc=False):
    """One workload in the books of its queues; `waits_for_pods` where it is admitted and its pods are not ready."""

    local: Key
    queue: str
    place: Place
    usage: Usage = ()
    waits_for_pods: bool = False


class QueueCount:
    """What is told of one queue. Admitted workloads are counted among the reserving as well."""

    __slots__ = ("admitted", "pending", "reservation", "reserving", "usage")

    def __init__(self) -> None:
        self.pending = self.reserving = self.admitted = 0
        self.reservation: Counter[FlavorResource] = Counter()
        self.usage: Counter[FlavorResource] = Counter()

    def count(self, standing: Standing, sign: int) -> None:
        if standing.place is _PENDING:
            self.pending += sign
            return
        is_admitted = standing.place is _ADMITTED
        self.reserving += sign
        if is_admitted:
            self.admitted += sign
        for of, amount in standing.usage:
            change = sign * amount
            self.reservation[of] += change
            if is_admitted:
                self.usage[of] += change


class Tally:
    """The counts of all queues, and which of them changed since they were last asked for."""

    def __init__(self) -> None:
        self._standings: dict[Key, Standing] = {}
        self._locals: defaultdict[Key, QueueCount] = defaultdict(QueueCount)
        self._queues: defaultdict[str, QueueCount] = defaultdict(QueueCount)
        self.changed_locals: dict[Key, None] = {}
        self.changed_queues: dict[str, None] = {}
        self.waiting_for_pods = 0

    def put(self, key: Key, standing: Standing | None) -> None:
        """The workload stands so now; None: it is no concern of any queue."""
        before = self._standings.get(key)
        if before == standing:
            return
        if before is not None:
            self._count(before, -1)
        if standing is not None:
            self._count(standing, 1)
            self._standings[key] = standing
        else:
            del self._standings[key]

    def get(self, key: Key) -> Standing | None:
        return self._standings.get(key)

    def local(self, key: Key) -> QueueCount:
        return self._locals.get(key) or QueueCount()

    def queue(self, name: str) -> QueueCount:
        return self._queues.get(name) or QueueCount()

    def _count(self, standing: Standing, sign: int) -> None:
        local, queue = standing.local, standing.queue
        self._locals[local].count(standing, sign)
        self._queues[queue].count(standing, sign)
        self.changed_locals[local] = self.changed_queues[queue] = None
        if standing.waits_for_pods:
            self.waiting_for_pods += sign
