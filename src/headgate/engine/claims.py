"""All claims to storage and devices and what they are bound to, as last seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

import msgspec

from headgate.model.claims import AttachLimits, ClaimName, DeviceClaim, StorageClass, Volume, VolumeClaim
from headgate.model.keys import Key, Kind
from headgate.model.objects import ClaimObject
from headgate.model.pod import Pod
from headgate.placement.volumes import Attachments

CLAIM_KINDS = (Kind.STORAGE_CLASS, Kind.VOLUME, Kind.VOLUME_CLAIM, Kind.CSI_NODE, Kind.DEVICE_CLAIM)


class Claims:
    """Finds what a pod names, and keeps the attachments told of which claim stands for which volume."""

    def __init__(self, attachments: Attachments) -> None:
        self.attachments = attachments
        self._known: dict[Key, ClaimObject] = {}
        self._claims_of: dict[str, dict[Key, None]] = {}  # by the name of their volume

    def observe(self, found: ClaimObject) -> bool:
        """Whether that is news: nothing but its version may have changed."""
        known = self._known.get(found.key)
        self._known[found.key] = found
        if known is not None and msgspec.structs.replace(known, version=found.version) == found:
            return False
        if isinstance(known, VolumeClaim):
            self._part(known)
        self._take_in(found)
        return True

    def lose(self, key: Key, uid: str) -> bool:
        """Whether that is news."""
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
        """What the pod's volumes stand for; None where there is no such claim."""
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
