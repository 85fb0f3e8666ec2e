"""What no history of a fleet may show: a workload that runs in two clusters, or two open gates within the timeout."""

from __future__ import annotations

from typing import Any

import pytest
from builders import changed, kueue_workload, pod, shape
from msgspec import Raw, structs

from headgate.engine.journal import Entry, Journal
from headgate.model.events import Gone, Observed
from headgate.model.keys import Condition, Key, Kind, Target
from headgate.model.kueue_names import MULTIKUEUE, MULTIKUEUE_ORIGIN, PREBUILT_WORKLOAD
from headgate.model.objects import Job
from headgate.model.pod import Pod
from headgate.model.queues import GateStatus, PodSet, QueuedWorkload
from headgate.model.settings import MultiKueueSettings
from headgate.simulator.fleet import FleetInvariants, ManagerCluster, fleet_summary
from headgate.simulator.invariants import BrokenInvariant
from headgate.simulator.network import Network

OURS = {MULTIKUEUE_ORIGIN: "multikueue", PREBUILT_WORKLOAD: "train"}
TRAIN = Key(Kind.KUEUE_WORKLOAD, "default", "train")


class Fleet:
    """A manager called home with the workers a and b."""

    def __init__(self) -> None:
        self.journal, self.network = Journal(), Network()
        self.journal.write(Entry(0.0, TRAIN, "dispatch", "Dispatched", "to a and b"))
        manager = ManagerCluster("home", MultiKueueSettings(), lambda: self.journal)
        self.invariants = FleetInvariants([manager], ["home", "a", "b"], self.network)

    def see(self, cluster: str, *objects: Any, at: float = 0.0) -> None:
        self.invariants.observe(cluster, [Observed(found) for found in objects], at)
        self.invariants.check(at)

    def lose(self, cluster: str, found: Any, at: float = 0.0) -> None:
        self.invariants.observe(cluster, [Gone(found.key, found.uid)], at)
        self.invariants.check(at)

    def counted(self, cluster: str) -> dict[str, object]:
        shown: Any = fleet_summary(self.invariants.counts)["fleet"]
        return shown["clusters"][cluster]


def job(cluster: str, labels: dict[str, str] = OURS) -> Job:
    return Job(Key(Kind.JOB, "default", "job"), f"job-{cluster}", "1", labels, {}, Raw(b"{}"), 0.0)


def running(cluster: str, **fields: Any) -> Pod:
    return pod(f"pod-{cluster}", owner=Target(job(cluster).key, job(cluster).uid), node="n", **fields)


def replica(cluster: str, **fields: Any) -> QueuedWorkload:
    pod_sets = (PodSet("main", shape(), count=2),)
    return kueue_workload(TRAIN, f"train-{cluster}", "1", 0.0, pod_sets, labels=OURS, **fields)


def opened(cluster: str, at: float) -> QueuedWorkload:
    return replica(cluster, gate_statuses=(GateStatus(MULTIKUEUE, open=True, at=at),))


def test_a_job_that_runs_in_two_clusters_is_told_with_its_story():
    fleet = Fleet()
    fleet.see("a", job("a"), running("a"))
    with pytest.raises(BrokenInvariant) as broken:
        fleet.see("b", job("b"), running("b"))
    assert str(broken.value).splitlines()[0].endswith("train: job runs in a and in b")
    assert "dispatch Dispatched: to a and b" in str(broken.value)


def test_a_job_that_runs_at_home_too_is_told():
    fleet = Fleet()
    fleet.see("a", job("a"), running("a"))
    with pytest.raises(BrokenInvariant, match="runs in a and in home"):
        fleet.see("home", job("home", {}), running("home"))


@pytest.mark.parametrize(
    "in_b",
    [
        pytest.param((job("b"), running("b", deleted=1.0)), id="its pod there is being deleted"),
        pytest.param((job("b"), structs.replace(running("b"), node="")), id="its pod there has no node"),
        pytest.param((job("b", {}), running("b")), id="the job there is somebody else's"),
    ],
)
def test_a_job_may_be_in_two_clusters(in_b):
    fleet = Fleet()
    fleet.see("a", job("a"), running("a"))
    fleet.see("b", *in_b)


def test_once_its_pods_are_gone_it_may_run_elsewhere():
    fleet = Fleet()
    fleet.see("a", job("a"), running("a"))
    fleet.lose("a", running("a"))
    fleet.see("b", job("b"), running("b"))


@pytest.mark.parametrize(
    "seconds", [pytest.param(899.0, id="before the timeout"), pytest.param(900.0, id="once it is over")]
)
def test_what_runs_on_a_lost_cluster_counts_until_the_timeout(seconds):
    fleet = Fleet()
    fleet.see("a", job("a"), running("a"))
    fleet.network.cut_off("a", 5000.0)
    fleet.invariants.check(100.0)
    fleet.invariants.check(100.0 + seconds)
    if seconds >= 900.0:
        fleet.see("b", job("b"), running("b"), at=1001.0)
        return
    with pytest.raises(BrokenInvariant):
        fleet.see("b", job("b"), running("b"), at=100.0 + seconds)


def test_a_second_gate_opened_within_the_timeout_is_told_with_its_story():
    fleet = Fleet()
    fleet.see("a", opened("a", 10.0), at=10.0)
    with pytest.raises(BrokenInvariant, match="opened in b, 299 s after the one in a") as broken:
        fleet.see("b", opened("b", 309.0), at=309.0)
    assert "dispatch Dispatched: to a and b" in str(broken.value)


def test_a_second_gate_may_open_after_the_timeout():
    fleet = Fleet()
    fleet.see("a", opened("a", 10.0), at=10.0)
    fleet.see("b", opened("b", 310.0), at=310.0)
    assert (fleet.counted("a")["gatesOpened"], fleet.counted("b")["gatesOpened"]) == (1, 1)


def test_a_second_gate_may_open_when_the_first_is_closed_or_gone():
    fleet = Fleet()
    fleet.see("a", opened("a", 10.0), at=10.0)
    fleet.see("a", replica("a", gate_statuses=(GateStatus(MULTIKUEUE, open=False, at=20.0),)), at=20.0)
    fleet.see("b", opened("b", 21.0), at=21.0)
    fleet.lose("b", opened("b", 21.0), at=22.0)
    fleet.see("a", opened("a", 23.0), at=23.0)


def test_dispatches_preemptions_and_lost_work_are_counted_by_cluster():
    fleet = Fleet()
    admitted = Condition("Admitted", "True", "Admitted", "", 10.0)
    fleet.see("a", replica("a", conditions=(admitted,)), at=10.0)
    evicted = changed(
        replica("a"), conditions=(admitted, Condition("Evicted", "True", "Preempted", "", 40.0)), version="2"
    )
    fleet.see("a", evicted, at=40.0)
    fleet.see("a", changed(evicted, version="3"), at=41.0)
    assert fleet.counted("a") == {"dispatches": 1, "gatesOpened": 0, "preemptions": 1, "workLostSeconds": 60}
    assert fleet.counted("b") == {"dispatches": 0, "gatesOpened": 0, "preemptions": 0, "workLostSeconds": 0}


def test_other_evictions_are_no_preemptions():
    fleet = Fleet()
    fleet.see("a", replica("a", conditions=(Condition("Evicted", "True", "PodsReadyTimeout", "", 40.0),)))
    assert fleet.counted("a")["preemptions"] == 0
