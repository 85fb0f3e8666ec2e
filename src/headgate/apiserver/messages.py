"""Requests and responses of the small Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

Json = dict[str, Any]


class UserDetails(Struct, frozen=True):
    """What is known of a user besides name and groups."""

    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Request(Struct, frozen=True):
    """An HTTP request without transport. `query` holds one value per name."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes = b""
    content_type: str = "application/json"
    user: str = "system:admin"
    accept: str = ""  # media types, the preferred one first; empty: JSON
    user_agent: str = ""
    groups: tuple[str, ...] = ()  # of the user; empty: those that follow from the name
    details: UserDetails | None = None  # of the user


class Response(Struct, frozen=True):
    """The status code and the object that answer a request, and what its headers warn of."""

    code: int
    value: Json
    warnings: tuple[str, ...] = ()
    content_type: str = "application/json"

    @property
    def body(self) -> bytes:
        return msgspec.json.encode(self.value)
