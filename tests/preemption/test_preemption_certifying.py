"""A certifier may know better victims; what it says is checked and goes on the receipt."""

import pytest
from builders import node
from preemption_scenes import NOW, Scene, budget, group, lone, on, placements, victims

from headgate.preemption.solver.exact import HighsCertifier, SolverLimits
from headgate.preemption.solver.problem import Certified

EXACT = HighsCertifier(SolverLimits(seconds=None))
NODES = [node(name, cpu=1000) for name in "nmk"]
PLACED = [
    on(name, f"on-{name}", 1000, 1, checkpointed=NOW - ago) for name, ago in zip("nmk", (30, 20, 10), strict=True)
]


class Answers:
    """A certifier that gives one answer and keeps the questions."""

    def __init__(self, answer=None):
        self.answer = answer
        self.asked = []

    def improve(self, problem, chosen):
        self.asked.append((problem, tuple(chosen)))
        return self.answer or Certified(tuple(chosen), problem.cost(chosen).values)


def _any_placements(problem, chosen):
    """The first rows with capacity, pod by pod."""
    free, placements = problem.capacity(chosen), []
    for wanted in problem.wanted:
        taken = []
        for row in wanted.rows:
            while len(taken) < wanted.count and all(h >= a for h, a in zip(free[row], wanted.amounts, strict=True)):
                free[row] = [h - a for h, a in zip(free[row], wanted.amounts, strict=True)]
                taken.append(row)
        placements.append(tuple(taken))
    return tuple(placements)


def test_an_optimal_plan_says_so():
    certifier = Answers()
    plan = Scene(NODES, PLACED, certifier=certifier).plan(group(2, cpu=1000))
    assert plan.receipt.certificate == "optimal"
    assert victims(plan) == ["on-k", "on-m"]


def test_the_question_is_the_one_that_was_answered():
    certifier = Answers()
    placed = [*PLACED, on("n", "leaving", 0, deleted=NOW)]
    scene = Scene(NODES, placed, budgets=[budget("b", "app=x", 0)], certifier=certifier)
    plan = scene.plan(group(2, cpu=1000))
    ((problem, chosen),) = certifier.asked
    assert problem.placed(chosen, _any_placements(problem, chosen))
    assert problem.cost(chosen).values == judged(plan)


def judged(plan):
    return tuple(value for _, value in plan.receipt.criteria)


def test_gangs_and_budgets_cost_the_same_in_both_terms():
    placed = [
        on("n", "a", 500, 1, gang="whole", labels={"app": "x"}),
        on("m", "b", 500, 1, gang="whole"),
        on("k", "c", 1000, 2, gang="loose", labels={"app": "x"}),
    ]
    certifier = Answers()
    scene = Scene(
        NODES, placed, {"whole": (2, True), "loose": (1, False)}, [budget("b", "app=x", 0)], certifier=certifier
    )
    plan = scene.plan(group(3, cpu=1000))
    ((problem, chosen),) = certifier.asked
    cost = problem.cost(chosen)
    assert cost.values == judged(plan)
    assert (cost.gangs, cost.violations) == (2, 2)


class OneByOne:
    """Tries every candidate by itself on the one row there is."""

    def improve(self, problem, chosen):
        alone = [(index,) for index in range(len(problem.candidates)) if problem.placed((index,), ((0,),))]
        best = min(alone, key=problem.cost)
        return Certified(best, problem.cost(best).values, placements=((0,),))


def test_better_victims_are_taken_with_their_placements():
    """Whoever would lose most is spared first, and so the other two must leave, who lose more together."""
    nodes = [node("n", cpu=1000)]
    placed = [
        on("n", "most", 400, 1, start=1.0, checkpointed=NOW - 100),
        on("n", "mid", 300, 1, start=2.0, checkpointed=NOW - 120),
        on("n", "low", 300, 1, start=3.0, checkpointed=NOW - 110),
    ]
    before = Scene(nodes, placed).plan(group(1, cpu=400))
    after = Scene(nodes, placed, certifier=OneByOne()).plan(group(1, cpu=400))
    assert victims(before) == ["low", "mid"]
    assert victims(after) == ["most"]
    assert after.receipt.certificate == "optimal"
    assert placements(after) == placements(before)


@pytest.mark.parametrize(
    "certifier, expected, certificate",
    [
        pytest.param(None, 1, "not compared", id="the search reprieves beside one placement"),
        pytest.param(
            HighsCertifier(SolverLimits(seconds=None)), 0, "optimal", id="the solver places the group elsewhere"
        ),
    ],
)
def test_a_budget_the_search_would_violate_is_kept_with_the_solver(certifier, expected, certificate):
    """With everybody gone the large node is preferred, where a pod of the budget must go; the small one would do."""
    placed = [
        on("large", "counted", 3000, 1, labels={"app": "x"}),
        on("small", "plain", 1000, 2),
    ]
    nodes = [node("large", cpu=3000), node("small", cpu=1000)]
    scene = Scene(nodes, placed, budgets=[budget("b", "app=x", 0)], certifier=certifier)
    plan = scene.plan(group(1, cpu=1000))
    assert dict(plan.receipt.criteria)["budget violations"] == expected
    assert plan.receipt.certificate == certificate


def test_worse_victims_are_not_taken():
    certifier = Answers(Certified((0, 1, 2), (), placements=((0, 1),)))
    plan = Scene(NODES, PLACED, certifier=certifier).plan(group(2, cpu=1000))
    assert victims(plan) == ["on-k", "on-m"]
    assert plan.receipt.certificate == "not compared"


@pytest.mark.parametrize(
    "preemptor, pods",
    [
        pytest.param(lone(cpu=1000), 1, id="kube-scheduler's own decision is not compared"),
        pytest.param(group(2, cpu=1000), 100, id="nor is one among very many candidates"),
    ],
)
def test_not_everything_is_compared(preemptor, pods):
    certifier = Answers()
    placed = [on(name, f"{name}-{i}", 1000 // pods, 1, start=float(i)) for name in "nmk" for i in range(pods)]
    plan = Scene(NODES, placed, certifier=certifier).plan(preemptor)
    assert certifier.asked == []
    assert plan.receipt.certificate == "not compared"
