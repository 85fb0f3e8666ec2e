"""Pages over HTTP: probes for kubelets (/healthz, /livez, /readyz), and reports for who may read them (/metrics for
Prometheus, /preemptions for people).

Probes name nobody and are answered to everybody, without asking anybody. Reports name objects of all tenants.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from headgate.api.kinds import RESOURCES
from headgate.live.http_server import Handler, HttpReply, HttpRequest, ServerLimits
from headgate.model.keys import Key

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
JSON = "application/json"
LIMITS = ServerLimits(connections=256, per_peer=128)

Page = Callable[[], HttpReply]
Access = Callable[[HttpRequest], Awaitable[HttpReply | None]]
"""Why a request may not read the reports; None if it may."""


class Readiness:
    """What /readyz and /preemptions show; both change with the process's role (standby or leader)."""

    def __init__(self) -> None:
        self.check: Callable[[], bool] = lambda: False
        self.has_webhook_certificate: Callable[[], bool] = lambda: True
        self.receipts: Callable[[], bytes] = lambda: b"[]"

    def missing(self) -> str:
        """What is still missing for the process to be ready; empty if nothing is."""
        if not self.has_webhook_certificate():
            return "the webhooks have no certificate yet"
        return "" if self.check() else "the cluster has not been read yet"


async def everybody(_request: HttpRequest) -> None:
    """The reports are for everybody who can reach them: the processes of this host."""


def probes(readiness: Readiness) -> Mapping[str, Page]:
    return {
        "/healthz": lambda: HttpReply(200, b"ok\n"),
        "/livez": lambda: HttpReply(200, b"ok\n"),
        "/readyz": lambda: _ready(readiness.missing()),
    }


def reports(readiness: Readiness, metrics: Callable[[], bytes]) -> Mapping[str, Page]:
    return {
        "/metrics": lambda: HttpReply(200, metrics(), PROMETHEUS),
        "/preemptions": lambda: HttpReply(200, readiness.receipts(), JSON),
    }


def page_handler(open_to_all: Mapping[str, Page], guarded: Mapping[str, Page], access: Access) -> Handler:
    """Answers GET and HEAD for these pages."""

    async def answer(request: HttpRequest) -> HttpReply:
        if request.method not in ("GET", "HEAD"):
            return HttpReply(405, b"only GET and HEAD\n")
        if (page := open_to_all.get(request.path)) is not None:
            return page()
        if (page := guarded.get(request.path)) is not None:
            return await access(request) or page()
        return HttpReply(404, f"try {', '.join((*open_to_all, *guarded))}\n".encode())

    return answer


def _ready(missing: str) -> HttpReply:
    return HttpReply(503, f"{missing}\n".encode()) if missing else HttpReply(200, b"ok\n")


class Told(Protocol):
    """An entry of the journal."""

    @property
    def at(self) -> float: ...
    @property
    def key(self) -> Key: ...
    @property
    def decision(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def numbers(self) -> Mapping[str, int | str]: ...


def entry_dict(entry: Told) -> dict[str, Any]:
    """The entry with its object named as manifests name it."""
    resource, key = RESOURCES[entry.key.kind], entry.key
    place = {"namespace": key.namespace} if key.namespace else {}
    return {
        "at": entry.at,
        "object": {"apiVersion": resource.api_version, "kind": resource.kind_name, **place, "name": key.name},
        "decision": entry.decision,
        "reason": entry.reason,
        "message": entry.message,
        "numbers": entry.numbers,
    }


def receipts_json(entries: Iterable[Told]) -> bytes:
    return msgspec.json.encode([entry_dict(entry) for entry in entries])
