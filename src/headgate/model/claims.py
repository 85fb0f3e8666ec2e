"""Claims of pods to storage and devices, what they are bound to, and what that demands of nodes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from headgate.model.keys import Key, Kind
from headgate.model.node import NodeTerm


class ClaimName(Struct, frozen=True, gc=False):
    """A claim as a pod names it. An empty name: its controller has yet to make it and to tell the pod."""

    kind: Kind  # VOLUME_CLAIM or DEVICE_CLAIM
    name: str
    made_for_pod: bool = False  # made from the pod's own template, so it must be the pod's and no one else's


class VolumeClaim(Struct, frozen=True, gc=False):
    """A PersistentVolumeClaim."""

    key: Key
    uid: str
    version: str
    volume: str = ""  # the volume it is or shall be bound to
    bound: bool = False  # the binding is complete on both sides
    lost: bool = False  # its volume is gone for good
    storage_class: str = ""
    single_pod: bool = False  # ReadWriteOncePod
    owner: str = ""  # the uid of its controller
    deleted: float | None = None


class Attachment(Struct, frozen=True, gc=False, order=True):
    """A volume that a node must attach, by its CSI driver and the name it has there."""

    driver: str
    handle: str


class Volume(Struct, frozen=True, gc=False):
    """A PersistentVolume; `terms` are where it can be reached (None: everywhere)."""

    key: Key
    uid: str
    version: str
    labels: Mapping[str, str]
    terms: tuple[NodeTerm, ...] | None = None
    attachment: Attachment | None = None


class StorageClass(Struct, frozen=True, gc=False):
    key: Key
    uid: str
    version: str
    waits: bool = False  # its claims are bound only when a pod that uses them has a node


class DeviceClaim(Struct, frozen=True, gc=False):
    """A ResourceClaim; `terms` are where the devices allocated to it can be reached (None: everywhere)."""

    key: Key
    uid: str
    version: str
    allocated: bool = False
    terms: tuple[NodeTerm, ...] | None = None
    owner: str = ""  # the uid of its controller
    deleted: float | None = None


class AttachLimits(Struct, frozen=True, gc=False):
    """A CSINode: how many volumes the node of the same name can attach, by driver; none means no limit."""

    key: Key
    uid: str
    version: str
    most: Mapping[str, int]


class ZoneDemand(Struct, frozen=True, gc=False):
    """A node that is in any zone or region must have one of these values for the label."""

    label: str
    values: tuple[str, ...]


class ClaimDemands(Struct, frozen=True, gc=False):
    """What the claims of one pod demand of its node. Of each group of terms one must match."""

    volumes: tuple[tuple[NodeTerm, ...], ...] = ()
    zones: tuple[ZoneDemand, ...] = ()
    devices: tuple[tuple[NodeTerm, ...], ...] = ()
    attachments: tuple[Attachment, ...] = ()  # of drivers that limit them
    taken: bool = False  # a claim that only one pod may use is used by another
