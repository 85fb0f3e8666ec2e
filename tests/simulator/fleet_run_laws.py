"""Laws of whole fleets in virtual time: random clusters, jobs, faults, partitions and restarts of either side.

A history is one seed. That no workload runs in two clusters and no two of its gates are open within the timeout is
checked after every step of every run, by the simulator itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from fleet_scenarios import (
    HOME,
    PREEMPTED,
    Json,
    crashed,
    dispatched,
    fleet,
    job,
    manager,
    member,
    of_kind,
    opened,
    pod,
    preemptions,
    worker,
    writes_of_the_manager,
)

from headgate.simulator.faults import Faults, WriteFault
from headgate.simulator.report import Report
from headgate.simulator.scenario import Scenario
from headgate.simulator.virtual_time import run

ORIGIN = "kueue.x-k8s.io/multikueue-origin"
DISPATCHERS = ("all-at-once", "all-at-once", "incremental")
END = "3h"


class RandomFleet:
    """The fleet of one seed. All work in it ends by itself, if it may."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.workers = [f"w{number}" for number in range(self.dice.randint(2, 4))]
        self.cpu = {name: self.dice.choice((2, 4, 6)) for name in self.workers}
        self.most = max(self.cpu.values())

    def scenario(self, *disturbances: Json) -> Scenario:
        arrivals = [
            {"at": f"{self.dice.randint(0, 60)}s", "cluster": HOME, "apply": list(made)} for made in self.dispatched()
        ]
        clusters = [
            manager(*self.workers, cpu=self.dice.choice((self.most, 1000)), config=self.config()),
            *(worker(name, *self.own_jobs(name), cpu=self.cpu[name]) for name in self.workers),
        ]
        return fleet(clusters, [*arrivals, *disturbances], until=END)

    def config(self) -> Json:
        dispatcher = self.dice.choice(DISPATCHERS)
        return {
            "multiKueue": {
                "dispatcherName": f"kueue.x-k8s.io/multikueue-dispatcher-{dispatcher}",
                "incrementalDispatcherConfig": {"stepSize": 1},
                "workerLostTimeout": self.dice.choice(("1m", "15m")),
                "singleClusterPreemptionTimeout": self.dice.choice(("30s", "5m")),
                "proposalWindow": self.dice.choice(("0s", "1s", "5s")),
                "gcInterval": "30s",
            }
        }

    def own_jobs(self, name: str) -> Iterator[Json]:
        for number in range(self.dice.randint(0, 2)):
            priority, cpu = self.dice.choice(("low", "middle", "high")), self.dice.randint(1, self.cpu[name])
            yield job(f"own-{number}", priority, cpu=cpu, run=self.dice.choice((20, 90, 300)), stop=self.stop())

    def dispatched(self) -> Iterator[tuple[Json, ...]]:
        """Jobs, pods and groups; each fits into the largest cluster."""
        for number in range(self.dice.randint(1, 4)):
            given: dict[str, Any] = {
                "priority": self.dice.choice(("low", "middle", "high")),
                "run": self.dice.choice((5, 40, 120)),
                "stop": self.stop(),
            }
            cpu, name = self.dice.randint(1, self.most), f"away-{number}"
            match self.dice.choice(("job", "job", "pod", "group")):
                case "job":
                    yield (dispatched(name, cpu=cpu, **given),)
                case "pod":
                    yield (pod(name, cpu=cpu, **given),)
                case _:
                    yield tuple(member(f"{name}-{at}", name, 2, cpu=max(1, cpu // 2), **given) for at in range(2))

    def stop(self) -> int:
        return self.dice.choice((0, 0, 10))

    def faults(self) -> Faults:
        def chance(*values: float) -> float:
            return self.dice.choice(values)

        return Faults(
            crash=chance(0.0, 0.0, 0.02),
            lost=chance(0.0, 0.1),
            conflict=chance(0.0, 0.1),
            coalesced=chance(0.0, 0.3),
            dropped=chance(0.0, 0.1),
            stale=chance(0.0, 0.5, 3.0),
            restart=chance(0.0, 5.0),
        )

    def disturbances(self) -> Iterator[Json]:
        """Partitions of workers and of the manager, crashes of either side."""
        for _ in range(self.dice.randint(0, 4)):
            what = self.dice.choice(("disconnect", "disconnect", "crash"))
            seconds = self.dice.choice((1, 20, 200) if what == "disconnect" else (0, 10, 60))
            where = self.dice.choice([*self.workers, *self.workers, HOME])
            yield {"at": f"{self.dice.randint(0, 200)}s", "cluster": where, what: f"{seconds}s"}


def leftovers(report: Report) -> list[str]:
    """What managers left behind in worker clusters."""
    return [
        f"{cluster}: {found['kind']} {found['metadata']['name']}"
        for cluster, objects in report.final.items()
        if cluster != HOME
        for found in objects
        if ORIGIN in found["metadata"].get("labels", {})
    ]


def unfinished(report: Report) -> list[str]:
    return [
        name
        for name, found in of_kind(report, HOME, "Workload").items()
        if not any(each["type"] == "Finished" and each["status"] == "True" for each in found["status"]["conditions"])
    ]


def what_some_cluster_can_run_runs_and_leaves_nothing_behind(seed: int) -> None:
    drawn = RandomFleet(seed)
    report = run(drawn.scenario(*drawn.disturbances()), seed, drawn.faults())
    assert not report.refused
    assert not unfinished(report)
    assert of_kind(report, HOME, "Workload"), "a fleet without work shows nothing"
    assert not leftovers(report)


def what_is_deleted_at_home_is_deleted_everywhere(seed: int) -> None:
    drawn = RandomFleet(seed)
    deletions = [
        {
            "at": f"{drawn.dice.randint(1, 200)}s",
            "cluster": HOME,
            "delete": {"kind": kind, "namespace": "default", "name": name},
        }
        for number in range(4)
        for kind, name in (
            ("Job", f"away-{number}"),
            ("Pod", f"away-{number}"),
            *(("Pod", f"away-{number}-{at}") for at in range(2)),
        )
    ]
    report = run(drawn.scenario(*drawn.disturbances(), *deletions), seed, drawn.faults())
    assert not [name for name in unfinished(report) if not name.startswith("away")]
    assert not leftovers(report)


def a_crash_at_any_write_lets_nobody_else_preempt(seed: int) -> None:
    """Every seed is another write of a run in which one of two workers preempts, and a crash before or after it.

    Which of them it is may change: a worker that crashes before it signals may come back when the window is over.
    """
    first, last = writes_of_a_preemption()
    dice = random.Random(seed)
    number, fault = dice.randrange(first, last), dice.choice((WriteFault.CRASH_BEFORE, WriteFault.CRASH_AFTER))
    report = run(preemption("3m"), 0, Faults(at={number: fault}, restart=dice.choice((0.0, 2.0))))
    allowed = opened(report)
    assert (preemptions(report), sum(allowed.values())) == (allowed, 1), f"{fault} write {number}"
    assert not unfinished(report), f"{fault} write {number}"
    assert not leftovers(report), f"{fault} write {number}"


def a_crash_of_the_manager_changes_nothing_of_what_the_document_tells(seed: int) -> None:
    """Every seed is another write of the manager in one of its scenarios, and a crash before or after it."""
    cases = [
        (name, number, fault)
        for name in PREEMPTED
        for number in writes_of_the_manager(name)
        for fault in (WriteFault.CRASH_BEFORE, WriteFault.CRASH_AFTER)
    ]
    crashed(*cases[seed % len(cases)])


@cache
def writes_of_a_preemption() -> tuple[int, int]:
    """The numbers of the first write for the job that preempts, and of the one after the last."""
    return int(run(preemption("9s")).summary["effects"]), int(run(preemption("3m")).summary["effects"])


def preemption(until: str) -> Scenario:
    workers = [worker(name, job(f"low-{name}", "low", run=5000)) for name in ("a", "b")]
    arrival = {"at": "10s", "cluster": HOME, "apply": [dispatched("urgent", run=60)]}
    return fleet([manager("a", "b"), *workers], [arrival], until=until)


LAWS: dict[str, Callable[[int], object]] = {
    law.__name__: law
    for law in (
        what_some_cluster_can_run_runs_and_leaves_nothing_behind,
        what_is_deleted_at_home_is_deleted_everywhere,
        a_crash_at_any_write_lets_nobody_else_preempt,
        a_crash_of_the_manager_changes_nothing_of_what_the_document_tells,
    )
}
