"""Selectors and affinity terms: operators, values, weights and topology keys."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.apiserver.field_errors import FieldError, complaints, forbidden, invalid, required
from headgate.apiserver.validate_metadata import label_errors, label_name_errors
from headgate.apiserver.validate_names import dns_label_errors, label_value_errors
from headgate.apiserver.validate_shapes import (
    Affinity,
    NodeAffinity,
    NodeTerm,
    PodAffinity,
    PodTerm,
    Requirement,
    Selector,
)
from headgate.model.names import dns_subdomain_errors

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_OPERATOR = "not a valid selector operator"


def affinity_errors(path: str, affinity: Affinity) -> list[FieldError]:
    errors: list[FieldError] = []
    if affinity.node_affinity is not None:
        errors += _node_affinity_errors(f"{path}.nodeAffinity", affinity.node_affinity)
    if affinity.pod_affinity is not None:
        errors += _pod_affinity_errors(f"{path}.podAffinity", affinity.pod_affinity)
    if affinity.pod_anti_affinity is not None:
        errors += _pod_affinity_errors(f"{path}.podAntiAffinity", affinity.pod_anti_affinity)
    return errors


def _node_affinity_errors(path: str, affinity: NodeAffinity) -> list[FieldError]:
    errors: list[FieldError] = []
    demanded = affinity.required_during_scheduling_ignored_during_execution
    if demanded is not None:
        terms = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        if not demanded.node_selector_terms:
            errors.append(required(terms, "must have at least one node selector term"))
        for index, term in enumerate(demanded.node_selector_terms or ()):
            errors += _node_term_errors(f"{terms}[{index}]", term, check_values=True)
    for index, wish in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or ()):
        here = f"{path}.{_PREFERRED}[{index}]"
        errors += _weight_errors(here, wish.weight)
        errors += _node_term_errors(f"{here}.preference", wish.preference or NodeTerm(), check_values=False)
    return errors


def _weight_errors(path: str, weight: int | None) -> list[FieldError]:
    return [] if 1 <= (weight or 0) <= 100 else [invalid(f"{path}.weight", weight or 0, "must be in the range 1-100")]


def _node_term_errors(path: str, term: NodeTerm, *, check_values: bool) -> list[FieldError]:
    """Label values are checked in demands only: a wish for an impossible value harms nobody."""
    errors: list[FieldError] = []
    for index, requirement in enumerate(term.match_expressions or ()):
        here = f"{path}.matchExpressions[{index}]"
        errors += _operator_errors(here, requirement, numeric=True)
        errors += label_name_errors(f"{here}.key", requirement.key or "")
        errors += _value_errors(here, requirement.values or ()) if check_values else []
    for index, requirement in enumerate(term.match_fields or ()):
        errors += _field_requirement_errors(f"{path}.matchFields[{index}]", requirement)
    return errors


def _operator_errors(path: str, requirement: Requirement, *, numeric: bool) -> list[FieldError]:
    values = requirement.values or ()
    match requirement.operator:
        case "In" | "NotIn":
            wrong = required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
            return [] if values else [wrong]
        case "Exists" | "DoesNotExist":
            wrong = forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            return [wrong] if values else []
        case "Gt" | "Lt" if numeric:
            wrong = required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
            return [] if len(values) == 1 else [wrong]
        case other:
            return [invalid(f"{path}.operator", other or "", _NO_OPERATOR)]


def _value_errors(path: str, values: Sequence[str]) -> list[FieldError]:
    return [
        error
        for index, value in enumerate(values)
        for error in complaints(f"{path}.values[{index}]", value, label_value_errors(value))
    ]


def _field_requirement_errors(path: str, requirement: Requirement) -> list[FieldError]:
    values = requirement.values or ()
    errors: list[FieldError] = []
    if requirement.operator not in ("In", "NotIn"):
        errors.append(invalid(f"{path}.operator", requirement.operator or "", _NO_OPERATOR))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", detail))
    if requirement.key != "metadata.name":
        errors.append(invalid(f"{path}.key", requirement.key or "", "not a valid field selector key"))
        return errors
    for index, value in enumerate(values):
        errors += complaints(f"{path}.values[{index}]", value, dns_subdomain_errors(value))
    return errors


def _pod_affinity_errors(path: str, affinity: PodAffinity) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution or ()):
        errors += _pod_term_errors(f"{path}.{_REQUIRED}[{index}]", term)
    for index, wish in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or ()):
        here = f"{path}.{_PREFERRED}[{index}]"
        errors += _weight_errors(here, wish.weight)
        errors += _pod_term_errors(f"{here}.podAffinityTerm", wish.pod_affinity_term or PodTerm())
    return errors


def _pod_term_errors(path: str, term: PodTerm) -> list[FieldError]:
    errors = selector_errors(f"{path}.labelSelector", term.label_selector)
    errors += selector_errors(f"{path}.namespaceSelector", term.namespace_selector)
    for name in term.namespaces or ():
        errors += complaints(f"{path}.namespace", name, dns_label_errors(name))
    errors += label_key_errors(path, term)
    if not term.topology_key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    return errors + label_name_errors(f"{path}.topologyKey", term.topology_key or "")


def label_key_errors(path: str, term: PodTerm) -> list[FieldError]:
    """matchLabelKeys and mismatchLabelKeys need a selector to add to, and no key may be said twice."""
    matching, other = term.match_label_keys or (), term.mismatch_label_keys or ()
    if not matching and not other:
        return []
    errors: list[FieldError] = []
    for name, keys in (("matchLabelKeys", matching), ("mismatchLabelKeys", other)):
        if keys and term.label_selector is None:
            errors.append(forbidden(f"{path}.{name}", "must not be specified when labelSelector is not set"))
            continue
        for index, key in enumerate(keys):
            errors += label_name_errors(f"{path}.{name}[{index}]", key)
    if term.label_selector is not None:
        errors += _repeated_key_errors(path, matching, term.label_selector)
    both = "exists in both matchLabelKeys and mismatchLabelKeys"
    errors += [
        invalid(f"{path}.matchLabelKeys[{index}]", key, both) for index, key in enumerate(matching) if key in other
    ]
    return errors


def _repeated_key_errors(path: str, keys: Sequence[str], selector: Selector) -> list[FieldError]:
    """The selector has the expression made from the key already; any other mention of the key is the client's."""
    mentioned = [*(selector.match_labels or ()), *(one.key for one in selector.match_expressions or ())]
    detail = "exists in both matchLabelKeys and labelSelector"
    return [invalid(f"{path}[{index}]", key, detail) for index, key in enumerate(keys) if mentioned.count(key) > 1]


def selector_errors(path: str, selector: Selector | None) -> list[FieldError]:
    """A label selector, as budgets, Jobs, spread constraints and affinity terms hold one."""
    if selector is None:
        return []
    errors = label_errors(f"{path}.matchLabels", selector.match_labels)
    for index, requirement in enumerate(selector.match_expressions or ()):
        here = f"{path}.matchExpressions[{index}]"
        errors += _operator_errors(here, requirement, numeric=False)
        errors += label_name_errors(f"{here}.key", requirement.key or "")
        errors += _value_errors(here, requirement.values or ())
    return errors
