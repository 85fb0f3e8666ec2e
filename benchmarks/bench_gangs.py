"""How long gangs take to be placed and charged, as a ratio to placing the same pods one by one in the same run.

python benchmarks/bench_gangs.py --nodes 5000 --gangs 9 --members 1000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

from msgspec import structs

from headgate.engine.scheduler.plugins import plugins_for
from headgate.model.keys import Key, Kind
from headgate.model.node import Node, PeerDemands, PodTerm, Spread
from headgate.model.pod import Pod, PodShape
from headgate.model.resources import Resources
from headgate.model.selectors import Operator, Requirement
from headgate.model.settings import Profile
from headgate.placement.groups import GroupPlacement, place_group
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import Placement, Placer
from headgate.placement.table import NodeTable

MIB, GIB = 1 << 20, 1 << 30
HOSTNAME, RACK = "kubernetes.io/hostname", "rack"
NODES_IN_RACK, PODS_ON_NODE = 100, 40
OURS = (Requirement("app", Operator.IN, ("bench",)),)
SPREAD = PeerDemands(hard_spread=(Spread(1, RACK, OURS),))
APART = PeerDemands(anti_affinity=(PodTerm(HOSTNAME, OURS, ("default",)),))
GROWTH_NODES, GROWTH_MEMBERS = (100, 1000, 5000), (10, 100, 1000)

Decide = Callable[["Cluster", Sequence[Pod]], list[tuple[Pod, Placement]]]


class Cluster:
    def __init__(self, count: int) -> None:
        self.table = NodeTable()
        room = Resources.of({"cpu": 4000, "memory": 32 * GIB, "pods": 110})
        for i in range(count):
            labels = {HOSTNAME: f"n-{i}", RACK: f"rack-{i // NODES_IN_RACK}"}
            self.table.put(Node(Key(Kind.NODE, "", f"n-{i}"), f"u{i}", "1", labels, {}, room))
        self.placer = Placer(plugins_for(Profile(), Neighbours(self.table)).rules)


def gangs(count: int, members: int, peers: PeerDemands | None = None, shapes: int = 1) -> list[list[Pod]]:
    made = [_shape(100 + i, 500 + i, peers) for i in range(shapes)]
    return [[_pod(gang * members + i, made[i % shapes]) for i in range(members)] for gang in range(count)]


def _shape(cpu: int, memory: int, peers: PeerDemands | None) -> PodShape:
    asked = Resources.of({"cpu": cpu, "memory": memory * MIB})
    return PodShape(requests=asked, scored_requests=asked, peers=peers)


def _pod(number: int, shape: PodShape) -> Pod:
    key = Key(Kind.POD, "default", f"p-{number}")
    return Pod(key, f"p{number}", "1", {"app": "bench"}, {}, shape, float(number), "headgate")


def as_gang(cluster: Cluster, pods: Sequence[Pod], topology: str = "") -> list[tuple[Pod, Placement]]:
    """Placements for all, and the room taken."""
    found = place_group(cluster.placer, cluster.table, pods, len(pods), topology)
    assert isinstance(found, GroupPlacement), f"there is room for all: {found}"
    for pod, placement in found.placements:
        cluster.table.charge(pod, placement.node)
    return list(found.placements)


def in_one_rack(cluster: Cluster, pods: Sequence[Pod]) -> list[tuple[Pod, Placement]]:
    return as_gang(cluster, pods, RACK)


def one_by_one(cluster: Cluster, pods: Sequence[Pod]) -> list[tuple[Pod, Placement]]:
    placements = []
    for pod in pods:
        found = cluster.placer.place(pod)
        assert isinstance(found, Placement), f"there is room for all: {found}"
        cluster.table.charge(pod, found.node)
        placements.append((pod, found))
    return placements


def seconds(decide: Decide, nodes: int, all_pods: list[list[Pod]]) -> float:
    """From the first question a cluster was ever asked to the last pod that has its room."""
    cluster = Cluster(nodes)
    start = time.process_time()
    for pods in all_pods:
        decide(cluster, pods)
    return time.process_time() - start


def placed_again(nodes: int, pods: list[Pod]) -> float:
    """For a gang that waited, each pod for the node nominated to it, until all of them were free."""
    cluster = Cluster(nodes)
    placements = as_gang(cluster, pods)
    waiting = [structs.replace(pod, nominated=placement.node) for pod, placement in placements]
    for pod in waiting:
        cluster.table.release(pod.key)
        cluster.placer.nominations.put(pod)
    start = time.process_time()
    as_gang(cluster, waiting)
    return time.process_time() - start


def refused(nodes: int, pods: list[Pod]) -> float:
    """For a gang that lacks one placement."""
    cluster = Cluster(nodes)
    as_gang(cluster, pods[1:])
    for pod in pods[1:]:
        cluster.table.release(pod.key)
    start = time.process_time()
    found = place_group(cluster.placer, cluster.table, pods, len(pods))
    assert not isinstance(found, GroupPlacement), "one placement is missing"
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--gangs", type=int, default=9)
    parser.add_argument("--members", type=int, default=1000)
    options = parser.parse_args()
    print(f"{options.gangs} gangs of {options.members} pods on {options.nodes} nodes, one gang after the other")
    whole(options.nodes, options.gangs, options.members)
    print("\none gang in a cluster never asked before: ms as a gang, and how many times as long one by one")
    growth()


def whole(nodes: int, count: int, members: int) -> None:
    equal = gangs(count, members)
    compare("equal pods", nodes, equal)
    compare("equal pods, each in one rack", nodes, equal, in_one_rack)
    compare("100 shapes in turn", nodes, gangs(count, members, shapes=100))
    print("the first of them alone")
    compare("equal pods", nodes, equal[:1])
    report("back to its nominated nodes", placed_again(nodes, equal[0]), seconds(one_by_one, nodes, equal[:1]))
    compare("spread over racks", nodes, gangs(1, members, SPREAD))
    compare("apart from each other", nodes, gangs(1, min(members, nodes), APART))
    full = max(1, members // PODS_ON_NODE)
    some = gangs(1, full * PODS_ON_NODE + 1)
    report("refused for one placement", refused(full, some[0]), seconds(one_by_one, full, [some[0][1:]]))


def compare(title: str, nodes: int, pods: list[list[Pod]], decide: Decide = as_gang) -> None:
    report(title, seconds(decide, nodes, pods), seconds(one_by_one, nodes, pods))


def growth() -> None:
    print(f"{'members':>28}: " + "".join(f"{f'{nodes} nodes':>22}" for nodes in GROWTH_NODES))
    for members in GROWTH_MEMBERS:
        print(f"{members:>28}: " + "".join(f"{_cell(nodes, members):>22}" for nodes in GROWTH_NODES))


def _cell(nodes: int, members: int) -> str:
    pods = gangs(1, members)
    spent, plain = seconds(as_gang, nodes, pods), seconds(one_by_one, nodes, pods)
    return f"{spent * 1000:.1f} ms, {plain / spent:.1f}x"


def report(title: str, spent: float, plain: float) -> None:
    print(f"{title:>28}: {spent * 1000:>9,.1f} ms, {plain / spent:>7.1f} times as fast as one by one")


if __name__ == "__main__":
    main()
