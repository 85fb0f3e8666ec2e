"""The ClusterRoles and bindings that every cluster with RBAC begins with, as far as clients need them.

Their rules are those of a real server (`default_roles.json`, which `tests/kubernetes/test_rbac_real.py` compares).
Missing are the roles of controllers, kubelets and certificate signers, none of which runs here under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

import msgspec

from headgate.apiserver.authorization.escalation import uncovered
from headgate.apiserver.authorization.rbac import GROUP
from headgate.apiserver.messages import ACCOUNTS_GROUP, AUTHENTICATED, MASTERS, UNAUTHENTICATED, Json

_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_ANNOTATIONS = {AUTOUPDATE: "true"}
_AGGREGATED: Mapping[str, Sequence[str]] = {
    "admin": (),
    "edit": ("admin",),
    "view": ("edit",),
    "system:aggregate-to-admin": ("admin",),
    "system:aggregate-to-edit": ("edit",),
    "system:aggregate-to-view": ("view",),
}
"""By role, the aggregated roles that have its rules."""
_KUBE_SCHEDULER = ("User", "system:kube-scheduler")
_BOUND: Mapping[str, Sequence[tuple[str, str]]] = {
    "cluster-admin": (("Group", MASTERS),),
    "system:basic-user": (("Group", AUTHENTICATED),),
    "system:discovery": (("Group", AUTHENTICATED),),
    "system:kube-scheduler": (_KUBE_SCHEDULER,),
    "system:monitoring": (("Group", "system:monitoring"),),
    "system:public-info-viewer": (("Group", AUTHENTICATED), ("Group", UNAUTHENTICATED)),
    "system:service-account-issuer-discovery": (("Group", ACCOUNTS_GROUP),),
    "system:volume-scheduler": (_KUBE_SCHEDULER,),
}


def default_roles() -> list[Json]:
    """The roles by name, then the bindings by name."""
    text = (files("headgate.apiserver.authorization") / "default_roles.json").read_bytes()
    rules = {**dict.fromkeys(("admin", "edit", "view"), None), **msgspec.json.decode(text)}
    roles = [_role(name, rules[name]) for name in sorted(rules)]
    return [*roles, *(_binding(name, _BOUND[name]) for name in sorted(_BOUND))]


def reconciled(stored: Json, wanted: Json) -> Json:
    """A default role or binding with what it lacks of it: labels, annotations, rules and subjects. What it has besides
    stays. Identical if nothing is missing, or if its annotation says that it is to be left alone.
    """
    metadata = stored["metadata"]
    if (metadata.get("annotations") or {}).get(AUTOUPDATE) == "false":
        return stored
    parts = {part: {**wanted["metadata"][part], **(metadata.get(part) or {})} for part in ("labels", "annotations")}
    kept = {**stored, "metadata": {**metadata, **parts}}
    new = _with_subjects(kept, wanted) if "roleRef" in wanted else _with_rules(kept, wanted)
    return stored if new == stored else new


def _with_subjects(binding: Json, wanted: Json) -> Json:
    """One that refers to another role is made anew."""
    if binding.get("roleRef") != wanted["roleRef"]:
        return wanted
    has = binding.get("subjects") or []
    missing = [each for each in wanted["subjects"] if each not in has]
    return {**binding, "subjects": [*has, *missing]} if missing else binding


def _with_rules(role: Json, wanted: Json) -> Json:
    rule = wanted.get("aggregationRule")
    if rule is None:
        role = {name: part for name, part in role.items() if name != "aggregationRule"}
    else:
        has = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
        missing = [each for each in rule["clusterRoleSelectors"] if each not in has]
        role = {**role, "aggregationRule": {"clusterRoleSelectors": [*has, *missing]}} if missing else role
    rules = role.get("rules") or []
    lacking = uncovered(rules, wanted.get("rules") or ())
    return {**role, "rules": [*rules, *lacking]} if lacking else role


def _role(name: str, rules: list[Json] | None) -> Json:
    labels = {**_LABELS, **{f"{GROUP}/aggregate-to-{into}": "true" for into in _AGGREGATED.get(name, ())}}
    role = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": _metadata(name, labels)}
    if rules is not None:
        return {**role, "rules": rules}
    selector = {"matchLabels": {f"{GROUP}/aggregate-to-{name}": "true"}}
    return {**role, "aggregationRule": {"clusterRoleSelectors": [selector]}, "rules": None}


def _binding(name: str, subjects: Sequence[tuple[str, str]]) -> Json:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(name, _LABELS),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": GROUP, "kind": kind, "name": subject} for kind, subject in subjects],
    }


def _metadata(name: str, labels: Mapping[str, str]) -> Json:
    return {"name": name, "labels": dict(labels), "annotations": dict(_ANNOTATIONS)}
