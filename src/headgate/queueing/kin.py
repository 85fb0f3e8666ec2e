"""Refused pods of one shape wait together; one of them goes to see whether things have changed."""

from __future__ import annotations

import heapq

from headgate.model.happenings import Happening
from headgate.model.keys import Key
from headgate.queueing.waiting import Line, Rank, Waiting


class Kin:
    """Pods that share every verdict: when the first of them is refused, so would be the others.

    A happening sends out one scout instead of all; its success sends the next, its refusal spares the rest.
    """

    def __init__(self) -> None:
        self.wake_on: frozenset[Happening] = frozenset()
        self.refusals = 0  # in a row
        self.not_before = 0.0
        self.scout: Key | None = None
        self._members: dict[Key, Waiting] = {}
        self._order: list[tuple[Rank, Key]] = []

    def __len__(self) -> int:
        return len(self._members)

    def add(self, waiting: Waiting) -> None:
        waiting.line = Line.UNSCHEDULABLE
        self._members[waiting.key] = waiting
        heapq.heappush(self._order, (waiting.rank, waiting.key))

    def remove(self, key: Key) -> None:
        self._members.pop(key, None)

    def pop_first(self) -> Waiting | None:
        """The member that goes before all others; entries of members that left are passed over."""
        while self._order:
            rank, key = heapq.heappop(self._order)
            waiting = self._members.get(key)
            if waiting is not None and waiting.rank == rank:
                del self._members[key]
                return waiting
        return None
