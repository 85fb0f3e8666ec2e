"""AdmissionReviews about Workloads: what an API server asks a webhook, and the answer it understands."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, assert_never

import msgspec

from headgate.api.wire import Buffer, Wire
from headgate.model.admission import Admit, Refuse, Verdict
from headgate.model.groups import Workload
from headgate.model.keys import Key, Kind

API_VERSION = "admission.k8s.io/v1"


class InvalidReview(ValueError):
    """Not an AdmissionReview."""


class NamedClasses(Wire, frozen=True):
    priority_class_name: str | None = None
    preemption_priority_class_name: str | None = None


class Names(Wire, frozen=True):
    """A new object may have no name yet."""

    name: str = ""
    namespace: str = ""


class WorkloadToCome(Wire, frozen=True):
    spec: NamedClasses
    metadata: Names = Names()


class AdmissionRequest(Wire, frozen=True):
    uid: str
    object: msgspec.Raw


class AdmissionReview(Wire, frozen=True):
    request: AdmissionRequest


_reviews = msgspec.json.Decoder(AdmissionReview)
_workloads = msgspec.json.Decoder(WorkloadToCome)


def answer(raw: Buffer, judge: Callable[[Workload], Verdict]) -> bytes:
    """The answer to an AdmissionReview, by this judge. Raises InvalidReview.

    A Workload so wrong that it cannot be read is let through: the server's own validation says best what is missing.
    """
    try:
        request = _reviews.decode(raw).request
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidReview(f"expected an AdmissionReview: {error}") from None
    workload = _workload(request.object)
    return encode_verdict(request.uid, Admit() if workload is None else judge(workload))


def _workload(raw: msgspec.Raw) -> Workload | None:
    """As far as its admission depends on it."""
    try:
        wire = _workloads.decode(raw)
    except msgspec.MsgspecError:
        return None
    return Workload(
        key=Key(Kind.WORKLOAD, wire.metadata.namespace, wire.metadata.name),
        uid="",
        version="",
        created=0.0,
        priority_class=wire.spec.priority_class_name or "",
        preemption_priority_class=wire.spec.preemption_priority_class_name or "",
    )


def encode_verdict(uid: str, verdict: Verdict) -> bytes:
    """The answer to the review with this uid."""
    response: dict[str, Any] = {"uid": uid, "allowed": isinstance(verdict, Admit)}
    match verdict:
        case Admit(""):
            pass
        case Admit(name):
            steps = [{"op": "add", "path": "/spec/priorityClassName", "value": name}]
            patch = base64.b64encode(msgspec.json.encode(steps)).decode()
            response |= {"patchType": "JSONPatch", "patch": patch}
        case Refuse(message):
            response["status"] = {"code": 403, "reason": "Forbidden", "message": message}
        case _:
            assert_never(verdict)
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
