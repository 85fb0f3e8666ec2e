"""Authorization: what a request asks for, and what the stored roles and bindings let somebody do.

What a request asks for is read from method, path and query alone, whatever is served there. Rules only ever allow.
Bindings are indexed by their subjects, anew whenever a role or binding has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from headgate.apiserver.messages import MASTERS, Groups, Json, account_user
from headgate.apiserver.registry import NAMESPACE_SUBRESOURCES
from headgate.apiserver.status import StatusError, details_of
from headgate.apiserver.storage import Collection, Store

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

GROUP = "rbac.authorization.k8s.io"
ANY = "*"


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


class AuthorizationMode(StrEnum):
    """Who decides what a request may do, as the flag of a real server names it."""

    ALWAYS_ALLOW = "AlwaysAllow"
    RBAC = "RBAC"


class AccessDecision(Struct, frozen=True):
    """Whether a request is allowed, and by which binding, or which roles could not be found."""

    allowed: bool
    reason: str = ""


class RuleSet(Struct, frozen=True):
    """The rules somebody has in a namespace, and why there may be more."""

    rules: Sequence[Json]
    errors: Sequence[str] = ()


class Authorizer(Protocol):
    """Who may do what."""

    def decide(self, user: str, groups: Groups, wanted: AccessAttributes) -> AccessDecision: ...

    def rules_for(self, user: str, groups: Groups, namespace: str) -> RuleSet:
        """All rules somebody has in a namespace."""


class AlwaysAllow:
    """The authorizer of a server without RBAC."""

    def decide(self, _user: str, _groups: Groups, _wanted: AccessAttributes) -> AccessDecision:
        return AccessDecision(True)

    def rules_for(self, _user: str, _groups: Groups, _namespace: str) -> RuleSet:
        everything = {"verbs": [ANY], "apiGroups": [ANY], "resources": [ANY]}
        return RuleSet([everything, {"verbs": [ANY], "nonResourceURLs": [ANY]}])


class _Grant(Struct, frozen=True, gc=False):
    """One rule, and the binding that grants it."""

    rule: Json
    source: str
    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    urls: tuple[str, ...]

    def allows(self, wanted: AccessAttributes) -> bool:
        if wanted.verb not in self.verbs and ANY not in self.verbs:
            return False
        if wanted.path:
            return any(url_matches(url, wanted.path) for url in self.urls)
        if wanted.group not in self.groups and ANY not in self.groups:
            return False
        if self.names and wanted.name not in self.names:
            return False
        return self._names_resource(wanted)

    def _names_resource(self, wanted: AccessAttributes) -> bool:
        named = self.resources
        if ANY in named or wanted.whole_resource in named:
            return True
        return bool(wanted.subresource) and f"*/{wanted.subresource}" in named


def url_matches(pattern: str, path: str) -> bool:
    """Whether a rule's nonResourceURL includes the path; a star at its end stands for anything."""
    return pattern in (ANY, path) or (pattern.endswith(ANY) and path.startswith(pattern.rstrip(ANY)))


class _Granted(Struct):
    """What is granted to one subject, and the errors of what could not be looked up."""

    grants: list[_Grant]
    errors: list[str]


_Subject = tuple[str, str, str]
"""Where its bindings are (a namespace, or empty for the cluster), its kind and its name."""
_NOTHING = _Granted([], [])


class RbacAuthorizer:
    """Decides by the roles and bindings of a store."""

    def __init__(self, store: Store) -> None:
        self._roles, self._cluster_roles, self._bindings, self._cluster_bindings = self._collections = tuple(
            store.collection(GROUP, plural)
            for plural in ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
        )
        self._version = -1  # the sum of their versions, of which none ever falls
        self._index: dict[_Subject, _Granted] = {}

    def decide(self, user: str, groups: Groups, wanted: AccessAttributes) -> AccessDecision:
        """Cluster-wide bindings come first, then those of the namespace."""
        if MASTERS in groups:
            return AccessDecision(True)
        errors: list[str] = []
        for granted in self._granted(user, groups, wanted.namespace):
            for grant in granted.grants:
                if grant.allows(wanted):
                    return AccessDecision(True, f"RBAC: allowed by {grant.source}")
            errors += granted.errors
        return AccessDecision(False, f"RBAC: {aggregated(errors)}" if errors else "")

    def rules_for(self, user: str, groups: Groups, namespace: str) -> RuleSet:
        """All rules somebody has there."""
        granted = list(self._granted(user, groups, namespace))
        rules = [grant.rule for each in granted for grant in each.grants]
        return RuleSet(rules, [error for each in granted for error in each.errors])

    def role_rules(self, reference: Json, namespace: str) -> Sequence[Json] | None:
        """The rules of the role a binding in this namespace refers to; None if there is no such role."""
        found = self._role(reference, namespace)
        return None if found is None else found.get("rules") or ()

    def _granted(self, user: str, groups: Groups, namespace: str) -> Iterator[_Granted]:
        version = sum(collection.version for collection in self._collections)
        if version != self._version:
            self._index, self._version = self._indexed(), version
        subjects = [("User", user), *(("Group", group) for group in groups)]
        for place in ("", namespace) if namespace else ("",):
            for kind, name in subjects:
                yield self._index.get((place, kind, name), _NOTHING)

    def _indexed(self) -> dict[_Subject, _Granted]:
        index: dict[_Subject, _Granted] = {}
        for collection in (self._cluster_bindings, self._bindings):
            for place, _, revision in collection.items():
                self._add_binding(index, place, revision.value)
        return index

    def _add_binding(self, index: dict[_Subject, _Granted], place: str, binding: Json) -> None:
        reference = binding.get("roleRef") or {}
        role = self._role(reference, place)
        for kind, name, source in _subjects(binding, place):
            granted = index.setdefault((place, kind, name), _Granted([], []))
            if role is None:
                granted.errors.append(_missing(reference))
            else:
                granted.grants += [_grant(rule, source) for rule in role.get("rules") or ()]

    def _role(self, reference: Json, namespace: str) -> Json | None:
        collection: Collection | None = {"ClusterRole": self._cluster_roles}.get(reference.get("kind") or "")
        place = ""
        if reference.get("kind") == "Role" and namespace:
            collection, place = self._roles, namespace
        found = None if collection is None else collection.get(place, reference.get("name") or "")
        return None if found is None else found.value


def _subjects(binding: Json, place: str) -> Iterator[tuple[str, str, str]]:
    """Kind and name of each subject, service accounts as users, and how the binding is named to it."""
    name = binding["metadata"]["name"]
    reference, seen = binding.get("roleRef") or {}, set[tuple[str, str]]()
    head = f'RoleBinding "{name}/{place}"' if place else f'ClusterRoleBinding "{name}"'
    head = f'{head} of {reference.get("kind", "")} "{reference.get("name", "")}" to'
    for subject in binding.get("subjects") or ():
        kind, user = subject.get("kind") or "", subject.get("name") or ""
        shown = user
        if kind == "ServiceAccount":
            space = subject.get("namespace") or place
            kind, user, shown = "User", account_user(space, user) if space else "", f"{user}/{space}"
        if user and (kind, user) not in seen:
            seen.add((kind, user))
            yield kind, user, f'{head} {subject["kind"]} "{shown}"'


def _grant(rule: Json, source: str) -> _Grant:
    verbs, groups, resources, names = (
        frozenset(rule.get(part) or ()) for part in ("verbs", "apiGroups", "resources", "resourceNames")
    )
    return _Grant(rule, source, verbs, groups, resources, names, tuple(rule.get("nonResourceURLs") or ()))


def _missing(reference: Json) -> str:
    kind = str(reference.get("kind") or "").lower()
    return f'{kind}.{GROUP} "{reference.get("name", "")}" not found'


def aggregated(errors: Iterable[str]) -> str:
    """Several errors as one text: each once, in brackets if there are more."""
    texts = list(dict.fromkeys(errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
