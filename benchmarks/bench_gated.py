"""What pods that wait behind gates cost those that do not: the same pods decided and bound with and without bystanders.

python benchmarks/bench_gated.py --rounds 10

In process, the engine sees pods come, be bound and go while very many gated ones stand by. On real kube-apiservers,
`headgate run` binds pods while gated ones of its own, which it has told so before, stand by. What it takes to read
them when it starts is shown by itself: rate and CPU count from the first binding on. Other work on the machine moves
the rate more than gated pods do; the CPU our process takes is the steadier figure.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import uvloop
from msgspec.structs import replace

from headgate.engine.loop import Engine
from headgate.model.effects import Bind, Effect, FleetEffect
from headgate.model.events import Gone, Observed, Outcome
from headgate.model.pod import Pod
from headgate.model.settings import Settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kubernetes"))

from assets import MissingProgram
from bench_kubernetes import Course, Meter, empty, events_written, our_scheduler
from bench_placement import nodes, pods
from cluster import Cluster
from objects import create_namespace, create_nodes, create_pods, node, pod
from watching import PodWatch
from wire import Client

GATES = ("example.com/quota", "example.com/budget")
ALONE, BESIDE = "alone", "with gated"
CROWD = "bystanders"  # the namespace of the gated pods
PATIENCE = 600.0  # seconds anything may take
MEDIAN_ERROR = 1.25  # how much larger the standard error of a median is than that of a mean


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

    def _step(self, batch: Sequence[Observed | Outcome | Gone]) -> list[Effect | FleetEffect]:
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


# on real kube-apiservers


class Round(NamedTuple):
    """What one start of our process did once it was ready: it sends no binding before it has absorbed the cluster."""

    rate: float  # pods bound per second, first to last
    own_cpu: float  # milliseconds a pod, from the first binding to the last event
    start_cpu: float  # seconds until the first binding: reading, decoding and recording everything
    elsewhere: float  # CPUs kept busy by programs that have no part in this: above 0.2 or so, measure again


async def bind_all(course: Course, namespace: str) -> Round:
    """Pods that wait, our process, pods that are bound; in the end they are gone and the nodes empty again."""
    await create_namespace(course.client, namespace)
    async with PodWatch(course.cluster.server, namespace) as watch:
        waiting = [pod(f"pod-{index}") for index in range(course.pods)]
        await create_pods(course.client, namespace, waiting)
        await watch.until("all pods are seen", lambda: len(watch.pods) == course.pods, PATIENCE)
        runner = our_scheduler(course, namespace)
        try:
            await watch.until("the first pod is bound", lambda: watch.bound > 0, PATIENCE)
            start_cpu, servers, meter = runner.cpu_seconds, _server_cpu(course), Meter()
            await watch.until("all pods are bound", lambda: watch.bound == course.pods, PATIENCE)
            known = runner.cpu_seconds - start_cpu + _server_cpu(course) - servers
            elsewhere = meter.busy_beside(known)
            await events_written(course, namespace)
            own_cpu = runner.cpu_seconds - start_cpu
        finally:
            runner.stop()
    await empty(course, namespace)
    seconds = max(watch.bound_at.values()) - min(watch.bound_at.values())
    return Round(course.pods / seconds, own_cpu / course.pods * 1000, start_cpu, elsewhere)


def _server_cpu(course: Course) -> float:
    return course.cluster.apiserver.cpu_seconds + course.cluster.etcd.cpu_seconds


async def gather_crowd(course: Course, size: int) -> None:
    """Gated pods. The server says itself that they are, so nothing is left to be said when measuring begins."""
    await create_namespace(course.client, CROWD)
    gates = [{"name": name} for name in GATES]
    await create_pods(course.client, CROWD, [pod(f"gated-{index}", schedulingGates=gates) for index in range(size)])


async def on_clusters(clusters: Sequence[Cluster], node_count: int, pod_count: int, gated: int, rounds: int) -> None:
    """In pairs that follow each other closely, so that what changes slowly is the same for both.

    Each goes first as often as the other. The crowd has a kube-apiserver of its own and need not come and go.
    """
    async with Client(clusters[0].server) as first, Client(clusters[1].server) as second:
        courses = {
            ALONE: await _prepared(clusters[0], first, node_count, pod_count),
            BESIDE: await _prepared(clusters[1], second, node_count, pod_count),
        }
        await gather_crowd(courses[BESIDE], gated)
        print(f"\nreal kube-apiservers: {node_count} nodes, {pod_count} pods; {gated} gated bystanders\n\n{HEADING}")
        made: dict[str, list[Round]] = {ALONE: [], BESIDE: []}
        for number in range(rounds):
            for name in (ALONE, BESIDE) if number % 2 == 0 else (BESIDE, ALONE):
                made[name].append(await bind_all(courses[name], f"bench-{number}"))
                print(_row(name, made[name][-1]), flush=True)
    _print_paired("rate", [beside.rate / alone.rate for alone, beside in zip(*made.values(), strict=True)])
    _print_paired("own CPU", [beside.own_cpu / alone.own_cpu for alone, beside in zip(*made.values(), strict=True)])


async def _prepared(cluster: Cluster, client: Client, node_count: int, pod_count: int) -> Course:
    names = [f"node-{index}" for index in range(node_count)]
    await create_nodes(client, map(node, names))
    return Course(cluster, client, names, pod_count, cluster.kubeconfig_of_own_account())


COLUMNS = ("bound/s", "own CPU ms/pod", "start CPU s", "CPUs elsewhere")
HEADING = " " * 14 + "".join(f"{column:>{len(column) + 3}}" for column in COLUMNS)


def _row(name: str, figures: Round) -> str:
    cells = (f"{figures.rate:.0f}", f"{figures.own_cpu:.3f}", f"{figures.start_cpu:.2f}", f"{figures.elsewhere:.2f}")
    return f"{name:14}" + "".join(f"{cell:>{len(column) + 3}}" for cell, column in zip(cells, COLUMNS, strict=True))


def _print_paired(what: str, ratios: Sequence[float]) -> None:
    """The median of the pairs' ratios with its standard error, which must be well below what is to be told apart."""
    error = MEDIAN_ERROR * statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else math.inf
    middle = f"{statistics.median(ratios):.3f} ± {error:.3f}"
    print(f"\n{what}, {BESIDE} / {ALONE}: {middle} (median of {len(ratios)} pairs)", flush=True)


def _print_ratio(rates: dict[str, float]) -> None:
    print(f"\n{BESIDE} / {ALONE}{rates[BESIDE] / rates[ALONE]:>8.3f}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="What gated pods cost the others.")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--gated", type=int, default=10_000, help="bystanders on one of the clusters")
    parser.add_argument("--gated-in-process", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=10, help="pairs of runs on the clusters")
    parser.add_argument("--rounds-in-process", type=int, default=15)
    parser.add_argument("--only", choices=("process", "cluster"))
    chosen = parser.parse_args()
    if chosen.only != "cluster":
        in_process(chosen.nodes, chosen.pods, chosen.gated_in_process, chosen.rounds_in_process)
    if chosen.only == "process":
        return 0
    return _with_two_clusters(
        lambda clusters: uvloop.run(on_clusters(clusters, chosen.nodes, chosen.pods, chosen.gated, chosen.rounds))
    )


def _with_two_clusters(use: Callable[[Sequence[Cluster]], None]) -> int:
    try:
        with (
            tempfile.TemporaryDirectory(prefix="headgate-bench-") as one,
            tempfile.TemporaryDirectory(prefix="headgate-bench-") as other,
            Cluster(Path(one)) as first,
            Cluster(Path(other)) as second,
        ):
            use((first, second))
    except MissingProgram as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
