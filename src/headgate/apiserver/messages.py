"""Requests and responses of the small Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

Json = dict[str, Any]


class Request(Struct, frozen=True):
    """One HTTP request without HTTP. `query` holds one value a name, as Kubernetes uses it."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes = b""
    content_type: str = "application/json"
    user: str = "system:admin"


class Response(Struct, frozen=True):
    code: int
    value: Json

    @property
    def body(self) -> bytes:
        return msgspec.json.encode(self.value)
