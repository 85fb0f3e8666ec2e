"""Webhook configurations: their defaults, and what is wrong with them.

An expression is compiled when it is written; there is no `authorizer` in those of webhooks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from headgate.apiserver.field_errors import FieldError, duplicate, invalid, not_supported, quote, required
from headgate.apiserver.messages import Json
from headgate.apiserver.validation.metadata import metadata_errors, metadata_update_errors
from headgate.apiserver.validation.policies import NamedExpression, NamedRule, condition_errors, rule_errors
from headgate.apiserver.validation.scheduling import selector_errors
from headgate.apiserver.validation.types import ApiType, LabelSelector, ObjectMeta, typed
from headgate.model.names import dns_subdomain_errors

REVIEW_VERSIONS = ("v1", "v1beta1")
OBJECTS = ("object", "oldObject", "request")
LONGEST_TIMEOUT = 30  # seconds
_PORT = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]\s]*)(:[0-9]{0,5})?").fullmatch
_FORM = "; desired format: https://host[/path]"
_CHOICES = (
    ("failure_policy", "failurePolicy", ("Fail", "Ignore")),
    ("match_policy", "matchPolicy", ("Equivalent", "Exact")),
)
_DEFAULTS: Json = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}


class ServiceReference(ApiType, frozen=True):
    name: str | None = None
    namespace: str | None = None
    path: str | None = None
    port: int | None = None


class WebhookClientConfig(ApiType, frozen=True):
    url: str | None = None
    service: ServiceReference | None = None
    ca_bundle: bytes | None = None


class WebhookSpec(ApiType, frozen=True):
    name: str | None = None
    client_config: WebhookClientConfig | None = None
    rules: list[NamedRule] | None = None
    failure_policy: str | None = None
    match_policy: str | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    side_effects: str | None = None
    timeout_seconds: int | None = None
    admission_review_versions: list[str] | None = None
    reinvocation_policy: str | None = None
    match_conditions: list[NamedExpression] | None = None


class WebhookConfiguration(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    webhooks: list[WebhookSpec] | None = None


def default_configuration(new: Json) -> Json:
    webhooks = new.get("webhooks")
    if not webhooks:
        return {name: part for name, part in new.items() if name != "webhooks"}
    more = {"reinvocationPolicy": "Never"} if new.get("kind") == "MutatingWebhookConfiguration" else {}
    return {**new, "webhooks": [_default_webhook(each, {**_DEFAULTS, **more}) for each in webhooks]}


def _default_webhook(webhook: Json, defaults: Json) -> Json:
    whole = {**{name: part for name, part in webhook.items() if part not in ([], None)}}
    whole.update({name: value for name, value in defaults.items() if whole.get(name) is None})
    if whole.get("rules"):
        whole["rules"] = [{**rule, "scope": rule.get("scope") or "*"} for rule in whole["rules"]]
    client = whole.get("clientConfig") or {}
    if client.get("service"):
        client = {**client, "service": {**client["service"], "port": client["service"].get("port") or 443}}
    return {**whole, "clientConfig": client}


def configuration_errors(new: Json) -> list[FieldError]:
    configuration = typed(new, WebhookConfiguration)
    errors = metadata_errors(configuration.metadata or ObjectMeta(), dns_subdomain_errors, namespaced=False)
    names: list[str] = []
    for index, webhook in enumerate(configuration.webhooks or ()):
        path, name = f"webhooks[{index}]", webhook.name or ""
        errors += _webhook_errors(path, webhook)
        errors += _version_errors(f"{path}.admissionReviewVersions", webhook.admission_review_versions or ())
        if name and name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.append(name)
    return errors


def configuration_update_errors(new: Json, old: Json) -> list[FieldError]:
    metadata = typed(new, WebhookConfiguration).metadata or ObjectMeta()
    return [*configuration_errors(new), *metadata_update_errors(new["metadata"], old["metadata"], metadata)]


def _webhook_errors(path: str, webhook: WebhookSpec) -> Iterator[FieldError]:
    yield from _name_errors(f"{path}.name", webhook.name or "")
    for index, rule in enumerate(webhook.rules or ()):
        yield from rule_errors(f"{path}.rules[{index}]", rule)
    for attribute, field, choices in _CHOICES:
        if getattr(webhook, attribute) not in choices:
            yield not_supported(f"{path}.{field}", getattr(webhook, attribute), choices)
    if webhook.side_effects is None:
        yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    elif webhook.side_effects not in ("None", "NoneOnDryRun"):
        yield not_supported(f"{path}.sideEffects", webhook.side_effects, ("None", "NoneOnDryRun"))
    if not 1 <= (webhook.timeout_seconds or 0) <= LONGEST_TIMEOUT:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield invalid(f"{path}.timeoutSeconds", webhook.timeout_seconds, detail)
    yield from selector_errors(f"{path}.namespaceSelector", webhook.namespace_selector)
    yield from selector_errors(f"{path}.objectSelector", webhook.object_selector)
    if webhook.reinvocation_policy not in (None, "IfNeeded", "Never"):
        yield not_supported(f"{path}.reinvocationPolicy", webhook.reinvocation_policy, ("IfNeeded", "Never"))
    yield from _client_errors(f"{path}.clientConfig", webhook.client_config or WebhookClientConfig())
    yield from condition_errors(f"{path}.matchConditions", webhook.match_conditions or (), OBJECTS)


def _name_errors(path: str, name: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    elif errors := dns_subdomain_errors(name):
        yield invalid(path, name, ",".join(errors))
    elif name.count(".") < 2:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def _version_errors(path: str, versions: Sequence[str]) -> Iterator[FieldError]:
    if not versions:
        yield required(path, f"must specify one of {', '.join(REVIEW_VERSIONS)}")
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid(f"{path}[{index}]", version, "duplicate version")
    if not set(versions) & set(REVIEW_VERSIONS):
        yield invalid(path, list(versions), f"must include at least one of {', '.join(REVIEW_VERSIONS)}")


def _client_errors(path: str, client: WebhookClientConfig) -> Iterator[FieldError]:
    if (client.url is None) == (client.service is None):
        yield required(path, "exactly one of url or service is required")
    elif client.url is not None:
        yield from _url_errors(f"{path}.url", client.url)
    elif client.service is not None:
        yield from _service_errors(f"{path}.service", client.service)


def _url_errors(path: str, text: str) -> Iterator[FieldError]:
    address, _, fragment = text.partition("#")
    address, _, query = address.partition("?")
    scheme, _, rest = address.partition("://")
    place = rest.partition("/")[0]
    user, _, host = place.rpartition("@")
    if _PORT(host) is None:
        yield required(path, f"url must be a valid URL: parse {quote(text)}: invalid port in {quote(host)}{_FORM}")
        return
    if scheme != "https":
        yield invalid(path, scheme if rest else "", f"'https' is the only allowed URL scheme{_FORM}")
    if not host:
        yield invalid(path, "", f"host must be specified{_FORM}")
    if user:
        yield invalid(path, user, "user information is not permitted in the URL")
    if fragment:
        yield invalid(path, fragment, "fragments are not permitted in the URL")
    if query:
        yield invalid(path, query, "query parameters are not permitted in the URL")


def _service_errors(path: str, service: ServiceReference) -> Iterator[FieldError]:
    if not service.namespace:
        yield required(f"{path}.name")  # a real server confuses the two
    if not service.name:
        yield required(f"{path}.namespace")
    if not 1 <= (service.port or 0) <= 65535:
        yield invalid(f"{path}.port", service.port, "port is not valid: must be between 1 and 65535, inclusive")
    text = service.path or ""
    if text in ("", "/"):
        return
    if text == "//":
        yield invalid(f"{path}.path", text, "segment[0] may not be empty")
        return
    if not text.startswith("/"):
        yield invalid(f"{path}.path", text, "must start with a '/'")
    for index, step in enumerate(text[1:].removesuffix("/").split("/")):
        errors = dns_subdomain_errors(step) if step else ["may not be empty"]
        for error in errors:
            shown = f"segment[{index}]: {error}" if step else f"segment[{index}] {error}"
            yield invalid(f"{path}.path", text, shown)
