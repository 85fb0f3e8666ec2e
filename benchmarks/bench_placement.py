"""Pods decided per second in process, as a ratio to a plain Python scan of the same nodes in the same run.

python benchmarks/bench_placement.py --nodes 5000 --pods 20000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable

from headgate.engine.loop import Engine
from headgate.model.effects import Bind
from headgate.model.events import Observed, Outcome
from headgate.model.keys import Key, Kind
from headgate.model.node import Node
from headgate.model.pod import Pod, PodShape
from headgate.model.resources import Resources
from headgate.model.settings import Settings

GIB = 1 << 30


def nodes(count: int) -> list[Node]:
    room = Resources.of({"cpu": 4000, "memory": 32 * GIB, "pods": 110})
    return [Node(Key(Kind.NODE, "", f"n-{i}"), f"u{i}", "1", {}, {}, room) for i in range(count)]


def pods(count: int, shapes: int) -> list[Pod]:
    made = [Resources.of({"cpu": 50 + i % 97, "memory": (1 << 16) * (1 + i % 4099)}) for i in range(shapes)]
    return [
        Pod(
            Key(Kind.POD, "default", f"p-{i}"),
            f"p{i}",
            "1",
            {},
            {},
            PodShape(requests=made[i % shapes], scored_requests=made[i % shapes]),
            float(i),
            "headgate",
        )
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
    for title, shapes in (("one shape", 1), ("100 shapes", 100), ("all different", options.pods)):
        seconds = decide_all(node_list, pods(options.pods, shapes))
        rate = options.pods / seconds
        print(f"{title:>14}: {rate:>9,.0f} pods/s, {rate * plain:>6.1f} times the plain scan")


if __name__ == "__main__":
    main()
