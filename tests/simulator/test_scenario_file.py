"""Scenario files: what they say, and how a mistake in one is named."""

from __future__ import annotations

import pytest

from headgate.simulator.scenario import (
    Apply,
    Crash,
    DeleteObject,
    DisconnectCluster,
    DropNode,
    InvalidScenario,
    PatchObject,
    Reference,
    Stale,
    load_scenario,
    parse_scenario,
)

POD = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}"


def parse(text: str):
    return parse_scenario(f"kind: Scenario\n{text}", "scenario.yaml")


@pytest.mark.parametrize(
    "step, action",
    [
        pytest.param(
            "delete: {kind: Pod, namespace: x, name: a}", DeleteObject(Reference("Pod", "a", "x")), id="delete"
        ),
        pytest.param(
            "patch: {kind: Job, apiVersion: batch/v1, name: j, merge: {spec: {suspend: true}}}",
            PatchObject(Reference("Job", "j", "", "batch/v1"), {"spec": {"suspend": True}}),
            id="patch",
        ),
        pytest.param("disconnect: 60s", DisconnectCluster(60.0), id="disconnect"),
        pytest.param("crash: 0s", Crash(0.0), id="crash"),
        pytest.param("stale: 1m30s", Stale(90.0), id="stale"),
        pytest.param("dropNode: n-3", DropNode("n-3"), id="dropNode"),
    ],
)
def test_what_can_happen(step, action):
    scenario = parse(f"timeline:\n- {{at: 10s, {step}}}")
    assert [(action.at, action.action) for action in scenario.timeline] == [(10.0, action)]


def test_apply_keeps_manifests_as_kubernetes_reads_them():
    manifest = "{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {on: 2020-01-01}}}"
    scenario = parse(f"timeline:\n- at: 1s\n  apply: [{manifest}]")
    action = scenario.timeline[0].action
    assert isinstance(action, Apply)
    assert action.manifests[0].manifest["metadata"] == {"name": "a", "annotations": {"true": "2020-01-01"}}
    assert action.manifests[0].path == "timeline[0].apply[0]"


def test_nodes_are_numbered_from_zero():
    scenario = parse("clusters:\n- name: main\n  nodes: [{count: 3, name: 'n-%d', capacity: {cpu: '4'}}]")
    names = [placed.manifest["metadata"]["name"] for placed in scenario.clusters[0].objects]
    assert names == ["n-0", "n-1", "n-2"]


def test_defaults():
    scenario = parse("")
    assert [cluster.name for cluster in scenario.clusters] == ["main"]
    assert (scenario.until, scenario.timeline, scenario.expectations) == (None, (), ())
    assert parse("until: settled").until is None
    assert parse("until: 2m").until == 120.0


@pytest.mark.parametrize(
    "text, complaint",
    [
        pytest.param(
            "timeline: [{at: soon, crash: 1s}]",
            'timeline[0].at: expected a duration like 90s or 1m30s, got "soon"',
            id="a time that is none",
        ),
        pytest.param(
            "timeline: [{at: 10, crash: 1s}]",
            "timeline[0].at: expected a duration like 90s or 1m30s, got 10",
            id="a number without a unit",
        ),
        pytest.param(
            "until: -5s", 'until: expected a duration like 90s or 1m30s, got "-5s"', id="a time before the start"
        ),
        pytest.param(
            "until: whenever", 'until: expected a duration like 90s or 1m30s, got "whenever"', id="an unknown end"
        ),
        pytest.param("timline: []", 'unknown field "timline"; did you mean timeline?', id="a misspelt field above"),
        pytest.param(
            "timeline: [{at: 1s, crsh: 1s}]",
            'timeline[0]: unknown field "crsh"; did you mean crash?',
            id="a misspelt field further down",
        ),
        pytest.param("timeline: [{crash: 1s}]", 'timeline[0]: expected a field "at", got none', id="a missing field"),
        pytest.param(
            "timeline: [{at: 1s}]",
            "timeline[0]: expected exactly one of apply, delete, patch, disconnect, crash, stale, addNodes, dropNode, "
            "got none",
            id="nothing happens",
        ),
        pytest.param(
            "timeline: [{at: 1s, crash: 1s, stale: 1s}]",
            "timeline[0]: expected exactly one of apply, delete, patch, disconnect, crash, stale, addNodes, dropNode, "
            "got 2",
            id="two things happen",
        ),
        pytest.param(
            "timeline: [{at: 1s, cluster: mian, crash: 1s}]",
            'timeline[0].cluster: expected one of main, got "mian"',
            id="an unknown cluster",
        ),
        pytest.param(
            "timeline: {at: 1s}", "timeline: expected a list, got a mapping", id="a mapping where a list belongs"
        ),
        pytest.param(
            "clusters: [{name: a}, {name: a}]",
            'clusters[1].name: expected a name of its own, got "a"',
            id="two clusters of one name",
        ),
        pytest.param(
            "clusters: [{name: a}, {name: b, roles: [quota, cook]}]",
            'clusters[1].roles[1]: expected one of quota, integrations, scheduler, fleet, got "cook"',
            id="a role that is none",
        ),
        pytest.param(
            "clusters: [{name: a}, {name: b, config: {featureGates: 3}}]",
            "clusters[1].config.featureGates: expected `object`, got `int`",
            id="a mistake in the configuration of one cluster",
        ),
        pytest.param(
            "clusters: [{name: a, nodes: [{name: n, count: 2}]}]",
            'clusters[0].nodes[0]: expected a name with %d for 2 nodes, got "n"',
            id="two nodes of one name",
        ),
        pytest.param(
            "clusters: [{name: a, nodes: [{name: n, count: -1}]}]",
            "clusters[0].nodes[0]: expected a count of at least 0, got -1",
            id="fewer nodes than none",
        ),
        pytest.param(
            "clusters: [{name: a, objects: [{kind: Pod, metadata: {name: a}}]}]",
            "clusters[0].objects[0].apiVersion: expected text, got none",
            id="a manifest without apiVersion",
        ),
        pytest.param(
            "clusters: [{name: a, objects: [{apiVersion: v1, kind: Pod}]}]",
            "clusters[0].objects[0].metadata.name: expected a name, got none",
            id="a manifest without a name",
        ),
        pytest.param(
            "clusters: [{name: a, objects: [{apiVersion: v1, kind: Node, metadata: {name: n, labels: [x]}}]}]",
            "clusters[0].objects[0].metadata.labels: expected a mapping, got ['x']",
            id="labels that are a list",
        ),
        pytest.param(
            "clusters: [{name: a, objects: [{apiVersion: v1, kind: Pod, metadata: {name: 7}}]}]",
            "clusters[0].objects[0].metadata.name: expected text, got 7",
            id="a name that is a number",
        ),
        pytest.param(
            "timeline: [{at: 1s, apply: [{apiVersion: v1, kind: Pod, "
            "metadata: {name: a, annotations: {headgate.dev/run-seconds: soon}}}]}]",
            "timeline[0].apply[0].metadata.annotations[headgate.dev/run-seconds]: "
            "expected a number of seconds such as 90 or 0.5, got 'soon'",
            id="a behaviour nobody can follow",
        ),
        pytest.param(
            "clusters: [{objects: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, "
            "spec: {template: {metadata: {annotations: {headgate.dev/exit-code: '999'}}}}}]}]",
            "clusters[0].objects[0].spec.template.metadata.annotations[headgate.dev/exit-code]: "
            "expected an exit code from 0 to 255, got '999'",
            id="a behaviour of the pods of a Deployment",
        ),
        pytest.param(
            "clusters: [{objects: [{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, "
            "spec: {schedule: at noon}}]}]",
            "clusters[0].objects[0].spec.schedule: expected five fields (minute, hour, day, month, weekday), "
            "got 'at noon'",
            id="a schedule nobody can follow",
        ),
        pytest.param(
            "clusters: [{objects: [{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, "
            "spec: {schedule: '@daily', timeZone: Europe/Zurich}}]}]",
            "clusters[0].objects[0].spec.timeZone: expected UTC, because other time zones are not simulated, "
            "got 'Europe/Zurich'",
            id="a time zone that is not simulated",
        ),
        pytest.param(
            "nodes: []", 'unknown field "nodes"; it is a field of clusters[]', id="a field that belongs elsewhere"
        ),
        pytest.param(
            "timeline: [{at: 1s, xyzzy: 1s}]", 'timeline[0]: unknown field "xyzzy"', id="a field like none there is"
        ),
        pytest.param(
            "snapshots: [3m]\nuntil: 2m",
            "snapshots[0]: expected a time no later than `until` (2m), got 3m",
            id="a snapshot after the end",
        ),
        pytest.param(
            f"expect: [{{at: 3m, object: {{kind: Pod, name: a}}, matches: {POD}}}]\nuntil: 2m",
            "expect[0].at: expected a time no later than `until` (2m), got 3m",
            id="an expectation after the end",
        ),
        pytest.param("until: 1s\nuntil: 2s", 'line 3, column 1: duplicate key "until"', id="a key that stands twice"),
    ],
)
def test_a_mistake_is_named(text, complaint):
    with pytest.raises(InvalidScenario) as raised:
        parse(text)
    assert str(raised.value) == f"scenario.yaml: {complaint}"


@pytest.mark.parametrize(
    "text, complaint",
    [
        pytest.param("kind: Pod", 'kind: expected "Scenario", got "Pod"', id="another kind"),
        pytest.param("- a", 'kind: expected "Scenario", got list', id="a list"),
        pytest.param("", 'kind: expected "Scenario", got null', id="an empty file"),
        pytest.param(
            "kind: Scenario\n---\nkind: Scenario",
            "line 2, column 1: expected a single document in the stream but found another document",
            id="two documents",
        ),
        pytest.param(
            "kind: [", "line 2, column 1: did not find expected node content", id="a bracket that never closes"
        ),
    ],
)
def test_a_file_that_is_no_scenario(text, complaint):
    with pytest.raises(InvalidScenario) as raised:
        parse_scenario(text, "scenario.yaml")
    assert str(raised.value) == f"scenario.yaml: {complaint}"


def test_a_wrong_configuration_is_named_with_its_path():
    with pytest.raises(InvalidScenario) as raised:
        parse("config: {featureGates: {NoSuchGate: true}}")
    assert raised.value.path.startswith("config.featureGates")


def test_a_file_that_cannot_be_read():
    with pytest.raises(InvalidScenario) as raised:
        load_scenario("no/such/file.yaml")
    assert str(raised.value) == "no/such/file.yaml: cannot be read: No such file or directory"
