"""Why no Workload can be made of a job, and what becomes of one that does not match, is told by Kueue's events."""

import pytest
from integration_scenes import CLASSES, JOBS, PODS, QUEUE, WORKLOAD_CLASSES, WORKLOADS, Integrations, job, member

CLASS = "kueue.x-k8s.io/priority-class"
FAST = "kueue.x-k8s.io/pod-group-fast-admission"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
COMPOSE = "ErrWorkloadCompose"


def scene_of(path, *manifests):
    scene = Integrations()
    for each in manifests:
        scene.create(path, each)
    return scene.settle()


def messages(scene, reason=COMPOSE):
    return [
        (effect.type.value, effect.target.key.name, effect.message)
        for effect in scene.effects
        if getattr(effect, "reason", "") == reason
    ]


@pytest.mark.parametrize(
    "members, message",
    [
        pytest.param(
            [member("a", total=2), member("b", total=3)],
            "pods a and b differ in kueue.x-k8s.io/pod-group-total-count: 2 and '3'",
            id="totals that differ",
        ),
        pytest.param(
            [member("a"), member("b", labels={QUEUE: "other"})],
            "pods a and b differ in kueue.x-k8s.io/queue-name: 'lq' and 'other'",
            id="queues that differ",
        ),
        pytest.param(
            [member("a", total=3), member("b", total=3)],
            "group group has fewer pods than its kueue.x-k8s.io/pod-group-total-count",
            id="a pod that is missing",
        ),
    ],
)
def test_pods_that_make_no_group_are_told_why_once(members, message):
    scene = scene_of(PODS, *members)
    assert messages(scene) == [("Warning", "a", message)]
    assert scene.names(WORKLOADS) == []
    scene.patch(f"{PODS}/b", metadata={"labels": {"example.com/other": "label"}})
    assert messages(scene.settle()) == []


def test_a_group_whose_totals_agree_in_the_end_is_composed():
    scene = scene_of(PODS, member("a", total=2), member("b", total=3))
    scene.patch(f"{PODS}/b", metadata={"annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"}})
    assert scene.settle().events[0] == "CreatedWorkload"
    assert messages(scene) == []


def test_a_mistake_that_is_made_again_is_told_again():
    scene = scene_of(JOBS, job(labels={CLASS: "high"}))
    assert messages(scene) == [("Warning", "job", "WorkloadPriorityClass high does not exist")]
    scene.patch(f"{JOBS}/job", metadata={"labels": {CLASS: None}})
    assert scene.settle().events == ["CreatedWorkload"]
    scene.patch(f"{JOBS}/job", metadata={"labels": {CLASS: "high"}})
    assert messages(scene.settle()) == [("Warning", "job", "WorkloadPriorityClass high does not exist")]


def test_a_new_process_tells_it_once_more():
    scene = scene_of(JOBS, job(labels={CLASS: "high"}))
    scene.restart()
    assert messages(scene.settle()) == [("Warning", "job", "WorkloadPriorityClass high does not exist")]


def test_a_job_whose_class_is_there_at_last_is_composed():
    scene = scene_of(JOBS, job(labels={CLASS: "high"}))
    scene.create(WORKLOAD_CLASSES, {"metadata": {"name": "high"}, "value": 5})
    assert scene.settle().events == ["CreatedWorkload"]
    assert scene.workload()["spec"]["priority"] == 5


def test_a_class_that_goes_leaves_its_workloads_as_they_are_and_says_nothing():
    scene = Integrations()
    scene.create(WORKLOAD_CLASSES, {"metadata": {"name": "high"}, "value": 5})
    scene.create(JOBS, job(labels={CLASS: "high"}))
    scene.settle()
    scene.delete(f"{WORKLOAD_CLASSES}/high")
    assert messages(scene) == []
    assert scene.workload()["spec"]["priority"] == 5


def test_the_class_of_pods_that_does_not_exist_is_told():
    scene = Integrations()
    scene.create(CLASSES, {"metadata": {"name": "high"}, "value": 5})
    scene.create(JOBS, job(template={"priorityClassName": "high"}))
    scene.delete(f"{CLASSES}/high")
    assert messages(scene) == [("Warning", "job", "PriorityClass high does not exist")]


def test_a_prebuilt_workload_that_does_not_exist_is_told():
    scene = scene_of(JOBS, job(labels={PREBUILT: "made"}))
    message = f"Workload made, which label {PREBUILT} names, does not exist"
    assert messages(scene) == [("Warning", "job", message)]


def test_a_driver_has_all_its_pods_from_the_beginning():
    scene = scene_of(PODS, member("driver", total=3, annotations={FAST: "true"}))
    assert scene.events == ["CreatedWorkload"]


def test_a_change_of_a_waiting_job_is_told_by_updated_workload():
    scene = scene_of(JOBS, job(completions=5))
    scene.patch(f"{JOBS}/job", spec={"parallelism": 2})
    name = scene.settle().workload()["metadata"]["name"]
    text = f"Updated not matching Workload for suspended job: default/{name}"
    assert messages(scene, "UpdatedWorkload") == [("Normal", "job", text)]


def test_a_change_of_the_class_is_told_by_updated_workload():
    scene = scene_of(JOBS, job())
    scene.create(WORKLOAD_CLASSES, {"metadata": {"name": "high"}, "value": 5})
    scene.patch(f"{JOBS}/job", metadata={"labels": {CLASS: "high"}})
    name = scene.settle().workload()["metadata"]["name"]
    text = f"Updated workload priority class: default/{name}"
    assert messages(scene, "UpdatedWorkload") == [("Normal", "job", text)]


def test_a_workload_that_no_longer_matches_its_running_job_is_deleted_and_that_is_told():
    scene = scene_of(JOBS, job(parallelism=2))
    name = scene.admit().workload()["metadata"]["name"]
    scene.patch(f"{JOBS}/job", spec={"parallelism": 1})
    text = f"Deleted not matching Workload: default/{name}"
    assert messages(scene.settle(), "DeletedWorkload") == [("Normal", "job", text)]
