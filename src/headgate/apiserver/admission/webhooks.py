"""Admission webhooks, called in process: which configured webhooks a write matches, and what their answers do.

`matchConditions` are CEL expressions over `request`, `object` and `oldObject`; there is no `authorizer`, and the
request has no `options`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from headgate.apiserver.admission.chain import Catalog, Operation
from headgate.apiserver.caches import CEL_PROGRAMS, memoized
from headgate.apiserver.cel import (
    CompilationError,
    EvaluationError,
    Reads,
    compile_program,
    evaluate_program,
    note_reads,
)
from headgate.apiserver.messages import Json
from headgate.apiserver.selectors import LabelTest, object_selector
from headgate.apiserver.status import ApiError, forbidden
from headgate.apiserver.users import user_info


class Allowed(Struct, frozen=True):
    """The write is allowed. A mutating webhook may return the object it `changed`, which shares unchanged parts with
    it.
    """

    changed: Json | None = None


class Denied(Struct, frozen=True):
    """The write is denied. A code below 400 would look like success and is raised to 400."""

    message: str = ""
    reason: str = ""
    code: int = 400


Handler = Callable[[Operation], Allowed | Denied]
"""The implementation of one webhook; may raise Unreachable."""

GROUP = "admissionregistration.k8s.io"
_MUTATING = f"mutatingwebhookconfigurations.{GROUP}"
_VALIDATING = f"validatingwebhookconfigurations.{GROUP}"


class Unreachable(Exception):
    """The webhook could not be called; its failurePolicy applies."""


class _ConfiguredWebhook(Struct, frozen=True):
    """A configured webhook with its handler, selectors and the match conditions still to be evaluated."""

    name: str
    handler: Handler
    ignores_failure: bool
    selects_object: LabelTest | None  # None: everything
    selects_namespace: LabelTest | None
    conditions: Sequence[MatchCondition]


class _MatchingWebhooks:
    """Calls the webhooks whose rules match one class of requests."""

    resources = None
    keeps_complete = False

    def __init__(self, mutating: Sequence[_ConfiguredWebhook], validating: Sequence[_ConfiguredWebhook]) -> None:
        self._mutating, self._validating = mutating, validating

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        """Each webhook is matched against the object as the webhooks before it have changed it."""
        for hook in self._mutating:
            changed = _call(hook, operation).changed if _matches(hook, operation, catalog) else None
            if changed is not None and operation.new is not None:
                operation = structs.replace(operation, new=changed)
        return operation.new

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        """All webhooks are matched before the first is called."""
        for hook in [hook for hook in self._validating if _matches(hook, operation, catalog)]:
            _call(hook, operation)


class WebhookAdmission:
    """The admission plugin that calls configured webhooks through in-process handlers."""

    configured_by = (_MUTATING, _VALIDATING)

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers

    def applicable(self, operation: Operation, catalog: Catalog) -> _MatchingWebhooks | None:
        mutating, validating = (self._matching(catalog.list(each), operation) for each in self.configured_by)
        return _MatchingWebhooks(mutating, validating) if mutating or validating else None

    def _matching(self, configurations: Sequence[Json], operation: Operation) -> Sequence[_ConfiguredWebhook]:
        """The webhooks whose rules match, by configuration name and then in their order, without those excluded by a
        match condition that depends on the class of the request only.
        """
        if operation.resource.group == GROUP:
            return ()
        webhooks = [webhook for one in configurations for webhook in one.get("webhooks") or ()]
        found = [
            _webhook(webhook, self._handlers, operation)
            for webhook in webhooks
            if any(rule_matches(rule, operation) for rule in webhook.get("rules") or ())
        ]
        return [hook for hook in found if hook is not None]


def _call(hook: _ConfiguredWebhook, operation: Operation) -> Allowed:
    """The webhook's answer; an empty one if it is unreachable and may be ignored. Raises ApiError for a denial."""
    try:
        answer = hook.handler(operation)
    except Unreachable as error:
        if hook.ignores_failure:
            return Allowed()
        raise _call_failure(hook, f"failed to call webhook: {error}") from None
    if isinstance(answer, Allowed):
        return answer
    raise _denial(hook, answer)


def _no_handler(_operation: Operation) -> Allowed:
    raise Unreachable("no handler is registered for it")


def _webhook(webhook: Json, handlers: Mapping[str, Handler], operation: Operation) -> _ConfiguredWebhook | None:
    """The webhook for requests of this class; None if its match conditions exclude all of them. An absent selector
    selects everything.
    """
    given = [compile_condition(each["expression"]) for each in webhook.get("matchConditions") or ()]
    conditions = _undecided(given, operation)
    if conditions is None:
        return None
    name = webhook.get("name") or ""
    return _ConfiguredWebhook(
        name=name,
        handler=handlers.get(name, _no_handler),
        ignores_failure=webhook.get("failurePolicy") == "Ignore",
        selects_object=label_test(webhook.get("objectSelector")),
        selects_namespace=label_test(webhook.get("namespaceSelector")),
        conditions=conditions,
    )


def label_test(selector: Json | None) -> LabelTest | None:
    """None for a selector that selects everything."""
    return object_selector(selector) if selector else None


def _matches(hook: _ConfiguredWebhook, operation: Operation, catalog: Catalog) -> bool:
    of_object, of_namespace = hook.selects_object, hook.selects_namespace
    if of_object is not None and not object_matches(of_object, operation):
        return False
    if of_namespace is not None and not namespace_matches(of_namespace, operation, catalog):
        return False
    return not hook.conditions or _conditions_hold(hook, operation)


def _conditions_hold(hook: _ConfiguredWebhook, operation: Operation) -> bool:
    """Whether all match conditions hold. If one fails to evaluate, failurePolicy decides: no match, or the write is
    refused.
    """
    held = all_hold(condition.holds(operation) for condition in hook.conditions)
    if not isinstance(held, EvaluationError):
        return held
    if hook.ignores_failure:
        return False
    raise forbidden(operation.resource, operation.name, held.why)


def object_matches(selects: LabelTest, operation: Operation) -> bool:
    """Whether the selector matches the new object or the old one."""
    new, old = operation.new, operation.old
    return (new is not None and selects(_labels(new))) or (old is not None and selects(_labels(old)))


def rule_matches(rule: Json, operation: Operation) -> bool:
    """Whether a rule is about the class of a request: verb, resource and subresource."""
    resource = operation.resource
    return (
        _includes(rule.get("operations"), operation.verb)
        and _includes(rule.get("apiGroups"), resource.group)
        and _includes(rule.get("apiVersions") or ["*"], resource.version)
        and _scope_matches(rule.get("scope") or "*", resource.namespaced)
        and any(_resource_matches(name, operation) for name in rule.get("resources") or ())
    )


def _includes(names: Any, wanted: str) -> bool:
    return bool(names) and ("*" in names or wanted in names)


def _scope_matches(scope: str, namespaced: bool) -> bool:
    return scope == "*" or (scope == "Namespaced") == namespaced


def _resource_matches(name: str, operation: Operation) -> bool:
    """`pods` is the resource alone, `pods/status` that subresource, `pods/*` both, `*/*` everything."""
    plural, _, subresource = name.partition("/")
    return plural in ("*", operation.resource.plural) and subresource in ("*", operation.subresource)


def _labels(value: Json) -> Mapping[str, str]:
    return (value.get("metadata") or {}).get("labels") or {}


def namespace_matches(selects: LabelTest, operation: Operation, catalog: Catalog) -> bool:
    """Whether the namespace's labels match; other cluster-wide objects always do, and a namespace by its own labels."""
    if operation.resource.namespaced:
        namespace = catalog.get("namespaces", "", operation.namespace)
        return selects({} if namespace is None else _labels(namespace))
    if (operation.resource.group, operation.resource.plural) != ("", "namespaces"):
        return True
    return selects(_labels(operation.new or operation.old or {}))


def _call_failure(hook: _ConfiguredWebhook, why: str) -> ApiError:
    message = f'Internal error occurred: failed calling webhook "{hook.name}": {why}'
    return ApiError(500, "InternalError", message)


def _denial(hook: _ConfiguredWebhook, denied: Denied) -> ApiError:
    """The error for a denied write, with the webhook's code and reason."""
    said = denied.message or denied.reason
    text = f'admission webhook "{hook.name}" denied the request' + (f": {said}" if said else " without explanation")
    return ApiError(max(400, denied.code), denied.reason, text)


_CLASS_FIELDS = frozenset(
    {
        *("kind", "operation", "resource", "subResource", "userInfo"),
        *("requestKind", "requestResource", "requestSubResource"),
    }
)
"""Request fields that are equal for all requests of one class: one user, verb, resource and subresource."""


class MatchCondition:
    """One match condition. `of_class`: its result depends on the class of the request only."""

    def __init__(self, text: str) -> None:
        self._text, self.of_class = text, False
        self._program: Any = None
        try:
            self._program = compile_program(text, "request", "object", "oldObject")
        except CompilationError as problem:
            self._broken = EvaluationError(f"compilation error: compilation failed: {problem}")
        else:
            self.of_class = _reads_class_only(text)

    def holds(self, operation: Operation) -> bool | EvaluationError:
        if self._program is None:
            return self._broken
        data = {"request": admission_request(operation), "object": operation.new, "oldObject": operation.old}
        said = evaluate_program(self._program, data)
        if isinstance(said, bool):
            return said
        why = said.why if isinstance(said, EvaluationError) else "must evaluate to bool"
        return EvaluationError(f"expression '{self._text}' resulted in error: {why}")


@memoized(CEL_PROGRAMS)
def compile_condition(text: str) -> MatchCondition:
    """The compiled condition; one that does not compile fails at every evaluation."""
    return MatchCondition(text)


def _undecided(conditions: Sequence[MatchCondition], operation: Operation) -> tuple[MatchCondition, ...] | None:
    """The conditions to be evaluated for each request of this class; None if one of the others is false."""
    said = [(each, each.holds(operation) if each.of_class else None) for each in conditions]
    if any(held is False for _, held in said):
        return None
    return tuple(each for each, held in said if held is not True)


def all_hold(results: Iterable[bool | EvaluationError]) -> bool | EvaluationError:
    """Whether all conditions hold; a false one takes precedence over those that fail to evaluate."""
    failed: list[str] = []
    for said in results:
        if said is False:
            return False
        if isinstance(said, EvaluationError) and said.why not in failed:
            failed.append(said.why)
    if not failed:
        return True
    return EvaluationError(failed[0] if len(failed) == 1 else f"[{', '.join(failed)}]")


def _reads_class_only(text: str) -> bool:
    request, new, old = Reads(), Reads(), Reads()
    note_reads(text, {"request": request, "object": new, "oldObject": old})
    wider = request.whole or request.size or request.items
    return new.nothing and old.nothing and not wider and _CLASS_FIELDS.issuperset(request.fields)


def admission_request(operation: Operation) -> Json:
    """The `request` variable: an AdmissionRequest without its empty fields."""
    of, subresource = operation.resource, operation.subresource
    kind = {"group": of.group, "version": of.version, "kind": of.kind}
    resource = {"group": of.group, "version": of.version, "resource": of.plural}
    is_namespace = (of.group, of.plural) == ("", "namespaces")
    given = {
        "subResource": subresource,
        "requestSubResource": subresource,
        "name": operation.name,
        "namespace": operation.name if is_namespace else operation.namespace,
    }
    return {
        "uid": "",
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        **{name: value for name, value in given.items() if value},
        "operation": operation.verb,
        "userInfo": user_info(operation.user, operation.groups),
        "dryRun": operation.dry_run,
    }
