"""Calls of admission webhooks over HTTPS: what is sent, what an answer means, and which calls a request still needs.

The server has no I/O. A write that meets such a webhook ends with CallsNeeded before anything is stored; whoever serves
the API makes the calls and has the request handled again with the answers. An answer is that to one exact
AdmissionRequest: if the object has changed meanwhile, the webhook is called again.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from headgate.apiserver.field_errors import quote
from headgate.apiserver.messages import Json

GROUP = "admission.k8s.io"
SHOWN_BYTES = 2048  # of an answer that is no review


class WebhookCall(Struct, frozen=True):
    """One call: where to, whom to trust there, for how long, and the AdmissionRequest without its uid."""

    webhook: str
    url: str
    host: str  # that is connected to
    port: int
    server_name: str  # that the certificate must be for
    authority: bytes  # in PEM; empty: those of the system
    seconds: int
    version: str  # of the AdmissionReview
    mutating: bool
    again: bool  # whether the webhook sees the write for a second time
    request: bytes

    def review(self, uid: str) -> bytes:
        """The body to send."""
        head = f'{{"kind":"AdmissionReview","apiVersion":"{GROUP}/{self.version}","request":{{"uid":"{uid}",'
        return b"%b%b}" % (head.encode(), self.request[1:])

    @property
    def target(self) -> str:
        """The URL with the timeout, as the webhook is told."""
        return f"{self.url}?timeout={self.seconds}s"

    def failed(self, why: str) -> CallFailed:
        """What to answer if nobody could be asked."""
        return CallFailed(f'failed to call webhook: Post "{self.target}": {why}')


class WebhookVerdict(Struct, frozen=True):
    """What a webhook answered."""

    allowed: bool
    patch: bytes = b""
    patch_type: str = ""
    status: DenialStatus | None = None
    warnings: tuple[str, ...] = ()


class CallFailed(Struct, frozen=True):
    """Why a webhook gave no answer that counts; its failurePolicy applies."""

    why: str


class DenialStatus(Struct, frozen=True):
    """The Status of a denial, as far as it is told."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Json | None = None


WebhookAnswer = WebhookVerdict | CallFailed


class CallsNeeded(Exception):
    """The request can go on only when these webhooks have answered; nothing was stored."""

    def __init__(self, calls: Sequence[WebhookCall]) -> None:
        super().__init__(", ".join(call.webhook for call in calls))
        self.calls = calls


class WebhookAnswers:
    """The answers to one request so far, the options it came with, and the name generated for its object."""

    __slots__ = ("_known", "name", "options")

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._known: dict[WebhookCall, WebhookAnswer] = {}
        self.options, self.name = options, ""

    def add(self, call: WebhookCall, answer: WebhookAnswer) -> None:
        self._known[call] = answer

    def to(self, calls: Sequence[WebhookCall]) -> list[WebhookAnswer]:
        """The answers to these calls; raises CallsNeeded for those that were not made."""
        if missing := [call for call in calls if call not in self._known]:
            raise CallsNeeded(missing)
        return [self._known[call] for call in calls]


class _Response(Struct, frozen=True, rename="camel"):
    uid: str = ""
    allowed: bool = False
    patch: str | None = None
    patch_type: str | None = None
    status: DenialStatus | None = None
    warnings: tuple[str, ...] | None = None


class _Review(Struct, frozen=True, rename="camel"):
    kind: str = ""
    api_version: str = ""
    response: _Response | None = None


_decode = msgspec.json.Decoder(_Review).decode

_REFUSALS: Mapping[int, str] = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


def read_answer(call: WebhookCall, uid: str, code: int, content_type: str, body: bytes) -> WebhookAnswer:
    """What an HTTP answer means."""
    if not 200 <= code <= 206:
        return CallFailed(f"failed to call webhook: {_refusal(code, content_type, body)}")
    if not body:
        text = f"0-length response with status code: {code} and content type: {content_type}"
        return CallFailed(f"failed to call webhook: {text}")
    try:
        review = _decode(body)
        response = review.response
        patch = b64decode((response.patch if response else None) or "", validate=True)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        return CallFailed(f"failed to call webhook: couldn't get version/kind; json parse error: {error}")
    other = {"v1": "v1beta1", "v1beta1": "v1"}[call.version]
    if (review.kind, review.api_version) == ("AdmissionReview", f"{GROUP}/{other}"):
        text = f"converting ({other}.AdmissionReview) to ({call.version}.AdmissionReview): unknown conversion"
        return CallFailed(f"failed to call webhook: {text}")
    if response is None:
        return CallFailed("received invalid webhook response: webhook response was absent")
    if why := _invalid(call, uid, review, response, patch):
        return CallFailed(f"received invalid webhook response: {why}")
    if call.version != "v1":
        response = structs.replace(response, patch_type="JSONPatch")
    return WebhookVerdict(
        response.allowed,
        patch if call.mutating else b"",
        response.patch_type or "",
        response.status,
        response.warnings or (),
    )


def _invalid(call: WebhookCall, uid: str, review: _Review, response: _Response, patch: bytes) -> str:
    """What is wrong with a response; empty if nothing is. Those in v1beta1 are not looked at closely."""
    if call.version != "v1":
        return ""
    if response.uid != uid:
        return f"expected response.uid={quote(uid)}, got {quote(response.uid)}"
    if (review.kind, review.api_version) != ("AdmissionReview", f"{GROUP}/v1"):
        group, _, version = review.api_version.rpartition("/")
        got = f"{group}/{version}, Kind={review.kind}"
        return f"expected webhook response of {GROUP}/v1, Kind=AdmissionReview, got {got}"
    typed = response.patch_type is not None
    if not call.mutating:
        found = "response.patch" if patch else "response.patchType" if typed else ""
        return f"validating webhook may not return {found}" if found else ""
    if bool(patch) != typed:
        has, lacks = ("patch", "patchType") if patch else ("patchType", "patch")
        return f"webhook returned response.{has} but not response.{lacks}"
    return 'webhook returned invalid response.patchType of ""' if typed and not response.patch_type else ""


def _refusal(code: int, content_type: str, body: bytes) -> str:
    """An HTTP status other than success, in the words of a real server's client."""
    said = "unknown"
    if content_type.startswith("text/"):
        said = body[:SHOWN_BYTES].decode(errors="replace").strip()
    if code in (403, 415):
        return said
    if code in _REFUSALS:
        return _REFUSALS[code]
    if code >= 500:
        return f"an error on the server ({quote(said)}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"
