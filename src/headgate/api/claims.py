"""Claims to storage and devices, and what they are bound to, from the wire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from headgate.api.affinities import NodeSelector, node_terms
from headgate.api.errors import InvalidField, invalid_field
from headgate.api.wire import Buffer, Int32, Metadata, Wire, controller_uid
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


class ClaimSource(Wire, frozen=True):
    claim_name: str


class ClaimTemplate(Wire, frozen=True):
    """What is in it matters to whoever makes the claim."""


class PodVolume(Wire, frozen=True):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: ClaimTemplate | None = None


class DeviceClaimEntry(Wire, frozen=True):
    """One of spec.resourceClaims: a claim by its name, or one made from a template."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class DeviceClaimStatus(Wire, frozen=True):
    """Which claim was made for an entry; none at all when it needs none."""

    name: str
    resource_claim_name: str | None = None


class VolumeClaimSpec(Wire, frozen=True):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] | None = None


class VolumeClaimStatus(Wire, frozen=True):
    phase: str = ""


class VolumeClaimObject(Wire, frozen=True):
    metadata: Metadata
    spec: VolumeClaimSpec = VolumeClaimSpec()
    status: VolumeClaimStatus = VolumeClaimStatus()


class CsiSource(Wire, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Wire, frozen=True):
    required: NodeSelector | None = None


class VolumeSpec(Wire, frozen=True):
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None


class VolumeObject(Wire, frozen=True):
    metadata: Metadata
    spec: VolumeSpec = VolumeSpec()


class StorageClassObject(Wire, frozen=True):
    metadata: Metadata
    volume_binding_mode: str | None = None


class Allocation(Wire, frozen=True):
    node_selector: NodeSelector | None = None


class DeviceClaimProgress(Wire, frozen=True):
    allocation: Allocation | None = None


class DeviceClaimObject(Wire, frozen=True):
    metadata: Metadata
    status: DeviceClaimProgress = DeviceClaimProgress()


class DriverRoom(Wire, frozen=True):
    count: Int32 | None = None


class Driver(Wire, frozen=True):
    name: str
    allocatable: DriverRoom | None = None


class CsiNodeSpec(Wire, frozen=True):
    drivers: list[Driver] | None = None


class CsiNodeObject(Wire, frozen=True):
    metadata: Metadata
    spec: CsiNodeSpec = CsiNodeSpec()


_volumes_of_pods = msgspec.json.Decoder(list[PodVolume] | None)
_volume_claims = msgspec.json.Decoder(VolumeClaimObject)
_volumes = msgspec.json.Decoder(VolumeObject)
_storage_classes = msgspec.json.Decoder(StorageClassObject)
_device_claims = msgspec.json.Decoder(DeviceClaimObject)
_csi_nodes = msgspec.json.Decoder(CsiNodeObject)


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


def _volume_claims_named(volumes: Sequence[PodVolume], pod: str) -> Iterator[ClaimName]:
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            yield ClaimName(Kind.VOLUME_CLAIM, volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            yield ClaimName(Kind.VOLUME_CLAIM, f"{pod}-{volume.name}", made_for_pod=True)


def device_claims_named(
    entries: Sequence[DeviceClaimEntry], statuses: Sequence[DeviceClaimStatus]
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
