"""The small Kubernetes calls webhooks over HTTPS as a real one does: same requests, same answers, same objects."""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from children import PATIENCE, eventually_asked
from exchanges import Step
from exchanges_webhooks import EXCHANGES, MAPS, Hook, Meeting
from scripted_webhooks import ScriptedWebhooks, scripted_webhooks
from test_same_answers import ask_real, essence, filled_in
from wire import Answer, Client, Connection, Server

from headgate.apiserver import ADMISSION, ApiServer, WebhookAdmission
from headgate.live.api_front import served
from headgate.live.certificates import tls_context
from headgate.live.http_server import Listen
from headgate.live.kubeconfig import worker_access

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
WORDED_BY_GO = {
    "an answer that is no JSON",
    "a path that does not exist is removed",
    "a patch that cannot be decoded",
}
"""Exchanges whose message ends in that of a parser in Go's libraries."""


class OneByOne(Client):
    """A connection for each request: ours ends with a refusal."""

    async def _connection(self) -> Connection:
        return await self._connected(Connection)


@asynccontextmanager
async def small_kubernetes(headers: str = "") -> AsyncIterator[Client]:
    """The small Kubernetes on the wire, as `headgate apiserver` serves it; the client sends these headers, too."""
    server = ApiServer(admission=(*ADMISSION, WebhookAdmission({})), tracks_fields=True, calls_webhooks=True)
    async with served(server, Listen("127.0.0.1", 0)) as api:
        access = worker_access(json.dumps(api.administrator.kubeconfig(api.url, "small")).encode(), "small")
        tls = tls_context(access.cluster, access.certificate)
        assert tls is not None
        async with OneByOne(Server("127.0.0.1", int(api.url.rpartition(":")[2]), tls, headers)) as client:
            yield client


class Configured:
    """The webhooks of a meeting, in force on one server."""

    def __init__(self, client: Client, webhooks: ScriptedWebhooks, namespace: str) -> None:
        self._client, self._webhooks, self._namespace = client, webhooks, namespace

    async def create(self, kind: str, hooks: tuple[Hook, ...]) -> None:
        """Returns when the server heeds them: the last one denies a probe, and all of them are heeded at once."""
        here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}}}
        given = [self._filled(self._webhooks.configured(hook.path, **here, **(hook.fields or {}))) for hook in hooks]
        for number, hook in enumerate(given):
            hook["name"] = f"{number}.{hook['name']}"
        probe = self._webhooks.configured("/deny", **here, objectSelector={"matchLabels": {"is": f"probe-of-{kind}"}})
        body = {"metadata": {"name": self._namespace}, "webhooks": [{**probe, "name": "probe.example.com"}, *given]}
        await self._client.create(f"{CONFIGURATIONS}/{kind}webhookconfigurations", body)
        path = MAPS.replace("NS", self._namespace)
        found = {"metadata": {"name": "probe", "labels": {"is": f"probe-of-{kind}"}}}
        async with asyncio.timeout(PATIENCE):
            while (await self._client.request("POST", f"{path}?dryRun=All", found)).code == 201:
                await asyncio.sleep(0.05)

    async def delete(self) -> None:
        for kind in ("mutating", "validating"):
            await self._client.request("DELETE", f"{CONFIGURATIONS}/{kind}webhookconfigurations/{self._namespace}")

    def _filled(self, hook: dict[str, Any]) -> dict[str, Any]:
        text = (
            json.dumps(hook).replace('"PORT"', str(self._webhooks.port)).replace(":PORT/", f":{self._webhooks.port}/")
        )
        text = text.replace('"NS"', f'"{self._namespace}"')
        return json.loads(text.replace('"CA"', json.dumps(b64encode(self._webhooks.authority).decode())))


async def answers(client: Client, webhooks: ScriptedWebhooks, namespace: str, meeting: Meeting) -> list[Any]:
    """What the server answers to each step, and what it asked webhooks meanwhile."""
    configured, told, first = Configured(client, webhooks, namespace), [], None
    for step in meeting.before:
        made = await ask_real(client, filled_in(step, namespace, None))
        assert made.code == 201, made.body
    try:
        for kind, hooks in (("mutating", meeting.mutating), ("validating", meeting.validating)):
            if hooks:
                await configured.create(kind, hooks)
        if meeting.before:  # a server learns of services, too, from a watch
            rehearsal = filled_in(meeting.steps[0], namespace, None)
            rehearsal = rehearsal._replace(path=f"{rehearsal.path}?dryRun=All")
            await eventually_asked("what was there before is heeded", partial(is_no_error, client, rehearsal))
        webhooks.seen.clear()
        for step in meeting.steps:
            answer = await ask_real(client, filled_in(step, namespace, first))
            first = first or answer
            asked = [(path, without_user(request)) for path, request in webhooks.seen]
            webhooks.seen.clear()
            told.append((essence(answer), [essence(Answer(0, json.dumps(one).encode())) for _, one in asked]))
    finally:
        await configured.delete()
    return told


async def is_no_error(client: Client, step: Step) -> bool:
    return (await ask_real(client, step)).code < 500


def without_user(request: dict[str, Any]) -> dict[str, Any]:
    """The request without what differs: identities, and the managers of a Binding, which is stored nowhere."""
    if request.get("subResource") == "binding":
        request["object"]["metadata"].pop("managedFields", None)
    return {name: part for name, part in request.items() if name not in ("uid", "userInfo")}


def settled(told: list[Any]) -> Any:
    """Without what differs between any two servers: generated names."""
    return json.loads(re.sub(r"\bit-[a-z0-9]{5}\b", "(generated)", json.dumps(told)))


def differences(path: str, ours: Any, real: Any) -> Iterator[str]:
    """Where the two differ, and how."""
    if isinstance(ours, dict) and isinstance(real, dict):
        for name in sorted(ours.keys() | real.keys()):
            yield from differences(f"{path}.{name}", ours.get(name), real.get(name))
    elif isinstance(ours, list) and isinstance(real, list) and len(ours) == len(real):
        for number, (one, other) in enumerate(zip(ours, real, strict=True)):
            yield from differences(f"{path}[{number}]", one, other)
    elif ours != real:
        yield f"{path}: ours {ours}, the real one {real}"


@pytest.mark.parametrize("name", EXCHANGES)
async def test_both_servers_call_webhooks_alike(client: Client, namespace: str, name: str) -> None:
    meeting = EXCHANGES[name]
    async with scripted_webhooks([f"hook.{namespace}.svc"]) as webhooks, small_kubernetes() as small:
        await small.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        real = await answers(client, webhooks, namespace, meeting)
        ours = await answers(small, webhooks, namespace, meeting)
    if name in WORDED_BY_GO:
        real, ours = ([(code, value.get("reason")) for (code, value), _ in told] for told in (real, ours))
    found = list(differences("", settled(ours), settled(real)))
    assert not found, "\n".join(found)
