"""Pods bound per second on one real kube-apiserver: raw binding requests, kube-scheduler and headgate, side by side.

All find the same pods waiting and the same empty nodes, and each is a process of its own. A watch of ours takes
the time from the first node name set to the last. Raw requests are sent by headgate's own account, so that the server
authorizes both alike; once by a client that does nothing else, and once by one that watches the pods as well, as every
scheduler has to. kube-scheduler runs its default configuration with `clientConnection.qps` and `burst` at 5000, so
that its client does not hold it back; leader election is off for it and for headgate.

What a machine does changes by more from minute to minute than what is compared here. So raw requests run right
before or right after headgate, one as often as the other, and what counts is the median of the rounds' ratios.
kube-scheduler, which takes longest, runs in the first round only.

Where no CPU is idle while pods are bound, the rate is what the CPU time for each pod leaves: the server's, the
contender's, and that of the watch.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import ssl
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import uvloop
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kubernetes"))

from assets import MissingProgram, program
from children import Child
from cluster import KUBE_SCHEDULER, Cluster
from objects import create_namespace, create_nodes, create_pods, node, pod, pods_path, remove_all
from ours import OurProcess
from watching import PodWatch
from wire import Client, Server

from headgate.live.performer import CONCURRENCY

CLIENT_RATE = 5000  # requests a second kube-scheduler's client may send
PATIENCE = 600.0  # seconds one contender may take
EVENTS_QUIET = 2.0  # seconds without a new event after which no more are expected
PAUSE = 1.0  # seconds for servers to finish what they have begun
WARM_UP = 1000  # pods that are bound before anything is measured


class Course(NamedTuple):
    """Where all contenders run."""

    cluster: Cluster
    client: Client
    nodes: Sequence[str]
    pods: int
    account: Path  # the kubeconfig of headgate's own account


class Runner(Protocol):
    """A contender at work."""

    @property
    def cpu_seconds(self) -> float: ...

    def stop(self) -> None: ...


def raw_bindings(course: Course, namespace: str, *more: str) -> Child:
    counts = (f"--nodes={len(course.nodes)}", f"--pods={course.pods}")
    flags = (f"--raw={namespace}", f"--kubeconfig={course.account}", *counts, *more)
    return Child([sys.executable, __file__, *flags], course.cluster.folder / "raw.log")


def watching_bindings(course: Course, namespace: str) -> Child:
    return raw_bindings(course, namespace, "--watch")


async def bind_raw(server: Server, namespace: str, nodes: int, pods: int, *, watches: bool) -> None:
    """The pods in turn to the nodes in turn, by as many requests at once as headgate makes."""

    async def bind(number: int) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node_name(number % nodes)}
        name = pod_name(number)
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await client.create(f"{pods_path(namespace)}/{name}/binding", binding)

    async with PodWatch(server, namespace) if watches else contextlib.nullcontext():
        async with Client(server, CONCURRENCY) as client:
            await asyncio.gather(*map(bind, range(pods)))
        await asyncio.Event().wait()  # its CPU time is read while it runs


def server_of(kubeconfig: Path) -> Server:
    """As the account of a kubeconfig whose only proof is a token."""
    document = yaml.safe_load(kubeconfig.read_text())
    cluster, token = document["clusters"][0]["cluster"], document["users"][0]["user"]["token"]
    host, port = cluster["server"].removeprefix("https://").split(":")
    tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
    return Server(host, int(port), tls, f"Authorization: Bearer {token}\r\n")


def node_name(number: int) -> str:
    return f"node-{number}"


def pod_name(number: int) -> str:
    return f"pod-{number}"


def kube_scheduler(course: Course, _namespace: str) -> Child:
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


def our_scheduler(course: Course, _namespace: str) -> Child:
    return OurProcess(course.account, course.cluster.folder / "headgate.log", "--no-leader-elect")


class Contender(NamedTuple):
    name: str
    scheduler_name: str
    start: Callable[[Course, str], Runner]
    writes_events: bool = True


RAW = Contender("raw", "nobody", raw_bindings, writes_events=False)
WATCHING = Contender("raw, watching", "nobody", watching_bindings, writes_events=False)
REAL = Contender("kube-scheduler", "default-scheduler", kube_scheduler)
OURS = Contender("headgate", "headgate", our_scheduler)
CONTENDERS = (RAW, WATCHING, REAL, OURS)


class Figures(NamedTuple):
    """What one contender did in one round."""

    rate: float  # pods bound per second, first to last
    rate_with_events: float  # pods per second until its last event was written
    events: int
    own_cpu: float  # milliseconds a pod, from the first binding to the last
    own_cpu_in_all: float  # milliseconds a pod, from its start to its last event
    server_cpu: float  # milliseconds a pod, kube-apiserver and etcd, from the first binding to the last
    server_cpu_in_all: float  # milliseconds a pod, from its start to the last binding: with what it lists and watches
    elsewhere: float  # CPUs kept busy by programs that have no part in this: above 0.2 or so, measure again
    idle: float  # CPUs with nothing to do from the first binding to the last


async def race(course: Course, contender: Contender, namespace: str) -> Figures:
    """One contender, from pods that wait to pods that are bound; nodes are empty again, and its events gone."""
    await create_namespace(course.client, namespace)
    async with PodWatch(course.cluster.server, namespace) as watch:
        waiting = [pod(pod_name(index), scheduler=contender.scheduler_name) for index in range(course.pods)]
        await create_pods(course.client, namespace, waiting)
        await watch.until("all pods are seen", lambda: len(watch.pods) == course.pods, PATIENCE)
        await asyncio.sleep(PAUSE)
        before, meter = _server_cpu(course.cluster), Meter()
        runner = contender.start(course, namespace)
        try:
            await watch.until("the first pod is bound", lambda: watch.bound > 0, PATIENCE)
            own_start, server_start, binding = runner.cpu_seconds, _server_cpu(course.cluster), Meter()
            await watch.until("all pods are bound", lambda: watch.bound == course.pods, PATIENCE)
            server_end, own_end = _server_cpu(course.cluster), runner.cpu_seconds
            elsewhere, idle = meter.busy_beside(server_end - before + own_end), binding.idle()
            events, last_event = await events_written(course, namespace) if contender.writes_events else (0, 0.0)
            own_cpu_in_all = runner.cpu_seconds
        finally:
            runner.stop()
        _check_room(watch, course)
    await empty(course, namespace)
    first, last = min(watch.bound_at.values()), max(watch.bound_at.values())
    return Figures(
        rate=course.pods / (last - first),
        rate_with_events=course.pods / (max(last, last_event) - first),
        events=events,
        own_cpu=(own_end - own_start) / course.pods * 1000,
        own_cpu_in_all=own_cpu_in_all / course.pods * 1000,
        server_cpu=(server_end - server_start) / course.pods * 1000,
        server_cpu_in_all=(server_end - before) / course.pods * 1000,
        elsewhere=elsewhere,
        idle=idle,
    )


class Meter:
    """How busy the machine is from now on."""

    def __init__(self) -> None:
        self._started, self._busy, self._own = time.monotonic(), machine_cpu(), time.process_time()

    def busy_beside(self, known: float) -> float:
        """CPUs busy on average with anything but this process and `known` CPU seconds."""
        all_busy, own = machine_cpu() - self._busy, time.process_time() - self._own
        return max(0.0, all_busy - own - known) / (time.monotonic() - self._started)

    def idle(self) -> float:
        """CPUs with nothing to do, on average."""
        return max(0.0, (os.cpu_count() or 1) - (machine_cpu() - self._busy) / (time.monotonic() - self._started))


def machine_cpu() -> float:
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
        found = await count(course.client, events_path(namespace))
        if found != seen:
            seen, since = found, time.monotonic()
        await asyncio.sleep(0.1)
    return seen, since


async def empty(course: Course, namespace: str) -> None:
    for collection in (pods_path(namespace), events_path(namespace)):
        await remove_all(course.client, collection)
        while await count(course.client, collection):
            await asyncio.sleep(0.1)


def events_path(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


async def count(client: Client, collection: str) -> int:
    page = await client.get(f"{collection}?limit=1")
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


async def run(cluster: Cluster, nodes: int, pods: int, rounds: int, chosen: Sequence[Contender]) -> None:
    async with Client(cluster.server) as client:
        names = [node_name(index) for index in range(nodes)]
        await create_nodes(client, map(node, names))
        course = Course(cluster, client, names, pods, cluster.kubeconfig_of_own_account())
        await race(course._replace(pods=min(pods, WARM_UP)), RAW, "warm-up")
        results: dict[str, list[Figures]] = {contender.name: [] for contender in chosen}
        print(f"{nodes} nodes, {pods} pods, one kube-apiserver\n\n{HEADING}")
        for number in range(rounds):
            for position, contender in enumerate(in_round(number, chosen)):
                figures = await race(course, contender, f"bench-{contender.scheduler_name}-{number}-{position}")
                results[contender.name].append(figures)
                print(row(contender.name, figures), flush=True)
        print("\n" + "\n".join(_ratios(results)))


def in_round(number: int, chosen: Sequence[Contender]) -> list[Contender]:
    """Who runs in a round, in order."""
    near = [each for each in (RAW, OURS, WATCHING) if each in chosen]
    real = [REAL] if REAL in chosen and number == 0 else []
    return real + (near if number % 2 == 0 else near[::-1])


COLUMNS = (
    *("bound/s", "with events/s", "events", "own CPU ms/pod", "in all"),
    *("server CPU ms/pod", "in all", "CPUs elsewhere", "CPUs idle"),
)
HEADING = " " * 14 + "".join(f"{column:>{len(column) + 3}}" for column in COLUMNS)


def row(name: str, figures: Figures) -> str:
    rate, with_events, events, *rest = figures
    cells = [f"{rate:.0f}", f"{with_events:.0f}" if events else "-", f"{events}", *(f"{each:.2f}" for each in rest)]
    return f"{name:14}" + "".join(f"{cell:>{len(column) + 3}}" for cell, column in zip(cells, COLUMNS, strict=True))


def _ratios(results: dict[str, list[Figures]]) -> list[str]:
    """headgate beside each of the others that ran, by the median of the rounds' ratios."""
    ours = results.pop(OURS.name, [])
    return [
        f"headgate / {name:15}{_median(pairs, 'rate'):6.2f} bound a second, "
        f"{_median(pairs, 'server_cpu'):.2f} of server CPU for each pod while they are bound, "
        f"{_median(pairs, 'server_cpu_in_all'):.2f} in all ({_shown(pairs)})"
        for name, others in results.items()
        if (pairs := list(zip(ours, others, strict=False)))
    ]


def _median(pairs: Sequence[tuple[Figures, Figures]], what: str) -> float:
    return statistics.median(float(getattr(mine, what)) / float(getattr(other, what)) for mine, other in pairs)


def _shown(pairs: Sequence[tuple[Figures, Figures]]) -> str:
    return "rates of pairs: " + ", ".join(f"{mine.rate / other.rate:.2f}" for mine, other in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description="Pods bound per second on a real kube-apiserver.")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=1, help="of raw bindings and headgate")
    parser.add_argument("--only", action="append", choices=[each.name for each in CONTENDERS], help="may be repeated")
    parser.add_argument("--raw", metavar="NAMESPACE", help="be the raw client for the pods of a namespace")
    parser.add_argument("--watch", action="store_true", help="watch the pods too, as the raw client")
    parser.add_argument("--kubeconfig", type=Path, help="of the raw client")
    chosen = parser.parse_args()
    if chosen.raw:
        server = server_of(chosen.kubeconfig)
        uvloop.run(bind_raw(server, chosen.raw, chosen.nodes, chosen.pods, watches=chosen.watch))
        return 0
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
