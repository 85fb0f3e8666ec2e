"""Pods decided per second in process, beside the goals there are and a plain Python scan of the same nodes.

python benchmarks/bench_placement.py --nodes 5000 --pods 20000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable

from headgate.engine.loop import Engine
from headgate.engine.scheduler.plugins import plugins_for
from headgate.model.effects import Bind
from headgate.model.events import Observed, Outcome
from headgate.model.keys import Key, Kind
from headgate.model.node import Node, PeerDemands, PodTerm, Spread
from headgate.model.pod import Pod, PodShape
from headgate.model.resources import Resources
from headgate.model.selectors import Operator, Requirement
from headgate.model.settings import Profile, Settings
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import Placer
from headgate.placement.table import NodeTable

GIB = 1 << 30
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
OURS = (Requirement("app", Operator.IN, ("bench",)),)
SPREAD = PeerDemands(hard_spread=(Spread(1, ZONE, OURS),))
APART = PeerDemands(anti_affinity=(PodTerm(HOSTNAME, OURS, ("default",)),))


def nodes(count: int) -> list[Node]:
    room = Resources.of({"cpu": 4000, "memory": 32 * GIB, "pods": 110})
    made = []
    for i in range(count):
        labels = {HOSTNAME: f"n-{i}", ZONE: f"zone-{i % 10}"}
        made.append(Node(Key(Kind.NODE, "", f"n-{i}"), f"u{i}", "1", labels, {}, room))
    return made


def pods(count: int, shapes: int, peers: PeerDemands | None = None) -> list[Pod]:
    asked = [Resources.of({"cpu": 50 + i % 97, "memory": (1 << 16) * (1 + i % 4099)}) for i in range(shapes)]
    made = [PodShape(requests=each, scored_requests=each, peers=peers) for each in asked]
    labels = {"app": "bench"}
    return [
        Pod(Key(Kind.POD, "default", f"p-{i}"), f"p{i}", "1", labels, {}, made[i % shapes], float(i), "headgate")
        for i in range(count)
    ]


def decide_all(node_list: list[Node], pod_list: list[Pod]) -> float:
    """Seconds until every pod has a node; answers come back at once."""
    engine = Engine(Settings())
    engine.step([Observed(node) for node in node_list], 0.0)
    start = time.process_time()
    effects = engine.step([Observed(pod) for pod in pod_list], 1.0)
    bound = 0
    while binds := [effect for effect in effects if isinstance(effect, Bind)]:
        bound += len(binds)
        effects = engine.step([Outcome(bind) for bind in binds], 1.0)
        engine.journal.take()
    assert bound == len(pod_list), f"{bound} of {len(pod_list)} placed"
    return time.process_time() - start


def placement_alone(node_list: list[Node], pod_list: list[Pod], alike: bool) -> float:
    """Seconds until placement alone has a node for each: equal pods a thousand at a time, others in bundles."""
    table = NodeTable()
    for node in node_list:
        table.put(node)
    placer = Placer(plugins_for(Profile(), Neighbours(table)).rules)
    size, spent = 1000 if alike else placer.most_together(pod_list[0]), 0.0
    for first in range(0, len(pod_list), size):
        some = pod_list[first : first + size]
        start = time.process_time()
        planned = placer.plan(some[0], len(some)) if alike else placer.plan_each(some)
        spent += time.process_time() - start
        assert len(planned) == len(some), "there is room for all"
        for pod, found in zip(some, planned, strict=True):
            table.charge(pod, found.node)
    return spent


def scan(node_list: list[Node], shape: PodShape, tries: int) -> float:
    """Seconds a pod when every node is looked at in a plain loop."""
    free = [dict(node.allocatable) for node in node_list]
    wanted = dict(shape.requests)
    start = time.process_time()
    for _ in range(tries):
        _best(free, wanted)
    return (time.process_time() - start) / tries


def _best(free: Iterable[dict[str, int]], wanted: dict[str, int]) -> int:
    best, where = -1, -1
    for index, room in enumerate(free):
        if all(room[name] >= amount for name, amount in wanted.items()):
            score = sum((room[name] - amount) * 100 // room[name] for name, amount in wanted.items()) // 2
            if score > best:
                best, where = score, index
    return where


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20_000)
    options = parser.parse_args()
    node_list = nodes(options.nodes)
    plain = scan(node_list, pods(1, 1)[0].shape, 20)
    print(f"{options.nodes} nodes, {options.pods} pods; a plain scan places {1 / plain:,.0f} pods/s")
    for title, made, alike, goal in (
        ("equal pods, placement alone", pods(options.pods, 1), True, 200_000),
        ("different, placement alone", pods(options.pods, options.pods), False, 20_000),
    ):
        report(title, len(made), placement_alone(node_list, made, alike), plain, goal)
    few = min(options.pods, options.nodes)
    for title, made, goal in (
        ("equal pods", pods(options.pods, 1), 0),
        ("100 shapes", pods(options.pods, 100), 0),
        ("all different", pods(options.pods, options.pods), 0),
        ("spread over zones", pods(options.pods, 1, SPREAD), 5_000),
        ("apart from each other", pods(few, 1, APART), 5_000),
        ("spread, two shapes by turns", pods(few, 2, SPREAD), 5_000),
        ("apart, two shapes by turns", pods(few, 2, APART), 5_000),
    ):
        report(title, len(made), decide_all(node_list, made), plain, goal)


def report(title: str, count: int, seconds: float, plain: float, goal: int) -> None:
    """One line: the rate, and whether the goal is met if there is one."""
    rate = count / seconds
    verdict = f"goal {goal:>7,}: {'met' if rate >= goal else 'NOT MET'}" if goal else "no goal"
    print(f"{title:>28}: {rate:>9,.0f} pods/s, {rate * plain:>7.1f} times the plain scan, {verdict}")


if __name__ == "__main__":
    main()
