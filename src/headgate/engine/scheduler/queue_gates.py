"""Queue-allocation gates: removed when the queue has capacity and no node fits, and from all pods when they are off."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec
from msgspec import Struct

from headgate.engine.in_flight import RETRIABLE, InFlightWrites, WritePolicy
from headgate.engine.scheduler.queue_capacity import QueueCapacity
from headgate.model.effects import Directives, PatchSpec, PodStart, QueueReservation
from headgate.model.events import WriteError
from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.model.volcano import QUEUE_GATES


class RemovedGates(Struct):
    """A removal that was decided and is not observed yet."""

    pod: Pod  # as observed last
    at: float | None  # since when the pod reserves capacity; None: it does not
    doubtful: bool = False  # an answer was lost: only an observation tells
    refused: bool = False  # the gates are there: they are removed anew after a back-off


class GateRemovals:
    """In-flight removals, at most one per pod. A pod whose gates are being removed counts as one without them.

    A removal is a patch of these gates alone, and is sent again until the server has answered.
    """

    def __init__(self, policy: WritePolicy) -> None:
        self.writes = InFlightWrites[Key, PatchSpec](policy)
        self.removed: dict[Key, RemovedGates] = {}
        self.count = 0  # pods whose gates were removed before they had a node, since the start

    def reserve(self, pod: Pod, now: float) -> PatchSpec:
        """Removes the gates and notes that the pod reserves capacity from now on.

        Gates whose removal is only assumed are removed again: it may not have arrived.
        """
        at = float(now // 1)  # as it will be read again
        pod = self.removed[pod.key].pod if pod.key in self.removed else pod
        return self._send(pod, QueueReservation(at, ours(pod), bool(pod.annotations)), at)

    def release(self, pod: Pod) -> PatchSpec:
        return self._send(pod, PodStart(Directives(), ours(pod)), None)

    def _send(self, pod: Pod, change: QueueReservation | PodStart, at: float | None) -> PatchSpec:
        self.removed[pod.key] = RemovedGates(pod, at)
        self.count += bool(change.gates)
        return self.writes.send(pod.key, PatchSpec(pod.target, change))

    def as_assumed(self, pod: Pod) -> Pod:
        """The pod as observed, with the assumed effect of a removal that it does not show yet."""
        removed = self.removed.get(pod.key)
        if removed is None:
            return pod
        shown = not ours(pod) and (removed.at in (None, pod.reserved_at) or bool(ours(removed.pod)))
        if removed.pod.uid != pod.uid or shown or not pod.wants_node:
            self.forget(pod.key)
            return pod
        removed.pod = pod
        return self.without_gates(pod)

    def without_gates(self, pod: Pod) -> Pod:
        """The pod, perhaps as assumed before, with the effect of its removal."""
        removed = self.removed[pod.key]
        if removed.refused:
            return pod
        gates = tuple(gate for gate in pod.gates if gate not in QUEUE_GATES)
        at = pod.reserved_at if removed.at is None else removed.at
        return msgspec.structs.replace(pod, gates=gates, reserved_at=at)

    def answer(self, patch: PatchSpec, trouble: WriteError | None, now: float) -> Pod | None:
        """Takes in the server's answer; returns the pod as it was observed last if its gates were not removed.

        After a lost answer a conflict may be our own removal: it stays assumed until the truth is observed. One that
        did not arrive is not assumed, if the pod was to reserve capacity: it is decided anew, perhaps with a node. The
        time of a pod without gates counts all the same, and is sent again.
        """
        key = patch.target.key
        flight, removed = self.writes.get(key), self.removed.get(key)
        if flight is None or removed is None or flight.write != patch:
            return None
        removed.doubtful |= trouble is WriteError.UNKNOWN
        failed = trouble is not None and trouble is not WriteError.GONE
        notes_time = isinstance(patch.change, QueueReservation) and not patch.change.gates
        if (failed and notes_time) or (trouble in RETRIABLE and (removed.doubtful or removed.at is None)):
            self.writes.retry(key, patch, now)
        elif trouble is None or (trouble is WriteError.CONFLICT and removed.doubtful):
            self.writes.confirm(key)
        elif removed.at is None and trouble is not WriteError.GONE:
            removed.refused = True
            self.writes.retry(key, patch, now)
            return removed.pod
        else:
            self.forget(key)
            return removed.pod
        return None

    def due(self, now: float) -> list[PatchSpec]:
        """The removals to be sent again; those that were refused are made for the gates as observed last."""
        due = [(self.removed[pod], patch) for pod, patch, _ in self.writes.due(now)]
        return [self.release(removed.pod) if removed.refused else patch for removed, patch in due]

    def forget(self, pod: Key) -> Pod | None:
        """The pod as it was observed last, if a removal of its gates was assumed; it is no longer."""
        removed = self.removed.pop(pod, None)
        if removed is None:
            return None
        self.writes.forget(pod)
        return removed.pod


class QueueGates(Protocol):
    """What becomes of the gates of pods that wait."""

    removals: GateRemovals

    def as_assumed(self, pod: Pod) -> Pod: ...

    def forget(self, pod: Key) -> Pod | None: ...

    def observed(self, pod: Pod) -> list[PatchSpec]:
        """The pod waits, as it is now."""

    def unplaced(self, pods: Iterable[Pod], now: float) -> list[PatchSpec]:
        """Their queue has capacity for these pods, which are to reserve it, and no node fits."""

    def still_removes(self, pod: Key) -> bool:
        """Whether a removal that may not have arrived is to be sent again; otherwise it is decided anew."""


class GatedByQueue:
    """A pod stays gated until its queue has capacity for it; then it is bound, or reserves that capacity."""

    def __init__(self, capacity: QueueCapacity, removals: GateRemovals) -> None:
        self._capacity = capacity
        self.removals = removals
        self.forget = removals.forget

    def as_assumed(self, pod: Pod) -> Pod:
        """A pod that shows its gates in another queue than the one that let it go is gated: that one decides anew."""
        reserving = self._capacity.reservations.get(pod.key)
        if reserving is not None and ours(pod) and self._capacity.queue_of(pod) != reserving.queue:
            self.forget(pod.key)
        return self.removals.as_assumed(pod)

    def observed(self, pod: Pod) -> list[PatchSpec]:
        self._capacity.waits(pod)
        return []

    def unplaced(self, pods: Iterable[Pod], now: float) -> list[PatchSpec]:
        effects: list[PatchSpec] = []
        for pod in pods:
            if pod.key not in self._capacity.in_force and self._capacity.queue_of(pod):
                effects.append(self.removals.reserve(pod, now))
                self._capacity.waits(self.removals.without_gates(pod))
        return effects

    def still_removes(self, pod: Key) -> bool:
        """Not if others have the capacity by now, or the pod is in a queue that has none for it."""
        return pod in self._capacity.in_force or self._capacity.reservations.get(pod) is None


class GatesReleased:
    """Queue-allocation gates are off: every one is removed, whatever else the pod waits for."""

    def __init__(self, removals: GateRemovals) -> None:
        self.removals = removals
        self.as_assumed, self.forget = removals.as_assumed, removals.forget

    def observed(self, pod: Pod) -> list[PatchSpec]:
        return [self.removals.release(pod)] if ours(pod) and pod.key not in self.removals.removed else []

    def unplaced(self, pods: Iterable[Pod], now: float) -> list[PatchSpec]:
        return []

    def still_removes(self, pod: Key) -> bool:
        return True


def queue_gates(gated: bool, capacity: QueueCapacity, policy: WritePolicy) -> QueueGates:
    removals = GateRemovals(policy)
    return GatedByQueue(capacity, removals) if gated else GatesReleased(removals)


def ours(pod: Pod) -> tuple[tuple[int, str], ...]:
    """The queue-allocation gates of the pod and where each stands."""
    return tuple((index, gate) for index, gate in enumerate(pod.gates) if gate in QUEUE_GATES) if pod.gates else ()
