"""A disruption budget in a whole run: its status follows its pods."""

from __future__ import annotations

from click.testing import CliRunner

from headgate.ui.cli import main

SCENARIO = """
kind: Scenario
clusters:
- name: main
  nodes: [{name: n-0, capacity: {cpu: "3"}}]
  objects:
  - apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata: {name: work, namespace: default}
    spec: {minAvailable: 50%, selector: {matchLabels: {app: work}}}
  - apiVersion: batch/v1
    kind: Job
    metadata: {name: work, namespace: default}
    spec:
      parallelism: 4
      completions: 4
      template:
        metadata:
          labels: {app: work}
          annotations: {headgate.dev/run-seconds: "60"}
        spec:
          schedulerName: headgate
          restartPolicy: Never
          containers: [{name: work, image: i, resources: {requests: {cpu: "1"}}}]
timeline:
- at: 30s
  addNodes: [{name: n-1, capacity: {cpu: "1"}}]
- at: 40s
  patch: {kind: PodDisruptionBudget, namespace: default, name: work, merge: {spec: {minAvailable: 3}}}
until: settled
expect:
- at: 10s
  object: &budget {kind: PodDisruptionBudget, namespace: default, name: work}
  matches: {status: {observedGeneration: 1, currentHealthy: 3, desiredHealthy: 2, disruptionsAllowed: 1}}
- at: 35s
  object: *budget
  matches: {status: {observedGeneration: 1, currentHealthy: 4, desiredHealthy: 2, disruptionsAllowed: 2}}
- at: 45s
  object: *budget
  matches: {status: {observedGeneration: 2, currentHealthy: 4, desiredHealthy: 3, disruptionsAllowed: 1}}
- object: *budget
  matches: {status: {currentHealthy: 0, desiredHealthy: 3, disruptionsAllowed: 0}}
"""


def test_the_status_of_a_budget_follows_its_pods(tmp_path):
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    result = CliRunner().invoke(main, ["simulate", str(tmp_path / "scenario.yaml")])
    assert result.exit_code == 0, result.output
