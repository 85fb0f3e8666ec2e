"""What work that waits has made waits in that work's name; and what Workloads get of the labels of their work."""

import pytest
from integration_scenes import JOBS, PODS, QUEUE, WORKLOADS, Integrations, job, member, pod
from msgspec import Raw

from headgate.engine.integrations.job_index import JobOwners
from headgate.model.keys import Key, Kind, Target
from headgate.model.objects import Job

TEAM, COST = "example.com/team", "example.com/cost"


def made_by(owner, name, kind="Job", **fields):
    """A job, running unless said otherwise, that this object controls."""
    manifest = job(name, **{"suspend": False, **fields})
    reference = {"apiVersion": owner["apiVersion"], "kind": kind, "name": owner["metadata"]["name"], "controller": True}
    manifest["metadata"]["ownerReferences"] = [{**reference, "uid": owner["metadata"]["uid"]}]
    return manifest


def family(queue="lq", between=0, **quota):
    """A job, and one that it made, with so many between them."""
    scene = Integrations(**quota)
    owner = scene.create(JOBS, job("top", labels={QUEUE: queue}))
    for number in range(between):
        owner = scene.create(JOBS, made_by(owner, f"between-{number}", labels={QUEUE: ""}))
    scene.create(JOBS, made_by(owner, "child"))
    return scene.settle()


def is_suspended(scene, name="child"):
    return scene.get(f"{JOBS}/{name}")["spec"]["suspend"]


@pytest.mark.parametrize("between", [0, 1, 3])
def test_a_job_that_was_made_by_one_that_waits_is_suspended_and_has_no_workload(between):
    scene = family(between=between)
    assert is_suspended(scene)
    assert [name.rpartition("-")[0] for name in scene.names(WORKLOADS)] == ["job-top"]
    assert "kueue.x-k8s.io/stopping" not in scene.get(f"{JOBS}/child")["metadata"].get("annotations", {})


def test_it_runs_while_the_one_that_made_it_is_admitted():
    scene = family().admit()
    scene.patch(f"{JOBS}/child", spec={"suspend": False})
    assert not is_suspended(scene.settle())
    scene.evict()
    assert is_suspended(scene)


def test_it_is_told_that_it_is_suspended():
    scene = Integrations()
    owner = scene.create(JOBS, job("top"))
    scene.create(JOBS, made_by(owner, "child"))
    told = [(effect.target.key.name, effect.message) for effect in scene.settle().effects if hasattr(effect, "message")]
    assert ("child", "Kueue managed child job suspended") in told


def test_a_job_whose_maker_does_not_wait_waits_by_itself():
    scene = family(queue="")
    assert is_suspended(scene)
    assert [name.rpartition("-")[0] for name in scene.names(WORKLOADS)] == ["job-child"]


def known(name, owner=None, **labels):
    return Job(Key(Kind.JOB, "default", name), f"uid-{name}", "1", labels, {}, Raw(b"{}"), 0.0, owner=owner)


def test_another_job_of_its_makers_name_is_not_its_maker():
    lineage, top = JobOwners(manages_all=False), known("top", **{QUEUE: "lq"})
    lineage.put(top)
    assert lineage.managed_ancestor(known("child", top.target)) is top
    assert lineage.managed_ancestor(known("child", Target(top.key, "another"))) is None


def test_jobs_that_make_each_other_do_no_harm():
    scene = Integrations()
    first = scene.create(JOBS, job("a"))
    second = scene.create(JOBS, made_by(first, "b"))
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "b",
        "uid": second["metadata"]["uid"],
        "controller": True,
    }
    scene.patch(f"{JOBS}/a", metadata={"ownerReferences": [reference]})
    assert is_suspended(scene.settle(), "b")


def labels(scene):
    found = scene.workload()["metadata"].get("labels", {})
    return {name: value for name, value in found.items() if name in (TEAM, COST)}


@pytest.mark.parametrize(
    "path, manifests, copied",
    [
        pytest.param(JOBS, [job(labels={TEAM: "a", "other": "b"})], {TEAM: "a"}, id="of a job"),
        pytest.param(PODS, [pod(labels={TEAM: "a", COST: "b"})], {TEAM: "a", COST: "b"}, id="of a pod"),
        pytest.param(JOBS, [job()], {}, id="of a job that has none"),
        pytest.param(
            PODS,
            [member("a", labels={TEAM: "a"}), member("b", labels={TEAM: "a", COST: "b"})],
            {TEAM: "a", COST: "b"},
            id="of pods that agree, as far as they say",
        ),
    ],
)
def test_a_workload_gets_the_labels_that_are_to_be_copied(path, manifests, copied):
    scene = Integrations(copied_labels=(TEAM, COST))
    for manifest in manifests:
        scene.create(path, manifest)
    assert labels(scene.settle()) == copied


def test_no_workload_is_made_of_pods_whose_labels_contradict_each_other():
    scene = Integrations(copied_labels=(TEAM,))
    for name in "ab":
        scene.create(PODS, member(name, labels={TEAM: name}))
    scene.settle()
    assert scene.names(WORKLOADS) == []
    assert [effect.message for effect in scene.effects] == ["constructing workload: pods have different label values"]


def test_labels_that_are_not_to_be_copied_may_differ():
    scene = Integrations()
    for name in "ab":
        scene.create(PODS, member(name, labels={TEAM: name}))
    assert labels(scene.settle()) == {}
