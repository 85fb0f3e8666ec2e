"""Every write the engine can decide does on a real server what it says, and is refused for another incarnation."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Raw
from objects import create_nodes, create_pods, node, pod
from wire import Client

from headgate.api.kinds import object_path
from headgate.api.requests import calls_for, trouble_of
from headgate.model.effects import (
    Bind,
    Create,
    Delete,
    EmitEvent,
    EventType,
    Evict,
    JobProgress,
    NodeReadiness,
    Nomination,
    PatchSpec,
    PatchStatus,
    PodCondition,
    PodRun,
    RemoveGate,
    Suspension,
    Unschedulability,
    Write,
)
from headgate.model.events import WriteError
from headgate.model.keys import Key, Kind, Target
from headgate.model.pod import Phase

NOW = 1_800_000_000.0
Place = tuple[Kind, str]
WriteTo = Callable[[Target], Write]

GATES = [{"name": "example.com/theirs"}, {"name": "headgate.dev/ours"}]
THE_JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "it"},
    "spec": {"template": {"spec": {**pod("it")["spec"], "restartPolicy": "Never"}}},
}

POD, GATED, NODE, JOB = (Kind.POD, "it"), (Kind.POD, "gated"), (Kind.NODE, "it"), (Kind.JOB, "it")

WRITES = [
    pytest.param(POD, lambda it: Bind(it, "here"), {"spec": {"nodeName": "here"}}, id="bind"),
    pytest.param(
        GATED,
        lambda it: RemoveGate(it, "headgate.dev/ours", 1),
        {"spec": {"schedulingGates": [{"name": "example.com/theirs"}]}},
        id="remove a gate",
    ),
    pytest.param(
        POD,
        lambda it: PatchStatus(it, PodCondition("PodScheduled", "False", "Unschedulable", "no room", NOW)),
        {"status": {"conditions": [{"type": "PodScheduled", "reason": "Unschedulable", "message": "no room"}]}},
        id="set a condition",
    ),
    pytest.param(
        POD,
        lambda it: PatchStatus(it, Nomination("here")),
        {"status": {"nominatedNodeName": "here"}},
        id="nominate a node",
    ),
    pytest.param(
        POD,
        lambda it: PatchStatus(it, PodRun(Phase.RUNNING, NOW)),
        {"status": {"phase": "Running"}},
        id="a pod runs",
    ),
    pytest.param(POD, lambda it: Delete(it), None, id="delete"),
    pytest.param(POD, lambda it: Evict(it, "PreemptionByScheduler", "room for another", NOW), None, id="evict"),
    pytest.param(
        NODE,
        lambda it: PatchStatus(it, NodeReadiness(False, "KubeletStopped", "gone", NOW)),
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        id="a node is not ready",
    ),
    pytest.param(
        NODE,
        lambda it: PatchSpec(it, Unschedulability(True)),
        {"spec": {"unschedulable": True}},
        id="cordon a node",
    ),
    pytest.param(JOB, lambda it: PatchSpec(it, Suspension(True)), {"spec": {"suspend": True}}, id="suspend a job"),
    pytest.param(
        JOB,
        lambda it: PatchStatus(it, JobProgress(1, 0, 0, 0, NOW, NOW)),
        {"status": {"active": 1}},
        id="a job makes progress",
    ),
    pytest.param(
        JOB,
        lambda it: PatchStatus(it, JobProgress(0, 0, 1, 0, NOW, NOW, "Complete", "CompletionsReached", "done")),
        {"status": {"succeeded": 1, "conditions": [{"type": "SuccessCriteriaMet"}, {"type": "Complete"}]}},
        id="a job completes",
    ),
]


@pytest.mark.parametrize("place, write_to, expected", WRITES)
async def test_a_write_does_what_it_says(
    client: Client, namespace: str, place: Place, write_to: WriteTo, expected: Any
) -> None:
    target = await existing(client, namespace, place)
    assert await perform(client, write_to(target)) is None
    answer = await client.request("GET", object_path(target.key))
    if expected is None:
        assert answer.code == 404
    else:
        assert includes(answer.value, expected)


@pytest.mark.parametrize("place, write_to, expected", WRITES)
async def test_a_write_to_another_incarnation_is_refused_and_changes_nothing(
    client: Client, namespace: str, place: Place, write_to: WriteTo, expected: Any
) -> None:
    target = await existing(client, namespace, place)
    before = await client.get(object_path(target.key))
    another = Target(target.key, "11111111-2222-3333-4444-555555555555")

    trouble = await perform(client, write_to(another))

    assert trouble is not None
    assert trouble[0] is WriteError.CONFLICT, trouble[1]
    assert await client.get(object_path(target.key)) == before


@pytest.mark.parametrize("place, write_to, expected", WRITES)
async def test_a_write_to_an_object_that_is_gone_is_refused_as_gone(
    client: Client, namespace: str, place: Place, write_to: WriteTo, expected: Any
) -> None:
    kind, name = place
    nowhere = Target(Key(kind, namespace, name), "11111111-2222-3333-4444-555555555555")
    trouble = await perform(client, write_to(nowhere))
    assert trouble is not None
    assert trouble[0] is WriteError.GONE, trouble[1]


async def test_creating_and_telling(client: Client, namespace: str) -> None:
    key = Key(Kind.POD, namespace, "it")
    assert await perform(client, Create(key, Raw(json.dumps(pod("it")).encode()))) is None
    target = Target(key, (await client.get(object_path(key)))["metadata"]["uid"])

    event = EmitEvent(target, EventType.NORMAL, "Scheduled", "Binding", "assigned to here", NOW)
    assert await perform(client, event) is None

    told = (await client.get(f"/api/v1/namespaces/{namespace}/events"))["items"]
    assert [(each["reason"], each["message"]) for each in told] == [("Scheduled", "assigned to here")]
    assert told[0]["involvedObject"]["uid"] == target.uid


async def test_another_gate_in_the_place_of_ours_is_left_alone(client: Client, namespace: str) -> None:
    await create_pods(client, namespace, [pod("it", schedulingGates=GATES)])
    target = await target_of(client, Key(Kind.POD, namespace, "it"))
    trouble = await perform(client, RemoveGate(target, "headgate.dev/ours", 0))
    assert trouble is not None
    assert trouble[0] is WriteError.CONFLICT
    assert (await client.get(object_path(target.key)))["spec"]["schedulingGates"] == GATES


async def test_conditions_of_others_survive_ours(client: Client, namespace: str) -> None:
    await create_pods(client, namespace, [pod("it")])
    target = await target_of(client, Key(Kind.POD, namespace, "it"))
    for kind in ("example.com/theirs", "PodScheduled"):
        assert await perform(client, PatchStatus(target, PodCondition(kind, "False", "Why", "", NOW))) is None
    conditions = (await client.get(object_path(target.key)))["status"]["conditions"]
    assert sorted(each["type"] for each in conditions) == ["PodScheduled", "example.com/theirs"]


async def existing(client: Client, namespace: str, place: Place) -> Target:
    """The object in that place, beside a node called `here`."""
    kind, name = place
    await create_nodes(client, [node("here"), node("it")])
    await create_pods(client, namespace, [pod("it"), pod("gated", schedulingGates=GATES)])
    await client.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", THE_JOB)
    return await target_of(client, Key(kind, "" if kind is Kind.NODE else namespace, name))


async def target_of(client: Client, key: Key) -> Target:
    return Target(key, (await client.get(object_path(key)))["metadata"]["uid"])


async def perform(client: Client, write: Write) -> tuple[WriteError, str] | None:
    for call in calls_for(write, "headgate.dev/test"):
        assert call.query == {}
        answer = await client.request(call.method, call.path, call.body, call.content_type)
        if trouble := trouble_of(answer.code, answer.body):
            return trouble
    return None


def includes(found: Any, expected: Any) -> bool:
    """Whether `found` holds everything of `expected`; lists have the same length."""
    if isinstance(expected, dict):
        return all(name in found and includes(found[name], part) for name, part in expected.items())
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(includes, found, expected))
    return bool(found == expected)
