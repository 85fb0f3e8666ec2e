"""Victims compared with the best there are, by HiGHS, a solver of integer programs (the optional extra `exact`).

The solver counts in floating point, so it is believed in one thing only: its lower bounds, less a margin for rounding.
What it proposes is checked in whole numbers, and taken only where it costs less than what was chosen.

The same question gets the same answer: the solver runs in one thread from one seed and is stopped by counts, the size
of the question and the steps it takes. Only `seconds`, which keep a live scheduler from waiting, can tell two runs
apart; a simulator leaves them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from headgate.preemption.solver.problem import (
    NOBODY,
    CertificateVerdict,
    Certified,
    Certifier,
    Cost,
    Criterion,
    Gap,
    Placements,
    Problem,
    Uncertified,
)
from headgate.preemption.solver.program import Formulation, Program, ProgramResult, Terms, formulate

if TYPE_CHECKING:
    from headgate.preemption.solver.highs import Solver

SUMS = (Criterion.VIOLATIONS, Criterion.GANGS, Criterion.WORK, Criterion.VICTIMS)
RESOLUTION = 10**8  # one part in so many is what the solver's arithmetic can tell; up to it values are exact


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
    """A set that makes room enough, and what it costs in whole numbers."""

    victims: tuple[int, ...]
    cost: Cost
    placements: Placements | None = None  # None: those that were given


class HighsCertifier:
    def __init__(self, limits: SolverLimits) -> None:
        from headgate.preemption.solver.highs import Solver  # noqa: PLC0415  takes a while, and only works where installed

        self._limits = limits
        self._solver = Solver

    def improve(self, problem: Problem, chosen: Sequence[int]) -> Certified:
        """The chosen victims, who must make room enough, or others that cost less, and how good they are."""
        if self._too_large(problem):
            return Uncertified().improve(problem, chosen)
        given = ExactResult(tuple(sorted(chosen)), problem.cost(chosen))
        solver = self._solver(self._limits.steps, self._limits.seconds)
        best, needed = lowest_priority(problem, given, solver)
        best, gap = cheapest(problem, best, solver)
        if needed < best.cost.priority:
            gap = Gap(Criterion.PRIORITY, best.cost.priority - needed, needed)
        return Certified(
            best.victims, CertificateVerdict.GAP if gap else CertificateVerdict.OPTIMAL, best.placements, gap
        )

    def _too_large(self, problem: Problem) -> bool:
        placements = sum(len(wanted.rows) for wanted in problem.wanted)
        return len(problem.candidates) > self._limits.candidates or placements > self._limits.placements


def lowest_priority(problem: Problem, given: ExactResult, solver: Solver) -> tuple[ExactResult, int]:
    """A set whose highest priority is as low as was found to do, and the priority below which none can do.

    If all candidates up to some priority will do, so will those up to any higher one: the levels are halved.
    """
    top = given.cost.priority
    levels = sorted({NOBODY, top, *(unit.priority for unit in problem.candidates if unit.priority < top)})
    best, refused, does = given, 0, len(levels) - 1
    while refused < does:
        middle = (refused + does) // 2
        usable = up_to(levels[middle], problem)
        placing = formulate(without(usable, problem), ())
        answer = solver.least(placing.program)
        if answer.bound is None:
            refused = middle + 1
        elif found := checked(problem, placing, answer, usable):
            best, does = found, middle
        else:
            break
    return best, levels[refused]


def up_to(priority: int, problem: Problem) -> tuple[int, ...]:
    return tuple(index for index, unit in enumerate(problem.candidates) if unit.priority <= priority)


def without(gone: Sequence[int], problem: Problem) -> Problem:
    """The problem once these are gone and nobody else may be asked to leave."""
    free = tuple(map(tuple, problem.capacity(gone)))
    return structs.replace(problem, free=free, candidates=(), budgets=(), gangs=())


def cheapest(problem: Problem, best: ExactResult, solver: Solver) -> tuple[ExactResult, Gap | None]:
    """The cheapest set of no higher priority, or the best found and how much better one could be."""
    formulation = formulate(problem, up_to(best.cost.priority, problem))
    program = formulation.program
    undecided: Sequence[Criterion] = SUMS
    while undecided:
        folded = fold(program, undecided, best.cost)
        if known := folded.value(best.cost):
            answer = solver.least(program, folded.terms, known)
            found = checked(problem, formulation, answer)
            best = found if found and found.cost < best.cost else best
            if gap := folded.gap(best.cost, answer.bound or 0):
                return best, gap
        for criterion in folded.criteria:
            program.at_most(program.measures[criterion], best.cost.on(criterion))
        undecided = undecided[len(folded.criteria) :]
    return best, None


def checked(
    problem: Problem, formulation: Formulation, answer: ProgramResult, gone: Sequence[int] = ()
) -> ExactResult | None:
    """What the solver found, unless whole numbers say otherwise."""
    if answer.values is None:
        return None
    victims = (*gone, *formulation.victims(answer.values))
    placements = formulation.placements(problem, answer.values)
    return ExactResult(victims, problem.cost(victims), placements) if problem.placed(victims, placements) else None


class Folded(Struct, frozen=True):
    """Several criteria as one number, like digits: one more of the first outweighs all that the rest can be."""

    criteria: tuple[Criterion, ...]
    weights: tuple[int, ...]
    terms: Terms

    def value(self, cost: Cost) -> int:
        return sum(weight * cost.on(criterion) for criterion, weight in zip(self.criteria, self.weights, strict=True))

    def gap(self, cost: Cost, bound: int) -> Gap | None:
        """Where a cost of this bound would be lower, if it is lower than this cost."""
        value = self.value(cost)
        if bound >= value - value // RESOLUTION:
            return None
        for criterion, weight in zip(self.criteria, self.weights, strict=True):
            digit, bound = divmod(bound, weight)
            if digit < cost.on(criterion):
                return Gap(criterion, cost.on(criterion) - digit, digit)
        return None


def fold(program: Program, undecided: Sequence[Criterion], cost: Cost) -> Folded:
    """As many of the undecided as one number can hold; the first alone if nothing can be won there."""
    ranges = [1 + max(program.largest(program.measures[criterion]), cost.on(criterion)) for criterion in undecided]
    count = 1
    while cost.on(undecided[0]) and count < len(undecided) and prod(ranges[: count + 1]) <= RESOLUTION:
        count += 1
    criteria = tuple(undecided[:count])
    weights = tuple(prod(ranges[place + 1 : count]) for place in range(count))
    terms: Terms = {}
    for criterion, weight in zip(criteria, weights, strict=True):
        for at, amount in program.measures[criterion].items():
            terms[at] = terms.get(at, 0) + weight * amount
    return Folded(criteria, weights, terms)
