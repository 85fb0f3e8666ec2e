"""Volcano's Queues and PodGroups: what is read of them, and how their status is written."""

import json

import pytest
from builders import amounts

from headgate.api.decode import InvalidObject, decode
from headgate.api.requests import calls_for
from headgate.model.effects import PatchSpec, PatchStatus, PodGroupStatus, QueueReservation, VolcanoQueueStatus
from headgate.model.keys import Condition, Key, Kind, Target
from headgate.model.pod import Gang, PreemptionMode
from headgate.model.resources import Resources
from headgate.model.volcano import DequeueStrategy, PodGroupPhase, QueueCounts, QueueState, VolcanoQueue


def read(kind, spec, status=None, name="team"):
    value = {"metadata": {"name": name, "uid": "u", "resourceVersion": "7"}, "spec": spec, "status": status or {}}
    return decode(kind, json.dumps(value).encode())


def test_a_queue_with_everything():
    spec = {
        "weight": 3,
        "capability": {"cpu": "4", "memory": "8Gi"},
        "guarantee": {"resource": {"cpu": 1}},
        "deserved": {"cpu": "2"},
        "parent": "org",
        "reclaimable": False,
        "priority": 5,
        "dequeueStrategy": "fifo",
    }
    status = {"state": "Closing", "running": 2, "allocated": {"cpu": "1"}, "reservation": {"resource": {"cpu": "500m"}}}
    assert read(Kind.VOLCANO_QUEUE, spec, status) == VolcanoQueue(
        Key(Kind.VOLCANO_QUEUE, "", "team"),
        "u",
        "7",
        parent="org",
        capability=amounts(4000, 8192),
        guarantee=amounts(1000),
        deserved=amounts(2000),
        priority=5,
        reclaimable=False,
        weight=3,
        dequeue=DequeueStrategy.FIFO,
        state=QueueState.CLOSING,
        counts=QueueCounts(running=2),
        allocated=amounts(1000),
        reserved=amounts(500),
    )


def test_a_queue_that_says_nothing_is_below_the_root_without_a_limit_and_gives_back_what_it_borrowed():
    queue = read(Kind.VOLCANO_QUEUE, {})
    assert (queue.parent, queue.capability, queue.reclaimable, queue.is_open) == ("root", Resources(), True, True)
    assert read(Kind.VOLCANO_QUEUE, {}, name="root").parent == ""


@pytest.mark.parametrize(
    "spec, path",
    [
        pytest.param({"dequeueStrategy": "lifo"}, "$.spec.dequeueStrategy", id="an unknown strategy"),
        pytest.param({"capability": {"cpu": "many"}}, "$.spec.capability", id="no quantity"),
        pytest.param({"priority": "high"}, "$.spec.priority", id="a priority that is no number"),
    ],
)
def test_what_can_not_be_read_of_a_queue_names_the_field(spec, path):
    with pytest.raises(InvalidObject) as caught:
        read(Kind.VOLCANO_QUEUE, spec)
    assert caught.value.path.startswith(path)


def test_a_pod_group_with_everything():
    spec = {"minMember": 3, "queue": "team", "priorityClassName": "high", "minResources": {"cpu": "6"}}
    group = read(Kind.VOLCANO_POD_GROUP, spec, {"phase": "Inqueue", "running": 1, "failed": 2})
    assert group.groups[0].gang == Gang(3, PreemptionMode.POD_GROUP)
    assert group.priority_class == "high"
    volcano = group.volcano
    assert (volcano.queue, volcano.min_resources, volcano.phase) == ("team", amounts(6000), PodGroupPhase.INQUEUE)
    assert (volcano.running, volcano.succeeded, volcano.failed, volcano.unsupported) == (1, 0, 2, "")


@pytest.mark.parametrize(
    "spec, field",
    [
        pytest.param({"subGroupPolicy": [{"name": "a"}]}, "spec.subGroupPolicy", id="groups within the group"),
        pytest.param({"networkTopology": {"mode": "hard"}}, "spec.networkTopology", id="a topology it insists on"),
        pytest.param({"networkTopology": {"mode": "soft"}}, "", id="a topology it only prefers"),
        pytest.param({}, "", id="nothing special"),
    ],
)
def test_what_a_pod_group_asks_for_and_is_not_served_is_named(spec, field):
    assert read(Kind.VOLCANO_POD_GROUP, spec).volcano.unsupported == field


def written(kind, change):
    (call,) = calls_for(PatchStatus(Target(Key(kind, "", "team"), "u"), change), "headgate.dev/x")
    assert call.content_type == "application/merge-patch+json"
    return json.loads(call.body)["status"]


def test_the_status_of_a_queue_is_written_whole():
    change = VolcanoQueueStatus(QueueState.OPEN, QueueCounts(1, 0, 2), amounts(1500), amounts(500))
    assert written(Kind.VOLCANO_QUEUE, change) == {
        "state": "Open",
        **{"pending": 1, "inqueue": 0, "running": 2, "unknown": 0, "completed": 0},
        "allocated": {"cpu": "1500m"},
        "reservation": {"resource": {"cpu": "500m"}},
    }


def test_the_status_of_a_pod_group_is_written_whole():
    condition = Condition("Unschedulable", "True", "NotEnoughResources", "why", 0.0)
    assert written(Kind.VOLCANO_POD_GROUP, PodGroupStatus(PodGroupPhase.PENDING, (condition,), running=1)) == {
        "phase": "Pending",
        "conditions": [
            {
                "type": "Unschedulable",
                "status": "True",
                "reason": "NotEnoughResources",
                "message": "why",
                "lastTransitionTime": "1970-01-01T00:00:00Z",
            }
        ],
        "running": 1,
        "succeeded": None,
        "failed": None,
    }


def test_a_reservation_takes_our_gates_off_and_notes_the_time():
    target = Target(Key(Kind.POD, "d", "a"), "u")
    gate = "scheduling.volcano.sh/queue-allocation-gate"
    (call,) = calls_for(PatchSpec(target, QueueReservation(1_767_225_600.0, ((1, gate),))), "headgate.dev/x")
    assert call.content_type == "application/json-patch+json"
    assert json.loads(call.body) == [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/spec/schedulingGates/1/name", "value": gate},
        {
            "op": "add",
            "path": "/metadata/annotations/scheduling.headgate.dev~1queue-reserved-at",
            "value": "2026-01-01T00:00:00Z",
        },
        {"op": "remove", "path": "/spec/schedulingGates/1"},
    ]
