"""Applicants in order, with whole classes of them set aside and brought back at once."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from headgate.model.keys import Key
from headgate.quota.order import Applicant, EquivalenceClass, Rank

Place = tuple[Rank, Key]


class Lines:
    """One line, or several by name. In each, only the first of every class stands in front.

    So a class that is blocked costs nothing, however many belong to it. No call but `all` looks at everybody.
    """

    def __init__(self) -> None:
        self._members: dict[Key, tuple[str, Applicant]] = {}
        self._kin: dict[tuple[str, EquivalenceClass], list[Place]] = {}
        self._fronts: dict[str, list[Place]] = {}
        self._sizes: Counter[EquivalenceClass] = Counter()
        self._blocked: dict[EquivalenceClass, None] = {}

    def __len__(self) -> int:
        return len(self._members)

    @property
    def blocked(self) -> int:
        """How many belong to a blocked class."""
        return sum(self._sizes[kind] for kind in self._blocked)

    @property
    def sizes(self) -> Mapping[EquivalenceClass, int]:
        """How many belong to each class, blocked or not."""
        return self._sizes

    def get(self, key: Key) -> Applicant | None:
        found = self._members.get(key)
        return found[1] if found else None

    def is_blocked(self, kind: EquivalenceClass) -> bool:
        return kind in self._blocked

    def all(self) -> list[Applicant]:
        return [applicant for _, applicant in self._members.values()]

    def add(self, line: str, applicant: Applicant) -> None:
        self.remove(applicant.key)
        self._members[applicant.key] = line, applicant
        self._sizes[applicant.kind] += 1
        place = applicant.rank, applicant.key
        kin = self._kin.setdefault((line, applicant.kind), [])
        heapq.heappush(kin, place)
        if kin[0] is place:
            self._step_forward(line, place)

    def remove(self, key: Key) -> Applicant | None:
        found = self._members.pop(key, None)
        if found is None:
            return None
        line, applicant = found
        self._sizes[applicant.kind] -= 1
        if not self._sizes[applicant.kind]:
            del self._sizes[applicant.kind]
        first = self._first_of_kin(line, applicant.kind)
        if first is not None:
            self._step_forward(line, first)
        return applicant

    def firsts(self) -> Iterator[Applicant]:
        """The first of each line that is not blocked."""
        for name in sorted(self._fronts):
            front = self._fronts[name]
            while front and not self._stands_in_front(name, front[0]):
                heapq.heappop(front)
            if front:
                yield self._members[front[0][1]][1]

    def block(self, kind: EquivalenceClass) -> None:
        self._blocked[kind] = None

    def unblock_all(self) -> None:
        self.unblock(tuple(self._blocked))

    def unblock(self, kinds: Iterable[EquivalenceClass]) -> None:
        for kind in kinds:
            self._blocked.pop(kind, None)
            for line in self._fronts:
                first = self._first_of_kin(line, kind)
                if first is not None:
                    self._step_forward(line, first)

    def _step_forward(self, line: str, place: Place) -> None:
        heapq.heappush(self._fronts.setdefault(line, []), place)

    def _first_of_kin(self, line: str, kind: EquivalenceClass) -> Place | None:
        kin = self._kin.get((line, kind))
        while kin and not self._stands(kin[0], line, kind):
            heapq.heappop(kin)
        if not kin:
            self._kin.pop((line, kind), None)
            return None
        return kin[0]

    def _stands(self, place: Place, line: str, kind: EquivalenceClass) -> bool:
        found = self._members.get(place[1])
        return found is not None and found[1].rank == place[0] and found[0] == line and found[1].kind == kind

    def _stands_in_front(self, line: str, place: Place) -> bool:
        found = self._members.get(place[1])
        if found is None or found[1].kind in self._blocked:
            return False
        return self._first_of_kin(line, found[1].kind) == place
