"""Where room is looked for, whose leaving makes room there, and who is asked first."""

import numpy as np
import pytest
from builders import node
from preemption_scenes import NOW, Scene, group, lone, on, victims

from headgate.preemption.candidates import Candidates
from headgate.preemption.policies import by_importance
from headgate.preemption.search import NoPlan

ZONES = [node(f"{zone}{i}", cpu=1000, labels={"zone": zone}) for zone in "ab" for i in range(2)]
FULL = [on(f"{zone}{i}", f"p{zone}{i}", 1000, 1) for zone in "ab" for i in range(2)]


@pytest.mark.parametrize(
    "preemptor, domains, name",
    [
        pytest.param(lone(cpu=1000), 4, None, id="for a pod every node is one"),
        pytest.param(group(2, cpu=1000), 1, "the cluster", id="for a group there is one, the whole cluster"),
        pytest.param(group(2, cpu=1000, topology="zone"), 2, None, id="with a topology one for each value"),
    ],
)
def test_the_domains(preemptor, domains, name):
    receipt = Scene(ZONES, FULL).plan(preemptor).receipt
    assert receipt.domains == domains
    if name is not None:
        assert receipt.domain == name


def test_domains_exclude_each_other():
    """No zone could take three, whatever leaves the other."""
    assert isinstance(Scene(ZONES, FULL).plan(group(3, cpu=1000, topology="zone")), NoPlan)


@pytest.mark.parametrize("careful", [False, True], ids=["by arithmetic", "step by step"])
@pytest.mark.parametrize(
    "preemptor",
    [
        pytest.param(lone(cpu=1000), id="a pod"),
        pytest.param(group(1, cpu=1000, topology="zone"), id="a group that stays in a zone"),
    ],
)
def test_what_a_gang_leaves_elsewhere_makes_no_room_here(preemptor, careful):
    """All of it together would be enough, what of it is on each node is not."""
    nodes = [node("n", cpu=1000, labels={"zone": "a"}), node("m", cpu=1000, labels={"zone": "b"})]
    placed = [on(name, f"boss-{name}", 500, 99) for name in "nm"] + [
        on(name, f"g-{name}", 500, 1, "g") for name in "nm"
    ]
    scene = Scene(nodes, placed, {"g": (2, True)})
    found = scene.step_by_step(preemptor) if careful else scene.plan(preemptor)
    assert found is None or isinstance(found, NoPlan)


@pytest.mark.parametrize(
    "placed, expected",
    [
        pytest.param([on("n", "low", 10, 1, "g"), on("n", "high", 10, 2)], ["high", "low"], id="priority comes first"),
        pytest.param([on("n", "pod", 10, 1, start=0), on("n", "gang", 10, 1, "g", start=9)], ["gang", "pod"],
                     id="of one priority workloads come before pods, also when they started later"),
        pytest.param([on("n", "one", 10, 1, "g"), on("n", "two", 10, 1, "h"), on("m", "two-b", 10, 1, "h")],
                     ["two", "one"], id="of two gangs the larger one"),
        pytest.param([on("n", "late", 10, 1, start=9), on("n", "early", 10, 1, start=0)], ["early", "late"],
                     id="of two pods the one that started first"),
    ],
)  # fmt: skip
def test_the_order_of_importance(placed, expected):
    scene = Scene([node("n"), node("m")], placed, {"g": (1, True), "h": (2, True)})
    among = Candidates(scene.running, 10, NOW)
    order = by_importance(among, np.arange(among.count))
    assert [min(one.key.name for one in unit.pods) for unit in among.units(order)] == expected


def test_victims_are_asked_where_the_preemptor_will_sit_and_nowhere_else():
    nodes = [node("n", cpu=1000), node("m", cpu=1000)]
    placed = [on("n", "a", 1000, 1), on("m", "b", 1000, 2)]
    assert victims(Scene(nodes, placed).plan(group(1, cpu=1000))) == ["a"]
