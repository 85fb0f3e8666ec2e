"""Which scale-ups are false and which are missed, told from orders, pods, nodes and Kueue Workloads alone."""

from __future__ import annotations

import math

import pytest
from autoscaling_bench import GATED, group, on, unschedulable
from builders import bound, member, node, pod
from msgspec.structs import replace

from headgate.model.conditions import Condition
from headgate.model.events import Gone, Observed, TimerFired
from headgate.model.keys import Key, Kind, Target
from headgate.model.pod import Phase
from headgate.model.queues import QueuedWorkload, QueuedWorkloadStatus
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
        pytest.param([on("elsewhere", WAITING)], 200, {"unused": 1}, id="its pod runs elsewhere"),
        pytest.param(
            [replace(on("big-0", WAITING), phase=Phase.SUCCEEDED)], 200, {"unused": 1}, id="a pod that ended before"
        ),
    ],
)
def test_false_because_nobody_used_it(uses, ends, reasons):
    cluster = Cluster(WAITING)
    instance = cluster.order(WAITING)
    cluster.at(100).register(instance)
    cluster.see(*uses)
    assert cluster.at(ends).false == reasons


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
