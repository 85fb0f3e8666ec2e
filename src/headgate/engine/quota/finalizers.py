"""Queues, flavors and checks do not go while they are in use: they carry a finalizer, taken off when nobody does."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.engine.quota.rests import Rests
from headgate.engine.quota.surroundings import QuotaSurroundings
from headgate.engine.quota.tally import Tally
from headgate.model.effects import Finalizers, PatchSpec
from headgate.model.events import Trouble
from headgate.model.keys import Key, Kind, Target
from headgate.model.kueue_names import IN_USE
from headgate.model.queues import AdmissionCheck, ClusterQueue, ResourceFlavor
from headgate.queueing.backoff import Backoff

KEPT = frozenset({Kind.CLUSTER_QUEUE, Kind.RESOURCE_FLAVOR, Kind.ADMISSION_CHECK})
Kept = ClusterQueue | ResourceFlavor | AdmissionCheck


class InUse:
    """One write at a time for each object, made from the version last seen."""

    def __init__(self, surroundings: QuotaSurroundings, tally: Tally, backoff: Backoff) -> None:
        self._surroundings = surroundings
        self._tally = tally
        self._touched: dict[Key, None] = {}
        self._sent: dict[Key, PatchSpec] = {}
        self._rests = Rests(backoff)

    def touch(self, key: Key) -> None:
        if key.kind in KEPT:
            self._touched[key] = None

    def lose(self, key: Key) -> None:
        self._touched.pop(key, None)
        self._sent.pop(key, None)
        self._rests.forget(key)

    def touch_leaving(self) -> None:
        """Something else is used than before: those that are to go may be free to."""
        around = self._surroundings
        for known in (around.queues, around.flavors, around.checks):
            self._touched.update((one.key, None) for one in known.values() if one.deleted is not None)

    def answered(self, patch: PatchSpec, trouble: Trouble | None, now: float) -> None:
        """What did not take hold is decided anew when a newer version is seen, and after a rest at the latest."""
        key = patch.target.key
        if self._sent.get(key) != patch:
            return
        if trouble not in (None, Trouble.REFUSED, Trouble.GONE):
            self._rests.begin(key, now)
            return
        self._rests.forget(key)
        if trouble is not None:
            del self._sent[key]

    def is_under_way(self, key: Key) -> bool:
        """A write is not seen yet, so any other write would be refused."""
        sent = self._sent.get(key)
        found = self._find(key) if sent is not None else None
        return sent is not None and found is not None and found.version == sent.target.version

    def settle(self, now: float) -> Iterator[PatchSpec]:
        for key in self._rests.over(now):
            self._sent.pop(key, None)
            self._touched[key] = None
        for name in self._tally.changed_queues:
            queue = self._surroundings.queues.get(name)
            if queue is not None and queue.deleted is not None:
                self._touched[queue.key] = None
        if not self._touched:
            return
        touched, self._touched = self._touched, {}
        for key in touched:
            found = self._find(key)
            if found is not None:
                yield from self._news(found)

    def next_deadline(self) -> float | None:
        return self._rests.next_deadline()

    def _news(self, found: Kept) -> Iterator[PatchSpec]:
        names = self._wanted(found)
        if names == found.finalizers:
            return
        patch = PatchSpec(Target(found.key, found.uid, found.version), Finalizers(names))
        if self._sent.get(found.key) != patch:
            self._sent[found.key] = patch
            self._rests.cut_short(found.key)
            yield patch

    def _wanted(self, found: Kept) -> tuple[str, ...]:
        others = tuple(name for name in found.finalizers if name != IN_USE)
        if found.deleted is None:
            return found.finalizers if IN_USE in found.finalizers else (*others, IN_USE)
        return found.finalizers if self._is_used(found) else others

    def _is_used(self, found: Kept) -> bool:
        queues = self._surroundings.queues.values()
        match found:
            case ClusterQueue(name=name):
                return self._tally.queue(name).reserving > 0
            case ResourceFlavor(name=name):
                return any(
                    quotas.flavor == name for queue in queues for group in queue.groups for quotas in group.flavors
                )
            case AdmissionCheck(key=key):
                return any(check.name == key.name for queue in queues for check in queue.checks)

    def _find(self, key: Key) -> Kept | None:
        match key.kind:
            case Kind.CLUSTER_QUEUE:
                return self._surroundings.queues.get(key.name)
            case Kind.RESOURCE_FLAVOR:
                return self._surroundings.flavors.get(key.name)
            case _:
                return self._surroundings.checks.get(key.name)
