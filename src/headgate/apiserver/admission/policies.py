"""ValidatingAdmissionPolicies: which of them a write matches, with which parameters, and what their expressions say.

Not there: `request.options`, cost limits of expressions, and what is audited (the action Audit and
auditAnnotations are accepted and recorded nowhere).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from headgate.apiserver.admission.chain import Catalog, Operation
from headgate.apiserver.admission.webhooks import (
    GROUP,
    admission_request,
    all_hold,
    label_test,
    namespace_matches,
    object_matches,
    rule_matches,
)
from headgate.apiserver.authorization import AccessAttributes
from headgate.apiserver.caches import CEL_PROGRAMS, memoized
from headgate.apiserver.cel import (
    ACCOUNT,
    AUTHORIZER,
    EvaluationError,
    Reads,
    authorizer_value,
    compile_program,
    deciding,
    evaluate_program,
    note_reads,
)
from headgate.apiserver.messages import Json, account_user, groups_of
from headgate.apiserver.selectors import LabelTest, object_selector
from headgate.apiserver.status import StatusError, forbidden
from headgate.apiserver.strategy import ResourceType

POLICIES, BINDINGS = f"validatingadmissionpolicies.{GROUP}", f"validatingadmissionpolicybindings.{GROUP}"
_CODES: Mapping[str, int] = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
_LONGEST_MESSAGE = 5 * 1024  # bytes a message expression may make
_NO_KEY = re.compile(r"no such key: (\w+)$").search


class PolicyExpression:
    """A compiled expression, and the variables of the policy it reads."""

    def __init__(self, text: str, names: tuple[str, ...]) -> None:
        self.text, self._program = text.strip(), compile_program(text, *names)
        reads = Reads()
        note_reads(text, {"variables": reads})
        self.variables: frozenset[str] | None = None if reads.whole else frozenset(reads.fields)  # None: all of them

    def value(self, data: Json) -> Any:
        """Its value, or EvaluationError."""
        return evaluate_program(self._program, data)


@memoized(CEL_PROGRAMS)
def compile_policy_expression(text: str, names: tuple[str, ...]) -> PolicyExpression:
    """The compiled expression over these names; it is known to compile, since it was stored."""
    return PolicyExpression(text, names)


class _Scope(Struct, frozen=True):
    """Which requests a policy or a binding is about."""

    selects_object: LabelTest | None
    selects_namespace: LabelTest | None
    rules: Sequence[Json]  # that match the class of the request; one of them must be for its name
    excluded: Sequence[Json]

    def includes(self, operation: Operation, catalog: Catalog) -> bool:
        if self.selects_namespace is not None and not namespace_matches(self.selects_namespace, operation, catalog):
            return False
        if self.selects_object is not None and not object_matches(self.selects_object, operation):
            return False
        return not _names_any(self.excluded, operation) and _names_any(self.rules, operation)


_EVERYTHING = _Scope(None, None, ({},), ())


def _names_any(rules: Sequence[Json], operation: Operation) -> bool:
    return any(not rule.get("resourceNames") or operation.name in rule["resourceNames"] for rule in rules)


def _scope(match: Json | None, operation: Operation, catalog: Catalog) -> _Scope | None:
    """The requests of this class that are included; None if no rule is about the class."""
    if match is None:
        return _EVERYTHING
    exact = match.get("matchPolicy") == "Exact"
    versions = (operation.resource.version,) if exact else catalog.versions(operation.resource)
    given, excluded = (
        [rule for rule in match.get(part) or () if _is_about(rule, operation, versions)]
        for part in ("resourceRules", "excludeResourceRules")
    )
    if match.get("resourceRules") and not given:
        return None
    selectors = (label_test(match.get("objectSelector")), label_test(match.get("namespaceSelector")))
    return _Scope(*selectors, given or ({},), excluded)


def _is_about(rule: Json, operation: Operation, versions: Sequence[str]) -> bool:
    return any(rule_matches(rule, operation, version) for version in versions)


class _Binding(Struct, frozen=True):
    name: str
    scope: _Scope
    actions: Sequence[str]
    parameters: Json | None


class _Policy(Struct, frozen=True):
    name: str
    scope: _Scope
    spec: Json
    bindings: Sequence[_Binding]

    @property
    def ignores_failure(self) -> bool:
        return self.spec.get("failurePolicy") == "Ignore"


class _Violation(Struct, frozen=True):
    """Why a policy does not let a request pass."""

    message: str
    reason: str = "Invalid"


class PolicyAdmission:
    """The admission plugin that evaluates the policies that bindings put in force."""

    configured_by = (POLICIES, BINDINGS)

    def applicable(self, operation: Operation, catalog: Catalog) -> _MatchingPolicies | None:
        if operation.resource.group == GROUP:
            return None
        by_policy: dict[str, list[_Binding]] = {}
        for value in catalog.list(BINDINGS):
            spec = value["spec"]
            scope = _scope(spec.get("matchResources"), operation, catalog)
            if scope is not None:
                bound = _Binding(value["metadata"]["name"], scope, spec["validationActions"], spec.get("paramRef"))
                by_policy.setdefault(spec["policyName"], []).append(bound)
        found = []
        for value in catalog.list(POLICIES):
            name, spec = value["metadata"]["name"], value["spec"]
            scope = _scope(spec["matchConstraints"], operation, catalog) if name in by_policy else None
            if scope is not None:
                found.append(_Policy(name, scope, spec, by_policy[name]))
        return _MatchingPolicies(found) if found else None


class _MatchingPolicies:
    """Evaluates the policies that are about one class of requests."""

    resources = None
    keeps_complete = True

    def __init__(self, policies: Sequence[_Policy]) -> None:
        self._policies = policies

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        """Changes nothing."""
        return operation.new

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        """All policies are evaluated; the first violation that denies is told."""
        denied: StatusError | None = None
        for policy in self._policies:
            if not policy.scope.includes(operation, catalog):
                continue
            if _misses_kind(policy, catalog):
                denied = denied or _unconfigured(policy, operation)
                continue
            for binding in policy.bindings:
                if binding.scope.includes(operation, catalog):
                    for violation in _violations(policy, binding, operation, catalog):
                        refusal = _act(policy, binding, violation, operation)
                        denied = denied or refusal
        if denied is not None:
            raise denied


def _misses_kind(policy: _Policy, catalog: Catalog) -> bool:
    """Whether the kind of the policy's parameters is not served."""
    kind = policy.spec.get("paramKind")
    return kind is not None and catalog.resource_of(kind["apiVersion"], kind["kind"]) is None


def _unconfigured(policy: _Policy, operation: Operation) -> StatusError | None:
    if policy.ignores_failure:
        return None
    kind = policy.spec["paramKind"]
    called = f"'{kind['apiVersion']}, Kind={kind['kind']}'"
    why = f"failed to configure policy: failed to find resource referenced by paramKind: {called}"
    return _refusal(f"ValidatingAdmissionPolicy '{policy.name}' denied request: {why}", "Invalid", operation)


def _refusal(message: str, reason: str, operation: Operation) -> StatusError:
    refusal = forbidden(operation.resource, operation.name, message)
    refusal.reason, refusal.code = reason, _CODES.get(reason, 422)
    refusal.details["causes"] = [{"message": message}]
    return refusal


def _act(policy: _Policy, binding: _Binding, violation: _Violation, operation: Operation) -> StatusError | None:
    """Warns, and returns the refusal, as the binding's actions say."""
    named = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
    if "Warn" in binding.actions:
        operation.warnings.append(f"Validation failed for {named}: {violation.message}")
    if "Deny" not in binding.actions:
        return None
    return _refusal(f"{named} denied request: {violation.message}", violation.reason, operation)


def _violations(policy: _Policy, binding: _Binding, operation: Operation, catalog: Catalog) -> Iterator[_Violation]:
    parameters = _parameters(policy, binding, operation, catalog)
    if isinstance(parameters, EvaluationError):
        if not policy.ignores_failure:
            yield _Violation(f"failed to configure binding: {parameters.why}")
        return
    for parameter in parameters:
        yield from _Evaluation(policy, operation, catalog, parameter).violations()


def _parameters(
    policy: _Policy, binding: _Binding, operation: Operation, catalog: Catalog
) -> Sequence[Json | None] | EvaluationError:
    """The parameters to evaluate with, each in turn; nothing is evaluated where there are none."""
    kind, reference = policy.spec.get("paramKind"), binding.parameters
    if kind is None or reference is None:
        return (None,)
    resource = catalog.resource_of(kind["apiVersion"], kind["kind"])
    assert resource is not None, "a policy whose parameters are not served is not evaluated"
    place = reference.get("namespace") or ""
    if place and not resource.namespaced:
        return EvaluationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    if resource.namespaced and not place:
        place = operation.namespace
        if not place:
            text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            return EvaluationError(text)
    found = _referenced(resource, place, reference, catalog)
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        return EvaluationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


def _referenced(resource: ResourceType, place: str, reference: Json, catalog: Catalog) -> list[Json]:
    called = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    if reference.get("name"):
        one = catalog.get(called, place, reference["name"])
        return [] if one is None else [one]
    selects = object_selector(reference.get("selector") or {})
    return [
        one
        for one in catalog.list(called)
        if (one["metadata"].get("namespace") or "") == place and selects(one["metadata"].get("labels") or {})
    ]


def _request_resource(operation: Operation) -> Json:
    """What a check of `authorizer.requestResource` asks for: the resource of the request."""
    resource = operation.resource
    given = {
        "group": resource.group,
        "version": resource.version,
        "resource": resource.plural,
        "subresource": operation.subresource,
        "namespace": operation.namespace,
        "name": operation.name,
    }
    return {name: part for name, part in given.items() if part}


class _Evaluation:
    """One policy, evaluated for one request with one parameter. Variables are evaluated when they are read."""

    def __init__(self, policy: _Policy, operation: Operation, catalog: Catalog, parameter: Json | None) -> None:
        spec = policy.spec
        self._policy, self._spec = policy, spec
        self._names: tuple[str, ...] = ("object", "oldObject", "request", "namespaceObject", AUTHORIZER)
        self._operation, self._catalog = operation, catalog
        namespaced = operation.resource.namespaced
        self._data: Json = {
            "object": operation.new,
            "oldObject": operation.old,
            "request": admission_request(operation),
            "namespaceObject": catalog.get("namespaces", "", operation.namespace) if namespaced else None,
            AUTHORIZER: authorizer_value(_request_resource(operation)),
        }
        if spec.get("paramKind") is not None:
            self._names, self._data = (*self._names, "params"), {**self._data, "params": parameter}
        self._variables = {each["name"]: each["expression"] for each in reversed(spec.get("variables") or ())}
        self._known: Json = {}  # values and errors of the variables that were read
        self._began: set[str] = set()

    def violations(self) -> list[_Violation]:
        with deciding(self._decide):
            return list(self._violations())

    def _decide(self, check: Json) -> tuple[bool, str]:
        """Whether the user of the request, or the service account that is asked for, may do that."""
        user, groups = self._operation.user, self._operation.user_groups
        if account := check.get(ACCOUNT):
            user = account_user(*account.split(":", 1))
            groups = groups_of(user)
        parts = ("group", "version", "namespace", "resource", "subresource", "name")
        given = () if check.get("path") else ((check.get(part) or "") for part in parts)
        decision = self._catalog.decide(user, groups, AccessAttributes(check["verb"], check.get("path") or "", *given))
        return decision.allowed, decision.reason

    def _violations(self) -> Iterator[_Violation]:
        held = all_hold(self._holds(each["expression"]) for each in self._spec.get("matchConditions") or ())
        if isinstance(held, EvaluationError):
            yield from self._failed(held.why)
        if held is not True:
            return
        for validation in self._spec.get("validations") or ():
            said = self.value(validation["expression"])
            if isinstance(said, EvaluationError):
                text = validation["expression"].strip()
                yield from self._failed(f"expression '{text}' resulted in error: {said.why}")
            elif said is not True:
                yield _Violation(self._message(validation), validation.get("reason") or "Invalid")

    def _holds(self, text: str) -> bool | EvaluationError:
        """Whether a match condition holds."""
        said = self.value(text, with_variables=False)
        if isinstance(said, bool):
            return said
        why = said.why if isinstance(said, EvaluationError) else "must evaluate to bool"
        return EvaluationError(f"expression '{text}' resulted in error: {why}")

    def _failed(self, why: str) -> Iterator[_Violation]:
        if not self._policy.ignores_failure:
            yield _Violation(why)

    def _message(self, validation: Json) -> str:
        text = validation.get("messageExpression")
        said = self.value(text) if text else None
        said = said.strip() if isinstance(said, str) else ""
        if said and "\n" not in said and len(said.encode()) <= _LONGEST_MESSAGE:
            return str(said)
        given: str = (validation.get("message") or "").strip()
        return given or f"failed expression: {validation['expression'].strip()}"

    def value(self, text: str, *, with_variables: bool = True) -> Any:
        """The value of an expression, or EvaluationError."""
        if not (with_variables and self._variables):
            return compile_policy_expression(text, self._names).value(self._data)
        expression = compile_policy_expression(text, (*self._names, "variables"))
        read = self._variables if expression.variables is None else expression.variables & self._variables.keys()
        values = {name: self._variable(name) for name in sorted(read)}
        good = {name: value for name, value in values.items() if not isinstance(value, EvaluationError)}
        said = expression.value({**self._data, "variables": good})
        missing = _NO_KEY(said.why) if isinstance(said, EvaluationError) else None
        cause = values.get(missing[1]) if missing else None
        if missing is None or not isinstance(cause, EvaluationError):
            return said
        return EvaluationError(f'composited variable "{missing[1]}" fails to evaluate: {cause.why}')

    def _variable(self, name: str) -> Any:
        if name not in self._known:
            if name in self._began:
                return EvaluationError(f"no such key: {name}")
            self._began.add(name)
            self._known[name] = self.value(self._variables[name])
        return self._known[name]
