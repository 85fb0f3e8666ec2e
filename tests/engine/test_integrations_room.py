"""Where nodes can be seen, work admitted against a debt starts as soon as they really have room for all of it."""

import pytest
from integration_scenes import CLUSTER_QUEUES, JOBS, KUEUE, PODS, Integrations, cluster_queue, job, member, pod

LONG = {"terminationGracePeriodSeconds": 60}
NODES = "/api/v1/nodes"
CORDON = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}


def node(name, cpu, ready=True, labels=None, **spec):
    status = {
        "allocatable": {"cpu": str(cpu), "memory": "8Gi", "pods": "20"},
        "conditions": [{"type": "Ready", "status": str(ready)}],
    }
    metadata = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


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
    assert told == ["waiting for room on nodes of flavor default that pods which leave still take"]
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


def test_without_any_node_of_the_flavor_quota_alone_decides():
    scene = Integrations()
    scene.patch(f"{KUEUE}/resourceflavors/default", spec={"nodeLabels": {"pool": "a"}})
    scene.create(CLUSTER_QUEUES, cluster_queue(2))
    scene.create(NODES, node("n", 8, labels={"pool": "b"}))
    scene.create(PODS, pod("old", **LONG))
    name = scene.settle().workload()["metadata"]["name"]
    scene.admit(name).run("old").evict(name)
    assert admitted(scene, pod("first")).free("first")
    assert not admitted(scene, pod("second")).free("second")


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


def test_those_alike_start_one_after_the_other_as_room_comes():
    scene = preempted()
    names = [f"new-{number}" for number in range(3)]
    for name in names:
        admitted(scene, pod(name))
    assert waiting(scene) == 3
    for count, name in enumerate(names, start=1):
        scene.create(NODES, node(f"spare-{name}", 1))
        scene.settle()
        assert [scene.free(each) for each in names] == [number < count for number in range(3)]
        scene.ask(
            "POST",
            f"{PODS}/{name}/binding",
            {"metadata": {"name": name}, "target": {"kind": "Node", "name": f"spare-{name}"}},
        )


def test_nobody_waits_for_nodes_that_a_stuck_pod_will_not_leave():
    """There is quota beside what it owes, so the newcomer may ask for a new node: this one will not be free soon."""
    scene = admitted(preempted(quota=2), pod("new"))
    assert not scene.free("new")
    assert not scene.later(89).free("new")
    assert scene.later(1).free("new")


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


def test_a_replacement_waits_until_the_pod_that_leaves_made_room():
    scene = half_gone()
    scene.create(PODS, member("c"))
    assert not scene.settle().free("c")
    assert (waiting(scene), owed(scene)) == (1, 0), "the group itself holds the quota of the pod that leaves"
    assert scene.end("a", phase="Failed").free("c")


def test_a_replacement_that_starts_beside_it_leaves_a_debt():
    scene = half_gone(quota=3)
    scene.create(PODS, member("c"))
    assert scene.settle().free("c")
    assert owed(scene) == 1000
    assert owed(scene.end("a", phase="Failed")) == 0


def test_with_nothing_but_replacements_that_are_held_back_they_wait_for_the_pod_that_leaves():
    scene = half_gone(quota=2).end("b", phase="Failed")
    for name in "cd":
        scene.create(PODS, member(name))
    scene.settle()
    assert (scene.free("c"), scene.free("d"), owed(scene)) == (False, False, 0)
    scene.end("a", phase="Failed")
    assert (scene.free("c"), scene.free("d")) == (True, True)


def test_the_room_of_a_pod_that_leaves_and_is_not_replaced_yet_is_not_given_to_others():
    """The queue owns three: two are the group's, of which one pod still leaves, and one is owed by another pod."""
    scene = Integrations()
    scene.create(CLUSTER_QUEUES, cluster_queue(3))
    for manifest in (pod("old", **LONG), *(member(name, **LONG) for name in "ab")):
        scene.create(PODS, manifest)
    (alone,) = set(scene.settle().names(f"{KUEUE}/namespaces/default/workloads")) - {"group"}
    scene.admit(alone).admit("group").run("old", "a", "b").evict(alone)
    scene.delete(f"{PODS}/a").end("b", phase="Failed")
    assert owed(scene) == 1000
    assert not admitted(scene, pod("new")).free("new")
    assert scene.end("old", phase="Failed").free("new")


def test_replacements_owe_no_more_than_may_be_owed():
    scene = half_gone(quota=3, debt_percent=0)
    scene.create(PODS, member("c"))
    assert not scene.settle().free("c")
    assert scene.end("a", phase="Failed").free("c")
