"""Label keys of affinity terms and spread constraints, turned into selectors when the pod is created."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.apiserver.messages import Json

_TERM_LISTS = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")


def with_label_keys(spec: Json, labels: Mapping[str, str]) -> Json:
    """The spec whose selectors say what `matchLabelKeys` and `mismatchLabelKeys` mean for a pod with these labels."""
    changed: Json = {}
    if spec.get("topologySpreadConstraints"):
        constraints = spec["topologySpreadConstraints"]
        changed["topologySpreadConstraints"] = [_selecting(constraint, labels) for constraint in constraints]
    if spec.get("affinity"):
        changed["affinity"] = _affinity(spec["affinity"], labels)
    return {**spec, **changed} if changed else spec


def _affinity(affinity: Json, labels: Mapping[str, str]) -> Json:
    changed = dict(affinity)
    for kind in ("podAffinity", "podAntiAffinity"):
        if affinity.get(kind):
            changed[kind] = {**affinity[kind], **_terms(affinity[kind], labels)}
    return changed


def _terms(affinity: Json, labels: Mapping[str, str]) -> Json:
    demanded, wished = _TERM_LISTS
    changed: Json = {}
    if affinity.get(demanded):
        changed[demanded] = [_selecting(term, labels) for term in affinity[demanded]]
    if affinity.get(wished):
        changed[wished] = [
            {**wish, "podAffinityTerm": _selecting(wish.get("podAffinityTerm") or {}, labels)}
            for wish in affinity[wished]
        ]
    return changed


def _selecting(term: Json, labels: Mapping[str, str]) -> Json:
    """Expressions are added behind those there are, and only once."""
    selector = term.get("labelSelector")
    if selector is None:
        return term
    present = selector.get("matchExpressions") or []
    wanted = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(name) or ()
        if key in labels
    ]
    added = [expression for expression in wanted if expression not in present]
    return {**term, "labelSelector": {**selector, "matchExpressions": [*present, *added]}} if added else term
