"""Admission webhooks, called in process: which of them a write concerns, and what they may do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from headgate.apiserver.admission import Catalog, Operation
from headgate.apiserver.cel import EvaluationError
from headgate.apiserver.match_conditions import Condition, all_hold, compile_condition, left_open
from headgate.apiserver.messages import Json
from headgate.apiserver.selectors import LabelTest, object_selector
from headgate.apiserver.status import ApiError, forbidden


class Allowed(Struct, frozen=True):
    """It may be stored; by a mutating webhook, once it has become `changed`, which shares what it can with it."""

    changed: Json | None = None


class Denied(Struct, frozen=True):
    """It may not; a code below 400 would look like success and counts as 400."""

    message: str = ""
    reason: str = ""
    code: int = 400


Handler = Callable[[Operation], Allowed | Denied]
"""Answers for one webhook; may raise Unreachable."""

_GROUP = "admissionregistration.k8s.io"
_MUTATING = f"mutatingwebhookconfigurations.{_GROUP}"
_VALIDATING = f"validatingwebhookconfigurations.{_GROUP}"


class Unreachable(Exception):
    """The webhook could not be asked; its failurePolicy decides."""


class _Hook(Struct, frozen=True):
    """A webhook ready to be asked."""

    name: str
    handler: Handler
    ignores_failure: bool
    selects_object: LabelTest | None  # None: everything
    selects_namespace: LabelTest | None
    conditions: Sequence[Condition]


class _Asked:
    """Calls the webhooks that writes of one sort may concern."""

    resources = None
    keeps_complete = False

    def __init__(self, mutating: Sequence[_Hook], validating: Sequence[_Hook]) -> None:
        self._mutating, self._validating = mutating, validating

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        """Whether a webhook is concerned is asked about what those before it have made."""
        for hook in self._mutating:
            changed = _ask(hook, operation).changed if _concerned(hook, operation, catalog) else None
            if changed is not None and operation.new is not None:
                operation = structs.replace(operation, new=changed)
        return operation.new

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        """Who is concerned is known before anyone is asked."""
        for hook in [hook for hook in self._validating if _concerned(hook, operation, catalog)]:
            _ask(hook, operation)


class WebhookAdmission:
    """Finds the handlers of the configured webhooks. Without configurations there are none."""

    configured_by = (_MUTATING, _VALIDATING)

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers

    def concerned(self, operation: Operation, catalog: Catalog) -> _Asked | None:
        mutating, validating = (self._fitting(catalog.list(each), operation) for each in self.configured_by)
        return _Asked(mutating, validating) if mutating or validating else None

    def _fitting(self, configurations: Sequence[Json], operation: Operation) -> Sequence[_Hook]:
        """Those whose rules fit, by configuration name and then in their order. Conditions that can be told from the
        user and the sort of write hold.
        """
        if operation.resource.group == _GROUP:
            return ()
        webhooks = [webhook for one in configurations for webhook in one.get("webhooks") or ()]
        found = [
            _hook(webhook, self._handlers, operation)
            for webhook in webhooks
            if any(_rule_fits(rule, operation) for rule in webhook.get("rules") or ())
        ]
        return [hook for hook in found if hook is not None]


def _ask(hook: _Hook, operation: Operation) -> Allowed:
    """What the webhook allows, nothing to change when it failed and may be ignored; a refusal is raised."""
    try:
        answer = hook.handler(operation)
    except Unreachable as trouble:
        if hook.ignores_failure:
            return Allowed()
        raise _failed(hook, f"failed to call webhook: {trouble}") from None
    if isinstance(answer, Allowed):
        return answer
    raise _denial(hook, answer)


def _nobody(_operation: Operation) -> Allowed:
    raise Unreachable("no handler is registered for it")


def _hook(webhook: Json, handlers: Mapping[str, Handler], operation: Operation) -> _Hook | None:
    """For writes of this user and this sort; None if its conditions exclude them all. Selectors that are not given
    select everything.
    """
    given = [compile_condition(each["expression"]) for each in webhook.get("matchConditions") or ()]
    conditions = left_open(given, operation)
    if conditions is None:
        return None
    name = webhook.get("name") or ""
    return _Hook(
        name=name,
        handler=handlers.get(name, _nobody),
        ignores_failure=webhook.get("failurePolicy") == "Ignore",
        selects_object=_label_test(webhook.get("objectSelector")),
        selects_namespace=_label_test(webhook.get("namespaceSelector")),
        conditions=conditions,
    )


def _label_test(selector: Json | None) -> LabelTest | None:
    return object_selector(selector) if selector else None


def _concerned(hook: _Hook, operation: Operation, catalog: Catalog) -> bool:
    of_object, of_namespace = hook.selects_object, hook.selects_namespace
    if of_object is not None and not _object_fits(of_object, operation):
        return False
    if of_namespace is not None and not _namespace_fits(of_namespace, operation, catalog):
        return False
    return not hook.conditions or _conditions_hold(hook, operation)


def _conditions_hold(hook: _Hook, operation: Operation) -> bool:
    """Where they fail, the webhook is not asked: either that does not matter or the write is refused."""
    held = all_hold(hook.conditions, operation)
    if not isinstance(held, EvaluationError):
        return held
    if hook.ignores_failure:
        return False
    raise forbidden(operation.resource, operation.name, held.why)


def _object_fits(selects: LabelTest, operation: Operation) -> bool:
    """As it is to be or as it was."""
    new, old = operation.new, operation.old
    return (new is not None and selects(_labels(new))) or (old is not None and selects(_labels(old)))


def _rule_fits(rule: Json, operation: Operation) -> bool:
    resource = operation.resource
    return (
        _names(rule.get("operations"), operation.verb)
        and _names(rule.get("apiGroups"), resource.group)
        and _names(rule.get("apiVersions") or ["*"], resource.version)
        and _scope_fits(rule.get("scope") or "*", resource.namespaced)
        and any(_resource_fits(name, operation) for name in rule.get("resources") or ())
    )


def _names(names: Any, wanted: str) -> bool:
    return bool(names) and ("*" in names or wanted in names)


def _scope_fits(scope: str, namespaced: bool) -> bool:
    return scope == "*" or (scope == "Namespaced") == namespaced


def _resource_fits(name: str, operation: Operation) -> bool:
    """`pods` is the resource alone, `pods/status` that subresource, `pods/*` both, `*/*` everything."""
    plural, _, subresource = name.partition("/")
    return plural in ("*", operation.resource.plural) and subresource in ("*", operation.subresource)


def _labels(value: Json) -> Mapping[str, str]:
    return (value.get("metadata") or {}).get("labels") or {}


def _namespace_fits(selects: LabelTest, operation: Operation, catalog: Catalog) -> bool:
    """Cluster-wide objects are not excluded by namespaces; a namespace speaks for itself."""
    if operation.resource.namespaced:
        namespace = catalog.get("namespaces", "", operation.namespace)
        return selects({} if namespace is None else _labels(namespace))
    if (operation.resource.group, operation.resource.plural) != ("", "namespaces"):
        return True
    return selects(_labels(operation.new or operation.old or {}))


def _failed(hook: _Hook, why: str) -> ApiError:
    message = f'Internal error occurred: failed calling webhook "{hook.name}": {why}'
    return ApiError(500, "InternalError", message)


def _denial(hook: _Hook, denied: Denied) -> ApiError:
    """The webhook's own code and reason."""
    said = denied.message or denied.reason
    text = f'admission webhook "{hook.name}" denied the request' + (f": {said}" if said else " without explanation")
    return ApiError(max(400, denied.code), denied.reason, text)
