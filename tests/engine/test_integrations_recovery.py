"""Pods that cannot stop because nobody reaches their node are removed, if they say that is safe."""

import pytest
from integration_scenes import CLUSTER_QUEUES, MANAGED, NODES, PODS, Integrations, cluster_queue, node, pod

from headgate.model.effects import Delete
from headgate.model.events import WriteError

GRACE = 30
PATIENCE = 60
SAFE = {"kueue.x-k8s.io/safe-to-forcefully-delete": "true"}
LOST = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}


def leaving(annotations=SAFE, taints=(LOST,), recovers=True, **fields):
    """A pod that was preempted and asked to leave its node, which it never does."""
    scene = Integrations(recovers_failures=recovers)
    scene.create(CLUSTER_QUEUES, cluster_queue(1))
    scene.create(NODES, node("n", 1, taints=list(taints)))
    scene.create(PODS, pod("old", annotations=annotations, terminationGracePeriodSeconds=GRACE, **fields))
    name = scene.settle().workload()["metadata"]["name"]
    return scene.admit(name).run("old").evict(name)


def is_there(scene):
    return "old" in scene.names(PODS)


def test_it_is_removed_a_minute_after_its_grace():
    scene = leaving()
    assert is_there(scene.later(GRACE + PATIENCE - 1))
    assert scene.now + 1 in scene.wakes
    scene.later(1)
    assert not is_there(scene)
    assert "KueueForcefullyDeleted" in scene.events


def test_it_says_why_and_that_it_failed():
    scene = leaving(finalizers=[MANAGED, "example.com/keeps"])
    found = scene.later(GRACE + PATIENCE).get(f"{PODS}/old")
    assert found["status"]["phase"] == "Failed"
    (why,) = [each for each in found["status"]["conditions"] if each["type"] == "KueueFailureRecovery"]
    assert (why["status"], why["reason"]) == ("True", "KueueForcefullyDeleted")
    assert "unreachable node `n`" in why["message"]
    assert "Delete" not in scene.later(PATIENCE).writes, "once"


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"annotations": {}}, id="it does not say that this is safe"),
        pytest.param({"taints": ()}, id="its node can be reached"),
        pytest.param({"recovers": False}, id="the feature is off, as it is by default"),
    ],
)
def test_it_is_left_alone(changed):
    assert is_there(leaving(**changed).later(GRACE + PATIENCE))


def test_a_pod_that_nobody_asked_to_leave_is_left_alone():
    scene = Integrations(recovers_failures=True)
    scene.create(NODES, node("n", 1, taints=[LOST]))
    scene.create(PODS, pod("old", annotations=SAFE))
    assert is_there(scene.settle().admit().run("old").later(GRACE + PATIENCE))


def test_a_node_may_be_lost_later():
    scene = leaving(taints=()).later(GRACE + PATIENCE)
    scene.patch(f"{NODES}/n", spec={"taints": [LOST]})
    assert not is_there(scene.settle())


def test_a_node_that_is_back_keeps_its_pods():
    scene = leaving()
    scene.patch(f"{NODES}/n", spec={"taints": []})
    assert is_there(scene.settle().later(GRACE + PATIENCE))


@pytest.mark.parametrize("trouble", [WriteError.UNAVAILABLE, WriteError.UNKNOWN])
def test_what_did_not_take_hold_is_tried_again(trouble):
    scene = leaving()
    scene.fault = lambda write: trouble if isinstance(write, Delete) else None
    scene.later(GRACE + PATIENCE)
    scene.fault = lambda _: None
    assert not is_there(scene.later(PATIENCE))


def test_its_room_is_free_once_it_is_removed():
    scene = leaving(taints=()).later(GRACE + PATIENCE)
    assert scene.number("headgate_stuck_terminating_pods") == 1
    scene.patch(f"{NODES}/n", spec={"taints": [LOST]})
    scene.settle()
    assert scene.number("headgate_stuck_terminating_pods") == 0
    assert scene.number("headgate_released_debt", cluster_queue="cq", flavor="default", resource="cpu") == 0
