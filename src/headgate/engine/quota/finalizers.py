"""Finalizers of ClusterQueues, ResourceFlavors and AdmissionChecks: removed when these are deleted and unused."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.engine.in_flight import InFlightWrites, WritePolicy, WriteResult
from headgate.engine.quota.object_cache import QuotaObjectCache
from headgate.engine.quota.queue_usage import QueueUsages
from headgate.model.effects import Finalizers, PatchSpec
from headgate.model.events import WriteError
from headgate.model.keys import Key, Kind, Target
from headgate.model.kueue_names import IN_USE
from headgate.model.queues import AdmissionCheck, ClusterQueue, ResourceFlavor
from headgate.queueing.backoff import Backoff

PATIENCE = 60.0  # seconds an accepted write may stay unobserved
_CLUSTER_QUEUE, _FLAVOR = Kind.CLUSTER_QUEUE, Kind.RESOURCE_FLAVOR  # found sooner than members of enums
KEPT = frozenset({_CLUSTER_QUEUE, _FLAVOR, Kind.ADMISSION_CHECK})
Kept = ClusterQueue | ResourceFlavor | AdmissionCheck


class InUse:
    """Writes finalizers, from the version last observed."""

    def __init__(self, objects: QuotaObjectCache, usage: QueueUsages, backoff: Backoff) -> None:
        self._objects = objects
        self._usage = usage
        self._dirty: dict[Key, None] = {}
        self._deleted_queues: dict[str, None] = {}  # ClusterQueues that are being deleted
        self.writes = InFlightWrites[Key, PatchSpec](WritePolicy(backoff, PATIENCE, resends=False))

    def observe(self, key: Key) -> None:
        """The object is new or in another version."""
        found = self._find(key) if key.kind in KEPT else None
        if found is not None:
            self._dirty[key] = None
            self.writes.observe(key, found.version)
            self._note_queue(key)

    def lose(self, key: Key) -> None:
        self._dirty.pop(key, None)
        self.writes.forget(key)
        self._note_queue(key)

    def _note_queue(self, key: Key) -> None:
        if key.kind is not _CLUSTER_QUEUE:
            return
        queue = self._objects.queues.get(key.name)
        if queue is not None and queue.deleted is not None:
            self._deleted_queues[key.name] = None
        else:
            self._deleted_queues.pop(key.name, None)

    def mark_leaving_dirty(self) -> None:
        """Queues have changed: objects that are being deleted may be unused now."""
        objects = self._objects
        for known in (objects.queues, objects.flavors, objects.checks):
            self._dirty.update((one.key, None) for one in known.values() if one.deleted is not None)

    def answered(self, patch: PatchSpec, trouble: WriteError | None, now: float) -> None:
        """Takes the server's answer. A write that did not take effect is decided anew."""
        key = patch.target.key
        found = self._find(key)
        if found is not None and self.writes.answer(key, patch, trouble, found.version, now) is WriteResult.FORGOTTEN:
            self._dirty[key] = None

    def is_under_way(self, key: Key) -> bool:
        """A write is not observed yet, so another write from this version would conflict."""
        flight = self.writes.get(key)
        found = self._find(key) if flight is not None else None
        return flight is not None and found is not None and found.version == flight.base

    def settle(self, now: float, *, is_due: bool) -> Iterator[PatchSpec]:
        """The finalizers to write now; `is_due` when some deadline may have come."""
        for key, _, _ in self.writes.due(now) if is_due else ():
            self._dirty[key] = None
        for name in self._usage.changed_queues if self._deleted_queues else ():
            if name in self._deleted_queues:
                self._dirty[Key(_CLUSTER_QUEUE, "", name)] = None
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            found = self._find(key)
            if found is not None:
                yield from self._news(found)

    def _news(self, found: Kept) -> Iterator[PatchSpec]:
        names = self._wanted(found)
        if names == found.finalizers:
            return
        patch = PatchSpec(Target(found.key, found.uid, found.version), Finalizers(names))
        flight = self.writes.get(found.key)
        if flight is None or flight.write != patch:
            yield self.writes.send(found.key, patch, found.version)

    def _wanted(self, found: Kept) -> tuple[str, ...]:
        others = tuple(name for name in found.finalizers if name != IN_USE)
        if found.deleted is None:
            return found.finalizers if IN_USE in found.finalizers else (*others, IN_USE)
        return found.finalizers if self._is_used(found) else others

    def _is_used(self, found: Kept) -> bool:
        queues = self._objects.queues.values()
        match found:
            case ClusterQueue(name=name):
                return self._usage.queue(name).reserving > 0
            case ResourceFlavor(name=name):
                return any(
                    quotas.flavor == name for queue in queues for group in queue.groups for quotas in group.flavors
                )
            case AdmissionCheck(key=key):
                return any(check.name == key.name for queue in queues for check in queue.checks)

    def _find(self, key: Key) -> Kept | None:
        if key.kind is _CLUSTER_QUEUE:
            return self._objects.queues.get(key.name)
        return self._objects.flavors.get(key.name) if key.kind is _FLAVOR else self._objects.checks.get(key.name)
