"""Decodes Jobs and pod templates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from headgate.api.errors import InvalidObject, invalid_field
from headgate.api.kinds import RESOURCES
from headgate.api.owners import controller
from headgate.api.pod_sets import pod_template
from headgate.api.wire import Buffer, Int32, Wire, WireConditionStatus, WireMetadata, is_true, time_at
from headgate.model.effects import Create
from headgate.model.keys import Key, Kind
from headgate.model.objects import Job
from headgate.model.owners import StatefulSet

DEFAULT_BACKOFF_LIMIT = 6
ENDINGS = ("Complete", "Failed")
_INDEX = re.compile(r"[0-9]{1,10}")


class WireJobSpec(Wire, frozen=True):
    template: Raw
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    suspend: bool | None = None
    backoff_limit: Int32 | None = None
    managed_by: str | None = None


class WireUncountedPods(Wire, frozen=True):
    succeeded: list[str] | None = None


class WireJobStatus(Wire, frozen=True):
    active: Int32 = 0
    ready: Int32 | None = None
    terminating: Int32 | None = None
    uncounted_terminated_pods: WireUncountedPods | None = None
    succeeded: Int32 = 0
    failed: Int32 = 0
    failed_indexes: str | None = None
    start_time: str | None = None
    conditions: list[WireConditionStatus] | None = None


class WireJob(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireJobSpec
    status: WireJobStatus = WireJobStatus()


_decoder = msgspec.json.Decoder(WireJob)


def decode_job(raw: Buffer) -> Job:
    wire = _decoder.decode(raw)
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    return Job(
        key=metadata.key(Kind.JOB),
        uid=metadata.uid,
        version=metadata.resource_version,
        labels=metadata.labels or {},
        annotations=metadata.annotations or {},
        template=spec.template.copy(),  # a copy, or it would keep the whole message alive
        created=metadata.created,
        parallelism=1 if spec.parallelism is None else spec.parallelism,
        completions=spec.completions,
        suspended=bool(spec.suspend),
        backoff_limit=DEFAULT_BACKOFF_LIMIT if spec.backoff_limit is None else spec.backoff_limit,
        managed_by=spec.managed_by or "",
        succeeded=status.succeeded,
        failed=status.failed,
        started=time_at("$.status.startTime", status.start_time),
        ended=_ended(status),
        deleted=metadata.deleted,
        pods=pod_template(spec.template, metadata.namespace, "$.spec.template"),
        ended_message=_ended_message(status),
        active=status.active,
        ready=status.ready or 0,
        terminating=status.terminating or 0,
        uncounted_succeeded=_uncounted(status.uncounted_terminated_pods),
        suspension_shown=is_true(status.conditions, "Suspended"),
        owner=controller(metadata) if metadata.owner_references else None,
        generation=metadata.generation,
        failed_indexes=count_indexes(status.failed_indexes or "", spec.completions or 0),
    )


def count_indexes(intervals: str, below: int) -> int:
    """How many indexes below that bound are listed, as in "1,3-5". What comes after a mistake does not count."""
    count, following = 0, 0
    for interval in intervals.split(","):
        first, dash, last = interval.partition("-")
        if not _INDEX.fullmatch(first) or (dash and not _INDEX.fullmatch(last)):
            break
        start, end = int(first), int(last or first)
        if start < following or end < start:
            break
        count, following = count + max(0, min(end + 1, below) - start), end + 1
    return count


def _uncounted(pods: WireUncountedPods | None) -> int:
    return len(pods.succeeded or ()) if pods is not None else 0


def _ended(status: WireJobStatus) -> str:
    return next((end for end in ENDINGS if is_true(status.conditions, end)), "")


def _ended_message(status: WireJobStatus) -> str:
    conditions = status.conditions or ()
    return next((each.message for each in conditions if each.type in ENDINGS and each.status == "True"), "")


class _TemplateMetadata(Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Template(Struct):
    spec: Raw
    metadata: _TemplateMetadata | None = None


def pod_from_template(owner: Job | StatefulSet, name: str, labels: Mapping[str, str]) -> Create:
    """A pod owned by it and labelled as its own; `labels` come on top of the template's."""
    template = _template(owner)
    metadata = template.metadata or _TemplateMetadata()
    manifest = {
        "apiVersion": RESOURCES[Kind.POD].api_version,
        "kind": RESOURCES[Kind.POD].kind_name,
        "metadata": {
            "name": name,
            "namespace": owner.key.namespace,
            "labels": {**(metadata.labels or {}), **_labels_of(owner, name), **labels},
            "annotations": metadata.annotations or {},
            "ownerReferences": [_ownership(owner)],
        },
        "spec": template.spec,
    }
    return Create(Key(Kind.POD, owner.key.namespace, name), Raw(msgspec.json.encode(manifest)))


def _template(owner: Job | StatefulSet) -> _Template:
    try:
        return msgspec.json.decode(memoryview(owner.template), type=_Template)
    except msgspec.DecodeError as error:
        field, key = invalid_field(error), owner.key
        raise InvalidObject(key.kind, key, field.path.replace("$", "$.spec.template", 1), field.expected) from None


def _labels_of(owner: Job | StatefulSet, pod: str) -> dict[str, str]:
    if isinstance(owner, StatefulSet):
        return {"statefulset.kubernetes.io/pod-name": pod, "apps.kubernetes.io/pod-index": pod.rpartition("-")[2]}
    return {
        "batch.kubernetes.io/controller-uid": owner.uid,
        "batch.kubernetes.io/job-name": owner.key.name,
        "controller-uid": owner.uid,
        "job-name": owner.key.name,
    }


def _ownership(owner: Job | StatefulSet) -> dict[str, Any]:
    resource = RESOURCES[owner.key.kind]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind_name,
        "name": owner.key.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
