"""What work is called, what its pods are given when they start, and what they owe when they leave."""

import pytest
from builders import changed, kueue_workload, pod
from hypothesis import given
from hypothesis import strategies as st

from headgate.lifecycle.jobframework.pod_writes import CannotStart, merged_selector, pod_set_infos
from headgate.lifecycle.terminating import occupancy, taken_by
from headgate.model.keys import Condition, Key, Kind
from headgate.model.kueue_names import CLUSTER_QUEUE_NAME, FLAVORS, LOCAL_QUEUE_NAME, LONGEST, POD_SET, workload_name
from headgate.model.names import dns_subdomain_errors
from headgate.model.node import Toleration
from headgate.model.pod import Phase, PodShape
from headgate.model.queues import (
    Admission,
    CheckState,
    CheckStatus,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
)
from headgate.model.resources import Resources

SPOT = Toleration("spot", exists=True)


def flavor(name, labels=None, tolerations=()):
    key = Key(Kind.RESOURCE_FLAVOR, "", name)
    return name, ResourceFlavor(key, name, "1", labels or {}, tolerations=tolerations)


def admitted(flavors=(("cpu", "spot"),), updates=b""):
    key = Key(Kind.KUEUE_WORKLOAD, "default", "w")
    given_ = (PodSetAssignment("main", flavors, Resources.of({"cpu": 2000}), 2),)
    checks = (CheckStatus("c", CheckState.READY, updates=updates),) if updates else ()
    sets = (PodSet("main", PodShape(), 2),)
    return kueue_workload(key, "u", "1", 0.0, sets, queue="lq", admission=Admission("cq", given_), checks=checks)


# names


@pytest.mark.parametrize(
    "owner, name",
    [
        pytest.param(("Job", "batch", "train", "1"), "job-train-827fb", id="a job"),
        pytest.param(("Pod", "", "train", "1"), "pod-train-b6e75", id="a pod"),
    ],
)
def test_a_workload_is_named_after_its_owner(owner, name):
    assert workload_name(*owner) == name


@given(st.from_regex(r"[a-z0-9]{1,253}", fullmatch=True), st.uuids())
def test_every_owner_gets_a_valid_name_of_its_own(name, uid):
    made = workload_name("Job", "batch", name, str(uid))
    assert len(made) <= LONGEST
    assert not dns_subdomain_errors(made)
    assert made != workload_name("Job", "batch", name, f"{uid}-again")


# what pods are given


def test_pods_get_what_their_flavors_and_checks_say():
    update = b'[{"name":"main","labels":{"a":"b"},"annotations":{"c":"d"},"nodeSelector":{"rack":"1"},'
    update += b'"tolerations":[{"key":"x","operator":"Exists","effect":"NoSchedule","tolerationSeconds":5}]}]'
    spot = dict([flavor("spot", {"type": "spot"}, (SPOT,))])
    got = pod_set_infos(admitted(updates=update), spot)["main"]
    assert got.count == 2
    assert got.node_selector == {"type": "spot", "rack": "1"}
    assert [each.key for each in got.tolerations] == ["spot", "x"]
    assert got.labels == {POD_SET: "main", CLUSTER_QUEUE_NAME: "cq", LOCAL_QUEUE_NAME: "lq", "a": "b"}
    assert got.annotations == {FLAVORS: "cpu=spot", "c": "d"}


def test_updates_of_other_pod_sets_are_not_theirs():
    got = pod_set_infos(admitted(updates=b'[{"name":"other","labels":{"a":"b"}}]'), dict([flavor("spot")]))
    assert "a" not in got["main"].labels


def test_two_flavors_are_given_once_each():
    flavors = dict([flavor("spot", {"type": "spot"}, (SPOT,)), flavor("gpu", {"gpu": "yes"})])
    workload = admitted((("cpu", "spot"), ("memory", "spot"), ("nvidia.com/gpu", "gpu")))
    got = pod_set_infos(workload, flavors)["main"]
    assert (got.node_selector, got.tolerations) == ({"type": "spot", "gpu": "yes"}, (SPOT,))


def test_a_flavor_that_is_not_known_is_waited_for():
    assert pod_set_infos(admitted(), {}) is None


@pytest.mark.parametrize(
    "update",
    [
        pytest.param(b'[{"name":"main","nodeSelector":{"type":"other"}}]', id="another node"),
        pytest.param(b'[{"name":"main","labels":{"kueue.x-k8s.io/podset":"other"}}]', id="another label"),
    ],
)
def test_a_check_that_contradicts_the_flavor_is_an_error(update):
    with pytest.raises(CannotStart, match="conflicting values"):
        pod_set_infos(admitted(updates=update), dict([flavor("spot", {"type": "spot"})]))


def test_a_selector_is_only_added_to():
    assert merged_selector({"a": "1"}, {"a": "1", "b": "2"}) == {"b": "2"}
    with pytest.raises(CannotStart, match="conflicting values of a in nodeSelector: 1 and 2"):
        merged_selector({"a": "1"}, {"a": "2"})


# what pods owe


def leaving(**fields):
    labels, annotations = {CLUSTER_QUEUE_NAME: "cq", POD_SET: "main"}, {FLAVORS: "cpu=spot,memory=big,pods=spot"}
    defaults = {"labels": labels, "annotations": annotations, "phase": Phase.RUNNING, "deleted": 160.0, "grace": 60}
    return pod("a", cpu=500, **{**defaults, "node": "n", **fields})


@pytest.mark.parametrize(
    "found, reserved_since, owes",
    [
        pytest.param(leaving(), None, True, id="its quota was released"),
        pytest.param(leaving(), 50.0, False, id="quota is still held for it"),
        pytest.param(leaving(), 100.0, False, id="quota was reserved just as it was asked to leave"),
        pytest.param(leaving(), 101.0, True, id="quota was reserved later, for those that replace it"),
        pytest.param(leaving(deleted=None), None, False, id="nobody asked it to leave"),
        pytest.param(leaving(phase=Phase.FAILED), None, False, id="it ended"),
        pytest.param(leaving(node=""), None, False, id="it never had a node"),
        pytest.param(leaving(annotations={}), None, False, id="it was not started by us"),
    ],
)
def test_what_a_pod_that_leaves_owes(found, reserved_since, owes):
    expected = {("cq", "spot", "cpu"): 500, ("cq", "spot", "pods"): 1}
    held = (Condition("QuotaReserved", "True", "", "", reserved_since),) if reserved_since is not None else ()
    workload = changed(admitted(), conditions=held) if held else None
    assert [taken_by(one) for one in occupancy([found], workload).owing] == ([expected] if owes else [])
