"""Claims to storage and devices, and what they are bound to, from the wire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from headgate.api.nodes import WireNodeSelector, node_terms
from headgate.api.wire import Buffer, Int32, InvalidField, Wire, WireMetadata, controller_uid, invalid_field
from headgate.model.claims import (
    AttachLimits,
    Attachment,
    ClaimName,
    DeviceClaim,
    StorageClass,
    Volume,
    VolumeClaim,
)
from headgate.model.keys import Kind

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
CLASS_BEFORE = "volume.beta.kubernetes.io/storage-class"  # goes before the field where it is set
VOLUMES = "$.spec.volumes"


class WireClaimSource(Wire, frozen=True):
    claim_name: str


class WireClaimTemplate(Wire, frozen=True):
    """The template of an ephemeral claim; its content is not read."""


class WirePodVolume(Wire, frozen=True):
    name: str = ""
    persistent_volume_claim: WireClaimSource | None = None
    ephemeral: WireClaimTemplate | None = None


class WirePodResourceClaim(Wire, frozen=True):
    """One of spec.resourceClaims: a claim by its name, or one made from a template."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class WirePodResourceClaimStatus(Wire, frozen=True):
    """Which claim was made for an entry; none at all when it needs none."""

    name: str
    resource_claim_name: str | None = None


class WireVolumeClaimSpec(Wire, frozen=True):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] | None = None


class WireVolumeClaimStatus(Wire, frozen=True):
    phase: str = ""


class WireVolumeClaim(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireVolumeClaimSpec = WireVolumeClaimSpec()
    status: WireVolumeClaimStatus = WireVolumeClaimStatus()


class WireCsiSource(Wire, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class WireVolumeNodeAffinity(Wire, frozen=True):
    required: WireNodeSelector | None = None


class WireVolumeSpec(Wire, frozen=True):
    node_affinity: WireVolumeNodeAffinity | None = None
    csi: WireCsiSource | None = None


class WireVolume(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireVolumeSpec = WireVolumeSpec()


class WireStorageClass(Wire, frozen=True):
    metadata: WireMetadata
    volume_binding_mode: str | None = None


class WireAllocation(Wire, frozen=True):
    node_selector: WireNodeSelector | None = None


class WireDeviceClaimStatus(Wire, frozen=True):
    allocation: WireAllocation | None = None


class WireDeviceClaim(Wire, frozen=True):
    metadata: WireMetadata
    status: WireDeviceClaimStatus = WireDeviceClaimStatus()


class WireDriverAllocatable(Wire, frozen=True):
    count: Int32 | None = None


class WireCsiDriver(Wire, frozen=True):
    name: str
    allocatable: WireDriverAllocatable | None = None


class WireCsiNodeSpec(Wire, frozen=True):
    drivers: list[WireCsiDriver] | None = None


class WireCsiNode(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireCsiNodeSpec = WireCsiNodeSpec()


_volumes_of_pods = msgspec.json.Decoder(list[WirePodVolume] | None)
_volume_claims = msgspec.json.Decoder(WireVolumeClaim)
_volumes = msgspec.json.Decoder(WireVolume)
_storage_classes = msgspec.json.Decoder(WireStorageClass)
_device_claims = msgspec.json.Decoder(WireDeviceClaim)
_csi_nodes = msgspec.json.Decoder(WireCsiNode)


def volume_claims_named(raw: bytes, pod: str) -> tuple[ClaimName, ...]:
    """The claims that spec.volumes of a pod of that name stands for, each once; most pods have none at all."""
    if b'"persistentVolumeClaim"' not in raw and b'"ephemeral"' not in raw:
        return ()
    try:
        volumes = _volumes_of_pods.decode(raw)
    except msgspec.DecodeError as error:
        field = invalid_field(error)
        raise InvalidField(field.path.replace("$", VOLUMES, 1), field.expected) from None
    return tuple(dict.fromkeys(_volume_claims_named(volumes or (), pod)))


def _volume_claims_named(volumes: Sequence[WirePodVolume], pod: str) -> Iterator[ClaimName]:
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            yield ClaimName(Kind.VOLUME_CLAIM, volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            yield ClaimName(Kind.VOLUME_CLAIM, f"{pod}-{volume.name}", made_for_pod=True)


def device_claims_named(
    entries: Sequence[WirePodResourceClaim], statuses: Sequence[WirePodResourceClaimStatus]
) -> Iterator[ClaimName]:
    """The claims that spec.resourceClaims stands for; status.resourceClaimStatuses tells the names of those made."""
    made = {status.name: status.resource_claim_name for status in statuses}
    for entry in entries:
        if entry.resource_claim_name is not None:
            yield ClaimName(Kind.DEVICE_CLAIM, entry.resource_claim_name)
        elif entry.name not in made:
            yield ClaimName(Kind.DEVICE_CLAIM, "", made_for_pod=True)
        elif (name := made[entry.name]) is not None:
            yield ClaimName(Kind.DEVICE_CLAIM, name, made_for_pod=True)


def decode_volume_claim(raw: Buffer) -> VolumeClaim:
    wire = _volume_claims.decode(raw)
    metadata, spec = wire.metadata, wire.spec
    notes = metadata.annotations or {}
    return VolumeClaim(
        key=metadata.key(Kind.VOLUME_CLAIM),
        uid=metadata.uid,
        version=metadata.resource_version,
        volume=spec.volume_name,
        bound=bool(spec.volume_name) and BIND_COMPLETED in notes,
        lost=wire.status.phase == "Lost",
        storage_class=notes.get(CLASS_BEFORE, spec.storage_class_name or ""),
        single_pod="ReadWriteOncePod" in (spec.access_modes or ()),
        owner=controller_uid(metadata),
        deleted=metadata.deleted,
    )


def decode_volume(raw: Buffer) -> Volume:
    wire = _volumes.decode(raw)
    affinity, csi = wire.spec.node_affinity, wire.spec.csi
    return Volume(
        key=wire.metadata.key(Kind.VOLUME),
        uid=wire.metadata.uid,
        version=wire.metadata.resource_version,
        labels=wire.metadata.labels or {},
        terms=node_terms(affinity.required) if affinity else None,
        attachment=Attachment(csi.driver, csi.volume_handle) if csi and csi.driver and csi.volume_handle else None,
    )


def decode_storage_class(raw: Buffer) -> StorageClass:
    wire = _storage_classes.decode(raw)
    return StorageClass(
        key=wire.metadata.key(Kind.STORAGE_CLASS),
        uid=wire.metadata.uid,
        version=wire.metadata.resource_version,
        waits=wire.volume_binding_mode == "WaitForFirstConsumer",
    )


def decode_device_claim(raw: Buffer) -> DeviceClaim:
    wire = _device_claims.decode(raw)
    allocation = wire.status.allocation
    return DeviceClaim(
        key=wire.metadata.key(Kind.DEVICE_CLAIM),
        uid=wire.metadata.uid,
        version=wire.metadata.resource_version,
        allocated=allocation is not None,
        terms=node_terms(allocation.node_selector) if allocation else None,
        owner=controller_uid(wire.metadata),
        deleted=wire.metadata.deleted,
    )


def decode_csi_node(raw: Buffer) -> AttachLimits:
    wire = _csi_nodes.decode(raw)
    room = {driver.name: driver.allocatable.count for driver in wire.spec.drivers or () if driver.allocatable}
    return AttachLimits(
        key=wire.metadata.key(Kind.CSI_NODE),
        uid=wire.metadata.uid,
        version=wire.metadata.resource_version,
        most={driver: count for driver, count in room.items() if count is not None},
    )
