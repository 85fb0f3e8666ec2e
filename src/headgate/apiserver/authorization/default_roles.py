"""The ClusterRoles and bindings that every cluster with RBAC begins with, as far as clients need them.

Their rules are those of a real server (`default_roles.json`, which `tests/kubernetes/test_rbac_real.py` compares).
Missing are the roles of controllers, kubelets and certificate signers, none of which runs here under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

import msgspec

from headgate.apiserver.authorization.rbac import GROUP
from headgate.apiserver.messages import Json
from headgate.apiserver.users import ACCOUNTS_GROUP, AUTHENTICATED, MASTERS, UNAUTHENTICATED

_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
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
