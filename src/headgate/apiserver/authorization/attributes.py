"""What a request asks for, as authorizers see it: read from method, path and query alone, whatever is served there."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from headgate.apiserver.registry import NAMESPACE_SUBRESOURCES
from headgate.apiserver.status import StatusError, details_of

VERBS: Mapping[str, str] = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_BY_VERB_IN_PATH = ("proxy", "watch")
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_WATCHES = ("true", "1")


class AccessAttributes(Struct, frozen=True, gc=False):
    """A verb on a resource, or on a path that is none. `group` and what follows are empty for a path."""

    verb: str
    path: str = ""  # empty for a resource
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""

    @property
    def whole_resource(self) -> str:
        """The resource with its subresource, as rules name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes_of(method: str, path: str, query: Mapping[str, str]) -> AccessAttributes:
    """The attributes of a request."""
    parts = [part for part in path.split("/") if part]
    if len(parts) < 3 or parts[0] not in ("api", "apis") or (parts[0] == "apis" and len(parts) < 4):
        return AccessAttributes(method.lower(), path)
    group, rest = ("", parts[1:]) if parts[0] == "api" else (parts[1], parts[2:])
    version, rest = rest[0], rest[1:]
    verb = VERBS.get(method, "")
    if rest[0] in _BY_VERB_IN_PATH and len(rest) > 1:
        verb, rest = rest[0], rest[1:]
    namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 1 else ""
    if namespace and len(rest) > 2 and rest[2] not in NAMESPACE_SUBRESOURCES:
        rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    if not name and verb == "get":
        verb = "watch" if query.get("watch") in _WATCHES else "list"
        name = _selected_name(query.get("fieldSelector", ""))
    elif not name and verb == "delete":
        verb = "deletecollection"
    return AccessAttributes(verb, "", group, version, namespace, resource, subresource, name)


def _selected_name(selector: str) -> str:
    """The one name a field selector selects; empty if it selects by anything else."""
    for part in selector.split(","):
        field, _, value = part.partition("=")
        if field.strip() == "metadata.name" and (name := value.removeprefix("=").strip()):
            return name if not _is_no_segment(name) else ""
    return ""


def _is_no_segment(name: str) -> bool:
    return name in (".", "..") or "/" in name or "%" in name


def access_denied(user: str, wanted: AccessAttributes, reason: str = "") -> StatusError:
    """The refusal of a request that no rule allows, in a real server's words."""
    if wanted.path:
        what = f'User "{user}" cannot {wanted.verb} path "{wanted.path}"'
    else:
        where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
        resource = f'resource "{wanted.whole_resource}" in API group "{wanted.group}"'
        what = f'User "{user}" cannot {wanted.verb} {resource} {where}'
    why = ": ".join(filter(None, (what.translate(_MARKUP), reason)))
    named = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
    subject = f'{named} "{wanted.name}" is ' if wanted.name and named else f"{named} is " if named else ""
    details = details_of(wanted.name, wanted.group, wanted.resource)
    return StatusError(403, "Forbidden", f"{subject}forbidden: {why}", details)
