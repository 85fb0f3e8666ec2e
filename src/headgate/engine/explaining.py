"""Why a pod waits: told once for each reason, in the journal and on the object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from headgate.engine import telling
from headgate.engine.journal import Entry, Journal
from headgate.engine.retries import Retries
from headgate.model.effects import EmitEvent, PatchStatus, PodCondition
from headgate.model.keys import Key
from headgate.model.pod import Pod, ScheduledCondition
from headgate.placement.placer import NoPlacement

Told = PatchStatus | EmitEvent


class Explaining:
    """The PodScheduled condition of every pod that waits.

    What was written last counts, seen or not: the object may still show something older, and an older text that was
    lost must not be written again after a newer one.
    """

    def __init__(self, journal: Journal, retries: Retries) -> None:
        self._journal = journal
        self._retries = retries
        self._told: dict[Key, ScheduledCondition] = {}

    def refused(self, pod: Pod, found: NoPlacement, remedy: str, now: float) -> Iterator[Told]:
        """Nothing when it is what was said last."""
        entry = telling.refused(pod, found, remedy, now)
        if self._told.get(pod.key) == _condition(entry):
            return
        self._journal.write(entry)
        effects = list(telling.condition_and_event(self._as_told(pod), entry))
        yield from self._tell(pod.key, _condition(entry), effects)

    def gated(self, pod: Pod, entry: Entry) -> Iterator[Told]:
        self._journal.write(entry)
        effects = list(telling.gated_condition_and_event(self._as_told(pod), entry))
        yield from self._tell(pod.key, _condition(entry), effects)

    def released(self, pod: Pod, now: float) -> None:
        """Nothing holds the pod any more; what its condition says is for its first attempt, or `queued`."""
        self._journal.write(telling.released(pod, now))

    def queued(self, pod: Pod) -> Iterator[Told]:
        """The pod waits for its turn and for nothing else."""
        patch = telling.queued(pod)
        assert isinstance(patch.change, PodCondition)
        yield from self._tell(pod.key, _shown(patch.change), [patch])

    def still_says(self, pod: Key, condition: PodCondition) -> bool:
        """Whether this is what was said of the pod last."""
        return self._told.get(pod) == _shown(condition)

    def forget(self, key: Key) -> None:
        """It waits no longer."""
        self._told.pop(key, None)

    def _as_told(self, pod: Pod) -> Pod:
        told = self._told.get(pod.key)
        return pod if told is None else msgspec.structs.replace(pod, scheduled=told)

    def _tell(self, pod: Key, condition: ScheduledCondition, effects: Iterable[Told]) -> Iterator[Told]:
        self._told[pod] = condition
        for effect in effects:
            if isinstance(effect, PatchStatus):
                self._retries.settled(effect)  # an older text must not come after this one
            yield effect


def _condition(entry: Entry) -> ScheduledCondition:
    return ScheduledCondition("False", entry.reason, entry.message)


def _shown(condition: PodCondition) -> ScheduledCondition:
    return ScheduledCondition(condition.status, condition.reason, condition.message)
