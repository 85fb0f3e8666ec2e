"""Scenarios survive a crash before and after every single write."""

from __future__ import annotations

from pathlib import Path

import pytest
from crash_everywhere import assert_crashes_change_nothing
from small_scenarios import nodes, pod, scenario

from headgate.simulator.scenario_file import load_scenario, parse_scenario

EXAMPLES = Path(__file__).parents[2] / "examples"

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


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(load_scenario(str(EXAMPLES / "01-first-pod" / "scenario.yaml")), id="a pod that waits for a node"),
        pytest.param(load_scenario(str(EXAMPLES / "02-job" / "scenario.yaml")), id="jobs that complete and fail"),
        pytest.param(parse_scenario(CROWDED, "crowded.yaml"), id="a crowd on nodes that come and go"),
        pytest.param(kept_apart(), id="gated pods that keep apart from each other"),
    ],
)
def test_a_crash_before_or_after_any_write_changes_nothing(story):
    assert_crashes_change_nothing(story)
