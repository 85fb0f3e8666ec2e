"""Jobs wait suspended, start when their Workload is admitted, and give their quota back when nothing of them runs."""

import hashlib

import pytest
from integration_scenes import CLASSES, JOBS, KUEUE, WORKLOAD_CLASSES, WORKLOADS, Integrations, flavor, job

from headgate.model.settings import QuotaRelease, Retention

MIN, FOLLOW = "kueue.x-k8s.io/job-min-parallelism", "kueue.x-k8s.io/job-completions-equal-parallelism"
STOPPING = "kueue.x-k8s.io/stopping"


def waiting(manifest=None, **quota):
    """A Job and the Workload made for it."""
    scene = Integrations(**quota)
    scene.create(JOBS, manifest or job())
    return scene.settle()


def running(manifest=None, active=1, **quota):
    """A Job that was admitted, and whose controller has made its pods."""
    scene = waiting(manifest, **quota).admit()
    return scene.job_status(active=active, ready=0, startTime="1970-01-01T00:16:40Z")


def the_job(scene, name="job"):
    return scene.get(f"{JOBS}/{name}")


def template_of(scene):
    spec = the_job(scene)["spec"]["template"]
    return spec["spec"].get("nodeSelector"), spec["spec"].get("tolerations")


# its Workload


def test_a_job_gets_a_workload_named_after_it_that_it_owns():
    scene = waiting(job(parallelism=3))
    made, owner = scene.workload(), the_job(scene)["metadata"]["uid"]
    digest = hashlib.sha1(f"Job\nbatch\njob\n{owner}".encode()).hexdigest()[:5]
    assert made["metadata"]["name"] == f"job-job-{digest}"
    assert made["metadata"]["labels"] == {"kueue.x-k8s.io/job-uid": owner}
    (reference,) = made["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["uid"], reference["controller"]) == ("Job", owner, True)
    (pods,) = made["spec"]["podSets"]
    assert (pods["name"], pods["count"], made["spec"]["queueName"]) == ("main", 3, "lq")
    assert pods["template"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    assert scene.events == ["CreatedWorkload"]
    assert not scene.settle().effects, "and only one"


@pytest.mark.parametrize(
    "manifest, count, min_count",
    [
        pytest.param(job(parallelism=5), 5, None, id="as many pods as run at once"),
        pytest.param(job(parallelism=5, completions=2), 2, None, id="no more than are to complete"),
        pytest.param(job(parallelism=5, annotations={MIN: "3"}), 5, 3, id="it may start with fewer"),
        pytest.param(job(parallelism=5, annotations={MIN: "5"}), 5, None, id="as many as all are not fewer"),
        pytest.param(job(parallelism=5, annotations={MIN: "many"}), 5, None, id="what is no number says nothing"),
    ],
)
def test_how_many_pods_a_job_asks_quota_for(manifest, count, min_count):
    (pods,) = waiting(manifest).workload()["spec"]["podSets"]
    assert (pods["count"], pods.get("minCount")) == (count, min_count)


def test_the_time_limit_comes_from_a_label():
    spec = waiting(job(labels={"kueue.x-k8s.io/max-exec-time-seconds": "90"})).workload()["spec"]
    assert spec["maximumExecutionTimeSeconds"] == 90


def test_controllers_that_hold_the_job_back_hold_its_workload_back():
    gate = {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}
    scene = waiting(job(annotations=gate))
    assert scene.workload()["metadata"]["annotations"] == gate
    scene.patch(f"{JOBS}/job", metadata={"annotations": {"kueue.x-k8s.io/admission-gated-by": None}})
    assert not scene.settle().workload()["metadata"].get("annotations")


def test_the_priority_class_of_the_job_counts_before_that_of_its_pods():
    scene = Integrations()
    scene.create(WORKLOAD_CLASSES, {"metadata": {"name": "urgent"}, "value": 7})
    pods_class = {"metadata": {"name": "pods"}, "value": 3}
    scene.create(CLASSES, pods_class)
    labels = {"kueue.x-k8s.io/priority-class": "urgent"}
    scene.create(JOBS, job("a", labels=labels, template={"priorityClassName": "pods"}))
    scene.create(JOBS, job("b", template={"priorityClassName": "pods"}))
    scene.settle()
    specs = {each["metadata"]["name"][:5]: each["spec"] for each in scene.get(WORKLOADS)["items"]}
    assert (specs["job-a"]["priority"], specs["job-a"]["priorityClassRef"]["kind"]) == (7, "WorkloadPriorityClass")
    assert (specs["job-b"]["priority"], specs["job-b"]["priorityClassRef"]["kind"]) == (3, "PriorityClass")


def test_a_job_whose_class_does_not_exist_waits_for_it_and_says_so_once():
    scene = waiting(job(labels={"kueue.x-k8s.io/priority-class": "urgent"}))
    assert scene.events == ["ErrWorkloadCompose"]
    assert scene.later(1).effects == []
    scene.create(WORKLOAD_CLASSES, {"metadata": {"name": "urgent"}, "value": 7})
    assert scene.settle().workload()["spec"]["priority"] == 7


@pytest.mark.parametrize(
    "manifest, quota, is_ours",
    [
        pytest.param(job(), {}, True, id="it names a queue"),
        pytest.param(job(labels={"kueue.x-k8s.io/queue-name": ""}), {}, False, id="it names none"),
        pytest.param(job(labels={"kueue.x-k8s.io/queue-name": ""}), {"manages_all": True}, True, id="all wait"),
        pytest.param(job(), {"frameworks": ("pod",)}, False, id="jobs are not held back here"),
    ],
)
def test_which_jobs_are_held_back(manifest, quota, is_ours):
    assert bool(waiting(manifest, **quota).names(WORKLOADS)) is is_ours


def test_jobs_of_system_namespaces_are_left_alone():
    scene = Integrations()
    scene.create("/apis/batch/v1/namespaces/kube-system/jobs", job())
    assert scene.settle().effects == []


def test_a_job_that_runs_without_a_workload_is_stopped_before_it_gets_one():
    scene = Integrations()
    scene.create(JOBS, job() | {"spec": job()["spec"] | {"suspend": False}})
    scene.step()
    assert scene.names(WORKLOADS) == []
    scene.job_status(active=0, conditions=[{"type": "Suspended", "status": "True"}])
    assert the_job(scene)["spec"]["suspend"] is True
    assert len(scene.names(WORKLOADS)) == 1


def test_what_changes_while_the_job_waits_changes_its_workload():
    scene = waiting(job(parallelism=2))
    name = scene.workload()["metadata"]["name"]
    scene.patch(f"{JOBS}/job", spec={"parallelism": 1}, metadata={"labels": {"kueue.x-k8s.io/queue-name": "other"}})
    spec = scene.settle().workload(name)["spec"]
    assert (spec["queueName"], spec["podSets"][0]["count"]) == ("other", 1)


# start


def test_an_admitted_job_starts_where_its_flavor_is():
    scene = waiting(job(template={"nodeSelector": {"disk": "fast"}}))
    toleration = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
    scene.create(f"{KUEUE}/resourceflavors", flavor("spot", nodeLabels={"type": "spot"}, tolerations=[toleration]))
    scene.admit(flavor="spot")
    started = the_job(scene)["spec"]
    assert started["suspend"] is False
    assert started["template"]["spec"]["nodeSelector"] == {"disk": "fast", "type": "spot"}
    assert started["template"]["spec"]["tolerations"] == [toleration]
    labels = started["template"]["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/podset"] == "main"
    assert (labels["kueue.x-k8s.io/cluster-queue-name"], labels["kueue.x-k8s.io/local-queue-name"]) == ("cq", "lq")
    assert (scene.writes, scene.events) == (["PatchSpec"], ["Started"]), "in one write"


def test_a_job_waits_for_a_flavor_that_is_not_known_yet():
    scene = waiting().admit(flavor="late")
    assert the_job(scene)["spec"]["suspend"] is True
    scene.create(f"{KUEUE}/resourceflavors", flavor("late"))
    assert the_job(scene.settle())["spec"]["suspend"] is False


def test_quota_without_admission_starts_nothing():
    scene = waiting()
    found = scene.workload()
    pods = [{"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}, "count": 1}]
    scene.say(found, {"QuotaReserved": "True"}, admission={"clusterQueue": "cq", "podSetAssignments": pods})
    assert scene.settle().effects == []
    assert the_job(scene)["spec"]["suspend"] is True


def test_a_job_that_may_starts_with_the_pods_it_got_and_gets_them_all_back_when_it_is_stopped():
    scene = waiting(job(parallelism=5, annotations={MIN: "2"})).admit(main=3)
    assert the_job(scene)["spec"]["parallelism"] == 3
    assert scene.settle().effects == [], "it is as it was started"
    scene.job_status(active=3, startTime="1970-01-01T00:16:40Z")
    scene.evict().job_status(active=0, startTime=None, conditions=[{"type": "Suspended", "status": "True"}])
    assert the_job(scene)["spec"]["parallelism"] == 5


def test_with_fewer_pods_an_indexed_job_has_less_to_complete_if_it_says_so():
    manifest = job(parallelism=4, annotations={MIN: "1", FOLLOW: "true"}, completionMode="Indexed")
    spec = the_job(waiting(manifest).admit(main=2))["spec"]
    assert (spec["parallelism"], spec["completions"]) == (2, 2)


def test_what_contradicts_itself_never_starts():
    scene = waiting(job(template={"nodeSelector": {"type": "reserved"}}))
    scene.create(f"{KUEUE}/resourceflavors", flavor("spot", nodeLabels={"type": "spot"}))
    scene.admit(flavor="spot")
    assert scene.conditions()["Finished"] == ("True", "FailedToStart")
    assert the_job(scene)["spec"]["suspend"] is True


# while it runs


def test_pods_that_are_ready_are_told_once_and_so_is_their_loss():
    scene = running(job(parallelism=2), active=2)
    assert "PodsReady" not in scene.conditions()
    assert scene.job_status(active=2, ready=2).conditions()["PodsReady"] == ("True", "Started")
    assert scene.job_status(active=2, ready=1).conditions()["PodsReady"] == ("False", "WaitForRecovery")
    assert scene.job_status(active=2, ready=2).conditions()["PodsReady"] == ("True", "Recovered")


def test_pods_that_will_never_come_again_are_given_back():
    scene = running(job(parallelism=3, completions=5), active=3)
    scene.job_status(active=2, ready=2, succeeded=3)
    assert scene.workload()["status"]["reclaimablePods"] == [{"name": "main", "count": 1}]
    scene.job_status(active=1, ready=1, succeeded=4)
    assert scene.workload()["status"]["reclaimablePods"] == [{"name": "main", "count": 2}]


INDEXED = {"completionMode": "Indexed", "backoffLimitPerIndex": 0}


def test_pods_of_indexes_that_failed_for_good_are_given_back():
    scene = running(job(parallelism=4, **INDEXED), active=4)
    scene.job_status(active=2, ready=2, failed=2, failedIndexes="0,2")
    assert scene.workload()["status"]["reclaimablePods"] == [{"name": "main", "count": 2}]
    scene.job_status(active=1, ready=1, failed=2, succeeded=1, completedIndexes="1", failedIndexes="0,2")
    assert scene.workload()["status"]["reclaimablePods"] == [{"name": "main", "count": 3}]


def test_a_failed_index_gives_nothing_back_while_others_wait_for_its_place():
    scene = running(job(parallelism=2, completions=4, **INDEXED), active=2)
    scene.job_status(active=2, ready=2, failed=2, failedIndexes="0-1")
    assert "reclaimablePods" not in scene.workload()["status"]


def test_a_pod_that_failed_and_is_tried_again_keeps_its_quota():
    scene = running(job(parallelism=4), active=4)
    scene.job_status(active=4, ready=4, failed=3)
    assert "reclaimablePods" not in scene.workload()["status"]


def test_a_job_whose_other_indexes_run_is_ready():
    """Otherwise it would be evicted for pods that never come."""
    scene = running(job(parallelism=3, **INDEXED), active=3)
    scene.job_status(active=3, ready=3)
    scene.job_status(active=2, ready=2, failed=1, failedIndexes="1")
    assert scene.conditions()["PodsReady"] == ("True", "Started")


def test_a_job_without_completions_gives_back_the_pods_that_succeeded():
    scene = running({**(made := job(parallelism=3)), "spec": {**made["spec"], "completions": None}}, active=3)
    scene.job_status(active=2, ready=2, succeeded=1)
    assert scene.workload()["status"]["reclaimablePods"] == [{"name": "main", "count": 1}]


@pytest.mark.parametrize("end, reason", [("Complete", "Succeeded"), ("Failed", "Failed")])
def test_a_job_that_ended_finishes_its_workload(end, reason):
    scene = running()
    before = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[end]
    conditions = [{"type": name, "status": "True", "message": "because"} for name in (before, end)]
    done = {"completionTime": "1970-01-01T00:16:40Z", "succeeded": 1} if end == "Complete" else {"failed": 1}
    scene.job_status(active=0, conditions=conditions, **done)
    assert scene.conditions()["Finished"] == ("True", reason)
    finished = next(each for each in scene.workload()["status"]["conditions"] if each["type"] == "Finished")
    assert finished["message"] == "because"
    assert "finalizers" not in scene.workload()["metadata"], "it may be deleted now"
    assert scene.settle().effects == []


# stop


def test_an_evicted_job_holds_its_quota_until_nothing_of_it_is_active():
    scene = running().evict()
    assert the_job(scene)["spec"]["suspend"] is True
    assert scene.conditions()["QuotaReserved"] == ("True", "QuotaReserved")
    scene.now += 5
    scene.job_status(active=0, startTime=None, conditions=[{"type": "Suspended", "status": "True"}])
    said = scene.conditions()
    assert said["QuotaReserved"] == ("False", "PendingEvaluation")
    assert said["Admitted"] == ("False", "NoReservation")
    assert said["Requeued"] == ("True", "Preempted")
    status = scene.workload()["status"]
    assert "admission" not in status
    assert status["accumulatedPastExecutionTimeSeconds"] == 5


@pytest.mark.parametrize(
    "release, released", [(QuotaRelease.FAST, True), (QuotaRelease.GRACE, True), (QuotaRelease.ON_TERMINAL, False)]
)
def test_pods_of_a_job_that_still_terminate_hold_its_quota_only_if_all_must_end(release, released):
    scene = running(quota_release=release).evict()
    scene.job_status(active=0, terminating=1, startTime=None, conditions=[{"type": "Suspended", "status": "True"}])
    assert (scene.conditions()["QuotaReserved"][0] == "False") is released
    scene.job_status(active=0, terminating=0)
    assert scene.conditions()["QuotaReserved"][0] == "False"


def test_a_job_evicted_for_its_own_fault_does_not_queue_up_at_once():
    scene = waiting().admit().evict(reason="PodsReadyTimeout")
    scene.job_status(active=0, conditions=[{"type": "Suspended", "status": "True"}])
    assert scene.conditions()["Requeued"] == ("False", "PodsReadyTimeout")


def test_a_stopped_job_gets_its_template_back_and_may_start_elsewhere():
    scene = waiting(job(template={"nodeSelector": {"disk": "fast"}}))
    tolerations = [{"key": "spot", "operator": "Exists"}]
    scene.create(f"{KUEUE}/resourceflavors", flavor("spot", nodeLabels={"type": "spot"}, tolerations=tolerations))
    scene.admit(flavor="spot").job_status(active=1, startTime="1970-01-01T00:16:40Z")
    scene.evict()
    assert STOPPING in the_job(scene)["metadata"]["annotations"]
    assert template_of(scene) == ({"disk": "fast", "type": "spot"}, tolerations), "not while pods of it are active"
    scene.job_status(active=0, startTime=None, conditions=[{"type": "Suspended", "status": "True"}])
    assert STOPPING not in the_job(scene)["metadata"].get("annotations", {})
    assert template_of(scene)[0] == {"disk": "fast"}
    assert not template_of(scene)[1]
    assert "kueue.x-k8s.io/podset" not in the_job(scene)["spec"]["template"]["metadata"]["labels"]
    scene.admit()
    assert the_job(scene)["spec"]["suspend"] is False
    assert template_of(scene)[0] == {"disk": "fast"}


def test_a_job_that_someone_starts_without_quota_is_stopped():
    scene = waiting()
    scene.patch(f"{JOBS}/job", spec={"suspend": False})
    assert the_job(scene.settle())["spec"]["suspend"] is True
    assert scene.events == ["Stopped"]


def test_a_workload_cannot_go_before_its_job_has_stopped():
    scene = running()
    name = scene.workload()["metadata"]["name"]
    scene.delete(f"{WORKLOADS}/{name}")
    assert the_job(scene)["spec"]["suspend"] is True
    assert scene.names(WORKLOADS) == [name]
    scene.job_status(active=0, startTime=None, conditions=[{"type": "Suspended", "status": "True"}])
    assert scene.workload()["metadata"]["name"] == name, "made anew"
    assert "status" not in scene.workload()


def test_a_job_whose_size_changes_while_it_runs_is_stopped_and_queues_up_anew():
    scene = running(job(parallelism=2, completions=4), active=2)
    scene.patch(f"{JOBS}/job", spec={"parallelism": 3})
    scene.settle()
    assert the_job(scene)["spec"]["suspend"] is True
    scene.job_status(active=0, startTime=None, conditions=[{"type": "Suspended", "status": "True"}])
    assert "admission" not in scene.workload().get("status", {})


def test_the_workload_of_a_job_that_is_gone_is_let_go():
    scene = waiting()
    scene.delete(f"{JOBS}/job")
    assert scene.names(WORKLOADS) == []


# workloads made beforehand


def prebuilt(owner=None, count=1):
    pods = [{"name": "main", "count": count, "template": {"spec": job()["spec"]["template"]["spec"]}}]
    metadata = {"name": "made"} | ({"ownerReferences": [owner]} if owner else {})
    return {"metadata": metadata, "spec": {"queueName": "lq", "podSets": pods}}


PREBUILT = {"kueue.x-k8s.io/prebuilt-workload-name": "made"}


def test_a_job_that_names_a_workload_waits_for_it_and_takes_it_over():
    scene = waiting(job(labels=PREBUILT))
    assert scene.names(WORKLOADS) == []
    scene.create(WORKLOADS, prebuilt())
    (owner,) = scene.settle().workload("made")["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (the_job(scene)["metadata"]["uid"], True)
    assert the_job(scene.admit("made"))["spec"]["suspend"] is False


def test_a_named_workload_that_says_otherwise_is_out_of_sync():
    scene = waiting(job(labels=PREBUILT))
    scene.create(WORKLOADS, prebuilt(count=3))
    assert scene.settle().conditions("made")["Finished"] == ("True", "OutOfSync")


def test_a_named_workload_of_someone_else_is_left_alone():
    scene = waiting(job(labels=PREBUILT))
    theirs = scene.create(JOBS, job("theirs", labels={"kueue.x-k8s.io/queue-name": ""}))
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "theirs", "uid": theirs["metadata"]["uid"]}
    owner |= {"controller": True}
    scene.create(WORKLOADS, prebuilt(owner))
    assert "WorkloadNameConflict" in scene.settle().events


# after a restart


def test_a_new_process_goes_on_where_the_last_one_stopped():
    scene = running()
    scene.say(scene.workload(), {"Evicted": "True"}, "Preempted")
    scene.restart()
    assert the_job(scene.settle())["spec"]["suspend"] is True
    scene.patch(f"{JOBS}/job/status", status={"active": 0, "startTime": None, "conditions": [SUSPENDED]})
    scene.restart()
    assert scene.settle().conditions()["QuotaReserved"][0] == "False"
    assert STOPPING not in the_job(scene)["metadata"].get("annotations", {})


SUSPENDED = {"type": "Suspended", "status": "True"}


@pytest.mark.parametrize(
    "reason, active, kept_for, is_kept",
    [
        pytest.param("DeactivatedDueToRequeuingLimitExceeded", False, 10.0, False, id="we gave it up, some time ago"),
        pytest.param("DeactivatedDueToRequeuingLimitExceeded", False, 60.0, True, id="not so long ago"),
        pytest.param("DeactivatedDueToRequeuingLimitExceeded", False, None, True, id="it is kept for ever"),
        pytest.param("DeactivatedDueToRequeuingLimitExceeded", True, 10.0, True, id="its user wants it all the same"),
        pytest.param("Deactivated", False, 10.0, True, id="its user deactivated it"),
    ],
)
def test_how_long_a_job_that_was_given_up_is_kept(reason, active, kept_for, is_kept):
    scene = waiting(retention=Retention(after_deactivated=kept_for)).admit(flavor="unknown")
    scene.patch(f"{WORKLOADS}/{scene.workload()['metadata']['name']}", spec={"active": active})
    scene.evict(reason=reason)
    if reason != "Deactivated" and kept_for and not active:
        assert scene.wakes == [scene.now + kept_for]
    scene.later(10)
    assert bool(scene.names(JOBS)) is is_kept
    told = [effect.message for effect in scene.effects if getattr(effect, "reason", "") == "Deleted"]
    assert told == ([] if is_kept else ["Deleted job: deactivation retention period expired"])
