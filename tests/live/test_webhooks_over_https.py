"""Webhooks that the small Kubernetes calls over HTTPS: what comes of their answers, and who waits for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from scripted_webhooks import RESPONSES, ScriptedWebhooks, answering, scripted_webhooks
from wire_client import MAPS, PATIENCE, Wire, config_map, events, wired

from headgate.apiserver import ADMISSION, ApiServer, WebhookAdmission
from headgate.apiserver.authorization import AuthorizationMode

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
DELETES = [{"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]
CREATES = [{**DELETES[0], "operations": ["CREATE"]}]
UPDATES = [{**DELETES[0], "operations": ["UPDATE"]}]


def server(**settings: Any) -> ApiServer:
    return ApiServer(admission=(*ADMISSION, WebhookAdmission({})), calls_webhooks=True, tracks_fields=True, **settings)


@pytest.fixture
async def webhooks() -> AsyncIterator[ScriptedWebhooks]:
    async with scripted_webhooks() as running:
        yield running


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncIterator[Wire]:
    async with wired(server(), tmp_path / "kubeconfig") as wire:
        yield wire


async def configure(wire: Wire, kind: str, *hooks: dict[str, Any], name: str = "a") -> None:
    body = json.dumps({"metadata": {"name": name}, "webhooks": list(hooks)}).encode()
    code, _, answer = await wire.ask("POST", f"{CONFIGURATIONS}/{kind}webhookconfigurations", body)
    assert code == 201, answer


async def merge(wire: Wire, path: str, change: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    kind = {"Content-Type": "application/merge-patch+json"}
    code, _, body = await wire.ask("PATCH", path, json.dumps(change).encode(), **kind)
    return code, json.loads(body)


async def until(holds: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await holds():
            await asyncio.sleep(0)


async def test_what_a_webhook_changes_is_stored_and_watched(wire, webhooks):
    await configure(wire, "mutating", webhooks.configured("/data"))
    async with wire.watch(f"{MAPS}?watch=true") as reader:
        code, _, body = await wire.ask("POST", MAPS, config_map("a"))
        [event] = await events(reader, 1)
    assert (code, json.loads(body)["data"]) == (201, {"set": "by the webhook"})
    assert event["object"]["data"] == {"set": "by the webhook"}


async def test_what_a_webhook_denies_is_not_stored(wire, webhooks):
    await configure(wire, "validating", webhooks.configured("/deny"))
    code, _, body = await wire.ask("POST", MAPS, config_map("a"))
    assert (code, json.loads(body)["message"]) == (
        403,
        'admission webhook "deny.example.com" denied the request: not today',
    )
    assert (await wire.ask("GET", f"{MAPS}/a"))[0] == 404


async def test_warnings_of_webhooks_come_with_the_answer_once(wire, webhooks):
    await configure(wire, "mutating", webhooks.configured("/warn"), webhooks.configured("/label"))
    reader, writer = await wire.send("POST", MAPS, config_map("a"), Authorization=f"Bearer {wire.token}")
    async with asyncio.timeout(PATIENCE):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    writer.close()
    told = [line for line in head.split("\r\n") if line.startswith("Warning: ")]
    assert told == ['Warning: 299 - "mind the gap"', 'Warning: 299 - "and the step"']


async def test_whoever_does_not_meet_a_slow_webhook_does_not_wait_for_it(wire, webhooks):
    await configure(wire, "validating", webhooks.configured("/slow", rules=CREATES))
    slow = asyncio.ensure_future(wire.ask("POST", MAPS, config_map("slow")))
    async with asyncio.timeout(PATIENCE):
        await webhooks.reached.wait()
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with wire.watch(f"{PODS}?watch=true") as reader:
        assert (await wire.ask("POST", PODS, json.dumps(pod).encode()))[0] == 201
        assert (await events(reader, 1))[0]["type"] == "ADDED"
    assert (await wire.ask("GET", MAPS))[0] == 200
    assert not slow.done()
    webhooks.released.set()
    assert (await slow)[0] == 201


async def test_all_validating_webhooks_are_called_at_the_same_time(wire, webhooks):
    await configure(wire, "validating", webhooks.configured("/slow"), webhooks.configured("/deny"))
    asked = asyncio.ensure_future(wire.ask("POST", MAPS, config_map("a")))
    await until(lambda: _of(len(webhooks.seen) == 2))
    webhooks.released.set()
    assert (await asked)[0] == 403


async def _of(value: bool) -> bool:
    return value


async def test_a_webhook_sees_what_is_stored_by_the_time_it_is_carried_out(wire, webhooks):
    """Another change comes while the webhook thinks: it is asked about both together, and neither is lost."""
    await wire.ask("POST", MAPS, config_map("a"))
    slow = webhooks.configured(
        "/slow", rules=UPDATES, matchConditions=[{"name": "a", "expression": "has(object.data.mine)"}]
    )
    await configure(wire, "validating", slow)
    mine = asyncio.ensure_future(merge(wire, f"{MAPS}/a", {"data": {"mine": "1"}}))
    async with asyncio.timeout(PATIENCE):
        await webhooks.reached.wait()
    assert (await merge(wire, f"{MAPS}/a", {"data": {"theirs": "1"}}))[0] == 200
    webhooks.released.set()
    code, value = await mine
    assert (code, value["data"]) == (200, {"k": "x", "mine": "1", "theirs": "1"})
    assert [request["object"]["data"] for _, request in webhooks.seen] == [
        {"k": "x", "mine": "1"},
        {"k": "x", "mine": "1", "theirs": "1"},
    ]


async def test_a_version_that_is_outdated_when_the_webhook_answers_is_a_conflict(wire, webhooks):
    await wire.ask("POST", MAPS, config_map("a"))
    slow = webhooks.configured(
        "/slow", rules=UPDATES, matchConditions=[{"name": "a", "expression": "has(object.data.mine)"}]
    )
    await configure(wire, "validating", slow)
    stored = json.loads((await wire.ask("GET", f"{MAPS}/a"))[2])
    put = json.dumps({**stored, "data": {"mine": "1"}}).encode()
    mine = asyncio.ensure_future(wire.ask("PUT", f"{MAPS}/a", put))
    async with asyncio.timeout(PATIENCE):
        await webhooks.reached.wait()
    await merge(wire, f"{MAPS}/a", {"data": {"theirs": "1"}})
    webhooks.released.set()
    assert (await mine)[0] == 409


async def test_a_name_that_is_taken_meanwhile_is_taken(wire, webhooks):
    hook = webhooks.configured("/slow", matchConditions=[{"name": "a", "expression": "object.data.k == 'xx'"}])
    await configure(wire, "validating", hook)
    mine = asyncio.ensure_future(wire.ask("POST", MAPS, config_map("a", 2)))
    async with asyncio.timeout(PATIENCE):
        await webhooks.reached.wait()
    assert (await wire.ask("POST", MAPS, config_map("a")))[0] == 201
    webhooks.released.set()
    assert (await mine)[0] == 409


async def test_a_generated_name_is_the_one_that_webhooks_were_told(wire, webhooks):
    await configure(wire, "mutating", webhooks.configured("/label"))
    await configure(wire, "validating", webhooks.configured("/allow"))
    body = json.dumps({"metadata": {"generateName": "a-"}}).encode()
    code, _, answer = await wire.ask("POST", MAPS, body)
    name = json.loads(answer)["metadata"]["name"]
    assert code == 201
    assert [request["object"]["metadata"].get("name") for _, request in webhooks.seen] == [None, name]


async def test_a_deletion_by_a_controller_asks_webhooks_too_and_is_tried_again(wire, webhooks, monkeypatch):
    monkeypatch.setattr("headgate.live.api_front.FIRST_RETRY_SECONDS", 0.01)
    _, _, owner = await wire.ask("POST", MAPS, config_map("owner"))
    owned = json.loads(config_map("owned"))
    uid = json.loads(owner)["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    owned["metadata"]["ownerReferences"] = [reference]
    await wire.ask("POST", MAPS, json.dumps(owned).encode())
    only = [{"name": "a", "expression": "request.name == 'owned'"}]
    await configure(wire, "validating", webhooks.configured("/deny", rules=DELETES, matchConditions=only))
    assert (await wire.ask("DELETE", f"{MAPS}/owner"))[0] == 200
    await until(lambda: _of(len(webhooks.seen) > 2))
    assert (await wire.ask("GET", f"{MAPS}/owned"))[0] == 200
    assert {request["userInfo"]["username"] for _, request in webhooks.seen} == {
        "system:serviceaccount:kube-system:generic-garbage-collector"
    }
    await wire.ask("DELETE", f"{CONFIGURATIONS}/validatingwebhookconfigurations/a")

    async def gone() -> bool:
        return (await wire.ask("GET", f"{MAPS}/owned"))[0] == 404

    await until(gone)


async def test_of_a_collection_the_objects_before_the_one_that_is_kept_are_deleted(wire, webhooks):
    for name in "abc":
        await wire.ask("POST", MAPS, config_map(name))
    only = [{"name": "a", "expression": "oldObject.metadata.name == 'b'"}]
    deny = webhooks.configured("/deny", rules=DELETES, matchConditions=only)
    await configure(wire, "validating", webhooks.configured("/allow", rules=DELETES), deny)
    assert (await wire.ask("DELETE", MAPS))[0] == 403
    left = [item["metadata"]["name"] for item in json.loads((await wire.ask("GET", MAPS))[2])["items"]]
    assert [name for name in left if len(name) == 1] == ["b", "c"]


async def test_another_version_of_the_resource_is_equivalent(wire, webhooks):
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": {"type": "object"}}}
        for name in ("v1", "v2")
    ]
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": versions}
    definition = {"metadata": {"name": "things.example.com"}, "spec": spec}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await wire.ask("POST", path, json.dumps(definition).encode()))[0] == 201
    rules = [{"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["things"]}]
    exact = webhooks.configured("/deny", rules=rules, matchPolicy="Exact")
    await configure(wire, "mutating", exact, webhooks.configured("/label", rules=rules))
    body = {"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "a"}}
    things = "/apis/example.com/v2/namespaces/default/things"
    code, _, answer = await wire.ask("POST", things, json.dumps(body).encode())
    made = json.loads(answer)
    assert (code, made["apiVersion"], made["metadata"]["labels"]) == (201, "example.com/v2", {"n0": "seen"})
    [(path, asked)] = webhooks.seen
    told = {name: asked[name]["version"] for name in ("kind", "resource", "requestKind", "requestResource")}
    assert told == {"kind": "v1", "resource": "v1", "requestKind": "v2", "requestResource": "v2"}
    assert (path, asked["object"]["apiVersion"]) == ("/label", "example.com/v1")


async def test_webhooks_are_not_called_about_their_own_configurations(wire, webhooks):
    rules = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]
    await configure(wire, "validating", webhooks.configured("/deny", rules=rules))
    assert (await wire.ask("DELETE", f"{CONFIGURATIONS}/validatingwebhookconfigurations/a"))[0] == 200


async def test_a_denial_with_a_status_that_is_no_number_of_http_is_answered(wire, webhooks, monkeypatch):
    for code, answered in ((99999, 500), (499, 499), (-1, 400)):
        odd = answering(allowed=False, status={"code": code, "details": {"causes": None}})
        monkeypatch.setitem(RESPONSES, f"/odd{code}", odd)
        hook = webhooks.configured(f"/odd{code}", name="odd.example.com")
        await configure(wire, "validating", hook, name="odd")
        assert (await wire.ask("POST", MAPS, config_map("a")))[0] == answered
        await wire.ask("DELETE", f"{CONFIGURATIONS}/validatingwebhookconfigurations/odd")


async def test_who_may_not_write_does_not_reach_a_webhook(tmp_path, webhooks):
    async with wired(server(authorization=AuthorizationMode.RBAC), tmp_path / "kubeconfig") as wire:
        await configure(wire, "validating", webhooks.configured("/allow"))
        code, _, _ = await wire.ask("POST", MAPS, config_map("a"), Impersonate_User="nobody")
    assert (code, webhooks.seen) == (403, [])


async def test_a_request_that_no_webhook_lets_end_is_ended(wire, webhooks, monkeypatch):
    monkeypatch.setattr("headgate.live.api_front.WEBHOOKS_SECONDS", 0.2)
    await configure(wire, "validating", webhooks.configured("/slow"))
    code, _, body = await wire.ask("POST", MAPS, config_map("a"))
    assert (code, json.loads(body)["reason"]) == (504, "Timeout")


async def test_without_anybody_who_calls_webhooks_they_fail_closed(webhooks, tmp_path):
    plain = ApiServer(admission=(*ADMISSION, WebhookAdmission({})))
    async with wired(plain, tmp_path / "kubeconfig") as wire:
        await configure(wire, "validating", webhooks.configured("/allow"))
        code, _, body = await wire.ask("POST", MAPS, config_map("a"))
    assert (code, json.loads(body)["reason"]) == (500, "InternalError")
