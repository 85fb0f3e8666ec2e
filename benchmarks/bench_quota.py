"""How many workloads a second are admitted: the published baseline shape, driven in process and in virtual time.

Five cohorts of six queues, each queue with 350 small, 100 medium and 50 large workloads: 15,000 in all. Arrivals,
run times and the releases of quota are events of a virtual clock; only decisions take real time.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import random
import time
from typing import NamedTuple

from headgate.engine.quota.admission_cycle import Admitted, Preempting, QuotaSnapshot, admit_all
from headgate.model.keys import Key, Kind
from headgate.model.pod import PodShape
from headgate.model.queues import (
    ClusterQueue,
    FlavorQuotas,
    PodSet,
    QueuedWorkload,
    QueuePreemption,
    Quota,
    Reclaim,
    ResourceFlavor,
    ResourceGroup,
    WithinQueue,
)
from headgate.model.resources import Resources
from headgate.model.settings import DEFAULT_FAIR, QuotaSettings
from headgate.quota.ledger import Ledger
from headgate.quota.pending_queues import PendingQueues
from headgate.quota.pending_workload import PendingWorkload, pending_workload

NAMESPACE = "default"
REST = 0.05  # seconds between two steps on a busy API server


class Class(NamedTuple):
    name: str
    count: int  # type: ignore[assignment]  # tuples have a method of this name
    cores: int
    runtime: float
    priority: int
    every: float


BASELINE = (
    Class("small", 350, 1, 0.2, 50, 0.1),
    Class("medium", 100, 5, 0.5, 100, 0.5),
    Class("large", 50, 20, 1.0, 200, 1.2),
)
LARGE = (
    Class("small", 35, 1, 0.15, 50, 0.06),
    Class("medium", 11, 5, 0.35, 100, 0.3),
    Class("large", 4, 20, 0.7, 200, 0.7),
)
SHAPES = {"baseline": (5, 6, BASELINE), "large-scale": (10, 100, LARGE)}


def queue(cohort: int, index: int) -> ClusterQueue:
    quota = FlavorQuotas("default", (("cpu", Quota(20_000, 100_000)),))
    preemption = QueuePreemption(WithinQueue.LOWER_PRIORITY, Reclaim.ANY)
    key = Key(Kind.CLUSTER_QUEUE, "", f"cohort-{cohort}-queue-{index}")
    groups = (ResourceGroup(("cpu",), (quota,)),)
    return ClusterQueue(key, key.name, "1", groups, f"cohort-{cohort}", namespaces=(), preemption=preemption)


def workload(queue_name: str, kind: Class, index: int) -> QueuedWorkload:
    shape = PodShape(requests=Resources.of({"cpu": kind.cores * 1000}))
    key = Key(Kind.KUEUE_WORKLOAD, NAMESPACE, f"{queue_name}-{kind.name}-{index}")
    created = index * kind.every
    return QueuedWorkload(key, key.name, "1", created, (PodSet("main", shape),), queue_name, kind.priority)


class Run:
    """Events in order of time: a workload arrives, ends, or has left after its eviction."""

    def __init__(
        self,
        cohorts: int,
        queues: int,
        classes: tuple[Class, ...],
        settings: QuotaSettings,
        period: float = 0.0,
        write_time: float = 0.0,
    ) -> None:
        """When quota is given back, workloads that wait are tried again after `period` seconds.

        Each write takes effect after at most `write_time` seconds; then decisions are made every `REST` seconds.
        """
        self.period, self.write_time = period, write_time
        self.random = random.Random(1)
        self.waking: set[str] = set()  # cohorts whose workloads will be tried again
        made = [queue(cohort, index) for cohort in range(cohorts) for index in range(queues)]
        self.ledger = Ledger(made)
        self.pending = PendingQueues()
        self.pending.configure(made, {one.name: self.ledger.forest.tree_of(one.name) for one in made})
        flavors = {"default": ResourceFlavor(Key(Kind.RESOURCE_FLAVOR, "", "default"), "", "")}
        self.snapshot = QuotaSnapshot(self.ledger, flavors, lambda queue, namespace: True)
        self.settings = settings
        self.sequence = itertools.count()
        self.events: list[tuple[float, int, str, PendingWorkload, int]] = []
        self.runtimes: dict[Key, float] = {}
        self.attempts: dict[Key, int] = {}
        self.pending_by_uid: dict[str, PendingWorkload] = {}
        self.waits: dict[int, list[float]] = {kind.priority: [] for kind in classes}
        self.now = 0.0
        self.cycles = self.heads = self.admitted = self.evicted = 0
        for one in made:
            for kind in classes:
                for index in range(kind.count):
                    self.arrive(pending_workload(workload(one.name, kind, index), one.name, settings), kind)

    def arrive(self, one: PendingWorkload, kind: Class) -> None:
        self.runtimes[one.key] = kind.runtime
        self.pending_by_uid[one.workload.uid] = one
        self.written(one.workload.created, "arrives", one, 0)

    def at(self, when: float, what: str, one: PendingWorkload, attempt: int) -> None:
        heapq.heappush(self.events, (when, next(self.sequence), what, one, attempt))

    def written(self, when: float, what: str, one: PendingWorkload, attempt: int) -> None:
        """It happens when a write that is sent at this time takes effect."""
        self.at(when + self.random.uniform(0.0, self.write_time), what, one, attempt)

    def go(self) -> float:
        began = time.process_time()
        while self.events:
            now = self.now = self.events[0][0] + (REST if self.write_time else 0.0)
            while self.events and self.events[0][0] <= now:
                _, _, what, one, attempt = heapq.heappop(self.events)
                self.happens(now, what, one, attempt)
            self.decide(now)
        return time.process_time() - began

    def happens(self, now: float, what: str, one: PendingWorkload, attempt: int) -> None:
        if what == "is tried again":
            self.waking.discard(cohort_of(one))
            self.pending.wake(one.queue, now)
            return
        if what != "has left":
            self.ledger.forget_allocations(one.queue)  # a change from outside
        if what == "arrives":
            self.pending.add(one, now)
        elif self.attempts.get(one.key) == attempt and self.ledger.release(one.queue, one.workload.uid):
            self.given_back(one, now)
            if what == "has left":
                self.pending.add(one, now)

    def given_back(self, one: PendingWorkload, now: float) -> None:
        if not self.period:
            self.pending.wake(one.queue, now)
        elif cohort_of(one) not in self.waking:
            self.waking.add(cohort_of(one))
            self.at(now + self.period, "is tried again", one, 0)

    def decide(self, now: float) -> None:
        for outcomes in admit_all(self.pending, self.snapshot, self.settings, now):
            self.cycles += 1
            self.heads += len(outcomes)
            for outcome in outcomes:
                if isinstance(outcome, Admitted):
                    self.start(outcome.head, now)
                elif isinstance(outcome, Preempting):
                    self.stop(outcome, now)

    def start(self, one: PendingWorkload, now: float) -> None:
        self.admitted += 1
        attempt = self.attempts[one.key] = self.attempts.get(one.key, 0) + 1
        self.waits[one.priority].append(now - one.workload.created)
        starts = now + self.random.uniform(0.0, self.write_time)
        self.written(starts + self.runtimes[one.key], "ends", one, attempt)

    def stop(self, outcome: Preempting, now: float) -> None:
        for victim in outcome.victims:
            if not victim.reservation.evicted:
                self.evicted += 1
                one = self.pending_by_uid[victim.reservation.uid]
                self.written(now + 0.001, "has left", one, self.attempts[one.key])


def cohort_of(one: PendingWorkload) -> str:
    return one.queue.rpartition("-queue-")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, default="baseline")
    parser.add_argument("--fair", action="store_true", help="fair sharing instead of the classical order")
    parser.add_argument(
        "--requeue-period",
        type=float,
        default=0.0,
        help="seconds after which waiting workloads are tried again when quota is given back: Kueue's are 1",
    )
    parser.add_argument(
        "--write-time",
        type=float,
        default=0.0,
        help="seconds until a write takes effect, at most: on a busy API server about 1",
    )
    arguments = parser.parse_args()
    settings = QuotaSettings(fair=DEFAULT_FAIR if arguments.fair else ())
    run = Run(*SHAPES[arguments.shape], settings, arguments.requeue_period, arguments.write_time)
    seconds = run.go()
    rate = run.admitted / seconds
    print(f"{run.admitted} admissions, {run.evicted} evictions, {seconds:.2f} s of cpu time: {rate:.0f} admissions/s")
    print(f"all ended after {run.now:.0f} s, in virtual time")
    print(f"{run.cycles} cycles, {run.heads} heads looked at, {1e6 * seconds / max(1, run.heads):.0f} us each")
    for priority, waits in run.waits.items():
        print(f"priority {priority}: {sum(waits) / len(waits):.1f} s from creation to admission, in virtual time")


if __name__ == "__main__":
    main()
