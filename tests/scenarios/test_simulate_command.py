"""`headgate simulate` as people and scripts meet it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from headgate.model.events import Observed
from headgate.model.node import Node
from headgate.model.resources import Resources
from headgate.ui.cli import main

SCENARIO = """
kind: Scenario
clusters:
- name: main
  nodes: [{name: n-0, capacity: {cpu: "1"}}]
  objects:
  - apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: default}
    spec:
      schedulerName: headgate
      containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
timeline:
- at: 5s
  apply:
  - apiVersion: v1
    kind: Pod
    metadata: {name: b, namespace: default}
    spec:
      schedulerName: headgate
      containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
- {at: 6s, delete: {kind: Pod, namespace: default, name: nobody}}
until: 10s
"""
EXPECT = (
    "expect: [{{at: 1s, object: {{kind: Pod, namespace: default, name: a}}, matches: {{spec: {{nodeName: {}}}}}}}]\n"
)


@pytest.fixture
def simulate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(text: str, *options: str):
        (tmp_path / "scenario.yaml").write_text(text)
        return CliRunner().invoke(main, ["simulate", "scenario.yaml", *options])

    return call


def test_the_timeline_tells_who_was_placed_who_waits_and_why(simulate):
    lines = simulate(SCENARIO).stdout.splitlines()
    assert lines[0].split() == ["TIME", "OBJECT", "DECISION", "WHY"]
    assert lines[1].split()[:4] == ["0s", "Pod", "default/a", "bind"]
    assert lines[2].split()[:4] == ["5s", "Pod", "default/b", "wait"] and "Insufficient cpu" in lines[2]
    assert lines[3].split()[:5] == ["6s", "Pod", "default/nobody", "delete", "refused"]
    assert any(line.split()[:3] == ["default/a", "Running", "n-0"] for line in lines)
    assert any(line.split()[:3] == ["default/b", "Pending", "-"] and "Insufficient cpu" in line for line in lines)


MISSPELT = """kind: Scenario
clusters:
- name: main
  objects:
  - {apiVersion: scheduling.headgate.dev/v1alpha1, kind: Workload, metadata: {name: w, namespace: default},
     spec: {podGroups: [{name: a, policy: {gang: {minCount: 1}}}], preemptionPriorityClassname: high}}
timeline:
- at: 1s
  apply:
  - {apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: c}, spec: {parent: d}}
- at: 2s
  patch: {kind: Cohort, name: c, merge: {spec: {parent: e, parentName: e}}}
until: 3s
"""


def test_fields_that_the_server_does_not_know_are_named(simulate):
    result = simulate(MISSPELT)
    assert result.exit_code == 0
    assert [" ".join(line.split()) for line in result.stdout.splitlines()[1:4]] == [
        '0s Workload default/w create warned unknown field "spec.preemptionPriorityClassname"',
        '1s Cohort c create warned unknown field "spec.parent"',
        '2s Cohort c patch warned unknown field "spec.parent"',
    ]
    warnings = json.loads(simulate(MISSPELT, "--output", "json").stdout)["warnings"]
    assert [(each["at"], each["object"]["name"]) for each in warnings] == [(0, "w"), (1, "c"), (2, "c")]


def test_a_reference_that_is_none_is_refused_with_its_field(simulate):
    pod = SCENARIO.replace("schedulerName: headgate", "schedulerName: headgate\n      workloadRef: t", 1)
    assert pod != SCENARIO
    result = simulate(pod)
    assert result.exit_code == 2
    assert "spec.workloadRef of type v1.WorkloadReference" in result.stderr


def test_the_journal_alone_can_be_asked_for(simulate):
    assert simulate(SCENARIO, "--journal").stdout.splitlines() == simulate(SCENARIO).stdout.splitlines()[:4]


def test_json_goes_to_standard_output_alone(simulate):
    result = simulate(SCENARIO, "--output", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["until"] == 10


@pytest.mark.parametrize(
    "text, options, status, said",
    [
        pytest.param(SCENARIO + EXPECT.format("n-0"), [], 0, "", id="every expectation held"),
        pytest.param(
            SCENARIO + EXPECT.format("n-7"),
            [],
            1,
            'scenario.yaml: expect[0]: at 1s Pod default/a: spec.nodeName: expected "n-7", found "n-0"\n',
            id="an expectation did not hold",
        ),
        pytest.param(
            SCENARIO.replace("at: 5s", "at: soon"),
            [],
            2,
            'scenario.yaml: timeline[0].at: expected a duration like 90s or 1m30s, got "soon"\n',
            id="the input is wrong",
        ),
        pytest.param(
            SCENARIO.replace(
                'image: i, resources: {requests: {cpu: "1"}}}]\ntimeline', "image: i}, {name: c, image: i}]\ntimeline"
            ),
            [],
            2,
            'scenario.yaml: clusters[0].objects[0]: refused with 422 Invalid: Pod "a" is invalid: '
            'spec.containers[1].name: Duplicate value: "c"\n',
            id="an object is refused",
        ),
    ],
)
def test_exit_status(simulate, text, options, status, said):
    result = simulate(text, *options)
    assert (result.exit_code, result.stderr) == (status, said)


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        pytest.param(["nowhere.yaml"], "nowhere.yaml: cannot be read: No such file or directory", id="no such file"),
        pytest.param(["x.yaml", "--faults", "boom=1"], "expected one of crash, lost", id="an unknown fault"),
        pytest.param(
            ["x.yaml", "--output", "xml"], "'xml' is not one of 'table', 'json', 'yaml'", id="an unknown output"
        ),
        pytest.param([], "Missing argument 'FILE'", id="no file"),
    ],
)
def test_wrong_input_exits_with_2(arguments, complaint):
    result = CliRunner().invoke(main, ["simulate", *arguments])
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_a_broken_invariant_exits_with_1_and_its_story(simulate, monkeypatch):
    monkeypatch.setattr("headgate.simulator.invariants.NodeCapacityInvariant.observe", _sees_a_smaller_node)
    result = simulate(SCENARIO)
    assert result.exit_code == 1
    assert "n-0 has 1 cpu, its pods request 1000" in result.stderr
    assert "bind Scheduled: assigned default/a to n-0" in result.stderr


def _sees_a_smaller_node(self, sights):
    for sight in sights:
        if isinstance(sight, Observed) and isinstance(sight.object, Node):
            node = sight.object
            self._nodes[node.name] = Node(node.key, node.uid, node.version, {}, {}, Resources.of({"cpu": 1, "pods": 9}))


def test_an_interrupt_is_a_clean_end(simulate, monkeypatch):
    def interrupted(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("headgate.ui.simulate_command.run", interrupted)
    result = simulate(SCENARIO)
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_help_names_the_commands_and_how_to_begin():
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert "headgate simulate examples/01-first-pod/scenario.yaml" in result.stdout
    assert "simulate" in result.stdout and "run" in result.stdout


def test_version():
    assert CliRunner().invoke(main, ["--version"]).stdout.startswith("headgate 0.")


@pytest.mark.parametrize(
    "objects, field, got",
    [
        pytest.param(
            "  objects: [{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: c, image: i}, "
            "{name: d, image: i, resources: {requests: {cpu: lots}}}]}}]",
            "clusters[0].objects[0].spec.containers[1].resources.requests.cpu",
            "lots",
            id="a request of a pod",
        ),
        pytest.param(
            "  objects: [{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {template: {spec: "
            "{restartPolicy: Never, containers: [{name: c, image: i, resources: {limits: {memory: 1 GB}}}]}}}}]",
            "clusters[0].objects[0].spec.template.spec.containers[0].resources.limits.memory",
            "1 GB",
            id="a limit in a template",
        ),
        pytest.param(
            "  nodes: [{name: n, capacity: {cpu: 1core}}]", "clusters[0].nodes[0].capacity.cpu", "1core", id="a node"
        ),
    ],
)
def test_an_amount_that_cannot_be_read_is_named_with_its_field(simulate, objects, field, got):
    done = simulate(f"kind: Scenario\nuntil: 1s\nclusters:\n- name: main\n{objects}\n")
    assert done.exit_code == 2
    assert done.stderr == f"scenario.yaml: {field}: expected a quantity such as 500m or 2Gi, got {got!r}\n"


def test_an_amount_of_the_timeline_that_cannot_be_read_is_refused_by_the_server_and_named(simulate):
    done = simulate(SCENARIO.replace('requests: {cpu: "1"}}}]\n- {at: 6s', 'requests: {cpu: "x"}}}]\n- {at: 6s'))
    assert done.exit_code == 0
    (line,) = [line for line in done.stdout.splitlines() if "create refused" in line]
    assert line.endswith(
        "(spec.containers[0].resources.requests.cpu: expected a quantity such as 500m or 2Gi, got 'x')"
    )
