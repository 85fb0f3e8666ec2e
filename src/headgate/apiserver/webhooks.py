"""Admission webhooks, called in process: which of them a write concerns, and what they may do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, structs

from headgate.apiserver.errors import ApiError
from headgate.apiserver.messages import Json
from headgate.apiserver.rules import Catalog, Operation
from headgate.apiserver.selectors import LabelTest, object_selector


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
    rules: tuple[Json, ...]
    ignores_failure: bool
    selects_object: LabelTest | None  # None: everything
    selects_namespace: LabelTest | None


class _Ruled(NamedTuple):
    """The webhooks whose rules fit one sort of operation, by all configurations there are: asked for often."""

    configurations: Sequence[Json]
    hooks: tuple[_Hook, ...]


class WebhookAdmission:
    """Calls the handlers of the configured webhooks. Without configurations it does nothing."""

    resources = None
    keeps_complete = False

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._known: dict[tuple[str, ...], _Ruled] = {}

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        for hook in self._concerned(_MUTATING, operation, catalog):
            changed = self._ask(hook, operation).changed
            if changed is not None and operation.new is not None:
                operation = structs.replace(operation, new=changed)
        return operation.new

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        for hook in self._concerned(_VALIDATING, operation, catalog):
            self._ask(hook, operation)

    def _concerned(self, resource: str, operation: Operation, catalog: Catalog) -> Iterator[_Hook]:
        """The hooks whose rules and selectors fit, by configuration name and then in their order."""
        for hook in self._ruled(resource, operation, catalog):
            if _selected(hook, operation, catalog):
                yield hook

    def _ruled(self, resource: str, operation: Operation, catalog: Catalog) -> tuple[_Hook, ...]:
        configurations, of = catalog.list(resource), operation.resource
        if not configurations or of.group == _GROUP:
            return ()
        sort = (resource, operation.verb, of.group, of.version, of.plural, operation.subresource)
        known = self._known.get(sort)
        if known is None or known.configurations is not configurations:
            webhooks = [webhook for one in configurations for webhook in one.get("webhooks") or ()]
            fitting = [hook for hook in map(_hook, webhooks) if any(_rule_fits(rule, operation) for rule in hook.rules)]
            known = self._known[sort] = _Ruled(configurations, tuple(fitting))
        return known.hooks

    def _ask(self, hook: _Hook, operation: Operation) -> Allowed:
        """What the webhook allows, nothing to change when it failed and may be ignored; a refusal is raised."""
        try:
            answer = self._handler(hook)(operation)
        except Unreachable as trouble:
            if hook.ignores_failure:
                return Allowed()
            raise _failed(hook, f"failed to call webhook: {trouble}") from None
        if isinstance(answer, Denied):
            raise _denial(hook, answer)
        return answer

    def _handler(self, hook: _Hook) -> Handler:
        handler = self._handlers.get(hook.name)
        if handler is None:
            raise Unreachable("no handler is registered for it")
        return handler


def _hook(webhook: Json) -> _Hook:
    """Selectors that are not given select everything."""
    return _Hook(
        name=webhook.get("name") or "",
        rules=tuple(webhook.get("rules") or ()),
        ignores_failure=webhook.get("failurePolicy") == "Ignore",
        selects_object=_label_test(webhook.get("objectSelector")),
        selects_namespace=_label_test(webhook.get("namespaceSelector")),
    )


def _label_test(selector: Json | None) -> LabelTest | None:
    return object_selector(selector) if selector else None


def _selected(hook: _Hook, operation: Operation, catalog: Catalog) -> bool:
    return _object_fits(hook.selects_object, operation) and _namespace_fits(hook.selects_namespace, operation, catalog)


def _object_fits(selects: LabelTest | None, operation: Operation) -> bool:
    """As it is to be or as it was."""
    if selects is None:
        return True
    return any(selects(_labels(value)) for value in (operation.new, operation.old) if value is not None)


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


def _namespace_fits(selects: LabelTest | None, operation: Operation, catalog: Catalog) -> bool:
    """Cluster-wide objects are not excluded by namespaces; a namespace speaks for itself."""
    if selects is None:
        return True
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
