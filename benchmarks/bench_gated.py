"""What pods that wait behind gates cost those that do not: the same pods decided and bound with and without bystanders.

python benchmarks/bench_gated.py --rounds 4

In process, the engine sees pods come, be bound and go while very many gated ones stand by. On one real kube-apiserver,
`headgate run` binds pods while gated ones of its own, which it has told so before, stand by.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import uvloop
from msgspec.structs import replace

from headgate.engine.loop import Engine
from headgate.model.effects import Bind, Effect
from headgate.model.events import Gone, Observed, Outcome
from headgate.model.pod import Pod
from headgate.model.settings import Settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kubernetes"))

from assets import MissingProgram
from bench_kubernetes import CONTENDERS, HEADING, Course, Figures, empty, events_written, our_scheduler, race, row
from bench_placement import nodes, pods
from cluster import Cluster
from objects import create_namespace, create_nodes, create_pods, node, pod
from watching import PodWatch
from wire import Client

GATES = ("example.com/quota", "example.com/budget")
ALONE, BESIDE = "alone", "with gated"
HEADGATE = next(each for each in CONTENDERS if each.name == "headgate")
CROWD = "bystanders"  # the namespace of the gated pods
PATIENCE = 600.0  # seconds until all of them are told


# in process


class Rehearsal:
    """An engine that keeps its gated pods while others come and go."""

    def __init__(self, node_count: int, gated: int) -> None:
        self._engine = Engine(Settings())
        self._engine.step([Observed(each) for each in nodes(node_count)], 0.0)
        waiting = [replace(each, key=replace(each.key, namespace=CROWD), gates=GATES) for each in pods(gated, 1)]
        self._engine.step([Observed(each) for each in waiting], 0.0)
        self._engine.journal.take()

    def seconds(self, coming: Sequence[Pod]) -> float:
        """CPU time from the pods' arrival until all are bound, seen to be bound, and gone."""
        known = {each.key: each for each in coming}
        start = time.process_time()
        effects, bound = self._engine.step([Observed(each) for each in coming], 1.0), 0
        while binds := [effect for effect in effects if isinstance(effect, Bind)]:
            bound += len(binds)
            seen = [Observed(replace(known[bind.target.key], node=bind.node)) for bind in binds]
            effects = self._step([*map(Outcome, binds), *seen])
        self._step([Gone(each.key, each.uid) for each in coming])
        assert bound == len(coming), f"{bound} of {len(coming)} placed"
        return time.process_time() - start

    def _step(self, batch: Sequence[Observed | Outcome | Gone]) -> list[Effect]:
        effects = self._engine.step(batch, 1.0)
        self._engine.journal.take()
        return effects


def in_process(node_count: int, pod_count: int, gated: int, rounds: int) -> None:
    coming = pods(pod_count, 1)
    engines = {ALONE: Rehearsal(node_count, 0), BESIDE: Rehearsal(node_count, gated)}
    gc.collect()
    gc.freeze()  # as `headgate run` does once it knows the cluster
    spent: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, engine in engines.items():
            spent[name].append(engine.seconds(coming))
    rates = {name: pod_count / min(times) for name, times in spent.items()}  # what else the machine did only adds
    print(f"in process: {node_count} nodes, {pod_count} pods that come, are bound and go; {gated} gated bystanders\n")
    for name, rate in rates.items():
        print(f"{name:14}{rate:>10,.0f} pods/s")
    _print_ratio(rates)


# on a real kube-apiserver


class Crowd:
    """The gated pods, there or not as asked; each has been told what it waits for before anything is measured."""

    def __init__(self, course: Course, size: int) -> None:
        self._course, self._size, self._there = course, size, False

    async def be(self, there: bool) -> None:
        if there and not self._there:
            await self._come()
        elif self._there and not there:
            await empty(self._course, CROWD)
        self._there = there

    async def _come(self) -> None:
        gates = [{"name": name} for name in GATES]
        waiting = [pod(f"gated-{index}", schedulingGates=gates) for index in range(self._size)]
        await create_pods(self._course.client, CROWD, waiting)
        runner = our_scheduler(self._course, CROWD, ())
        try:
            async with PodWatch(self._course.cluster.server, CROWD) as watch:
                await watch.until("all bystanders are told", lambda: _all_told(watch, self._size), PATIENCE)
            await events_written(self._course._replace(pods=self._size), CROWD)  # they would come between
        finally:
            runner.stop()


def _all_told(watch: PodWatch, size: int) -> bool:
    message = f"waiting for scheduling gates: {', '.join(GATES)}"
    conditions = (each.condition("PodScheduled") for each in watch.pods.values())
    return len(watch.pods) == size and all(each is not None and each.message == message for each in conditions)


async def on_a_cluster(cluster: Cluster, node_count: int, pod_count: int, gated: int, rounds: int) -> None:
    """With and without in turn, each going first as often as the other, so that a machine that tires favours none."""
    async with Client(cluster.server) as client:
        names = [f"node-{index}" for index in range(node_count)]
        await create_nodes(client, map(node, names))
        await create_namespace(client, CROWD)
        course = Course(cluster, client, names, pod_count)
        crowd = Crowd(course, gated)
        results: dict[str, list[Figures]] = {ALONE: [], BESIDE: []}
        print(f"\none kube-apiserver: {node_count} nodes, {pod_count} pods; {gated} gated bystanders\n\n{HEADING}")
        for number in range(rounds):
            for name in (ALONE, BESIDE) if number % 2 == 0 else (BESIDE, ALONE):
                await crowd.be(there=name == BESIDE)
                figures = await race(course, HEADGATE, f"bench-{number}-{name.replace(' ', '-')}")
                results[name].append(figures)
                print(row(name, figures), flush=True)
        _print_ratio({name: statistics.median(each.rate for each in made) for name, made in results.items()})


def _print_ratio(rates: dict[str, float]) -> None:
    print(f"\n{BESIDE} / {ALONE}{rates[BESIDE] / rates[ALONE]:>8.3f}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="What gated pods cost the others.")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--gated", type=int, default=10_000, help="bystanders on the cluster")
    parser.add_argument("--gated-in-process", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=4, help="on the cluster; ratios are of medians")
    parser.add_argument("--rounds-in-process", type=int, default=15)
    parser.add_argument("--only", choices=("process", "cluster"))
    chosen = parser.parse_args()
    if chosen.only != "cluster":
        in_process(chosen.nodes, chosen.pods, chosen.gated_in_process, chosen.rounds_in_process)
    if chosen.only == "process":
        return 0
    return _with_a_cluster(
        lambda cluster: uvloop.run(on_a_cluster(cluster, chosen.nodes, chosen.pods, chosen.gated, chosen.rounds))
    )


def _with_a_cluster(use: Callable[[Cluster], None]) -> int:
    try:
        with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder, Cluster(Path(folder)) as cluster:
            use(cluster)
    except MissingProgram as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
