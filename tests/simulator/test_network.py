"""Worker clusters as a manager's process sees them: its own objects there, whole lists, and when they are lost."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw
from small_scenarios import pod

from headgate.api.admission import read_once
from headgate.apiserver import INITIAL_OBJECTS, ApiServer, Request
from headgate.model.effects import Connect, Create
from headgate.model.events import FleetEvent, Observed, RemoteConnection
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import MULTIKUEUE_ORIGIN
from headgate.simulator.faults import NO_FAULTS, FaultInjector, Faults
from headgate.simulator.network import OUTSIDE, Endpoint, Network, RemoteObjects, WorkerConnections

PODS = "/api/v1/namespaces/default/pods"


class Worker:
    """A worker cluster and a manager's connections to it."""

    def __init__(self, faults: Faults = NO_FAULTS) -> None:
        self.server = ApiServer(objects=INITIAL_OBJECTS)
        self.network = Network()
        self.network.add("worker", Endpoint(self.server, read_once))
        self.connections = WorkerConnections(
            self.network, "manager", RemoteObjects((Kind.POD,), "us"), FaultInjector(faults, 0)
        )

    def create(self, name: str, origin: str = "us") -> None:
        self.ask("POST", PODS, labelled(name, origin))

    def ask(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> None:
        raw = b"" if body is None else msgspec.json.encode(body)
        assert self.server.handle(Request(method, path, body=raw, content_type=content_type), 0.0).code < 300

    def told(self, now: float = 0.0) -> list[str]:
        return [in_words(event) for event in self.connections.events(now)]


def labelled(name: str, origin: str) -> dict[str, Any]:
    made = pod(name)
    made["metadata"]["labels"] = {MULTIKUEUE_ORIGIN: origin}
    return made


def in_words(event: FleetEvent) -> str:
    if isinstance(event, RemoteConnection):
        return f"{event.cluster} {event.state}: {event.reason}"
    told = event.event
    return f"{event.cluster} has {told.object.key.name}" if isinstance(told, Observed) else f"no {told.key.name}"


def test_a_cluster_is_connected_after_all_its_objects_of_our_origin_were_told():
    worker = Worker()
    worker.create("ours")
    worker.create("theirs", origin="them")
    assert worker.told() == []
    worker.connections.connect(Connect("worker", "s"))
    assert worker.told() == ["worker has ours", "worker connected: Active"]
    worker.create("later")
    assert worker.told() == ["worker has later"]
    assert worker.told() == []


def test_an_object_that_loses_the_label_is_gone():
    worker = Worker()
    worker.create("ours")
    worker.connections.connect(Connect("worker", "s"))
    worker.told()
    merge = {"metadata": {"labels": {MULTIKUEUE_ORIGIN: "them"}}}
    worker.ask("PATCH", f"{PODS}/ours", merge, "application/merge-patch+json")
    assert worker.told() == ["no ours"]


def test_a_cluster_that_is_cut_off_is_lost_at_once_and_listed_anew_when_it_is_back():
    worker = Worker()
    for name in ("stays", "goes"):
        worker.create(name)
    worker.connections.connect(Connect("worker", "s"))
    worker.told()
    worker.network.cut_off("worker", 10.0)
    assert worker.told(1.0) == ["worker lost: ClientConnectionFailed"]
    assert not worker.connections.reaches("worker")
    worker.ask("DELETE", f"{PODS}/goes")
    worker.create("comes")
    assert worker.told(2.0) == []
    worker.network.reconnect("worker", 10.0)
    assert worker.told(10.0) == ["no goes", "worker has stays", "worker has comes", "worker connected: Active"]


def test_a_manager_that_is_cut_off_loses_its_workers():
    worker = Worker()
    worker.connections.connect(Connect("worker", "s"))
    worker.told()
    worker.network.cut_off("manager", 10.0)
    assert worker.told() == ["worker lost: ClientConnectionFailed"]
    assert worker.network.reaches("manager", "manager"), "inside it goes on"


def test_the_longer_of_two_cuts_counts():
    network = Network()
    network.cut_off("a", 20.0)
    network.cut_off("a", 10.0)
    network.reconnect("a", 10.0)
    assert not network.reaches(OUTSIDE, "a")
    network.reconnect("a", 20.0)
    assert network.reaches(OUTSIDE, "a")


def test_a_cluster_that_no_scenario_has_is_lost():
    worker = Worker()
    worker.connections.connect(Connect("another", "s"))
    assert worker.told() == ["another lost: ClientConnectionFailed"]
    assert worker.told() == []
    assert not worker.connections.reaches("another")


@pytest.mark.parametrize(
    "again, told",
    [
        pytest.param(Connect("worker", "s"), [], id="the same source changes nothing"),
        pytest.param(
            Connect("worker", path="p"), ["worker has ours", "worker connected: Active"], id="another one lists anew"
        ),
    ],
)
def test_connecting_again(again, told):
    worker = Worker()
    worker.create("ours")
    worker.connections.connect(Connect("worker", "s"))
    worker.told()
    worker.connections.connect(again)
    assert worker.told() == told


def test_after_disconnecting_nothing_more_is_told():
    worker = Worker()
    worker.connections.connect(Connect("worker", "s"))
    worker.told()
    worker.connections.disconnect("worker")
    worker.create("ours")
    assert worker.told() == []
    assert not worker.connections.reaches("worker")


def test_observations_of_workers_lag_and_lists_do_not():
    worker = Worker(Faults(stale=5.0))
    worker.create("listed")
    worker.connections.connect(Connect("worker", "s"))
    assert worker.told(0.0) == ["worker has listed", "worker connected: Active"]
    worker.create("watched")
    assert (worker.told(1.0), worker.connections.next_at) == ([], 6.0)
    assert worker.told(6.0) == ["worker has watched"]
    worker.create("soon")
    worker.told(7.0)
    worker.connections.set_lag(0.0, 8.0)
    assert worker.told(8.0) == ["worker has soon"]


def test_writes_are_those_of_a_stranger_in_the_worker_cluster():
    worker = Worker()
    worker.connections.connect(Connect("worker", "s"))
    worker.told()
    write = Create(Key(Kind.POD, "default", "made"), Raw(msgspec.json.encode(labelled("made", "us"))))
    assert worker.connections.perform("worker", write, 0.0).trouble is None
    assert worker.told() == ["worker has made"]
