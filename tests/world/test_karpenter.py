"""Karpenter: which pods it provisions for, when a batch ends, which nodes it launches and which it removes."""

from __future__ import annotations

import pytest
from autoscaling_bench import GATED, Bench, group, on, unschedulable
from builders import bound, node, pod, shape, tolerating
from msgspec.structs import replace

from headgate.model.events import Observed, TimerFired
from headgate.model.node import NodeTerm, PeerDemands, PodTerm, Taint, TaintEffect
from headgate.model.pod import Phase, ScheduledCondition
from headgate.model.selectors import Operator, Requirement
from headgate.world.autoscaling import Karpenter

DEDICATED = Taint("dedicated", "batch", TaintEffect.NO_SCHEDULE)
OPTED_OUT = (NodeTerm((Requirement("karpenter.sh/nodepool", Operator.DOES_NOT_EXIST),)),)


def karpenter(*groups, objects=(), **fields):
    return Bench(Karpenter(groups or (group(),)), *objects, **fields)


@pytest.mark.parametrize(
    "fields, counts",
    [
        pytest.param({}, True, id="PodScheduled has the reason Unschedulable"),
        pytest.param(
            {"scheduled": ScheduledCondition("Unknown", "Unschedulable", "")}, True, id="whatever its status is"
        ),
        pytest.param({"scheduled": None}, False, id="without a condition nobody has tried it"),
        pytest.param({"scheduled": GATED}, False, id="SchedulingGated is another reason"),
        pytest.param({"nominated": "elsewhere"}, False, id="a nominated pod waits for its victims"),
        pytest.param({"node": "big-7"}, False, id="a bound pod has a node"),
        pytest.param({"deleted": 30.0}, True, id="deletion is not looked at"),
        pytest.param({"gates": ("example.com/x",)}, True, id="nor are gates"),
        pytest.param({"priority": -1000}, True, id="nor is priority"),
        pytest.param({"scheduler_name": "other"}, True, id="nor is the scheduler"),
        pytest.param({"of_daemon_set": True}, False, id="a DaemonSet's pod brings no node"),
        pytest.param({"annotations": {"kubernetes.io/config.mirror": "x"}}, False, id="nor does a mirror pod"),
    ],
)
def test_which_pods_are_provisioned_for(fields, counts):
    assert len(karpenter(objects=[unschedulable("a", **fields)]).run(60).orders) == counts


@pytest.mark.parametrize(
    "seen, batches",
    [
        pytest.param([0], [1], id="one second after the only pod"),
        pytest.param([0, 0.5, 1.2], [2.2], id="each new pod extends the batch by a second"),
        pytest.param([0, 1.5], [1, 2.5], id="a pod after the second begins another batch"),
        pytest.param(
            [number * 0.75 for number in range(20)],
            [10, 20.5],
            id="after ten seconds it ends anyway, and pods whose turn it is again extend the next",
        ),
    ],
)
def test_when_a_batch_ends(seen, batches):
    bench = karpenter(group(cpu=1000, max=50))
    for number, at in enumerate(seen):
        bench.run(at).see(unschedulable(f"p{number}"))
    assert [at for at, _, _ in bench.run(60).orders] == batches


def test_a_pod_seen_again_does_not_extend_the_batch():
    bench = karpenter(objects=[unschedulable("a")])
    bench.run(0.9).see(unschedulable("a"))
    assert bench.run(59).orders == [(1, "big", 1)]


def test_a_pod_for_which_nothing_could_be_done_is_tried_again_every_ten_seconds_once_something_changes():
    bench = karpenter(group(max=1, delay=30), objects=[unschedulable("a", 4000), unschedulable("b", 4000)])
    bench.run(31.5).see(on("big-0", unschedulable("a", 4000)))
    bench.run(64).lose(bench.nodes.pop("big-0"))
    assert bench.orders == [(1, "big", 1)]
    assert bench.run(100).orders == [(1, "big", 1), (71, "big", 1)], "its turn is at 70, the batch ends a second later"


@pytest.mark.parametrize(
    "cpus, launched",
    [
        pytest.param([1000], ["small"], id="the cheapest that takes the pod"),
        pytest.param([2500], ["large"], id="a larger one for a larger pod"),
        pytest.param([1000, 1000, 1000], ["large"], id="one large node rather than two small ones"),
        pytest.param([8000, 1000], ["large", "small"], id="what does not fit beside it gets a node of its own"),
        pytest.param(
            [2000, 3000, 5000, 6000], ["large", "large"], id="the largest first: small ones fill what they leave"
        ),
        pytest.param([9000, 1000], ["small"], id="a pod that no group takes is left out, the others are not"),
    ],
)
def test_which_nodes_are_launched(cpus, launched):
    pods = [unschedulable(f"p{number}", cpu) for number, cpu in enumerate(cpus)]
    bench = karpenter(group("large", 8000), group("small", 2000), objects=pods).run(30)
    assert sorted(each.group.name for each in bench.autoscaler.cloud.instances) == launched


def test_nodes_of_several_groups_register_once_each():
    bench = karpenter(
        group("large", 8000), group("small", 2000), objects=[unschedulable("a", 8000), unschedulable("b", 1000)]
    )
    bench.run(61)
    before = bench.autoscaler.react([TimerFired("register"), TimerFired("register")], 61.0)
    assert [type(effect).__name__ for effect in before].count("Create") == 0, "both are there"
    assert sorted(bench.nodes) == ["large-0", "small-0"]


def test_a_node_is_created_once_whatever_timers_fire_before_it_is_observed():
    autoscaler = Karpenter((group(),))
    autoscaler.react([Observed(unschedulable("a"))], 0.0)
    autoscaler.react([TimerFired("batch")], 1.0)
    effects = autoscaler.react([TimerFired("register"), TimerFired("register")], 61.0)
    effects += autoscaler.react([TimerFired("register")], 61.0)
    assert [type(effect).__name__ for effect in effects].count("Create") == 1


def test_the_largest_pods_are_packed_first():
    pods = [unschedulable("small-1"), unschedulable("small-2"), unschedulable("large", 6000)]
    bench = karpenter(group(cpu=8000), objects=pods).run(30)
    (only,) = bench.autoscaler.cloud.instances
    assert [each.key.name for each in only.pods] == ["large", "small-1", "small-2"]


@pytest.mark.parametrize(
    "fields, template, nodes",
    [
        pytest.param({}, {"taints": (DEDICATED,)}, 0, id="a taint that the pod does not tolerate"),
        pytest.param({"tolerations": tolerating("dedicated")}, {"taints": (DEDICATED,)}, 1, id="one that it tolerates"),
        pytest.param({"node_selector": (("pool", "gpu"),)}, {}, 0, id="a selector for a label it lacks"),
        pytest.param({"node_selector": (("pool", "gpu"),)}, {"labels": {"pool": "gpu"}}, 1, id="for one it has"),
        pytest.param(
            {"required_terms": OPTED_OUT}, {"labels": {"karpenter.sh/nodepool": "big"}}, 0, id="a pod that opted out"
        ),
        pytest.param({}, {"cpu": 0, "memory": 0}, 0, id="a template of nothing"),
        pytest.param({}, {"max": 0}, 0, id="a group that may have no node"),
    ],
)
def test_which_groups_suit_a_pod(fields, template, nodes):
    bench = karpenter(group(**template), objects=[unschedulable("a", shape=shape(1000, **fields))]).run(60)
    assert len(bench.orders) == nodes


def test_a_claim_is_of_a_group_that_takes_all_its_pods():
    fast, cheap = group("fast", 8000, labels={"disk": "ssd"}), group("cheap", 4000)
    pods = [unschedulable("any"), unschedulable("ssd", shape=shape(1000, node_selector=(("disk", "ssd"),)))]
    bench = karpenter(fast, cheap, objects=pods).run(30)
    assert [each.group.name for each in bench.autoscaler.cloud.instances] == ["fast"]


def test_pods_that_keep_apart_get_a_node_each():
    apart = PeerDemands(anti_affinity=(PodTerm("kubernetes.io/hostname", (), ("default",)),))
    pods = [unschedulable(f"p{number}", shape=shape(100, peers=apart)) for number in range(3)]
    bench = karpenter(group("large", 8000), group("small", 2000), objects=pods).run(30)
    assert bench.orders == [(1, "small", 3)]


@pytest.mark.parametrize("maximum", [1, 3])
def test_a_group_never_grows_beyond_its_maximum(maximum):
    bench = karpenter(group(max=maximum), objects=[unschedulable(f"p{number}", 4000) for number in range(5)])
    assert bench.run(500).orders == [(1, "big", maximum)]


FREE = node("free", 2000)


@pytest.mark.parametrize(
    "there, nodes",
    [
        pytest.param([FREE], 0, id="there is room on a node: the scheduler will use it"),
        pytest.param([FREE, bound(pod("x", 2000), "free")], 1, id="a bound pod takes it"),
        pytest.param([FREE, bound(pod("x", 2000), "free", phase=Phase.SUCCEEDED)], 0, id="not once it has ended"),
        pytest.param([FREE, pod("x", 2000, nominated="free")], 0, id="a nominated pod takes nothing yet"),
        pytest.param([replace(FREE, unschedulable=True)], 1, id="a cordoned node takes no pod"),
    ],
)
def test_nodes_there_are_used_first(there, nodes):
    assert len(karpenter(objects=[*there, unschedulable("a", 2000)]).run(60).orders) == nodes


def test_upcoming_nodes_take_pods_until_they_register():
    bench = karpenter(group(delay=100), objects=[unschedulable("a")]).run(20)
    bench.see(unschedulable("b", 3000), unschedulable("c"))
    assert [count for _, _, count in bench.run(99).orders] == [1, 1], "b fits beside a, c does not"


def test_a_claim_that_does_not_register_in_time_is_given_up_and_launched_again():
    bench = karpenter(group(delay=901), objects=[unschedulable("a")]).run(1500)
    assert [at for at, _, _ in bench.orders] == [1, 911], "given up at 901; its pod's next turn is at 910"


@pytest.mark.parametrize(
    "ends, removed",
    [
        pytest.param(95.0, 115, id="found at the next look, removed fifteen seconds later"),
        pytest.param(90.0, 105, id="found at once when a look is due"),
    ],
)
def test_when_an_empty_node_is_removed(ends, removed):
    bench = karpenter(group(delay=30), objects=[unschedulable("a")]).run(35)
    bench.see(on("big-0", unschedulable("a")))
    bench.run(ends).lose(on("big-0", unschedulable("a")))
    assert bench.run(3000).removed == [(removed, "big-0")]
    assert bench.idle


def test_a_node_is_kept_while_pods_are_meant_for_it_and_twenty_seconds_longer():
    bench = karpenter(group(delay=30), objects=[unschedulable("a")]).run(200)
    assert bench.removed == [], "a could run there"
    bench.see(unschedulable("a", scheduled=GATED))
    assert bench.run(3000).removed == [(235, "big-0")], "kept until 220, found then, removed fifteen seconds later"


@pytest.mark.parametrize(
    "pods, minimum, removed",
    [
        pytest.param([], 0, ["big-0", "big-1"], id="all that are empty"),
        pytest.param([], 1, ["big-0"], id="down to the minimum of the group"),
        pytest.param([on("big-0", unschedulable("x"))], 0, ["big-1"], id="none with a pod"),
        pytest.param(
            [replace(on("big-0", unschedulable("x")), of_daemon_set=True)],
            0,
            ["big-0", "big-1"],
            id="a DaemonSet's pod keeps no node",
        ),
    ],
)
def test_which_nodes_are_removed(pods, minimum, removed):
    there = [node(f"big-{number}", labels={"headgate.dev/node-group": "big"}) for number in range(2)]
    bench = karpenter(group(min=minimum))
    bench.nodes = {each.name: each for each in there}
    bench.see(*there, *pods)
    assert [name for _, name in bench.run(3000).removed] == removed


def test_a_refused_node_is_launched_again():
    bench = karpenter(group(delay=30), objects=[unschedulable("a")], refusing=True).run(35)
    bench.refusing = False
    assert len(bench.run(100).nodes) == 1


def test_pods_that_nobody_can_help_are_not_looked_at_for_ever():
    assert karpenter(objects=[unschedulable("a", 99_000)]).run(60).idle
