"""Who is held and for whom, given nodes, leaving pods and the workloads that want to start."""

import pytest
from builders import bound, node, pod, shape

from headgate.engine.integrations.debt import QuotaTrees
from headgate.engine.integrations.hold_plan import HoldCandidate, HoldPlan, TerminatingPod
from headgate.engine.integrations.node_capacity import NodeCapacity
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import CLUSTER_QUEUE_NAME, FLAVORS
from headgate.model.queues import ClusterQueue, Cohort

NOW = 100.0
CPU = frozenset({("default", "cpu")})


def leaves(name, cpu=1, on="n", due=130.0, queue="a", flavor="default"):
    labels, annotations = {CLUSTER_QUEUE_NAME: queue}, {FLAVORS: f"cpu={flavor}"}
    return bound(pod(name, cpu, labels=labels, annotations=annotations), on, deleted=due)


def wants(name, *cpus, priority=0, since=NOW, queue="a", until=NOW + 120, **fields):
    key = Key(Kind.KUEUE_WORKLOAD, "default", name)
    wanted = {shape(cpu): cpus.count(cpu) for cpu in cpus}
    return HoldCandidate(key, (-priority, since, 0.0, key), wanted, queue, CPU, since, until, **fields)


def held(nodes, leaving, *claimants, trees=None):
    """Who is held for which pods, and until when."""
    there = NodeCapacity()
    for each in nodes:
        there.put_node(each)
    for each in leaving:
        there.put_pod(each)
    holds = HoldPlan(there, trees or QuotaTrees()).holds([TerminatingPod(each) for each in leaving], claimants, NOW)
    return {key.name: ([each.key.name for each in hold.pods], hold.until) for key, hold in holds.items()}


N1, N2 = node("n", 1), node("n", 2)


@pytest.mark.parametrize(
    "nodes, leaving, claimants, expected",
    [
        pytest.param([N1], [leaves("p")], [wants("w", 1)], {"w": (["p"], 130.0)}, id="the pod that leaves is its room"),
        pytest.param([N2], [leaves("p")], [wants("w", 1)], {}, id="it fits beside the pod that leaves"),
        pytest.param([N1], [leaves("p")], [wants("w", 2)], {}, id="it would not fit even then"),
        pytest.param([N1], [leaves("p", due=99.0)], [wants("w", 1)], {}, id="the pod is past its grace"),
        pytest.param([N1], [leaves("p")], [wants("w", 1, until=NOW)], {}, id="its hold is over"),
        pytest.param([N1], [leaves("p", due=500.0)], [wants("w", 1)], {"w": (["p"], 220.0)}, id="at most for maxHold"),
        pytest.param([N1], [leaves("p", queue="b")], [wants("w", 1)], {}, id="a pod of a queue that shares nothing"),
        pytest.param([N1], [leaves("p", flavor="spot")], [wants("w", 1)], {}, id="a pod with quota of another flavor"),
        pytest.param([], [leaves("p")], [wants("w", 1)], {}, id="its node is not there"),
        pytest.param(
            [node("n", 1, unschedulable=True)], [leaves("p")], [wants("w", 1)], {}, id="its node takes no new pods"
        ),
        pytest.param(
            [N1],
            [leaves("p")],
            [wants("plain", 1), wants("urgent", 1, priority=5)],
            {"urgent": (["p"], 130.0)},
            id="the more important first, and nobody twice",
        ),
        pytest.param(
            [N1], [leaves("p")], [wants("b", 1), wants("a", 1, since=99.0)], {"a": (["p"], 130.0)}, id="then the older"
        ),
        pytest.param([N1], [leaves("p")], [wants("b", 1), wants("a", 1)], {"a": (["p"], 130.0)}, id="then by name"),
        pytest.param(
            [N2],
            [leaves("p", due=130.0), leaves("q", due=110.0)],
            [wants("w", 1)],
            {"w": (["q"], 110.0)},
            id="those that are due first, and no more than it needs",
        ),
        pytest.param(
            [N2],
            [leaves("p"), leaves("q", due=110.0)],
            [wants("w", 2)],
            {"w": (["q", "p"], 130.0)},
            id="as many as it needs",
        ),
        pytest.param(
            [node("n", 1), node("m", 2)],
            [leaves("p"), leaves("q", 2, on="m", due=140.0)],
            [wants("w", 2, 1)],
            {"w": (["p", "q"], 140.0)},
            id="pods of two shapes on two nodes",
        ),
        pytest.param(
            [N2],
            [leaves("p", 2)],
            [wants("v", 1), wants("w", 1, since=101.0)],
            {"v": (["p"], 130.0)},
            id="what is left over of a promised pod is nobody's",
        ),
        pytest.param(
            [N2],
            [leaves("p")],
            [wants("large", 2, priority=5), wants("small", 1)],
            {},
            id="who fits now starts, though that leaves too little for the more important",
        ),
        pytest.param(
            [N1],
            [leaves("p")],
            [wants("older", 1, since=90.0, started=True), wants("w", 1)],
            {},
            id="a pod that was started before and has no node will take the room",
        ),
        pytest.param(
            [N1],
            [leaves("p")],
            [wants("younger", 1, since=101.0, started=True), wants("w", 1)],
            {"w": (["p"], 130.0)},
            id="one that started later takes no promise",
        ),
        pytest.param(
            [N2],
            [leaves("late", due=99.0), leaves("p")],
            [wants("first", 1, since=90.0), wants("second", 1, since=91.0)],
            {"second": (["p"], 130.0)},
            id="who was promised a pod whose grace is over starts, and the next keeps its own",
        ),
        pytest.param(
            [N2],
            [leaves("stuck", due=99.0), leaves("p")],
            [wants("w", 1)],
            {"w": (["p"], 130.0)},
            id="a pod past its grace keeps nobody from a pod in time",
        ),
    ],
)
def test_who_is_held(nodes, leaving, claimants, expected):
    assert held(nodes, leaving, *claimants) == expected


def tree(**cohorts):
    """Queues a and b, and the cohorts above them."""
    made = QuotaTrees()
    for name in "ab":
        made.put(ClusterQueue(Key(Kind.CLUSTER_QUEUE, "", name), name, "1", cohort=cohorts.pop(name, "")))
    for name, parent in cohorts.items():
        made.put(Cohort(Key(Kind.COHORT, "", name), name, "1", parent=parent))
    return made


@pytest.mark.parametrize(
    "trees, is_held",
    [
        pytest.param(tree(), False, id="none"),
        pytest.param(tree(a="c", b="c"), True, id="one"),
        pytest.param(tree(a="c", b="d"), False, id="one each"),
        pytest.param(tree(a="c", b="d", c="top", d="top"), True, id="one each, under a third"),
        pytest.param(tree(a="c", b="c", c="d", d="c"), False, id="a ring, in which nothing is shared"),
    ],
)
def test_queues_share_quota_by_their_cohorts(trees, is_held):
    assert bool(held([N1], [leaves("p", queue="b")], wants("w", 1), trees=trees)) is is_held
