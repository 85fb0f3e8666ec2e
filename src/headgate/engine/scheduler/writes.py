"""Effects that ended in trouble and are to be tried again as they were."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from headgate.model.effects import Bind, Evict, Nomination, PatchStatus, PodCondition, StatusChange, WorkloadStatus
from headgate.model.events import Outcome, Trouble
from headgate.model.keys import Key
from headgate.queueing.backoff import Backoff

Retried = Bind | PatchStatus | Evict
IN_DOUBT = (Trouble.UNAVAILABLE, Trouble.UNKNOWN)
Slot = tuple[type[Retried] | type[StatusChange], Key]


class Retries:
    """At most one effect of a kind for an object; each has its own growing delay."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._pending: dict[Slot, tuple[Retried, int]] = {}
        self._due: list[tuple[float, int, Retried]] = []
        self._sequence = 0

    def add(self, effect: Retried, now: float) -> None:
        last, times = self._pending.get(_slot(effect), (effect, 0))
        times = times + 1 if last == effect else 1
        self._pending[_slot(effect)] = (effect, times)
        self._sequence += 1
        heapq.heappush(self._due, (now + self._backoff.after(times), self._sequence, effect))

    def settled(self, effect: Retried) -> None:
        """This effect, or an older one of its kind for the object, took hold or no longer matters."""
        self._pending.pop(_slot(effect), None)

    def due(self, now: float) -> Iterator[Retried]:
        """Those whose time has come and that still matter."""
        while self._due and self._due[0][0] <= now:
            effect = heapq.heappop(self._due)[2]
            if self._pending.get(_slot(effect), (None, 0))[0] == effect:
                yield effect

    def next_deadline(self) -> float | None:
        return self._due[0][0] if self._due else None


def may_take_hold_later(outcome: Outcome) -> bool:
    """Whether to try again what did not take hold, or perhaps did.

    A workload's status is made anew from what is known then, so anything may help; that a pod waits is said, and a
    nomination or a mark taken back, whatever the pod looks like by now.
    """
    match outcome.effect:
        case PatchStatus(change=WorkloadStatus()):
            return outcome.trouble not in (None, Trouble.GONE)
        case (
            PatchStatus(change=Nomination(node=""))
            | PatchStatus(change=PodCondition(type="PodScheduled"))
            | PatchStatus(change=PodCondition(type="DisruptionTarget", status="False"))
        ):
            return outcome.trouble in (*IN_DOUBT, Trouble.CONFLICT)
    return outcome.trouble in IN_DOUBT


def _slot(effect: Retried) -> Slot:
    """A nomination does not take the place of a condition."""
    return type(effect.change) if isinstance(effect, PatchStatus) else type(effect), effect.target.key
