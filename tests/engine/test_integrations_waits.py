"""How long it took until work had its Workload, and until the gate was off its pods."""

from __future__ import annotations

import pytest
from integration_scenes import GATE, JOBS, PODS, WORKLOADS, Integrations, job, member, pod

from headgate.engine.metrics import Distribution
from headgate.model.effects import Create
from headgate.model.events import WriteError

CREATION, REMOVAL = "kueue_workload_creation_latency_seconds", "kueue_pod_scheduling_gate_removal_seconds"


def told(scene, metric, **labels):
    found = scene.number(metric, **labels)
    return (found.count, found.total) if isinstance(found, Distribution) else None


def seen_after(seconds, *manifests):
    """Work that was created so many seconds before we looked."""
    scene = Integrations()
    for manifest in manifests:
        scene.create(JOBS if manifest["kind"] == "Job" else PODS, manifest)
    return scene.later(seconds)


@pytest.mark.parametrize(
    ("manifests", "kind"),
    [
        pytest.param([job()], "Job", id="a job"),
        pytest.param([pod()], "Pod", id="a pod"),
        pytest.param([member("a"), member("b")], "Pod", id="a group of pods, once"),
    ],
)
def test_how_long_after_the_work_its_workload_was_created(manifests, kind):
    scene = seen_after(3.0, *manifests)
    assert told(scene, CREATION, job_kind=kind) == (1, 3.0)


def test_a_job_that_was_changed_meanwhile_tells_nothing():
    scene = Integrations()
    scene.create(JOBS, job())
    scene.patch(f"{JOBS}/job", spec={"backoffLimit": 2})
    scene.later(3.0)
    assert len(scene.names(WORKLOADS)) == 1
    assert told(scene, CREATION, job_kind="Job") is None


def test_a_workload_that_was_not_created_is_not_told_of():
    scene = Integrations()
    scene.fault = lambda write: WriteError.REFUSED if isinstance(write, Create) else None
    scene.create(JOBS, job())
    scene.settle()
    assert told(scene, CREATION, job_kind="Job") is None


@pytest.mark.parametrize(
    ("manifests", "is_group", "pods"),
    [
        pytest.param([pod()], "false", 1, id="a pod"),
        pytest.param([member("a"), member("b")], "true", 2, id="each pod of a group"),
    ],
)
def test_how_long_after_admission_the_gate_was_taken_off(manifests, is_group, pods):
    scene = seen_after(0.0, *manifests)
    scene.now += 0.25  # admission is told in whole seconds
    scene.admit("group" if pods > 1 else "")
    labels = {"cluster_queue": "cq", "is_group": is_group, "name": GATE}
    assert told(scene, REMOVAL, **labels) == (pods, pods * 0.25)


def test_a_restart_tells_nothing_again():
    scene = seen_after(3.0, pod()).admit()
    scene.restart()
    scene.settle()
    assert [name for name, _, _ in scene.plane.collect() if name.startswith("kueue_")] == []
