"""Decodes Jobs and pod templates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from headgate.api.errors import InvalidObject, invalid_field
from headgate.api.kinds import RESOURCES
from headgate.api.owners import controller
from headgate.api.pod_sets import pod_template
from headgate.api.wire import (
    Buffer,
    Int32,
    Wire,
    WireConditionStatus,
    WireMetadata,
    WireVerbatimSpec,
    is_true,
    time_at,
)
from headgate.model.effects import Create
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import MULTIKUEUE
from headgate.model.objects import CronJob, Job, JobIndexes, Replicas, StatefulSet
from headgate.model.selectors import Requirement

DEFAULT_BACKOFF_LIMIT = 6
ENDINGS = ("Complete", "Failed")
_INDEX = re.compile(r"[0-9]{1,10}")
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
POD_TEMPLATE_HASH = "pod-template-hash"


class WireJobSpec(Wire, frozen=True):
    template: Raw
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    suspend: bool | None = None
    backoff_limit: Int32 | None = None
    managed_by: str | None = None
    completion_mode: str | None = None
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None


class WireUncountedPods(Wire, frozen=True):
    succeeded: list[str] | None = None


class WireJobStatus(Wire, frozen=True):
    active: Int32 = 0
    ready: Int32 | None = None
    terminating: Int32 | None = None
    uncounted_terminated_pods: WireUncountedPods | None = None
    succeeded: Int32 = 0
    failed: Int32 = 0
    completed_indexes: str | None = None
    failed_indexes: str | None = None
    start_time: str | None = None
    conditions: list[WireConditionStatus] | None = None


class WireJob(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireJobSpec
    status: WireJobStatus = WireJobStatus()


_decoder = msgspec.json.Decoder(WireJob)
_specs = msgspec.json.Decoder(WireVerbatimSpec)


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
        failed_indexes=sum(map(len, index_ranges(status.failed_indexes or "", spec.completions or 0))),
        indexes=_indexes(spec, status) if spec.completion_mode == "Indexed" else None,
        spec=_specs.decode(raw).spec.copy() if spec.managed_by == MULTIKUEUE else Raw(b""),
    )


def _indexes(spec: WireJobSpec, status: WireJobStatus) -> JobIndexes:
    completed, failed = status.completed_indexes or "", status.failed_indexes or ""
    return JobIndexes(completed, failed, spec.backoff_limit_per_index, spec.max_failed_indexes)


def index_ranges(listed: str, below: int) -> Iterator[range]:
    """The indexes below that bound in a list such as "1,3-5". What comes after a mistake does not count."""
    following = 0
    for interval in listed.split(","):
        first, dash, last = interval.partition("-")
        if not _INDEX.fullmatch(first) or (dash and not _INDEX.fullmatch(last)):
            return
        start, end = int(first), int(last or first)
        if start < following or end < start:
            return
        following = end + 1
        yield range(start, min(following, below))


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


PodOwner = Job | Replicas


def pod_from_template(owner: PodOwner, name: str, index: int | None = None) -> Create:
    """A pod owned by it and labelled as its own; `index` is that of a pod of an Indexed Job."""
    template = _template(owner)
    metadata = template.metadata or _TemplateMetadata()
    manifest = {
        "apiVersion": RESOURCES[Kind.POD].api_version,
        "kind": RESOURCES[Kind.POD].kind_name,
        "metadata": {
            "name": name,
            "namespace": owner.key.namespace,
            "labels": {**(metadata.labels or {}), **_labels_of(owner, name), **_index_of(index)},
            "annotations": {**(metadata.annotations or {}), **_index_of(index)},
            "ownerReferences": [_ownership(owner)],
        },
        "spec": template.spec,
    }
    return Create(Key(Kind.POD, owner.key.namespace, name), Raw(msgspec.json.encode(manifest)))


def job_from_template(owner: CronJob, name: str, scheduled: str) -> Create:
    """A Job owned by it, for the time it was scheduled at."""
    template = msgspec.json.decode(memoryview(owner.template), type=_Template)
    metadata = template.metadata or _TemplateMetadata()
    manifest = {
        "apiVersion": RESOURCES[Kind.JOB].api_version,
        "kind": RESOURCES[Kind.JOB].kind_name,
        "metadata": {
            "name": name,
            "namespace": owner.key.namespace,
            "labels": metadata.labels or {},
            "annotations": {**(metadata.annotations or {}), SCHEDULED_AT: scheduled},
            "ownerReferences": [_ownership(owner)],
        },
        "spec": template.spec,
    }
    return Create(Key(Kind.JOB, owner.key.namespace, name), Raw(msgspec.json.encode(manifest)))


def replica_set_of(owner: Replicas, name: str, revision: str) -> Create:
    """The ReplicaSet of a Deployment for one revision of its template."""
    template = msgspec.json.decode(memoryview(owner.template), type=dict[str, Any])
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), POD_TEMPLATE_HASH: revision}
    chosen = [_requirement_entry(one) for one in owner.selector or ()]
    manifest = {
        "apiVersion": RESOURCES[Kind.REPLICA_SET].api_version,
        "kind": RESOURCES[Kind.REPLICA_SET].kind_name,
        "metadata": {
            "name": name,
            "namespace": owner.key.namespace,
            "labels": labels,
            "ownerReferences": [_ownership(owner)],
        },
        "spec": {
            "replicas": owner.replicas,
            "selector": {"matchLabels": {POD_TEMPLATE_HASH: revision}, "matchExpressions": chosen},
            "template": {**template, "metadata": {**metadata, "labels": labels}},
        },
    }
    return Create(Key(Kind.REPLICA_SET, owner.key.namespace, name), Raw(msgspec.json.encode(manifest)))


def _requirement_entry(one: Requirement) -> dict[str, Any]:
    entry = {"key": one.key, "operator": one.operator.value}
    return {**entry, "values": list(one.values)} if one.values else entry


def _index_of(index: int | None) -> dict[str, str]:
    return {} if index is None else {COMPLETION_INDEX: str(index)}


def _template(owner: PodOwner) -> _Template:
    try:
        return msgspec.json.decode(memoryview(owner.template), type=_Template)
    except msgspec.DecodeError as error:
        field, key = invalid_field(error), owner.key
        raise InvalidObject(key.kind, key, field.path.replace("$", "$.spec.template", 1), field.expected) from None


def _labels_of(owner: PodOwner, pod: str) -> dict[str, str]:
    if isinstance(owner, StatefulSet):
        return {"statefulset.kubernetes.io/pod-name": pod, "apps.kubernetes.io/pod-index": pod.rpartition("-")[2]}
    if not isinstance(owner, Job):
        return {}
    return {
        "batch.kubernetes.io/controller-uid": owner.uid,
        "batch.kubernetes.io/job-name": owner.key.name,
        "controller-uid": owner.uid,
        "job-name": owner.key.name,
    }


def _ownership(owner: PodOwner | CronJob) -> dict[str, Any]:
    resource = RESOURCES[owner.key.kind]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind_name,
        "name": owner.key.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
