"""The search step by step: who is a candidate, what is feasible, whom a budget spares, which priority is enough."""

import pytest
from builders import node, shape
from msgspec.structs import replace
from preemption_scenes import NOW, Scene, budget, group, lone, on, placements, victims

from headgate.model.cluster_events import ClusterEvent
from headgate.model.node import HostPort
from headgate.preemption.search import NoPlan
from headgate.preemption.solver.exact import HighsCertifier, SolverLimits
from headgate.preemption.units import Standing

FULL = node("n", cpu=1000)


@pytest.mark.parametrize(
    "placed, preemptor, expected",
    [
        pytest.param([on("n", "a", 1000, 9)], lone(priority=10), ["a"], id="a pod of lower priority leaves"),
        pytest.param(
            [on("n", "a", 1000, 10)],
            lone(priority=10),
            "preemption would not help: there are no pods of lower priority",
            id="one of equal priority does not",
        ),
        pytest.param(
            [on("n", "a", 600, 10), on("n", "b", 400, 1)],
            lone(cpu=500, priority=10),
            "preemption would not help: it does not fit even without the only pod of lower priority",
            id="nobody leaves where all leaving would not be enough",
        ),
        pytest.param(
            [on("n", "a", 600, 1), on("n", "b", 400, 1, deleted=NOW)],
            lone(cpu=400),
            [],
            id="a pod being deleted is gone: its room is waited for and nobody else leaves",
        ),
        pytest.param(
            [on("n", "a", 600, 1), on("n", "b", 400, 90, deleted=NOW)],
            lone(cpu=500),
            ["a"],
            id="a pod being deleted is no victim, whatever its priority",
        ),
        pytest.param(
            [on("n", "a", 600, 90), on("n", "b", 400, 1, deleted=NOW)],
            lone(cpu=500),
            "preemption would not help: there are no pods of lower priority",
            id="the room of a pod being deleted counts once",
        ),
        pytest.param(
            [on("n", "a", 600, 2), on("n", "b", 400, 1, deleted=NOW)],
            lone(cpu=1000),
            ["a"],
            id="a pod being deleted is not asked to leave again",
        ),
        pytest.param(
            [on("n", "a", 1000, 1)],
            lone(cpu=100, preempts=False),
            "preemption is not allowed by preemptionPolicy",
            id="a pod whose policy is Never asks nobody to leave",
        ),
    ],
)
def test_candidates(placed, preemptor, expected):
    assert victims(Scene([FULL], placed).plan(preemptor)) == expected


def test_preemption_priority_protects_and_not_the_priority_to_schedule_with():
    guarded = Scene([FULL], [on("n", "a", 1000, priority=1)], standings={"a": Standing(priority=50)})
    assert isinstance(guarded.plan(lone(priority=10)), NoPlan)
    assert victims(guarded.plan(lone(priority=51))) == ["a"]


def test_a_refusal_has_numbers():
    refused = Scene([FULL], [on("n", f"p{i}", 100, 1) for i in range(9)]).plan(lone(cpu=2000))
    assert refused == NoPlan(
        "preemption would not help: it does not fit even without all 9 pods (9 units) of lower priority",
        candidates=9,
        wake_on=frozenset({ClusterEvent.CANDIDATES_CHANGED}),
    )


@pytest.mark.parametrize(
    "placed, expected",
    [
        pytest.param([on("n", "a", 500, 2), on("n", "b", 500, 1)], ["b"], id="the lower priority leaves"),
        pytest.param(
            [on("n", "a", 500, 1, start=5), on("n", "b", 500, 1, start=9)], ["b"], id="of equals the later start leaves"
        ),
        pytest.param(
            [on("n", "a", 500, 1, start=None), on("n", "b", 500, 1, start=9)],
            ["a"],
            id="a pod that has not started counts as started now",
        ),
        pytest.param(
            [on("n", "a", 200, 3), on("n", "b", 300, 2), on("n", "c", 500, 1)],
            ["c"],
            id="the highest priority is spared first, then the next",
        ),
        pytest.param(
            [on("n", "a", 600, 3), on("n", "b", 100, 2), on("n", "c", 300, 1)],
            ["a"],
            id="who does not fit beside the preemptor leaves, and smaller ones of lower priority stay",
        ),
    ],
)
def test_importance(placed, expected):
    assert victims(Scene([FULL], placed).plan(lone(cpu=500))) == expected


APP = {"app": "db"}


@pytest.mark.parametrize(
    "placed, budgets, expected",
    [
        pytest.param(
            [on("n", "a", 500, 1, start=1), on("n", "b", 500, 1, start=9, labels=APP)],
            [budget("db", "app=db", 0)],
            ["a"],
            id="who would violate a budget is spared first",
        ),
        pytest.param(
            [on("n", "a", 500, 1, start=1), on("n", "b", 500, 1, start=9, labels=APP)],
            [budget("db", "app=db", 1)],
            ["b"],
            id="a budget that allows it spares nobody",
        ),
        pytest.param(
            [on("n", "a", 500, 1, start=1), on("n", "b", 500, 1, start=9, labels=APP)],
            [budget("db", "app=db", 0, disrupted=["b"])],
            ["b"],
            id="who is disrupted already does not count again",
        ),
        pytest.param([on("n", "a", 1000, 1, labels=APP)], [budget("db", "app=db", 0)], ["a"], id="a budget is no veto"),
        pytest.param(
            [on("n", "a", 500, 1, start=1, labels=APP), on("n", "b", 500, 1, start=9, labels=APP)],
            [budget("db", "app=db", 1)],
            ["a"],
            id="the most important use the budget up, so the less important violate it and are spared first",
        ),
        pytest.param(
            [on("n", "a", 500, 1, start=1), on("n", "b", 500, 1, start=9, labels=APP)],
            [budget("all", "", 0)],
            ["b"],
            id="an empty selector counts nobody",
        ),
        pytest.param(
            [on("n", "a", 500, 1, start=1), on("n", "b", 500, 1, start=9, labels=APP)],
            [budget("db", "app=db", 0, namespace="elsewhere")],
            ["b"],
            id="a budget of another namespace counts nobody",
        ),
    ],
)
def test_budgets_spare_first(placed, budgets, expected):
    assert victims(Scene([FULL], placed, budgets=budgets).plan(lone(cpu=500))) == expected


def test_a_unit_with_one_violating_pod_is_spared_whole():
    placed = [
        on("n", "a", 500, 1, gang="g"),
        on("m", "b", 500, 1, gang="g", labels=APP),
        on("n", "c", 500, 1, start=0, checkpointed=NOW),
    ]
    nodes = [FULL, node("m", cpu=500)]
    scene = Scene(nodes, placed, {"g": (2, True)}, [budget("db", "app=db", 0)])
    assert victims(scene.plan(group(1, cpu=500))) == ["c"]


@pytest.mark.parametrize(
    "preemptor, expected",
    [
        pytest.param(lone(cpu=600), "m", id="kube-scheduler gives nothing back: one violation on n, none on m"),
        pytest.param(group(1, cpu=600, topology="zone"), "n", id="for a group the violations of victims are counted"),
    ],
)
def test_a_budget_gets_back_what_the_spared_would_have_used(preemptor, expected):
    """On n the large pod must go; the small and more important one uses the budget up only while it is a candidate."""
    here = [
        on("n", "small", 400, 1, start=1, labels=APP),
        on("n", "large", 600, 1, start=2, labels=APP),
    ]
    there = [on("m", "other", 1000, 1, start=0)]
    nodes = [node(name, cpu=1000, labels={"zone": name}) for name in "nm"]
    plan = Scene(nodes, here + there, budgets=[budget("db", "app=db", 1)]).plan(preemptor)
    assert list(placements(plan).values()) == [expected]
    assert dict(plan.receipt.criteria)["budget violations"] == 0


@pytest.mark.parametrize(
    "nodes, expected",
    [
        pytest.param(
            {"n": [("a", 1000, 3)], "m": [("b", 1000, 2)]},
            ["b"],
            id="the node with the lower highest priority is taken",
        ),
        pytest.param(
            {"n": [("a", 500, 2), ("b", 500, 2)], "m": [("c", 500, 2), ("d", 500, 1)]},
            ["c", "d"],
            id="then the one with the smaller sum of priorities",
        ),
        pytest.param(
            {"n": [("a", 500, -9), ("b", 500, -9)], "m": [("c", 1000, -9)]},
            ["c"],
            id="priorities below zero do not make many victims better than few",
        ),
        pytest.param(
            {"n": [("a", 1000, 1, 5.0)], "m": [("b", 1000, 1, 9.0)]},
            ["b"],
            id="then the one whose first started latest",
        ),
    ],
)
def test_the_best_node(nodes, expected):
    placed = [
        on(where, name, cpu, priority, start=(*rest, 0.0)[0])
        for where, pods in nodes.items()
        for name, cpu, priority, *rest in pods
    ]
    plan = Scene([node(name, cpu=1000) for name in nodes], placed).plan(lone(cpu=1000))
    assert victims(plan) == expected
    assert plan.receipt.policy == "Kubernetes"


def test_a_node_without_violations_is_better_than_one_of_lower_priority_with_them():
    placed = [on("n", "a", 1000, 1, labels=APP), on("m", "b", 1000, 5)]
    scene = Scene([FULL, node("m", cpu=1000)], placed, budgets=[budget("db", "app=db", 0)])
    assert victims(scene.plan(lone(cpu=1000))) == ["b"]


def test_ties_are_settled_by_the_seed_and_the_nodes_names_alone():
    names = ["n", "m", "k", "l"]
    chosen = set()
    for seed in (0, 31, 4711, 123_456, 99_999_999):
        picks = []
        for order in (names, names[::-1]):
            scene = Scene([node(name) for name in order], [on(name, f"on-{name}", 1000) for name in order], seed=seed)
            picks.append(list(placements(scene.plan(lone(cpu=1000))).values()))
        assert picks[0] == picks[1]
        chosen.add(picks[0][0])
    assert len(chosen) > 1


def test_the_lowest_sufficient_priority_decides_where_a_group_sits():
    """With everybody gone the group would sit on the large nodes; the low priorities on the small ones are enough."""
    nodes = [node("large", cpu=4000), node("small-1", cpu=1000), node("small-2", cpu=1000)]
    placed = [on("large", "high", 4000, 5), on("small-1", "low-1", 1000, 1), on("small-2", "low-2", 1000, 2)]
    plan = Scene(nodes, placed).plan(group(2, cpu=1000))
    assert victims(plan) == ["low-1", "low-2"]
    assert sorted(placements(plan).values()) == ["small-1", "small-2"]


@pytest.mark.parametrize("certifier", [None, HighsCertifier(SolverLimits(seconds=None))], ids=["alone", "with solver"])
def test_budgets_spare_before_the_lowest_priority_is_looked_for(certifier):
    """The emptied large node is preferred, so no pod of the budget is evicted, though its priority is lower."""
    nodes = [node("large", cpu=4000), node("small", cpu=1000)]
    placed = [on("large", "other", 4000, 2), on("small", "counted", 1000, 1, labels=APP)]
    assert victims(Scene(nodes, placed, certifier=certifier).plan(group(1, cpu=1000))) == ["counted"]
    guarded = Scene(nodes, placed, budgets=[budget("db", "app=db", 0)], certifier=certifier)
    assert victims(guarded.plan(group(1, cpu=1000))) == ["other"]


def test_of_one_priority_those_who_lose_least_make_room():
    nodes = [node(f"n{i}", cpu=1000) for i in range(4)]
    placed = [on(f"n{i}", f"p{i}", 1000, 1, checkpointed=NOW - 10 * (4 - i)) for i in range(4)]
    plan = Scene(nodes, placed).plan(group(2, cpu=1000))
    assert victims(plan) == ["p2", "p3"]


def test_members_that_are_not_needed_leave_others_alone():
    nodes = [node("n", cpu=1000), node("m", cpu=1000)]
    placed = [on("n", "a", 1000, 1), on("m", "b", 1000, 20)]
    plan = Scene(nodes, placed).plan(group(2, cpu=1000, needed=1))
    assert victims(plan) == ["a"]
    assert len(plan.placements) == 1


def test_units_away_from_the_placements_stay_however_unimportant():
    nodes = [node("n", cpu=1000), node("m", cpu=200)]
    placed = [on("n", "a", 1000, 5), on("m", "b", 200, 0)]
    assert victims(Scene(nodes, placed).plan(group(1, cpu=900))) == ["a"]


def test_a_port_held_by_a_lower_priority_is_freed():
    ports = (HostPort(80),)
    holder = on("n", "holder", priority=1, shape=shape(100, ports=ports))
    bystander = on("n", "bystander", 100, priority=0)
    plan = Scene([FULL], [holder, bystander]).plan(lone(shape=shape(100, ports=ports)))
    assert victims(plan) == ["holder"]


def test_a_newer_look_of_a_running_pod_is_used():
    """The table was charged before the pod started and saved its work; who knows better says so."""
    scene = Scene([node("n", cpu=1000)], [on("n", "a", 500, 1, start=None), on("n", "b", 500, 1, start=NOW - 500)])
    older = on("n", "a", 500, 1, start=NOW - 900)
    assert victims(scene.plan(lone(cpu=500))) == ["a"]
    scene.running.changed([older])
    assert victims(scene.plan(lone(cpu=500))) == ["b"]
    scene.step_by_step(lone(cpu=500))
    assert victims(scene.plan(lone(cpu=500))) == ["b"]
    assert victims(scene.plan(group(1, cpu=500))) == ["b"]
    scene.running.changed([replace(older, checkpointed=NOW)])
    assert victims(scene.plan(group(1, cpu=500))) == ["a"]


def test_a_node_that_runs_as_many_pods_as_it_may_has_room_once_one_of_them_is_evicted():
    crowded = node("n", cpu=4000, pods=2)
    placed = [on("n", "a", 100, 1), on("n", "b", 100, 2)]
    assert victims(Scene([crowded], placed).plan(lone(cpu=100))) == ["a"]
