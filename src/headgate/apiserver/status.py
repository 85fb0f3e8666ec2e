"""Refusals as a real API server words them, and the Status objects that carry them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.apiserver.errors import ApiError, Complaint, FieldError
from headgate.apiserver.fields import render, render_body
from headgate.apiserver.messages import Json
from headgate.apiserver.rules import ResourceType

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
CAUSE_REASONS: Mapping[Complaint, str] = {
    Complaint.REQUIRED: "FieldValueRequired",
    Complaint.INVALID: "FieldValueInvalid",
    Complaint.DUPLICATE: "FieldValueDuplicate",
    Complaint.FORBIDDEN: "FieldValueForbidden",
    Complaint.NOT_SUPPORTED: "FieldValueNotSupported",
    Complaint.TOO_LONG: "FieldValueTooLong",
    Complaint.TOO_MANY: "FieldValueTooMany",
}


class Refusal(ApiError):
    """An ApiError that also knows which object it is about, for the details of its Status."""

    def __init__(
        self, code: int, reason: str, message: str, details: Json | None = None, causes: Sequence[FieldError] = ()
    ) -> None:
        super().__init__(code, reason, message, causes)
        self.details = details or {}


def resource_name(resource: ResourceType) -> str:
    """The resource with its group, as error texts name it: `pods`, `jobs.batch`."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def not_found(resource: ResourceType, name: str) -> Refusal:
    return Refusal(404, "NotFound", f'{resource_name(resource)} "{name}" not found', _about(resource, name))


def no_such_path() -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed() -> Refusal:
    return Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def already_exists(resource: ResourceType, name: str) -> Refusal:
    return Refusal(409, "AlreadyExists", f'{resource_name(resource)} "{name}" already exists', _about(resource, name))


def conflict(resource: ResourceType, name: str, why: str = MODIFIED, subresource: str = "") -> Refusal:
    named = resource_name(resource) + (f"/{subresource}" if subresource else "")
    return Refusal(409, "Conflict", f'Operation cannot be fulfilled on {named} "{name}": {why}', _about(resource, name))


def another_uid(resource: ResourceType, namespace: str, name: str, asked: str, found: str) -> Refusal:
    """A write meant for another incarnation of this name, in the words of a real server's storage layer."""
    where = "/".join(part for part in ("/registry", resource.group, resource.plural, namespace, name) if part)
    return conflict(
        resource,
        name,
        f"StorageError: invalid object, Code: 4, Key: {where}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {asked}, UID in object meta: {found}",
    )


def forbidden(resource: ResourceType, name: str, why: str) -> Refusal:
    message = f'{resource_name(resource)} "{name}" is forbidden: {why}'
    return Refusal(403, "Forbidden", message, _about(resource, name))


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def unsupported_media(message: str) -> Refusal:
    return Refusal(415, "UnsupportedMediaType", message)


def expired(message: str) -> Refusal:
    return Refusal(410, "Expired", message)


def too_many_requests(message: str, cause: Json) -> Refusal:
    return Refusal(429, "TooManyRequests", message, {"causes": [cause]})


def invalid(kind: str, group: str, name: str, causes: Sequence[FieldError]) -> Refusal:
    texts = list(dict.fromkeys(render(cause) for cause in causes))
    told = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    named = f"{kind}.{group}" if group else kind
    return Refusal(422, "Invalid", f'{named} "{name}" is invalid: {told}', details_of(name, group, kind), causes)


def details_of(name: str, group: str, kind: str, uid: str = "") -> Json:
    """Details as a Status shows them: empty parts are left out."""
    parts = {"name": name, "group": group, "kind": kind, "uid": uid}
    return {key: part for key, part in parts.items() if part}


def _about(resource: ResourceType, name: str) -> Json:
    return details_of(name, resource.group, resource.plural)


def failure(error: ApiError) -> Json:
    """The Status object that answers a refused request."""
    details = dict(error.details) if isinstance(error, Refusal) else {}
    if error.causes:
        details["causes"] = [_cause(cause) for cause in error.causes]
    told = {"message": error.message, "reason": error.reason}
    return _status("Failure", told, details, error.code)


def _cause(error: FieldError) -> Json:
    return {"reason": CAUSE_REASONS[error.complaint], "message": render_body(error), "field": error.path}


def success(code: int, details: Json | None = None) -> Json:
    """The Status object that answers a request with nothing else to show."""
    return _status("Success", {}, details or {}, code)


def _status(status: str, told: Json, details: Json, code: int) -> Json:
    parts = {**told, "details": details}
    shown = {name: part for name, part in parts.items() if part}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status, **shown, "code": code}
