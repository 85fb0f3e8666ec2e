"""What an API server's answer to a write means for the decision behind it."""

from __future__ import annotations

import msgspec

from headgate.api.wire import Wire
from headgate.model.events import Trouble


class Cause(Wire, frozen=True):
    field: str = ""


class StatusDetails(Wire, frozen=True):
    causes: list[Cause] | None = None
    retry_after_seconds: int | None = None


class Status(Wire, frozen=True):
    """An API server's own account of a failure."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


_decoder = msgspec.json.Decoder(Status)

_NOTHING_DONE = {
    401: Trouble.UNAVAILABLE,  # our credentials are stale; fresh ones may do
    404: Trouble.GONE,
    409: Trouble.CONFLICT,
    410: Trouble.GONE,
    429: Trouble.UNAVAILABLE,
    503: Trouble.UNAVAILABLE,
}
_MAYBE_DONE = frozenset({408, 500, 502, 504})  # the server, or one on the way to it, lost track


def trouble_of(code: int, body: bytes) -> tuple[Trouble, str] | None:
    """What went wrong with a write and what the server says about it; None when it was accepted."""
    if 200 <= code < 300:
        return None
    status = decode_status(body)
    return _trouble(code, status), status.message or f"HTTP status {code}"


def decode_status(body: bytes) -> Status:
    """The server's account; an empty one where the answer came from something else, such as a proxy."""
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError:
        return Status()


def _trouble(code: int, status: Status) -> Trouble:
    if code in _NOTHING_DONE:
        return _NOTHING_DONE[code]
    if code in _MAYBE_DONE or code > 504:
        return Trouble.UNKNOWN
    return Trouble.CONFLICT if code == 422 and _was_of_another_object(status) else Trouble.REFUSED


def _was_of_another_object(status: Status) -> bool:
    """A patch whose precondition failed is answered with 422 as well.

    If the uid differs, that field is the cause; if a test of a JSON patch fails, there is no cause at all.
    """
    causes = status.details.causes if status.details else None
    return not causes or any(cause.field == "metadata.uid" for cause in causes)
