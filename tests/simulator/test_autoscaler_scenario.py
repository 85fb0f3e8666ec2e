"""The autoscaler of a scenario: how it is read, what is wrong with it, and what a run reports of it."""

from __future__ import annotations

import copy
import json

import pytest
from click.testing import CliRunner
from small_scenarios import job

from headgate.simulator.scenario import InvalidScenario, parse_scenario
from headgate.simulator.virtual_time import run
from headgate.ui.cli import main

GROUP = {
    "name": "big",
    "min": 0,
    "max": 3,
    "delay": "1m30s",
    "node": {"capacity": {"cpu": "4"}, "labels": {"pool": "x"}},
}


def document(autoscaler, **fields):
    return {"kind": "Scenario", "clusters": [{"name": "main", "autoscaler": autoscaler}], "until": "10m", **fields}


def parsed(autoscaler, **fields):
    return parse_scenario(json.dumps(document(autoscaler, **fields)), "s.yaml")


def with_group(**fields):
    return {"kind": "karpenter", "groups": [{**GROUP, **fields}]}


def without(field):
    return {"kind": "karpenter", "groups": [{name: value for name, value in GROUP.items() if name != field}]}


@pytest.mark.parametrize("kind", ["karpenter", "clusterAutoscaler"])
def test_an_autoscaler_is_read(kind):
    plan = parsed({"kind": kind, "groups": [GROUP]}).clusters[0].autoscaler
    (found,) = plan.groups
    assert (plan.kind, found.name, found.min, found.max, found.delay) == (kind, "big", 0, 3, 90.0)
    assert (found.template.allocatable["cpu"], found.template.labels["pool"]) == (4000, "x")
    assert found.template.labels["headgate.dev/node-group"] == "big"


def test_what_may_be_left_out():
    (found,) = (
        parsed({"kind": "karpenter", "groups": [{"name": "a", "max": 1, "node": {}}]}).clusters[0].autoscaler.groups
    )
    assert (found.min, found.delay, found.template.allocatable["pods"]) == (0, 60.0, 110)


WHERE = "clusters[0].autoscaler"


@pytest.mark.parametrize(
    "autoscaler, path, problem",
    [
        pytest.param(
            {"kind": "keda", "groups": [GROUP]},
            f"{WHERE}.kind",
            'expected karpenter or clusterAutoscaler, got "keda"',
            id="an autoscaler nobody knows",
        ),
        pytest.param({"groups": [GROUP]}, WHERE, 'expected a field "kind", got none', id="none named"),
        pytest.param({"kind": "karpenter"}, WHERE, 'expected a field "groups", got none', id="no groups"),
        pytest.param(
            {"kind": "karpenter", "groups": []},
            f"{WHERE}.groups",
            "expected at least one node group, got none",
            id="an empty list of groups",
        ),
        pytest.param(
            {"kind": "karpenter", "groups": [GROUP, GROUP]},
            f"{WHERE}.groups[1].name",
            'expected a name of its own, got "big"',
            id="two groups of one name",
        ),
        pytest.param(
            with_group(name=""), f"{WHERE}.groups[0].name", 'expected a name of its own, got ""', id="an empty name"
        ),
        pytest.param(
            with_group(min=-1), f"{WHERE}.groups[0].min", "expected at least 0, got -1", id="a minimum below 0"
        ),
        pytest.param(
            with_group(min=4), f"{WHERE}.groups[0].max", "expected at least min (4), got 3", id="a maximum below it"
        ),
        pytest.param(
            with_group(max="3"), f"{WHERE}.groups[0].max", "expected a whole number, got text", id="a maximum in text"
        ),
        pytest.param(
            with_group(delay="soon"),
            f"{WHERE}.groups[0].delay",
            'expected a duration like 90s or 1m30s, got "soon"',
            id="a delay that is none",
        ),
        pytest.param(with_group(size=4), f"{WHERE}.groups[0]", 'unknown field "size"', id="a field nobody knows"),
        pytest.param(
            with_group(node={"cpu": "4"}), f"{WHERE}.groups[0].node", 'unknown field "cpu"', id="one in the template"
        ),
        pytest.param(without("max"), f"{WHERE}.groups[0]", 'expected a field "max", got none', id="no maximum"),
        pytest.param(without("node"), f"{WHERE}.groups[0]", 'expected a field "node", got none', id="no template"),
        pytest.param(
            with_group(node={"capacity": {"cpu": "many"}}),
            f"{WHERE}.groups[0].node",
            "expected a node that an API server accepts",
            id="a capacity that is no quantity",
        ),
        pytest.param(
            with_group(node={"capacity": {"cpu": "-4"}}),
            f"{WHERE}.groups[0].node",
            "must be greater than or equal to 0",
            id="a capacity below 0",
        ),
        pytest.param(
            with_group(node={"labels": {"a b": "c"}}),
            f"{WHERE}.groups[0].node",
            "metadata.labels",
            id="a label that no node may have",
        ),
        pytest.param(
            with_group(node={"taints": [{"key": "a", "effect": "Never"}]}),
            f"{WHERE}.groups[0].node",
            "taints[0].effect",
            id="a taint without a known effect",
        ),
        pytest.param(
            with_group(name="Big_Nodes"), f"{WHERE}.groups[0].node", "metadata.name", id="a name no node can have"
        ),
    ],
)
def test_what_is_wrong_is_named(autoscaler, path, problem):
    with pytest.raises(InvalidScenario) as refused:
        parsed(autoscaler)
    assert refused.value.path == path
    assert problem in refused.value.problem


def test_a_group_has_its_minimum_from_the_start():
    report = run(parsed(with_group(min=2)))
    names = [found["metadata"]["name"] for found in report.final["main"] if found["kind"] == "Node"]
    assert names == ["big-0", "big-1"]
    assert report.summary["autoscaler"]["nodesAdded"] == 0


def applied(*manifests):
    return [{"at": "5s", "apply": list(manifests)}]


def test_nodes_come_after_the_delay_and_go_when_they_are_empty():
    autoscaler = {"kind": "clusterAutoscaler", "groups": [GROUP]}
    given = document(autoscaler, timeline=applied(job("work", run="30", parallelism=2, completions=2)), until="30m")
    expect = [
        {"at": "99s", "object": {"kind": "Node", "name": "big-0"}, "matches": {}},
        {
            "at": "101s",
            "object": {"kind": "Node", "name": "big-0"},
            "matches": {"metadata": {"labels": {"pool": "x", "kubernetes.io/hostname": "big-0"}}},
        },
        {"at": "20m", "object": {"kind": "Node", "name": "big-0"}, "matches": {}},
    ]
    report = run(parse_scenario(json.dumps(given | {"expect": expect}), "s.yaml"))
    assert [str(failure) for failure in report.failures] == []
    told = [(each["at"], each["decision"]) for each in report.journal if each["object"]["kind"] == "Node"]
    assert told == [(10, "order"), (740, "remove")]
    assert report.summary["autoscaler"] == {
        "scaleUps": 1,
        "nodesAdded": 1,
        "nodesRemoved": 1,
        "falseScaleUps": 0,
        "falseReasons": {"quota": 0, "victims": 0, "unused": 0},
        "missedScaleUps": 0,
        "nodesUnused": 0,
        "nodeSeconds": 640,
        "emptyNodeSeconds": 610,
    }


def test_the_summary_of_several_clusters_adds_up_and_without_an_autoscaler_says_nothing():
    first = document(with_group(), timeline=[])
    second = copy.deepcopy(first["clusters"][0]) | {"name": "other"}
    clusters = [*first["clusters"], second]
    pods = [{"at": "1s", "cluster": name, "apply": [job("work", run="9")]} for name in ("main", "other")]
    report = run(parse_scenario(json.dumps(first | {"clusters": clusters, "timeline": pods}), "s.yaml"))
    assert report.summary["autoscaler"]["nodesAdded"] == 2
    assert "autoscaler" not in run(parse_scenario('{"kind": "Scenario", "until": "1s"}', "s.yaml")).summary


def test_a_settled_run_ends_with_pods_that_nobody_can_help():
    for kind in ("karpenter", "clusterAutoscaler"):
        given = document({"kind": kind, "groups": [GROUP]}, timeline=applied(job("huge", cpu="99")), until="settled")
        assert run(parse_scenario(json.dumps(given), "s.yaml")).summary["autoscaler"]["nodesAdded"] == 0


def test_the_text_says_what_the_autoscaler_did(tmp_path):
    (tmp_path / "s.yaml").write_text(json.dumps(document(with_group(), timeline=applied(job("work", run="9")))))
    result = CliRunner().invoke(main, ["simulate", str(tmp_path / "s.yaml")])
    assert "autoscaler: 1 scale-up, 1 node added, 1 removed, 0 false, 0 missed" in result.output
    assert "ordered of node group big for default/work-" in result.output
