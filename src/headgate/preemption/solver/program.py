"""The question of whom to evict as linear inequalities over whole numbers, and as few of them as will do.

What cannot matter is left out: rows too small for every pod, capacity that cannot run short, candidates that free
nothing missing. Of two candidates of which one frees no more and costs no less, it is evicted only after the other.

No number is so large that a solver's rounding could matter. Rows of larger numbers are rounded so that every solution
of the question solves the program too: a bound on the program is one on the question, and what the program admits
beyond that fails the check in whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import gcd

import numpy as np
from msgspec import Struct, field

from headgate.preemption.solver.problem import SUM_OFFSET, Cost, Criterion, Placements, Problem

Terms = dict[int, int]  # how often each column counts
Scarce = tuple[int, int]  # a row, and a resource that can run short there
LARGEST = 1 << 16  # a difference of one in so many is far above the tolerances of a solver in floating point


class Inequality(Struct, frozen=True):
    terms: Terms
    limit: int  # their sum is at most this


def small(terms: Terms, limit: int) -> Inequality:
    """The inequality divided by what all terms have in common, and rounded where they are still too large.

    All columns are at least zero: whole numbers that satisfy the inequality satisfy the rounded one.
    """
    common = gcd(*terms.values()) or 1
    largest = max(map(abs, terms.values()), default=0) // common
    scale = common * max(1, -(-largest // LARGEST))
    return Inequality({at: value // scale for at, value in terms.items()}, limit // scale)


class Program:
    """Columns from zero to their limits, inequalities between them, and the sums that criteria measure."""

    def __init__(self) -> None:
        self.limits: list[int] = []
        self.inequalities: list[Inequality] = []
        self.measures: dict[Criterion, Terms] = {}

    def column(self, limit: int) -> int:
        self.limits.append(limit)
        return len(self.limits) - 1

    def at_most(self, terms: Terms, limit: int) -> None:
        self.inequalities.append(small(terms, limit))

    def largest(self, terms: Terms) -> int:
        return sum(value * self.limits[at] for at, value in terms.items())


class ProgramResult(Struct, frozen=True):
    """What a solver says: the best solution it found, if any, and a bound that none is below."""

    values: tuple[int, ...] | None
    bound: int | None  # None: there is no solution


UNTOLD = ProgramResult(None, 0)
IMPOSSIBLE = ProgramResult(None, None)


class Formulation(Struct, frozen=True):
    program: Program
    evicting: Mapping[int, int]  # candidate: its column, one if it is evicted
    placing: Mapping[tuple[int, int], int]  # wanted and row: the column that counts placements
    lowest: int  # priority among the candidates; the sum of priorities is counted from it
    allowed: dict[Criterion, int] = field(default_factory=dict)  # the most by each criterion that is limited

    def measure(self, criterion: Criterion, cost: Cost) -> int:
        """The cost by this criterion, as the program's measures count it."""
        shift = (self.lowest + SUM_OFFSET) * cost.victims if criterion is Criterion.PRIORITIES else 0
        return cost.on(criterion) - shift

    def is_allowed(self, cost: Cost) -> bool:
        """Whether it is within all limits in whole numbers."""
        return all(self.measure(criterion, cost) <= most for criterion, most in self.allowed.items())

    def exclude(self, problem: Problem, values: Sequence[int]) -> bool:
        """Excludes a solution of the rounded program that costs too much or does not fit in fact.

        What costs too much does so with more victims as well. What does not fit does not on some row: so many pods
        cannot be placed there unless a candidate is evicted that this solution keeps.
        """
        victims = self.victims(values)
        if not self.is_allowed(problem.cost(victims)):
            self.program.at_most({self.evicting[index]: 1 for index in victims}, len(victims) - 1)
            return True
        free = problem.capacity(victims)
        on_rows: dict[int, dict[int, int]] = {}
        for (wanted, row), at in self.placing.items():
            if values[at]:
                on_rows.setdefault(row, {})[wanted] = values[at]
        for row, counts in on_rows.items():
            for resource, have in enumerate(free[row]):
                asked = {
                    w: problem.wanted[w].amounts[resource] for w in counts if problem.wanted[w].amounts[resource] > 0
                }
                if asked and sum(asked[w] * counts[w] for w in asked) > have:
                    self._exclude(problem, (row, resource), {w: counts[w] for w in asked}, victims)
                    return True
        return False

    def _exclude(self, problem: Problem, where: Scarce, counts: Mapping[int, int], victims: Sequence[int]) -> None:
        others = [
            at for index, at in self.evicting.items() if index not in victims and where in dict(_freed(problem, index))
        ]
        fewer = dict.fromkeys(others, -1)
        for wanted, count in counts.items():
            placed = self.placing[wanted, where[0]]
            limit, is_fewer = self.program.limits[placed], self.program.column(1)
            self.program.at_most({placed: 1, is_fewer: limit - count + 1}, limit)
            fewer[is_fewer] = -1
        self.program.at_most(fewer, -1)

    def at_most(self, criteria: Iterable[Criterion], cost: Cost) -> None:
        """Nothing costs more than this by these criteria."""
        for criterion in criteria:
            self.allowed[criterion] = self.measure(criterion, cost)
            self.program.at_most(self.program.measures[criterion], self.allowed[criterion])

    def victims(self, values: Sequence[int]) -> tuple[int, ...]:
        return tuple(index for index, at in self.evicting.items() if values[at])

    def placements(self, problem: Problem, values: Sequence[int]) -> Placements:
        taken: list[list[int]] = [[] for _ in problem.wanted]
        for (wanted, row), at in self.placing.items():
            taken[wanted] += [row] * values[at]
        return tuple(map(tuple, taken))


def formulate(problem: Problem, usable: Sequence[int]) -> Formulation:
    """The problem where only the usable candidates may be evicted."""
    program = Program()
    most = most_placements(problem, problem.capacity(usable))
    placing = {place: program.column(limit) for place, limit in most.items()}
    program.at_most(dict.fromkeys(placing.values(), -1), -problem.needed)
    program.at_most(dict.fromkeys(placing.values(), 1), problem.needed)
    missing = shortages(problem, usable, most)
    relief = {index: freed for index in usable if (freed := relieved(problem, index, missing))}
    evicting = {index: program.column(1) for index in sorted(relief)}
    lowest = min((unit.priority for unit in problem.candidates), default=0)
    formulation = Formulation(program, evicting, placing, lowest)
    _no_pod_is_placed_twice(problem, formulation)
    _one_domain_holds_all(problem, formulation)
    _capacity_suffices(problem, formulation, missing, relief)
    _cheaper_ones_go_first(problem, formulation, relief)
    _measure(problem, formulation)
    return formulation


def most_placements(problem: Problem, free: Sequence[Sequence[int]]) -> dict[tuple[int, int], int]:
    """How many of each of the wanted a row could take if it had it to itself; places for none are left out."""
    most = {}
    for index, wanted in enumerate(problem.wanted):
        asked = [(resource, amount) for resource, amount in enumerate(wanted.amounts) if amount > 0]
        for row in wanted.rows:
            fit = min((free[row][resource] // amount for resource, amount in asked), default=wanted.count)
            if (limit := min(fit, wanted.count, problem.needed)) > 0:
                most[index, row] = limit
    return most


def shortages(problem: Problem, usable: Sequence[int], most: Mapping[tuple[int, int], int]) -> dict[Scarce, int]:
    """Where capacity can run short, and by how much at most."""
    asked: dict[Scarce, int] = {}
    grain: dict[Scarce, int] = {}
    for (wanted, row), limit in most.items():
        for resource, amount in enumerate(problem.wanted[wanted].amounts):
            if amount > 0:
                asked[row, resource] = asked.get((row, resource), 0) + limit * amount
                grain[row, resource] = gcd(grain.get((row, resource), 0), amount)
    for scarce, freed in ((scarce, freed) for index in usable for scarce, freed in _freed(problem, index)):
        if scarce in grain:
            grain[scarce] = gcd(grain[scarce], freed)
    # Capacity is freed and taken in whole grains, so the rest of what is free is of no use.
    short = {at: amount - problem.free[at[0]][at[1]] // grain[at] * grain[at] for at, amount in asked.items()}
    return {scarce: amount for scarce, amount in short.items() if amount > 0}


def relieved(problem: Problem, index: int, missing: Mapping[Scarce, int]) -> dict[Scarce, int]:
    """What a candidate frees of what can be missing, and no more of it than can be missing."""
    return {scarce: min(amount, missing[scarce]) for scarce, amount in _freed(problem, index) if scarce in missing}


def _freed(problem: Problem, index: int) -> Iterable[tuple[Scarce, int]]:
    for row, amounts in problem.candidates[index].freed:
        for resource, amount in enumerate(amounts):
            if amount > 0:
                yield (row, resource), amount


def _no_pod_is_placed_twice(problem: Problem, to: Formulation) -> None:
    for index, wanted in enumerate(problem.wanted):
        placements = {at: 1 for (which, _), at in to.placing.items() if which == index}
        if to.program.largest(placements) > wanted.count:
            to.program.at_most(placements, wanted.count)


def _one_domain_holds_all(problem: Problem, to: Formulation) -> None:
    picked = {to.program.column(1): frozenset(domain) for domain in problem.domains}
    if picked:
        to.program.at_most(dict.fromkeys(picked, 1), 1)
    for pick, domain in picked.items():
        placements = {at: 1 for (_, row), at in to.placing.items() if row in domain}
        to.program.at_most({**placements, pick: -problem.needed}, 0)


def _capacity_suffices(
    problem: Problem, to: Formulation, missing: Mapping[Scarce, int], relief: Mapping[int, Mapping[Scarce, int]]
) -> None:
    terms: dict[Scarce, Terms] = {scarce: {} for scarce in missing}
    for (wanted, row), at in to.placing.items():
        for resource, amount in enumerate(problem.wanted[wanted].amounts):
            if amount > 0 and (row, resource) in terms:
                terms[row, resource][at] = amount
    for index, freed in relief.items():
        for scarce, amount in freed.items():
            terms[scarce][to.evicting[index]] = -amount
    for scarce, sum_of in terms.items():
        _holds(to, sum_of, problem.free[scarce[0]][scarce[1]])


def _holds(to: Formulation, terms: Terms, free: int) -> None:
    """An overcommitted row stays so unless a pod is placed there: only then must the capacity suffice."""
    if free < 0:
        asking = [at for at, amount in terms.items() if amount > 0]
        used = to.program.column(1)
        for at in asking:
            to.program.at_most({at: 1, used: -to.program.limits[at]}, 0)
        terms = {**terms, used: -free}
        free = 0
    to.program.at_most(terms, free)


def _cheaper_ones_go_first(problem: Problem, to: Formulation, relief: Mapping[int, Mapping[Scarce, int]]) -> None:
    """A set with the dearer but without the cheaper of two is made no worse by exchanging them."""
    company = _company(problem)

    def alike(index: int) -> tuple[object, ...]:
        return tuple(sorted({row for row, _ in relief[index]})), company.get(index, ())

    def dearness(index: int) -> tuple[int, ...]:
        unit = problem.candidates[index]
        return unit.work, unit.pods, unit.priority, -unit.started, index

    for _, group in groupby(sorted(relief, key=alike), key=alike):
        for cheaper, dearer in _exchangeable(problem, sorted(group, key=dearness), relief):
            to.program.at_most({to.evicting[dearer]: 1, to.evicting[cheaper]: -1}, 0)


def _exchangeable(
    problem: Problem, members: Sequence[int], relief: Mapping[int, Mapping[Scarce, int]]
) -> Iterable[tuple[int, int]]:
    """For each member the last of those before it that frees as much of everything and costs no more in any way."""
    kinds = sorted({scarce for index in members for scarce in relief[index]})
    units = [problem.candidates[index] for index in members]
    costs = [[-unit.pods, -unit.priority, unit.started] for unit in units]
    worth = [[relief[index].get(scarce, 0) for scarce in kinds] for index in members]
    amounts = np.array([[*freed, *cost] for freed, cost in zip(worth, costs, strict=True)], dtype=np.int64)
    for at in range(1, len(members)):
        better = np.flatnonzero((amounts[:at] >= amounts[at]).all(axis=1))
        if better.size:
            yield members[int(better[-1])], members[at]


def _company(problem: Problem) -> dict[int, tuple[tuple[int, int, int], ...]]:
    """Which budgets and gangs a candidate's pods belong to, and how many of them."""
    company: dict[int, tuple[tuple[int, int, int], ...]] = {}
    parts = [*((0, budget.pods) for budget in problem.budgets), *((1, gang.pods) for gang in problem.gangs)]
    for number, (kind, pods) in enumerate(parts):
        for index, count in pods:
            company[index] = (*company.get(index, ()), (kind, number, count))
    return company


def _measure(problem: Problem, to: Formulation) -> None:
    columns = [(problem.candidates[index], at) for index, at in to.evicting.items()]
    to.program.measures = {
        Criterion.VIOLATIONS: _violations(problem, to),
        Criterion.GANGS: _broken_gangs(problem, to),
        Criterion.WORK: {at: unit.work for unit, at in columns if unit.work},
        Criterion.VICTIMS: {at: unit.pods for unit, at in columns},
        Criterion.PRIORITIES: {
            at: (unit.priority - to.lowest) * unit.pods for unit, at in columns if unit.priority > to.lowest
        },
    }


def _violations(problem: Problem, to: Formulation) -> Terms:
    terms = {}
    for budget in problem.budgets:
        pods = _columns(budget.pods, to)
        excess = sum(pods.values()) - budget.allowed
        if excess > 0:
            beyond = to.program.column(excess)
            to.program.at_most({**pods, beyond: -1}, budget.allowed)
            terms[beyond] = 1
    return terms


def _broken_gangs(problem: Problem, to: Formulation) -> Terms:
    terms = {}
    for gang in problem.gangs:
        pods = _columns(gang.pods, to)
        excess = sum(pods.values()) - gang.spare
        if excess > 0 and gang.spare >= 0:
            broken = to.program.column(1)
            to.program.at_most({**pods, broken: -excess}, gang.spare)
            for at in (at for at, count in pods.items() if count > gang.spare):
                to.program.at_most({at: 1, broken: -1}, 0)
            terms[broken] = 1
    return terms


def _columns(pods: Iterable[tuple[int, int]], to: Formulation) -> Terms:
    return {to.evicting[index]: count for index, count in pods if index in to.evicting}
