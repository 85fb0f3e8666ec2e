"""Scenarios survive a crash before and after every single write."""

from __future__ import annotations

from pathlib import Path

import pytest
from crash_everywhere import assert_crashes_change_nothing, crashes
from small_scenarios import member, nodes, pod, priority_class, scenario, where, workload

from headgate.simulator.scenario import load_scenario, parse_scenario

EXAMPLES = Path(__file__).parents[2] / "examples"
VOLCANO = Path(__file__).parents[1] / "scenarios" / "volcano"

CROWDED = """
kind: Scenario
clusters:
- name: main
  nodes: [{count: 3, name: "n-%d", capacity: {cpu: "2", memory: 4Gi}}]
  objects:
  - {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 100}
  - apiVersion: batch/v1
    kind: Job
    metadata: {name: low, namespace: default}
    spec:
      parallelism: 5
      completions: 8
      template:
        metadata: {annotations: {headgate.dev/run-seconds: "10"}}
        spec:
          schedulerName: headgate
          restartPolicy: Never
          containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
timeline:
- at: 5s
  apply:
  - apiVersion: v1
    kind: Pod
    metadata: {name: large, namespace: default}
    spec:
      schedulerName: headgate
      priorityClassName: high
      containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]
- {at: 12s, dropNode: n-1}
- {at: 40s, addNodes: [{name: late, capacity: {cpu: "8", memory: 4Gi}}]}
until: settled
"""


def kept_apart():
    """Five gated pods that keep apart; their gates go one by one, and the fifth finds no node of its own."""
    ours = {"matchLabels": {"app": "ours"}}
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": ours}
    even = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": ours}
    demands = {
        "schedulingGates": [{"name": "example.com/go"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        "topologySpreadConstraints": [even],
    }
    pods = [pod(f"p{i}", run="30", **demands) for i in range(5)]
    for each in pods:
        each["metadata"]["labels"] = {"app": "ours"}
    reference = {"kind": "Pod", "namespace": "default", "merge": {"spec": {"schedulingGates": None}}}
    opening = [{"at": f"{5 + i}s", "patch": {**reference, "name": f"p{i}"}} for i in range(5)]
    zones = [nodes(2, name=f"{zone}-%d", labels={"zone": zone}) for zone in ("a", "b")]
    return scenario(*pods, machines=zones, timeline=opening, until="2m")


def gangs_at_odds():
    """An urgent gang of three takes the room of a gang that leaves whole and of a lone pod, both slow to stop."""
    low = [member(f"low-{i}", "low", stop="5") for i in range(2)]
    urgent = [member(f"urgent-{i}", "urgent") for i in range(3)]
    described = [workload("low", 2, "PodGroup"), workload("urgent", 3, priorityClassName="high")]
    start = [priority_class("high", 10), *described, *low, pod("lone", stop="3")]
    arrival = [{"at": "10s", "apply": urgent}]
    return scenario(*start, machines=[nodes(3, cpu="1")], timeline=arrival, until="1m")


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(load_scenario(str(EXAMPLES / "01-first-pod" / "scenario.yaml")), id="a pod that waits for a node"),
        pytest.param(load_scenario(str(EXAMPLES / "02-job" / "scenario.yaml")), id="jobs that complete and fail"),
        pytest.param(parse_scenario(CROWDED, "crowded.yaml"), id="a crowd on nodes that come and go"),
        pytest.param(kept_apart(), id="gated pods that keep apart from each other"),
        pytest.param(load_scenario(str(EXAMPLES / "07-gang" / "scenario.yaml")), id="a gang that waits for a node"),
        pytest.param(gangs_at_odds(), id="a gang that preempts a gang and a pod"),
        pytest.param(load_scenario(str(VOLCANO / "three-pods.yaml")), id="a pod that reserves capacity of its queue"),
        pytest.param(load_scenario(str(VOLCANO / "displaced.yaml")), id="a reservation that is displaced"),
        pytest.param(load_scenario(str(VOLCANO / "gang.yaml")), id="a gang that reserves capacity of its queue"),
    ],
)
def test_a_crash_before_or_after_any_write_changes_nothing(story):
    assert_crashes_change_nothing(story)


def test_a_gang_is_preempted_whole_whenever_we_crash():
    """Where the urgent pod ends up may differ: it takes what is free first. That no part of the gang stays may not."""
    story = load_scenario(str(EXAMPLES / "08-whole-gangs" / "scenario.yaml"))
    for number, fault, report in crashes(story, seed=7):
        assert not report.failures, f"{fault} write {number}"


def test_whatever_crashes_nobody_is_evicted_in_vain():
    """Whoever was evicted made room for the urgent gang, which runs; nobody was evicted twice."""
    for number, fault, report in crashes(gangs_at_odds(), seed=3):
        told = [entry["object"]["name"] for entry in report.journal if entry["decision"] == "evict"]
        assert set(told) <= {"low-0", "low-1", "lone"}, f"{fault} write {number}"
        assert {where(report, f"urgent-{i}") for i in range(3)} == {"n-0", "n-1", "n-2"}, f"{fault} write {number}"
