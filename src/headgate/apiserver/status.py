"""API errors as a real server words them, and the Status objects that carry them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.apiserver.field_errors import Complaint, FieldError, render, render_body
from headgate.apiserver.messages import Json
from headgate.apiserver.strategy import ResourceType


class ApiError(Exception):
    """A request that is answered with a Status instead of success; nothing was changed."""

    def __init__(self, code: int, reason: str, message: str, causes: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.causes = code, reason, message, tuple(causes)


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
PRECONDITIONS: Mapping[str, str] = {"uid": "UID", "resourceVersion": "ResourceVersion"}
CAUSE_REASONS: Mapping[Complaint, str] = {
    Complaint.REQUIRED: "FieldValueRequired",
    Complaint.INVALID: "FieldValueInvalid",
    Complaint.DUPLICATE: "FieldValueDuplicate",
    Complaint.FORBIDDEN: "FieldValueForbidden",
    Complaint.NOT_SUPPORTED: "FieldValueNotSupported",
    Complaint.TOO_LONG: "FieldValueTooLong",
    Complaint.TOO_MANY: "FieldValueTooMany",
}


class StatusError(ApiError):
    """An ApiError with the details of its Status."""

    def __init__(
        self, code: int, reason: str, message: str, details: Json | None = None, causes: Sequence[FieldError] = ()
    ) -> None:
        super().__init__(code, reason, message, causes)
        self.details = details or {}


def resource_name(resource: ResourceType) -> str:
    """The resource with its group, as in `jobs.batch`."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def not_found(resource: ResourceType, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{resource_name(resource)} "{name}" not found', _details(resource, name))


def no_such_path() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed() -> StatusError:
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def already_exists(resource: ResourceType, name: str) -> StatusError:
    return StatusError(
        409, "AlreadyExists", f'{resource_name(resource)} "{name}" already exists', _details(resource, name)
    )


def conflict(resource: ResourceType, name: str, why: str = MODIFIED) -> StatusError:
    return _conflict(resource, resource.plural, name, why)


def binding_conflict(resource: ResourceType, name: str, why: str) -> StatusError:
    """The conflict of a pod that cannot be bound."""
    return _conflict(resource, f"{resource.plural}/binding", name, why)


def deletion_conflict(resource: ResourceType, name: str, why: str) -> StatusError:
    """The conflict of an unmet deletion precondition; a real server names the kind here, not the resource."""
    return _conflict(resource, resource.kind, name, why)


def _conflict(resource: ResourceType, kind: str, name: str, why: str) -> StatusError:
    named = f"{kind}.{resource.group}" if resource.group else kind
    message = f'Operation cannot be fulfilled on {named} "{name}": {why}'
    return StatusError(409, "Conflict", message, details_of(name, resource.group, kind))


def unmet_precondition(resource: ResourceType, stored: Json, field: str, asked: str) -> StatusError:
    """The conflict of an unmet uid or resourceVersion precondition, in the words of a real storage."""
    grouped = resource.schema is not None or resource.group == "apiextensions.k8s.io"
    place = (resource.group * grouped, resource.plural, stored.get("namespace", ""), stored["name"])
    where = "/".join(["/registry", *filter(None, place)])
    kind = PRECONDITIONS[field]
    return conflict(
        resource,
        stored["name"],
        f"StorageError: invalid object, Code: 4, Key: {where}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: {kind} in precondition: {asked}, {kind} in object meta: {stored[field]}",
    )


def forbidden(resource: ResourceType, name: str, why: str) -> StatusError:
    message = f'{resource_name(resource)} "{name}" is forbidden: {why}'
    return StatusError(403, "Forbidden", message, _details(resource, name))


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def too_large(why: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {why}")


def not_acceptable() -> StatusError:
    message = "only the following media types are accepted: application/json"
    return StatusError(406, "NotAcceptable", message)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def unsupported_media(message: str) -> StatusError:
    return StatusError(415, "UnsupportedMediaType", message)


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def timed_out() -> StatusError:
    return StatusError(504, "Timeout", "Timeout: request did not complete within the allotted timeout")


def too_many_requests(message: str, cause: Json) -> StatusError:
    return StatusError(429, "TooManyRequests", message, {"causes": [cause]})


def invalid(kind: str, group: str, name: str, causes: Sequence[FieldError]) -> StatusError:
    named = f"{kind}.{group}" if group else kind
    message = f'{named} "{name}" is invalid: {joined(causes)}'
    return StatusError(422, "Invalid", message, details_of(name, group, kind), causes)


def joined(errors: Sequence[FieldError]) -> str:
    """The errors' texts, each once; several in brackets."""
    texts = list(dict.fromkeys(render(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def details_of(name: str, group: str, kind: str, uid: str = "") -> Json:
    """The details of a Status; empty ones are omitted."""
    parts = {"name": name, "group": group, "kind": kind, "uid": uid}
    return {key: part for key, part in parts.items() if part}


def _details(resource: ResourceType, name: str) -> Json:
    return details_of(name, resource.group, resource.plural)


def failure(error: ApiError) -> Json:
    """The Status that answers a refused request."""
    details = dict(error.details) if isinstance(error, StatusError) else {}
    if error.causes:
        details["causes"] = [_cause(cause) for cause in error.causes]
    said = {"message": error.message, "reason": error.reason}
    return _status("Failure", said, details, error.code)


def _cause(error: FieldError) -> Json:
    reason = "FieldValueTypeInvalid" if error.wrong_type else CAUSE_REASONS[error.complaint]
    return {"reason": reason, "message": render_body(error), "field": error.path}


def created() -> Json:
    """The Status that answers a creation of something that is not stored."""
    return _status("Success", {}, {}, 201)


def deleted(details: Json) -> Json:
    """The Status that answers a completed deletion; a real server omits the code here."""
    return _status("Success", {}, details, 0)


def _status(status: str, said: Json, details: Json, code: int) -> Json:
    parts = {**said, "details": details, "code": code}
    shown = {name: part for name, part in parts.items() if part}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status, **shown}
