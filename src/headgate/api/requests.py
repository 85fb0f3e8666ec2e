"""Encodes effects as HTTP requests, each naming the very object it was decided on, and decodes the answers.

The patches that start and stop jobs and tie them to their Workloads are here; those of statuses in `statuses`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, assert_never

import msgspec
from msgspec import Struct

from headgate.api.kinds import RESOURCES, collection_path, object_path
from headgate.api.statuses import status_of
from headgate.api.wire import Wire, format_micro_time, format_time
from headgate.model.effects import (
    Activation,
    Annotations,
    Bind,
    Create,
    Delete,
    Directives,
    EmitEvent,
    Evict,
    Finalizers,
    JobProgress,
    JobRestore,
    JobStart,
    JobStop,
    JobSuspend,
    Owners,
    PatchSpec,
    PatchStatus,
    PodCondition,
    PodStart,
    QueuePriority,
    QueueReservation,
    QueueStatus,
    RemoveGate,
    Scale,
    SpecChange,
    Suspension,
    Unschedulability,
    VolcanoStatus,
    WorkloadRewrite,
    WorkloadStatus,
    Write,
)
from headgate.model.events import WriteError
from headgate.model.keys import Target
from headgate.model.kueue_names import STOPPING
from headgate.model.node import Toleration
from headgate.model.volcano import RESERVED_AT

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

WrittenWhole = QueueStatus | JobProgress | WorkloadStatus | VolcanoStatus
"""Changes of status whose lists replace what was there."""

Merged = JobStart | JobStop | JobSuspend | JobRestore | WorkloadRewrite | Owners | Annotations


class Call(Struct, frozen=True, gc=False):
    """One HTTP request to an API server, without the server."""

    method: str
    path: str
    query: Mapping[str, str]
    content_type: str
    body: bytes


def calls_for(write: Write, reporter: str) -> tuple[Call, ...]:
    """The requests that carry out the write, in order; the first that fails ends it.

    `reporter` is a qualified name that events are signed with.
    """
    match write:
        case PatchStatus():  # most are, and of the others most are events
            return (_patch_status(write),)
        case EmitEvent():
            return (_call("POST", events_path(write), event_manifest(write, reporter)),)
        case Bind():
            return (_bind(write),)
        case RemoveGate():
            return (_remove_gate(write),)
        case PatchSpec(target, PodStart() as start):
            steps = pod_start(start, _precondition(target))
            return (_call("PATCH", object_path(target.key), steps, JSON_PATCH),)
        case PatchSpec(target, QueueReservation() as reservation):
            steps = pod_start(reserving(reservation), _precondition(target))
            return (_call("PATCH", object_path(target.key), steps, JSON_PATCH),)
        case PatchSpec(target, change):
            return (_call("PATCH", object_path(target.key), _changed(target, change), MERGE_PATCH),)
        case Create(key, manifest):
            return (Call("POST", collection_path(RESOURCES[key.kind], key.namespace), {}, JSON, bytes(manifest)),)
        case Delete(target, grace):
            return (_delete(target, grace),)
        case Evict():
            return _evict(write)
        case _:
            assert_never(write)


def _call(method: str, path: str, body: object, content_type: str = JSON) -> Call:
    return Call(method, path, {}, content_type, msgspec.json.encode(body))


def _precondition(target: Target) -> dict[str, str]:
    """What makes a server refuse the write to any other incarnation, or version where that is set."""
    if target.version:
        return {"uid": target.uid, "resourceVersion": target.version}
    return {"uid": target.uid}


def _bind(bind: Bind) -> Call:
    key = bind.target.key
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": key.name, "namespace": key.namespace, **_precondition(bind.target)},
        "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
    }
    return _call("POST", object_path(key, "binding"), body)


def _remove_gate(removal: RemoveGate) -> Call:
    """JSON patch removes a gate by index, so a test of its name comes first."""
    place = f"/spec/schedulingGates/{removal.index}"
    checks = {f"/metadata/{name}": value for name, value in _precondition(removal.target).items()}
    checks[f"{place}/name"] = removal.gate
    tests = [{"op": "test", "path": path, "value": value} for path, value in checks.items()]
    return _call("PATCH", object_path(removal.target.key), [*tests, {"op": "remove", "path": place}], JSON_PATCH)


def _patch_status(patch: PatchStatus) -> Call:
    """Conditions are merged by type, except where the whole list is written."""
    target, change = patch.target, patch.change
    body = msgspec.json.encode({"metadata": _precondition(target), "status": status_of(change)})
    content_type = MERGE_PATCH if isinstance(change, WrittenWhole) else STRATEGIC_MERGE_PATCH
    return Call("PATCH", object_path(target.key, "status"), {}, content_type, body)


def _changed(target: Target, change: SpecChange) -> dict[str, Any]:
    """The fields to set, beside those that name the very object."""
    precondition = _precondition(target)
    match change:
        case Suspension(suspended):
            return {"metadata": precondition, "spec": {"suspend": suspended}}
        case Scale(replicas):
            return {"metadata": precondition, "spec": {"replicas": replicas}}
        case Unschedulability(unschedulable):
            return {"metadata": precondition, "spec": {"unschedulable": unschedulable}}
        case Activation(active):
            return {"metadata": precondition, "spec": {"active": active}}
        case QueuePriority(priority):
            return {"metadata": precondition, "spec": {"priority": priority}}
        case Finalizers(names):
            return {"metadata": {**precondition, "finalizers": list(names)}}
        case PodStart() | QueueReservation():
            raise AssertionError("a pod is started by a JSON patch")
        case _ if isinstance(change, Merged):
            return merged(change, precondition)
        case _:
            assert_never(change)


def _delete(target: Target, grace: int | None) -> Call:
    options: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": _precondition(target),
        "propagationPolicy": "Background",
    }
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    return _call("DELETE", object_path(target.key), options)


def _evict(evict: Evict) -> tuple[Call, Call]:
    """The deletion is bound to the incarnation only: the condition just written has changed the version."""
    condition = PodCondition("DisruptionTarget", "True", evict.reason, evict.message, evict.at)
    bound_to_uid = Target(evict.target.key, evict.target.uid)
    return _patch_status(PatchStatus(evict.target, condition)), _delete(bound_to_uid, None)


MOST_NOTE_BYTES = 1024
MOST_NAME_BYTES = 253
NAMESPACE_OF_CLUSTER_WIDE = "default"  # where events about cluster-wide objects are kept


def events_path(emit: EmitEvent) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{_namespace(emit)}/events"


def event_manifest(emit: EmitEvent, reporter: str) -> dict[str, Any]:
    """The event; the same one always gets the same name, so an event sent twice is recorded once."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": _name(emit), "namespace": _namespace(emit)},
        "eventTime": format_micro_time(emit.at),
        "reportingController": reporter,
        "reportingInstance": reporter,
        "action": emit.action,
        "reason": emit.reason,
        "type": emit.type.value,
        "note": emit.message.encode()[:MOST_NOTE_BYTES].decode(errors="ignore"),
        "regarding": _regarding(emit.target),
    }


def _namespace(emit: EmitEvent) -> str:
    return emit.target.key.namespace or NAMESPACE_OF_CLUSTER_WIDE


def _name(emit: EmitEvent) -> str:
    story = msgspec.json.encode((emit.target.uid, emit.reason, emit.message, emit.at))
    mark = blake2b(story, digest_size=8).hexdigest()
    return f"{emit.target.key.name[: MOST_NAME_BYTES - 1 - len(mark)].rstrip('-.')}.{mark}"


def _regarding(target: Target) -> dict[str, str]:
    key, resource = target.key, RESOURCES[target.key.kind]
    named = {"kind": resource.kind_name, "apiVersion": resource.api_version, "name": key.name, "uid": target.uid}
    return {**named, "namespace": key.namespace} if key.namespace else named


class WireStatusCause(Wire, frozen=True):
    field: str = ""


class WireApiStatusDetails(Wire, frozen=True):
    causes: list[WireStatusCause] | None = None
    retry_after_seconds: int | None = None


class WireApiStatus(Wire, frozen=True):
    """An API server's own account of a failure."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: WireApiStatusDetails | None = None


_decoder = msgspec.json.Decoder(WireApiStatus)

_NOTHING_DONE = {
    401: WriteError.UNAVAILABLE,  # our credentials are stale; fresh ones may do
    404: WriteError.GONE,
    409: WriteError.CONFLICT,
    410: WriteError.GONE,
    429: WriteError.UNAVAILABLE,
    503: WriteError.UNAVAILABLE,
}
_MAYBE_DONE = frozenset({408, 500, 502, 504})  # the server, or one on the way to it, lost track


def trouble_of(code: int, body: bytes) -> tuple[WriteError, str] | None:
    """What went wrong with a write and what the server says about it; None when it was accepted."""
    if 200 <= code < 300:
        return None
    status = decode_status(body)
    return _trouble(code, status), status.message or f"HTTP status {code}"


def decode_status(body: bytes) -> WireApiStatus:
    """The server's account; an empty one where the answer came from something else, such as a proxy."""
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError:
        return WireApiStatus()


def _trouble(code: int, status: WireApiStatus) -> WriteError:
    if code in _NOTHING_DONE:
        return _NOTHING_DONE[code]
    if code in _MAYBE_DONE or code > 504:
        return WriteError.UNKNOWN
    return WriteError.CONFLICT if code == 422 and _was_of_another_object(status) else WriteError.REFUSED


def _was_of_another_object(status: WireApiStatus) -> bool:
    """A patch whose precondition failed is answered with 422 as well.

    If the uid differs, that field is the cause; if a test of a JSON patch fails, there is no cause at all.
    """
    causes = status.details.causes if status.details else None
    return not causes or any(cause.field == "metadata.uid" for cause in causes)


def merged(change: Merged, precondition: dict[str, str]) -> dict[str, Any]:
    """The body of a merge patch."""
    match change:
        case JobStart(directives, parallelism, completions):
            spec = {"suspend": False, **_counts(parallelism, completions), "template": _template(directives)}
            return {"metadata": precondition, "spec": spec}
        case JobStop():
            return {"metadata": {**precondition, "annotations": {STOPPING: "true"}}, "spec": {"suspend": True}}
        case JobSuspend():
            return {"metadata": precondition, "spec": {"suspend": True}}
        case JobRestore(directives, parallelism, completions):
            spec = {**_counts(parallelism, completions), "template": _template(directives)}
            return {"metadata": {**precondition, "annotations": {STOPPING: None}}, "spec": spec}
        case WorkloadRewrite(spec=raw):
            return {"metadata": precondition, "spec": raw}
        case Owners(owners, controller):
            references = [_reference(owner, controller) for owner in owners]
            return {"metadata": {**precondition, "ownerReferences": references}}
        case Annotations(values):
            return {"metadata": {**precondition, "annotations": dict(values)}}


def pod_start(start: PodStart, precondition: dict[str, str]) -> list[dict[str, Any]]:
    """A JSON patch: it names what it takes away, so that no change of the pod's status can get in its way."""
    tests = {f"/metadata/{name}": value for name, value in precondition.items()}
    tests |= {f"/spec/schedulingGates/{index}/name": gate for index, gate in start.gates}
    return [
        *({"op": "test", "path": path, "value": value} for path, value in tests.items()),
        *_additions(start),
        *({"op": "remove", "path": f"/spec/schedulingGates/{index}"} for index, _ in reversed(start.gates)),
    ]


def reserving(reservation: QueueReservation) -> PodStart:
    stamp = Directives(annotations={RESERVED_AT: format_time(reservation.at)})
    return PodStart(stamp, reservation.gates, has_annotations=reservation.has_annotations)


def _additions(start: PodStart) -> Iterator[dict[str, Any]]:
    given = start.directives
    yield from _entries("/metadata/labels", dict(given.labels), True)
    yield from _entries("/metadata/annotations", dict(given.annotations), start.has_annotations)
    yield from _entries("/spec/nodeSelector", dict(given.node_selector), start.has_selector)
    if given.tolerations and not start.has_tolerations:
        yield {"op": "add", "path": "/spec/tolerations", "value": []}
    for toleration in given.tolerations or ():
        yield {"op": "add", "path": "/spec/tolerations/-", "value": toleration_entry(toleration)}


def _entries(path: str, values: dict[str, str | None], exists: bool) -> Iterator[dict[str, Any]]:
    if values and not exists:
        yield {"op": "add", "path": path, "value": {}}
    for name, value in values.items():
        yield {"op": "add", "path": f"{path}/{name.replace('~', '~0').replace('/', '~1')}", "value": value}


def _counts(parallelism: int | None, completions: int | None) -> dict[str, int]:
    found = {"parallelism": parallelism, "completions": completions}
    return {name: count for name, count in found.items() if count is not None}


def _template(given: Directives) -> dict[str, Any]:
    metadata = {"labels": dict(given.labels), "annotations": dict(given.annotations)}
    spec: dict[str, Any] = {"nodeSelector": dict(given.node_selector)} if given.node_selector else {}
    if given.tolerations is not None:
        spec["tolerations"] = [toleration_entry(toleration) for toleration in given.tolerations]
    return {"metadata": {name: values for name, values in metadata.items() if values}, "spec": spec}


def toleration_entry(toleration: Toleration) -> dict[str, Any]:
    """As a manifest writes it."""
    entry: dict[str, Any] = {"operator": "Exists" if toleration.exists else "Equal"}
    if toleration.key:
        entry["key"] = toleration.key
    if toleration.value:
        entry["value"] = toleration.value
    if toleration.effect is not None:
        entry["effect"] = toleration.effect.value
    if toleration.seconds is not None:
        entry["tolerationSeconds"] = toleration.seconds
    return entry


def _reference(owner: Target, controller: Target | None) -> dict[str, Any]:
    resource = RESOURCES[owner.key.kind]
    reference = {
        "apiVersion": resource.api_version,
        "kind": resource.kind_name,
        "name": owner.key.name,
        "uid": owner.uid,
    }
    return {**reference, "controller": True, "blockOwnerDeletion": True} if owner == controller else reference
