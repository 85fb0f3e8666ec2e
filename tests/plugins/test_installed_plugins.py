"""A plugin from another package: found, switched per profile, obeyed, and blamed by name when it does not work."""

from __future__ import annotations

import json

import pytest
from simulator.small_scenarios import nodes, pod

HOLD = {"example.com/hold": "budget review"}
GATE = [{"name": "AnnotationGate"}]


def held(name: str, **spec: object) -> dict:
    manifest = pod(name, **spec)
    manifest["metadata"]["annotations"] = HOLD
    return manifest


def scenario(*profiles: dict, **fields: object) -> dict:
    release = {"kind": "Pod", "namespace": "default", "name": "a"}
    let_go = {"metadata": {"annotations": {"example.com/hold": None}}}
    return {
        "kind": "Scenario",
        "config": {"scheduler": {"profiles": list(profiles)}},
        "clusters": [{"name": "main", "nodes": [nodes()], "objects": [held("a"), pod("free")]}],
        "timeline": [{"at": "10s", "patch": {**release, "merge": let_go}}],
        "until": "20s",
        **fields,
    }


@pytest.mark.parametrize(
    "plugins",
    [
        pytest.param({"preEnqueue": {"enabled": GATE}}, id="enabled under preEnqueue"),
        pytest.param({"multiPoint": {"enabled": GATE}}, id="enabled under multiPoint"),
        pytest.param({"preEnqueue": {"disabled": [{"name": "*"}], "enabled": GATE}}, id="the only one enabled"),
    ],
)
def test_an_enabled_plugin_holds_a_pod_until_it_lets_go(simulate, plugins):
    done = simulate(scenario({"plugins": plugins}))
    assert [told[:2] for told in done.decisions("a")] == [(0, "gate"), (10, "ungate"), (10, "bind")], done.err
    assert done.decisions("a")[0][2] == "held by its owner: budget review"
    assert [told[:2] for told in done.decisions("free")] == [(0, "bind")]


@pytest.mark.parametrize(
    "plugins",
    [
        pytest.param({}, id="nothing said"),
        pytest.param({"multiPoint": {"enabled": GATE}, "preEnqueue": {"disabled": GATE}}, id="disabled at its point"),
    ],
)
def test_a_plugin_that_is_installed_and_not_enabled_does_nothing(simulate, plugins):
    assert [told[:2] for told in simulate(scenario({"plugins": plugins})).decisions("a")] == [(0, "bind")]


def test_each_profile_has_its_own_plugins(simulate):
    profiles = ({"schedulerName": "strict", "plugins": {"preEnqueue": {"enabled": GATE}}}, {"schedulerName": "lax"})
    objects = [held("s", schedulerName="strict"), held("l", schedulerName="lax")]
    document = scenario(*profiles, clusters=[{"name": "main", "nodes": [nodes()], "objects": objects}], timeline=[])
    done = simulate(document)
    assert [told[1] for told in done.decisions("s")] == ["gate"]
    assert [told[1] for told in done.decisions("l")] == ["bind"]


def test_a_plugin_may_be_an_object_as_well_as_a_class(simulate):
    approved = {**pod("approved"), "metadata": {"name": "approved", "labels": {"example.com/approved-by": "me"}}}
    steps = [{"at": "5s", "apply": [pod("late"), approved]}]
    done = simulate(scenario({"plugins": {"preEnqueue": {"enabled": [{"name": "ApprovalGate"}]}}}, timeline=steps))
    assert done.decisions("late") == [(5, "gate", "nobody has approved it yet")]
    assert [told[1] for told in done.decisions("approved")] == ["bind"]


def test_an_unknown_plugin_is_told_with_those_that_are_there(simulate):
    done = simulate(scenario({"plugins": {"preEnqueue": {"enabled": [{"name": "Annotationgate"}]}}}))
    assert done.status == 2
    assert done.err.strip().endswith(
        "config.scheduler.profiles[0].plugins.preEnqueue.enabled[0].name: expected one of "
        "SchedulingGates, GangScheduling; installed: AnnotationGate, ApprovalGate, Unfinished, got 'Annotationgate'"
    )


CONFIG = {"scheduler": {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Unfinished"}]}}}]}}


def test_a_plugin_that_cannot_be_imported_is_one_line_when_it_is_enabled(simulate):
    done = simulate(scenario(*CONFIG["scheduler"]["profiles"]))
    assert done.status == 2
    assert done.err == (
        "plugin Unfinished: annotation_gate.unfinished:Unfinished cannot be imported: RuntimeError: not written yet\n"
    )


def test_run_finds_the_same_plugins(headgate, tmp_path):
    cluster = {"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "x"}}
    kubeconfig = {"current-context": "x", "contexts": [context], "clusters": [cluster]}
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    (tmp_path / "config.yaml").write_text(json.dumps(CONFIG))
    done = headgate("run", "--config", "config.yaml", "--kubeconfig", "kubeconfig", "--listen", "")
    assert done.status == 2
    assert done.err.startswith("Error: plugin Unfinished: ")
