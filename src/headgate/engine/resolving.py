"""From what a pod names to what placing it understands: the demands of its claims, and how it is spread by default.

What stands here concerns the pod as a whole; what a demand means for a node is for the rules of `placement` to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct

from headgate.engine.claims import CLAIM_KINDS, Claims
from headgate.engine.default_spreading import OWNER_KINDS, DefaultSpreading
from headgate.model.claims import ClaimDemands, ClaimName, DeviceClaim, VolumeClaim, ZoneDemand
from headgate.model.happenings import Happening
from headgate.model.keys import Key
from headgate.model.objects import ClaimObject, Object, OwnerObject
from headgate.model.pod import Pod, PodShape
from headgate.model.settings import Point, Profile
from headgate.placement.volumes import PLACE_LABELS, Attachments

READS = (*CLAIM_KINDS, *OWNER_KINDS)
SEPARATOR = "__"  # between several zones in one label of a volume
NOTHING = ClaimDemands()


class Unresolved(Struct, frozen=True):
    """The pod can run nowhere while its claims are as they are; the rule that says so is one a profile can turn off."""

    rule: str
    why: str
    wake_on: frozenset[Happening] = frozenset({Happening.CLAIMS_CHANGED})


class Resolver:
    """Holds what pods may name. A pod that names nothing is handed back as it is, at next to no cost."""

    def __init__(self, profiles: Iterable[Profile], attachments: Attachments) -> None:
        self._profiles = {profile.scheduler_name: profile for profile in profiles}
        self._claims = Claims(attachments)
        self._spreading = DefaultSpreading()

    def observe(self, found: Object) -> tuple[Happening, ...]:
        """What that may mean to pods that wait; how they would be spread keeps none of them waiting."""
        if isinstance(found, OwnerObject):
            self._spreading.observe(found)
        elif isinstance(found, ClaimObject) and self._claims.observe(found):
            return (Happening.CLAIMS_CHANGED,)
        return ()

    def lose(self, key: Key, uid: str) -> tuple[Happening, ...]:
        """What that may mean to pods that wait: with a limit on volumes goes what kept them off."""
        if key.kind in OWNER_KINDS:
            self._spreading.lose(key, uid)
        elif key.kind in CLAIM_KINDS and self._claims.lose(key, uid):
            return (Happening.CLAIMS_CHANGED,)
        return ()

    def resolve(self, pod: Pod) -> Pod | Unresolved:
        """The pod as it is to be placed; the very same where it names nothing."""
        shape = pod.shape
        if shape.claims:
            for unmet in self._unmet(pod):
                if self._profiles[pod.scheduler_name].has_on(unmet.rule, Point.FILTER):
                    return unmet
            shape = self._with_demands(pod)
        if self._spreading.concerns(pod):
            shape = self._spreading.spread(pod, shape)
        return pod if shape is pod.shape else msgspec.structs.replace(pod, shape=shape)

    def _unmet(self, pod: Pod) -> Iterator[Unresolved]:
        """All that must change first, in the order in which kube-scheduler finds it."""
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
        """The demands take the place of the names, so that pods whose claims demand the same have the same shape."""
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
    """Where the labels of a volume say it is; a label with an empty entry says nothing."""
    for label in PLACE_LABELS:
        values = [value.strip() for value in labels[label].split(SEPARATOR)] if label in labels else []
        if values and all(values):
            yield ZoneDemand(label, tuple(sorted(set(values))))
