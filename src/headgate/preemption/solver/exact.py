"""Victims compared with the best there are, by HiGHS, a solver of integer programs (the optional extra `exact`).

The solver counts in floating point, so it is believed in one thing only: its lower bounds, on programs of small
numbers and less a margin for rounding. What it proposes is checked in whole numbers, and taken only where it costs less
than what was chosen. Where bound and cost do not meet, nothing is called optimal.

The same question gets the same answer: the solver runs in one thread from one seed and is stopped by counts, the size
of the question and the steps it takes. Only `seconds`, which keep a live scheduler from waiting, can tell two runs
apart; a simulator leaves them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct

from headgate.preemption.solver.problem import (
    NOBODY,
    Certified,
    Certifier,
    Cost,
    Criterion,
    Placements,
    Problem,
    Uncertified,
)
from headgate.preemption.solver.program import Formulation, ProgramResult, Terms, formulate

if TYPE_CHECKING:
    from headgate.preemption.solver.highs import Solver

SUMS = (Criterion.GANGS, Criterion.WORK, Criterion.VICTIMS, Criterion.PRIORITIES)
MOST_EXCLUDED = 10  # solutions that fit only where numbers are rounded, before a question is left open
RESOLUTION = 10**8  # criteria are folded into one number up to this: the solver tells such numbers apart


class SolverLimits(Struct, frozen=True, gc=False):
    """How much effort a comparison is worth."""

    candidates: int = 200  # a question with more of them is not put at all
    placements: int = 2000  # nor one with more pairs of wanted pods and rows they may use
    steps: int = 50  # of the solver in all; questions of this size mostly take fewer
    seconds: float | None = 0.05  # of the solver's time in all; None: the counts alone decide


def available() -> bool:
    """The solver is installed."""
    return find_spec("highspy") is not None


def certifier(limits: SolverLimits) -> Certifier:
    """One that compares, where the solver is installed."""
    return HighsCertifier(limits) if available() else Uncertified()


class ExactResult(Struct, frozen=True):
    """A set without which the demands fit, and what it costs in whole numbers."""

    victims: tuple[int, ...]
    cost: Cost
    placements: Placements | None = None  # None: those that were given


class HighsCertifier:
    def __init__(self, limits: SolverLimits) -> None:
        from headgate.preemption.solver.highs import Solver  # noqa: PLC0415  takes a while, and only works where installed

        self._limits = limits
        self._solver = Solver

    def improve(self, problem: Problem, chosen: Sequence[int]) -> Certified:
        """The chosen victims, without whom the demands must fit, or others that cost less, and how good they are."""
        if self._too_large(problem):
            return Uncertified().improve(problem, chosen)
        given = ExactResult(tuple(sorted(chosen)), problem.cost(chosen))
        best, bound = best_of(problem, given, self._solver(self._limits.steps, self._limits.seconds))
        return Certified(best.victims, bound, best.placements)

    def _too_large(self, problem: Problem) -> bool:
        placements = sum(len(wanted.rows) for wanted in problem.wanted)
        return len(problem.candidates) > self._limits.candidates or placements > self._limits.placements


def best_of(problem: Problem, best: ExactResult, solver: Solver) -> tuple[ExactResult, tuple[int, ...]]:
    """The best set, or the best found; and the criteria's values below which no set is, as far as that was shown.

    Criteria are decided one after the other, the weightiest first; each with sets that are no worse by those before.
    """
    best, least = fewest_violations(problem, best, solver)
    if least < best.cost.violations:
        return best, (least,)
    best, least = lowest_priority(problem, best, solver)
    if least < best.cost.priority:
        return best, (best.cost.violations, least)
    best, bound = smallest_sums(problem, best, solver)
    if len(bound) < len(Criterion) - 1 or bound[-1] < best.cost.priorities:
        return best, bound
    best, least = latest_start(problem, best, solver)
    return best, (*best.cost.values[:-1], least)


def fewest_violations(problem: Problem, best: ExactResult, solver: Solver) -> tuple[ExactResult, int]:
    if not best.cost.violations:
        return best, 0
    formulation = formulate(problem, range(len(problem.candidates)))
    terms = formulation.program.measures[Criterion.VIOLATIONS]
    answer, found = solved(problem, formulation, solver, terms, best.cost.violations)
    best = better(best, found)
    return best, min(best.cost.violations, answer.bound or 0)


def lowest_priority(problem: Problem, best: ExactResult, solver: Solver) -> tuple[ExactResult, int]:
    """A set whose highest priority is as low as was found to do, and the priority below which none can do.

    If candidates up to some priority will do, so will those up to any higher one: the levels are halved.
    """
    top = best.cost.priority
    levels = sorted({NOBODY, top, *(unit.priority for unit in problem.candidates if unit.priority < top)})
    refused, does = 0, len(levels) - 1
    while refused < does:
        middle = (refused + does) // 2
        formulation = formulate(problem, up_to(levels[middle], problem))
        formulation.at_most([Criterion.VIOLATIONS], best.cost)
        answer, found = solved(problem, formulation, solver)
        if answer.bound is None:
            refused = middle + 1
            continue
        found = better(best, found)
        if found is best:
            break
        best, does = found, levels.index(found.cost.priority)
    return best, levels[refused]


def up_to(priority: int, problem: Problem) -> tuple[int, ...]:
    return tuple(index for index, unit in enumerate(problem.candidates) if unit.priority <= priority)


def smallest_sums(problem: Problem, best: ExactResult, solver: Solver) -> tuple[ExactResult, tuple[int, ...]]:
    """The best set of no more violations and no higher priority by the criteria that are sums, and what was shown."""
    formulation = formulate(problem, up_to(best.cost.priority, problem))
    formulation.at_most([Criterion.VIOLATIONS], best.cost)
    undecided: Sequence[Criterion] = SUMS
    while undecided:
        folded = fold(formulation, undecided, best.cost)
        if known := folded.value(best.cost):
            answer, found = solved(problem, formulation, solver, folded.terms, known)
            best = better(best, found)
            if (bound := min(known, answer.bound or 0)) < folded.value(best.cost):
                return best, folded.bound(best.cost, bound)
        formulation.at_most(folded.criteria, best.cost)
        undecided = undecided[len(folded.criteria) :]
    return best, best.cost.values[:-1]


def latest_start(problem: Problem, best: ExactResult, solver: Solver) -> tuple[ExactResult, int]:
    """The best set by the last criterion among those equal by all others, and the value below which none is.

    As long as one is found whose most important victims all started later, that one is the best so far.
    """
    while best.victims:
        usable = [index for index in up_to(best.cost.priority, problem) if not _starts_too_early(problem, index, best)]
        formulation = formulate(problem, usable)
        formulation.at_most([Criterion.VIOLATIONS, *SUMS], best.cost)
        answer, found = solved(problem, formulation, solver)
        if answer.bound is None:
            return best, best.cost.start
        found = better(best, found)
        if found is best:
            return best, -problem.now
        best = found
    return best, best.cost.start


def _starts_too_early(problem: Problem, index: int, best: ExactResult) -> bool:
    unit = problem.candidates[index]
    return unit.priority == best.cost.priority and unit.started <= -best.cost.start


def better(best: ExactResult, found: ExactResult | None) -> ExactResult:
    return found if found is not None and found.cost < best.cost else best


def solved(
    problem: Problem, formulation: Formulation, solver: Solver, terms: Terms | None = None, known: int | None = None
) -> tuple[ProgramResult, ExactResult | None]:
    """What the solver says, and the solution it found; those that only fit where numbers are rounded are excluded."""
    for _ in range(MOST_EXCLUDED):
        answer = solver.least(formulation.program, terms, known)
        found = checked(problem, formulation, answer)
        if answer.values is None or found is not None or not formulation.exclude(problem, answer.values):
            break
    return answer, found


def checked(problem: Problem, formulation: Formulation, answer: ProgramResult) -> ExactResult | None:
    """What the solver found, unless whole numbers say otherwise."""
    if answer.values is None:
        return None
    victims = formulation.victims(answer.values)
    placements = formulation.placements(problem, answer.values)
    cost = problem.cost(victims)
    if not formulation.is_allowed(cost) or not problem.placed(victims, placements):
        return None
    return ExactResult(victims, cost, placements)


class Folded(Struct, frozen=True):
    """Several criteria as one number, like digits: one more of the first outweighs all that the rest can be."""

    formulation: Formulation
    criteria: tuple[Criterion, ...]
    weights: tuple[int, ...]
    terms: Terms

    def value(self, cost: Cost) -> int:
        digits = (self.formulation.measure(criterion, cost) for criterion in self.criteria)
        return sum(weight * digit for weight, digit in zip(self.weights, digits, strict=True))

    def bound(self, cost: Cost, bound: int) -> tuple[int, ...]:
        """The values of the criteria up to the first by which a cost of this bound is below this cost."""
        for criterion, weight in zip(self.criteria, self.weights, strict=True):
            digit, bound = divmod(bound, weight)
            place = list(Criterion).index(criterion)
            if less := self.formulation.measure(criterion, cost) - digit:
                return (*cost.values[:place], cost.on(criterion) - less)
        return cost.values[:-1]


def fold(formulation: Formulation, undecided: Sequence[Criterion], cost: Cost) -> Folded:
    """As many of the undecided as one number can hold; the first alone if nothing can be won there."""
    program = formulation.program
    known = [formulation.measure(criterion, cost) for criterion in undecided]
    ranges = [
        1 + max(program.largest(program.measures[criterion]), value)
        for criterion, value in zip(undecided, known, strict=True)
    ]
    count = 1
    while known[0] and count < len(undecided) and prod(ranges[: count + 1]) <= RESOLUTION:
        count += 1
    criteria = tuple(undecided[:count])
    weights = tuple(prod(ranges[place + 1 : count]) for place in range(count))
    terms: Terms = {}
    for criterion, weight in zip(criteria, weights, strict=True):
        for at, amount in program.measures[criterion].items():
            terms[at] = terms.get(at, 0) + weight * amount
    return Folded(formulation, criteria, weights, terms)
