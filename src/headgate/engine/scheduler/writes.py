"""Status patches and evictions that failed and are sent again as they were."""

from __future__ import annotations

from headgate.engine.in_flight import RETRIABLE, InFlightWrites, WritePolicy
from headgate.model.effects import Evict, Nomination, PatchStatus, PodCondition, StatusChange
from headgate.model.events import Outcome, WriteError
from headgate.model.keys import Key

Retried = PatchStatus | Evict
Slot = tuple[type[Retried] | type[StatusChange], Key]


class FailedWrites:
    """At most one write of a kind for an object; each has its own growing back-off.

    Only a write that failed is kept here: the many conditions that succeed at once cost nothing.
    """

    def __init__(self, policy: WritePolicy) -> None:
        self.writes = InFlightWrites[Slot, Retried](policy)

    def add(self, effect: Retried, now: float) -> None:
        self.writes.retry(_slot(effect), effect, now)

    def settled(self, effect: Retried) -> None:
        """This write, or an older one of its kind for the object, took effect or no longer matters."""
        if len(self.writes):
            self.writes.forget(_slot(effect))

    def due(self, now: float) -> list[Retried]:
        """The writes to be sent again, unless the caller settles them."""
        return [effect for _, effect, _ in self.writes.due(now)]


def may_take_hold_later(outcome: Outcome) -> bool:
    """Whether to send again what did not take effect, or perhaps did.

    That a pod waits is written, and a nomination or a mark removed, whatever the pod looks like by now.
    """
    match outcome.effect:
        case (
            PatchStatus(change=Nomination(node=""))
            | PatchStatus(change=PodCondition(type="PodScheduled"))
            | PatchStatus(change=PodCondition(type="DisruptionTarget", status="False"))
        ):
            return outcome.trouble in RETRIABLE or outcome.trouble is WriteError.CONFLICT
    return outcome.trouble in RETRIABLE


def _slot(effect: Retried) -> Slot:
    """A nomination does not take the place of a condition."""
    return type(effect.change) if isinstance(effect, PatchStatus) else Evict, effect.target.key
