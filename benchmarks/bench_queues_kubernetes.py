"""Kueue's baseline benchmark on a real kube-apiserver: how long `headgate run --roles quota` takes, and what it writes.

python benchmarks/bench_queues_kubernetes.py
python benchmarks/bench_queues_kubernetes.py --cohorts 1 --scale 0.2

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
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import uvloop
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kubernetes"))

from assets import MissingProgram
from bench_kubernetes import Meter
from bench_quota import BASELINE, Class
from children import eventually
from cluster import Cluster
from metering import scrape, values_of
from objects import create_namespace
from ours import HEADGATE, OurProcess
from wire import JSON_PATCH, Client

API = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{API}/workloads"
QUEUES_PER_COHORT = 6
NOMINAL, BORROWING = 20, 100  # cores
RAW_NAMESPACE = "raw"
RAW_WORKLOADS, FEWEST_RAW_WORKLOADS = 1000, 200  # for the whole shape, and for any part of it
KUEUES_WAITS = {"large": 44.0, "medium": 120.0, "small": 240.0}  # seconds, measured on a machine of two cores
MOST_WRITES = 1.2  # of ours for each workload
SLOWEST = 1.3  # times what the quota, or the null manager, takes
MOST_CONFLICTS = 0.01  # of the driver's writes
IDLE_TURNS = 30  # workloads finished one by one on the idle server
WRITE_VERBS = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE"})
PROGRESS = 10.0  # seconds between two lines about it
QUIET_CPU, QUIET_TRIES = 0.15, 30  # CPU seconds in one second, and seconds
STANDSTILL = 60.0  # seconds without any change after which it is given up
LOG_SHOWN = 8000  # characters of headgate's log, should it fail


# the shape


class Shape(NamedTuple):
    """All of the baseline, or a part of it: fewer cohorts, or only so large a part of each class."""

    cohorts: int
    scale: float
    prefix: str = "cohort"

    @property
    def classes(self) -> tuple[Class, ...]:
        return tuple(kind._replace(count=max(1, round(kind.count * self.scale))) for kind in BASELINE)

    @property
    def queues(self) -> tuple[str, ...]:
        places = itertools.product(range(self.cohorts), range(QUEUES_PER_COHORT))
        return tuple(f"{self.prefix}-{cohort}-queue-{index}" for cohort, index in places)

    @property
    def workloads(self) -> int:
        return len(self.queues) * sum(kind.count for kind in self.classes)

    @property
    def raw_workloads(self) -> int:
        return max(FEWEST_RAW_WORKLOADS, round(RAW_WORKLOADS * self.scale))

    @property
    def service_bound(self) -> float:
        """Seconds that no scheduler can save: all the work on all the quota, or the last arrival and its run."""
        work = sum(kind.count * kind.cores * kind.runtime for kind in self.classes) / NOMINAL
        return max(work, *(kind.count * kind.every + kind.runtime for kind in self.classes))


def of_kueue(kind: str, name: str, spec: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:
    described = {"name": name, **metadata}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": described, "spec": spec}


def cluster_queue(name: str) -> dict[str, Any]:
    quota = {"name": "cpu", "nominalQuota": NOMINAL, "borrowingLimit": BORROWING}
    flavor = {"name": "default", "resources": [quota]}
    spec = {
        "cohortName": cohort_of(name),
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
    }
    return of_kueue("ClusterQueue", name, spec)


def cohort_of(queue: str) -> str:
    return queue.rpartition("-queue-")[0]


def workload(queue: str, kind: Class, index: int) -> dict[str, Any]:
    container = {"name": "main", "image": "registry.example/none", "resources": {"requests": {"cpu": str(kind.cores)}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {
        "queueName": queue,
        "priority": kind.priority,
        "podSets": [{"name": "main", "count": 1, "template": template}],
    }
    return of_kueue("Workload", f"{kind.name}-{index}", spec)


async def create_queues(client: Client, queues: Sequence[str]) -> None:
    await client.create(f"{API}/resourceflavors", of_kueue("ResourceFlavor", "default", {}))
    for name in queues:
        await create_namespace(client, name)
        await client.create(f"{API}/clusterqueues", cluster_queue(name))
        await client.create(
            f"{API}/namespaces/{name}/localqueues", of_kueue("LocalQueue", name, {"clusterQueue": name})
        )


async def until_active(client: Client, queues: Sequence[str]) -> None:
    """Headgate has taken them up."""
    while True:
        found = (await client.get(f"{API}/clusterqueues"))["items"]
        active = [one for one in found if says(one.get("status", {}).get("conditions", []), "Active")]
        if len(active) == len(queues):
            return
        await asyncio.sleep(0.1)


def says(conditions: Sequence[Mapping[str, str]], kind: str) -> bool:
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


# the driver


Writes = Counter[tuple[str, str]]
"""Write requests that were answered, by verb and resource, those that were refused apart."""


class _Condition(Struct):
    type: str
    status: str
    reason: str = ""


class _Metadata(Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815


class _Status(Struct):
    conditions: list[_Condition] = []


class _Seen(Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: _Status = msgspec.field(default_factory=_Status)


class _Line(Struct):
    type: str
    object: _Seen


class Work:
    """One workload, from its creation to its end."""

    __slots__ = ("admitted_at", "called_finished", "created_at", "ends", "finished", "kind", "path", "queue", "version")

    def __init__(self, queue: str, kind: Class, path: str) -> None:
        self.queue, self.kind, self.path = queue, kind, path
        self.created_at, self.admitted_at = time.monotonic(), 0.0
        self.ends: asyncio.TimerHandle | None = None  # while it is admitted
        self.version = ""  # as seen last
        self.called_finished = False  # by us; what it looks like may be seen a while later
        self.finished = False


class Driver:
    """Creates workloads and lets them run; knows of them what a watch says, in the order of the server's versions."""

    def __init__(self, client: Client, shape: Shape, process: OurProcess | None) -> None:
        self._client, self._shape, self._process = client, shape, process
        self._line = msgspec.json.Decoder(_Line).decode
        self._ends: set[asyncio.Task[None]] = set()
        self._all_finished = asyncio.Event()
        self._trouble: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.works: dict[tuple[str, str], Work] = {}
        self.admissions = self.finished = 0
        self.evicted: Counter[tuple[str, str]] = Counter()  # by class of the workload and why it was preempted
        self.writes: Writes = Counter()
        self.in_use: Counter[str] = Counter()  # cores by cohort
        self.most_in_use = 0
        self.last_finish = 0.0
        self.conflicts: Counter[str] = Counter()  # by what had been written about the workload
        self.waiting: Counter[str] = Counter()  # workloads by cohort
        self._given_back: dict[str, float] = {}  # when quota of a cohort was given back that nobody has got since
        self.turnarounds: list[float] = []  # seconds from then to the next admission

    async def run(self, seconds: float) -> float:
        """Seconds from the beginning until the last of them was seen to be finished; raises TimeoutError."""
        version = (await self._client.get(f"{WORKLOADS}?limit=1"))["metadata"]["resourceVersion"]
        began = time.monotonic()
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch(version))
            telling = group.create_task(self._tell_progress(began))
            creating = [group.create_task(self._create_all(*one, began)) for one in self._streams()]
            await asyncio.gather(*creating)
            await asyncio.wait(
                (asyncio.ensure_future(self._all_finished.wait()), self._trouble), return_when="FIRST_COMPLETED"
            )
            watching.cancel()
            telling.cancel()
        if self._trouble.done():
            self._trouble.result()
        return self.last_finish - began

    def waits(self) -> dict[str, float]:
        """Seconds from creation to the last admission, on average, by class."""
        return {
            kind.name: statistics.fmean(
                work.admitted_at - work.created_at for work in self.works.values() if work.kind.name == kind.name
            )
            for kind in self._shape.classes
        }

    def _streams(self) -> Iterator[tuple[str, Class]]:
        return itertools.product(self._shape.queues, self._shape.classes)

    async def _create_all(self, queue: str, kind: Class, began: float) -> None:
        """One after the other, each at its time or as soon after it as the server lets us."""
        path = f"{API}/namespaces/{queue}/workloads"
        for index in range(kind.count):
            await asyncio.sleep(max(0.0, began + (index + 1) * kind.every - time.monotonic()))
            name = f"{kind.name}-{index}"
            self.works[queue, name] = Work(queue, kind, f"{path}/{name}")
            self.waiting[cohort_of(queue)] += 1
            self.writes["POST", "workloads"] += 1
            await self._client.create(path, workload(queue, kind, index))

    async def _watch(self, version: str) -> None:
        """Again from where it ended, whenever the server ends it: it does once it has learned all of a new kind."""
        while True:
            async for line in self._client.lines(f"{WORKLOADS}?watch=true&resourceVersion={version}"):
                change = self._line(line)
                assert change.type in ("ADDED", "MODIFIED"), line.decode(errors="replace")
                version = change.object.metadata.resourceVersion
                self._see(change.object)

    def _see(self, seen: _Seen) -> None:
        work = self.works.get((seen.metadata.namespace, seen.metadata.name))
        if work is None:
            return
        work.version = seen.metadata.resourceVersion
        true = {one.type for one in seen.status.conditions if one.status == "True"}
        runs = "Admitted" in true and "Evicted" not in true and "Finished" not in true
        if runs and work.ends is None:
            self._start(work)
        elif not runs and work.ends is not None:
            self._stop(work)
            if "Finished" not in true:
                why = next((one.reason for one in seen.status.conditions if one.type == "Preempted"), "")
                self.evicted[work.kind.name, why] += 1
                self.waiting[cohort_of(work.queue)] += 1
        if "Finished" in true and not work.finished:
            self._end(work)

    def _start(self, work: Work) -> None:
        self.admissions += 1
        work.admitted_at = time.monotonic()
        cohort = cohort_of(work.queue)
        self.waiting[cohort] -= 1
        if (since := self._given_back.pop(cohort, None)) is not None:
            self.turnarounds.append(work.admitted_at - since)
        work.ends = asyncio.get_running_loop().call_later(work.kind.runtime, self._finish, work)
        self._use(work, work.kind.cores)

    def _stop(self, work: Work) -> None:
        assert work.ends is not None
        work.ends.cancel()
        work.ends = None
        self._use(work, -work.kind.cores)

    def _use(self, work: Work, cores: int) -> None:
        cohort = cohort_of(work.queue)
        self.in_use[cohort] += cores
        self.most_in_use = max(self.most_in_use, self.in_use[cohort])

    def _end(self, work: Work) -> None:
        work.finished = True
        self.finished += 1
        self.last_finish = time.monotonic()
        if self.finished == self._shape.workloads:
            self._all_finished.set()

    def _finish(self, work: Work) -> None:
        if work.called_finished:  # it was evicted and admitted again before that was seen
            return
        work.called_finished = True
        task = asyncio.ensure_future(self._say_finished(work))
        self._ends.add(task)
        task.add_done_callback(self._said)

    def _said(self, task: asyncio.Task[None]) -> None:
        self._ends.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._trouble.done():
            self._trouble.set_exception(error)

    async def _say_finished(self, work: Work) -> None:
        """By the version that was seen. After a conflict it is looked at again, and left alone if it was evicted."""
        admitted_at = work.admitted_at
        while True:
            version, cohort = work.version, cohort_of(work.queue)
            test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
            answer = await self._client.request("PATCH", f"{work.path}/status", [test, FINISH], JSON_PATCH)
            self.writes["PATCH", answered("workloads/status", answer.code)] += 1
            if answer.code < 300:
                if self.waiting[cohort]:
                    self._given_back.setdefault(cohort, time.monotonic())
                return
            assert answer.code in (409, 422), answer.body.decode(errors="replace")
            while work.version == version:
                await asyncio.sleep(0.01)
            evicted = work.ends is None or work.admitted_at != admitted_at
            self.conflicts["an eviction" if evicted else "news"] += 1
            if evicted:
                work.called_finished = False
                return

    async def _tell_progress(self, began: float) -> None:
        before = self._progress()
        moved_at = began
        while True:
            await asyncio.sleep(PROGRESS)
            assert self._process is None or self._process.running, "headgate ended"
            now = self._progress()
            print(
                "  {:4.0f} s: {} created, {} admissions, {} evictions, ".format(time.monotonic() - began, *now[:3])
                + f"{self.finished} of {self._shape.workloads} finished",
                flush=True,
            )
            if now != before:
                before, moved_at = now, time.monotonic()
            assert time.monotonic() - moved_at < STANDSTILL, await self._story()

    def _progress(self) -> tuple[int, int, int, int]:
        return len(self.works), self.admissions, self.evicted.total(), self.finished

    async def _story(self) -> str:
        """What one of those looks like that get no further."""
        stuck = [work for work in self.works.values() if not work.finished]
        shown = (await self._client.get_bytes(stuck[0].path)).decode()
        return f"{len(stuck)} workloads get no further, such as {shown}"


class NullManager(Driver):
    """A driver that admits what it creates itself, at once and with no regard to quota."""

    def __init__(self, client: Client, shape: Shape) -> None:
        super().__init__(client, shape, None)
        self._asked: set[str] = set()

    def _see(self, seen: _Seen) -> None:
        super()._see(seen)
        work = self.works.get((seen.metadata.namespace, seen.metadata.name))
        if work is not None and work.path not in self._asked:
            self._asked.add(work.path)
            task = asyncio.ensure_future(self._admit(work))
            self._ends.add(task)
            task.add_done_callback(self._said)

    async def _admit(self, work: Work) -> None:
        await self._client.patch(f"{work.path}/status", admitted(work.queue))


async def idle_turnarounds(client: Client, queue: str) -> list[float]:
    """Seconds from an answer that says quota was given back to the next admission, with nothing else to do."""
    driver = Driver(client, Shape(1, 1.0), None)
    kind = BASELINE[-1]._replace(name="idle", cores=NOMINAL * QUEUES_PER_COHORT, runtime=3600.0)
    version = (await client.get(f"{WORKLOADS}?limit=1"))["metadata"]["resourceVersion"]
    watching = asyncio.ensure_future(driver._watch(version))
    path = f"{API}/namespaces/{queue}/workloads"
    for index in range(IDLE_TURNS + 1):
        driver.works[queue, f"idle-{index}"] = Work(queue, kind, f"{path}/idle-{index}")
        driver.waiting[cohort_of(queue)] += 1
        await client.create(path, workload(queue, kind, index))
    for index in range(IDLE_TURNS):
        while driver.admissions <= index:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        running = next(work for work in driver.works.values() if work.ends is not None)
        await driver._say_finished(running)
    while len(driver.turnarounds) < IDLE_TURNS:
        await asyncio.sleep(0.01)
    watching.cancel()
    return driver.turnarounds


def condition(kind: str, reason: str) -> dict[str, str]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": now}


FINISH = {"op": "add", "path": "/status/conditions/-", "value": condition("Finished", "ByBenchmark")}


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


def admitted(queue: str) -> dict[str, Any]:
    """The status of a workload that has got its quota."""
    assigned = {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}, "count": 1}
    told = [condition("QuotaReserved", "QuotaReserved"), condition("Admitted", "Admitted")]
    return {"status": {"admission": {"clusterQueue": queue, "podSetAssignments": [assigned]}, "conditions": told}}


# what was written


def answered(place: str, code: int) -> str:
    return place if code < 300 else f"{place} refused with {code}"


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
    waits: Mapping[str, float]
    admissions: int
    evicted: Counter[tuple[str, str]]
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
            seconds = await driver.run(limit)
            own, servers = process.cpu_seconds - own, _server_cpu(cluster) - servers
            mine, elsewhere = time.process_time() - mine, meter.busy_beside(own + servers)
            steps, written = Steps.of(process), await writes_so_far(client) - written
            idle = await idle_turnarounds(client, shape.queues[0])
        after = await raw_rate(client, "after", shape.raw_workloads)
    return Figures(
        seconds,
        (before, after),
        driver.writes.total(),
        written - driver.writes,
        driver.waits(),
        driver.admissions,
        driver.evicted,
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
    print(
        f"{figures.admissions} admissions, {figures.evicted.total()} evictions; most cores in use in a cohort:", end=" "
    )
    print(f"{figures.most_in_use} of {QUEUES_PER_COHORT * NOMINAL}")
    for (kind, why), evicted in sorted(figures.evicted.items()):
        print(f"  {evicted:6} evicted: {kind}, {why}")
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
    number, events, seconds = figures.steps
    print(f"{number:.0f} steps of {events / number:.1f} events and {1000 * seconds / number:.1f} ms")
    print(f"writes: {figures.driver_writes} of the driver, {figures.our_writes.total()} of headgate:")
    for (verb, resource), written in sorted(figures.our_writes.items(), key=lambda one: -one[1]):
        print(f"  {written / shape.workloads:7.3f} a workload  {verb} {resource}")
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
    goal("our writes for each workload", figures.our_writes.total() / shape.workloads, MOST_WRITES)
    goal("times the null manager", figures.seconds / figures.null.seconds, SLOWEST)
    goal("conflicts by news, of its finishes", figures.conflicts["news"] / shape.workloads, MOST_CONFLICTS)


def goal(what: str, measured: float, most: float) -> None:
    print(f"{what:36}{measured:10.2f}{f'<= {most:.2f}':>12}   {'met' if measured <= most else 'NOT MET'}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Kueue's baseline benchmark on a real kube-apiserver.")
    parser.add_argument("--cohorts", type=int, default=5, choices=range(1, 6))
    parser.add_argument("--scale", type=float, default=1.0, help="the part of each class that comes, such as 0.1")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which it is given up")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends it, nothing stays behind
    shape = Shape(chosen.cohorts, chosen.scale)
    print(f"{shape.workloads} workloads in {len(shape.queues)} queues of {shape.cohorts} cohorts, without webhooks")
    try:
        with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder, Cluster(Path(folder)) as cluster:
            install(cluster)
            report(shape, uvloop.run(measure(cluster, shape, chosen.limit)))
    except MissingProgram as trouble:
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
