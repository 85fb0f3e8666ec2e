"""Groups of pods are admitted together, keep their places for replacements, and release quota when none is active."""

import pytest
from integration_scenes import GATE, GROUP, MANAGED, PODS, QUEUE, WORKLOADS, Integrations, member, pod

from headgate.model.settings import QuotaRelease

FAST, SERVING = "kueue.x-k8s.io/pod-group-fast-admission", "kueue.x-k8s.io/pod-group-serving"
RETRIABLE = "kueue.x-k8s.io/retriable-in-group"
LONG = {"terminationGracePeriodSeconds": 60}


def group(*members, **quota):
    scene = Integrations(**quota)
    for each in members:
        scene.create(PODS, each)
    return scene.settle()


def running(*members, **quota):
    members = members or (member("a", **LONG), member("b", **LONG))
    return group(*members, **quota).admit("group").run(*(each["metadata"]["name"] for each in members))


def gates(scene, name):
    return [gate["name"] for gate in scene.get(f"{PODS}/{name}")["spec"].get("schedulingGates", [])]


def finalizers(scene, name):
    return scene.get(f"{PODS}/{name}")["metadata"].get("finalizers", [])


def counts(scene):
    return sorted(each["count"] for each in scene.workload("group")["spec"]["podSets"])


# a group and its Workload


def test_a_group_gets_one_workload_under_its_name_that_all_its_pods_own():
    scene = group(member("a"), member("b"))
    made = scene.workload()
    assert made["metadata"]["name"] == "group"
    assert made["metadata"]["annotations"]["kueue.x-k8s.io/is-group-workload"] == "true"
    assert [owner["name"] for owner in made["metadata"]["ownerReferences"]] == ["a", "b"]
    assert counts(scene) == [2]


def test_a_group_waits_for_all_its_pods():
    scene = group(member("a", total=3), member("b", total=3))
    assert scene.names(WORKLOADS) == []
    scene.create(PODS, member("c", total=3))
    assert counts(scene.settle()) == [3]


def test_the_name_of_the_group_may_be_an_annotation():
    made = [pod(name, annotations={GROUP: "group", "kueue.x-k8s.io/pod-group-total-count": "2"}) for name in "ab"]
    assert counts(group(*made)) == [2]


def test_pods_that_ask_for_different_things_are_different_pod_sets():
    scene = group(member("a", total=3), member("b", total=3, cpu="2"), member("c", total=3, cpu="2"))
    assert counts(scene) == [1, 2]


def test_the_role_a_pod_says_it_has_counts():
    role = "kueue.x-k8s.io/role-hash"
    scene = group(member("a", annotations={role: "leader"}), member("b", annotations={role: "worker"}))
    assert [each["name"] for each in scene.workload()["spec"]["podSets"]] == ["leader", "worker"]


def test_with_fast_admission_the_first_pod_is_enough():
    scene = group(member("a", total=3, annotations={FAST: "true"}))
    assert counts(scene) == [3]
    assert "WaitingForReplacementPods" not in scene.conditions("group")
    scene.admit("group")
    assert gates(scene, "a") == []
    scene.create(PODS, member("b", total=3, annotations={FAST: "true"}))
    assert gates(scene.settle(), "b") == [], "those that follow start at once"
    owners = scene.workload("group")["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners] == ["a", "b"]


@pytest.mark.parametrize(
    "members, problem",
    [
        pytest.param((member("a"), member("b", total=3)), "differ in kueue.x-k8s.io/pod-group-total", id="totals"),
        pytest.param(
            (member("a"), member("b", labels={QUEUE: "x"})), "differ in kueue.x-k8s.io/queue-name", id="queues"
        ),
        pytest.param(
            tuple(member(f"p{cpu}", total=19, cpu=str(cpu + 1)) for cpu in range(19)), "19 roles", id="too many roles"
        ),
    ],
)
def test_pods_that_contradict_each_other_make_no_group(members, problem):
    scene = group(*members)
    assert scene.names(WORKLOADS) == []
    assert scene.events == ["ErrWorkloadCompose"], "which is said once"
    assert problem in scene.effects[0].message


def test_a_workload_that_happens_to_have_the_groups_name_is_not_taken_over():
    scene = Integrations()
    template = {"spec": {"containers": [{"name": "c", "image": "example.com/i:1"}], "restartPolicy": "Never"}}
    manifest = {
        "metadata": {"name": "group"},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]},
    }
    scene.create(WORKLOADS, manifest)
    for name in "ab":
        scene.create(PODS, member(name))
    assert scene.settle().events == ["WorkloadNameConflict"]
    assert "ownerReferences" not in scene.workload("group")["metadata"]


def test_all_pods_start_when_the_group_is_admitted():
    scene = group(member("a"), member("b"))
    assert gates(scene, "a") == [GATE]
    scene.admit("group")
    assert gates(scene, "a") == gates(scene, "b") == []
    assert scene.writes == ["PatchSpec", "PatchSpec"]


def test_a_group_is_ready_when_all_its_pods_are():
    scene = group(member("a"), member("b")).admit("group").run("a")
    assert "PodsReady" not in scene.conditions("group")
    assert scene.run("b").conditions("group")["PodsReady"] == ("True", "Started")


# pods too many, pods too few


def test_a_pod_too_many_is_sent_away():
    scene = group(member("a"), member("b"))
    scene.now += 1
    scene.create(PODS, member("c"))
    scene.settle()
    assert scene.names(PODS) == ["a", "b"]
    assert scene.events == ["ExcessPodDeleted"]


def test_of_pods_too_many_the_oldest_make_the_group():
    scene = Integrations()
    for name in "abc":
        scene.create(PODS, member(name))
        scene.now += 1
    assert scene.settle().names(PODS) == ["a", "b"]
    assert counts(scene) == [2]


def test_a_failed_pod_keeps_its_place_until_another_takes_it():
    scene = running().end("a", phase="Failed")
    assert scene.conditions("group")["WaitingForReplacementPods"] == ("True", "PodsFailed")
    assert finalizers(scene, "a") == [MANAGED]
    scene.now += 1
    scene.create(PODS, member("c"))
    scene.settle()
    assert gates(scene, "c") == [], "the group has quota for it"
    assert finalizers(scene, "a") == []
    assert scene.conditions("group")["WaitingForReplacementPods"][0] == "False"
    assert "c" in [owner["name"] for owner in scene.workload("group")["metadata"]["ownerReferences"]]


def test_pods_that_succeeded_give_their_quota_back_and_keep_their_place():
    scene = running().end("a")
    (reclaimed,) = scene.workload("group")["status"]["reclaimablePods"]
    assert reclaimed["count"] == 1
    assert finalizers(scene, "a") == [MANAGED]


def test_a_group_ends_when_all_its_pods_succeeded_and_then_lets_them_go():
    scene = running().end("a", "b")
    assert scene.conditions("group")["Finished"] == ("True", "Succeeded")
    assert finalizers(scene, "a") == finalizers(scene, "b") == []
    assert scene.settle().effects == []


def test_a_failed_pod_alone_ends_no_group():
    assert "Finished" not in running().end("a", "b", phase="Failed").conditions("group")


def test_a_group_ends_with_its_pods_when_one_says_it_is_not_to_be_replaced():
    scene = running(member("a"), member("b", annotations={RETRIABLE: "false"}))
    assert "Finished" not in scene.end("a", phase="Failed").conditions("group")
    assert scene.end("b", phase="Failed").conditions("group")["Finished"] == ("True", "Failed")
    assert finalizers(scene, "a") == []


def test_a_group_that_serves_never_ends_and_lets_its_pods_go_at_once():
    serving = {SERVING: "true"}
    scene = running(member("a", annotations=serving), member("b", annotations=serving)).end("a", "b")
    assert "Finished" not in scene.conditions("group")
    assert "reclaimablePods" not in scene.workload("group")["status"]
    assert finalizers(scene, "a") == finalizers(scene, "b") == []


def test_the_evicted_pods_of_a_group_that_serves_make_room_for_new_ones_of_their_name():
    serving = {SERVING: "true"}
    scene = running(member("a", annotations=serving, **LONG), member("b", annotations=serving, **LONG))
    scene.evict("group").end("a", "b", phase="Failed")
    assert finalizers(scene, "a") == finalizers(scene, "b") == []


# eviction and fast release


def test_an_evicted_group_releases_its_quota_when_all_its_pods_are_asked_to_leave():
    scene = running().evict("group")
    assert scene.conditions("group")["QuotaReserved"] == ("False", "PendingEvaluation")
    assert scene.conditions("group")["Requeued"] == ("True", "Preempted")
    assert "Finished" not in scene.conditions("group")
    phases = [scene.get(f"{PODS}/{name}")["status"]["phase"] for name in "ab"]
    assert phases == ["Running", "Running"], "while they stop"


def test_an_evicted_group_waits_for_new_pods_before_it_queues_up_again():
    scene = running().evict("group")
    assert scene.conditions("group")["WaitingForReplacementPods"] == ("True", "Preempted")
    scene.now += 1
    for name in "cd":
        scene.create(PODS, member(name))
    scene.settle()
    assert scene.conditions("group")["WaitingForReplacementPods"][0] == "False"
    assert gates(scene, "c") == [GATE]
    assert gates(scene.end("a", "b", phase="Failed").admit("group"), "c") == []


@pytest.mark.parametrize(
    "release, at_once, in_grace, past_grace",
    [
        pytest.param(QuotaRelease.FAST, True, True, True, id="fast: at once"),
        pytest.param(QuotaRelease.GRACE, False, False, True, id="grace: when that is over"),
        pytest.param(QuotaRelease.ON_TERMINAL, False, False, False, id="on terminal: not before they end"),
    ],
)
def test_when_an_evicted_group_releases_its_quota(release, at_once, in_grace, past_grace):
    def is_released():
        return scene.conditions("group")["QuotaReserved"][0] == "False"

    scene = running(quota_release=release).evict("group")
    found = [is_released()]
    for seconds in (100, 100):
        scene.later(seconds)
        found.append(is_released())
    assert found == [at_once, in_grace, past_grace]
    scene.end("a", "b", phase="Failed")
    assert is_released()


def test_pods_that_were_never_started_do_not_hold_the_quota_of_an_evicted_group():
    scene = group(member("a"), member("b")).admit("group", flavor="unknown").evict("group")
    assert scene.conditions("group")["QuotaReserved"][0] == "False"
    assert gates(scene, "a") == gates(scene, "b") == [GATE], "they wait for the next time"


def test_a_group_whose_pods_are_all_deleted_by_its_user_is_over():
    scene = running()
    for name in "ab":
        scene.ask("DELETE", f"{PODS}/{name}")
    scene.settle()
    assert scene.conditions("group")["Finished"] == ("True", "OwnerNotFound")
    assert finalizers(scene, "a") == finalizers(scene, "b") == []


def test_pods_that_all_leave_make_no_new_workload():
    scene = running()
    for name in "ab":
        scene.ask("DELETE", f"{PODS}/{name}")
    scene.settle()
    scene.delete(f"{WORKLOADS}/group")
    assert scene.names(WORKLOADS) == []


def test_a_new_process_goes_on_with_an_evicted_group():
    scene = running()
    scene.say(scene.workload("group"), {"Evicted": "True"}, "Preempted")
    scene.step()
    scene.restart()
    scene.settle()
    assert scene.conditions("group")["QuotaReserved"][0] == "False"
    assert scene.settle().effects == []
