"""Decodes what makes pods (Jobs, CronJobs, replicas, templates) and Services, and says who controls a pod."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from headgate.api.kinds import RESOURCES
from headgate.api.pod_sets import pod_template
from headgate.api.wire import (
    Buffer,
    Int32,
    InvalidField,
    InvalidObject,
    Wire,
    WireConditionStatus,
    WireMetadata,
    WireOwnerReference,
    WireVerbatimSpec,
    invalid_field,
    is_true,
    time_at,
)
from headgate.model.effects import Create
from headgate.model.keys import Key, Kind, Target
from headgate.model.kueue_names import MULTIKUEUE, QUEUE_NAME
from headgate.model.node import Selector
from headgate.model.objects import CronJob, Job, JobIndexes, ReplicaOwner, Replicas, Service, StatefulSet
from headgate.model.pod import PodTemplate
from headgate.model.selectors import InvalidSelector, Operator, Requirement, label_selector

_OWNERS = {
    ("apps/v1", "ReplicaSet"): Kind.REPLICA_SET,
    ("apps/v1", "StatefulSet"): Kind.STATEFUL_SET,
    ("apps/v1", "Deployment"): Kind.DEPLOYMENT,
    ("v1", "ReplicationController"): Kind.REPLICATION_CONTROLLER,
    ("batch/v1", "CronJob"): Kind.CRON_JOB,
}

DEFAULT_BACKOFF_LIMIT = 6
ENDINGS = ("Complete", "Failed")
_INDEX = re.compile(r"[0-9]{1,10}")
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
POD_TEMPLATE_HASH = "pod-template-hash"


class WireLabelsSpec(Wire, frozen=True):
    """Services and ReplicationControllers select by labels alone."""

    selector: dict[str, str] | None = None


class WireLabelled(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireLabelsSpec = WireLabelsSpec()


class WireSelectorSpec(Wire, frozen=True):
    selector: dict[str, Any] | None = None


class WireReplicasSpec(WireSelectorSpec, frozen=True):
    replicas: int | None = None
    template: Raw = Raw()


class WireReplicas(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireReplicasSpec = WireReplicasSpec()


class WireStatefulSetSpec(WireReplicasSpec, frozen=True):
    pod_management_policy: str = ""


class WireStatefulSet(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireStatefulSetSpec = WireStatefulSetSpec()


class WireCronJobSpec(Wire, frozen=True):
    schedule: str = ""
    job_template: Raw = Raw()
    time_zone: str | None = None
    suspend: bool | None = None
    concurrency_policy: str = "Allow"
    starting_deadline_seconds: int | None = None
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class WireCronJobStatus(Wire, frozen=True):
    last_schedule_time: str | None = None


class WireCronJob(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireCronJobSpec = WireCronJobSpec()
    status: WireCronJobStatus = WireCronJobStatus()


_cron_jobs = msgspec.json.Decoder(WireCronJob)
_by_labels = msgspec.json.Decoder(WireLabelled)
_replicas = msgspec.json.Decoder(WireReplicas)
_stateful_sets = msgspec.json.Decoder(WireStatefulSet)
_specs = msgspec.json.Decoder(WireVerbatimSpec)


def controller(metadata: WireMetadata) -> Target | None:
    """The controller of the pod, if that is of a known kind."""
    for reference in metadata.owner_references or ():
        if reference.controller:
            kind = _kind_of(reference)
            return Target(Key(kind, metadata.namespace, reference.name), reference.uid) if kind else None
    return None


def is_of_daemon_set(metadata: WireMetadata) -> bool:
    for each in metadata.owner_references or ():
        if each.kind == "DaemonSet" and each.api_version == "apps/v1" and each.controller:
            return True
    return False


def decode_service(raw: Buffer) -> Service:
    wire = _by_labels.decode(raw)
    metadata = wire.metadata
    return Service(metadata.key(Kind.SERVICE), metadata.uid, metadata.resource_version, wire.spec.selector or {})


def decode_replication_controller(raw: Buffer) -> ReplicaOwner:
    wire = _by_labels.decode(raw)
    metadata, labels = wire.metadata, sorted((wire.spec.selector or {}).items())
    selector = tuple(Requirement(key, Operator.IN, (value,)) for key, value in labels)
    return ReplicaOwner(metadata.key(Kind.REPLICATION_CONTROLLER), metadata.uid, metadata.resource_version, selector)


def decode_replica_owner(kind: Kind) -> Callable[[Buffer], Replicas]:
    """The decoder for ReplicaSets or for Deployments, which look alike from here."""

    def decode(raw: Buffer) -> Replicas:
        wire = _replicas.decode(raw)
        metadata, spec = wire.metadata, wire.spec
        replicas = 1 if spec.replicas is None else spec.replicas
        return Replicas(
            key=metadata.key(kind),
            uid=metadata.uid,
            version=metadata.resource_version,
            selector=_chosen(spec.selector),
            labels=metadata.labels or {},
            owner=controller(metadata),
            replicas=replicas,
            template=spec.template.copy() if spec.template and replicas else Raw(b"{}"),  # old revisions are many
            deleted=metadata.deleted,
            generation=metadata.generation,
        )

    return decode


def decode_stateful_set(raw: Buffer) -> StatefulSet:
    wire = _stateful_sets.decode(raw)
    metadata, spec = wire.metadata, wire.spec
    return StatefulSet(
        key=metadata.key(Kind.STATEFUL_SET),
        uid=metadata.uid,
        version=metadata.resource_version,
        selector=_chosen(spec.selector),
        labels=metadata.labels or {},
        owner=controller(metadata),
        annotations=metadata.annotations or {},
        replicas=1 if spec.replicas is None else spec.replicas,
        template=spec.template.copy() if spec.template else Raw(b"{}"),  # a copy, or it would keep the message alive
        pods=pod_template(spec.template, metadata.namespace, "$.spec.template") if spec.template else PodTemplate(),
        in_order=spec.pod_management_policy != "Parallel",
        deleted=metadata.deleted,
        spec=_specs.decode(raw).spec.copy() if QUEUE_NAME in (metadata.labels or {}) else Raw(b""),
    )


def decode_cron_job(raw: Buffer) -> CronJob:
    wire = _cron_jobs.decode(raw)
    metadata, spec = wire.metadata, wire.spec
    succeeded, failed = spec.successful_jobs_history_limit, spec.failed_jobs_history_limit
    return CronJob(
        key=metadata.key(Kind.CRON_JOB),
        uid=metadata.uid,
        version=metadata.resource_version,
        created=metadata.created,
        schedule=spec.schedule,
        template=spec.job_template.copy() if spec.job_template else Raw(b"{}"),
        time_zone=spec.time_zone or "",
        suspended=bool(spec.suspend),
        concurrency=spec.concurrency_policy,
        starting_deadline=spec.starting_deadline_seconds,
        keeps_succeeded=3 if succeeded is None else succeeded,
        keeps_failed=1 if failed is None else failed,
        last_scheduled=time_at("$.status.lastScheduleTime", wire.status.last_schedule_time),
        deleted=metadata.deleted,
    )


def _chosen(selector: dict[str, Any] | None) -> Selector:
    return None if selector is None else _requirements(selector)


def _requirements(selector: dict[str, Any]) -> tuple[Requirement, ...]:
    try:
        return label_selector(selector)
    except InvalidSelector as error:
        raise InvalidField("$.spec.selector", str(error)) from None


def _kind_of(reference: WireOwnerReference) -> Kind | None:
    if reference.kind == "Job" and reference.api_version.startswith("batch/"):
        return Kind.JOB
    return _OWNERS.get((reference.api_version, reference.kind))


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
