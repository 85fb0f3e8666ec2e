"""How long the published quota benchmarks take in the simulator: small Kubernetes, world and our process, all of it.

Workloads without an owner arrive at given intervals in virtual time; a runner of this benchmark's marks each Finished
once it was admitted for its run time. Every write is validated, stored, watched and decoded as in any simulation. Their
number belongs to the result: who writes more events takes longer, and less for each write.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from bench_quota import BASELINE, LARGE, Class

from headgate.apiserver import Json, Request
from headgate.lifecycle.workload.eviction import finished
from headgate.model.effects import Effect, PatchStatus, WakeAt
from headgate.model.events import Event, Observed, TimerFired
from headgate.model.keys import Kind
from headgate.model.queues import QueuedWorkload
from headgate.model.settings import Role, Settings
from headgate.simulator.cluster import SimulatedCluster
from headgate.simulator.faults import NO_FAULTS, FaultInjector
from headgate.simulator.network import Network
from headgate.simulator.process import ProcessPlan
from headgate.simulator.virtual_time import VirtualTime

OBJECTS_BETWEEN_COLLECTIONS = 1_000_000  # as `headgate simulate` has it: a run keeps nearly all it makes
EPOCH = 1_767_225_600.0
QUEUES = "/apis/kueue.x-k8s.io/v1beta2"
EVENTS = "/apis/events.k8s.io/v1/events"


class ListMetadata(msgspec.Struct):
    resourceVersion: str  # noqa: N815
    remainingItemCount: int = 0  # noqa: N815


class EventPage(msgspec.Struct):
    metadata: ListMetadata
    items: list[msgspec.Raw]


class Shape(NamedTuple):
    cohorts: int
    queues: int
    classes: tuple[Class, ...]
    goal: float  # seconds

    @property
    def size(self) -> int:
        return self.cohorts * self.queues * sum(kind.count for kind in self.classes)


SHAPES = {"baseline": Shape(5, 6, BASELINE, 10), "large-scale": Shape(10, 100, LARGE, 60)}


class Yardstick:
    """A plain loop, run now and then beside the run: how fast the machine is meanwhile, which varies by the minute."""

    EVERY, STEPS = 20, 10_000  # instants of virtual time, and look-ups in a dict

    def __init__(self) -> None:
        self.taken: list[float] = []
        self._instants = 0

    def look(self) -> None:
        self._instants += 1
        if self._instants % self.EVERY == 0:
            began, counts = time.perf_counter(), dict[int, int]()
            for step in range(self.STEPS):
                counts[step & 1023] = counts.get(step & 511, 0) + len((step, step))
            self.taken.append(time.perf_counter() - began)

    @property
    def mean(self) -> float:
        return sum(self.taken) / max(1, len(self.taken))


class Runner:
    """Work that ends by itself when it was admitted for long enough."""

    reads = (Kind.KUEUE_WORKLOAD,)

    def __init__(self, runtimes: dict[str, float]) -> None:
        self._runtimes = runtimes
        self._running: dict[str, QueuedWorkload] = {}  # by uid
        self.waits: dict[str, list[float]] = {}
        self.evictions = self.finished = 0

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        effects: list[Effect] = []
        for event in batch:
            if isinstance(event, Observed) and isinstance(event.object, QueuedWorkload):
                self._see(event.object, now, effects)
            elif isinstance(event, TimerFired) and event.timer in self._running:
                workload = self._running.pop(event.timer)
                self.finished += 1
                effects.append(PatchStatus(workload.target, finished(workload, "Succeeded", "done", now)))
        return effects

    def _see(self, workload: QueuedWorkload, now: float, effects: list[Effect]) -> None:
        if workload.is_true("Finished"):
            return
        if not workload.is_true("Admitted"):
            self.evictions += self._running.pop(workload.uid, None) is not None
            return
        if workload.uid not in self._running:
            kind = workload.labels["class"]
            self.waits.setdefault(kind, []).append(now - workload.created)
            effects.append(WakeAt(now + self._runtimes[kind], workload.uid))
        self._running[workload.uid] = workload


class Run:
    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.time = VirtualTime[Callable[[], None]](now=EPOCH)
        self.runner = Runner({kind.name: kind.runtime for kind in shape.classes})
        plan = ProcessPlan(Settings(roles=frozenset({Role.QUOTA})))
        self.cluster = SimulatedCluster(
            "one", 0, FaultInjector(NO_FAULTS, 0), plan, Network(), more_controllers=(self.runner,)
        )
        self.yardstick = Yardstick()
        self._set_up()

    def _set_up(self) -> None:
        self.create("resourceflavors", {"kind": "ResourceFlavor", "metadata": {"name": "default"}})
        for cohort in range(self.shape.cohorts):
            for index in range(self.shape.queues):
                name = f"cohort-{cohort}-queue-{index}"
                self.create("clusterqueues", cluster_queue(name, f"cohort-{cohort}"))
                self.create("namespaces/default/localqueues", local_queue(name))
                for kind in self.shape.classes:
                    for number in range(kind.count):
                        self.time.wake(EPOCH + number * kind.every, self._arriving(name, kind, number))

    def _arriving(self, queue: str, kind: Class, number: int) -> Callable[[], None]:
        return lambda: self.create("namespaces/default/workloads", workload(queue, kind, number))

    def create(self, where: str, manifest: Json) -> None:
        body = msgspec.json.encode({"apiVersion": "kueue.x-k8s.io/v1beta2", **manifest})
        answer = self.cluster.server.handle(Request("POST", f"{QUEUES}/{where}", {}, body), self.time.now)
        assert answer.code == 201, answer.body

    def written(self) -> tuple[int, int]:
        """The version of the server, which every write moves on by one, and the events it has."""
        events = self.cluster.server.handle(Request("GET", EVENTS, {"limit": "1"}, b""), self.time.now)
        page = msgspec.json.decode(events.body, type=EventPage)
        return int(page.metadata.resourceVersion), len(page.items) + page.metadata.remainingItemCount

    def go(self, most: float) -> None:
        self._settle()
        while self.time.awaiting and (at := self.time.next_at) is not None and at <= EPOCH + most:
            self.time.advance(at)
            self._settle()
            self.yardstick.look()

    def _settle(self) -> None:
        while True:
            rang = [ring() for ring in self.time.due()]
            if not self.cluster.round(self.time.now, self.time.wake) and not rang:
                return


def cluster_queue(name: str, cohort: str) -> Json:
    quota = {"name": "cpu", "nominalQuota": "20", "borrowingLimit": "100"}
    return {
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "cohortName": cohort,
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [
                {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]},
            ],
        },
    }


def local_queue(name: str) -> Json:
    return {
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterQueue": name},
    }


def workload(queue: str, kind: Class, number: int) -> Json:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": str(kind.cores)}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "kind": "Workload",
        "metadata": {
            "name": f"{queue}-{kind.name}-{number}",
            "namespace": "default",
            "labels": {"class": kind.name},
        },
        "spec": {
            "queueName": queue,
            "priority": kind.priority,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, default="baseline")
    parser.add_argument("--cohorts", type=int, help="fewer of them, for a first look")
    parser.add_argument("--until", type=float, default=1e9, help="virtual seconds, for a first look")
    arguments = parser.parse_args()
    shape = SHAPES[arguments.shape]
    shape = shape._replace(cohorts=arguments.cohorts or shape.cohorts)
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    run = Run(shape)
    before, _ = run.written()
    began, cpu = time.perf_counter(), time.process_time()
    run.go(arguments.until)
    beside = sum(run.yardstick.taken)
    took, cpu = time.perf_counter() - began - beside, time.process_time() - cpu - beside
    total = shape.size
    whole = run.runner.finished == total == SHAPES[arguments.shape].size
    met = ("met" if took <= shape.goal else "NOT met") if whole else "is for all of them"
    print(
        f"{arguments.shape}: {run.runner.finished} of {total} workloads finished in {took:.1f} s ({cpu:.1f} s of cpu); "
    )
    print(f"goal {shape.goal:g} s: {met}; {1e6 * cpu / max(1, run.runner.finished):.0f} us each")
    after, events = run.written()
    print(f"{after - before} writes, {events} of them events; {1e6 * cpu / max(1, after - before):.0f} us each")
    loop = run.yardstick.mean
    print(f"as long as {took / (loop or took):.0f} plain loops of {Yardstick.STEPS} steps, each {1e3 * loop:.2f} ms")
    print(f"virtual time {run.time.now - EPOCH:.1f} s, {run.runner.evictions} evictions")
    for kind, waits in sorted(run.runner.waits.items()):
        print(f"{kind}: {sum(waits) / len(waits):.1f} s from creation to admission")


if __name__ == "__main__":
    main()
