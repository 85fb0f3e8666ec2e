"""What to ask an API server for each write. Every request names the very object it was decided on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec
from msgspec import Struct

from headgate.api.kinds import RESOURCES, collection_path, object_path
from headgate.api.records import event_manifest, events_path
from headgate.api.statuses import status_of
from headgate.api.work_changes import Merged, merged, pod_start
from headgate.model.effects import (
    Activation,
    Bind,
    Create,
    Delete,
    EmitEvent,
    Evict,
    Finalizers,
    JobProgress,
    PatchSpec,
    PatchStatus,
    PodCondition,
    QueuePriority,
    RemoveGate,
    SpecChange,
    Suspension,
    Unschedulability,
    WorkloadStatus,
    Write,
)
from headgate.model.keys import Target
from headgate.model.queue_changes import QueueStatus
from headgate.model.work_changes import PodStart

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

WrittenWhole = QueueStatus | JobProgress | WorkloadStatus
"""Changes of status whose lists replace what was there."""


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
    """JSON patch finds the gate by its place, so it first makes sure who stands there."""
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
        case Unschedulability(unschedulable):
            return {"metadata": precondition, "spec": {"unschedulable": unschedulable}}
        case Activation(active):
            return {"metadata": precondition, "spec": {"active": active}}
        case QueuePriority(priority):
            return {"metadata": precondition, "spec": {"priority": priority}}
        case Finalizers(names):
            return {"metadata": {**precondition, "finalizers": list(names)}}
        case PodStart():
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
