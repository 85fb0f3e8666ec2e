"""Whom to evict, as one exact question: the rooms, who could leave them, who wants in, and what each answer costs.

A row is a node. Amounts are aligned tuples: the same resource at the same place everywhere. The question knows of
room only; whoever asks it names for each pod the rows where everything but room is settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Protocol, assert_never

from msgspec import Struct

Amounts = tuple[int, ...]
Placements = tuple[
    tuple[int, ...], ...
]  # for each of the wanted, the rows its pods get; fewer than its count if more can wait

NOBODY = -(1 << 31) - 1  # the highest priority among no victims: below every priority there is


class Criterion(StrEnum):
    """What is kept small, the weightiest first."""

    PRIORITY = "highest priority"
    VIOLATIONS = "budget violations"
    GANGS = "gangs broken"
    WORK = "work lost"
    VICTIMS = "victims"


class Cost(Struct, frozen=True, order=True, gc=False):
    """What a set of victims costs; compared criterion by criterion, in the order of `Criterion`."""

    priority: int = NOBODY
    violations: int = 0
    gangs: int = 0
    work: int = 0
    victims: int = 0

    def on(self, criterion: Criterion) -> int:
        match criterion:
            case Criterion.PRIORITY:
                return self.priority
            case Criterion.VIOLATIONS:
                return self.violations
            case Criterion.GANGS:
                return self.gangs
            case Criterion.WORK:
                return self.work
            case Criterion.VICTIMS:
                return self.victims
            case _:
                assert_never(criterion)


class Candidate(Struct, frozen=True, gc=False):
    """A unit that could leave, whole or not at all."""

    priority: int
    work: int  # lost if it leaves
    pods: int
    freed: tuple[tuple[int, Amounts], ...]  # by row, each row once


class Budget(Struct, frozen=True, gc=False):
    """So many of its pods may leave; each one more is a violation."""

    pods: tuple[tuple[int, int], ...]  # candidate, and how many of its pods the budget protects
    allowed: int

    def violations(self, leaving: frozenset[int]) -> int:
        return max(0, _leaving(self.pods, leaving) - self.allowed)


class ProblemGang(Struct, frozen=True, gc=False):
    """Broken when more of its pods leave than it can spare; one that is broken already cannot be broken again."""

    pods: tuple[tuple[int, int], ...]  # candidate, and how many of the gang's pods it holds
    spare: int = 0  # below zero: broken already

    def broken(self, leaving: frozenset[int]) -> bool:
        return 0 <= self.spare < _leaving(self.pods, leaving)


class ProblemDemand(Struct, frozen=True, gc=False):
    """Pods alike that want in. Each may use any of `rows` that has the room."""

    amounts: Amounts
    count: int
    rows: tuple[int, ...]


class Problem(Struct, frozen=True, gc=False):
    """Which candidates must leave so that at least `needed` of the wanted pods find room?"""

    free: tuple[Amounts, ...]  # by row, once those already leaving are gone; below zero where a row is overcommitted
    candidates: tuple[Candidate, ...]
    wanted: tuple[ProblemDemand, ...]
    needed: int
    budgets: tuple[Budget, ...] = ()
    gangs: tuple[ProblemGang, ...] = ()
    domains: tuple[tuple[int, ...], ...] = ()  # all placements must be within one of these sets of rows; (): anywhere

    def cost(self, victims: Iterable[int]) -> Cost:
        leaving = frozenset(victims)
        units = [self.candidates[index] for index in sorted(leaving)]
        return Cost(
            priority=max((unit.priority for unit in units), default=NOBODY),
            violations=sum(budget.violations(leaving) for budget in self.budgets),
            gangs=sum(gang.broken(leaving) for gang in self.gangs),
            work=sum(unit.work for unit in units),
            victims=sum(unit.pods for unit in units),
        )

    def capacity(self, victims: Iterable[int]) -> list[list[int]]:
        """What is free by row once the victims are gone."""
        room = [list(amounts) for amounts in self.free]
        for index in victims:
            for row, amounts in self.candidates[index].freed:
                room[row] = [have + more for have, more in zip(room[row], amounts, strict=True)]
        return room

    def placed(self, victims: Iterable[int], placements: Placements) -> bool:
        """Without the victims all these placements fit, they are enough, and each is on a row the pod may use."""
        allowed = all(
            len(taken) <= wanted.count and set(taken) <= set(wanted.rows)
            for wanted, taken in zip(self.wanted, placements, strict=True)
        )
        enough = sum(map(len, placements)) >= self.needed
        return allowed and enough and self._together(placements) and self._fit(self.capacity(victims), placements)

    def _together(self, placements: Placements) -> bool:
        used = {row for rows in placements for row in rows}
        return not self.domains or any(used <= set(domain) for domain in self.domains)

    def _fit(self, room: list[list[int]], placements: Placements) -> bool:
        taken = list(self._taken(placements))
        for row, amounts in taken:
            room[row] = [have - less for have, less in zip(room[row], amounts, strict=True)]
        return all(
            left >= 0 for row, amounts in taken for left, asked in zip(room[row], amounts, strict=True) if asked > 0
        )

    def _taken(self, placements: Placements) -> Iterator[tuple[int, Amounts]]:
        for wanted, rows in zip(self.wanted, placements, strict=True):
            for row in rows:
                yield row, wanted.amounts


class Gap(Struct, frozen=True, gc=False):
    """The weightiest criterion on which a better set could exist, and how much better it could be at most."""

    criterion: Criterion
    amount: int
    bound: int  # no set that is equal on all weightier criteria is below this


class CertificateVerdict(StrEnum):
    OPTIMAL = "optimal"  # no other set costs less
    GAP = "gap"
    NOT_COMPARED = "not compared"


class Certified(Struct, frozen=True, gc=False):
    """A set of victims and what is known of its worth."""

    victims: tuple[int, ...]  # ascending
    verdict: CertificateVerdict
    placements: Placements | None = (
        None  # as many as are needed; None: the victims are those given, so are the placements
    )
    gap: Gap | None = None  # with the verdict GAP only

    def __str__(self) -> str:
        return self.verdict if self.gap is None else f"gap {self.gap.amount}"


class Certifier(Protocol):
    def improve(self, problem: Problem, chosen: Sequence[int]) -> Certified:
        """The chosen victims, who must make room enough, or others that cost less, and how good they are."""


class Uncertified:
    """Compares nothing: what was chosen stands."""

    def improve(self, problem: Problem, chosen: Sequence[int]) -> Certified:
        return Certified(tuple(sorted(chosen)), CertificateVerdict.NOT_COMPARED)


def _leaving(pods: Iterable[tuple[int, int]], leaving: frozenset[int]) -> int:
    return sum(count for index, count in pods if index in leaving)
