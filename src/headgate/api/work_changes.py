"""Patches that start and stop jobs and tie them to their Workloads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.api.kinds import RESOURCES
from headgate.api.wire import format_time
from headgate.model.effects import (
    Annotations,
    Directives,
    JobRestore,
    JobStart,
    JobStop,
    JobSuspend,
    Owners,
    PodStart,
    QueueReservation,
    WorkloadRewrite,
)
from headgate.model.keys import Target
from headgate.model.node import Toleration
from headgate.model.volcano import RESERVED_AT

STOPPING = "kueue.x-k8s.io/stopping"
Merged = JobStart | JobStop | JobSuspend | JobRestore | WorkloadRewrite | Owners | Annotations


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
