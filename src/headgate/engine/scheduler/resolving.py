"""Resolves what a pod names: its volume and device claims into demands, its Service or owner into default spreading.

Whether a node meets a demand is decided by the plugins of `placement`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

import msgspec
from msgspec import Struct

from headgate.engine.scheduler.gangs import GangTracker
from headgate.model.claims import (
    AttachLimits,
    ClaimDemands,
    ClaimName,
    DeviceClaim,
    StorageClass,
    Volume,
    VolumeClaim,
    ZoneDemand,
)
from headgate.model.cluster_events import ClusterEvent
from headgate.model.keys import Key, Kind
from headgate.model.node import PeerDemands, Spread
from headgate.model.objects import ClaimObject, Object, OwnerObject, ReplicaOwner, Service
from headgate.model.pod import Pod, PodShape
from headgate.model.selectors import Operator, Requirement
from headgate.model.settings import Point, Profile
from headgate.placement.table import NodeTable
from headgate.placement.volumes import PLACE_LABELS, Attachments

OWNER_KINDS = (Kind.SERVICE, Kind.REPLICATION_CONTROLLER, Kind.REPLICA_SET, Kind.STATEFUL_SET)
SKEWS = (("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5))
"""Topology keys and maxSkew of kube-scheduler's system defaults."""

KEPT_SHAPES = 4096

Selector = tuple[Requirement, ...]
Company = tuple[str, Key | None, tuple[tuple[str, str], ...]]
"""Namespace, controller and labels: all that decides which selectors apply to a pod."""


class DefaultSpreading:
    """Default topology spreading: soft constraints for pods without any, over the pods of their services and owner."""

    def __init__(self) -> None:
        self._services: dict[str, dict[Key, Service]] = {}  # by namespace, those that select anything
        self._owners: dict[Key, ReplicaOwner] = {}
        self._shapes: dict[tuple[PodShape, Company], PodShape | None] = {}  # None: as it is

    def observe(self, found: OwnerObject) -> None:
        match found:
            case Service():
                self._put_service(found)
            case ReplicaOwner():
                known = self._owners.get(found.key)
                self._owners[found.key] = found
                if known is None or known.selector != found.selector:
                    self._shapes.clear()
            case _:
                assert_never(found)

    def lose(self, key: Key, uid: str) -> None:
        if key.kind is Kind.SERVICE:
            known = self._services.get(key.namespace, {}).get(key)
            if known is not None and known.uid == uid:
                self._drop_service(key)
        elif (owner := self._owners.get(key)) is not None and owner.uid == uid:
            del self._owners[key]
            self._shapes.clear()

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod has no constraints and may be selected by a service or have a known owner."""
        if pod.key.namespace not in self._services and (pod.owner is None or pod.owner.key not in self._owners):
            return False
        peers = pod.shape.peers
        return peers is None or not (peers.hard_spread or peers.soft_spread)

    def spread(self, pod: Pod, shape: PodShape) -> PodShape:
        """The shape with the default constraints; the same object where no selector applies."""
        owner = pod.owner.key if pod.owner is not None else None
        company = (pod.key.namespace, owner, tuple(sorted(pod.labels.items())))
        if (shape, company) not in self._shapes:
            self._shapes[shape, company] = _constrained(shape, self._selector(pod))
            if len(self._shapes) > KEPT_SHAPES:
                del self._shapes[next(iter(self._shapes))]
        return self._shapes[shape, company] or shape

    def _selector(self, pod: Pod) -> Selector:
        """All requirements of the services that select the pod and of its controller, each once."""
        found = dict.fromkeys(self._requirements(pod))
        return tuple(sorted(found, key=lambda each: (each.key, each.operator, each.values)))

    def _requirements(self, pod: Pod) -> Iterator[Requirement]:
        owner = self._owners.get(pod.owner.key) if pod.owner is not None else None
        overruled = _overruled(owner)
        for service in self._services.get(pod.key.namespace, {}).values():
            if service.selector.items() <= pod.labels.items():
                labels = [(key, value) for key, value in service.selector.items() if key not in overruled]
                yield from (Requirement(key, Operator.IN, (value,)) for key, value in labels)
        yield from (owner.selector or ()) if owner is not None else ()

    def _put_service(self, service: Service) -> None:
        known = self._services.get(service.key.namespace, {}).get(service.key)
        if known is not None and known.selector == service.selector:
            self._services[service.key.namespace][service.key] = service
        elif service.selector:
            self._services.setdefault(service.key.namespace, {})[service.key] = service
            self._shapes.clear()
        elif known is not None:
            self._drop_service(service.key)

    def _drop_service(self, key: Key) -> None:
        services = self._services[key.namespace]
        del services[key]
        if not services:
            del self._services[key.namespace]
        self._shapes.clear()


def _overruled(owner: ReplicaOwner | None) -> tuple[str, ...]:
    """Labels for which a ReplicationController's selector overrides that of services, as in kube-scheduler."""
    if owner is None or owner.key.kind is not Kind.REPLICATION_CONTROLLER:
        return ()
    return tuple(each.key for each in owner.selector or ())


def _constrained(shape: PodShape, selector: Selector) -> PodShape | None:
    if not selector:
        return None
    soft = tuple(Spread(skew, label, selector, everywhere=True) for label, skew in SKEWS)
    peers = msgspec.structs.replace(shape.peers or PeerDemands(), soft_spread=soft)
    return msgspec.structs.replace(shape, peers=peers)


CLAIM_KINDS = (Kind.STORAGE_CLASS, Kind.VOLUME, Kind.VOLUME_CLAIM, Kind.CSI_NODE, Kind.DEVICE_CLAIM)


class Claims:
    """Volume and device claims as observed; tells the attachments which claim is bound to which volume."""

    def __init__(self, attachments: Attachments) -> None:
        self.attachments = attachments
        self._known: dict[Key, ClaimObject] = {}
        self._claims_of: dict[str, dict[Key, None]] = {}  # by the name of their volume

    def observe(self, found: ClaimObject) -> bool:
        """False when nothing but the version has changed."""
        known = self._known.get(found.key)
        self._known[found.key] = found
        if known is not None and msgspec.structs.replace(known, version=found.version) == found:
            return False
        if isinstance(known, VolumeClaim):
            self._part(known)
        self._take_in(found)
        return True

    def lose(self, key: Key, uid: str) -> bool:
        """False when the object was not known."""
        known = self._known.get(key)
        if known is None or known.uid != uid:
            return False
        del self._known[key]
        if isinstance(known, VolumeClaim):
            self._part(known)
            self.attachments.bind(key, None)
        elif isinstance(known, AttachLimits):
            self.attachments.limit(key.name, {})
        return True

    def volume_claims(self, pod: Pod) -> Iterator[tuple[ClaimName, VolumeClaim | None]]:
        """The volume claims the pod names; None where there is no such claim."""
        for name in pod.shape.claims:
            if name.kind is Kind.VOLUME_CLAIM:
                found = self._known.get(Key(name.kind, pod.key.namespace, name.name))
                yield name, found if isinstance(found, VolumeClaim) else None

    def device_claims(self, pod: Pod) -> Iterator[tuple[ClaimName, DeviceClaim | None]]:
        for name in pod.shape.claims:
            if name.kind is Kind.DEVICE_CLAIM:
                found = self._known.get(Key(name.kind, pod.key.namespace, name.name))
                yield name, found if isinstance(found, DeviceClaim) else None

    def volume(self, name: str) -> Volume | None:
        found = self._known.get(Key(Kind.VOLUME, "", name))
        return found if isinstance(found, Volume) else None

    def storage_class(self, name: str) -> StorageClass | None:
        found = self._known.get(Key(Kind.STORAGE_CLASS, "", name))
        return found if isinstance(found, StorageClass) else None

    def _take_in(self, found: ClaimObject) -> None:
        match found:
            case VolumeClaim():
                self._claims_of.setdefault(found.volume, {})[found.key] = None
                volume = self.volume(found.volume)
                self.attachments.bind(found.key, volume.attachment if volume is not None else None)
            case Volume():
                for claim in self._claims_of.get(found.key.name, ()):
                    self.attachments.bind(claim, found.attachment)
            case AttachLimits():
                self.attachments.limit(found.key.name, found.most)
            case StorageClass() | DeviceClaim():
                pass
            case _:
                assert_never(found)

    def _part(self, claim: VolumeClaim) -> None:
        claims = self._claims_of[claim.volume]
        del claims[claim.key]
        if not claims:
            del self._claims_of[claim.volume]


READS = (*CLAIM_KINDS, *OWNER_KINDS)
SEPARATOR = "__"  # between several zones in one label of a volume
NOTHING = ClaimDemands()


class Unresolved(Struct, frozen=True):
    """No node fits while the claims are as they are, by a plugin that a profile can turn off."""

    rule: str
    why: str
    wake_on: frozenset[ClusterEvent] = frozenset({ClusterEvent.CLAIMS_CHANGED})


class Resolver:
    """The objects that pods may name. A pod that names nothing is returned as it is, at next to no cost."""

    def __init__(self, profiles: Iterable[Profile], attachments: Attachments) -> None:
        self._profiles = {profile.scheduler_name: profile for profile in profiles}
        self._claims = Claims(attachments)
        self._spreading = DefaultSpreading()

    def observe(self, found: Object) -> tuple[ClusterEvent, ...]:
        """The cluster events this causes; spreading is a preference and causes none."""
        if isinstance(found, OwnerObject):
            self._spreading.observe(found)
        elif isinstance(found, ClaimObject) and self._claims.observe(found):
            return (ClusterEvent.CLAIMS_CHANGED,)
        return ()

    def lose(self, key: Key, uid: str) -> tuple[ClusterEvent, ...]:
        """The cluster events this causes."""
        if key.kind in OWNER_KINDS:
            self._spreading.lose(key, uid)
        elif key.kind in CLAIM_KINDS and self._claims.lose(key, uid):
            return (ClusterEvent.CLAIMS_CHANGED,)
        return ()

    def resolve(self, pod: Pod) -> Pod | Unresolved:
        """The pod as it is to be placed; the same object where it names nothing."""
        shape, spreads = pod.shape, self._spreading.concerns(pod)
        if not shape.claims and not spreads:
            return pod
        if shape.claims:
            for unmet in self._unmet(pod):
                if self._profiles[pod.scheduler_name].has_on(unmet.rule, Point.FILTER):
                    return unmet
            shape = self._with_demands(pod)
        if spreads:
            shape = self._spreading.spread(pod, shape)
        return pod if shape is pod.shape else msgspec.structs.replace(pod, shape=shape)

    def _unmet(self, pod: Pod) -> Iterator[Unresolved]:
        """All that must change first, in kube-scheduler's order."""
        volumes = list(self._claims.volume_claims(pod))
        for name, claim in volumes:
            if (why := _unusable(pod, name, claim)) is not None:
                yield Unresolved("VolumeBinding", why)
        for _, claim in volumes:
            if claim is not None and not claim.bound:
                yield Unresolved("VolumeBinding", self._unbound(claim))
        for _, claim in volumes:
            if claim is not None and claim.bound and self._claims.volume(claim.volume) is None:
                yield Unresolved("VolumeZone", f'persistentvolume "{claim.volume}" not found')
        for name, device_claim in self._claims.device_claims(pod):
            if (why := _unallocated(pod, name, device_claim)) is not None:
                yield Unresolved("DynamicResources", why)

    def _unbound(self, claim: VolumeClaim) -> str:
        chosen = self._claims.storage_class(claim.storage_class)
        if claim.volume or chosen is None or not chosen.waits:
            return "pod has unbound immediate PersistentVolumeClaims"
        return (
            f'persistentvolumeclaim "{claim.key.name}" waits for a pod to be given a node (storageclass '
            f'"{claim.storage_class}"), but this scheduler neither binds nor provisions volumes'
        )

    def _with_demands(self, pod: Pod) -> PodShape:
        """The shape with demands in place of names, so that pods whose claims demand the same have equal shapes."""
        demands = self._demands(pod)
        return msgspec.structs.replace(pod.shape, claims=(), bound_to=None if demands == NOTHING else demands)

    def _demands(self, pod: Pod) -> ClaimDemands:
        claims = [claim for _, claim in self._claims.volume_claims(pod) if claim is not None]
        found = [self._claims.volume(claim.volume) for claim in claims if claim.bound]
        volumes = [volume for volume in found if volume is not None]
        devices = [claim for _, claim in self._claims.device_claims(pod) if claim is not None]
        attachments = self._claims.attachments
        attached = {each.attachment for each in volumes if each.attachment is not None}
        return ClaimDemands(
            volumes=tuple(dict.fromkeys(volume.terms for volume in volumes if volume.terms is not None)),
            zones=tuple(dict.fromkeys(zone for volume in volumes for zone in _zones(volume.labels))),
            devices=tuple(dict.fromkeys(claim.terms for claim in devices if claim.terms is not None)),
            attachments=tuple(sorted(each for each in attached if attachments.is_limited(each.driver))),
            taken=any(claim.single_pod and attachments.uses(claim.key) for claim in claims),
        )


def _unusable(pod: Pod, name: ClaimName, claim: VolumeClaim | None) -> str | None:
    if claim is None and name.made_for_pod:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name.name}"'
    if claim is None:
        return f'persistentvolumeclaim "{name.name}" not found'
    if claim.lost:
        return f'persistentvolumeclaim "{name.name}" bound to non-existent persistentvolume "{claim.volume}"'
    if claim.deleted is not None:
        return f'persistentvolumeclaim "{name.name}" is being deleted'
    if name.made_for_pod and claim.owner != pod.uid:
        return f"PVC {_place(claim.key)} was not created for pod {_place(pod.key)} (pod is not owner)"
    return None


def _unallocated(pod: Pod, name: ClaimName, claim: DeviceClaim | None) -> str | None:
    if not name.name:
        return f'pod "{_place(pod.key)}": ResourceClaim not created yet'
    if claim is None:
        return f'resourceclaim "{name.name}" not found'
    if claim.deleted is not None:
        return f'resourceclaim "{name.name}" is being deleted'
    if name.made_for_pod and claim.owner != pod.uid:
        return f"ResourceClaim {_place(claim.key)} was not created for Pod {_place(pod.key)} (Pod is not owner)"
    if not claim.allocated:
        return f'resourceclaim "{name.name}" is not allocated yet, and this scheduler allocates no devices'
    return None


def _place(key: Key) -> str:
    return f"{key.namespace}/{key.name}"


def _zones(labels: Mapping[str, str]) -> Iterator[ZoneDemand]:
    """The zones a volume's labels name; a label with an empty entry is ignored."""
    for label in PLACE_LABELS:
        values = [value.strip() for value in labels[label].split(SEPARATOR)] if label in labels else []
        if values and all(values):
            yield ZoneDemand(label, tuple(sorted(set(values))))


class PodResolver:
    """Resolves what a pod names, and keeps a late member of a gang with a topology to where the gang runs."""

    def __init__(self, resolver: Resolver, gangs: GangTracker, nodes: NodeTable) -> None:
        self._resolver = resolver
        self._gangs = gangs
        self._nodes = nodes

    def resolve(self, pod: Pod) -> Pod | Unresolved:
        resolved = self._resolver.resolve(pod)
        if pod.group is None or isinstance(resolved, Unresolved):
            return resolved
        topology = self._gangs.topology(pod.group)
        names = self._gangs.nodes_of(pod.group) if topology else ()
        nodes = [node for name in names if (node := self._nodes.get(name)) is not None and topology in node.labels]
        if not nodes:
            return resolved
        selector = tuple(sorted({*pod.shape.node_selector, (topology, nodes[0].labels[topology])}))
        return msgspec.structs.replace(resolved, shape=msgspec.structs.replace(resolved.shape, node_selector=selector))

    def names_nothing(self, pod: Pod) -> bool:
        return self.resolve(pod) is pod
