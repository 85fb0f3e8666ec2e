"""How long the engine takes to answer one change: 1,000 queues in 10 cohorts, 50,000 workloads waiting.

All quota is in use. One running workload finishes; the step that sees it runs cycle after cycle, with the heads of a
hundred queues each, until nobody else can be admitted. The write that admits the next one, and its answer, are steps of
their own. Measured are the step and a cycle of it, with all that goes with it, beside a plain look at all who wait.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Sequence
from typing import TypeVar, cast

from bench_quota import NAMESPACE, SHAPES, queue, workload
from msgspec import structs

from headgate.engine.loop import Engine
from headgate.engine.quota.admission_cycle import AdmissionCycle, QuotaSnapshot, cycle
from headgate.engine.quota.admission_cycle import Outcome as Decided
from headgate.lifecycle.workload.conditions import with_status
from headgate.lifecycle.workload.eviction import finished
from headgate.model.effects import Effect, FleetEffect, PatchStatus
from headgate.model.events import Event, Observed, Outcome
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import IN_USE
from headgate.model.objects import Namespace, Object
from headgate.model.queues import LocalQueue, QueuedWorkload, QueuedWorkloadStatus, ResourceFlavor
from headgate.model.settings import QuotaSettings, Role, Settings
from headgate.quota.pending_workload import PendingWorkload

GOAL = 0.020  # seconds
R = TypeVar("R")


class Cycles:
    """How many cycles were run."""

    def __init__(self) -> None:
        self.count = 0

    def watch(self, rule: R, point: str) -> R:
        return cast(R, self) if isinstance(rule, AdmissionCycle) else rule

    def outcomes(
        self, snapshot: QuotaSnapshot, heads: Sequence[PendingWorkload], settings: QuotaSettings
    ) -> list[Decided]:
        self.count += 1
        return cycle(snapshot, heads, settings)


class Cluster:
    """Objects as the engine's writes leave them."""

    def __init__(self, cohorts: int, queues: int, copies: int) -> None:
        self.cycles = Cycles()
        self.engine = Engine(Settings(roles=frozenset({Role.QUOTA})), watch=self.cycles.watch)
        self.objects: dict[Key, Object] = {}
        self.running: dict[Key, None] = {}
        self.version = 1
        self.now = 1000.0
        self.events: list[Event] = []
        for found in (*surroundings(cohorts, queues), *work(cohorts, queues, copies)):
            self.put(found)

    def put(self, found: Object) -> None:
        self.version += 1
        found = structs.replace(found, version=str(self.version))
        self.objects[found.key] = found
        self.events.append(Observed(found))

    def step(self) -> float:
        """One step, what it asks for done; how long the engine took."""
        batch, self.events = self.events, []
        began = time.perf_counter()
        effects = self.engine.step(batch, self.now)
        took = time.perf_counter() - began
        self.engine.journal.take()
        for effect in effects:
            self.do(effect)
        return took

    def do(self, effect: Effect | FleetEffect) -> None:
        if not isinstance(effect, PatchStatus):
            return
        found = self.objects[effect.target.key]
        if isinstance(found, QueuedWorkload) and isinstance(effect.change, QueuedWorkloadStatus):
            found = with_status(found, effect.change)
            if found.is_true("Admitted"):
                self.running[found.key] = None
        self.put(found)
        self.events.append(Outcome(effect))

    def settle(self) -> None:
        while self.events:
            self.step()

    def finish_one(self) -> list[float]:
        """The oldest running workload is done; how long each step took until all is quiet."""
        self.now += 10.0
        key = next(iter(self.running))
        del self.running[key]
        found = self.objects[key]
        assert isinstance(found, QueuedWorkload)
        self.put(with_status(found, finished(found, "Succeeded", "done", self.now)))
        took = []
        while self.events:
            took.append(self.step())
        return took


def surroundings(cohorts: int, queues: int) -> list[Object]:
    made: list[Object] = [
        Namespace(Key(Kind.NAMESPACE, "", NAMESPACE), "namespace", "", {}),
        ResourceFlavor(Key(Kind.RESOURCE_FLAVOR, "", "default"), "flavor", "", finalizers=(IN_USE,)),
    ]
    for cohort in range(cohorts):
        for index in range(queues):
            one = structs.replace(queue(cohort, index), finalizers=(IN_USE,))
            local = Key(Kind.LOCAL_QUEUE, NAMESPACE, one.name)
            made += [one, LocalQueue(local, f"local-{one.name}", "", cluster_queue=one.name)]
    return made


def work(cohorts: int, queues: int, copies: int) -> list[Object]:
    _, _, classes = SHAPES["large-scale"]
    return [
        workload(queue(cohort, index).name, kind, number)
        for cohort in range(cohorts)
        for index in range(queues)
        for kind in classes
        for number in range(kind.count * copies)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=50)
    parser.add_argument("--cohorts", type=int, default=10)
    arguments = parser.parse_args()
    cluster = Cluster(arguments.cohorts, 100, 1)
    cluster.settle()
    waiting = sum(isinstance(one, QueuedWorkload) for one in cluster.objects.values()) - len(cluster.running)
    print(f"{arguments.cohorts * 100} queues, {len(cluster.running)} workloads running, {waiting} waiting")
    gc.collect()
    gc.freeze()
    before = cluster.cycles.count
    steps = [cluster.finish_one() for _ in range(arguments.changes)]
    each = (cluster.cycles.count - before) / arguments.changes
    first, whole = [took[0] for took in steps], [sum(took) for took in steps]
    looked = time.perf_counter()
    sum(isinstance(one, QueuedWorkload) and not one.is_true("Admitted") for one in cluster.objects.values())
    looked = time.perf_counter() - looked
    median = statistics.median(first)
    print(f"one change: {1e3 * median:.1f} ms (median), {1e3 * max(first):.1f} ms (worst), {each:.1f} cycles")
    print(f"            {1e3 * statistics.median(whole):.1f} ms with the steps that hear of the writes it led to")
    print(f"one cycle:  {1e3 * median / each:.1f} ms")
    print(f"one plain look at everybody: {1e3 * looked:.1f} ms, {looked / median:.1f} times as long")
    print(f"goal {1e3 * GOAL:g} ms for a cycle: {'met' if median / each <= GOAL else 'NOT met'}")


if __name__ == "__main__":
    main()
