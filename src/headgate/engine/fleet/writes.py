"""What is written, at home and to worker clusters, and what keeps a cluster from taking a workload.

At most one write is in flight for each object of each cluster. That a cluster does not take a workload is said once at
home, and it is left alone for a time. Nothing of this must survive a restart: what still holds is found again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from headgate.engine.fleet.fleet_index import Unread
from headgate.engine.in_flight import InFlightWrites, WriteResult
from headgate.engine.integrations.writes import LONGEST_BACKOFF, POLICY
from headgate.fleet.replicas import Drift, drift, drifted_fields, replica_spec
from headgate.model.effects import Create, Write
from headgate.model.events import Outcome, WriteError
from headgate.model.keys import Key
from headgate.model.queues import QueuedWorkload
from headgate.queueing.backoff import Backoff

HOME = ""
"""Stands for our own cluster where others go by the names of their MultiKueueClusters."""
Place = tuple[str, Key]
"""An object of a cluster."""

REJECTIONS = frozenset({WriteError.REFUSED, WriteError.GONE})
"""Of a creation: for good as it is, or because its namespace does not exist."""
NOT_TAKEN, UNREADABLE = "DispatchFailed", "Quarantined"
LONGEST_TEXT = 512  # characters of what a worker cluster says
_RESTS = Backoff(1.0, LONGEST_BACKOFF)


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


class Trouble(Struct):
    """How a workload fares on one worker cluster where something is wrong."""

    reason: str = ""  # empty: nothing is wrong now
    text: str = ""
    about: Key | None = None
    conflicts: int = 0  # in a row, of creations
    spec: object = None  # of the workload at home, from which the replicas drifted
    drifted: str = ""  # uid of the last replica that did
    strikes: int = 0  # how many did
    rests_until: float = 0.0  # no other replica is created before


class DispatchTroubles:
    """By Workload and cluster, until the Workload is forgotten. What is said is returned when it is news."""

    def __init__(self) -> None:
        self._troubles: dict[Key, dict[str, Trouble]] = {}

    def answered(self, workload: Key, cluster: str, outcome: Outcome) -> Trouble | None:
        """A creation that the cluster does not take.

        That an object of that name is there may be our own doing, of which the answer was lost: it is said when the
        next creation fails as well and the object was not observed meanwhile.
        """
        if not isinstance(outcome.effect, Create):
            return None
        key, known = outcome.effect.key, self._troubles.get(workload, {}).get(cluster)
        if outcome.trouble is WriteError.CONFLICT:
            known = self._of(workload, cluster)
            known.conflicts += 1
            if known.conflicts > 1:
                return self._say(
                    known, NOT_TAKEN, key, f"worker cluster {cluster} has {key} already, which is not ours"
                )
        elif known is not None:
            known.conflicts = 0
        if outcome.trouble not in REJECTIONS:
            return None
        what = "it" if key == workload else str(key)
        text = f"worker cluster {cluster} does not take {what}: {outcome.message[:LONGEST_TEXT]}"
        return self._say(self._of(workload, cluster), NOT_TAKEN, key, text)

    def see_replicas(
        self, home: QueuedWorkload, replicas: Mapping[str, QueuedWorkload], now: float
    ) -> Iterator[Trouble]:
        """A cluster that changes what is created there gets the next replica after a rest, each longer than the last.

        The first time none is needed: the workload at home may have changed.
        """
        for cluster, replica in replicas.items():
            if replica.deleted is not None or drift(home, replica) is not Drift.SPEC:
                continue
            if not (fields := drifted_fields(home, replica)):
                continue
            known, spec = self._of(home.key, cluster), replica_spec(home)
            if known.drifted == replica.uid and known.spec == spec:
                continue
            known.strikes = known.strikes + 1 if known.spec == spec else 1
            known.spec, known.drifted = spec, replica.uid
            known.rests_until = now + _RESTS.after(known.strikes - 1)
            if known.strikes > 1:
                text = f"worker cluster {cluster} changes what is created there: {fields}"
                if (said := self._say(known, NOT_TAKEN, home.key, text)) is not None:
                    yield said

    def see_unread(self, workload: Key, unread: Mapping[str, Mapping[Key, Unread]]) -> Iterator[Trouble]:
        for cluster, objects in unread.items():
            key, found = min(objects.items(), key=lambda each: str(each[0]))
            why = found.told.why[:LONGEST_TEXT]
            text = f"worker cluster {cluster}: {key} is left out until it changes, because it cannot be read: {why}"
            if (said := self._say(self._of(workload, cluster), UNREADABLE, key, text)) is not None:
                yield said

    def settle(
        self,
        home: QueuedWorkload,
        replicas: Mapping[str, QueuedWorkload],
        clones: Mapping[str, Mapping[Key, object]],
        unread: Mapping[str, Mapping[Key, Unread]],
    ) -> None:
        """What is over by what is observed is not said any more."""
        for cluster, known in self._troubles.get(home.key, {}).items():
            if known.about is None or known.about in unread.get(cluster, ()):
                continue
            replica = replicas.get(cluster)
            if known.reason == UNREADABLE:
                over = True
            elif known.about == home.key:
                over = replica is not None and drift(home, replica) is not Drift.SPEC
            else:
                over = known.about in clones.get(cluster, ())
            if over:
                known.reason, known.text, known.about, known.conflicts = "", "", None, 0

    def texts(self, workload: Key) -> Mapping[str, str]:
        """What is wrong now, by cluster."""
        return {cluster: known.text for cluster, known in self._troubles.get(workload, {}).items() if known.text}

    def rests(self, workload: Key) -> Mapping[str, float]:
        """Until when no replica is created, by cluster."""
        found = self._troubles.get(workload, {})
        return {cluster: known.rests_until for cluster, known in found.items() if known.rests_until}

    def forget(self, workload: Key) -> None:
        self._troubles.pop(workload, None)

    def _of(self, workload: Key, cluster: str) -> Trouble:
        return self._troubles.setdefault(workload, {}).setdefault(cluster, Trouble())

    def _say(self, known: Trouble, reason: str, about: Key, text: str) -> Trouble | None:
        """The trouble, unless it was said already."""
        is_news = (known.reason, known.text) != (reason, text)
        known.reason, known.about, known.text = reason, about, text
        return known if is_news else None
