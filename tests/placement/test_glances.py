"""In a large cluster a pod of a new shape is given the best of enough nodes, not of all."""

from builders import node, pod, shape
from steps import Steps

from headgate.engine.scheduler.plugins import plugins_for
from headgate.model.settings import Profile, Settings
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import Placer
from headgate.placement.table import NodeTable


def placer(count, percentage=None, **sizes):
    table = NodeTable()
    for index in range(count):
        table.put(node(f"n{index}", cpu=sizes.get(f"n{index}", 1000)))
    return Placer(plugins_for(Profile(percentage_of_nodes_to_score=percentage), Neighbours(table)).rules)


def test_a_small_cluster_is_looked_at_whole():
    assert placer(99, n98=9000).place(pod()).node == "n98"


def test_a_hundred_percent_means_all():
    assert placer(1000, percentage=100, n999=9000).place(pod()).node == "n999"


def test_in_a_large_cluster_enough_nodes_are():
    assert placer(1000, n999=9000).place(pod()).node != "n999"


def test_a_node_is_found_however_few_will_do():
    assert placer(1000, n777=9000).place(pod(cpu=5000)).node == "n777"


def test_a_shape_that_returns_is_ranked_on_all_nodes():
    placing = placer(1000, n999=9000)
    placing.place(pod("first"))
    assert placing.place(pod("second")).node == "n999"


def test_many_different_pods_are_all_placed_in_their_order():
    pods = [pod(f"p{i}", shape=shape(10 + i, 10 + i), created=float(i)) for i in range(100)]
    steps = Steps(*(node(f"n{i}") for i in range(400)), *pods)
    assert list(steps.binds) == [f"p{i}" for i in range(100)]


def test_a_pod_that_fits_only_elsewhere_keeps_its_turn():
    """The third of the bundle needs the one large node; the fourth must not overtake it there."""
    nodes = [node(f"n{i}", cpu=100) for i in range(400)]
    pods = [pod(f"p{i}", shape=shape(10 + i, 10 + i), created=float(i)) for i in range(6)]
    pods[2] = pod("p2", shape=shape(800, 12), created=2.0)
    pods[3] = pod("p3", shape=shape(900, 13), created=3.0)
    steps = Steps(*nodes, node("large"), *pods, settings=Settings())
    assert steps.binds["p2"] == "large"
    assert "p3" not in steps.binds
    assert [name for name in steps.binds if name != "p3"] == ["p0", "p1", "p2", "p4", "p5"]
