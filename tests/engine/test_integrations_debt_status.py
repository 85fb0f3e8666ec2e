"""A ClusterQueue shows what pods of its work still take although its quota was given back; without debt, nothing."""

from copy import deepcopy

import pytest
from integration_scenes import CLUSTER_QUEUES, KUEUE, PODS, Integrations, cluster_queue, flavor, pod
from test_integrations_room import NODES, node

from headgate.engine.integrations.debt import PACE, UNSEEN_AFTER
from headgate.model.effects import ClusterQueueDebt, EmitEvent, PatchStatus
from headgate.model.events import WriteError
from headgate.model.settings import QuotaRelease

LONG = {"terminationGracePeriodSeconds": 60}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def shown(scene, queue="cq"):
    """What is owed, by flavor and resource; None when the status says nothing of it."""
    debt = scene.get(f"{CLUSTER_QUEUES}/{queue}").get("status", {}).get("flavorsDebt")
    return debt and {entry["name"]: {each["name"]: each["total"] for each in entry["resources"]} for entry in debt}


def told(scene):
    """What was written about debt in the last settling."""
    return [e.change for e in scene.effects if isinstance(e, PatchStatus) and isinstance(e.change, ClusterQueueDebt)]


def running(*names, **quota):
    scene = Integrations(**quota)
    scene.create(CLUSTER_QUEUES, cluster_queue(5))
    for name in names:
        scene.create(PODS, pod(name, **LONG))
        known = set(scene.settle().names(f"{KUEUE}/namespaces/default/workloads"))
        for workload in known:
            if "Admitted" not in scene.conditions(workload):
                scene.admit(workload).run(name)
    return scene


def evicted(scene):
    for name in scene.names(f"{KUEUE}/namespaces/default/workloads"):
        scene.evict(name)
    return scene


def test_debt_is_shown_and_goes_with_the_pods_that_owe_it():
    scene = evicted(running("a", "b")).later(PACE)
    assert shown(scene) == {"default": {"cpu": "2"}}
    assert shown(scene.end("a", phase="Failed").later(PACE)) == {"default": {"cpu": "1"}}
    assert shown(scene.end("b", phase="Failed").later(PACE)) is None


def test_nothing_is_written_where_nothing_is_owed():
    scene = running("a")
    assert told(scene) == []
    assert scene.wakes == []
    assert told(scene.end("a").later(PACE)) == []


def test_with_on_terminal_nothing_is_owed_and_nothing_shown():
    scene = evicted(running("a", quota_release=QuotaRelease.ON_TERMINAL)).later(PACE)
    assert told(scene) == []
    assert shown(scene) is None


def test_what_is_over_within_a_second_is_not_told():
    scene = evicted(running("a")).later(PACE / 2).end("a", phase="Failed")
    assert told(scene.later(PACE / 2)) == []
    assert told(scene.later(PACE)) == []


def test_it_is_told_once_a_second_however_much_changes():
    scene = evicted(running("a", "b", "c"))
    assert scene.wakes == [scene.now + PACE]
    assert len(told(scene.later(PACE))) == 1
    scene.end("a", phase="Failed").end("b", phase="Failed")
    assert len(told(scene.later(PACE))) == 1
    assert told(scene.later(PACE)) == [], "and not again while it stays"


def test_a_debt_that_an_earlier_process_showed_is_taken_back():
    scene = evicted(running("a")).later(PACE)
    scene.patch(f"{PODS}/a/status", status={"phase": "Failed"})
    scene.restart()
    assert shown(scene.settle().later(PACE)) is None


def test_a_new_process_does_not_write_again_what_is_shown():
    scene = evicted(running("a")).later(PACE)
    scene.restart()
    assert told(scene.settle().later(PACE)) == []
    assert shown(scene) == {"default": {"cpu": "1"}}


def test_a_queue_that_comes_later_shows_what_its_pods_owe():
    scene = evicted(running("a"))
    scene.delete(f"{CLUSTER_QUEUES}/cq")
    scene.create(CLUSTER_QUEUES, cluster_queue(5))
    assert shown(scene.settle().later(PACE)) == {"default": {"cpu": "1"}}


@pytest.mark.parametrize("trouble", [WriteError.UNAVAILABLE, WriteError.UNKNOWN, WriteError.CONFLICT])
def test_what_did_not_take_hold_is_told_again(trouble):
    scene = evicted(running("a"))
    scene.fault = lambda write: trouble if isinstance(write, PatchStatus) else None
    scene.later(PACE)
    scene.fault = lambda _: None
    assert shown(scene.later(60)) == {"default": {"cpu": "1"}}
    assert told(scene.later(60)) == []


def test_what_the_server_refuses_is_not_told_again_until_it_changes():
    scene = evicted(running("a", "b"))
    scene.fault = lambda write: WriteError.REFUSED if isinstance(write, PatchStatus) else None
    assert len(told(scene.later(PACE))) == 1
    assert told(scene.later(60)) == []
    assert len(told(scene.end("a", phase="Failed").later(PACE))) == 1


def of_kueue(scene):
    """The kind is as Kueue installs it, without the field."""
    path = f"{DEFINITIONS}/clusterqueues.kueue.x-k8s.io"
    definition = deepcopy(scene.get(path))
    for version in definition["spec"]["versions"]:
        del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["flavorsDebt"]
    scene.ask("PUT", path, definition)
    return scene


def test_a_server_that_drops_the_field_is_not_told_again_and_again():
    scene = evicted(of_kueue(running(*"abcde"))).later(PACE)
    assert (len(told(scene)), shown(scene)) == (1, None)
    scene.patch(f"{CLUSTER_QUEUES}/cq/status", status={"pendingWorkloads": 1})
    assert told(scene.settle().later(UNSEEN_AFTER)) == [], "nothing changed"
    scene.end("a", phase="Failed").later(PACE)
    assert told(scene) == []
    assert [e.reason for e in scene.effects if isinstance(e, EmitEvent)] == ["DebtNotShown"]
    for name in "bcde":
        scene.end(name, phase="Failed").later(PACE)
        assert (told(scene), scene.events) == ([], []), "said once"


def test_whoever_sees_a_debt_knows_that_the_server_keeps_it():
    scene = evicted(of_kueue(running("a", "b"))).later(PACE)
    scene.later(UNSEEN_AFTER).end("a", phase="Failed").later(PACE)
    scene.ask("PUT", f"{DEFINITIONS}/clusterqueues.kueue.x-k8s.io", with_debt(scene))
    owed = [{"name": "default", "resources": [{"name": "cpu", "total": "7"}]}]
    scene.patch(f"{CLUSTER_QUEUES}/cq/status", status={"flavorsDebt": owed})
    scene.settle().end("b", phase="Failed").later(PACE)
    assert shown(scene) is None


def with_debt(scene):
    fresh = Integrations().get(f"{DEFINITIONS}/clusterqueues.kueue.x-k8s.io")
    there = scene.get(f"{DEFINITIONS}/clusterqueues.kueue.x-k8s.io")
    return {**there, "spec": fresh["spec"]}


def test_what_pods_owe_is_shown_by_flavor():
    scene = Integrations()
    scene.create(f"{KUEUE}/resourceflavors", flavor("spot"))
    scene.create(CLUSTER_QUEUES, cluster_queue(5))
    scene.create(NODES, node("n", 4))
    for name, given in (("a", "default"), ("b", "spot")):
        known = set(scene.names(f"{KUEUE}/namespaces/default/workloads"))
        scene.create(PODS, pod(name, **LONG))
        (workload,) = set(scene.settle().names(f"{KUEUE}/namespaces/default/workloads")) - known
        scene.admit(workload, flavor=given).run(name)
    assert shown(evicted(scene).later(PACE)) == {"default": {"cpu": "1"}, "spot": {"cpu": "1"}}
