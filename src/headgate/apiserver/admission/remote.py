"""Webhooks that are called over HTTPS: which call a write asks for, and what the answer makes of its object."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from headgate.apiserver.admission.chain import Catalog, Operation
from headgate.apiserver.field_errors import quote
from headgate.apiserver.kubernetes_types import known_part
from headgate.apiserver.managedfields import with_fields, without_fields
from headgate.apiserver.messages import Json, Request
from headgate.apiserver.patches import PatchFailed, apply_json_patch, decode_json_patch
from headgate.apiserver.status import ApiError, StatusError
from headgate.apiserver.webhook_calls import CallFailed, WebhookCall, WebhookVerdict

HTTPS, DEFAULT_SECONDS = 443, 10
_KNOWN_VERSIONS = ("v1", "v1beta1")
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class _Place(Struct, frozen=True):
    """Where a webhook listens, or why it cannot be reached."""

    url: str
    host: str = ""
    port: int = HTTPS
    server_name: str = ""
    why: str = ""


class _ServiceReference(Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    path: str | None = None
    port: int | None = None


class _ClientConfig(Struct, frozen=True, rename="camel"):
    url: str | None = None
    service: _ServiceReference | None = None
    ca_bundle: bytes | None = None


class _RemoteSettings(Struct, frozen=True, rename="camel"):
    """What a webhook says of how it is called."""

    name: str = ""
    client_config: _ClientConfig = _ClientConfig()
    timeout_seconds: int | None = None
    admission_review_versions: tuple[str, ...] | None = None


class _ServicePort(Struct, frozen=True):
    port: int = 0


class _ServiceSpec(Struct, frozen=True):
    type: str = ""
    external_name: str = field(default="", name="externalName")
    cluster_ip: str = field(default="", name="clusterIP")
    ports: tuple[_ServicePort, ...] | None = None


class RemoteWebhook:
    """A configured webhook with a clientConfig."""

    def __init__(self, webhook: Json, *, mutating: bool) -> None:
        self._mutating, self._wrong = mutating, ""
        try:
            self._said = msgspec.convert(webhook, _RemoteSettings)
        except msgspec.ValidationError as error:
            self._said, self._wrong = _RemoteSettings(), f"could not get REST client: {error}"
        versions = self._said.admission_review_versions or _KNOWN_VERSIONS
        self._version = next((version for version in versions if version in _KNOWN_VERSIONS), "v1")

    def call(self, operation: Operation, request: Json, catalog: Catalog) -> WebhookCall | CallFailed:
        """The call with that AdmissionRequest; CallFailed if its clientConfig leads nowhere."""
        if self._wrong:
            return CallFailed(self._wrong)
        said, rounds = self._said, operation.reinvocation
        place = _place(said.client_config, catalog)
        call = WebhookCall(
            webhook=said.name,
            url=place.url,
            host=place.host,
            port=place.port,
            server_name=place.server_name,
            authority=said.client_config.ca_bundle or b"",
            seconds=said.timeout_seconds or DEFAULT_SECONDS,
            version=self._version,
            mutating=self._mutating,
            again=rounds is not None and rounds.second,
            request=msgspec.json.encode({**_identified_later(request), **_objects(operation, request)}),
        )
        return call.failed(place.why) if place.why else call


def _identified_later(request: Json) -> Json:
    """The request without its uid, which each call has for itself."""
    return {name: part for name, part in request.items() if name != "uid"}


def _objects(operation: Operation, request: Json) -> Json:
    """What the `request` variable of expressions does not have of an AdmissionRequest."""
    given = operation.answers.options if operation.answers is not None else {}
    return {
        "object": _shown(operation.new, operation.fields, request),
        "oldObject": _shown(operation.old, operation.old_fields, request),
        "options": {"kind": _OPTIONS[operation.verb], "apiVersion": "meta.k8s.io/v1", **given},
    }


def given_options(request: Request) -> Json:
    """The options of a request, as webhooks are told them: of a deletion those in its body, else those in the query."""
    if request.method == "DELETE" and request.body:
        try:
            body: Json = msgspec.json.decode(request.body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}  # it is refused for that
        return {name: part for name, part in body.items() if name not in ("kind", "apiVersion")}
    options: Json = {name: request.query[name] for name in ("fieldManager", "fieldValidation") if name in request.query}
    return {**options, "dryRun": [request.query["dryRun"]]} if request.query.get("dryRun") else options


def _shown(value: Json | None, entries: list[Json] | None, request: Json) -> Json | None:
    """An object as a webhook sees it: in the version that its rule names, with the managers of its fields."""
    if value is None:
        return None
    kind = request["kind"]
    api_version = f"{kind['group']}/{kind['version']}" if kind["group"] else kind["version"]
    shown = value if value.get("apiVersion") == api_version else {**value, "apiVersion": api_version}
    return with_fields(shown, entries) if entries else shown


def _place(client: _ClientConfig, catalog: Catalog) -> _Place:
    service = client.service
    if service is None:
        return _at_url(client.url or "")
    name, port = service.name, service.port or HTTPS
    server_name = f"{name}.{service.namespace}.svc"
    address = f"https://{server_name}:{port}{service.path or '/'}"
    found = catalog.get("services", service.namespace, name)
    if found is None:
        return _Place(address, why=f"service {quote(name)} not found")
    host, why = _address(name, found, port)
    return _Place(address, host, port, server_name, why)


def _at_url(url: str) -> _Place:
    """A URL is known to be one of HTTPS without user, query and fragment, since it was stored."""
    address, _, _ = url.removeprefix("https://").partition("/")
    host, colon, port = address.rpartition(":") if not address.endswith("]") else (address, "", "")
    host, number = (host, int(port)) if colon and port.isdecimal() else (address, HTTPS)
    bare = host.strip("[]")
    return _Place(url, bare, number, bare)


def _address(name: str, service: Json, port: int) -> tuple[str, str]:
    """The address behind a service, or why there is none: nothing here gives services an address of their own."""
    try:
        spec = msgspec.convert(service.get("spec") or {}, _ServiceSpec)
    except msgspec.ValidationError as error:
        return "", f"service {quote(name)} cannot be read: {error}"
    if spec.type == "ExternalName":
        return spec.external_name, ""
    if spec.cluster_ip == "None":
        return "", 'cannot route to service with ClusterIP "None"'
    if not any(each.port == port for each in spec.ports or ()):
        return "", f"no service port {port} found for service {quote(name)}"
    return (spec.cluster_ip, "") if spec.cluster_ip else ("", f"no endpoints available for service {quote(name)}")


def denial(name: str, verdict: WebhookVerdict) -> ApiError:
    """The error of a write that a webhook has denied, with its code, reason and details."""
    status = verdict.status
    message, reason, code = (status.message, status.reason, status.code) if status else ("", "", 0)
    said = message or reason
    text = f'admission webhook "{name}" denied the request' + (f": {said}" if said else " without explanation")
    details = {key: part for key, part in ((status.details if status else None) or {}).items() if part}
    return StatusError(max(400, code) if code < 600 else 500, reason, text, details)


def patched(name: str, verdict: WebhookVerdict, operation: Operation) -> Json | CallFailed | None:
    """The object as the webhook has changed it, with its defaults; None if it changes nothing."""
    if not verdict.patch:
        return None
    try:
        steps = decode_json_patch(verdict.patch)
    except ApiError as error:
        return CallFailed(f"received undecodable patch in webhook response: {error.message}")
    if not steps:
        return None
    old = operation.new
    if old is None:
        text = "attempted to modify the object, which is not supported for this operation"
        raise internal_error(f"admission webhook {quote(name)} {text}")
    if verdict.patch_type != "JSONPatch":
        return CallFailed(f"unsupported patch type {quote(verdict.patch_type)}")
    try:
        patched_object: Any = apply_json_patch(with_fields(old, operation.fields) if operation.fields else old, steps)
    except PatchFailed as error:
        raise internal_error(str(error)) from None
    if not isinstance(patched_object, dict) or not isinstance(patched_object.get("metadata"), dict):
        raise internal_error("the patched document is no object")
    kind = {"kind": old["kind"], "apiVersion": old["apiVersion"]}
    return _read_again(without_fields(known_part({**patched_object, **kind})), operation)


def _read_again(new: Json, operation: Operation) -> Json | None:
    """What a webhook has made of an object, with its defaults; None if it is the same."""
    if new == operation.new:
        return None
    if operation.subresource not in ("", "status"):
        return new
    try:
        operation.resource.rules.prepare_create(new)  # which is of the right types, or refused
    except ApiError as error:
        raise internal_error(error.message) from None
    return operation.resource.rules.defaulted(new)


def internal_error(why: str) -> StatusError:
    """What a real server takes for its own fault."""
    return StatusError(500, "InternalError", f"Internal error occurred: {why}", {"causes": [{"message": why}]})
