"""Which resource a request path names."""

from __future__ import annotations

from msgspec import Struct

from headgate.apiserver.status import no_such_path

NAMESPACE_SUBRESOURCES = ("status", "finalize")


class Location(Struct, frozen=True, gc=False):
    """A path taken apart; parts it does not name are empty."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> Location:
    """Take `/api/v1/…` or `/apis/group/version/…` apart; anything else is refused as not found."""
    root, *parts = path.strip("/").split("/")
    if root == "apis" and len(parts) > 1:
        return _resource(parts[0], parts[1], parts[2:])
    if root == "api" and parts:
        return _resource("", parts[0], parts[1:])
    raise no_such_path()


def _resource(group: str, version: str, parts: list[str]) -> Location:
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces" and (group or parts[2] not in NAMESPACE_SUBRESOURCES):
        namespace, parts = parts[1], parts[2:]
    if not 1 <= len(parts) <= 3 or "" in parts:
        raise no_such_path()
    return Location(group, version, namespace, *parts)
