"""Hostile requests to the small Kubernetes: well formed ones with parts that are not. One seed is one cluster's day."""

from __future__ import annotations

import asyncio
import gzip
import re
import resource
import time
from collections import Counter
from random import Random
from urllib.parse import quote

import msgspec
from hostile_objects import MAKERS, encoded, hostile_value, mutated, well_formed

from headgate.api.install_manifests import (
    AtUrl,
    definitions,
    queue_definitions,
    volcano_definitions,
    webhook_configurations,
)
from headgate.api.kinds import RESOURCES, collection_paths
from headgate.apiserver.kinds import INITIAL_OBJECTS
from headgate.apiserver.messages import ClientIdentity
from headgate.apiserver.server import ApiServer
from headgate.live.api_front import ApiFront
from headgate.live.http_server import HttpReply, HttpRequest

SOMEBODY = ClientIdentity("somebody", ())
GZIP = b"\x1f\x8b"
DAY = 50  # requests of one seed
ANSWER_SECONDS = 10.0  # of a request, on a busy machine
START = 1_767_225_600.0
HISTORY = 100
WARM, GROWTH = 50, 64 * 1024  # days after which a process may grow by so many KiB
KINDS = sorted(MAKERS)
GIVEN = ("uid", "resourceVersion", "creationTimestamp", "generation")
METHODS = (*["POST"] * 5, *["PUT"] * 3, *["PATCH"] * 5, *["GET"] * 4, "DELETE", "HEAD", "OPTIONS", "X")
SUBRESOURCES = ("status", "binding", "eviction", "scale", "log", "exec", "token", "nonsense")
PATCHES = (
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
TYPES = (*PATCHES, "application/json", "application/vnd.kubernetes.protobuf", "application/yaml", "text/plain", "")
FORMS = (
    "",
    "application/json",
    "*/*",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=Nonsense",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    ";;==,,",
)
QUERIES = {
    "watch": ("true", "1", "false", "x"),
    "resourceVersion": ("0", "1", "5", "999999", "-1", "x", "9" * 50, "٣"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
    "limit": ("0", "1", "3", "-1", "x", "9" * 30),
    "continue": ("x", "e30=", "eyJydiI6MX0=", "é", "eyJydiI6NSwibmFtZXNwYWNlIjoiIiwibmFtZSI6ImEifQ=="),
    "labelSelector": ("app=a", "app in (a,b)", "!x", "app notin (", "==", ",,", "a=b,c!=d", "é=x", "x>1", "(" * 200),
    "fieldSelector": ("metadata.name=a", "status.phase!=Running", "spec.nodeName=", "x.y=z", "=", "a=b=c", "\\"),
    "timeoutSeconds": ("1", "0", "-5", "x", "9" * 40),
    "sendInitialEvents": ("true", "false", "x"),
    "allowWatchBookmarks": ("true", "x"),
    "dryRun": ("All", "None", "x", ""),
    "fieldValidation": ("Strict", "Warn", "Ignore", "x"),
    "fieldManager": ("me", "", "x" * 200, "é"),
    "force": ("true", "false", "x"),
    "propagationPolicy": ("Orphan", "Foreground", "Background", "x"),
    "gracePeriodSeconds": ("0", "30", "-1", "x", "9" * 40),
    "pretty": ("true", "x"),
    "includeObject": ("None", "Metadata", "Object", "x"),
}
DOCUMENTS = (
    "/", "/api", "/apis", "/api/v1", "/apis/batch", "/apis/batch/v1", "/apis/nonsense/v1", "/version", "/openapi/v2",
    "/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/apis/batch/v1", "/openapi/v3/apis/x", "/metrics", "//", "/%00",
    "/api/v1/namespaces//pods", "/api/v1/namespaces/%2e%2e/pods", "/api/v1/pods/a/b/c/d", "/apis/////", "/é",
    "/api/v1/watch/pods", "/apis/apps/v1/namespaces/default/deployments/a/scale", "/logs/x", "/" + "x" * 5000,
)  # fmt: skip
BODIES = (
    b"", b"{}", b"null", b"[]", b"{", b'"x"', b"1", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 5000, b"k8s\x00",
    b"k8s\x00\x0a\x08\x0a\x02v1\x12\x02Po\x12\xff\xff\xff\xff\x7f", b"\x00" * 9,
    b'{"metadata":{"name":"a"},"metadata":{"name":"b"}}',
    b"a: &a [*a]", b"a: &a [1]\nb: [*a, *a]", b'{"kind":"Pod","apiVersion":"v1","metadata":null}', b"[1e400]",
    b'{"metadata":{"resourceVersion":"9223372036854775808","generation":1e300}}', b"-", b"NaN", b'[{"op":"x"}]',
)  # fmt: skip
AS_A_REAL_SERVER = re.compile(
    "resourceVersion should not be set on objects to be created|failed to create typed patch object|"
    "map: .* does not contain declared merge key: |unknown patch type: |"
    'Internal error occurred: the spec replicas field ".*" does not exist|\\[?target.(kind|name): ',
    re.DOTALL,
)
"""What a real kube-apiserver answers with 500, too."""
OPERATIONS = ("add", "remove", "replace", "move", "copy", "test", "x")


def hostile_server() -> ApiServer:
    """All of our kinds are served; webhooks are configured, and nobody answers them, whose failure is ignored."""
    configured = webhook_configurations(AtUrl("https://127.0.0.1:1"))
    ignoring = [
        {**each, "webhooks": [{**hook, "failurePolicy": "Ignore"} for hook in each["webhooks"]]} for each in configured
    ]
    installed = (*definitions(), *queue_definitions(), *volcano_definitions(), *ignoring)
    return ApiServer(objects=(*INITIAL_OBJECTS, *installed), history=HISTORY, now=START, tracks_fields=True)


class HostileClient:
    """Makes requests from a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)

    def request(self) -> HttpRequest:
        dice = self.dice
        method, kind = dice.choice(METHODS), dice.choice(KINDS)
        root, resource = dice.choice(collection_paths(RESOURCES[kind])).rpartition("/")[0], RESOURCES[kind]
        typed = {"apiVersion": root.removeprefix("/apis/").removeprefix("/api/"), "kind": resource.kind_name}
        value = {**typed, **well_formed(kind, dice)}
        if dice.random() < 0.9:  # what only a server gives
            value["metadata"] = {name: part for name, part in value["metadata"].items() if name not in GIVEN}
        if dice.random() < 0.6:
            value = mutated(value, dice)
        path = self._path(f"{root}%s/{resource.plural}", value, method)
        content_type = dice.choice(PATCHES) if method == "PATCH" else "application/json"
        body = self._body(value, content_type) if method in ("POST", "PUT", "PATCH", "DELETE") else b""
        if method == "DELETE" and dice.random() < 0.7:
            body = b""
        headers = {
            "content-type": dice.choice(TYPES) if dice.random() < 0.1 else content_type,
            "accept": dice.choice(FORMS) if dice.random() < 0.4 else "application/json",
            "accept-encoding": dice.choice(("gzip", "", "br, x")),
        }
        return HttpRequest(method, path, headers, body, "127.0.0.1", True, {}, self._query(method))

    def _path(self, collection: str, value: object, method: str) -> str:
        dice = self.dice
        if dice.random() < 0.05:
            return dice.choice(DOCUMENTS)
        metadata = value.get("metadata") if isinstance(value, dict) else None
        metadata = metadata if isinstance(metadata, dict) else {}
        space, name = metadata.get("namespace"), metadata.get("name")
        path = collection % (f"/namespaces/{quote(str(space))}" if space and dice.random() < 0.95 else "")
        if method == "POST" and dice.random() < 0.9:
            return path
        path += f"/{quote(str(name)[:300], safe='')}" if dice.random() < 0.9 else ""
        return f"{path}/{dice.choice(SUBRESOURCES)}" if dice.random() < 0.15 else path

    def _body(self, value: object, content_type: str) -> bytes:
        dice = self.dice
        if dice.random() < 0.1:
            return dice.choice(BODIES)
        if content_type == "application/json-patch+json" and dice.random() < 0.9:
            return encoded([self._operation() for _ in range(dice.choice((1, 1, 3)))])  # type: ignore[arg-type]
        if dice.random() < 0.15:
            keys = ("spec", "metadata", "status", "data", "$patch", "$setElementOrder/x", "$retainKeys", "target")
            value = {dice.choice(keys): hostile_value(dice) for _ in range(dice.choice((1, 2)))}
        raw = encoded(value)  # type: ignore[arg-type]
        if dice.random() < 0.05:
            at = dice.randrange(len(raw) + 1)
            return raw[:at] + bytes(dice.randrange(256) for _ in range(3)) + raw[at + dice.choice((0, 3)) :]
        return raw

    def _operation(self) -> object:
        dice = self.dice
        paths = ("/spec", "/metadata/labels/x", "/spec/containers/0", "/spec/containers/-", "/x/y", "", "/", "/~2", 7)
        made = {"op": dice.choice(OPERATIONS), "path": dice.choice(paths), "value": hostile_value(dice)}
        made["from"] = dice.choice(paths)
        for name in ("value", "from", "op"):
            if dice.random() < 0.1:
                del made[name]
        return made if dice.random() < 0.95 else hostile_value(dice)

    def _query(self, method: str) -> str:
        dice = self.dice
        if dice.random() < 0.5:
            return ""
        names = sorted(QUERIES)
        chosen = [dice.choice(names) for _ in range(dice.choice((1, 1, 2, 4)))]
        if method == "GET" and dice.random() < 0.3:
            chosen.append("watch")
        text = "&".join(f"{name}={quote(dice.choice(QUERIES[name]))}" for name in chosen)
        return text if dice.random() < 0.95 else text + dice.choice(("&&&", "%", "%zz", "=", "&\x7f", "#"))


async def answered(front: ApiFront, request: HttpRequest) -> HttpReply:
    """The reply; of a watch its first part, too. Raises what the front raises."""
    async with asyncio.timeout(ANSWER_SECONDS):
        found = front(request)
        reply = found if isinstance(found, HttpReply) else await found
        if reply.stream is not None:
            stream = reply.stream
            try:
                async with asyncio.timeout(0):
                    await anext(stream, b"")
            except TimeoutError:
                pass  # nothing has happened yet
            finally:
                await stream.aclose()
    return reply


async def a_day(seed: int, front: ApiFront) -> Counter[int]:
    """How often each status was answered. Fails for an answer that is none."""
    client, statuses = HostileClient(seed), Counter[int]()
    for number in range(DAY):
        request = client.request()
        began = time.perf_counter()
        try:
            reply = await answered(front, request)
        except Exception as error:
            shown = f"{request.method} {request.path}?{request.query} {dict(request.headers)} {request.body[:2000]!r}"
            raise AssertionError(f"request {number}: {type(error).__name__}: {error}: {shown}") from error
        assert time.perf_counter() - began < ANSWER_SECONDS
        if reply.status >= 400:
            compressed = reply.body.startswith(GZIP)
            status = msgspec.json.decode(gzip.decompress(reply.body) if compressed else reply.body)
            assert (status["kind"], status["code"]) == ("Status", reply.status), (number, request)
            assert reply.status != 500 or AS_A_REAL_SERVER.match(status["message"]), (number, request, reply.body)
        statuses[reply.status] += 1
    return statuses


class _OfOneProcess:
    """One server and one event loop see all days of a process, and memory must not grow with them."""

    runner = asyncio.Runner()
    front: ApiFront | None = None
    days = 0
    used = 0  # KiB, after the first days


def hostile_requests_are_answered(seed: int) -> None:
    """No request is answered by 500, or by nothing, and what is answered is forgotten."""
    one = _OfOneProcess
    if one.front is None:
        one.front = ApiFront(hostile_server(), lambda _: SOMEBODY, lambda: START)
    one.runner.run(a_day(seed, one.front))
    one.days, used = one.days + 1, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if one.days == WARM:
        one.used = used
    assert one.days <= WARM or used - one.used < GROWTH, "memory grows with the number of requests"


LAWS = {"hostile_requests_are_answered": hostile_requests_are_answered}
