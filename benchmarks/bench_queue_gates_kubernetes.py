"""Queue-allocation gates removed per second on a real kube-apiserver: plain requests and headgate, side by side.

python benchmarks/bench_queue_gates_kubernetes.py --pods 2000 --queues 100 --rounds 3

The queues have capacity for all pods and there is no node: every pod loses its gate, reserves and is Unschedulable.
That is two patches of each pod, and plain requests send the same two, as many at once as a client has connections. A
watch of our own takes the time from the first gate removed to the last, and until the last pod is Unschedulable. The
goal is 0.8 of the rate of plain requests in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import uvloop
import yaml
from bench_kubernetes import PATIENCE, Contender, Course, Meter, empty, our_scheduler

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kubernetes"))

from assets import MissingProgram
from cluster import Cluster
from objects import Manifest, create_namespace, create_pods, pod, pods_path
from watching import PodSeen, PodWatch
from wire import JSON_PATCH, MERGE_PATCH, Client

from headgate.api.install_manifests import volcano_definitions
from headgate.model.volcano import QUEUE_GATE, RESERVED_AT

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GOAL = 0.8
RAW = "raw"


class GateWatch(PodWatch):
    """Keeps the time at which each pod had lost its gate, and at which it was called Unschedulable besides."""

    def __init__(self, course: Course, namespace: str) -> None:
        super().__init__(course.cluster.server, namespace)
        self.ungated_at: dict[str, float] = {}  # by name
        self.released_at: dict[str, float] = {}

    def _record(self, seen: PodSeen) -> None:
        super()._record(seen)
        if not seen.spec.schedulingGates:
            self.ungated_at.setdefault(seen.metadata.name, time.monotonic())
            said = seen.condition("PodScheduled")
            if said is not None and said.reason == "Unschedulable":
                self.released_at.setdefault(seen.metadata.name, time.monotonic())


class RawReleases:
    """The two patches that let a pod go, of all pods, by as many requests at once as the client has connections."""

    def __init__(self, course: Course, namespace: str, names: Sequence[str]) -> None:
        self._client, self._path = course.client, pods_path(namespace)
        self._before = time.process_time()
        self._work = asyncio.gather(*map(self._release, names))

    @property
    def cpu_seconds(self) -> float:
        return time.process_time() - self._before

    def stop(self) -> None:
        self._work.cancel()

    async def _release(self, name: str) -> None:
        path = f"/metadata/annotations/{RESERVED_AT.replace('/', '~1')}"
        steps = [
            {"op": "test", "path": "/spec/schedulingGates/0/name", "value": QUEUE_GATE},
            {"op": "add", "path": path, "value": "2026-01-01T00:00:00Z"},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ]
        await self._client.patch(f"{self._path}/{name}", steps, JSON_PATCH)
        said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no nodes available"}
        await self._client.patch(f"{self._path}/{name}/status", {"status": {"conditions": [said]}}, MERGE_PATCH)


CONTENDERS = (
    Contender(RAW, "nobody", RawReleases, writes_events=False),
    Contender("headgate", "headgate", our_scheduler),
)


class Figures(NamedTuple):
    """What one contender did in one round."""

    gates: float  # removed per second, first to last
    released: float  # pods per second without a gate and called Unschedulable, from the first gate removed
    own_cpu: float  # milliseconds a pod
    elsewhere: float  # CPUs kept busy by programs that have no part in this


def gated(name: str, scheduler: str, queue: str) -> Manifest:
    made = pod(name, scheduler=scheduler, schedulingGates=[{"name": QUEUE_GATE}])
    made["metadata"]["annotations"] = {QUEUE_GATE: "true", "scheduling.volcano.sh/queue-name": queue}
    return made


async def race(course: Course, contender: Contender, namespace: str, queues: int) -> Figures:
    await create_namespace(course.client, namespace)
    async with GateWatch(course, namespace) as watch:
        names = [f"pod-{index}" for index in range(course.pods)]
        waiting = [gated(name, contender.scheduler_name, f"q-{at % queues}") for at, name in enumerate(names)]
        await create_pods(course.client, namespace, waiting)
        await watch.until("all pods are seen", lambda: len(watch.pods) == course.pods, PATIENCE)
        cluster, meter = course.cluster, Meter()
        before = cluster.apiserver.cpu_seconds + cluster.etcd.cpu_seconds
        runner = contender.start(course, namespace, names)
        try:
            await watch.until("all pods are let go", lambda: len(watch.released_at) == course.pods, PATIENCE)
            servers = cluster.apiserver.cpu_seconds + cluster.etcd.cpu_seconds - before
            own = runner.cpu_seconds
            elsewhere = meter.busy_beside(servers + (own if contender.name != RAW else 0.0))
        finally:
            runner.stop()
    await empty(course, namespace)
    first, last = min(watch.ungated_at.values()), max(watch.ungated_at.values())
    released = course.pods / (max(watch.released_at.values()) - first)
    return Figures(course.pods / (last - first), released, own / course.pods * 1000, elsewhere)


async def install(cluster: Cluster, client: Client, queues: int) -> None:
    for definition in volcano_definitions():
        cluster.kubectl("apply", "--server-side", "--filename", "-", text=yaml.safe_dump(definition))
    names = [f"crd/{definition['metadata']['name']}" for definition in volcano_definitions()]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
    for number in range(queues):
        kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": f"q-{number}"}}
        await client.create(QUEUES, {**kind, "spec": {"capability": {"cpu": "100000"}}})


async def run(cluster: Cluster, pods: int, queues: int, rounds: int) -> float:
    """The rate at which headgate lets pods go, over that of plain requests; medians of all rounds."""
    async with Client(cluster.server) as client:
        await install(cluster, client, queues)
        course = Course(cluster, client, (), pods)
        results: dict[str, list[Figures]] = {contender.name: [] for contender in CONTENDERS}
        print(f"{pods} gated pods, {queues} queues, no node, one kube-apiserver\n")
        print(f"{'':14}{'gates/s':>10}{'let go/s':>10}{'own CPU ms/pod':>16}{'CPUs elsewhere':>16}")
        for number in range(rounds):
            for contender in CONTENDERS:
                figures = await race(course, contender, f"gates-{contender.name}-{number}", queues)
                results[contender.name].append(figures)
                gates, released, own, elsewhere = figures
                print(f"{contender.name:14}{gates:>10.0f}{released:>10.0f}{own:>16.2f}{elsewhere:>16.2f}", flush=True)
        return _told(results)


def _told(results: Mapping[str, Sequence[Figures]]) -> float:
    ours, raw = results["headgate"], results[RAW]
    gates = statistics.median(each.gates for each in ours) / statistics.median(each.gates for each in raw)
    released = statistics.median(each.released for each in ours) / statistics.median(each.released for each in raw)
    print(f"\nheadgate / raw: gates {gates:.2f}, pods let go {released:.2f}; the goal is {GOAL}")
    return gates


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--queues", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3, help="times each contender runs; ratios are of medians")
    chosen = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder, Cluster(Path(folder)) as cluster:
            ratio = uvloop.run(run(cluster, chosen.pods, chosen.queues, chosen.rounds))
    except MissingProgram as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        return 2
    return 0 if ratio >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
