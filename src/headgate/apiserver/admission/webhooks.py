"""Admission webhooks: which configured webhooks a write matches, and what their answers do.

A webhook that has a handler is called in process, any other over HTTPS (`remote`) where somebody makes such calls.
`matchConditions` are CEL expressions over `request`, `object` and `oldObject`; there is no `authorizer`, and the
request has no `options`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from headgate.apiserver.admission.chain import Catalog, Operation
from headgate.apiserver.admission.remote import RemoteWebhook, denial, internal_error, patched
from headgate.apiserver.caches import CEL_PROGRAMS, memoized
from headgate.apiserver.cel import (
    CompilationError,
    EvaluationError,
    Reads,
    compile_program,
    evaluate_program,
    note_reads,
)
from headgate.apiserver.messages import Json, user_info
from headgate.apiserver.selectors import LabelTest, object_selector
from headgate.apiserver.status import ApiError, forbidden
from headgate.apiserver.webhook_calls import CallFailed, WebhookAnswer, WebhookCall, WebhookVerdict


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
WEBHOOK_CONFIGURATIONS = ((GROUP, "mutatingwebhookconfigurations"), (GROUP, "validatingwebhookconfigurations"))
_MUTATING, _VALIDATING = (f"{plural}.{group}" for group, plural in WEBHOOK_CONFIGURATIONS)


class Unreachable(Exception):
    """The webhook could not be called; its failurePolicy applies."""


class _ConfiguredWebhook(Struct, frozen=True):
    """A configured webhook: how it is called, its selectors and the match conditions still to be evaluated."""

    key: str  # of no other webhook
    name: str
    handler: Handler | None  # None: it is called over HTTPS
    remote: RemoteWebhook
    version: str  # of the resource, that its rule is for
    ignores_failure: bool
    if_needed: bool  # it may be called again
    selects_object: LabelTest | None  # None: everything
    selects_namespace: LabelTest | None
    conditions: Sequence[MatchCondition]


class _MatchingWebhooks:
    """Calls the webhooks whose rules match one class of requests."""

    resources = None
    keeps_complete = False

    def __init__(self, mutating: Sequence[_ConfiguredWebhook], validating: Sequence[_ConfiguredWebhook]) -> None:
        self._mutating, self._validating = mutating, validating
        self._calls_remote = any(hook.handler is None for hook in validating)

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        """Each webhook is matched against the object as the webhooks before it have changed it."""
        rounds = operation.reinvocation
        if rounds is not None:
            rounds.begin(operation.new)
        for hook in self._mutating:
            if not _matches(hook, operation, catalog) or not (rounds is None or rounds.includes(hook.key)):
                continue
            if hook.handler is not None:
                changed = _call(hook, hook.handler, operation).changed
                if changed is not None and rounds is not None:
                    rounds.changed_in_process()
            else:
                changed = _mutated(hook, operation, catalog)
                if rounds is not None:
                    rounds.called(hook.key, changed=changed is not None, if_needed=hook.if_needed)
            if changed is not None and operation.new is not None:
                operation = structs.replace(operation, new=changed)
        if rounds is not None:
            rounds.end(operation.new)
        return operation.new

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        """All webhooks are matched before the first is called; those over HTTPS are called at the same time."""
        matching = [hook for hook in self._validating if _matches(hook, operation, catalog)]
        remote = [hook for hook in matching if hook.handler is None] if self._calls_remote else []
        answers = iter(_answers(remote, operation, catalog)) if remote else iter(())
        for hook in matching:
            if hook.handler is not None:
                _call(hook, hook.handler, operation)
            else:
                _allowed(hook, next(answers), operation)


class WebhookAdmission:
    """The admission plugin that calls configured webhooks: in process where there is a handler for the name."""

    configured_by = (_MUTATING, _VALIDATING)

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers

    def applicable(self, operation: Operation, catalog: Catalog) -> _MatchingWebhooks | None:
        mutating, validating = (self._matching(each, operation, catalog) for each in self.configured_by)
        return _MatchingWebhooks(mutating, validating) if mutating or validating else None

    def _matching(self, resource: str, operation: Operation, catalog: Catalog) -> Sequence[_ConfiguredWebhook]:
        """The webhooks whose rules match, by configuration name and then in their order, without those excluded by a
        match condition that depends on the class of the request only.
        """
        if operation.resource.group == GROUP:
            return ()
        found = []
        others = [version for version in catalog.versions(operation.resource) if version != operation.resource.version]
        for configuration in catalog.list(resource):
            for index, webhook in enumerate(configuration.get("webhooks") or ()):
                version = _version_of(webhook, operation, others)
                conditions = None if version is None else _undecided(_conditions(webhook), operation)
                if version is not None and conditions is not None:
                    key = f"{configuration['metadata']['name']}/{index}"
                    mutating = resource == _MUTATING
                    found.append(self._configured(webhook, key, version, conditions, mutating=mutating))
        return found

    def _configured(
        self, webhook: Json, key: str, version: str, conditions: Sequence[MatchCondition], *, mutating: bool
    ) -> _ConfiguredWebhook:
        """An absent selector selects everything."""
        name = webhook.get("name") or ""
        return _ConfiguredWebhook(
            key=key,
            name=name,
            handler=self._handlers.get(name),
            remote=RemoteWebhook(webhook, mutating=mutating),
            version=version,
            ignores_failure=webhook.get("failurePolicy") == "Ignore",
            if_needed=webhook.get("reinvocationPolicy") == "IfNeeded",
            selects_object=label_test(webhook.get("objectSelector")),
            selects_namespace=label_test(webhook.get("namespaceSelector")),
            conditions=conditions,
        )


def _version_of(webhook: Json, operation: Operation, others: Sequence[str]) -> str | None:
    """The version of the resource that a rule of the webhook is for: that of the request, or with the matchPolicy
    Equivalent one of the others; None if no rule matches.
    """
    rules = webhook.get("rules") or ()
    if any(rule_matches(rule, operation) for rule in rules):
        return operation.resource.version
    if webhook.get("matchPolicy") == "Exact":
        return None
    return next((version for rule in rules for version in others if rule_matches(rule, operation, version)), None)


def _call(hook: _ConfiguredWebhook, handler: Handler, operation: Operation) -> Allowed:
    """The handler's answer; an empty one if it is unreachable and may be ignored. Raises ApiError for a denial."""
    try:
        answer = handler(operation)
    except Unreachable as error:
        _fail(hook, f"failed to call webhook: {error}")
        return Allowed()
    if isinstance(answer, Allowed):
        return answer
    raise _denial(hook, answer)


def _answers(hooks: Sequence[_ConfiguredWebhook], operation: Operation, catalog: Catalog) -> list[WebhookAnswer]:
    """What webhooks over HTTPS have answered; raises CallsNeeded for those that were not called yet."""
    if operation.answers is None:
        return [_NOT_CALLED] * len(hooks)
    requests = [admission_request(operation, hook.version) for hook in hooks]
    calls = [hook.remote.call(operation, asked, catalog) for hook, asked in zip(hooks, requests, strict=True)]
    said = iter(operation.answers.to([call for call in calls if isinstance(call, WebhookCall)]))
    return [next(said) if isinstance(call, WebhookCall) else call for call in calls]


_NOT_CALLED = CallFailed("failed to call webhook: no handler is registered for it")


def _mutated(hook: _ConfiguredWebhook, operation: Operation, catalog: Catalog) -> Json | None:
    """The object as the webhook has changed it; None if it has not."""
    [answer] = _answers([hook], operation, catalog)
    if not _allowed(hook, answer, operation) or not isinstance(answer, WebhookVerdict):
        return None
    changed = patched(hook.name, answer, operation)
    if isinstance(changed, CallFailed):
        _fail(hook, changed.why)
        return None
    return changed


def _allowed(hook: _ConfiguredWebhook, answer: WebhookAnswer, operation: Operation) -> bool:
    """Whether the webhook has answered; not so if it could not be called and may be ignored. Raises ApiError for a
    denial.
    """
    if isinstance(answer, CallFailed):
        _fail(hook, answer.why)
        return False
    operation.warnings.extend(answer.warnings)
    if not answer.allowed:
        raise denial(hook.name, answer)
    return True


def _fail(hook: _ConfiguredWebhook, why: str) -> None:
    """Refuses the write, unless failures are to be ignored."""
    if not hook.ignores_failure:
        raise internal_error(f'failed calling webhook "{hook.name}": {why}')


def _conditions(webhook: Json) -> list[MatchCondition]:
    return [compile_condition(each["expression"]) for each in webhook.get("matchConditions") or ()]


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


def rule_matches(rule: Json, operation: Operation, version: str = "") -> bool:
    """Whether a rule is about the class of a request: verb, resource, in that version or its own, and subresource."""
    resource = operation.resource
    return (
        _includes(rule.get("operations"), operation.verb)
        and _includes(rule.get("apiGroups"), resource.group)
        and _includes(rule.get("apiVersions") or ["*"], version or resource.version)
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


def admission_request(operation: Operation, version: str = "") -> Json:
    """The `request` variable: an AdmissionRequest without its empty fields, for a rule about that version."""
    of, subresource = operation.resource, operation.subresource
    kind = _kind_of(operation)
    resource = {"group": of.group, "version": of.version, "resource": of.plural}
    others = {} if version in ("", of.version) else {"version": version}
    is_namespace = (of.group, of.plural) == ("", "namespaces")
    given = {
        "subResource": subresource,
        "requestSubResource": subresource,
        "name": operation.name,
        "namespace": operation.name if is_namespace else operation.namespace,
    }
    return {
        "uid": "",
        "kind": {**kind, **others},
        "resource": {**resource, **others},
        "requestKind": kind,
        "requestResource": resource,
        **{name: value for name, value in given.items() if value},
        "operation": operation.verb,
        "userInfo": user_info(operation.user, operation.groups, operation.details),
        "dryRun": operation.dry_run,
    }


def _kind_of(operation: Operation) -> Json:
    """The kind of the object: that of the resource, or of what is created for a subresource."""
    of, new = operation.resource, operation.new
    if operation.subresource in ("", "status") or new is None or new.get("kind") in (None, of.kind):
        return {"group": of.group, "version": of.version, "kind": of.kind}
    group, _, version = str(new.get("apiVersion")).rpartition("/")
    return {"group": group, "version": version, "kind": new["kind"]}
