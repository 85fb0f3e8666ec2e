"""MultiKueue as Kubernetes says it: decodes worker clusters and lists of them, and the section of the configuration."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from headgate.api.wire import (
    Buffer,
    InvalidField,
    Wire,
    WireConditions,
    WireMetadata,
    conditions_of,
    duration_field,
)
from headgate.model.keys import Kind
from headgate.model.names import label_value_errors, qualified_name_errors
from headgate.model.queues import MultiKueueCluster, MultiKueueConfig
from headgate.model.settings import MultiKueueSettings

SECTION = "multiKueue"


class WireKubeConfig(Wire, frozen=True):
    location: str
    location_type: Literal["Secret", "Path"] = "Secret"


class WireClusterSource(Wire, frozen=True):
    kube_config: WireKubeConfig | None = None


class WireMultiKueueClusterSpec(Wire, frozen=True):
    cluster_source: WireClusterSource = WireClusterSource()


class WireMultiKueueCluster(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireMultiKueueClusterSpec = WireMultiKueueClusterSpec()
    status: WireConditions = WireConditions()


class WireMultiKueueConfigSpec(Wire, frozen=True):
    clusters: list[str] | None = None


class WireMultiKueueConfig(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireMultiKueueConfigSpec = WireMultiKueueConfigSpec()


_clusters = msgspec.json.Decoder(WireMultiKueueCluster)
_configs = msgspec.json.Decoder(WireMultiKueueConfig)


def decode_multikueue_cluster(raw: Buffer) -> MultiKueueCluster:
    """A cluster that is described by a ClusterProfile has neither a Secret nor a path."""
    wire = _clusters.decode(raw)
    metadata, source = wire.metadata, wire.spec.cluster_source.kube_config
    in_secret = source is not None and source.location_type == "Secret"
    location = "" if source is None else source.location
    return MultiKueueCluster(
        key=metadata.key(Kind.MULTIKUEUE_CLUSTER),
        uid=metadata.uid,
        version=metadata.resource_version,
        secret=location if in_secret else "",
        path="" if in_secret else location,
        conditions=conditions_of(wire.status.conditions),
        generation=metadata.generation,
        deleted=metadata.deleted,
    )


def decode_multikueue_config(raw: Buffer) -> MultiKueueConfig:
    wire = _configs.decode(raw)
    metadata = wire.metadata
    return MultiKueueConfig(
        key=metadata.key(Kind.MULTIKUEUE_CONFIG),
        uid=metadata.uid,
        version=metadata.resource_version,
        clusters=tuple(dict.fromkeys(wire.spec.clusters or ())),
        deleted=metadata.deleted,
    )


class IncrementalDispatcherSection(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    step_size: Annotated[int, Meta(ge=1)] | None = None


class MultiKueueSection(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Kueue's fields, the timeout of KEP-8303, and below that what only we have."""

    gc_interval: str | None = None
    origin: str | None = None
    worker_lost_timeout: str | None = None
    dispatcher_name: str | None = None
    incremental_dispatcher_config: IncrementalDispatcherSection | None = None
    single_cluster_preemption_timeout: str | None = None
    proposal_window: str | None = None
    kube_config_directory: str | None = None


def multikueue_settings(section: MultiKueueSection, *, orchestrated: bool) -> MultiKueueSettings:
    """What the section asks for; raises InvalidField."""
    default, incremental = MultiKueueSettings(), section.incremental_dispatcher_config
    step_size = incremental.step_size if incremental is not None else None
    timeout = _seconds(
        "singleClusterPreemptionTimeout",
        section.single_cluster_preemption_timeout,
        default.single_cluster_preemption_timeout,
    )
    if timeout == 0:
        raise _invalid("singleClusterPreemptionTimeout", "expected a duration above 0s; one cluster preempts at a time")
    return MultiKueueSettings(
        origin=_origin(section.origin, default.origin),
        gc_interval=_seconds("gcInterval", section.gc_interval, default.gc_interval),
        worker_lost_timeout=_seconds("workerLostTimeout", section.worker_lost_timeout, default.worker_lost_timeout),
        dispatcher=_dispatcher(section.dispatcher_name, default.dispatcher),
        step_size=default.step_size if step_size is None else step_size,
        single_cluster_preemption_timeout=timeout,
        proposal_window=_seconds("proposalWindow", section.proposal_window, default.proposal_window),
        orchestrated=orchestrated,
        kubeconfig_directory=_directory(section.kube_config_directory, default.kubeconfig_directory),
    )


def _origin(given: str | None, default: str) -> str:
    """Objects on worker clusters have it as the value of a label."""
    if not given:
        return default
    if wrong := label_value_errors(given):
        raise _invalid("origin", f"expected the value of a label, got {given!r}: {wrong[0]}")
    return given


def _dispatcher(given: str | None, default: str) -> str:
    if not given:
        return default
    if wrong := qualified_name_errors(given):
        raise _invalid("dispatcherName", f"expected the name of a dispatcher, got {given!r}: {wrong[0]}")
    return given


def _directory(given: str | None, default: str) -> str:
    if not given:
        return default
    if not given.startswith("/"):
        raise _invalid("kubeConfigDirectory", f"expected an absolute path such as {default}, got {given!r}")
    return given


def _seconds(name: str, text: str | None, default: float) -> float:
    seconds = duration_field(f"{SECTION}.{name}", text)
    return default if seconds is None else seconds


def _invalid(name: str, expected: str) -> InvalidField:
    return InvalidField(f"{SECTION}.{name}", expected)
