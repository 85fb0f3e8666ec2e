"""Services and the controllers of replicas from the wire, and who a pod's controller is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from headgate.api.errors import InvalidField
from headgate.api.pod_sets import pod_template
from headgate.api.wire import Buffer, Wire, WireMetadata, WireOwnerReference, WireVerbatimSpec, time_at
from headgate.model.keys import Key, Kind, Target
from headgate.model.kueue_names import QUEUE_NAME
from headgate.model.node import Selector
from headgate.model.objects import CronJob, ReplicaOwner, Replicas, Service, StatefulSet
from headgate.model.pod import PodTemplate
from headgate.model.selectors import InvalidSelector, Operator, Requirement, label_selector

_OWNERS = {
    ("apps/v1", "ReplicaSet"): Kind.REPLICA_SET,
    ("apps/v1", "StatefulSet"): Kind.STATEFUL_SET,
    ("apps/v1", "Deployment"): Kind.DEPLOYMENT,
    ("v1", "ReplicationController"): Kind.REPLICATION_CONTROLLER,
    ("batch/v1", "CronJob"): Kind.CRON_JOB,
}


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
