"""What a set of victims costs and whether the preemptor then fits, counted in whole numbers."""

import pytest
from msgspec.structs import replace

from headgate.preemption.solver.problem import (
    NOBODY,
    SUM_OFFSET,
    Budget,
    Candidate,
    Cost,
    Problem,
    ProblemDemand,
    ProblemGang,
)

PAIR = (Candidate(10, 5, 1, ((0, (2, 1)),)), Candidate(20, 7, 3, ((0, (1, 0)), (1, (4, 4)))))


def asked(**fields):
    plain = {"free": ((1, 1), (0, 0)), "candidates": PAIR, "wanted": (ProblemDemand((2, 1), 2, (0, 1)),), "needed": 2}
    return Problem(**{**plain, **fields})


@pytest.mark.parametrize(
    "fields, victims, cost",
    [
        pytest.param({}, (), Cost(0, NOBODY, 0, 0, 0), id="nobody costs nothing"),
        pytest.param({}, (0, 1), Cost(0, 20, 0, 12, 4), id="the highest priority counts, work and pods add up"),
        pytest.param(
            {"budgets": (Budget(((0, 1), (1, 3)), 2),)}, (0, 1), Cost(2, 20, 0, 12, 4), id="pods beyond a budget"
        ),
        pytest.param(
            {"budgets": (Budget(((0, 1), (1, 3)), 2), Budget(((0, 1),), 0))}, (0, 1), Cost(3, 20, 0, 12, 4),
            id="a pod beyond two budgets counts for each",
        ),
        pytest.param({"budgets": (Budget(((0, 1),), 2),)}, (0,), Cost(0, 10, 0, 5, 1), id="a budget that is kept"),
        pytest.param({"gangs": (ProblemGang(((1, 3),)),)}, (1,), Cost(0, 20, 1, 7, 3), id="a whole gang"),
        pytest.param(
            {"gangs": (ProblemGang(((0, 1), (1, 3)), 1),)}, (0,), Cost(0, 10, 0, 5, 1), id="a gang that can spare it"
        ),
        pytest.param(
            {"gangs": (ProblemGang(((0, 1),), -1),)}, (0,), Cost(0, 10, 0, 5, 1), id="a gang that is broken already"
        ),
    ],
)  # fmt: skip
def test_what_victims_cost(fields, victims, cost):
    found = asked(**fields).cost(victims)
    assert found.values[:5] == cost.values[:5]


@pytest.mark.parametrize(
    "victims, priorities, start",
    [
        pytest.param((), 0, -9, id="without victims as late as can be"),
        pytest.param((0,), 10 + SUM_OFFSET, -4, id="the only one"),
        pytest.param(
            (0, 1), 10 + 3 * 20 + 4 * SUM_OFFSET, -7, id="each pod counts; only the most important's start does"
        ),
    ],
)
def test_the_last_criteria(victims, priorities, start):
    cost = asked(candidates=(replace(PAIR[0], started=4), replace(PAIR[1], started=7)), now=9).cost(victims)
    assert (cost.priorities, cost.start) == (priorities, start)


@pytest.mark.parametrize(
    "fields, victims, placements, fits",
    [
        pytest.param({}, (0, 1), ((0, 1),), True, id="one in each row once both have left"),
        pytest.param({}, (0,), ((0, 1),), False, id="nobody left the second row"),
        pytest.param({}, (1,), ((1, 1),), True, id="two beside each other"),
        pytest.param({}, (1,), ((1,),), False, id="one is too few"),
        pytest.param({"needed": 1}, (1,), ((1, 1, 1),), False, id="more placements than pods"),
        pytest.param({"wanted": (ProblemDemand((2, 1), 2, (0,)),)}, (1,), ((1, 1),), False, id="a forbidden row"),
        pytest.param({"domains": ((0,), (1,))}, (0, 1), ((0, 1),), False, id="not in one domain"),
        pytest.param({"domains": ((0,), (1,))}, (1,), ((1, 1),), True, id="within one domain"),
        pytest.param(
            {"free": ((1, -9), (0, 0)), "wanted": (ProblemDemand((1, 0), 1, (0,)),), "needed": 1}, (), ((0,),), True,
            id="an overcommitted resource that is not asked for",
        ),
    ],
)  # fmt: skip
def test_what_makes_room(fields, victims, placements, fits):
    assert asked(**fields).placed(victims, placements) is fits
