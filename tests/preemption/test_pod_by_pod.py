"""Without workload-aware preemption victims are found pod by pod, and dropped when too few pods of the gang fit."""

import pytest
from builders import node
from preemption_scenes import Scene, group, lone, on, placements, victims

from headgate.placement.trial import PlacementTrial
from headgate.preemption.pod_by_pod import PodByPodPreemption
from headgate.preemption.search import NoPlan, Plan


class OneByOne(Scene):
    def __init__(self, *parts, **fields):
        super().__init__(*parts, **fields)
        self.preemption = PodByPodPreemption(self.table, self.running, self.budgets)


def two_nodes(**fields):
    return [node(name, cpu=100, **fields) for name in ("n", "m")]


def test_each_member_has_victims_of_its_own():
    plan = OneByOne(two_nodes(), [on("n", "a"), on("m", "b")]).plan(group(2))
    assert victims(plan) == ["a", "b"]
    assert sorted(placements(plan).values()) == ["m", "n"]


def test_a_later_member_uses_what_the_victim_of_an_earlier_one_left_free():
    scene = OneByOne([node("n", cpu=200), node("m", cpu=200)], [on("n", "a", cpu=200), on("m", "b", cpu=200)])
    plan = scene.plan(group(2))
    assert len(victims(plan)) == 1
    assert len(set(placements(plan).values())) == 1


def test_a_member_that_fits_preempts_nobody():
    plan = OneByOne(two_nodes(), [on("n", "a")]).plan(group(2))
    assert victims(plan) == ["a"]


@pytest.mark.parametrize(
    "preemptor, says",
    [
        pytest.param(group(3), "one by one preemption places 2 of the 3 pods its gang needs", id="one too many"),
        pytest.param(
            group(2, priority=0), "one by one preemption places 0 of the 2 pods its gang needs", id="nobody is lower"
        ),
    ],
)
def test_the_victims_of_a_gang_that_does_not_fit_are_dropped(preemptor, says):
    scene = OneByOne(two_nodes(), [on("n", "a", priority=1), on("m", "b", priority=1)])
    plan = scene.plan(preemptor)
    assert isinstance(plan, NoPlan)
    assert plan.reason == says


def test_nobody_is_preempted_for_the_surplus():
    plan = OneByOne(two_nodes(), [on("n", "a"), on("m", "b")]).plan(group(2, needed=1))
    assert len(victims(plan)) == 1


def test_a_gang_that_leaves_whole_does_so_for_one_member_too():
    scene = OneByOne(two_nodes(), [on("n", "a", gang="pair"), on("m", "b", gang="pair")], {"pair": (2, True)})
    assert victims(scene.plan(group(1))) == ["a", "b"]


def test_all_members_are_in_one_domain():
    nodes = [node(f"{zone}{i}", cpu=100, labels={"zone": zone}) for zone in "ab" for i in range(2)]
    running = [on("a0", "old", priority=99), *(on(f"b{i}", f"low{i}") for i in range(2))]
    plan = OneByOne(nodes, running).plan(group(2, topology="zone"))
    assert sorted(placements(plan).values()) == ["b0", "b1"]


def test_planning_leaves_no_trace():
    scene = OneByOne(two_nodes(), [on("n", "a"), on("m", "b")])
    before = sorted((row, one.key) for row, one in scene.table.placed())
    first = scene.plan(group(3))
    assert sorted((row, one.key) for row, one in scene.table.placed()) == before
    assert scene.plan(group(3)) == first


def test_a_single_pod_is_decided_as_ever():
    running = [on("n", "a"), on("m", "b", priority=2)]
    assert victims(OneByOne(two_nodes(), running).plan(lone())) == victims(Scene(two_nodes(), running).plan(lone()))


def test_the_placements_hold_once_the_victims_are_gone():
    scene = OneByOne([node("n", cpu=300), node("m", cpu=100)], [on("n", "a", cpu=250), on("m", "b")])
    plan = scene.plan(group(3))
    assert isinstance(plan, Plan)
    with PlacementTrial(scene.table) as trial:
        for unit in plan.victims:
            for one in unit.pods:
                trial.leave(one.key)
        for one, name in plan.placements:
            assert scene.placer.fits(one, scene.table.row_of(name))
            trial.take(one, name)
