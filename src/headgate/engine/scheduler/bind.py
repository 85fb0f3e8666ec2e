"""Bindings decided and not observed yet: taken for true until they are seen, or known to have failed."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from headgate.engine.scheduler.plugins import Plugins
from headgate.model.effects import Bind
from headgate.model.events import Outcome, Trouble
from headgate.model.keys import Key
from headgate.queueing.queue import QueuedPodInfo


class Assumption(Struct):
    """A binding we decided and have not observed yet."""

    info: QueuedPodInfo
    bind: Bind
    doubtful: bool = False  # an answer was lost: it may have taken hold, so only an observation or a yes settles it


class Assumptions:
    def __init__(self, profiles: Mapping[str, Plugins]) -> None:
        self._profiles = profiles
        self._assumed: dict[Key, Assumption] = {}
        self._in_flight: dict[Key, Bind] = {}

    def get(self, key: Key) -> Assumption | None:
        return self._assumed.get(key)

    @property
    def in_flight(self) -> int:
        """Bindings sent and not answered yet."""
        return len(self._in_flight)

    def add(self, info: QueuedPodInfo, bind: Bind) -> None:
        self._assumed[bind.target.key] = Assumption(info, bind)
        self.sent(bind)

    def sent(self, bind: Bind) -> None:
        self._in_flight[bind.target.key] = bind

    def answered(self, bind: Bind) -> Assumption | None:
        """The binding was answered; the assumption that rests on it, if it still stands."""
        self._in_flight.pop(bind.target.key, None)
        assumption = self._assumed.get(bind.target.key)
        return assumption if assumption is not None and assumption.bind == bind else None

    def give_back(self, key: Key) -> bool:
        """What a placed pod took hold of before it was bound; False when it had not been placed."""
        assumption = self._assumed.get(key)
        if assumption is None:
            return False
        for rule in self._profiles[assumption.info.pod.scheduler_name].reserve:
            rule.unreserve(key)
        return True

    def settle(self, key: Key) -> Assumption | None:
        """The truth is known: nothing is assumed any more."""
        self._in_flight.pop(key, None)
        return self._assumed.pop(key, None)


def still_in_doubt(assumption: Assumption, outcome: Outcome) -> bool:
    """After a lost answer, a conflict may be our own binding: the room stays taken until the truth is seen."""
    trouble = outcome.trouble
    return trouble is Trouble.UNKNOWN or (assumption.doubtful and trouble is not Trouble.GONE)
