"""The Cluster Autoscaler: which pods it counts, when it looks, what it orders and what it removes."""

from __future__ import annotations

import pytest
from autoscaling_bench import GATED, UNSCHEDULABLE, Bench, group, on, unschedulable
from builders import bound, node, pod, shape, tolerating
from msgspec.structs import replace

from headgate.model.node import NodeTerm, PeerDemands, PodTerm, Taint, TaintEffect
from headgate.model.pod import Phase, PodShape, ScheduledCondition
from headgate.model.resources import Resources
from headgate.model.selectors import Operator, Requirement
from headgate.world.autoscaling import ClusterAutoscaler

DELAY = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
GPU = PodShape(requests=Resources.of({"nvidia.com/gpu": 1}))
DEDICATED = Taint("dedicated", "batch", TaintEffect.NO_SCHEDULE)


def autoscaler(*groups, objects=(), **fields):
    return Bench(ClusterAutoscaler(groups or (group(),)), *objects, **fields)


@pytest.mark.parametrize(
    "fields, counts",
    [
        pytest.param({}, True, id="PodScheduled is False with the reason Unschedulable"),
        pytest.param({"scheduled": None}, False, id="without a condition nobody has tried it"),
        pytest.param({"scheduled": GATED}, False, id="SchedulingGated is another reason"),
        pytest.param(
            {"scheduled": ScheduledCondition("False", "SchedulerError", "")},
            False,
            id="SchedulerError is another reason",
        ),
        pytest.param(
            {"scheduled": ScheduledCondition("False", "Schedulable", "")}, False, id="so is Volcano's Schedulable"
        ),
        pytest.param(
            {"scheduled": ScheduledCondition("Unknown", "Unschedulable", "")}, False, id="the status must be False"
        ),
        pytest.param({"nominated": "elsewhere"}, False, id="a nominated pod waits for its node, even one not there"),
        pytest.param({"deleted": 30.0}, False, id="a pod being deleted needs no node"),
        pytest.param({"node": "big-7"}, False, id="a bound pod has one"),
        pytest.param({"phase": Phase.FAILED}, False, id="a pod that ended needs none"),
        pytest.param({"gates": ("example.com/x",)}, True, id="gates are not read: only the condition counts"),
        pytest.param({"priority": -11}, False, id="below the cutoff a pod is expendable"),
        pytest.param({"priority": -10}, True, id="at the cutoff it is not"),
        pytest.param({"scheduler_name": "other"}, True, id="whatever scheduler it has"),
        pytest.param({"of_daemon_set": True}, False, id="a DaemonSet's pod comes with nodes and brings none"),
        pytest.param({"annotations": {"kubernetes.io/config.mirror": "x"}}, False, id="nor does a mirror pod"),
    ],
)
def test_which_pods_cause_a_scale_up(fields, counts):
    found = autoscaler(objects=[unschedulable("a", **fields)]).run(300)
    assert found.orders == ([(10, "big", 1)] if counts else [])


@pytest.mark.parametrize(
    "created, seen, ordered",
    [
        pytest.param(0.0, 0.0, 10, id="at the next loop"),
        pytest.param(0.0, 10.0, 20, id="a pod that a loop just missed waits for the next"),
        pytest.param(9.0, 9.0, 20, id="created less than two seconds before the loop: one loop later"),
        pytest.param(8.0, 8.0, 10, id="created two seconds before it: at that loop"),
        pytest.param(0.0, 59.5, 60, id="a pod gated for a minute has no grace: its age counts from its creation"),
    ],
)
def test_when_it_orders(created, seen, ordered):
    bench = autoscaler().run(seen)
    bench.see(unschedulable("a", created=created))
    assert bench.run(300).orders == [(ordered, "big", 1)]


@pytest.mark.parametrize(
    "pods, ordered",
    [
        pytest.param([("a", {"annotations": {DELAY: "45s"}})], 50, id="its annotation asks for more delay"),
        pytest.param([("a", {"annotations": {DELAY: "50s"}})], 60, id="it must be older than that, not just as old"),
        pytest.param([("a", {"annotations": {DELAY: "-1h"}})], 10, id="a delay below the flag is ignored"),
        pytest.param([("a", {"annotations": {DELAY: "soon"}})], 10, id="so is one that is no duration"),
        pytest.param([("a", {"shape": GPU})], 30, id="GPU pods must be thirty seconds old"),
        pytest.param([("a", {"shape": GPU}), ("b", {})], 30, id="and all others wait with them"),
    ],
)
def test_how_old_pods_must_be(pods, ordered):
    big = group()
    with_gpu = replace(big.template, allocatable=big.template.allocatable + Resources.of({"nvidia.com/gpu": 4}))
    big = replace(big, template=with_gpu)
    bench = autoscaler(big, objects=[unschedulable(name, **fields) for name, fields in pods]).run(300)
    assert bench.orders[0][0] == ordered


@pytest.mark.parametrize(
    "cpus, nodes",
    [
        pytest.param([1000] * 4, 1, id="four quarters fill one node"),
        pytest.param([1000] * 5, 2, id="the fifth needs another"),
        pytest.param([1000, 3000, 1000, 3000], 2, id="large pods first, small ones fill what is left"),
        pytest.param([2500, 2500, 2500], 3, id="halves that are too large need a node each"),
        pytest.param([5000, 1000], 1, id="a pod that no node can take is left out, the others are not"),
        pytest.param([5000], 0, id="nothing is ordered for it alone"),
        pytest.param([0], 0, id="a pod without requests fits anywhere there is a node"),
    ],
)
def test_how_many_nodes_are_ordered(cpus, nodes):
    full = [node("full", 500), bound(pod("x", 500), "full")]
    pods = [unschedulable(f"p{number}", cpu) for number, cpu in enumerate(cpus)]
    assert sum(count for _, _, count in autoscaler(objects=[*full, *pods]).run(300).orders) == nodes


FREE = node("free", 2000)


@pytest.mark.parametrize(
    "there, nodes",
    [
        pytest.param([FREE], 0, id="there is room on a node: the scheduler will use it"),
        pytest.param([FREE, bound(pod("x", 2000), "free")], 1, id="a scheduled pod takes it"),
        pytest.param([FREE, bound(pod("x", 2000), "free", deleted=9.0)], 1, id="also while it is being deleted"),
        pytest.param([FREE, bound(pod("x", 2000), "free", phase=Phase.SUCCEEDED)], 0, id="not once it has ended"),
        pytest.param([FREE, pod("x", 2000, nominated="free")], 1, id="a nominated pod takes its node"),
        pytest.param([FREE, bound(pod("x", 2000, priority=-11), "free")], 0, id="an expendable pod takes nothing"),
        pytest.param([FREE, pod("x", 2000, scheduled=GATED)], 0, id="a gated pod takes nothing"),
        pytest.param([replace(FREE, unschedulable=True)], 1, id="a cordoned node takes no pod"),
        pytest.param([replace(FREE, ready=False)], 1, id="nor does one that is not ready"),
        pytest.param([replace(FREE, taints=(DEDICATED,))], 1, id="nor one with a taint"),
    ],
)
def test_nodes_there_are_used_first(there, nodes):
    assert len(autoscaler(objects=[*there, unschedulable("a", 2000)]).run(300).orders) == nodes


def test_the_most_important_pods_get_the_room_there_is_and_a_node_is_ordered_for_the_others():
    low, high = unschedulable("low", 2000), unschedulable("high", 2000, priority=5)
    bench = autoscaler(objects=[FREE, low, high]).run(300)
    assert [each.pods for each in bench.autoscaler.cloud.instances] == [(low,)]


@pytest.mark.parametrize(
    "fields, template, nodes",
    [
        pytest.param({}, {"taints": (DEDICATED,)}, 0, id="a taint that the pod does not tolerate"),
        pytest.param({"tolerations": tolerating("dedicated")}, {"taints": (DEDICATED,)}, 1, id="one that it tolerates"),
        pytest.param({"node_selector": (("pool", "gpu"),)}, {}, 0, id="a selector for a label it lacks"),
        pytest.param({"node_selector": (("pool", "gpu"),)}, {"labels": {"pool": "gpu"}}, 1, id="for one it has"),
        pytest.param(
            {"required_terms": (NodeTerm((Requirement("pool", Operator.IN, ("a", "b")),)),)},
            {"labels": {"pool": "c"}},
            0,
            id="affinity to other labels",
        ),
        pytest.param(
            {"required_terms": (NodeTerm(fields=(Requirement("metadata.name", Operator.IN, ("n-1",)),)),)},
            {},
            0,
            id="affinity to one node by name",
        ),
        pytest.param({}, {"cpu": 0, "memory": 0}, 0, id="a template of nothing"),
        pytest.param({}, {"max": 0}, 0, id="a group that may have no node"),
    ],
)
def test_which_templates_suit_a_pod(fields, template, nodes):
    bench = autoscaler(group(**template), objects=[unschedulable("a", shape=shape(1000, **fields))]).run(300)
    assert len(bench.orders) == nodes


def test_pods_that_keep_apart_get_a_node_each():
    apart = PeerDemands(anti_affinity=(PodTerm("kubernetes.io/hostname", (), ("default",)),))
    pods = [unschedulable(f"p{number}", shape=shape(100, peers=apart)) for number in range(3)]
    assert autoscaler(objects=pods).run(300).orders == [(10, "big", 3)]


@pytest.mark.parametrize(
    "groups, chosen",
    [
        pytest.param(
            [group("large", 8000), group("fitting", 3000)], "fitting", id="the one that leaves least cpu idle"
        ),
        pytest.param(
            [group("much", 3000, 65536), group("little", 3000, 4096)], "little", id="memory counts as much as cpu"
        ),
        pytest.param([group("one", 4000), group("two", 4000)], "one", id="of equal ones the first"),
        pytest.param(
            [group("fitting", 3000, max=0), group("large", 8000)], "large", id="not one that is at its maximum"
        ),
        pytest.param([group("small", 1000), group("large", 8000)], "large", id="not one that does not take the pod"),
        pytest.param([group("none", 3000, 0), group("large", 8000)], "none", id="what a template lacks is not wasted"),
    ],
)
def test_the_option_that_wastes_least_is_chosen(groups, chosen):
    pods = [unschedulable("a", shape=shape(3000, 0 if "none" in chosen else 2048))]
    assert autoscaler(*groups, objects=pods).run(300).orders[0][1] == chosen


def test_one_option_each_loop():
    small, large = group("small", 1000, labels={"pool": "a"}), group("large", 8000, labels={"pool": "b"})
    pods = [
        unschedulable("a", shape=shape(1000, node_selector=(("pool", "a"),))),
        unschedulable("b", shape=shape(8000, node_selector=(("pool", "b"),))),
    ]
    assert [at for at, _, _ in autoscaler(small, large, objects=pods).run(300).orders] == [10, 20]


def test_a_group_never_grows_beyond_its_maximum():
    bench = autoscaler(group(max=3), objects=[unschedulable(f"p{number}", 4000) for number in range(5)]).run(1000)
    assert bench.orders == [(10, "big", 3)]


def test_upcoming_nodes_take_the_pods_they_were_ordered_for_until_they_register():
    bench = autoscaler(group(delay=400), objects=[unschedulable("a")]).run(300)
    assert bench.orders == [(10, "big", 1)]
    bench.see(unschedulable("b", 3000), unschedulable("c", 1000))
    assert [count for _, _, count in bench.run(399).orders] == [1, 1], "b fits beside a, c does not"
    assert bench.nodes == {}
    assert set(bench.run(410).nodes) == {"big-0"}


@pytest.mark.parametrize("max_hosts", [1, 5])
def test_a_group_whose_nodes_do_not_register_in_time_backs_off_longer_each_time(max_hosts):
    bench = autoscaler(group(delay=901, max=max_hosts), objects=[unschedulable("a")]).run(8000)
    assert [at for at, _, _ in bench.orders] == [
        10,
        10 + 900 + 300,
        1210 + 900 + 600,
        2710 + 900 + 1200,
        4810 + 900 + 1800,
    ]
    assert bench.nodes == {}


def test_a_group_whose_nodes_are_refused_backs_off_and_another_takes_over():
    bench = autoscaler(group("first", 1000), group("second", 8000), objects=[unschedulable("a")], refusing=True).run(
        200
    )
    assert [name for _, name, _ in bench.orders] == ["first", "second"]


def test_a_node_that_registers_ends_the_backoff():
    bench = autoscaler(group(delay=60, max=1), objects=[unschedulable("a")], refusing=True).run(100)
    assert [at for at, _, _ in bench.orders] == [10]
    bench.refusing = False
    assert [at for at, _, _ in bench.run(500).orders] == [10, 370]
    bench.lose(*bench.nodes.values())
    bench.refusing = True
    assert [at for at, _, _ in bench.run(1500).orders][:4] == [10, 370, 510, 870], (
        "the next backoff is a first one again"
    )


@pytest.mark.parametrize(
    "events, removed",
    [
        pytest.param([], 700, id="ten minutes after a loop found it empty"),
        pytest.param([("b", 300, 310)], 920, id="a pod that ran meanwhile starts the time anew"),
    ],
)
def test_when_an_empty_node_is_removed(events, removed):
    bench = autoscaler(group(delay=30), objects=[unschedulable("a")]).run(45)
    bench.see(on("big-0", unschedulable("a")))
    bench.run(95)
    bench.lose(on("big-0", unschedulable("a")))
    for name, starts, ends in events:
        bench.run(starts).see(on("big-0", unschedulable(name)))
        bench.run(ends).lose(on("big-0", unschedulable(name)))
    assert bench.run(3000).removed == [(removed, "big-0")]
    assert bench.idle


def test_no_node_is_removed_within_ten_minutes_of_a_scale_up():
    other = group("other", labels={"pool": "other"})
    elsewhere = unschedulable("b", created=600.0, shape=shape(4000, node_selector=(("pool", "other"),)))
    bench = autoscaler(group(delay=30), other, objects=[unschedulable("a")]).run(45)
    bench.see(on("big-0", unschedulable("a")))
    bench.run(95).lose(on("big-0", unschedulable("a")))
    bench.run(605).see(elsewhere)
    bench.run(675).see(on("other-0", elsewhere))
    assert bench.run(3000).removed == [(1210, "big-0")], "it has been empty since 100"


@pytest.mark.parametrize(
    "pods, minimum, removed",
    [
        pytest.param([], 0, ["big-0", "big-1", "big-2"], id="all that are empty"),
        pytest.param([], 2, ["big-0"], id="down to the minimum of the group"),
        pytest.param([on("big-0", unschedulable("x"))], 0, ["big-1", "big-2"], id="none with a pod"),
        pytest.param(
            [replace(on("big-0", unschedulable("x")), of_daemon_set=True)],
            0,
            ["big-0", "big-1", "big-2"],
            id="a DaemonSet's pod keeps no node",
        ),
        pytest.param([pod("x", 100, nominated="big-0")], 0, ["big-1", "big-2"], id="none nominated to a pod"),
        pytest.param(
            [unschedulable("x", scheduled=GATED)], 0, ["big-0", "big-1", "big-2"], id="gated pods keep no node"
        ),
    ],
)
def test_which_nodes_are_removed(pods, minimum, removed):
    there = [node(f"big-{number}", labels={"headgate.dev/node-group": "big"}) for number in range(3)]
    bench = autoscaler(group(min=minimum))
    bench.nodes = {each.name: each for each in there}
    bench.see(*there, *pods)
    assert [name for _, name in bench.run(3000).removed] == removed


def test_a_node_that_an_unschedulable_pod_would_fit_on_is_kept():
    there = node("big-0", labels={"headgate.dev/node-group": "big"})
    bench = autoscaler(objects=[there, unschedulable("a", 500)])
    assert (bench.run(3000).removed, bench.orders) == ([], [])


def test_nodes_of_no_group_are_left_alone():
    assert autoscaler(objects=[node("mine")]).run(3000).removed == []


def test_names_of_nodes_there_are_not_used_again():
    bench = autoscaler(objects=[node("big-0", 100), unschedulable("a")]).run(300)
    assert set(bench.nodes) == {"big-1"}


def test_a_pod_seen_twice_is_ordered_for_once():
    bench = autoscaler(objects=[unschedulable("a"), unschedulable("a")])
    for second in range(5, 60, 5):
        bench.run(second).see(unschedulable("a"))
    assert bench.run(65).orders == [(10, "big", 1)]


def test_pods_that_nobody_can_help_are_not_looked_at_for_ever():
    bench = autoscaler(objects=[unschedulable("a", 99_000)]).run(60)
    assert bench.idle


def test_the_reason_must_be_exactly_so():
    lower = ScheduledCondition("False", UNSCHEDULABLE.reason.lower(), "")
    assert autoscaler(objects=[unschedulable("a", scheduled=lower)]).run(100).orders == []
