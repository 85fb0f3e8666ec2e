"""How the pods of some work stand to the quota that is held for it: who owes, who has a place, who pushed whom out."""

import pytest
from builders import kueue_workload, pod

from headgate.lifecycle.terminating import is_started, occupancy, taken_by
from headgate.model.keys import Condition, Key, Kind
from headgate.model.kueue_names import ADMISSION_GATE, CLUSTER_QUEUE_NAME, FLAVORS, POD_SET
from headgate.model.pod import Phase
from headgate.model.queues import Admission, PodSet, PodSetAssignment
from headgate.model.resources import Resources

ASKED_TO_LEAVE = 100.0


def started(name, pod_set="main", **fields):
    """On a node, with the quota of the flavor `spot`."""
    labels, annotations = {CLUSTER_QUEUE_NAME: "cq", POD_SET: pod_set}, {FLAVORS: "cpu=spot"}
    return pod(name, cpu=500, **{"labels": labels, "annotations": annotations, "node": "n", **fields})


def leaves(name, **fields):
    return started(name, deleted=ASKED_TO_LEAVE + 60, grace=60, **fields)


def workload(places=2, reserved=50.0, finished=False, **others):
    counts = {"main": places, **others}
    given = tuple(PodSetAssignment(name, (("cpu", "spot"),), Resources(), count) for name, count in counts.items())
    said = [Condition("QuotaReserved", "True", "", "", reserved)]
    said += [Condition("Finished", "True", "", "", reserved)] if finished else []
    sets = tuple(PodSet(name, pod().shape, count) for name, count in counts.items())
    key = Key(Kind.KUEUE_WORKLOAD, "default", "w")
    return kueue_workload(key, "u", "1", 0.0, sets, admission=Admission("cq", given), conditions=tuple(said))


@pytest.mark.parametrize(
    "pods, holder, owing",
    [
        pytest.param([leaves("a")], None, ["a"], id="its quota was released"),
        pytest.param([leaves("a")], workload(), [], id="quota is held for it"),
        pytest.param([leaves("a")], workload(finished=True), ["a"], id="its work is over"),
        pytest.param([leaves("a")], workload(reserved=101.0), ["a"], id="quota was reserved later, for others"),
        pytest.param([started("a")], None, [], id="nobody asked it to leave"),
        pytest.param([leaves("a"), started("b")], workload(2), [], id="each has a place"),
        pytest.param([leaves("a"), started("b"), started("c")], workload(2), ["a"], id="another took its place"),
        pytest.param([leaves("a"), started("b", node="")], workload(1), ["a"], id="another is about to take its place"),
        pytest.param(
            [leaves("b"), leaves("a"), started("c")], workload(2), ["a"], id="one of two places is taken: the first's"
        ),
        pytest.param(
            [leaves("a", pod_set="other"), started("b"), started("c")], workload(2, other=1), [], id="of another set"
        ),
    ],
)
def test_who_owes(pods, holder, owing):
    assert [each.key.name for each in occupancy(pods, holder).owing] == owing


def test_places_whose_pods_take_room():
    found = occupancy([leaves("a"), started("b"), started("c", node="")], workload(2))
    assert found.on_nodes == {"main": 1}
    assert not found.terminates_with_quota, "the one that leaves has lost its place"


def test_a_pod_that_leaves_keeps_its_place_until_another_is_started_there():
    assert occupancy([leaves("a"), started("b")], workload(2)).terminates_with_quota


@pytest.mark.parametrize(
    "found, counts",
    [
        pytest.param(started("a"), True, id="on a node"),
        pytest.param(started("a", node=""), True, id="looking for a node"),
        pytest.param(leaves("a"), True, id="leaving a node"),
        pytest.param(leaves("a", node=""), False, id="leaving, and never had a node"),
        pytest.param(started("a", phase=Phase.SUCCEEDED), False, id="ended"),
        pytest.param(started("a", gates=(ADMISSION_GATE,)), False, id="held back"),
        pytest.param(started("a", annotations={}), False, id="not started by us"),
    ],
)
def test_whether_a_pod_was_started_by_us_and_takes_room(found, counts):
    assert is_started(found) is counts


def test_what_a_pod_takes_is_counted_by_its_flavors():
    assert taken_by(leaves("a")) == {("cq", "spot", "cpu"): 500}
