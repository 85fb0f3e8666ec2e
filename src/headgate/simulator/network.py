"""How clusters reach one another: which are cut off, and the worker clusters that a process of ours is connected to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from headgate.api.admission import Read
from headgate.apiserver.server import ApiServer
from headgate.model.effects import Connect, Write
from headgate.model.events import (
    FleetEvent,
    Gone,
    Outcome,
    RemoteConnection,
    RemoteEvent,
    RemoteState,
    Unreadable,
    WriteError,
)
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import MULTIKUEUE_ORIGIN
from headgate.simulator.clients import perform
from headgate.simulator.faults import FaultInjector
from headgate.simulator.observing import DelayedObservations, Feed, ObjectChange

OUTSIDE = ""
"""Where our process of a scenario with one cluster runs: outside of it."""
MANAGER = "system:serviceaccount:kueue-system:multikueue-manager"
"""The user that processes of other clusters write as."""
UNREACHABLE = "the cluster cannot be reached"


class Endpoint(Struct, frozen=True):
    """The API server of a cluster, and how its objects are decoded."""

    server: ApiServer
    read: Read


class Network:
    """A cluster that is cut off reaches no other and is reached by none; what runs inside goes on."""

    def __init__(self) -> None:
        self._endpoints: dict[str, Endpoint] = {}
        self._until: dict[str, float] = {}  # by cluster that is cut off

    def add(self, cluster: str, endpoint: Endpoint) -> None:
        self._endpoints[cluster] = endpoint

    def endpoint(self, cluster: str) -> Endpoint | None:
        return self._endpoints.get(cluster)

    def reaches(self, place: str, cluster: str) -> bool:
        """Whether a process that runs in `place` reaches the API server of the cluster."""
        return place == cluster or not (place in self._until or cluster in self._until)

    def cut_off(self, cluster: str, until: float) -> None:
        self._until[cluster] = max(self._until.get(cluster, until), until)

    def reconnect(self, cluster: str, now: float) -> None:
        """Connects the cluster again, unless it is cut off for longer."""
        if self._until.get(cluster, now) <= now:
            self._until.pop(cluster, None)


class RemoteObjects(Struct, frozen=True):
    """What a process observes on worker clusters: objects of these kinds that have the label of its origin."""

    kinds: Sequence[Kind]
    origin: str

    def feed(self, endpoint: Endpoint) -> Feed:
        selector = {"labelSelector": f"{MULTIKUEUE_ORIGIN}={self.origin}"}
        return Feed(endpoint.server, self.kinds, endpoint.read, selector)


class WorkerLink:
    """Observations of one worker cluster, delayed as those of our own cluster are."""

    def __init__(self, source: Connect, feed: Feed | None, lag: float) -> None:
        """Without a feed there is no such cluster."""
        self.source, self._feed = source, feed
        self.view = DelayedObservations(lag)
        self._told: RemoteState | None = None
        self._unreadable: dict[Key, Unreadable] = {}  # those it was told of

    def has_news(self, now: float, *, reached: bool) -> bool:
        if self._feed is None or not reached:
            return self._told is not RemoteState.LOST
        waiting = self._told is not RemoteState.CONNECTED or self._feed.is_behind or self.view.is_due(now)
        return waiting or self._has_unreadable(self._feed)

    def events(self, now: float, injector: FaultInjector, *, reached: bool) -> Iterator[FleetEvent]:
        """What changed, and that the cluster is lost or connected, once each. A list precedes every connection."""
        cluster, feed = self.source.cluster, self._feed
        if feed is None or not reached:
            if self._told is not RemoteState.LOST:
                self._told = RemoteState.LOST
                yield RemoteConnection(cluster, RemoteState.LOST, "ClientConnectionFailed", UNREACHABLE)
            return
        self.view.learn(feed.poll(), now)
        if self._told is RemoteState.CONNECTED:
            yield from self._of(self.view.observe(feed.objects, now, injector), feed)
            yield from self._newly_unreadable(feed)
            return
        self._told, self._unreadable = RemoteState.CONNECTED, {}
        yield from self._of(self.view.relist(feed.objects), feed)
        yield from self._newly_unreadable(feed)
        yield RemoteConnection(cluster, RemoteState.CONNECTED, "Active", "Connected")

    def _of(self, changes: Iterable[ObjectChange], feed: Feed) -> Iterator[RemoteEvent]:
        """An object that cannot be decoded any more is not gone."""
        for change in changes:
            hidden = feed.unreadable.get(change.key) if isinstance(change, Gone) else None
            if hidden is None or not isinstance(change, Gone) or hidden.uid != change.uid:
                yield RemoteEvent(self.source.cluster, change)

    def _has_unreadable(self, feed: Feed) -> bool:
        """Whether there are any to tell of. What was observed before is told before."""
        return self._unreadable != feed.unreadable and self.view.next_at is None

    def _newly_unreadable(self, feed: Feed) -> Iterator[RemoteEvent]:
        if self._has_unreadable(feed):
            known, self._unreadable = self._unreadable, dict(feed.unreadable)
            for key, found in self._unreadable.items():
                if known.get(key) != found:
                    yield RemoteEvent(self.source.cluster, found)
            for key, found in known.items():
                if key not in self._unreadable and key not in feed.objects:
                    yield RemoteEvent(self.source.cluster, Gone(key, found.uid))


class WorkerConnections:
    """The worker clusters that a process is connected to, which runs in `place`."""

    def __init__(self, network: Network, place: str, watched: RemoteObjects, injector: FaultInjector) -> None:
        self._network, self._place, self._watched, self._injector = network, place, watched, injector
        self._lag = injector.faults.stale
        self._connections: dict[str, WorkerLink] = {}

    def connect(self, source: Connect) -> None:
        """A connection by another source replaces the one there is."""
        known = self._connections.get(source.cluster)
        if known is None or known.source != source:
            endpoint = self._network.endpoint(source.cluster)
            feed = None if endpoint is None else self._watched.feed(endpoint)
            self._connections[source.cluster] = WorkerLink(source, feed, self._lag)

    def disconnect(self, cluster: str) -> None:
        self._connections.pop(cluster, None)

    def forget(self) -> None:
        """A new process is connected to none."""
        self._connections.clear()

    def has_news(self, now: float) -> bool:
        return any(
            connection.has_news(now, reached=self._network.reaches(self._place, cluster))
            for cluster, connection in self._connections.items()
        )

    def events(self, now: float) -> list[FleetEvent]:
        """What there is to tell of all of them by now."""
        return [
            event
            for cluster, connection in self._connections.items()
            for event in connection.events(now, self._injector, reached=self._network.reaches(self._place, cluster))
        ]

    def reaches(self, cluster: str) -> bool:
        known = cluster in self._connections and self._network.endpoint(cluster) is not None
        return known and self._network.reaches(self._place, cluster)

    def perform(self, cluster: str, write: Write, now: float) -> Outcome:
        endpoint = self._network.endpoint(cluster)
        if endpoint is None:
            return Outcome(write, WriteError.UNAVAILABLE, UNREACHABLE)
        return perform(write, endpoint.server, now, MANAGER)

    @property
    def next_at(self) -> float | None:
        """When the next delayed observation is due."""
        times = [at for each in self._connections.values() if (at := each.view.next_at) is not None]
        return min(times, default=None)

    def set_lag(self, seconds: float, now: float) -> None:
        self._lag = seconds
        for connection in self._connections.values():
            connection.view.set_lag(seconds, now)
