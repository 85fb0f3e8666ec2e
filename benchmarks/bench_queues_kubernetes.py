"""Kueue's baseline benchmark on a real kube-apiserver: how long `headgate run --roles quota` takes, and what it writes.

python benchmarks/bench_queues_kubernetes.py
python benchmarks/bench_queues_kubernetes.py --cohorts 1 --scale 0.2
python benchmarks/bench_queues_kubernetes.py --cohorts 1 --beside-kueue

Five cohorts of six queues, 500 workloads each. A driver in this process creates them at their intervals, watches them,
and calls each Finished once it has been admitted for its run time; one that is evicted starts anew when it is admitted
again. They have no owner, so quota is given and taken by their status alone. No webhooks are installed: every workload
brings its priority, and nothing else would be filled in. Before and after, with headgate not running, a plain client
writes what the run writes of other workloads as fast as the server takes it: it creates them, calls them admitted, and
then finished, and the driver's watch goes on beside it as in the run. That is the raw write rate. (The more a status
says, the more a write of it costs the server: the last costs about three times what the first does. And who watches
costs it an eighth more. So the rate of only one of these writes, or of an unwatched server, would mislead.)

Before headgate a null manager takes the same load in the same run: it admits every workload at once with one patch and
keeps no quota, so its time is what driver and server allow. (It may take less than the quota does: both bound us.)

The goals scale with the work: the time that the quota itself takes (66 s for the whole shape), and the null manager's.
A wait counts from a workload's creation to its last admission, as in Kueue's own runner. The driver calls a workload
Finished by the version it has seen, as controllers do, so it meets a conflict where somebody has written since. When
quota is given back (the server has answered that a workload is finished) the time runs until the next admission in
that cohort is seen, if one waits. Once the load is over the same is measured on the idle server, one at a time.

Every few seconds it is read how busy the machine was and how much headgate has written. The goal for writes holds for
the time in which all CPUs were busy; what is told once there is capacity again is shown beside it.

`--beside-kueue` gives the same load to Kueue's own scheduler on a server of its own, to compare evictions. Its client
sends 50 requests a second at most, so it takes longer.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kubernetes"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kueue"))

from assets import MissingProgram, program
from bench_kubernetes import Meter, machine_cpu
from bench_quota import BASELINE
from children import Child, eventually
from cluster import Cluster
from kueue_oracle import MissingOracle, kueue_definitions, kueue_on_a_server
from metering import scrape, values_of
from objects import create_namespace
from ours import HEADGATE, OurProcess
from queue_load import (
    API,
    FINISH,
    NOMINAL,
    QUEUES_PER_COHORT,
    WORKLOADS,
    Driver,
    Eviction,
    KueuesDriver,
    NullManager,
    Shape,
    Writes,
    admitted,
    answered,
    create_queues,
    idle_turnarounds,
    until_active,
    workload,
)
from wire import JSON_PATCH, Client

RAW_NAMESPACE = "raw"
KUEUES_WAITS = {"large": 44.0, "medium": 120.0, "small": 240.0}  # seconds, measured on a machine of two cores
MOST_WRITES = 1.2  # of ours for each workload
SLOWEST = 1.3  # times what the quota, or the null manager, takes
MOST_CONFLICTS = 0.01  # of the driver's writes
WRITE_VERBS = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE"})
INTERVAL, ALL_BUSY = 4.0, 0.9  # seconds between two readings, and the part of all CPU time from which all are busy
TELLING = 180.0  # seconds in which all must be told once the load is over
QUIET_CPU, QUIET_TRIES = 0.15, 30  # CPU seconds in one second, and seconds
LOG_SHOWN = 8000  # characters of headgate's log, should it fail


# what the server does at best


async def until_quiet(cluster: Cluster) -> None:
    """A server that has just started, or learned new kinds, is busy with itself for a while."""
    for _ in range(QUIET_TRIES):
        before = _server_cpu(cluster)
        await asyncio.sleep(1.0)
        if _server_cpu(cluster) - before < QUIET_CPU:
            return


async def raw_rate(client: Client, name: str, workloads: int) -> float:
    """Writes a second: all are created, all admitted, all finished, by as many requests at once as the driver makes."""
    path = f"{API}/namespaces/{RAW_NAMESPACE}/workloads"
    manifests = [workload(name, BASELINE[0], index) for index in range(workloads)]
    for manifest in manifests:
        manifest["metadata"]["name"] = f"{name}-{manifest['metadata']['name']}"
    statuses = [f"{path}/{manifest['metadata']['name']}/status" for manifest in manifests]
    given = admitted(name)
    watching = asyncio.ensure_future(_listen(client))
    began = time.monotonic()
    await asyncio.gather(*(client.create(path, manifest) for manifest in manifests))
    await asyncio.gather(*(client.patch(status, given) for status in statuses))
    await asyncio.gather(*(client.patch(status, [FINISH], JSON_PATCH) for status in statuses))
    rate = 3 * workloads / (time.monotonic() - began)
    watching.cancel()
    await client.delete(path)
    return rate


async def _listen(client: Client) -> None:
    """As the driver does, whatever is said."""
    while True:
        async for _ in client.lines(f"{WORKLOADS}?watch=true"):
            pass


# what was written


async def writes_so_far(client: Client) -> Writes:
    """Write requests the server has answered about Kueue's kinds and events, by verb and resource."""
    counted: Writes = Counter()
    for line in (await client.get_bytes("/metrics")).decode().splitlines():
        if line.startswith("apiserver_request_total{"):
            labels, value = line.removeprefix("apiserver_request_total{").rsplit("} ", 1)
            known = dict(pair.split("=", 1) for pair in labels.replace('"', "").split(","))
            concerns_us = known["group"] == "kueue.x-k8s.io" or known["resource"] == "events"
            if known["verb"] in WRITE_VERBS and concerns_us:
                place = "/".join(part for part in (known["resource"], known["subresource"]) if part)
                counted[known["verb"], answered(place, int(known["code"]))] += int(float(value))
    return counted


class Steps(NamedTuple):
    """What the engine did."""

    number: float
    events: float
    seconds: float

    @classmethod
    def of(cls, process: OurProcess) -> Steps:
        names = ("headgate_batch_size_count", "headgate_batch_size_sum", "headgate_step_duration_seconds_sum")
        scraped = scrape(process)
        return cls(*(values_of(scraped, name)[()] for name in names))


class Interval(NamedTuple):
    """A few seconds of a run; or all before, where it is a reading."""

    seconds: float
    cpu: float  # seconds that all CPUs together were busy
    writes: int  # of headgate, answered
    finished: int  # workloads

    @classmethod
    async def until_now(cls, process: OurProcess, driver: Driver) -> Interval:
        written = sum(metric(await page_of(process), "headgate_effects_total"))
        return cls(time.monotonic(), machine_cpu(), int(written), driver.finished)

    def since(self, earlier: Interval) -> Interval:
        return Interval(
            self.seconds - earlier.seconds,
            self.cpu - earlier.cpu,
            self.writes - earlier.writes,
            self.finished - earlier.finished,
        )

    @property
    def is_saturated(self) -> bool:
        return self.cpu > ALL_BUSY * self.seconds * (os.cpu_count() or 1)


async def page_of(process: OurProcess) -> str:
    """What it says about itself, without a library that would take the driver's time."""
    reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    page = (await reader.read()).decode()
    writer.close()
    return page


def metric(page: str, name: str) -> list[float]:
    """The values of all series of that name."""
    return [
        float(line.rpartition(" ")[2]) for line in page.splitlines() if line.partition("{")[0].split(" ")[0] == name
    ]


async def read_now_and_then(process: OurProcess, driver: Driver, readings: list[Interval]) -> None:
    """Until it is cancelled."""
    while True:
        readings.append(await Interval.until_now(process, driver))
        await asyncio.sleep(INTERVAL)


async def until_all_is_told(process: OurProcess) -> float:
    """Seconds until nothing waits to be told any more."""
    began = time.monotonic()
    while any(metric(await page_of(process), "headgate_informative_writes_waiting")):
        assert time.monotonic() - began < TELLING, "what waits to be told is not told"
        await asyncio.sleep(0.5)
    return time.monotonic() - began


class NullRun(NamedTuple):
    """The run of the null manager."""

    seconds: float
    server_cpu: float  # CPU seconds
    driver_cpu: float


class Figures(NamedTuple):
    """One run."""

    seconds: float
    raw: tuple[float, float]  # writes a second, before and after
    driver_writes: int
    our_writes: Writes
    intervals: list[Interval]
    told_later: tuple[Writes, float]  # once all were finished, and within how many seconds
    waits: Mapping[str, float]
    admissions: int
    evictions: list[Eviction]
    most_in_use: int
    steps: Steps
    own_cpu: float  # CPU seconds of headgate
    server_cpu: float
    driver_cpu: float
    null: NullRun
    conflicts: Counter[str]  # of the driver
    turnarounds: list[float]
    idle_turnarounds: list[float]
    elsewhere: float  # CPUs kept busy by programs that have no part in this: above 0.2 or so, measure again

    @property
    def all_writes(self) -> int:
        return self.driver_writes + self.our_writes.total()


async def measure(cluster: Cluster, shape: Shape, limit: float) -> Figures:
    async with Client(cluster.server) as client:
        await create_namespace(client, RAW_NAMESPACE)
        await until_quiet(cluster)
        before = await raw_rate(client, "before", shape.raw_workloads)
        null = await null_run(cluster, client, shape._replace(prefix="null"), limit)
        await until_quiet(cluster)
        await create_queues(client, shape.queues)
        async with headgate(cluster) as process:
            await until_active(client, shape.queues)
            driver, written = Driver(client, shape, process), await writes_so_far(client)
            own, servers, mine, meter = process.cpu_seconds, _server_cpu(cluster), time.process_time(), Meter()
            readings: list[Interval] = []
            reading = asyncio.ensure_future(read_now_and_then(process, driver, readings))
            seconds = await driver.run(limit)
            reading.cancel()
            readings.append(await Interval.until_now(process, driver))
            own, servers = process.cpu_seconds - own, _server_cpu(cluster) - servers
            mine, elsewhere = time.process_time() - mine, meter.busy_beside(own + servers)
            steps, ended = Steps.of(process), await writes_so_far(client)
            telling = await until_all_is_told(process)
            told_later = await writes_so_far(client) - ended, telling
            idle = await idle_turnarounds(client, shape.queues[0])
        after = await raw_rate(client, "after", shape.raw_workloads)
    return Figures(
        seconds,
        (before, after),
        driver.writes.total(),
        ended - written - driver.writes,
        [later.since(earlier) for earlier, later in itertools.pairwise(readings)],
        told_later,
        driver.waits(),
        driver.admissions,
        driver.evictions,
        driver.most_in_use,
        steps,
        own,
        servers,
        mine,
        null,
        driver.conflicts,
        driver.turnarounds,
        idle,
        elsewhere,
    )


async def null_run(cluster: Cluster, client: Client, shape: Shape, limit: float) -> NullRun:
    """What the null manager takes; its workloads are gone afterwards."""
    for name in shape.queues:
        await create_namespace(client, name)
    servers, mine = _server_cpu(cluster), time.process_time()
    seconds = await NullManager(client, shape).run(limit)
    servers, mine = _server_cpu(cluster) - servers, time.process_time() - mine
    for name in shape.queues:
        await client.delete(f"{API}/namespaces/{name}/workloads")
    return NullRun(seconds, servers, mine)


async def kueues_run(cluster: Cluster, shape: Shape, limit: float) -> tuple[Driver, float]:
    """The same load with Kueue's own scheduler, and how long it took."""
    command: list[str | Path] = [
        program("kubectl"),
        f"--kubeconfig={cluster.administrator}",
        "create",
        "--filename",
        kueue_definitions(),
    ]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    async with Client(cluster.server) as client:
        await until_quiet(cluster)
        await create_queues(client, shape.queues)
        log = cluster.folder / "kueue.log"
        kueue = Child([kueue_on_a_server(), f"--kubeconfig={cluster.administrator}"], log)
        try:
            await until_active(client, shape.queues)
            driver = KueuesDriver(client, shape, kueue)
            return driver, await driver.run(limit)
        except (AssertionError, ExceptionGroup):
            print(f"the end of Kueue's log:\n{kueue.written()[-LOG_SHOWN:]}", file=sys.stderr)
            raise
        finally:
            kueue.stop()


@asynccontextmanager
async def headgate(cluster: Cluster) -> AsyncIterator[OurProcess]:
    """`headgate run --roles quota` under its own rights; what it has begun to write is written when the block ends."""
    log = cluster.folder / "headgate.log"
    process = OurProcess(cluster.kubeconfig_of_own_account(), log, "--roles", "quota", "--no-leader-elect")
    try:
        eventually("headgate has read the cluster", lambda: process.answers("/readyz"))
        yield process
    except (AssertionError, ExceptionGroup):
        print(f"the end of headgate's log:\n{process.written()[-LOG_SHOWN:]}", file=sys.stderr)
        raise
    finally:
        process.stop()


def _server_cpu(cluster: Cluster) -> float:
    return cluster.apiserver.cpu_seconds + cluster.etcd.cpu_seconds


# what is said of it


def report(shape: Shape, figures: Figures) -> None:
    raw = statistics.fmean(figures.raw)
    print(f"\nraw writes: {figures.raw[0]:.0f}/s before, {figures.raw[1]:.0f}/s after")
    report_evictions("headgate", figures.admissions, figures.evictions)
    print(f"most cores in use in a cohort: {figures.most_in_use} of {QUEUES_PER_COHORT * NOMINAL}")
    print(
        f"CPU seconds: headgate {figures.own_cpu:.1f}, kube-apiserver and etcd {figures.server_cpu:.1f}, "
        f"driver {figures.driver_cpu:.1f}; CPUs busy elsewhere: {figures.elsewhere:.2f}"
    )
    null = figures.null
    cpu = figures.own_cpu + figures.server_cpu + figures.driver_cpu
    print(
        f"with the null manager: kube-apiserver and etcd {null.server_cpu:.1f}, driver {null.driver_cpu:.1f}; "
        f"all CPU seconds are {cpu / (null.server_cpu + null.driver_cpu):.2f} times as many"
    )
    saturated = [one for one in figures.intervals if one.is_saturated]
    number, events, seconds = figures.steps
    print(f"{number:.0f} steps of {events / number:.1f} events and {1000 * seconds / number:.1f} ms")
    print(f"writes: {figures.driver_writes} of the driver, {figures.our_writes.total()} of headgate:")
    for (verb, resource), written in sorted(figures.our_writes.items(), key=lambda one: -one[1]):
        print(f"  {written / shape.workloads:7.3f} a workload  {verb} {resource}")
    told = figures.our_writes["PATCH", "workloads/status"] - figures.admissions - len(figures.evictions)
    print(f"statuses of workloads: {figures.admissions} admissions, {len(figures.evictions)} evictions, {told} others")
    for when, chosen in (("all CPUs were busy", saturated), ("not", others(figures.intervals))):
        wrote, ended = sum(one.writes for one in chosen), sum(one.finished for one in chosen)
        print(f"while {when}: {sum(one.seconds for one in chosen):.0f} s, {wrote} writes, {ended} workloads finished")
    later, telling = figures.told_later
    print(f"once all were finished: {later.total()} writes within {telling:.0f} s, until nothing was left to tell")
    bound = max(shape.service_bound, figures.null.seconds)
    print(f"\nbound by quota {shape.service_bound:.1f} s, by writes {figures.all_writes / raw:.1f} s, ", end="")
    print(f"null manager {figures.null.seconds:.1f} s")
    conflicts = ", ".join(f"{number} by {what}" for what, number in figures.conflicts.items()) or "none"
    print(f"conflicts of the driver: {conflicts}")
    for when, spent in (("under load", figures.turnarounds), ("idle", figures.idle_turnarounds)):
        if len(spent) > 1:
            middle, late = 1000 * statistics.median(spent), 1000 * statistics.quantiles(spent, n=100)[-1]
            print(f"from quota given back to the next admission, {when}: median {middle:.0f} ms, p99 {late:.0f} ms")
    print()
    print(f"{'':36}{'measured':>10}{'goal':>12}")
    goal("seconds until all are finished", figures.seconds, SLOWEST * bound)
    for name, wait in figures.waits.items():
        goal(f"mean wait, {name}, s", wait, KUEUES_WAITS[name])
    if ended := sum(one.finished for one in saturated):
        goal("our writes for each, saturated", sum(one.writes for one in saturated) / ended, MOST_WRITES)
    goal("times the null manager", figures.seconds / figures.null.seconds, SLOWEST)
    goal("conflicts by news, of its finishes", figures.conflicts["news"] / shape.workloads, MOST_CONFLICTS)


def report_evictions(whose: str, admissions: int, evictions: Sequence[Eviction]) -> None:
    """How many, for whom and why, and how many of them before the preemptor's requests were free."""
    share = 100 * len(evictions) / admissions
    print(f"{whose}: {admissions} admissions, {len(evictions)} evictions, {share:.2f} for each hundred")
    for (victim, why, preemptor), number in sorted(Counter(one[:3] for one in evictions).items()):
        alike = [one for one in evictions if one[:3] == (victim, why, preemptor)]
        short = sum(one.makes_room for one in alike)
        print(f"  {number:6} evicted: {victim}, {why}, for {preemptor or '?'}; {short} while it lacked cores")


def others(intervals: Sequence[Interval]) -> list[Interval]:
    return [one for one in intervals if not one.is_saturated]


def goal(what: str, measured: float, most: float) -> None:
    print(f"{what:36}{measured:10.2f}{f'<= {most:.2f}':>12}   {'met' if measured <= most else 'NOT MET'}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Kueue's baseline benchmark on a real kube-apiserver.")
    parser.add_argument("--cohorts", type=int, default=5, choices=range(1, 6))
    parser.add_argument("--scale", type=float, default=1.0, help="the part of each class that comes, such as 0.1")
    parser.add_argument("--beside-kueue", action="store_true", help="the same load with Kueue's own scheduler too")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which it is given up")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends it, nothing stays behind
    shape = Shape(chosen.cohorts, chosen.scale)
    print(f"{shape.workloads} workloads in {len(shape.queues)} queues of {shape.cohorts} cohorts, without webhooks")
    try:
        with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder, Cluster(Path(folder)) as cluster:
            install(cluster)
            report(shape, uvloop.run(measure(cluster, shape, chosen.limit)))
        if chosen.beside_kueue:
            with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder, Cluster(Path(folder)) as cluster:
                driver, seconds = uvloop.run(kueues_run(cluster, shape, chosen.limit))
            print()
            report_evictions("Kueue", driver.admissions, driver.evictions)
            print(f"all finished after {seconds:.0f} s")
    except (MissingProgram, MissingOracle) as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        return 2
    except TimeoutError:
        print(f"error: not all were finished within {chosen.limit:.0f} s", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


def install(cluster: Cluster) -> None:
    subprocess.run([HEADGATE, "install", "--kubeconfig", cluster.administrator], stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    sys.exit(main())
