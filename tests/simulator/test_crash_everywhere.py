"""Three scenarios survive a crash before and after every single write."""

from __future__ import annotations

from pathlib import Path

import pytest
from crash_everywhere import assert_crashes_change_nothing

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


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(load_scenario(str(EXAMPLES / "01-first-pod" / "scenario.yaml")), id="a pod that waits for a node"),
        pytest.param(load_scenario(str(EXAMPLES / "02-job" / "scenario.yaml")), id="jobs that complete and fail"),
        pytest.param(parse_scenario(CROWDED, "crowded.yaml"), id="a crowd on nodes that come and go"),
    ],
)
def test_a_crash_before_or_after_any_write_changes_nothing(scenario):
    assert_crashes_change_nothing(scenario)
