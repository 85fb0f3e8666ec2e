"""Pods bound per second on one real kube-apiserver: raw binding requests, kube-scheduler and headgate, side by side.

All three find the same pods waiting and the same empty nodes. A watch of our own takes the time from the first node
name set to the last. kube-scheduler runs its default configuration with `clientConnection.qps` and `burst` at 5000, so
that its client does not hold it back; leader election is off for it and for headgate.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kubernetes"))

from assets import MissingProgram, program
from children import Child
from cluster import KUBE_SCHEDULER, Cluster
from objects import create_namespace, create_nodes, create_pods, node, pod, pods_path, remove_all
from ours import OurProcess
from watching import PodWatch
from wire import Client

CLIENT_RATE = 5000  # requests a second kube-scheduler's client may send
PATIENCE = 600.0  # seconds one contender may take
EVENTS_QUIET = 2.0  # seconds without a new event after which no more are expected


class Course(NamedTuple):
    """Where all contenders run."""

    cluster: Cluster
    client: Client
    nodes: Sequence[str]
    pods: int


class Runner(Protocol):
    """A contender at work."""

    @property
    def cpu_seconds(self) -> float: ...

    def stop(self) -> None: ...


class RawBindings:
    """The pods in turn to the nodes in turn, by as many requests at once as the client has connections."""

    def __init__(self, course: Course, namespace: str, names: Sequence[str]) -> None:
        self._client, self._path = course.client, pods_path(namespace)
        self._before = time.process_time()
        places = [course.nodes[index % len(course.nodes)] for index in range(len(names))]
        self._work = asyncio.gather(*map(self._bind, names, places))

    @property
    def cpu_seconds(self) -> float:
        return time.process_time() - self._before

    def stop(self) -> None:
        self._work.cancel()

    async def _bind(self, name: str, to: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": to}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self._client.create(f"{self._path}/{name}/binding", binding)


def kube_scheduler(course: Course, _namespace: str, _names: Sequence[str]) -> Child:
    folder = course.cluster.folder
    kubeconfig = course.cluster.kubeconfig_of_user(*KUBE_SCHEDULER)
    configuration = folder / "kube-scheduler.yaml"
    configuration.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaderElect: false}\n"
        f"clientConnection: {{kubeconfig: {kubeconfig}, qps: {CLIENT_RATE}, burst: {CLIENT_RATE}}}\n"
    )
    command: list[str | Path] = [program("kube-scheduler"), f"--config={configuration}", "--secure-port=0"]
    return Child(command, folder / "kube-scheduler.log")


def our_scheduler(course: Course, _namespace: str, _names: Sequence[str]) -> Child:
    cluster = course.cluster
    return OurProcess(cluster.kubeconfig_of_own_account(), cluster.folder / "headgate.log", "--no-leader-elect")


class Contender(NamedTuple):
    name: str
    scheduler_name: str
    start: Callable[[Course, str, Sequence[str]], Runner]
    writes_events: bool = True


RAW = "raw"  # the one contender that works in this process
CONTENDERS = (
    Contender(RAW, "nobody", RawBindings, writes_events=False),
    Contender("kube-scheduler", "default-scheduler", kube_scheduler),
    Contender("headgate", "headgate", our_scheduler),
)


class Figures(NamedTuple):
    """What one contender did in one round."""

    rate: float  # pods bound per second, first to last
    rate_with_events: float  # pods per second until its last event was written
    events: int
    own_cpu: float  # milliseconds a pod, events included
    server_cpu: float  # milliseconds a pod, kube-apiserver and etcd, until the last pod was bound
    elsewhere: float  # CPUs kept busy by programs that have no part in this: above 0.2 or so, measure again


async def race(course: Course, contender: Contender, namespace: str) -> Figures:
    """One contender, from pods that wait to pods that are bound, and the nodes empty again."""
    await create_namespace(course.client, namespace)
    async with PodWatch(course.cluster.server, namespace) as watch:
        waiting = [pod(f"pod-{index}", scheduler=contender.scheduler_name) for index in range(course.pods)]
        await create_pods(course.client, namespace, waiting)
        await watch.until("all pods are seen", lambda: len(watch.pods) == course.pods, PATIENCE)
        before, meter = _server_cpu(course.cluster), Meter()
        runner = contender.start(course, namespace, list(watch.pods))
        try:
            await watch.until("all pods are bound", lambda: watch.bound == course.pods, PATIENCE)
            server_cpu = _server_cpu(course.cluster) - before
            beside_us = runner.cpu_seconds if contender.name != RAW else 0.0
            elsewhere = meter.busy_beside(server_cpu + beside_us)
            events, last_event = await events_written(course, namespace) if contender.writes_events else (0, 0.0)
            own_cpu = runner.cpu_seconds
        finally:
            runner.stop()
        _check_room(watch, course)
    await empty(course, namespace)
    first, last = min(watch.bound_at.values()), max(watch.bound_at.values())
    return Figures(
        rate=course.pods / (last - first),
        rate_with_events=course.pods / (max(last, last_event) - first),
        events=events,
        own_cpu=own_cpu / course.pods * 1000,
        server_cpu=server_cpu / course.pods * 1000,
        elsewhere=elsewhere,
    )


class Meter:
    """How busy the machine is from now on."""

    def __init__(self) -> None:
        self._started, self._busy, self._own = time.monotonic(), _machine_cpu(), time.process_time()

    def busy_beside(self, known: float) -> float:
        """CPUs busy on average with anything but this process and `known` CPU seconds."""
        all_busy, own = _machine_cpu() - self._busy, time.process_time() - self._own
        return max(0.0, all_busy - own - known) / (time.monotonic() - self._started)


def _machine_cpu() -> float:
    """Seconds that all CPUs together were busy since the machine started."""
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + interrupts + soft_interrupts + stolen) / 100


def _server_cpu(cluster: Cluster) -> float:
    return cluster.apiserver.cpu_seconds + cluster.etcd.cpu_seconds


def _check_room(watch: PodWatch, course: Course) -> None:
    """A contender that overfills nodes has won nothing: 40 pods of 100m fill a node of 4 CPU."""
    fullest, most = Counter(each.spec.nodeName for each in watch.pods.values()).most_common(1)[0]
    assert most <= max(40, -(-course.pods // len(course.nodes))), f"{most} pods on {fullest}"


async def events_written(course: Course, namespace: str) -> tuple[int, float]:
    """How many events there are and when the last came; kube-scheduler drops some when binding runs far ahead."""
    seen, since = -1, time.monotonic()
    while seen < course.pods and time.monotonic() - since < EVENTS_QUIET:
        found = await count(course.client, f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        if found != seen:
            seen, since = found, time.monotonic()
        await asyncio.sleep(0.1)
    return seen, since


async def empty(course: Course, namespace: str) -> None:
    await remove_all(course.client, pods_path(namespace))
    while await count(course.client, pods_path(namespace)):
        await asyncio.sleep(0.1)


async def count(client: Client, collection: str) -> int:
    page = await client.get(f"{collection}?limit=1")
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


async def run(cluster: Cluster, nodes: int, pods: int, rounds: int, chosen: Sequence[Contender]) -> None:
    async with Client(cluster.server) as client:
        names = [f"node-{index}" for index in range(nodes)]
        await create_nodes(client, map(node, names))
        course = Course(cluster, client, names, pods)
        results: dict[str, list[Figures]] = {contender.name: [] for contender in chosen}
        print(f"{nodes} nodes, {pods} pods, one kube-apiserver\n\n{HEADING}")
        for number in range(rounds):
            for contender in chosen:
                figures = await race(course, contender, f"bench-{contender.name}-{number}")
                results[contender.name].append(figures)
                print(row(contender.name, figures), flush=True)
        print("\n" + "\n".join(_ratios(results)))


COLUMNS = ("bound/s", "with events/s", "events", "own CPU ms/pod", "server CPU ms/pod", "CPUs elsewhere")
HEADING = " " * 14 + "".join(f"{column:>{len(column) + 3}}" for column in COLUMNS)


def row(name: str, figures: Figures) -> str:
    rate, with_events, events, *rest = figures
    cells = [f"{rate:.0f}", f"{with_events:.0f}" if events else "-", f"{events}", *(f"{each:.2f}" for each in rest)]
    return f"{name:14}" + "".join(f"{cell:>{len(column) + 3}}" for cell, column in zip(cells, COLUMNS, strict=True))


def _ratios(results: dict[str, list[Figures]]) -> list[str]:
    """headgate beside each of the others that ran, by the medians of the rounds."""
    rates = {name: statistics.median(one.rate for one in rounds) for name, rounds in results.items()}
    costs = {name: statistics.median(one.server_cpu for one in rounds) for name, rounds in results.items()}
    ours, cost = rates.pop("headgate", 0.0), costs.get("headgate", 0.0)
    return [
        f"headgate / {name:15}{ours / rate:6.2f} bound a second, {cost / costs[name]:.2f} of server CPU for each pod"
        for name, rate in rates.items()
        if ours
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Pods bound per second on a real kube-apiserver.")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=1, help="times each contender runs; ratios are of medians")
    parser.add_argument("--only", action="append", choices=[each.name for each in CONTENDERS], help="may be repeated")
    chosen = parser.parse_args()
    contenders = [each for each in CONTENDERS if not chosen.only or each.name in chosen.only]
    try:
        with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder, Cluster(Path(folder)) as cluster:
            uvloop.run(run(cluster, chosen.nodes, chosen.pods, chosen.rounds, contenders))
    except MissingProgram as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
