"""When the engine wants to be woken: one alarm for whatever comes first, and a safety net."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headgate.model.effects import WakeAt

TIMER = "scheduling"
FLUSH_AFTER = 300.0  # seconds after which parked pods are tried in any case, should a happening have been missed


class Alarms:
    def __init__(self) -> None:
        self._alarm: float | None = None
        self._flush_at: float | None = None

    def flush_is_due(self, now: float) -> bool:
        """True once, when it is time to try everyone."""
        if self._flush_at is None or self._flush_at > now:
            return False
        self._flush_at = None
        return True

    def wake_later(self, deadlines: Iterable[float | None], anyone_parked: bool, now: float) -> Iterator[WakeAt]:
        """One alarm for whatever comes first; a later one is set when it has rung."""
        if self._alarm is not None and self._alarm <= now:
            self._alarm = None
        earliest = min((at for at in deadlines if at is not None), default=None)
        if earliest is not None and (self._alarm is None or earliest < self._alarm):
            self._alarm = max(earliest, now)
            yield WakeAt(self._alarm, TIMER)
        if self._flush_at is None and anyone_parked:
            self._flush_at = now + FLUSH_AFTER
            yield WakeAt(self._flush_at, TIMER, idle=True)
