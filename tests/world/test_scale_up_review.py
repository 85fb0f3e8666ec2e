"""Which scale-ups are false and which are missed, told from orders, pods, nodes, Kueue Workloads and Volcano queues."""

from __future__ import annotations

import math

import pytest
from autoscaling_bench import GATED, UNSCHEDULABLE, group, on, unschedulable
from builders import bound, member, node, pod
from msgspec.structs import replace
from volcano_scenes import queue, queued

from headgate.model.events import Gone, Observed, TimerFired
from headgate.model.keys import Condition, Key, Kind, Target
from headgate.model.pod import Phase
from headgate.model.queues import QueuedWorkload, QueuedWorkloadStatus
from headgate.model.volcano import QUEUE_GATE
from headgate.world.autoscaling import CloudProvider, ScaleUpReview

GROUP = group(delay=100)
JOB = Target(Key(Kind.JOB, "default", "work"), "job-uid")


class Ordering:
    """An autoscaler that orders what it is told to, and reacts within a minute."""

    def __init__(self, *groups):
        self.cloud = CloudProvider(groups)
        self.patience = 60.0

    def reaction_time(self, _pod):
        return self.patience


class Cluster:
    """A review with its autoscaler, told of objects at their time."""

    def __init__(self, *objects, group=GROUP):
        self.autoscaler = Ordering(group)
        self.group = group
        self.review = ScaleUpReview(self.autoscaler)
        self.now = 0.0
        self.see(*objects)

    def see(self, *objects):
        self.review.react([Observed(each) for each in objects], self.now)

    def lose(self, *objects):
        self.review.react([Gone(each.key, each.uid) for each in objects], self.now)

    def at(self, now):
        """Looks every ten seconds until then."""
        while self.now < now:
            self.now = min(now, self.now + 10)
            self.review.react([TimerFired("look")], self.now)
        return self

    def order(self, *pods):
        return self.autoscaler.cloud.order(self.group, [pods], self.now).instances[0]

    def register(self, instance):
        made = replace(node(instance.name, 4000, 8192), uid=f"uid-{instance.name}")
        self.autoscaler.cloud.observe(made, self.now)
        self.see(made)
        return made

    def remove(self, made):
        self.autoscaler.cloud.lose(made.name, made.uid, self.now)
        self.lose(made)

    @property
    def counts(self):
        return self.review.counts(self.now)

    @property
    def false(self):
        return {reason: count for reason, count in self.counts.false_reasons if count}


def kueue_workload(*, admitted, **fields):
    condition = Condition("Admitted", "True" if admitted else "False", "x", "", 0.0)
    key = Key(Kind.KUEUE_WORKLOAD, "default", "w")
    status = QueuedWorkloadStatus(conditions=(condition,))
    return QueuedWorkload(key, "workload-uid", "1", 0.0, (), status=status, **{"owner": JOB, **fields})


WAITING = unschedulable("a", 4000, owner=JOB)
OTHER = unschedulable("b", 100)


def let_go(name, cpu=4000, **fields):
    """A pod of the Volcano queue team without its gate, and called unschedulable."""
    return queued(name, cpu, **{"gates": (), "scheduled": UNSCHEDULABLE, **fields})


@pytest.mark.parametrize(
    "objects, pods, reasons",
    [
        pytest.param([WAITING], [WAITING], {}, id="no queue manages the pod"),
        pytest.param([WAITING, kueue_workload(admitted=True)], [WAITING], {}, id="its Workload is admitted"),
        pytest.param([WAITING, kueue_workload(admitted=False)], [WAITING], {"quota": 1}, id="it is not"),
        pytest.param(
            [WAITING, kueue_workload(admitted=False, owner=None, owners=(WAITING.target,))],
            [WAITING],
            {"quota": 1},
            id="nor is that of its group, which the pods own",
        ),
        pytest.param(
            [unschedulable("a", gates=("example.com/g",))],
            [unschedulable("a", gates=("example.com/g",))],
            {"quota": 1},
            id="it has a scheduling gate, whatever its condition says",
        ),
        pytest.param(
            [WAITING, kueue_workload(admitted=False)],
            [unschedulable("b"), WAITING],
            {"quota": 1},
            id="one of its pods is enough",
        ),
        pytest.param(
            [WAITING, node("n", 4000), bound(pod("v", 4000), "n", deleted=30.0, preempted=True)],
            [WAITING],
            {"victims": 1},
            id="it would fit where preempted pods are leaving",
        ),
        pytest.param(
            [WAITING, node("n", 4000), bound(pod("v", 4000), "n", deleted=30.0)],
            [WAITING],
            {},
            id="a pod that leaves for another reason is no victim",
        ),
        pytest.param(
            [WAITING, node("n", 4000), bound(pod("v", 4000), "n", preempted=True)],
            [WAITING],
            {},
            id="nor is one that was only marked",
        ),
        pytest.param(
            [WAITING, node("n", 3000), bound(pod("v", 3000), "n", deleted=30.0, preempted=True)],
            [WAITING],
            {},
            id="victims that leave too little do not count",
        ),
        pytest.param([queue("team", 4000), let_go("a")], [let_go("a")], {}, id="its Volcano queue has capacity for it"),
        pytest.param(
            [queue("team", 4000), node("n", 4000), bound(let_go("old", scheduled=None), "n"), let_go("a")],
            [let_go("a")],
            {"quota": 1},
            id="its Volcano queue is full, and it did not ask for a gate",
        ),
        pytest.param(
            [queue("team", 4000), let_go("a"), let_go("b", created=1.0)],
            [let_go("b", created=1.0)],
            {"quota": 1},
            id="its Volcano queue has capacity for one, and another comes first",
        ),
    ],
)
def test_false_when_it_was_ordered(objects, pods, reasons):
    cluster = Cluster(*objects)
    cluster.order(*pods)
    assert cluster.false == reasons


def test_what_is_true_when_it_is_ordered_counts():
    cluster = Cluster(WAITING, kueue_workload(admitted=True))
    cluster.order(WAITING)
    cluster.at(5).see(kueue_workload(admitted=False))
    cluster.order(WAITING)
    cluster.at(9).see(kueue_workload(admitted=True))
    assert cluster.false == {"quota": 1}


@pytest.mark.parametrize(
    "uses, ends, reasons",
    [
        pytest.param([], 200, {"unused": 1}, id="nobody ever ran there"),
        pytest.param([], 159, {}, id="it has been there for less than a minute"),
        pytest.param([on("big-0", WAITING)], 200, {}, id="its pod runs there"),
        pytest.param([on("big-0", unschedulable("other"))], 200, {}, id="another pod runs there"),
        pytest.param([on("elsewhere", WAITING)], 200, {}, id="its pod runs elsewhere"),
        pytest.param([replace(on("big-0", WAITING), phase=Phase.SUCCEEDED)], 200, {}, id="its pod has ended"),
        pytest.param([on("elsewhere", OTHER)], 200, {"unused": 1}, id="one of its pods runs elsewhere, one waits"),
    ],
)
def test_false_because_nobody_used_it_and_a_pod_still_waited(uses, ends, reasons):
    pods = [WAITING, OTHER] if OTHER.key in [each.key for each in uses] else [WAITING]
    cluster = Cluster(*pods)
    instance = cluster.order(*pods)
    cluster.at(100).register(instance)
    cluster.see(*uses)
    assert cluster.at(ends).false == reasons


@pytest.mark.parametrize(
    "leaves, reasons",
    [
        pytest.param(90, {}, id="before the node came"),
        pytest.param(130, {}, id="within a minute"),
        pytest.param(170, {"unused": 1}, id="after more than a minute"),
    ],
)
def test_a_node_that_nobody_used_is_counted_and_is_not_false_if_its_pod_found_another_place_in_time(leaves, reasons):
    cluster = Cluster(WAITING)
    instance = cluster.order(WAITING)
    for at, happens in sorted(
        [(100, lambda: cluster.register(instance)), (leaves, lambda: cluster.see(on("elsewhere", WAITING)))],
        key=lambda each: each[0],
    ):
        cluster.at(at)
        happens()
    assert cluster.at(400).false == reasons
    assert cluster.counts.nodes_unused == 1


@pytest.mark.parametrize(
    "objects, reasons",
    [
        pytest.param([on("elsewhere", member("a"))], {}, id="which starts at last"),
        pytest.param([], {"unused": 1}, id="which never starts"),
    ],
)
def test_a_node_may_be_left_by_a_gang_that_waits_for_its_other_nodes(objects, reasons):
    cluster = Cluster(member("a"))
    made = cluster.at(100).register(cluster.order(member("a")))
    cluster.at(170).remove(made)
    cluster.at(300).see(*objects)
    assert cluster.at(400).false == reasons


def test_a_node_removed_unused_stays_false_and_one_that_never_came_is_not():
    cluster = Cluster(WAITING)
    first, late = cluster.order(WAITING), cluster.order(WAITING)
    made = cluster.at(100).register(first)
    cluster.at(115).remove(made)
    cluster.autoscaler.cloud.remove(late, cluster.now)
    assert cluster.at(500).false == {"unused": 1}
    assert cluster.counts.nodes_removed == 2


def test_how_long_nodes_were_there_and_empty():
    cluster = Cluster(WAITING)
    instance = cluster.order(WAITING)
    made = cluster.at(100).register(instance)
    cluster.at(110).see(on("big-0", WAITING))
    cluster.at(150).lose(on("big-0", WAITING))
    cluster.at(180).remove(made)
    found = cluster.at(400).counts
    assert (found.node_seconds, found.empty_node_seconds) == (80, 40)


@pytest.mark.parametrize(
    "objects, missed",
    [
        pytest.param([WAITING], 1, id="no node has capacity and nobody ordered one"),
        pytest.param([pod("a", 4000)], 1, id="whatever its condition says"),
        pytest.param([pod("a", 4000, scheduled=GATED)], 1, id="even if it is called gated without a gate"),
        pytest.param([WAITING, kueue_workload(admitted=True)], 1, id="quota allows it"),
        pytest.param([WAITING, kueue_workload(admitted=False)], 0, id="quota does not allow it"),
        pytest.param([unschedulable("a", 4000, gates=("x.com/g",))], 0, id="it is gated"),
        pytest.param([queued("a", 4000, scheduled=GATED)], 0, id="its Volcano queue does not exist"),
        pytest.param([queued("a", 4000, "default", scheduled=GATED)], 1, id="its Volcano queue has no limit"),
        pytest.param([queue("team", 4000), queued("a", 4000, scheduled=GATED)], 1, id="its queue has capacity for it"),
        pytest.param([queue("team", 3000), queued("a", 4000, scheduled=GATED)], 0, id="its queue has too little"),
        pytest.param(
            [queue("team", 4000), *(queued(name, 4000) for name in "abc")],
            1,
            id="its queue has capacity for one of them",
        ),
        pytest.param(
            [queue("team", 4000), queued("a", 4000, gates=("example.com/g", QUEUE_GATE))],
            0,
            id="it has another gate too",
        ),
        pytest.param(
            [queue("team", 4000), replace(let_go("a", scheduled=GATED), reserved_at=1.0)],
            0,
            id="it has given back what it had reserved, since no node came in time",
        ),
        pytest.param([unschedulable("a", 4000, nominated="n")], 0, id="it waits for its victims"),
        pytest.param([unschedulable("a", 4000, deleted=9.0)], 0, id="it is being deleted"),
        pytest.param([member("a", cpu=4000, scheduled=GATED)], 0, id="its gang is not complete"),
        pytest.param([WAITING, node("n", 4000)], 0, id="a node has capacity for it"),
        pytest.param([WAITING, unschedulable("b", 4000), node("n", 4000)], 1, id="but not for two of its kind"),
        pytest.param([unschedulable("a", 5000)], 0, id="no group could take it"),
    ],
)
def test_missed(objects, missed):
    cluster = Cluster(*objects)
    assert cluster.at(70).counts.missed_scale_ups == 0, "there is a minute to react, from the first look"
    assert cluster.at(80).counts.missed_scale_ups == missed
    assert cluster.at(500).counts.missed_scale_ups == missed, "each pod once"


def test_not_missed_once_a_node_is_ordered_for_it():
    cluster = Cluster(WAITING)
    cluster.at(50).order(WAITING)
    assert cluster.at(500).counts.missed_scale_ups == 0


def test_not_missed_while_an_upcoming_node_would_take_it():
    other = unschedulable("other", 1000)
    cluster = Cluster(unschedulable("a", 3000), other)
    cluster.at(50).order(other)
    assert cluster.at(500).counts.missed_scale_ups == 0


def test_not_missed_where_no_group_may_grow_or_the_autoscaler_never_orders():
    full = Cluster(WAITING, group=group(max=0))
    assert full.at(500).counts.missed_scale_ups == 0
    ignoring = Cluster()
    ignoring.autoscaler.patience = math.inf
    ignoring.see(WAITING)
    assert ignoring.at(500).counts.missed_scale_ups == 0


def test_a_need_that_passes_is_not_missed():
    cluster = Cluster(WAITING)
    cluster.at(40).see(on("n", WAITING))
    cluster.at(60).see(WAITING)
    assert cluster.at(110).counts.missed_scale_ups == 0
    assert cluster.at(140).counts.missed_scale_ups == 1


def test_the_review_comes_to_rest():
    cluster = Cluster(WAITING)
    cluster.at(200)
    assert cluster.review.react([TimerFired("look")], 210.0) == []
