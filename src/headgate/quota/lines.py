"""Applicants in order, with whole classes of them set aside and brought back at once."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from msgspec import Struct

from headgate.model.keys import Key
from headgate.quota.order import Applicant, EquivalenceClass

Place = tuple[int, float, str, Key]
"""A rank, and whose it is. Made anew whenever somebody lines up: so one left behind is told from one that counts."""


class _Kin:
    """All of one class: how many they are, and their places in each line. The first of these is never left behind."""

    __slots__ = ("places", "size")

    def __init__(self) -> None:
        self.size = 0
        self.places: dict[str, list[Place]] = {}


class _Member(Struct, gc=False):
    applicant: Applicant
    line: str
    kin: _Kin
    place: Place


class Lines:
    """One line, or several by name. In each, only the first of every class stands in front.

    So a class that is blocked costs nothing, however many belong to it. No call but `all` looks at everybody.
    """

    def __init__(self) -> None:
        self._members: dict[Key, _Member] = {}
        self._kin: dict[EquivalenceClass, _Kin] = {}
        self._fronts: dict[str, list[Place]] = {}
        self._blocked: dict[EquivalenceClass, None] = {}

    def __len__(self) -> int:
        return len(self._members)

    @property
    def blocked(self) -> int:
        """How many belong to a blocked class."""
        return sum(self._kin[kind].size for kind in self._blocked if kind in self._kin)

    @property
    def sizes(self) -> Mapping[EquivalenceClass, int]:
        """How many belong to each class, blocked or not."""
        return {kind: kin.size for kind, kin in self._kin.items()}

    def get(self, key: Key) -> Applicant | None:
        found = self._members.get(key)
        return found.applicant if found is not None else None

    def is_blocked(self, kind: EquivalenceClass) -> bool:
        return kind in self._blocked

    def all(self) -> list[Applicant]:
        return [member.applicant for member in self._members.values()]

    def add(self, line: str, applicant: Applicant) -> None:
        """It stands in this line now, and in no other; who is only told anew of keeps the place it has."""
        key, kind, rank = applicant.workload.key, applicant.kind, applicant.rank
        known = self._members.get(key)
        if known is not None:
            before = known.applicant
            if known.line == line and before.rank == rank and before.kind == kind:
                known.applicant = applicant
                return
            self.remove(key)
        kin = self._kin.get(kind)
        if kin is None:
            kin = self._kin[kind] = _Kin()
        place = (*rank, key)
        self._members[key] = _Member(applicant, line, kin, place)
        kin.size += 1
        places = kin.places.setdefault(line, [])
        heapq.heappush(places, place)
        if places[0] is place:
            self._step_forward(line, kind, place)

    def remove(self, key: Key) -> Applicant | None:
        member = self._members.pop(key, None)
        if member is None:
            return None
        applicant, kin = member.applicant, member.kin
        kin.size -= 1
        if not kin.size:
            del self._kin[applicant.kind]
        elif kin.places[member.line][0] is member.place:
            self._next_of_kin(member.line, kin, applicant.kind)
        return applicant

    def firsts(self) -> list[Applicant]:
        """The first of each line that is not blocked.

        Places left behind, of blocked classes, or behind others of the class are not looked at again.
        """
        found, fronts, members, blocked = [], self._fronts, self._members, self._blocked
        for line in sorted(fronts) if len(fronts) > 1 else fronts:
            front = fronts[line]
            while front:
                place = front[0]
                member = members.get(place[3])
                if member is not None and member.place is place and member.kin.places[line][0] is place:
                    applicant = member.applicant
                    if applicant.kind not in blocked:
                        found.append(applicant)
                        break
                heapq.heappop(front)
        return found

    def block(self, kind: EquivalenceClass) -> None:
        self._blocked[kind] = None

    def unblock_all(self) -> None:
        if self._blocked:
            self.unblock(tuple(self._blocked))

    def unblock(self, kinds: Iterable[EquivalenceClass]) -> None:
        for kind in kinds:
            self._blocked.pop(kind, None)
            kin = self._kin.get(kind)
            if kin is not None:
                for line, places in kin.places.items():
                    self._step_forward(line, kind, places[0])

    def _step_forward(self, line: str, kind: EquivalenceClass, place: Place) -> None:
        """A blocked class does so when it is unblocked."""
        if kind not in self._blocked:
            heapq.heappush(self._fronts.setdefault(line, []), place)

    def _next_of_kin(self, line: str, kin: _Kin, kind: EquivalenceClass) -> None:
        """The first has left the line."""
        places, members = kin.places[line], self._members
        while places:
            found = members.get(places[0][3])
            if found is not None and found.place is places[0]:
                self._step_forward(line, kind, places[0])
                return
            heapq.heappop(places)
        del kin.places[line]
