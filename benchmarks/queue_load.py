"""The load of Kueue's baseline benchmark on an API server: its shape, and who creates, finishes and counts.

A `Driver` creates workloads at their intervals and finishes them; a `NullManager` also admits them, with no regard to
quota; a `KueuesDriver` also ends evictions, for Kueue.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kubernetes"))

from bench_quota import BASELINE, Class
from children import Child
from objects import create_namespace
from watching import Condition
from wire import JSON_PATCH, Client

API = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{API}/workloads"
QUEUES_PER_COHORT = 6
NOMINAL, BORROWING = 20, 100  # cores
RAW_WORKLOADS, FEWEST_RAW_WORKLOADS = 1000, 200  # for the whole shape, and for any part of it
IDLE_TURNS = 30  # workloads finished one by one on the idle server
PROGRESS = 10.0  # seconds between two lines about it
STANDSTILL = 60.0  # seconds without any change after which it is given up
PREEMPTOR = re.compile(r"UID: ([0-9a-f-]{36})")


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


class _Metadata(Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815


class _Status(Struct):
    conditions: list[Condition] = []


class _Seen(Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: _Status = msgspec.field(default_factory=_Status)


class _Line(Struct):
    type: str
    object: _Seen


class Eviction(NamedTuple):
    """A workload that was admitted lost its quota."""

    victim: str  # its class
    why: str
    preemptor: str  # its class


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

    def __init__(self, client: Client, shape: Shape, process: Child | None) -> None:
        self._client, self._shape, self._process = client, shape, process
        self._line = msgspec.json.Decoder(_Line).decode
        self._ends: set[asyncio.Task[None]] = set()
        self._all_finished = asyncio.Event()
        self._trouble: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.works: dict[tuple[str, str], Work] = {}
        self.admissions = self.finished = 0
        self.evictions: list[Eviction] = []
        self._uids: dict[str, Work] = {}
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
        self._uids[seen.metadata.uid] = work
        true = {one.type for one in seen.status.conditions if one.status == "True"}
        runs = "Admitted" in true and "Evicted" not in true and "Finished" not in true
        if runs and work.ends is None:
            self._start(work)
        elif not runs and work.ends is not None:
            if "Finished" not in true:
                self._count_eviction(work, seen.status.conditions)
                self.waiting[cohort_of(work.queue)] += 1
            self._stop(work)
        if "Finished" in true and not work.finished:
            self._end(work)

    def _count_eviction(self, work: Work, conditions: Sequence[Condition]) -> None:
        preempted = next((one for one in conditions if one.type == "Preempted"), Condition("Preempted", "False"))
        named = PREEMPTOR.search(preempted.message)
        preemptor = self._uids.get(named[1]) if named else None
        self.evictions.append(Eviction(work.kind.name, preempted.reason, preemptor.kind.name if preemptor else "?"))

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
        self._begin(self._say_finished(work))

    def _begin(self, writing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(writing)
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
        return len(self.works), self.admissions, len(self.evictions), self.finished

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
            self._begin(self._admit(work))

    async def _admit(self, work: Work) -> None:
        await self._client.patch(f"{work.path}/status", admitted(work.queue))


class KueuesDriver(Driver):
    """A driver that also takes quota from what was evicted, as Kueue leaves to the controllers of jobs."""

    def _see(self, seen: _Seen) -> None:
        super()._see(seen)
        true = {one.type for one in seen.status.conditions if one.status == "True"}
        if {"Evicted", "QuotaReserved"} <= true and "Finished" not in true:
            self._begin(self._take_quota(seen))

    async def _take_quota(self, seen: _Seen) -> None:
        """By the version that was seen: if that is outdated, a later one will be seen."""
        about = seen.metadata
        steps: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": about.resourceVersion}
        ]
        for index, one in enumerate(seen.status.conditions):
            if one.type in ("QuotaReserved", "Admitted"):
                said = condition(one.type, "Pending") | {"status": "False"}
                steps.append({"op": "replace", "path": f"/status/conditions/{index}", "value": said})
        steps.append({"op": "remove", "path": "/status/admission"})
        path = f"{API}/namespaces/{about.namespace}/workloads/{about.name}/status"
        answer = await self._client.request("PATCH", path, steps, JSON_PATCH)
        assert answer.code in (200, 409, 422), answer.body.decode(errors="replace")


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


def admitted(queue: str) -> dict[str, Any]:
    """The status of a workload that has got its quota."""
    assigned = {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}, "count": 1}
    told = [condition("QuotaReserved", "QuotaReserved"), condition("Admitted", "Admitted")]
    return {"status": {"admission": {"clusterQueue": queue, "podSetAssignments": [assigned]}, "conditions": told}}


def answered(place: str, code: int) -> str:
    return place if code < 300 else f"{place} refused with {code}"
