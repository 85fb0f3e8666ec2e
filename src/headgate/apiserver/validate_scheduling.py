"""Tolerations, taints, scheduling gates and spread constraints."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from headgate.apiserver.field_errors import (
    NOT_POSITIVE,
    Complaint,
    FieldError,
    complaints,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from headgate.apiserver.validate_affinity import label_key_errors, selector_errors
from headgate.apiserver.validate_metadata import label_name_errors
from headgate.apiserver.validate_names import label_value_errors, qualified_name_errors
from headgate.apiserver.validate_shapes import Named, PodTerm, SpreadConstraint, Taint, Toleration

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
    """A taint as a real server shows it in this one error."""

    key: str
    value: str
    effect: str
    time_added: None = None


def gate_errors(path: str, gates: Sequence[Named]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.name or ""
        errors += complaints(f"{path}[{index}]", name, qualified_name_errors(name))
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return errors


def new_gate_errors(path: str, gates: Sequence[Named], known: Sequence[Named]) -> list[FieldError]:
    """After creation gates may only go, in any order."""
    old = {gate.name for gate in known}
    return [
        forbidden(f"{path}[{index}].name", f"only deletion is allowed, but found new scheduling gate '{gate.name}'")
        for index, gate in enumerate(gates)
        if gate.name not in old
    ]


def spread_errors(path: str, constraints: Sequence[SpreadConstraint]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, constraint in enumerate(constraints):
        here = f"{path}[{index}]"
        errors += _constraint_errors(here, constraint)
        errors += _repetition_errors(here, constraint, constraints[index + 1 :])
        errors += _min_domains_errors(f"{here}.minDomains", constraint)
        errors += _inclusion_errors(f"{here}.nodeAffinityPolicy", constraint.node_affinity_policy)
        errors += _inclusion_errors(f"{here}.nodeTaintsPolicy", constraint.node_taints_policy)
        term = PodTerm(label_selector=constraint.label_selector, match_label_keys=constraint.match_label_keys)
        errors += label_key_errors(here, term)
        errors += selector_errors(f"{here}.labelSelector", constraint.label_selector)
    return errors


def _constraint_errors(path: str, constraint: SpreadConstraint) -> list[FieldError]:
    errors: list[FieldError] = []
    if (constraint.max_skew or 0) <= 0:
        errors.append(invalid(f"{path}.maxSkew", constraint.max_skew or 0, NOT_POSITIVE))
    if not constraint.topology_key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    if constraint.when_unsatisfiable not in _WHEN_UNSATISFIABLE:
        unknown = constraint.when_unsatisfiable or ""
        errors.append(not_supported(f"{path}.whenUnsatisfiable", unknown, _WHEN_UNSATISFIABLE))
    return errors


def _repetition_errors(path: str, one: SpreadConstraint, others: Sequence[SpreadConstraint]) -> list[FieldError]:
    pair = (one.topology_key, one.when_unsatisfiable)
    if all((other.topology_key, other.when_unsatisfiable) != pair for other in others):
        return []
    return [duplicate(f"{path}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0] or ''}, {pair[1] or ''}}}")]


def _min_domains_errors(path: str, constraint: SpreadConstraint) -> list[FieldError]:
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
