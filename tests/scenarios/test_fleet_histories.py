"""What becomes of dispatched work on the whole stack: kinds of jobs, evictions, deletions, lost workers, crashes."""

import pytest
from fleet_scenarios import (
    HOME,
    QUEUE_NAME,
    dispatched,
    fleet,
    job,
    manager,
    member,
    of_kind,
    pod,
    pod_template,
    preemptions,
    told,
    worker,
)

from headgate.simulator.virtual_time import run

TRAIN = {"kind": "Job", "namespace": "default", "name": "train"}
AWAY = ("Job", "Workload", "Pod")


def at(seconds, cluster=HOME, **action):
    return {"at": f"{seconds}s", "cluster": cluster, **action}


def two_workers(*timeline, until="1h", cpu=1000, **own):
    """Two workers called a and b, with these jobs of their own."""
    workers = [worker(name, *own.get(name, ())) for name in ("a", "b")]
    return run(fleet([manager("a", "b", cpu=cpu), *workers], timeline, until=until))


def elsewhere(report, *clusters):
    """Jobs, Workloads and pods in these clusters at the end."""
    return [name for cluster in clusters for kind in AWAY for name in of_kind(report, cluster, kind)]


def is_complete(report, name):
    conditions = of_kind(report, HOME, "Job")[name]["status"]["conditions"]
    return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)


@pytest.mark.parametrize(
    "manifests, workload",
    [
        pytest.param([dispatched("train", run=60)], "train", id="a Job"),
        pytest.param([job("train", run=60)], "train", id="a Job of which nothing is said about who runs it"),
        pytest.param([pod("alone", run=60)], "alone", id="a pod"),
        pytest.param([member(f"m-{n}", "duo", 2, cpu=2, run=60) for n in range(2)], "duo", id="a group of pods"),
    ],
)
def test_it_runs_on_one_worker_and_how_it_ended_is_shown_at_home(manifests, workload):
    report = two_workers(at(10, apply=manifests), until="10m")
    finished = of_kind(report, HOME, "Workload")[workload]["status"]["conditions"][-1]
    assert (finished["type"], finished["status"]) == ("Finished", "True")
    assert all(found["status"]["phase"] == "Succeeded" for found in of_kind(report, HOME, "Pod").values())
    assert told(report, "dispatch") == [(10, HOME, workload, "Admitted")]
    assert elsewhere(report, "a", "b") == []


def test_preempted_on_its_worker_it_is_dispatched_anew():
    report = two_workers(
        at(10, apply=[dispatched("train", "low", run=600)]), at(60, "a", apply=[job("boss", "high", run=3000)])
    )
    assert told(report, "dispatch", "preempt") == [
        (10, HOME, "train", "Admitted"),
        (60, HOME, "train", "Admitted"),
        (60, "a", "train", "InClusterQueue"),
    ]
    assert is_complete(report, "train")
    assert of_kind(report, HOME, "Workload")["train"]["status"]["clusterName"] == "b"


def test_preempted_at_home_it_stops_on_its_worker_and_runs_again_later():
    report = two_workers(
        at(10, apply=[dispatched("train", "low", run=600)]), at(60, apply=[dispatched("boss", run=100)]), cpu=4
    )
    assert preemptions(report) == {HOME: 1}
    assert told(report, "dispatch") == [
        (10, HOME, "train", "Admitted"),
        (60, HOME, "boss", "Admitted"),
        (160, HOME, "train", "Admitted"),
    ]
    assert is_complete(report, "train")
    assert is_complete(report, "boss")
    assert elsewhere(report, "a", "b") == []


@pytest.mark.parametrize(
    "meanwhile",
    [
        pytest.param([], id="at once"),
        pytest.param([at(50, "a", disconnect="2m")], id="when its worker is back"),
        pytest.param([at(50, HOME, disconnect="2m")], id="when the manager is back"),
        pytest.param([at(50, HOME, crash="2m")], id="when our process has started again"),
        pytest.param([at(50, "a", crash="2m")], id="by a worker whose process is down, once that runs again"),
    ],
)
def test_what_is_deleted_at_home_is_deleted_on_its_worker(meanwhile):
    report = two_workers(at(10, apply=[dispatched("train", run=600)]), *meanwhile, at(60, delete=TRAIN), until="10m")
    assert of_kind(report, "a", "Pod") == {}
    assert elsewhere(report, "a", "b") == []


def test_a_gate_that_opens_is_told_at_home():
    report = two_workers(
        at(10, apply=[dispatched("urgent", run=60)]),
        until="2m",
        a=[job("low-a", "low", run=5000)],
        b=[job("low-b", "low", cpu=2, run=5000), job("low-c", "low", cpu=2, run=5000)],
    )
    events = [
        found for found in report.final[HOME] if found["kind"] == "Event" and found["reason"] == "PreemptionGateOpened"
    ]
    assert [event["note"] for event in events] == [
        "Preemption is allowed on worker cluster a: 1 workload of priority up to 100, 10 pod-seconds of work lost"
    ]


def test_the_pods_of_a_stateful_set_run_on_a_worker_and_are_shown_at_home():
    labels = {"app": "web"}
    template = pod_template(1, 0, 0, restartPolicy="Always")
    template["metadata"]["labels"] = labels
    spec = {"replicas": 2, "serviceName": "web", "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "web", "namespace": "default", "labels": {QUEUE_NAME: "team"}}
    web = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}
    deletion = {"kind": "StatefulSet", "namespace": "default", "name": "web"}

    report = two_workers(at(10, apply=[web]), until="1m")
    for cluster in (HOME, "a"):
        pods = of_kind(report, cluster, "Pod")
        assert {name: found["status"]["phase"] for name, found in pods.items()} == {
            "web-0": "Running",
            "web-1": "Running",
        }
    assert not any("nodeName" in found["spec"] for found in of_kind(report, HOME, "Pod").values())

    report = two_workers(at(10, apply=[web]), at(60, delete=deletion), until="5m")
    assert elsewhere(report, HOME, "a", "b") == []
