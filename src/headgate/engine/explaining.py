"""Why a pod waits: told once for each reason, in the journal and on the object."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.engine import telling
from headgate.engine.journal import Journal
from headgate.engine.retries import Retries
from headgate.model.effects import EmitEvent, PatchStatus
from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.placement.placer import NoPlacement


class Explaining:
    def __init__(self, journal: Journal, retries: Retries) -> None:
        self._journal = journal
        self._retries = retries
        self._told: dict[Key, str] = {}

    def refused(self, pod: Pod, found: NoPlacement, remedy: str, now: float) -> Iterator[PatchStatus | EmitEvent]:
        """Nothing when it is what was said last."""
        entry = telling.refused(pod, found, remedy, now)
        if self._told.get(pod.key) == entry.message:
            return
        self._told[pod.key] = entry.message
        self._journal.write(entry)
        for effect in telling.condition_and_event(pod, entry):
            if isinstance(effect, PatchStatus):
                self._retries.settled(effect)  # an older text must not come after this one
            yield effect

    def forget(self, key: Key) -> None:
        """It waits no longer."""
        self._told.pop(key, None)
