"""Which units to evict, as one exact question: free capacity, candidates, demands, and what each answer costs.

A row is a node. Amounts are aligned tuples: the same resource at the same place everywhere. The question knows of
capacity only; whoever asks it names for each pod the rows where everything else is settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct, structs

Amounts = tuple[int, ...]
Placements = tuple[tuple[int, ...], ...]
"""For each demand the rows its pods get; fewer than its count if more can wait."""

NOBODY = -(1 << 31) - 1  # the highest priority among no victims: below every priority there is
SUM_OFFSET = 1 << 31  # makes all priorities positive, so that fewer victims are better also below zero


class Criterion(StrEnum):
    """What is kept small, the weightiest first."""

    VIOLATIONS = "budget violations"
    PRIORITY = "highest priority"
    GANGS = "gangs broken"
    WORK = "work lost"
    VICTIMS = "victims"
    PRIORITIES = "sum of priorities"
    START = "latest start"


class Cost(Struct, frozen=True, order=True, gc=False):
    """What a set of victims costs; compared criterion by criterion, in the order of `Criterion`."""

    violations: int = 0
    priority: int = NOBODY
    gangs: int = 0
    work: int = 0
    victims: int = 0
    priorities: int = 0
    start: int = 0  # of the first of the most important victims, negated

    def on(self, criterion: Criterion) -> int:
        return self.values[list(Criterion).index(criterion)]

    @property
    def values(self) -> tuple[int, ...]:
        """By criterion, in their order."""
        return structs.astuple(self)


class Candidate(Struct, frozen=True, gc=False):
    """A unit that could be evicted, whole or not at all."""

    priority: int
    work: int  # lost if it is evicted
    pods: int
    freed: tuple[tuple[int, Amounts], ...]  # by row, each row once
    started: int = 0


class Budget(Struct, frozen=True, gc=False):
    """So many of its pods may be evicted; each one more is a violation."""

    pods: tuple[tuple[int, int], ...]  # candidate, and how many of its pods the budget protects
    allowed: int

    def violations(self, victims: frozenset[int]) -> int:
        return max(0, _evicted(self.pods, victims) - self.allowed)


class ProblemGang(Struct, frozen=True, gc=False):
    """Broken when more of its pods are evicted than it can spare; one that is broken already is not broken again."""

    pods: tuple[tuple[int, int], ...]  # candidate, and how many of the gang's pods it holds
    spare: int = 0  # below zero: broken already

    def broken(self, victims: frozenset[int]) -> bool:
        return 0 <= self.spare < _evicted(self.pods, victims)


class ProblemDemand(Struct, frozen=True, gc=False):
    """Pods alike to be placed. Each may use any of `rows` that has the capacity."""

    amounts: Amounts
    count: int
    rows: tuple[int, ...]


class Problem(Struct, frozen=True, gc=False):
    """Which candidates must be evicted so that at least `needed` of the wanted pods fit?"""

    free: tuple[Amounts, ...]  # by row, without terminating pods; below zero where a row is overcommitted
    candidates: tuple[Candidate, ...]
    wanted: tuple[ProblemDemand, ...]
    needed: int
    budgets: tuple[Budget, ...] = ()
    gangs: tuple[ProblemGang, ...] = ()
    domains: tuple[tuple[int, ...], ...] = ()  # all placements must be within one of these sets of rows; (): anywhere
    now: int = 0  # the latest a victim can have started

    def cost(self, victims: Iterable[int]) -> Cost:
        evicted = frozenset(victims)
        units = [self.candidates[index] for index in sorted(evicted)]
        top = max((unit.priority for unit in units), default=NOBODY)
        return Cost(
            violations=sum(budget.violations(evicted) for budget in self.budgets),
            priority=top,
            gangs=sum(gang.broken(evicted) for gang in self.gangs),
            work=sum(unit.work for unit in units),
            victims=sum(unit.pods for unit in units),
            priorities=sum((unit.priority + SUM_OFFSET) * unit.pods for unit in units),
            start=-min((unit.started for unit in units if unit.priority == top), default=self.now),
        )

    def capacity(self, victims: Iterable[int]) -> list[list[int]]:
        """What is free by row once the victims are gone."""
        free = [list(amounts) for amounts in self.free]
        for index in victims:
            for row, amounts in self.candidates[index].freed:
                free[row] = [have + more for have, more in zip(free[row], amounts, strict=True)]
        return free

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

    def _fit(self, free: list[list[int]], placements: Placements) -> bool:
        taken = list(self._taken(placements))
        for row, amounts in taken:
            free[row] = [have - less for have, less in zip(free[row], amounts, strict=True)]
        return all(
            left >= 0 for row, amounts in taken for left, asked in zip(free[row], amounts, strict=True) if asked > 0
        )

    def _taken(self, placements: Placements) -> Iterator[tuple[int, Amounts]]:
        for wanted, rows in zip(self.wanted, placements, strict=True):
            for row in rows:
                yield row, wanted.amounts


class Certified(Struct, frozen=True, gc=False):
    """A set of victims, and a bound on what any set costs.

    `bound` has the first criteria's values: every set costs at least this, compared criterion by criterion. With a
    value for each criterion the victims are the best there are; with none nothing is known.
    """

    victims: tuple[int, ...]  # ascending
    bound: tuple[int, ...] = ()
    placements: Placements | None = None  # as many as are needed; None: the victims and placements are those given


class Certifier(Protocol):
    def improve(self, problem: Problem, chosen: Sequence[int]) -> Certified:
        """The chosen victims, without whom the demands must fit, or others that cost less, and how good they are."""


class Uncertified:
    """Compares nothing: what was chosen stands."""

    def improve(self, problem: Problem, chosen: Sequence[int]) -> Certified:
        return Certified(tuple(sorted(chosen)))


def _evicted(pods: Iterable[tuple[int, int]], victims: frozenset[int]) -> int:
    return sum(count for index, count in pods if index in victims)
