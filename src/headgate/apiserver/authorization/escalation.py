"""Privilege escalation: nobody grants what they may not do themselves, unless they may `escalate` or `bind`.

It is the last step of mutating admission, where a real server checks it: before validation, on the object as it is
going to be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headgate.apiserver.admission.chain import Catalog, Operation
from headgate.apiserver.authorization.rbac import ANY, GROUP, AccessAttributes, RbacAuthorizer, aggregated, url_matches
from headgate.apiserver.field_errors import quote, same
from headgate.apiserver.messages import MASTERS, Json
from headgate.apiserver.status import StatusError, forbidden, not_found

ROLES, BINDINGS = ("roles", "clusterroles"), ("rolebindings", "clusterrolebindings")
_EVERYTHING: Sequence[Json] = (
    {"verbs": [ANY], "apiGroups": [ANY], "resources": [ANY]},
    {"verbs": [ANY], "nonResourceURLs": [ANY]},
)
_COLLECTED = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")
"""Metadata that garbage collection changes."""
_RESOURCES = {"ClusterRole": "clusterroles", "Role": "roles"}


class EscalationCheck:
    """The admission plugin that refuses roles and bindings beyond the rights of whoever writes them."""

    resources = frozenset((GROUP, plural) for plural in (*ROLES, *BINDINGS))
    keeps_complete = True

    def __init__(self, authorizer: RbacAuthorizer) -> None:
        self._authorizer = authorizer

    def mutate(self, operation: Operation, _catalog: Catalog) -> Json | None:
        new = operation.new
        if (
            new is None
            or MASTERS in operation.user_groups
            or (operation.old is not None and _is_collected(new, operation.old))
        ):
            return new
        if operation.resource.plural in ROLES:
            self._check_role(operation, new)
        else:
            self._check_binding(operation, new)
        return new

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        """Everything is checked before."""

    def _check_role(self, operation: Operation, role: Json) -> None:
        if self._may(operation, "escalate", operation.resource.plural, operation.name if operation.old else ""):
            return
        self._refuse_beyond(operation, role.get("rules") or ())
        aggregates = role.get("aggregationRule") or (operation.old or {}).get("aggregationRule")
        if aggregates and self._beyond(operation, _EVERYTHING):
            why = "must have cluster-admin privileges to use the aggregationRule"
            raise forbidden(operation.resource, operation.name, why)

    def _check_binding(self, operation: Operation, binding: Json) -> None:
        reference = binding.get("roleRef") or {}
        kind, name = reference.get("kind") or "", reference.get("name") or ""
        if kind in _RESOURCES and self._may(operation, "bind", _RESOURCES[kind], name):
            return
        rules = self._authorizer.role_rules(reference, operation.namespace)
        if rules is None:
            raise _no_such_role(operation, kind, name)
        self._refuse_beyond(operation, rules)

    def _may(self, operation: Operation, verb: str, resource: str, name: str) -> bool:
        wanted = AccessAttributes(
            verb, group=GROUP, version=ANY, namespace=operation.namespace, resource=resource, name=name
        )
        return self._authorizer.decide(operation.user, operation.user_groups, wanted).allowed

    def _refuse_beyond(self, operation: Operation, rules: Sequence[Json]) -> None:
        missing = self._beyond(operation, rules)
        if not missing:
            return
        groups = operation.user_groups
        who = f"user {quote(operation.user)} (groups={_list(groups)})"
        lines = "\n".join(sorted({_compact_text(rule) for rule in _compacted(missing)}))
        errors = self._authorizer.rules_for(operation.user, groups, operation.namespace).errors
        more = f"; resolution errors: [{aggregated(errors)}]" if errors else ""
        why = f"{who} is attempting to grant RBAC permissions not currently held:\n{lines}{more}"
        raise forbidden(operation.resource, operation.name, why)

    def _beyond(self, operation: Operation, rules: Sequence[Json]) -> list[Json]:
        """The single permissions of these rules that the user does not have."""
        own = self._authorizer.rules_for(operation.user, operation.user_groups, operation.namespace).rules
        return uncovered(own, rules)


def uncovered(own: Sequence[Json], rules: Sequence[Json]) -> list[Json]:
    """The single permissions of some rules that others do not have."""
    return [single for rule in rules for single in _singles(rule) if not any(_covers(each, single) for each in own)]


def _is_collected(new: Json, old: Json) -> bool:
    """Whether nothing changes but what garbage collection changes."""

    def rest(value: Json) -> Json:
        metadata = {name: part for name, part in value["metadata"].items() if name not in _COLLECTED}
        return {**value, "metadata": metadata}

    return same(rest(new), rest(old))


def _no_such_role(operation: Operation, kind: str, name: str) -> StatusError:
    if kind not in _RESOURCES:
        return StatusError(500, "", f"unsupported role reference kind: {quote(kind)}")
    return not_found(operation.resource, name)  # a real server names the binding's resource, too


def _singles(rule: Json) -> Iterator[Json]:
    """The rule as permissions of one verb on one thing each."""
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in rule.get("verbs") or ():
                single = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                names = rule.get("resourceNames") or ()
                yield from ({**single, "resourceNames": [name]} for name in names)
                if not names:
                    yield single
    for url in rule.get("nonResourceURLs") or ():
        for verb in rule.get("verbs") or ():
            yield {"nonResourceURLs": [url], "verbs": [verb]}


def _covers(own: Json, single: Json) -> bool:
    names, wanted = own.get("resourceNames") or (), single.get("resourceNames") or ()
    return (
        _includes_all(own, single, "verbs")
        and _includes_all(own, single, "apiGroups")
        and _includes_all(own, single, "resources", _resource_covers)
        and _includes_all(own, single, "nonResourceURLs", url_matches)
        and (not names or (bool(wanted) and set(names).issuperset(wanted)))
    )


def _includes_all(
    own: Json, single: Json, part: str, matches: Callable[[str, str], bool] = lambda one, other: one in (ANY, other)
) -> bool:
    has: Sequence[str] = own.get(part) or ()
    return all(any(matches(each, wanted) for each in has) for wanted in single.get(part) or ())


def _resource_covers(has: str, wanted: str) -> bool:
    subresource = wanted.partition("/")[2]
    return has in (ANY, wanted) or (bool(subresource) and has == f"*/{subresource}")


def _compacted(singles: Sequence[Json]) -> list[Json]:
    """Permissions of one resource as one rule of several verbs; all others as they are."""
    by_resource: dict[tuple[str, ...], Json] = {}
    others: list[Json] = []
    for single in singles:
        if "resources" not in single:
            others.append(single)
            continue
        key = (*single["apiGroups"], *single["resources"], *single.get("resourceNames", ()))
        known = by_resource.setdefault(key, {**single, "verbs": []})
        known["verbs"] += single["verbs"]
    return [*others, *by_resource.values()]


_PARTS = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("ResourceNames", "resourceNames"),
    ("Verbs", "verbs"),
)


def _compact_text(rule: Json) -> str:
    return "{" + ", ".join(f"{shown}:{_list(rule[name])}" for shown, name in _PARTS if rule.get(name)) + "}"


def _list(texts: Sequence[Any]) -> str:
    return f"[{' '.join(quote(text) for text in texts)}]"
