"""Roles and bindings: their defaults, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import field

from headgate.apiserver.field_errors import FieldError, invalid, invalid_each, not_supported, required
from headgate.apiserver.messages import Json
from headgate.apiserver.validation.metadata import metadata_errors, metadata_update_errors
from headgate.apiserver.validation.scheduling import selector_errors
from headgate.apiserver.validation.types import ApiType, LabelSelector, ObjectMeta, typed
from headgate.model.names import dns_subdomain_errors

GROUP = "rbac.authorization.k8s.io"
_OF_GROUP = ("User", "Group")
_SUBJECTS = ("ServiceAccount", *_OF_GROUP)


class PolicyRule(ApiType, frozen=True):
    verbs: list[str] | None = None
    api_groups: list[str] | None = None
    resources: list[str] | None = None
    resource_names: list[str] | None = None
    non_resource_urls: list[str] | None = field(default=None, name="nonResourceURLs")


class AggregationRule(ApiType, frozen=True):
    cluster_role_selectors: list[LabelSelector] | None = None


class Role(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    rules: list[PolicyRule] | None = None


class ClusterRole(Role, frozen=True):
    aggregation_rule: AggregationRule | None = None


class RoleRef(ApiType, frozen=True):
    api_group: str | None = None
    kind: str | None = None
    name: str | None = None


class Subject(ApiType, frozen=True):
    kind: str | None = None
    api_group: str | None = None
    name: str | None = None
    namespace: str | None = None


class RoleBinding(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    role_ref: RoleRef | None = None
    subjects: list[Subject] | None = None


class ClusterRoleBinding(RoleBinding, frozen=True):
    pass


def path_segment_errors(name: str) -> tuple[str, ...]:
    """What is wrong with a name that may be anything that fits into a path."""
    if name in (".", ".."):
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{sign}'" for sign in ("/", "%") if sign in name)


def new_role(new: Json) -> Json:
    """A role without rules says so."""
    return {**new, "rules": new.get("rules") or None}


def default_binding(new: Json) -> Json:
    """With the API groups of the role and of the subjects."""
    reference, subjects = new.get("roleRef") or {}, new.get("subjects") or ()
    complete = {name: part for name, part in new.items() if name != "subjects"}
    complete["roleRef"] = {**reference, "apiGroup": reference.get("apiGroup") or GROUP}
    return {**complete, "subjects": [_default_subject(each) for each in subjects]} if subjects else complete


def _default_subject(subject: Json) -> Json:
    if subject.get("apiGroup") or subject.get("kind") not in _OF_GROUP:
        return subject
    return {**subject, "apiGroup": GROUP}


def role_errors(new: Json) -> list[FieldError]:
    return _role_errors(typed(new, Role), namespaced=True)


def cluster_role_errors(new: Json) -> list[FieldError]:
    role = typed(new, ClusterRole)
    errors = _role_errors(role, namespaced=False)
    if role.aggregation_rule is None:
        return errors
    path, selectors = "aggregationRule.clusterRoleSelectors", role.aggregation_rule.cluster_role_selectors or ()
    if not selectors:
        text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        errors.append(required(path, text))
    for index, selector in enumerate(selectors):
        wrong = selector_errors(f"{path}[{index}]", selector)
        errors += [*wrong, invalid(f"{path}[{index}]", None, "invalid label selector.")] if wrong else []
    return errors


def _role_errors(role: Role, *, namespaced: bool) -> list[FieldError]:
    errors = metadata_errors(role.metadata or ObjectMeta(), path_segment_errors, namespaced=namespaced)
    for index, rule in enumerate(role.rules or ()):
        errors += _rule_errors(f"rules[{index}]", rule, namespaced=namespaced)
    return errors


def _rule_errors(path: str, rule: PolicyRule, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if not rule.verbs:
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    if urls := rule.non_resource_urls:
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            errors.append(invalid(f"{path}.nonResourceURLs", urls, text))
        if rule.api_groups or rule.resources or rule.resource_names:
            text = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(f"{path}.nonResourceURLs", urls, text))
        return errors
    if not rule.api_groups:
        errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.resources:
        errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def binding_errors(new: Json) -> list[FieldError]:
    return _binding_errors(typed(new, RoleBinding), ("Role", "ClusterRole"), namespaced=True)


def cluster_binding_errors(new: Json) -> list[FieldError]:
    return _binding_errors(typed(new, ClusterRoleBinding), ("ClusterRole",), namespaced=False)


def _binding_errors(binding: RoleBinding, kinds: Sequence[str], *, namespaced: bool) -> list[FieldError]:
    reference = binding.role_ref or RoleRef()
    errors = metadata_errors(binding.metadata or ObjectMeta(), path_segment_errors, namespaced=namespaced)
    if reference.api_group != GROUP:
        errors.append(not_supported("roleRef.apiGroup", reference.api_group or "", [GROUP]))
    if reference.kind not in kinds:
        errors.append(not_supported("roleRef.kind", reference.kind or "", kinds))
    if not reference.name:
        errors.append(required("roleRef.name"))
    else:
        errors += invalid_each("roleRef.name", reference.name, path_segment_errors(reference.name))
    for index, subject in enumerate(binding.subjects or ()):
        errors += _subject_errors(f"subjects[{index}]", subject, namespaced=namespaced)
    return errors


def _subject_errors(path: str, subject: Subject, *, namespaced: bool) -> list[FieldError]:
    name, group = subject.name or "", subject.api_group or ""
    errors = [] if name else [required(f"{path}.name")]
    if subject.kind not in _SUBJECTS:
        return [*errors, not_supported(f"{path}.kind", subject.kind or "", _SUBJECTS)]
    expected = "" if subject.kind == "ServiceAccount" else GROUP
    if subject.kind == "ServiceAccount" and name:
        errors += invalid_each(f"{path}.name", name, dns_subdomain_errors(name))
    if group != expected:
        errors.append(not_supported(f"{path}.apiGroup", group, [expected]))
    if subject.kind == "ServiceAccount" and not namespaced and not subject.namespace:
        errors.append(required(f"{path}.namespace"))
    return errors


def update_errors_of(check: Callable[[Json], list[FieldError]]) -> Callable[[Json, Json], list[FieldError]]:
    """Errors of an update: those of a new object, of its metadata, and of another role in a binding."""

    def errors(new: Json, old: Json) -> list[FieldError]:
        shape = typed(new, Role).metadata or ObjectMeta()
        found = [*check(new), *metadata_update_errors(new["metadata"], old["metadata"], shape)]
        if new.get("roleRef") != old.get("roleRef"):
            found.append(invalid("roleRef", new.get("roleRef"), "cannot change roleRef"))
        return found

    return errors
