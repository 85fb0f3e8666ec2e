"""In-flight writes of the fleet plane, at most one for each object of each cluster."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.engine.in_flight import InFlightWrites, WriteResult
from headgate.engine.integrations.writes import POLICY
from headgate.model.effects import Create, Write
from headgate.model.events import Outcome, WriteError
from headgate.model.keys import Key

HOME = ""
"""Stands for our own cluster where others go by the names of their MultiKueueClusters."""
Place = tuple[str, Key]
"""An object of a cluster."""


class FleetWrites:
    """A write is settled as soon as its object is observed in another version; then what it was for is decided anew."""

    def __init__(self) -> None:
        self.in_flight = InFlightWrites[Place, Write](POLICY)
        self._decided_for: dict[Place, Key] = {}

    def send(self, cluster: str, write: Write, decided_for: Key, version: str) -> bool:
        """Whether the write may be sent now; `version` is that of its object as observed, empty where there is none."""
        place = cluster, object_of(write)
        if place in self._decided_for:
            return False
        self.in_flight.send(place, write, version)
        self._decided_for[place] = decided_for
        return True

    def observe(self, cluster: str, key: Key, version: str) -> None:
        place = cluster, key
        if place in self._decided_for and self.in_flight.observe(place, version) is not WriteResult.PENDING:
            del self._decided_for[place]

    def gone(self, cluster: str, key: Key) -> None:
        """The object is gone; the creation of another of its name stays in flight."""
        flight = self.in_flight.get((cluster, key))
        if flight is not None and flight.base:
            self.forget((cluster, key))

    def decided_for(self, cluster: str, write: Write) -> Key | None:
        """What the write in flight was decided for."""
        return self._decided_for.get((cluster, object_of(write)))

    def answer(self, cluster: str, outcome: Outcome, now: float) -> Key | None:
        """What is to be decided anew, because the write was refused for good."""
        place = cluster, object_of(outcome.effect)
        flight = self.in_flight.get(place)
        if flight is None or place not in self._decided_for:
            return None
        if isinstance(outcome.effect, Create) and outcome.trouble is WriteError.GONE:
            self.in_flight.retry(place, outcome.effect, now)  # there is no such namespace, yet
            return None
        result = self.in_flight.answer(place, outcome.effect, outcome.trouble, flight.base, now)
        if result is None or result is WriteResult.PENDING:
            return None
        decided_for = self._decided_for.pop(place)
        return None if outcome.trouble is WriteError.GONE else decided_for

    def due(self, now: float) -> Iterator[Key]:
        """What is to be decided anew, because nothing more was heard of a write."""
        for place, _, _ in self.in_flight.due(now):
            yield self._decided_for.pop(place)

    def forget(self, place: Place) -> None:
        self.in_flight.forget(place)
        self._decided_for.pop(place, None)

    def forget_cluster(self, cluster: str) -> None:
        """Nothing more will be heard of it."""
        for place in [place for place in self._decided_for if place[0] == cluster]:
            self.forget(place)


def object_of(write: Write) -> Key:
    return write.key if isinstance(write, Create) else write.target.key
