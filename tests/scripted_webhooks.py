"""A webhook server over TLS: what it answers depends on the path it is called at; it keeps the requests it was sent."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from headgate.live.api_credentials import new_administrator
from headgate.live.certificates import ServerTls
from headgate.live.http_server import HttpReply, HttpRequest, Listen, ServerLimits, http_server

LIMITS = ServerLimits(connections=256, per_peer=256, body=8 << 20, buffered=64 << 20, idle_seconds=60.0)
JSON = "application/json"
Json = dict[str, Any]


def patch(*operations: Json) -> Json:
    return {"patchType": "JSONPatch", "patch": b64encode(json.dumps(list(operations)).encode()).decode()}


def put(path: str, value: Any) -> Json:
    return {"op": "add", "path": path, "value": value}


def labelled(request: Json) -> Json:
    """Adds a label with the name of the webhook's path, after which others can be told what was there before."""
    labels = (request["object"]["metadata"].get("labels")) or {}
    return {"allowed": True, **patch(put("/metadata/labels", {**labels, f"n{len(labels)}": "seen"}))}


def answering(**response: Any) -> Callable[[Json], Json]:
    return lambda _request: response


def review(request: Json, response: Json, **fields: Any) -> Json:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": request["uid"], **response},
        **fields,
    }


SIDE = {"name": "side", "image": "registry.example/side", "ports": [{"containerPort": 80}]}

RESPONSES: Mapping[str, Callable[[Json], Json]] = {
    "/allow": answering(allowed=True),
    "/deny": answering(
        allowed=False,
        status={
            "message": "not today",
            "reason": "Forbidden",
            "code": 403,
            "details": {"causes": [{"message": "because", "field": "data"}]},
        },
    ),
    "/deny-without-a-word": answering(allowed=False),
    "/deny-with-a-reason": answering(allowed=False, status={"reason": "Expired", "code": 410}),
    "/deny-with-success": answering(allowed=False, status={"message": "odd", "code": 200, "status": "Success"}),
    "/warn": answering(allowed=True, warnings=["mind the gap", "and the step"]),
    "/label": labelled,
    "/sidecar": answering(allowed=True, **patch(put("/spec/containers/-", SIDE))),
    "/data": answering(allowed=True, **patch(put("/data", {"set": "by the webhook"}))),
    "/spoil": answering(allowed=True, **patch(put("/metadata/labels", {"a": "not good!"}))),
    "/unknown-field": answering(allowed=True, **patch(put("/nothing", {"a": 1}))),
    "/uid": answering(allowed=True, **patch(put("/metadata/uid", "mine"))),
    "/no-change": answering(allowed=True, **patch()),
    "/missing-path": answering(allowed=True, **patch({"op": "remove", "path": "/data/nothing"})),
    "/patch-without-type": answering(allowed=True, patch=patch(put("/data", {}))["patch"]),
    "/type-without-patch": answering(allowed=True, patchType="JSONPatch"),
    "/another-patch-type": answering(allowed=True, patchType="MergePatch", patch=b64encode(b"[1]").decode()),
    "/other-type": answering(
        allowed=True, patchType="MergePatch", patch=b64encode(b'[{"op":"add","path":"/a","value":1}]').decode()
    ),
    "/empty-type": answering(allowed=True, patchType="", patch=b64encode(b"[]").decode()),
}
REPLIES: Mapping[str, Callable[[Json], HttpReply]] = {
    "/another-uid": lambda request: _reply(review(request, {"uid": "no", "allowed": True})),
    "/no-response": lambda request: _reply({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}),
    "/an-older-version": lambda request: _reply(
        review(request, {"allowed": True}, apiVersion="admission.k8s.io/v1beta1")
    ),
    "/without-a-kind": lambda request: _reply({"response": {"uid": request["uid"], "allowed": True}}),
    "/no-json": lambda request: HttpReply(200, b"no", JSON),
    "/nothing": lambda request: HttpReply(200, b"", JSON),
    "/bad-request": lambda request: HttpReply(400, b"no\n", "text/plain"),
    "/forbidden": lambda request: HttpReply(403, b"keep out\n", "text/plain"),
    "/teapot": lambda request: HttpReply(418, b"tea\n", "text/plain"),
    "/broken": lambda request: HttpReply(500, b"it broke\n", "text/plain"),
    "/broken-json": lambda request: HttpReply(500, b"{}", JSON),
    "/unavailable": lambda request: HttpReply(503, b"later\n", "text/plain"),
}


class ScriptedWebhooks:
    """The server: `seen` are the paths and AdmissionRequests so far. Whoever calls /slow waits until `released`."""

    def __init__(self, authority: bytes) -> None:
        self.authority, self.port = authority, 0
        self.seen: list[tuple[str, Json]] = []
        self.released, self.reached = asyncio.Event(), asyncio.Event()

    def configured(self, path: str, **fields: Any) -> Json:
        """A webhook that is called at that path."""
        client = {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": b64encode(self.authority).decode()}
        rules = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps", "pods"]}
        return {
            "name": f"{path.strip('/')}.example.com",
            "clientConfig": client,
            "rules": [rules],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 30,
            **fields,
        }

    async def __call__(self, request: HttpRequest) -> HttpReply:
        asked = json.loads(request.body)["request"]
        self.seen.append((request.path, asked))
        if request.path == "/slow":
            self.reached.set()
            await self.released.wait()
            return _reply(review(asked, {"allowed": True}))
        if request.path in REPLIES:
            return REPLIES[request.path](asked)
        if request.path not in RESPONSES:
            return HttpReply(404, b"no such page\n", "text/plain")
        return _reply(review(asked, RESPONSES[request.path](asked)))


def _reply(value: Json) -> HttpReply:
    return HttpReply(200, json.dumps(value).encode(), JSON)


@asynccontextmanager
async def scripted_webhooks(names: Sequence[str] = ()) -> AsyncIterator[ScriptedWebhooks]:
    """Serves while the block lasts, under 127.0.0.1 and with a certificate for these names too."""
    shown = new_administrator(["127.0.0.1", *names], (), time.time()).certificates.server
    tls, webhooks = ServerTls(), ScriptedWebhooks(shown.authority)
    tls.show(shown)
    async with http_server(Listen("127.0.0.1", 0), webhooks, LIMITS, "", tls.context) as port:
        webhooks.port = port
        try:
            yield webhooks
        finally:
            webhooks.released.set()
