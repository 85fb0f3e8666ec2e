"""What steers scheduling: label selectors, affinity, tolerations, taints, scheduling gates, spread constraints."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from headgate.apiserver.field_errors import (
    NOT_POSITIVE,
    Complaint,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
)
from headgate.apiserver.validation.metadata import (
    dns_label_errors,
    label_errors,
    label_name_errors,
    label_value_errors,
    qualified_name_errors,
)
from headgate.apiserver.validation.types import (
    Affinity,
    LabelSelector,
    NodeAffinity,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodSchedulingGate,
    Requirement,
    Taint,
    Toleration,
    TopologySpreadConstraint,
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
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or ()):
        here = f"{path}.{_PREFERRED}[{index}]"
        errors += _weight_errors(here, preferred.weight)
        preference = preferred.preference or NodeSelectorTerm()
        errors += _node_term_errors(f"{here}.preference", preference, check_values=False)
    return errors


def _weight_errors(path: str, weight: int | None) -> list[FieldError]:
    return [] if 1 <= (weight or 0) <= 100 else [invalid(f"{path}.weight", weight or 0, "must be in the range 1-100")]


def _node_term_errors(path: str, term: NodeSelectorTerm, *, check_values: bool) -> list[FieldError]:
    """Errors of a node selector term; label values are checked in required terms only."""
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
        for error in invalid_each(f"{path}.values[{index}]", value, label_value_errors(value))
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
        errors += invalid_each(f"{path}.values[{index}]", value, dns_subdomain_errors(value))
    return errors


def _pod_affinity_errors(path: str, affinity: PodAffinity) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution or ()):
        errors += _pod_term_errors(f"{path}.{_REQUIRED}[{index}]", term)
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or ()):
        here = f"{path}.{_PREFERRED}[{index}]"
        errors += _weight_errors(here, preferred.weight)
        errors += _pod_term_errors(f"{here}.podAffinityTerm", preferred.pod_affinity_term or PodAffinityTerm())
    return errors


def _pod_term_errors(path: str, term: PodAffinityTerm) -> list[FieldError]:
    errors = selector_errors(f"{path}.labelSelector", term.label_selector)
    errors += selector_errors(f"{path}.namespaceSelector", term.namespace_selector)
    for name in term.namespaces or ():
        errors += invalid_each(f"{path}.namespace", name, dns_label_errors(name))
    errors += label_key_errors(path, term)
    if not term.topology_key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    return errors + label_name_errors(f"{path}.topologyKey", term.topology_key or "")


def label_key_errors(path: str, term: PodAffinityTerm) -> list[FieldError]:
    """matchLabelKeys and mismatchLabelKeys need a labelSelector, and a key must be in one place only."""
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


def _repeated_key_errors(path: str, keys: Sequence[str], selector: LabelSelector) -> list[FieldError]:
    """A key is in the selector once already, merged at creation; a second time it is the client's."""
    mentioned = [*(selector.match_labels or ()), *(one.key for one in selector.match_expressions or ())]
    detail = "exists in both matchLabelKeys and labelSelector"
    return [invalid(f"{path}[{index}]", key, detail) for index, key in enumerate(keys) if mentioned.count(key) > 1]


def selector_errors(path: str, selector: LabelSelector | None) -> list[FieldError]:
    """Errors of a label selector."""
    if selector is None:
        return []
    errors = label_errors(f"{path}.matchLabels", selector.match_labels)
    for index, requirement in enumerate(selector.match_expressions or ()):
        here = f"{path}.matchExpressions[{index}]"
        errors += _operator_errors(here, requirement, numeric=False)
        errors += label_name_errors(f"{here}.key", requirement.key or "")
        errors += _value_errors(here, requirement.values or ())
    return errors


_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WHEN_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION = ("Honor", "Ignore")


def toleration_errors(path: str, tolerations: Sequence[Toleration]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        errors += _toleration_errors(f"{path}[{index}]", toleration)
    return errors


def _toleration_errors(path: str, toleration: Toleration) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, effect = toleration.operator or "", toleration.effect or ""
    if toleration.key:
        errors += label_name_errors(f"{path}.key", toleration.key)
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(f"{path}.operator", operator, detail))
    if toleration.toleration_seconds is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(f"{path}.effect", effect, detail))
    errors += _toleration_value_errors(path, operator, toleration.value or "")
    if effect and effect not in _EFFECTS:
        errors.append(not_supported(f"{path}.effect", effect, _EFFECTS))
    return errors


def _toleration_value_errors(path: str, operator: str, value: str) -> list[FieldError]:
    match operator:
        case "" | "Equal":
            wrong = label_value_errors(value)
            return [invalid(f"{path}.operator", value, ";".join(wrong))] if wrong else []
        case "Exists":
            wrong_value = invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
            return [wrong_value] if value else []
        case "Lt" | "Gt":
            return [not_supported(f"{path}.operator", operator, ("Equal", "Exists", "Lt", "Gt"))]
        case _:
            return [not_supported(f"{path}.operator", operator, ("Equal", "Exists"))]


def taint_errors(path: str, taints: Sequence[Taint]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        here, key, effect = f"{path}[{index}]", taint.key or "", taint.effect or ""
        errors += label_name_errors(f"{here}.key", key)
        wrong = label_value_errors(taint.value or "")
        errors += [invalid(f"{here}.value", taint.value, ";".join(wrong))] if wrong else []
        if not effect:
            errors.append(required(f"{here}.effect"))
        elif effect not in _EFFECTS:
            errors.append(not_supported(f"{here}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            errors.append(_repeated_taint(here, taint))
        seen.add((key, effect))
    return errors


def _repeated_taint(path: str, taint: Taint) -> FieldError:
    shown = _ShownTaint(taint.key or "", taint.value or "", taint.effect or "")
    return FieldError(path, Complaint.DUPLICATE, "taints must be unique by key and effect pair", shown)


class _ShownTaint(Struct, frozen=True, rename="pascal"):
    """A taint as a real server prints it in this error."""

    key: str
    value: str
    effect: str
    time_added: None = None


def gate_errors(path: str, gates: Sequence[PodSchedulingGate]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.name or ""
        errors += invalid_each(f"{path}[{index}]", name, qualified_name_errors(name))
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return errors


def new_gate_errors(
    path: str, gates: Sequence[PodSchedulingGate], known: Sequence[PodSchedulingGate]
) -> list[FieldError]:
    """After creation, gates can only be removed."""
    old = {gate.name for gate in known}
    return [
        forbidden(f"{path}[{index}].name", f"only deletion is allowed, but found new scheduling gate '{gate.name}'")
        for index, gate in enumerate(gates)
        if gate.name not in old
    ]


def spread_errors(path: str, constraints: Sequence[TopologySpreadConstraint]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, constraint in enumerate(constraints):
        here = f"{path}[{index}]"
        errors += _constraint_errors(here, constraint)
        errors += _repetition_errors(here, constraint, constraints[index + 1 :])
        errors += _min_domains_errors(f"{here}.minDomains", constraint)
        errors += _inclusion_errors(f"{here}.nodeAffinityPolicy", constraint.node_affinity_policy)
        errors += _inclusion_errors(f"{here}.nodeTaintsPolicy", constraint.node_taints_policy)
        term = PodAffinityTerm(label_selector=constraint.label_selector, match_label_keys=constraint.match_label_keys)
        errors += label_key_errors(here, term)
        errors += selector_errors(f"{here}.labelSelector", constraint.label_selector)
    return errors


def _constraint_errors(path: str, constraint: TopologySpreadConstraint) -> list[FieldError]:
    errors: list[FieldError] = []
    if (constraint.max_skew or 0) <= 0:
        errors.append(invalid(f"{path}.maxSkew", constraint.max_skew or 0, NOT_POSITIVE))
    if not constraint.topology_key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    if constraint.when_unsatisfiable not in _WHEN_UNSATISFIABLE:
        unknown = constraint.when_unsatisfiable or ""
        errors.append(not_supported(f"{path}.whenUnsatisfiable", unknown, _WHEN_UNSATISFIABLE))
    return errors


def _repetition_errors(
    path: str, one: TopologySpreadConstraint, others: Sequence[TopologySpreadConstraint]
) -> list[FieldError]:
    pair = (one.topology_key, one.when_unsatisfiable)
    if all((other.topology_key, other.when_unsatisfiable) != pair for other in others):
        return []
    return [duplicate(f"{path}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0] or ''}, {pair[1] or ''}}}")]


def _min_domains_errors(path: str, constraint: TopologySpreadConstraint) -> list[FieldError]:
    domains, action = constraint.min_domains, constraint.when_unsatisfiable or ""
    if domains is None:
        return []
    errors = [invalid(path, domains, NOT_POSITIVE)] if domains <= 0 else []
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(path, domains, detail))
    return errors


def _inclusion_errors(path: str, policy: str | None) -> list[FieldError]:
    return [] if policy is None or policy in _INCLUSION else [not_supported(path, policy, _INCLUSION)]
