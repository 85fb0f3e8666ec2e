"""ValidatingAdmissionPolicies and their bindings: their defaults, and what is wrong with them.

An expression is compiled when it is written. `object`, `oldObject` and `params` have no types; of `request` and
`variables` only the fields are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from headgate.apiserver.cel import CompilationError, Reads, compile_program, note_reads
from headgate.apiserver.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
)
from headgate.apiserver.messages import Json
from headgate.apiserver.validation.metadata import metadata_errors, metadata_update_errors, qualified_name_errors
from headgate.apiserver.validation.scheduling import selector_errors
from headgate.apiserver.validation.types import ApiType, LabelSelector, ObjectMeta, typed
from headgate.model.names import dns_subdomain_errors

OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
SCOPES = ("*", "Cluster", "Namespaced")
REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
ACTIONS = ("Audit", "Deny", "Warn")
REQUEST_FIELDS = frozenset(
    {
        *("uid", "kind", "resource", "subResource", "requestKind", "requestResource", "requestSubResource"),
        *("name", "namespace", "operation", "userInfo", "dryRun", "options"),
    }
)
OBJECT_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
OBJECTS = ("object", "oldObject", "request", "namespaceObject", "authorizer")
_NOTHING = "validations or auditAnnotations must contain at least one item"
_BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)
_EXCLUSIVE = "name and selector are mutually exclusive"
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*").fullmatch
_KIND = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?").fullmatch
_BAD_KIND = (
    "may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric "
    "characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  "
    "or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


class NamedRule(ApiType, frozen=True):
    resource_names: list[str] | None = None
    operations: list[str] | None = None
    api_groups: list[str] | None = None
    api_versions: list[str] | None = None
    resources: list[str] | None = None
    scope: str | None = None


class MatchResources(ApiType, frozen=True):
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    resource_rules: list[NamedRule] | None = None
    exclude_resource_rules: list[NamedRule] | None = None
    match_policy: str | None = None


class ParamKind(ApiType, frozen=True):
    api_version: str | None = None
    kind: str | None = None


class NamedExpression(ApiType, frozen=True):
    name: str | None = None
    expression: str | None = None


class Validation(ApiType, frozen=True):
    expression: str | None = None
    message: str | None = None
    reason: str | None = None
    message_expression: str | None = None


class AuditAnnotation(ApiType, frozen=True):
    key: str | None = None
    value_expression: str | None = None


class PolicySpec(ApiType, frozen=True):
    param_kind: ParamKind | None = None
    match_constraints: MatchResources | None = None
    match_conditions: list[NamedExpression] | None = None
    validations: list[Validation] | None = None
    failure_policy: str | None = None
    audit_annotations: list[AuditAnnotation] | None = None
    variables: list[NamedExpression] | None = None


class ValidatingAdmissionPolicy(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    spec: PolicySpec | None = None


class ParamRef(ApiType, frozen=True):
    name: str | None = None
    namespace: str | None = None
    selector: LabelSelector | None = None
    parameter_not_found_action: str | None = None


class PolicyBindingSpec(ApiType, frozen=True):
    policy_name: str | None = None
    param_ref: ParamRef | None = None
    match_resources: MatchResources | None = None
    validation_actions: list[str] | None = None


class ValidatingAdmissionPolicyBinding(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    spec: PolicyBindingSpec | None = None


def default_policy(new: Json) -> Json:
    spec = dict(new.get("spec") or {})
    spec["failurePolicy"] = spec.get("failurePolicy") or "Fail"
    if spec.get("matchConstraints") is not None:
        spec["matchConstraints"] = _default_match(spec["matchConstraints"])
    return {**new, "spec": {name: part for name, part in spec.items() if part not in ([], None)}}


def default_policy_binding(new: Json) -> Json:
    spec = dict(new.get("spec") or {})
    if spec.get("matchResources") is not None:
        spec["matchResources"] = _default_match(spec["matchResources"])
    return {**new, "spec": {name: part for name, part in spec.items() if part not in ([], None)}}


def _default_match(match: Json) -> Json:
    match = dict(match)
    for part in ("resourceRules", "excludeResourceRules"):
        if match.get(part):
            match[part] = [{**rule, "scope": rule.get("scope") or "*"} for rule in match[part]]
    defaults = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
    return {**match, **{name: value for name, value in defaults.items() if match.get(name) is None}}


def policy_errors(new: Json) -> list[FieldError]:
    policy = typed(new, ValidatingAdmissionPolicy)
    metadata, spec = policy.metadata or ObjectMeta(), policy.spec or PolicySpec()
    errors = metadata_errors(metadata, dns_subdomain_errors, namespaced=False)
    if spec.failure_policy not in ("Fail", "Ignore"):
        errors.append(not_supported("spec.failurePolicy", spec.failure_policy, ("Fail", "Ignore")))
    errors += _param_kind_errors(spec.param_kind)
    if spec.match_constraints is None:
        errors.append(required("spec.matchConstraints"))
    else:
        errors += _match_errors("spec.matchConstraints", spec.match_constraints)
        if not spec.match_constraints.resource_rules:
            errors.append(required("spec.matchConstraints.resourceRules"))
    return errors + list(_expression_errors(spec, metadata.name or ""))


def policy_update_errors(new: Json, old: Json) -> list[FieldError]:
    metadata = typed(new, ValidatingAdmissionPolicy).metadata or ObjectMeta()
    return [*policy_errors(new), *metadata_update_errors(new["metadata"], old["metadata"], metadata)]


def policy_binding_errors(new: Json) -> list[FieldError]:
    binding = typed(new, ValidatingAdmissionPolicyBinding)
    spec = binding.spec or PolicyBindingSpec()
    errors = metadata_errors(binding.metadata or ObjectMeta(), dns_subdomain_errors, namespaced=False)
    if not spec.policy_name:
        errors.append(required("spec.policyName"))
    else:
        errors += invalid_each("spec.policyName", spec.policy_name, dns_subdomain_errors(spec.policy_name))
    if spec.param_ref is not None:
        errors += _param_ref_errors(spec.param_ref)
    if spec.match_resources is not None:
        errors += _match_errors("spec.matchResources", spec.match_resources)
    return errors + list(_action_errors(spec.validation_actions or ()))


def policy_binding_update_errors(new: Json, old: Json) -> list[FieldError]:
    metadata = typed(new, ValidatingAdmissionPolicyBinding).metadata or ObjectMeta()
    return [*policy_binding_errors(new), *metadata_update_errors(new["metadata"], old["metadata"], metadata)]


def _action_errors(actions: Sequence[str]) -> Iterator[FieldError]:
    path = "spec.validationActions"
    if not actions:
        yield required(path, "at least one validation action is required")
    for index, action in enumerate(actions):
        if action not in ACTIONS:
            yield not_supported(f"{path}[{index}]", action, ACTIONS)
        elif action in actions[:index]:
            yield duplicate(f"{path}[{index}]", action)
    if {"Deny", "Warn"}.issubset(actions):
        yield invalid(path, list(actions), _BOTH)


def _param_ref_errors(reference: ParamRef) -> Iterator[FieldError]:
    path = "spec.paramRef"
    if reference.name and reference.selector is not None:
        yield forbidden(f"{path}.name", _EXCLUSIVE)
        yield forbidden(f"{path}.selector", _EXCLUSIVE)
    elif reference.name:
        yield from invalid_each(f"{path}.name", reference.name, dns_subdomain_errors(reference.name))
    elif reference.selector is not None:
        yield from selector_errors(f"{path}.selector", reference.selector)
    else:
        yield required(path, "one of name or selector must be specified")
    action = reference.parameter_not_found_action
    if not action:
        yield required(f"{path}.parameterNotFoundAction")
    elif action not in ("Deny", "Allow"):
        yield not_supported(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow"))


def _param_kind_errors(kind: ParamKind | None) -> Iterator[FieldError]:
    if kind is None:
        return
    path, version = "spec.paramKind", kind.api_version or ""
    if not version:
        yield required(f"{path}.apiVersion")
    elif version.count("/") > 1:
        yield invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    if not kind.kind:
        yield required(f"{path}.kind")
    elif not _KIND(kind.kind.lower()):
        yield invalid(f"{path}.kind", kind.kind, _BAD_KIND)


def _match_errors(path: str, match: MatchResources) -> list[FieldError]:
    errors: list[FieldError] = []
    if match.match_policy not in ("Equivalent", "Exact"):
        errors.append(not_supported(f"{path}.matchPolicy", match.match_policy, ("Equivalent", "Exact")))
    errors += selector_errors(f"{path}.namespaceSelector", match.namespace_selector)
    errors += selector_errors(f"{path}.objectSelector", match.object_selector)
    given = (("resourceRules", match.resource_rules), ("excludeResourceRules", match.exclude_resource_rules))
    for name, rules in given:
        for index, rule in enumerate(rules or ()):
            errors += rule_errors(f"{path}.{name}[{index}]", rule)
    return errors


def rule_errors(path: str, rule: NamedRule) -> Iterator[FieldError]:
    names, operations = rule.resource_names or [], rule.operations or []
    for index, name in enumerate(names):
        if name in names[:index]:
            yield duplicate(f"{path}.resourceNames[{index}]", name)
    if not operations:
        yield required(f"{path}.operations")
    elif len(operations) > 1 and "*" in operations:
        yield invalid(f"{path}.operations", operations, "if '*' is present, must not specify other operations")
    for index, operation in enumerate(operations):
        if operation not in OPERATIONS:
            yield not_supported(f"{path}.operations[{index}]", operation, OPERATIONS)
    groups = (("apiGroups", rule.api_groups, "API groups"), ("apiVersions", rule.api_versions, "API versions"))
    for part, given, called in groups:
        if not given:
            yield required(f"{path}.{part}")
        elif len(given) > 1 and "*" in given:
            yield invalid(f"{path}.{part}", given, f"if '*' is present, must not specify other {called}")
    yield from _resource_errors(f"{path}.resources", rule.resources or [])
    if rule.scope not in SCOPES:
        yield not_supported(f"{path}.scope", rule.scope, SCOPES)


def _resource_errors(path: str, resources: list[str]) -> Iterator[FieldError]:
    if not resources:
        yield required(path)
    if "*/*" in resources and len(resources) > 1:
        yield invalid(path, resources, "if '*/*' is present, must not specify other resources")
    elif "*" in resources and sum("/" not in each for each in resources) > 1:
        yield invalid(path, resources, "if '*' is present, must not specify other resources without subresources")


def _expression_errors(spec: PolicySpec, name: str) -> Iterator[FieldError]:
    known = (*OBJECTS, "params") if spec.param_kind is not None else OBJECTS
    yield from condition_errors("spec.matchConditions", spec.match_conditions or (), known)
    declared: list[str] = []
    for index, variable in enumerate(spec.variables or ()):
        path = f"spec.variables[{index}]"
        if not variable.name or not _IDENTIFIER(variable.name):
            yield invalid(f"{path}.name", variable.name or "", "must be a valid CEL identifier")
        yield from _compiled(f"{path}.expression", variable.expression, known, (), tuple(declared))
        declared.append(variable.name or "")
    variables = tuple(declared) if declared else None
    if not spec.validations and not spec.audit_annotations:
        yield required("spec.validations", _NOTHING)
        yield required("spec.auditAnnotations", _NOTHING)
    for index, validation in enumerate(spec.validations or ()):
        yield from _validation_errors(f"spec.validations[{index}]", validation, known, variables)
    for index, annotation in enumerate(spec.audit_annotations or ()):
        yield from _annotation_errors(f"spec.auditAnnotations[{index}]", annotation, name, known, variables)


def condition_errors(where: str, conditions: Sequence[NamedExpression], known: Sequence[str]) -> Iterator[FieldError]:
    for index, condition in enumerate(conditions):
        path, name = f"{where}[{index}]", condition.name or ""
        if not condition.expression:
            yield required(f"{path}.expression")
        else:
            yield from _compiled(f"{path}.expression", condition.expression, known, ("bool",), None)
        if not name:
            yield required(f"{path}.name")
        elif name in [each.name for each in conditions[:index]]:
            yield duplicate(f"{path}.name", name)
        else:
            yield from invalid_each(f"{path}.name", name, qualified_name_errors(name))


def _validation_errors(
    path: str, validation: Validation, known: Sequence[str], variables: tuple[str, ...] | None
) -> Iterator[FieldError]:
    yield from _compiled(f"{path}.expression", validation.expression, known, ("bool",), variables)
    if validation.message_expression:
        said = f"{path}.messageExpression"
        yield from _compiled(said, validation.message_expression, known, ("string",), variables)
    if validation.message and not validation.message.strip():
        yield invalid(f"{path}.message", validation.message, "must be non-empty if specified")
    elif validation.message and "\n" in validation.message.strip():
        yield invalid(f"{path}.message", validation.message, "must not contain line breaks")
    if validation.reason and validation.reason not in REASONS:
        yield not_supported(f"{path}.reason", validation.reason, REASONS)


def _annotation_errors(
    path: str, annotation: AuditAnnotation, policy: str, known: Sequence[str], variables: tuple[str, ...] | None
) -> Iterator[FieldError]:
    if not annotation.key:
        yield required(f"{path}.key")
    else:
        key = f"{policy}/{annotation.key}"
        yield from invalid_each(f"{path}.key", key, qualified_name_errors(key))
    value = f"{path}.valueExpression"
    yield from _compiled(value, annotation.value_expression, known, ("string", "null_type"), variables)


def _compiled(
    path: str, text: str | None, known: Sequence[str], returned: Sequence[str], variables: tuple[str, ...] | None
) -> Iterator[FieldError]:
    """What is wrong with an expression over these objects, and over `variables` if there are any."""
    if not (text or "").strip():
        yield required(path, f"{path.rpartition('.')[2]} is not specified")
        return
    assert text is not None
    names = known if variables is None else (*known, "variables")
    try:
        program = compile_program(text, *names)
    except CompilationError as error:
        yield invalid(path, text, f"compilation failed: {error}")
        return
    typed_names = {"variables": frozenset(variables or ()), "request": REQUEST_FIELDS, "namespaceObject": OBJECT_FIELDS}
    for variable, fields in typed_names.items():
        if variable in names and (missing := _undefined(text, variable, fields)):
            yield invalid(path, text, f"compilation failed: {missing}")
            return
    found = program.return_type().name().lower()
    is_unknown = found == "dyn" and _reads_any(text, typed_names)  # to a real server their types are known
    if returned and found not in returned and not is_unknown:
        expected = returned[0] if len(returned) == 1 else f"one of [{' '.join(returned)}]"
        yield invalid(path, text, f"must evaluate to {expected} but got {found}")


def _reads_any(text: str, variables: Iterable[str]) -> bool:
    reads = {name: Reads() for name in variables}
    note_reads(text, reads)
    return any(not each.nothing for each in reads.values())


def _undefined(text: str, variable: str, fields: frozenset[str]) -> str:
    """The compiler's text about the first field of the variable that is not defined; empty if all are."""
    reads = Reads()
    note_reads(text, {variable: reads})
    unknown = [name for name in reads.fields if name not in fields]
    if not unknown:
        return ""
    place = re.search(rf"\b{variable}\s*\.\s*{unknown[0]}\b", text)
    at = place.start() + text[place.start() :].index(".") if place else 0
    number, column = text.count("\n", 0, at), at - (text.rfind("\n", 0, at) + 1)
    line = text.split("\n")[number]
    where = f"<input>:{number + 1}:{column + 1}"
    return f"ERROR: {where}: undefined field '{unknown[0]}'\n | {line}\n | {'.' * column}^"
