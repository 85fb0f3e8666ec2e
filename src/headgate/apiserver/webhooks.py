"""Admission webhooks, called in process: which of them a write concerns, what they are told, what they may do."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from headgate.apiserver.errors import ApiError
from headgate.apiserver.json_patch import PatchFailed, apply_json_patch, decode_json_patch
from headgate.apiserver.messages import Json
from headgate.apiserver.rules import Catalog, Operation
from headgate.apiserver.selectors import LabelTest, object_selector

Handler = Callable[[str, Json], Json]
"""Answers an AdmissionReview for the webhook of this name; may raise Unreachable."""

_GROUP = "admissionregistration.k8s.io"
_MUTATING = f"mutatingwebhookconfigurations.{_GROUP}"
_VALIDATING = f"validatingwebhookconfigurations.{_GROUP}"


class Unreachable(Exception):
    """The webhook could not be asked, or its answer makes no sense; its failurePolicy decides."""


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

    keeps_complete = False

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._known: dict[tuple[str, ...], _Ruled] = {}
        self._calls = 0

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        new = operation.new
        for hook in self._concerned(_MUTATING, operation, catalog):
            response = self._ask(hook, _with(operation, new))
            if response is not None and new is not None:
                new = _patched(hook, response, new)
        return new

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

    def _ask(self, hook: _Hook, operation: Operation) -> Json | None:
        """What the webhook allows, None when it failed and may be ignored; a refusal is raised."""
        try:
            response = self._call(hook, operation)
        except Unreachable as trouble:
            if hook.ignores_failure:
                return None
            raise _failed(hook, f"failed to call webhook: {trouble}") from None
        if not response.get("allowed"):
            raise _denial(hook, response.get("status") or {})
        return response

    def _call(self, hook: _Hook, operation: Operation) -> Json:
        handler = self._handlers.get(hook.name)
        if handler is None:
            raise Unreachable("no handler is registered for it")
        self._calls += 1
        uid = f"00000000-0000-4000-8000-{self._calls:012x}"
        response = handler(hook.name, _review(uid, operation)).get("response")
        if not isinstance(response, dict):
            raise Unreachable("webhook response was absent")
        if response.get("uid") != uid:
            raise Unreachable(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
        return response


def _with(operation: Operation, new: Json | None) -> Operation:
    return Operation(
        operation.verb,
        operation.resource,
        operation.subresource,
        operation.namespace,
        operation.name,
        new,
        operation.old,
        operation.user,
    )


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


def _review(uid: str, operation: Operation) -> Json:
    resource = operation.resource
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    place = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    request: Json = {
        "uid": uid,
        "kind": kind,
        "resource": place,
        "requestKind": kind,
        "requestResource": place,
        "name": operation.name,
        "operation": operation.verb,
        "userInfo": {"username": operation.user},
        "object": operation.new,
        "oldObject": operation.old,
        "dryRun": False,
    }
    if operation.namespace:
        request["namespace"] = operation.namespace
    if operation.subresource:
        request["subResource"] = request["requestSubResource"] = operation.subresource
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def _patched(hook: _Hook, response: Json, new: Json) -> Json:
    if not response.get("patch"):
        return new
    if response.get("patchType") != "JSONPatch":
        raise _failed(hook, "received invalid webhook response: webhook returned response.patch but not patchType")
    try:
        steps = decode_json_patch(base64.b64decode(response["patch"], validate=True))
        patched: Json = apply_json_patch(new, steps)
    except (binascii.Error, ApiError, PatchFailed) as trouble:
        raise _failed(hook, f"received invalid webhook response: {trouble}") from None
    return patched


def _failed(hook: _Hook, why: str) -> ApiError:
    message = f'Internal error occurred: failed calling webhook "{hook.name}": {why}'
    return ApiError(500, "InternalError", message)


def _denial(hook: _Hook, status: Json) -> ApiError:
    """The webhook's own code and reason; never a code that would look like success."""
    said = status.get("message") or status.get("reason")
    text = f'admission webhook "{hook.name}" denied the request' + (f": {said}" if said else " without explanation")
    return ApiError(max(400, status.get("code") or 0), status.get("reason") or "", text)
