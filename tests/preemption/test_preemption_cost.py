"""What leaving costs: work since the last checkpoint, what the victim would displace, and which policy weighs it."""

import numpy as np
import pytest
from builders import amounts, node, shape
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from preemption_scenes import NOW, Scene, group, lone, on, victims

from headgate.model.keys import Key, Kind, Target
from headgate.model.pod import PodShape
from headgate.preemption.candidates import NODE_SECOND, Candidates, work_lost
from headgate.preemption.solver.exact import HighsCertifier, SolverLimits
from headgate.preemption.units import Standing

EXACT = HighsCertifier(SolverLimits(seconds=None))
JOB = Target(Key(Kind.JOB, "default", "job"), "uid-job")


def lost(placed, *nodes):
    """The work each of the pods would lose, in thousandths of a node-second."""
    scene = Scene(nodes or [node("n", cpu=1000)], [placed])
    scene.running.refresh()
    (work,) = work_lost(scene.running, np.flatnonzero(scene.running.rows >= 0), NOW)
    return work / (NODE_SECOND / 1000)


@pytest.mark.parametrize(
    "fields, expected",
    [
        pytest.param({"start": NOW - 60}, 30_000, id="half a node for a minute"),
        pytest.param({"start": None}, 0, id="nothing, where nothing has started"),
        pytest.param({"start": NOW - 60, "checkpointed": NOW - 10}, 5_000, id="what came after the last checkpoint"),
        pytest.param(
            {"start": NOW - 60, "checkpointed": NOW - 500},
            30_000,
            id="a checkpoint of an earlier run saves nothing of this",
        ),
        pytest.param({"start": NOW - 70, "checkpoint_every": 60.0}, 5_000, id="the rest of an interval"),
        pytest.param({"start": NOW - 120, "checkpoint_every": 60.0}, 0, id="nothing right after an interval"),
        pytest.param(
            {"start": NOW - 70, "checkpoint_every": 60.0, "checkpointed": NOW - 2},
            1_000,
            id="what is known of a checkpoint counts, not what was to be expected",
        ),
        pytest.param({"start": NOW + 5}, 0, id="never less than nothing, when clocks differ"),
        pytest.param({"start": NOW - 60, "checkpoint_every": 0.0}, 30_000, id="an interval of nothing is none"),
    ],
)
def test_work_lost(fields, expected):
    assert lost(on("n", "a", 500, **fields)) == expected


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"start": None, "checkpointed": 0.0}, id="an old checkpoint, before the pod has started"),
        pytest.param({"start": NOW - 60, "checkpointed": 0.0}, id="a checkpoint long before the pod started"),
        pytest.param({"start": NOW + 5, "checkpoint_every": 3600.0}, id="an interval, when clocks differ"),
        pytest.param({"start": NOW + 5, "checkpointed": NOW - 3600}, id="a checkpoint, when clocks differ"),
        pytest.param({"start": NOW - 60, "checkpoint_every": 1e300}, id="an interval that never ends"),
        pytest.param({"start": NOW - 60, "checkpointed": -1e300}, id="a time before all times"),
    ],
)
def test_nothing_a_pod_says_of_checkpoints_makes_it_a_dearer_victim(fields):
    assert lost(on("n", "a", 500, **fields)) <= lost(on("n", "a", 500, start=fields["start"]))


@given(
    start=st.none() | st.floats(NOW - 1e6, NOW + 1e3),
    checkpointed=st.none() | st.floats(-1e12, 1e12),
    every=st.none() | st.floats(1e-3, 1e12),
)
def test_whatever_a_pod_says_it_loses_no_more_than_the_time_it_runs(start, checkpointed, every):
    said = on("n", "a", 500, start=start, checkpointed=checkpointed, checkpoint_every=every)
    assert 0 <= lost(said) <= lost(on("n", "a", 500, start=start))


def test_the_largest_share_counts():
    both = PodShape(requests=amounts(cpu=100, memory=512), scored_requests=amounts(cpu=100, memory=512))
    assert lost(on("n", "a", shape=both, start=NOW - 1)) == 500


def test_devices_count_like_everything_else():
    gpu = "example.com/gpu"
    room = replace(node("n", cpu=1000), allocatable=amounts(cpu=1000, pods=9, **{gpu: 4}))
    asked = amounts(cpu=100, **{gpu: 2})
    assert lost(on("n", "a", shape=PodShape(requests=asked, scored_requests=asked), start=NOW - 1), room) == 500


def test_a_unit_loses_what_its_pods_lose():
    scene = Scene(
        [node("n", cpu=1000), node("m", cpu=2000)],
        [on("n", "a", 1000, gang="g", start=NOW - 10), on("m", "b", 1000, gang="g", start=NOW - 20)],
        {"g": (2, True)},
    )
    among = Candidates(scene.running, 10, NOW)
    assert among.lost.tolist() == [20], "in node-seconds"


@pytest.mark.parametrize(
    "placed",
    [
        pytest.param({}, id="plain pods"),
        pytest.param({"checkpoint_every": 60.0}, id="pods that save their work"),
        pytest.param({"checkpointed": 60.0}, id="pods that have saved it"),
        pytest.param({"gang": "g"}, id="a gang that could be broken"),
        pytest.param({"gang": "whole"}, id="a gang that is preempted whole"),
    ],
)
@pytest.mark.parametrize(
    "preemptor, expected",
    [
        pytest.param(lone(cpu=1000), "Kubernetes", id="a pod by itself preempts as with kube-scheduler"),
        pytest.param(group(1, cpu=1000), "LeastLoss", id="a group weighs the loss"),
    ],
)
def test_the_policy(preemptor, placed, expected):
    """Who runs in the cluster has no say in it."""
    gangs = {"g": (1, False), "whole": (1, True)}
    plan = Scene([node("n", cpu=1000)], [on("n", "a", 1000, **placed)], gangs).plan(preemptor)
    assert plan.receipt.policy == expected


PAIR = [node("n", cpu=1000), node("m", cpu=1000)]


@pytest.mark.parametrize(
    "preemptor, expected",
    [
        pytest.param(group(1, cpu=1000), "saved", id="a group: the pod that saved its work"),
        pytest.param(lone(cpu=1000), "fresh", id="a pod: the one that started last, as with kube-scheduler"),
    ],
)
def test_the_pod_that_saved_its_work_leaves(preemptor, expected):
    placed = [on("n", "fresh", 1000, 1, start=NOW - 50), on("m", "saved", 1000, 1, start=0.0, checkpointed=NOW - 1)]
    plan = Scene(PAIR, placed).plan(preemptor)
    assert victims(plan) == [expected]
    assert plan.receipt.victims[0].work_lost == (1 if expected == "saved" else 50)


def test_saving_work_never_makes_a_higher_priority_leave():
    placed = [on("n", "low", 1000, 1, start=0.0), on("m", "high", 1000, 2, checkpointed=NOW)]
    assert victims(Scene(PAIR, placed).plan(group(1, cpu=1000))) == ["low"]


@pytest.mark.parametrize(
    "placed, expected",
    [
        pytest.param(
            [on("n", "a", 500, 1, start=NOW), on("n", "b", 500, 0, start=NOW), on("m", "c", 500, 1, start=NOW),
             on("m", "d", 500, 1, start=NOW)], ["a", "b"], id="of as much work and as many pods the lower priorities",
        ),
        pytest.param(
            [on("n", "a", 1000, 1, start=NOW - 9, checkpointed=NOW), on("m", "b", 1000, 1, start=NOW)], ["b"],
            id="at last those that started last",
        ),
    ],
)  # fmt: skip
def test_the_last_criteria_of_a_group(placed, expected):
    nodes = [node(name, cpu=1000, labels={"zone": name}) for name in "nm"]
    assert victims(Scene(nodes, placed).plan(group(1, cpu=1000, topology="zone"))) == expected


class TestVictimsThatComeBack:
    """A pod with a controller is made anew, and may then preempt in its turn."""

    nodes = (node("n", cpu=1000), node("m", cpu=1000), node("k", cpu=1000))

    @pytest.mark.parametrize(
        "owner, standing, expected",
        [
            pytest.param(JOB, {}, 5000, id="it would displace the one below it"),
            pytest.param(None, {}, 0, id="without a controller nothing comes back"),
            pytest.param(JOB, {"preempts": False}, 0, id="one that never preempts waits"),
        ],
    )
    def test_estimates(self, owner, standing, expected):
        placed = [
            on("n", "back", 1000, 5, start=NOW - 10, checkpointed=NOW - 10, owner=owner),
            on("k", "low", 1000, 0, start=NOW - 5000),
        ]
        standings = {"back": Standing(5, **standing)}
        scene = Scene([self.nodes[0], self.nodes[2]], placed, standings=standings)
        plan = scene.plan(group(2, cpu=1000, priority=6, needed=2))
        assert victims(plan) == ["back", "low"]
        assert plan.receipt.displaced == 0, "who is gone already cannot be displaced"
        alone = scene.plan(group(1, priority=6, shape=shape(1000, node_name="n")))
        assert victims(alone) == ["back"]
        assert alone.receipt.displaced == expected
        assert dict(alone.receipt.criteria)["work lost"] == 10 + expected

    def test_one_that_finds_room_displaces_nobody(self):
        placed = [on("n", "back", 1000, 5, checkpointed=NOW, owner=JOB), on("k", "low", 300, 0)]
        pinned = group(1, priority=6, shape=shape(1000, node_name="n"))
        nodes = [self.nodes[0], self.nodes[2], node("free", cpu=1000)]
        assert Scene(nodes, placed).plan(pinned).receipt.displaced == 0

    @pytest.mark.parametrize("certifier", [None, EXACT], ids=["alone", "with the solver"])
    @pytest.mark.parametrize("topology", ["", "zone"], ids=["anywhere", "within a zone"])
    @pytest.mark.parametrize("careful", [False, True], ids=["by arithmetic", "step by step"])
    def test_what_would_be_displaced_can_decide(self, certifier, topology, careful):
        """The pod that loses a little more itself is preempted, because it is not recreated and displaces nobody."""
        placed = [
            on("n", "back", 1000, 5, checkpointed=NOW - 10, owner=JOB),
            on("m", "gone", 1000, 5, checkpointed=NOW - 100),
            on("k", "low", 1000, 0, start=0.0, shape=shape(1000)),
        ]
        demand = shape(1000, node_selector=(("role", "big"),))
        nodes = [node(name, cpu=1000, labels={"role": "big", "zone": name}) for name in "nm"]
        scene = Scene([*nodes, node("k", cpu=1000)], placed, certifier=certifier)
        preemptor = group(1, priority=6, shape=demand, topology=topology)
        found = scene.step_by_step(preemptor) if careful else scene.plan(preemptor)
        assert victims(found) == ["gone"]
        assert "work lost" in found.receipt.alternatives[0].why
        if certifier is not None and not careful:
            assert found.receipt.certificate == "best found; work lost might be 90 node-seconds less"

    def test_a_gang_of_whose_pods_some_fit_again_displaces_for_the_others_only(self):
        """Four pods are evicted for one: three of them are recreated in their old place, one displaces `low`."""
        placed = [on(f"n{i}", f"g{i}", 1000, 5, gang="g", checkpointed=NOW, owner=JOB) for i in range(4)]
        nodes = [node(f"n{i}", cpu=1000) for i in range(4)] + [node("k", cpu=1000)]
        scene = Scene(nodes, [*placed, on("k", "low", 1000, 0, start=NOW - 7)], {"g": (4, True)})
        plan = scene.plan(group(1, priority=6, shape=shape(1000, node_name="n0")))
        assert victims(plan) == ["g0", "g1", "g2", "g3"]
        assert plan.receipt.displaced == 0, "each recreated pod by itself finds a node"

    def test_a_choice_that_displaces_somebody_is_not_called_optimal(self):
        placed = [on("n", "back", 1000, 5, checkpointed=NOW, owner=JOB), on("k", "low", 1000, 0, start=NOW - 5)]
        scene = Scene([self.nodes[0], self.nodes[2]], placed, certifier=EXACT)
        plan = scene.plan(group(1, priority=6, shape=shape(1000, node_name="n")))
        assert (victims(plan), plan.receipt.displaced) == (["back"], 5)
        assert plan.receipt.certificate == "best found; work lost might be 5 node-seconds less"


def test_a_receipt_tells_who_and_at_what_price():
    placed = [on("n", "a", 1000, 1, start=NOW - 30), on("m", "b", 1000, 2, start=NOW - 10)]
    scene = Scene([node("n", cpu=1000), node("m", cpu=1000)], placed)
    receipt = scene.plan(lone(cpu=1000)).receipt
    (line,) = receipt.victims
    assert (line.key.name, line.priority, line.pods, line.work_lost) == ("a", 1, 1, 30)
    assert (receipt.candidates, receipt.domains, receipt.certificate) == (2, 2, "not compared")
    (other,) = receipt.alternatives
    assert (other.where, other.why) == ("m", "highest priority: 2 instead of 1")
