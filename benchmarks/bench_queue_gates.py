"""What pods that wait for capacity of their Volcano queue cost, and how fast they are let go.

python benchmarks/bench_queue_gates.py --queues 100 --pods 10000

In process every queue is full. In each round one pod of one queue ends and the next one of that queue is bound; a pod
of no queue comes and is bound beside. The time of a round must not grow with the number of gated pods.

On a real kube-apiserver every queue has capacity for all its pods, and there is no node. `headgate run` removes all
gates, and tells each pod why it waits. Before and after, a plain client sends the same patches as fast as the server
takes them. A watch of our own takes the time from the first gate removed to the last.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import uvloop
import yaml
from bench_placement import nodes, pods
from msgspec.structs import replace

from headgate.api.install_manifests import volcano_definitions
from headgate.api.requests import calls_for
from headgate.engine.loop import Engine
from headgate.model.effects import Bind, Effect, FleetEffect, PatchSpec, PatchStatus, QueueReservation, RemoveGate
from headgate.model.events import Event, Gone, Observed, Outcome
from headgate.model.keys import Key, Kind, Target
from headgate.model.pod import Pod, PodShape
from headgate.model.resources import Resources
from headgate.model.settings import Settings
from headgate.model.volcano import QUEUE_GATE, VolcanoQueue

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kubernetes"))

from assets import MissingProgram
from bench_kubernetes import Course, Meter, Runner, empty
from cluster import Cluster
from objects import create_namespace, create_pods, pod
from ours import OurProcess
from watching import PodSeen, PodWatch
from wire import Client

NODES = 200
RUNNING = 2  # pods that each queue has capacity for
CPU = Resources.of({"cpu": 100})
PATIENCE = 300.0  # seconds one contender may take
GOAL = 0.8  # of the raw patch rate


# in process


def queue_of(number: int) -> VolcanoQueue:
    limit = Resources.of({"cpu": 100 * RUNNING})
    return VolcanoQueue(Key(Kind.VOLCANO_QUEUE, "", f"q{number}"), f"q{number}", "1", capability=limit)


def gated(number: int, queues: int) -> Pod:
    annotations = {QUEUE_GATE: "true", "scheduling.volcano.sh/queue-name": f"q{number % queues}"}
    return Pod(
        Key(Kind.POD, "batch", f"p{number:06}"),
        f"uid-{number}",
        "1",
        labels={},
        annotations=annotations,
        shape=PodShape(requests=CPU, scored_requests=CPU),
        created=float(number),
        scheduler_name="headgate",
        gates=(QUEUE_GATE,),
    )


class Rehearsal:
    """An engine whose writes succeed at once."""

    def __init__(self, queues: int, waiting: int) -> None:
        self._engine = Engine(Settings())
        self.now = 0.0
        self._pods = {each.key: each for each in (gated(number, queues) for number in range(waiting))}
        start = time.process_time()
        self._run([*map(Observed, nodes(NODES)), *(Observed(queue_of(n)) for n in range(queues))])
        self._run([Observed(each) for each in self._pods.values()])
        self.start_seconds = time.process_time() - start
        self.bound = {key: each for key, each in self._pods.items() if each.node}
        assert len(self.bound) == RUNNING * queues, f"{len(self.bound)} run"

    def round(self, passing: Pod) -> float:
        """Seconds of CPU for one pod that ends, the one that follows it, and one that has nothing to do with it."""
        ended = next(iter(self.bound))
        self.now += 20.0
        start = time.process_time()
        self._run([Gone(ended, self._pods.pop(ended).uid), Observed(passing)])
        spent = time.process_time() - start
        del self.bound[ended]
        self.bound.update({key: each for key, each in self._pods.items() if each.node and key not in self.bound})
        return spent

    def _run(self, batch: list[Event]) -> None:
        effects = self._engine.step(batch, self.now)
        while answers := [answer for effect in effects for answer in self._performed(effect)]:
            self._engine.journal.take()
            effects = self._engine.step(answers, self.now)
        self._engine.journal.take()

    def _performed(self, effect: Effect | FleetEffect) -> list[Event]:
        match effect:
            case RemoveGate(target):
                if target.key in self._pods:
                    self._pods[target.key] = replace(self._pods[target.key], gates=())
                return [Outcome(effect)]
            case Bind(target, where) if target.key in self._pods:
                self._pods[target.key] = replace(self._pods[target.key], node=where)
                return [Outcome(effect), Observed(self._pods[target.key])]
            case Bind() | PatchStatus():
                return [Outcome(effect)]
        return []


def in_process(queues: int, waiting: int, rounds: int) -> None:
    few = queues * (RUNNING + 3)
    courses = {few: Rehearsal(queues, few), waiting: Rehearsal(queues, waiting)}
    gc.collect()
    gc.freeze()
    spent: dict[int, list[float]] = {size: [] for size in courses}
    for each in pods(rounds, 1):
        for size, course in courses.items():
            spent[size].append(course.round(each))
    print(f"{queues} full queues, {NODES} nodes; one pod of a queue ends, the next one is bound\n")
    medians = {size: statistics.median(times) * 1000 for size, times in spent.items()}
    for size, course in courses.items():
        told = f"{medians[size]:7.2f} ms a round, {course.start_seconds:6.2f} s of CPU to take all in"
        print(f"{size:>8,} pods: {told}")
    print(f"\nwith {waiting:,} pods a round takes {medians[waiting] / medians[few]:.2f} times as long as with {few:,}")


# on a real kube-apiserver


class GateWatch(PodWatch):
    """Also takes the time when each pod was first seen without a gate."""

    def __init__(self, course: Course, namespace: str) -> None:
        super().__init__(course.cluster.server, namespace)
        self.ungated_at: dict[str, float] = {}

    def _record(self, seen: PodSeen) -> None:
        super()._record(seen)
        if not seen.spec.schedulingGates:
            self.ungated_at.setdefault(seen.metadata.uid, time.monotonic())


class Removals(NamedTuple):
    """What one contender did in one round, from the first gate removed to the last."""

    rate: float  # gates removed per second
    own_cpu: float  # milliseconds a pod
    server_cpu: float  # milliseconds a pod, kube-apiserver and etcd
    elsewhere: float  # CPUs kept busy by programs that have no part in this: above 0.2 or so, measure again


class RawPatches:
    """The patches that headgate sends, by as many requests at once as the client has connections."""

    def __init__(self, course: Course, namespace: str, waiting: Sequence[PodSeen]) -> None:
        self._client, self._before = course.client, time.process_time()
        self._work = asyncio.gather(*(self._remove(namespace, each) for each in waiting))

    @property
    def cpu_seconds(self) -> float:
        return time.process_time() - self._before

    def stop(self) -> None:
        self._work.cancel()

    async def _remove(self, namespace: str, seen: PodSeen) -> None:
        target = Target(Key(Kind.POD, namespace, seen.metadata.name), seen.metadata.uid)
        change = QueueReservation(float(int(time.time())), ((0, QUEUE_GATE),), has_annotations=True)
        (call,) = calls_for(PatchSpec(target, change), "raw")
        answer = await self._client.request(call.method, call.path, call.body, call.content_type)
        assert answer.code == 200, answer.body


def our_process(course: Course, _namespace: str, _waiting: Sequence[PodSeen]) -> OurProcess:
    return OurProcess(course.account, course.cluster.folder / "headgate.log", "--no-leader-elect")


RAW, OURS = "raw", "headgate"
CONTENDERS: dict[str, Callable[[Course, str, Sequence[PodSeen]], Runner]] = {RAW: RawPatches, OURS: our_process}


async def remove_gates(course: Course, contender: str, namespace: str, queues: int) -> Removals:
    """One contender, from pods that are gated to pods that are not; in the end they are gone."""
    await create_namespace(course.client, namespace)
    async with GateWatch(course, namespace) as watch:
        await create_pods(course.client, namespace, [_gated_manifest(n, queues) for n in range(course.pods)])
        await watch.until("all pods are seen", lambda: len(watch.pods) == course.pods, PATIENCE)
        runner = CONTENDERS[contender](course, namespace, list(watch.pods.values()))
        try:
            await watch.until("the first gate is removed", lambda: len(watch.ungated_at) > 0, PATIENCE)
            began, own_before, meter = _server_cpu(course), runner.cpu_seconds, Meter()
            await watch.until("no gate is left", lambda: len(watch.ungated_at) == course.pods, PATIENCE)
            server_cpu, own_cpu = _server_cpu(course) - began, runner.cpu_seconds - own_before
            elsewhere = meter.busy_beside(server_cpu + (own_cpu if contender == OURS else 0.0))
        finally:
            runner.stop()
    await empty(course, namespace)
    seconds = max(watch.ungated_at.values()) - min(watch.ungated_at.values())
    each = 1000 / course.pods
    return Removals(course.pods / seconds, own_cpu * each, server_cpu * each, elsewhere)


def _gated_manifest(number: int, queues: int) -> dict[str, Any]:
    made = pod(f"pod-{number}", schedulingGates=[{"name": QUEUE_GATE}])
    queue = f"q{number % queues}"
    made["metadata"]["annotations"] = {QUEUE_GATE: "true", "scheduling.volcano.sh/queue-name": queue}
    return made


def _server_cpu(course: Course) -> float:
    return course.cluster.apiserver.cpu_seconds + course.cluster.etcd.cpu_seconds


async def on_cluster(cluster: Cluster, queues: int, pod_count: int, rounds: int) -> None:
    """In turns that follow each other closely, so that what changes slowly is the same for both."""
    for definition in volcano_definitions():
        cluster.kubectl("apply", "--server-side", "--filename=-", text=yaml.safe_dump(definition))
    names = [f"crd/{definition['metadata']['name']}" for definition in volcano_definitions()]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
    async with Client(cluster.server) as client:
        for number in range(queues):
            kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": f"q{number}"}}
            path = "/apis/scheduling.volcano.sh/v1beta1/queues"
            await client.create(path, {**kind, "spec": {"capability": {"cpu": str(pod_count)}}})
        course = Course(cluster, client, (), pod_count, cluster.kubeconfig_of_own_account())
        print(f"\na real kube-apiserver: {queues} queues, {pod_count} gated pods, no node\n\n{HEADING}")
        made: dict[str, list[Removals]] = {RAW: [], OURS: []}
        for number in range(rounds):
            for name in (RAW, OURS) if number % 2 == 0 else (OURS, RAW):
                made[name].append(await remove_gates(course, name, f"bench-{name}-{number}", queues))
                print(_row(name, made[name][-1]), flush=True)
    pairs = list(zip(made[OURS], made[RAW], strict=True))
    rate = statistics.median(ours.rate / raw.rate for ours, raw in pairs)
    cpu = statistics.median((ours.own_cpu + ours.server_cpu) / (raw.own_cpu + raw.server_cpu) for ours, raw in pairs)
    print(f"\nrate, {OURS} / {RAW}: {rate:.2f} (median of {rounds} pairs; expected at least {GOAL})")
    print(f"CPU a pod with the server's, {OURS} / {RAW}: {cpu:.2f}, which other work on the machine moves less")


COLUMNS = ("removed/s", "own CPU ms/pod", "server CPU ms/pod", "CPUs elsewhere")
HEADING = " " * 14 + "".join(f"{column:>{len(column) + 3}}" for column in COLUMNS)


def _row(name: str, figures: Removals) -> str:
    cells = (f"{figures.rate:.0f}", *(f"{each:.2f}" for each in figures[1:]))
    return f"{name:14}" + "".join(f"{cell:>{len(column) + 3}}" for cell, column in zip(cells, COLUMNS, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queues", type=int, default=100)
    parser.add_argument("--pods", type=int, default=10_000, help="gated pods in process")
    parser.add_argument("--rounds", type=int, default=60, help="rounds in process")
    parser.add_argument("--pods-on-cluster", type=int, default=3000)
    parser.add_argument("--rounds-on-cluster", type=int, default=5, help="pairs of runs on the cluster")
    parser.add_argument("--only", choices=("process", "cluster"))
    chosen = parser.parse_args()
    if chosen.only != "cluster":
        in_process(chosen.queues, chosen.pods, chosen.rounds)
    if chosen.only == "process":
        return 0
    try:
        with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder, Cluster(Path(folder)) as cluster:
            uvloop.run(on_cluster(cluster, chosen.queues, chosen.pods_on_cluster, chosen.rounds_on_cluster))
    except MissingProgram as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
