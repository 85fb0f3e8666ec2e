"""Admitted work is held only while leaving pods that are promised to it would make it fit; all else starts at once."""

import pytest
from integration_scenes import (
    CLUSTER_QUEUES,
    JOBS,
    KUEUE,
    NODES,
    PODS,
    WORKLOAD_CLASSES,
    Integrations,
    cluster_queue,
    job,
    local_queue,
    member,
    node,
    pod,
)

from headgate.model.effects import PatchSpec
from headgate.model.events import WriteError

LONG = {"terminationGracePeriodSeconds": 60}
CORDON = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}


def preempted(*nodes, quota=1, **settings):
    """A pod runs on node n, which is as large as it, and was told to go."""
    scene = Integrations(**settings)
    scene.create(CLUSTER_QUEUES, cluster_queue(quota))
    for each in (node("n", 1), *nodes):
        scene.create(NODES, each)
    scene.create(PODS, pod("old", **LONG))
    name = scene.settle().workload()["metadata"]["name"]
    return scene.admit(name).run("old").evict(name)


def admitted(scene, manifest, path=PODS):
    known = set(scene.names(f"{KUEUE}/namespaces/default/workloads"))
    scene.create(path, manifest)
    (name,) = set(scene.settle().names(f"{KUEUE}/namespaces/default/workloads")) - known
    return scene.admit(name)


def waiting(scene):
    return scene.number("headgate_work_waiting_for_room")


@pytest.mark.parametrize(
    "spare, starts",
    [
        pytest.param(node("spare", 1), True, id="a spare node has room"),
        pytest.param(node("spare", 1, unschedulable=True), False, id="the spare node is cordoned"),
        pytest.param(node("spare", 1, ready=False), False, id="the spare node is not ready"),
        pytest.param(node("spare", 1, taints=[CORDON]), False, id="the spare node has a taint they do not tolerate"),
        pytest.param(node("spare", "500m"), False, id="the spare node is too small"),
    ],
)
def test_held_work_starts_before_the_pods_that_leave_are_gone_if_nodes_have_room(spare, starts):
    scene = admitted(preempted(spare), pod("new"))
    assert scene.free("new") is starts
    assert scene.end("old", phase="Failed").free("new")


def test_it_starts_when_a_node_joins():
    scene = admitted(preempted(), pod("new"))
    assert not scene.free("new")
    scene.create(NODES, node("joins", 1))
    assert scene.settle().free("new")


def test_it_starts_when_a_pod_of_a_stranger_leaves_room():
    scene = preempted(node("m", 1))
    stranger = pod("stranger", labels={"kueue.x-k8s.io/managed": "", "kueue.x-k8s.io/queue-name": ""}, gates=[])
    scene.create(PODS, {**stranger, "spec": {**stranger["spec"], "nodeName": "m"}})
    assert not admitted(scene, pod("new")).free("new")
    assert scene.end("stranger").free("new")


def test_work_waits_for_nodes_though_there_is_quota_beside_the_debt():
    """Once the pod that leaves is gone its node has room: a node added for the newcomer would be one too many."""
    scene = admitted(preempted(quota=2), pod("new"))
    assert not scene.free("new")
    told = [entry.message for entry in scene.journal.take() if entry.reason == "WaitingForRoom"]
    assert told == ["waiting for 1 cpu of leaving pods default/old on n; starts by 1970-01-01T00:17:40Z"]
    assert scene.end("old", phase="Failed").free("new")


def test_demand_that_will_not_vanish_is_shown_at_once():
    """Not even without the pod that leaves do nodes have room: whoever adds nodes has to see that."""
    scene = admitted(preempted(quota=5), pod("new", cpu="2"))
    assert scene.free("new")


def test_work_that_no_debt_concerns_starts_whether_nodes_have_room_or_not():
    scene = Integrations()
    scene.create(CLUSTER_QUEUES, cluster_queue(5))
    scene.create(NODES, node("n", 1))
    assert admitted(scene, pod("new", cpu="2")).free("new")


def test_nodes_of_another_flavor_do_not_count():
    scene = Integrations()
    scene.patch(f"{KUEUE}/resourceflavors/default", spec={"nodeLabels": {"pool": "a"}})
    scene.create(CLUSTER_QUEUES, cluster_queue(1))
    scene.create(NODES, node("n", 1, labels={"pool": "a"}))
    scene.create(NODES, node("spare", 1, labels={"pool": "b"}))
    scene.create(PODS, pod("old", **LONG))
    name = scene.settle().workload()["metadata"]["name"]
    scene.admit(name).run("old").evict(name)
    assert not admitted(scene, pod("new")).free("new")
    scene.create(NODES, node("more", 1, labels={"pool": "a"}))
    assert scene.settle().free("new")


def test_without_any_node_of_the_flavor_nobody_is_held():
    scene = Integrations()
    scene.patch(f"{KUEUE}/resourceflavors/default", spec={"nodeLabels": {"pool": "a"}})
    scene.create(CLUSTER_QUEUES, cluster_queue(2))
    scene.create(NODES, node("n", 8, labels={"pool": "b"}))
    scene.create(PODS, pod("old", **LONG))
    name = scene.settle().workload()["metadata"]["name"]
    scene.admit(name).run("old").evict(name)
    for name in ("first", "second"):
        assert admitted(scene, pod(name)).free(name)


def test_room_of_pods_that_were_started_and_have_no_node_yet_is_not_given_away():
    scene = preempted(node("spare", 1))
    assert admitted(scene, pod("first")).free("first")
    assert not admitted(scene, pod("second")).free("second")
    scene.create(NODES, node("more", 1))
    assert scene.settle().free("second")


def test_room_of_pods_that_a_started_job_has_still_to_make_is_not_given_away():
    scene = preempted(node("spare", 2), quota=2)
    admitted(scene, job(parallelism=2), JOBS)
    assert scene.get(f"{JOBS}/job")["spec"]["suspend"] is False
    assert not admitted(scene, pod("new")).free("new")


def test_a_group_starts_when_there_is_room_for_all_of_it():
    scene = preempted(node("spare", 1), quota=2)
    for name in "ab":
        scene.create(PODS, member(name))
    scene.settle().admit("group")
    assert not scene.free("a")
    assert not scene.free("b")
    scene.create(NODES, node("more", 1))
    scene.settle()
    assert scene.free("a")
    assert scene.free("b")


def test_a_leaving_pod_is_promised_to_one_and_the_others_start_at_once():
    scene = preempted()
    names = [f"new-{number}" for number in range(3)]
    for name in names:
        admitted(scene, pod(name))
        scene.now += 1
    assert [scene.free(name) for name in names] == [False, True, True]
    assert waiting(scene) == 1


def test_a_stuck_pod_holds_nobody_back():
    """From the end of its grace on: whoever waited for it is shown as demand, and whoever comes later is so at once."""
    scene = admitted(preempted(), pod("new"))
    scene.later(2)
    assert scene.now + 58 in scene.wakes
    assert not scene.later(57).free("new")
    assert scene.later(1).free("new")
    assert admitted(scene, pod("later")).free("later")


def test_the_room_that_nodes_have_is_known_to_a_new_process():
    scene = admitted(preempted(node("spare", 1)), pod("first"))
    scene.restart()
    assert not admitted(scene.settle(), pod("second")).free("second")
    scene.create(NODES, node("more", 1))
    assert scene.settle().free("second")


# a group of which one pod leaves while another is to take its place


def half_gone(*nodes, quota=2, **settings):
    """A group of two, of which one pod leaves; another is there for its place."""
    scene = Integrations(**settings)
    scene.create(CLUSTER_QUEUES, cluster_queue(quota))
    for each in nodes:
        scene.create(NODES, each)
    for name in "ab":
        scene.create(PODS, member(name, **LONG))
    scene.settle().admit("group").run("a", "b")
    scene.delete(f"{PODS}/a")
    return scene


DEBT = {"cluster_queue": "cq", "flavor": "default", "resource": "cpu"}


def owed(scene):
    return scene.number("headgate_released_debt", **DEBT)


def test_a_replacement_starts_at_once():
    """Its group runs: the hold of an admission is over with its start."""
    scene = half_gone(node("n", 2))
    scene.create(PODS, member("c"))
    assert scene.settle().free("c")
    assert waiting(scene) == 0


def test_a_replacement_that_starts_beside_it_leaves_a_debt():
    scene = half_gone(quota=3)
    scene.create(PODS, member("c"))
    assert scene.settle().free("c")
    assert owed(scene) == 1000
    assert owed(scene.end("a", phase="Failed")) == 0


def test_the_room_of_a_pod_that_leaves_and_is_not_replaced_yet_is_not_promised_to_others():
    """Two places are the group's, of which one pod still leaves and one has ended; another pod owes the third."""
    scene = Integrations()
    scene.create(CLUSTER_QUEUES, cluster_queue(3))
    scene.create(NODES, node("n", 3))
    for manifest in (pod("old", **LONG), *(member(name, **LONG) for name in "ab")):
        scene.create(PODS, manifest)
    (alone,) = set(scene.settle().names(f"{KUEUE}/namespaces/default/workloads")) - {"group"}
    scene.admit(alone).admit("group").run("old", "a", "b").evict(alone)
    scene.delete(f"{PODS}/a").end("b", phase="Failed")
    assert owed(scene) == 1000
    assert not admitted(scene, pod("new")).free("new")
    assert scene.end("old", phase="Failed").free("new")


# for how long, for whom, and what it shows


def held_message(scene, name):
    (said,) = [each for each in conditions(scene, name) if each["type"] == "WaitingForRoom"]
    return said["status"], said["message"]


def conditions(scene, name):
    found = scene.get(f"{KUEUE}/namespaces/default/workloads")["items"]
    (mine,) = [each for each in found if each["metadata"]["ownerReferences"][0]["name"] == name]
    return mine["status"]["conditions"]


@pytest.mark.parametrize(
    "max_hold, seconds",
    [
        pytest.param(20.0, 20, id="maxHold"),
        pytest.param(300.0, 60, id="the grace of the pods it waits for, if that is shorter"),
    ],
)
def test_a_hold_ends_after(max_hold, seconds):
    scene = admitted(preempted(max_hold=max_hold), pod("new"))
    assert held_message(scene, "new")[0] == "True"
    assert not scene.later(seconds - 1).free("new")
    assert scene.later(1).free("new")
    assert held_message(scene, "new") == ("False", "The workload is no longer held")


def test_with_a_max_hold_of_zero_nobody_is_held():
    scene = admitted(preempted(max_hold=0.0), pod("new"))
    assert scene.free("new")
    assert "WaitingForRoom" not in [each["type"] for each in conditions(scene, "new")]


def test_a_hold_ends_at_its_time_also_if_the_process_was_restarted():
    scene = admitted(preempted(max_hold=20.0), pod("new")).later(10)
    scene.restart()
    assert not scene.settle().free("new")
    assert scene.events == [], "what was said is not said again"
    assert not scene.later(9).free("new")
    assert scene.later(1).free("new")


def test_a_hold_that_ended_does_not_come_back():
    """The node that ended it is gone again before the start took hold: the workload starts all the same."""
    scene = admitted(preempted(), pod("new"))
    scene.fault = lambda write: WriteError.UNAVAILABLE if isinstance(write, PatchSpec) else None
    scene.create(NODES, node("joins", 1))
    scene.settle()
    assert held_message(scene, "new")[0] == "False"
    scene.delete(f"{NODES}/joins")
    scene.fault = lambda _: None
    assert scene.later(1).free("new")


def test_a_leaving_pod_goes_to_the_more_important_then_to_the_older():
    scene = preempted(node("m", 1), quota=9)
    scene.create(WORKLOAD_CLASSES, {"metadata": {"name": "urgent"}, "value": 100})
    stays = admitted(scene, pod("stays"))
    stays.ask("POST", f"{PODS}/stays/binding", {"metadata": {"name": "stays"}, "target": {"kind": "Node", "name": "m"}})
    admitted(scene.settle(), pod("older"))
    scene.now += 5
    admitted(scene, pod("younger"))
    assert (scene.free("older"), scene.free("younger")) == (False, True)
    scene.now += 5
    admitted(scene, pod("urgent", labels={"kueue.x-k8s.io/priority-class": "urgent"}))
    assert (scene.free("older"), scene.free("urgent")) == (True, False)


def test_of_two_who_wait_the_more_important_is_promised_the_pod_that_is_due_first():
    scene = Integrations()
    scene.create(CLUSTER_QUEUES, cluster_queue(2))
    scene.create(WORKLOAD_CLASSES, {"metadata": {"name": "urgent"}, "value": 100})
    for name, grace in (("a", 60), ("b", 90)):
        scene.create(NODES, node(f"n-{name}", 1))
        scene.create(PODS, pod(f"old-{name}", terminationGracePeriodSeconds=grace))
        (workload,) = [
            each for each in scene.settle().names(f"{KUEUE}/namespaces/default/workloads") if f"old-{name}" in each
        ]
        scene.admit(workload)
        target = {"kind": "Node", "name": f"n-{name}"}
        scene.ask("POST", f"{PODS}/old-{name}/binding", {"metadata": {"name": f"old-{name}"}, "target": target})
        scene.patch(f"{PODS}/old-{name}/status", status={"phase": "Running"})
        scene.settle().evict(workload)
    admitted(scene, pod("plain"))
    assert "old-a on n-a; starts by 1970-01-01T00:17:40Z" in held_message(scene, "plain")[1]
    admitted(scene, pod("urgent", labels={"kueue.x-k8s.io/priority-class": "urgent"}))
    assert "old-a on n-a; starts by 1970-01-01T00:17:40Z" in held_message(scene, "urgent")[1]
    assert "old-b on n-b; starts by 1970-01-01T00:18:10Z" in held_message(scene, "plain")[1]


@pytest.mark.parametrize(
    "cohorts, held",
    [
        pytest.param(({}, {}), False, id="a queue that shares nothing with theirs"),
        pytest.param(({"cohortName": "all"}, {"cohortName": "all"}), True, id="a queue of the same cohort"),
        pytest.param(({"cohortName": "one"}, {"cohortName": "two"}), False, id="a queue of another cohort"),
    ],
)
def test_who_was_not_admitted_against_their_quota_is_not_held_for_leaving_pods(cohorts, held):
    scene = Integrations(with_quota=True)
    for name, spec in zip(("cq", "other"), cohorts, strict=True):
        scene.create(CLUSTER_QUEUES, cluster_queue(4, name, **spec))
        scene.create(f"{KUEUE}/namespaces/default/localqueues", local_queue(f"l{name}", name))
    scene.create(NODES, node("n", 1))
    scene.create(PODS, pod("old", labels={"kueue.x-k8s.io/queue-name": "lcq"}, **LONG))
    scene.settle().run("old").delete(f"{PODS}/old")
    scene.create(PODS, pod("new", labels={"kueue.x-k8s.io/queue-name": "lother"}))
    assert scene.settle().free("new") is not held


@pytest.mark.parametrize(
    "queue",
    [pytest.param("", id="a pod of no queue"), pytest.param("lq", id="a pod whose group holds its quota")],
)
def test_nobody_is_held_for_pods_that_gave_no_quota_back(queue):
    scene = Integrations()
    scene.create(CLUSTER_QUEUES, cluster_queue(2))
    scene.create(NODES, node("n", 1))
    if queue:
        scene.create(PODS, member("old", 2, **LONG))
        scene.create(PODS, member("rest", 2, nodeSelector={"nowhere": "x"}))
        scene.settle().admit("group")
    else:
        stranger = pod("old", labels={"kueue.x-k8s.io/managed": "", "kueue.x-k8s.io/queue-name": ""}, gates=[], **LONG)
        scene.create(PODS, stranger)
    scene.run("old").delete(f"{PODS}/old")
    assert admitted(scene, pod("new")).free("new")


def test_a_hold_ends_when_the_node_of_the_leaving_pod_is_gone():
    scene = admitted(preempted(), pod("new"))
    assert scene.delete(f"{NODES}/n").free("new")


def test_a_hold_ends_when_the_leaving_pod_is_deleted_by_force():
    scene = admitted(preempted(), pod("new"))
    scene.ask("DELETE", f"{PODS}/old", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    assert scene.settle().free("new")


def test_a_group_with_several_pod_sets_and_a_job_with_fewer_pods_are_held_as_a_whole():
    scene = preempted(node("m", 2), quota=9)
    scene.create(PODS, member("leader", cpu="2"))
    scene.create(PODS, member("worker"))
    scene.settle().admit("group")
    assert not scene.free("leader")
    assert not scene.free("worker")
    assert "default/old on n;" in held_message(scene, "leader")[1]
    scene.end("old", phase="Failed")
    assert scene.free("leader")
    assert scene.free("worker")


def test_a_job_is_held_for_as_many_pods_as_it_was_admitted_with():
    scene = preempted(node("m", 1))
    scene.create(JOBS, job(parallelism=4))
    (name,) = [each for each in scene.settle().names(f"{KUEUE}/namespaces/default/workloads") if "job" in each]
    scene.admit(name, main=2)
    assert scene.get(f"{JOBS}/job")["spec"]["suspend"] is True
    assert scene.end("old", phase="Failed").get(f"{JOBS}/job")["spec"]["suspend"] is False


def test_who_is_preempted_while_it_is_held_is_held_no_longer():
    scene = admitted(preempted(), pod("new"))
    name = next(each for each in scene.names(f"{KUEUE}/namespaces/default/workloads") if "new" in each)
    scene.evict(name)
    assert scene.conditions(name)["WaitingForRoom"][0] == "False"
    assert waiting(scene) == 0
    scene.now += 5
    assert not scene.admit(name).free("new"), "in its next admission it may be held again"
    assert scene.conditions(name)["WaitingForRoom"][0] == "True"
