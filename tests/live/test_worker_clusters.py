"""Connections to worker clusters: what is told of each, and that none delays another."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import Raw
from served_cluster import MERGE, NAMESPACE, SECRETS, WORKLOADS, ServedCluster, served

import headgate.live.worker_clusters as worker_clusters
from headgate.live.client import Client
from headgate.live.kubeconfig import worker_access
from headgate.live.logs import Outages
from headgate.live.metrics import Metrics
from headgate.live.reflector import ReflectorDependencies
from headgate.live.worker_clusters import FIRST_PAUSE, ClusterConnections, WorkerDependencies
from headgate.model.effects import Connect, Create, Delete, Disconnect, RemoteWrite
from headgate.model.events import (
    FleetEvent,
    Observed,
    Outcome,
    RemoteConnection,
    RemoteEvent,
    RemoteState,
    WriteError,
)
from headgate.model.keys import Key, Kind, Target
from headgate.model.settings import MultiKueueSettings

KINDS = (Kind.KUEUE_WORKLOAD, Kind.JOB, Kind.POD, Kind.STATEFUL_SET)


class Pauses:
    """A clock whose short sleeps take no time; those of an attempt to connect last until the test ends them."""

    def __init__(self) -> None:
        self.now, self.long = 1000.0, list[float]()
        self._asleep: list[asyncio.Future[None]] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        if seconds < FIRST_PAUSE:
            await asyncio.sleep(0)
            return
        self.long.append(seconds)
        self._asleep.append(asyncio.get_running_loop().create_future())
        await self._asleep[-1]

    def end(self) -> None:
        asleep, self._asleep = self._asleep, []
        for one in asleep:
            if not one.done():
                one.set_result(None)


class Manager:
    """The connections of a manager, without an engine: what they tell is kept."""

    def __init__(self, home: ServedCluster, log, clock: Pauses, directory: str) -> None:
        self.home, self.clock, self.metrics = home, clock, Metrics("")
        self.told: list[FleetEvent] = []
        self.news = asyncio.Event()
        client = Client(worker_access(home.kubeconfig(), "home"), clock, clock, clock.sleep)
        around = ReflectorDependencies(client, Outages(log), log, clock.sleep, lambda: 0.5, lambda _kind: None)
        settings = MultiKueueSettings(kubeconfig_directory=directory)
        shared = WorkerDependencies(around, NAMESPACE, settings, self.metrics.workers, clock, clock)
        self.workers = ClusterConnections(shared, KINDS, self._take)

    def _take(self, event: FleetEvent) -> None:
        self.told.append(event)
        self.news.set()

    def connect(self, name: str, kubeconfig: bytes | None = None, **source: str) -> None:
        if kubeconfig is not None:
            self.home.keep_kubeconfig(name, kubeconfig)
        self.workers.perform(Connect(name, **(source or {"secret": name})))

    async def until(self, holds) -> None:
        while not holds():
            self.news.clear()
            await self.news.wait()

    def states(self, cluster: str) -> list[RemoteState]:
        return [one.state for one in self.connections(cluster)]

    def connections(self, cluster: str) -> list[RemoteConnection]:
        return [one for one in self.told if isinstance(one, RemoteConnection) and one.cluster == cluster]

    async def connected(self, cluster: str, times: int = 1) -> None:
        await self.until(lambda: self.states(cluster).count(RemoteState.CONNECTED) == times)

    async def state(self, cluster: str, state: RemoteState) -> RemoteConnection:
        """How it stands, once it stands so."""
        await self.until(lambda: self.states(cluster)[-1:] == [state])
        return self.connections(cluster)[-1]

    async def until_pausing(self, times: int) -> None:
        while len(self.clock.long) < times:
            await asyncio.sleep(0)

    def seen(self, cluster: str) -> list[tuple[str, str]]:
        """What was observed, by type and name, in order."""
        events = [one.event for one in self.told if isinstance(one, RemoteEvent) and one.cluster == cluster]
        named = [(one, one.object.key if isinstance(one, Observed) else one.key) for one in events if not outcome(one)]
        return [(type(one).__name__, key.name) for one, key in named]

    async def answer(self, cluster: str) -> Outcome:
        """The last answer to a write, once there is one."""
        await self.until(lambda: self._answers(cluster))
        return self._answers(cluster)[-1]

    def _answers(self, cluster: str) -> list[Outcome]:
        return [
            one.event
            for one in self.told
            if isinstance(one, RemoteEvent) and one.cluster == cluster and outcome(one.event)
        ]


def outcome(event: object) -> bool:
    return isinstance(event, Outcome)


@asynccontextmanager
async def managing(ca, log, directory: str = "/nowhere") -> AsyncIterator[Manager]:
    async with served(ca) as home, asyncio.timeout(90):
        manager = Manager(home, log, Pauses(), directory)
        async with asyncio.TaskGroup() as group:
            manager.workers.start(group)
            yield manager
            manager.workers.close()


def new_workload(name: str) -> Create:
    manifest = (
        b'{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{"name":"%s","namespace":"default",'
        b'"labels":{"kueue.x-k8s.io/multikueue-origin":"multikueue"}},"spec":{"queueName":"q","podSets":[{"template":'
        b'{"spec":{"containers":[{"name":"c","image":"i"}]}}}]}}' % name.encode()
    )
    return Create(Key(Kind.KUEUE_WORKLOAD, "default", name), Raw(manifest))


async def test_a_cluster_is_connected_once_all_objects_of_our_origin_were_told(ca, log):
    async with served(ca) as worker, managing(ca, log) as manager:
        for name, origin in (("a", "multikueue"), ("of-nobody", ""), ("of-another", "other"), ("b", "multikueue")):
            worker.add_workload(name, origin)
        manager.connect("w", worker.kubeconfig())
        await manager.connected("w")
        assert manager.seen("w") == [("Observed", "a"), ("Observed", "b")]
        assert manager.told[-1] == RemoteConnection("w", RemoteState.CONNECTED, "Active", "Connected")
        worker.add_workload("late")
        await manager.until(lambda: manager.seen("w")[-1] == ("Observed", "late"))


async def test_writes_are_performed_there_and_their_answers_told(ca, log):
    async with served(ca) as worker, managing(ca, log) as manager:
        manager.connect("w", worker.kubeconfig())
        await manager.connected("w")
        create = new_workload("a")
        manager.workers.perform(RemoteWrite("w", create))
        assert await manager.answer("w") == Outcome(create)
        assert worker.ask("GET", f"{WORKLOADS}/a")["spec"]["queueName"] == "q"
        wrong = Delete(Target(create.key, "another uid"))
        manager.workers.perform(RemoteWrite("w", wrong))
        await manager.until(lambda: len(manager._answers("w")) == 2)
        assert (await manager.answer("w")).trouble is WriteError.CONFLICT


async def test_a_write_to_a_cluster_that_is_not_used_was_not_done(ca, log):
    async with managing(ca, log) as manager:
        create = new_workload("a")
        manager.workers.perform(RemoteWrite("w", create))
        told = Outcome(create, WriteError.UNAVAILABLE, "w is not connected")
        assert manager.told == [RemoteEvent("w", told)]


async def test_a_cluster_that_never_answers_delays_no_other(ca, log):
    async with served(ca) as slow, served(ca) as worker, managing(ca, log) as manager:
        slow.holds = True
        manager.connect("slow", slow.kubeconfig())
        manager.connect("w", worker.kubeconfig())
        await manager.connected("w")
        for number in range(50):  # more than can be under way at once
            manager.workers.perform(RemoteWrite("slow", new_workload(f"s-{number}")))
        manager.workers.perform(RemoteWrite("w", new_workload("a")))
        assert (await manager.answer("w")).trouble is None
        assert manager.states("slow") == []


async def test_a_server_that_hangs_with_its_watches_open_is_noticed(ca, log, monkeypatch):
    monkeypatch.setattr(worker_clusters, "QUIET_SECONDS", 0.02)
    monkeypatch.setattr(worker_clusters, "HEARTBEAT_TIMEOUT", 2.0)
    async with served(ca) as worker, managing(ca, log) as manager:
        manager.connect("w", worker.kubeconfig())
        while worker.asked.count(("GET", "/version")) < 3:
            worker.changed.clear()
            await worker.changed.wait()
        assert manager.states("w") == [RemoteState.CONNECTED], "it answers"
        worker.holds = True
        lost = await manager.state("w", RemoteState.LOST)
        assert "no answer within 2 s" in lost.message
        worker.holds = False
        await manager.until_pausing(1)
        manager.clock.end()
        await manager.connected("w", 2)


async def test_names_that_are_not_resolved_delay_no_other(ca, log, monkeypatch):
    look_up, answered = socket.getaddrinfo, threading.Event()

    def slow_for_some(host, *arguments, **named):
        if host == "hangs.example":
            answered.wait(90)
        return look_up(host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", slow_for_some)
    async with served(ca) as worker, managing(ca, log) as manager:
        for number in range(12):  # more than an event loop has threads
            manager.connect(f"hangs-{number}", worker.kubeconfig().replace(b"127.0.0.1", b"hangs.example"))
        while sum(thread.name.startswith("resolving hangs.example") for thread in threading.enumerate()) < 12:
            await asyncio.sleep(0)
        manager.connect("w", worker.kubeconfig().replace(b"127.0.0.1", b"localhost"))
        await manager.connected("w")
        assert RemoteState.CONNECTED not in manager.states("hangs-0")
        answered.set()


async def test_a_cluster_that_dies_is_lost_and_tried_again_after_ever_longer_pauses(ca, log):
    async with served(ca) as worker, managing(ca, log) as manager:
        manager.connect("w", worker.kubeconfig())
        await manager.connected("w")
        worker.go_down()
        expected = [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 320.0]
        for attempts in range(1, len(expected) + 1):
            await manager.until(lambda: len(manager.states("w")) == attempts + 1)  # noqa: B023
            await manager.until_pausing(attempts)
            manager.clock.end()
        assert manager.clock.long == expected
        assert manager.states("w") == [RemoteState.CONNECTED, *(RemoteState.LOST for _ in expected)]
        last = manager.connections("w")[-1]
        assert last.reason == "ClientConnectionFailed"
        assert last.message.endswith("; 8 failed attempts, the next one is at 1970-01-01T00:22:00Z")
        assert len([line for line in log.lines if "worker cluster not connected" in line]) == 1


async def test_a_cluster_that_comes_back_is_told_anew_with_what_went_meanwhile(ca, log):
    async with served(ca) as worker, managing(ca, log) as manager:
        worker.add_workload("stays")
        worker.add_workload("goes")
        manager.connect("w", worker.kubeconfig())
        await manager.connected("w")
        worker.go_down()
        await manager.state("w", RemoteState.LOST)
        worker.ask("DELETE", f"{WORKLOADS}/goes")
        worker.add_workload("comes")
        before, worker.is_down = len(manager.seen("w")), False
        await manager.until_pausing(1)
        manager.clock.end()
        await manager.connected("w", times=2)
        assert sorted(manager.seen("w")[before:]) == [("Gone", "goes"), ("Observed", "comes"), ("Observed", "stays")]
        assert isinstance(manager.told[-1], RemoteConnection)
        worker.go_down()
        await manager.until(lambda: manager.states("w")[-1] is RemoteState.LOST)
        await manager.until_pausing(2)
        assert manager.clock.long == [5.0, 5.0], "a connection that worked starts the pauses anew"


async def test_a_write_while_the_connection_is_lost_was_not_done(ca, log):
    async with served(ca) as worker, managing(ca, log) as manager:
        manager.connect("w", worker.kubeconfig())
        await manager.connected("w")
        worker.go_down()
        await manager.state("w", RemoteState.LOST)
        manager.workers.perform(RemoteWrite("w", new_workload("a")))
        assert (await manager.answer("w")).trouble is WriteError.UNAVAILABLE


@pytest.mark.parametrize(
    "content, reason, said",
    [
        pytest.param(b"{}", "BadKubeConfig", "Secret headgate-system/w: current-context: expected", id="a bad one"),
        pytest.param(
            b'{"current-context":"x","contexts":[{"name":"x","context":{"cluster":"x"}}],'
            b'"clusters":[{"name":"x","cluster":{"server":"http://10.0.0.1"}}]}',
            "InsecureKubeConfig",
            "Secret headgate-system/w: clusters[0].cluster.server: expected a URL such as https://",
            id="an insecure one",
        ),
        pytest.param(None, "BadKubeConfig", "Secret headgate-system/w: expected such a Secret", id="none"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_refused_until_it_changes(ca, log, content, reason, said):
    async with served(ca) as worker, managing(ca, log) as manager:
        manager.connect("w", content)
        refused = await manager.state("w", RemoteState.REFUSED)
        assert (refused.reason, refused.message[: len(said)]) == (reason, said)
        manager.home.keep_kubeconfig("w", worker.kubeconfig())
        await manager.connected("w")
        assert worker.asked, "no request went to it before"


async def test_a_secret_without_the_key_is_refused(ca, log):
    async with managing(ca, log) as manager:
        manager.home.keep_kubeconfig("w", b"")
        manager.home.ask("PATCH", f"{SECRETS}/w", {"data": {"kubeconfig": None, "config": "eA=="}}, MERGE)
        manager.connect("w")
        refused = await manager.state("w", RemoteState.REFUSED)
        assert refused.message == "Secret headgate-system/w: expected a kubeconfig under the key kubeconfig"


async def test_a_new_token_in_the_secret_is_used_without_losing_the_connection(ca, log):
    async with served(ca) as worker, managing(ca, log) as manager:
        worker.add_workload("a")
        manager.connect("w", worker.kubeconfig("good"))
        await manager.connected("w")
        worker.tokens = {"better"}
        manager.home.keep_kubeconfig("w", worker.kubeconfig("better"))
        await manager.connected("w", times=2)
        assert manager.states("w") == [RemoteState.CONNECTED, RemoteState.CONNECTED]
        assert manager.seen("w") == [("Observed", "a"), ("Observed", "a")]


async def test_only_the_secret_that_is_named_is_asked_for(ca, log):
    async with served(ca) as worker, managing(ca, log) as manager:
        manager.home.keep_kubeconfig("another", b"")
        manager.connect("w", worker.kubeconfig())
        await manager.connected("w")
        asked = [one for one in manager.home.server.seen if "secrets" in one.path]
        assert asked
        assert {one.query.get("fieldSelector") for one in asked} == {"metadata.name=w"}
        assert {one.path for one in asked} == {SECRETS}


async def test_another_source_replaces_the_connection_and_what_only_the_old_cluster_had_is_gone(ca, log):
    async with served(ca) as old, served(ca) as new, managing(ca, log) as manager:
        old.add_workload("a")
        new.add_workload("b")
        manager.connect("w", old.kubeconfig())
        await manager.connected("w")
        manager.home.keep_kubeconfig("elsewhere", new.kubeconfig())
        manager.connect("w", secret="elsewhere")
        await manager.connected("w", times=2)
        assert sorted(manager.seen("w")[1:]) == [("Gone", "a"), ("Observed", "b")]


async def test_a_cluster_that_is_to_be_used_anew_is_told_anew_also_with_the_same_kubeconfig(ca, log):
    async with served(ca) as worker, managing(ca, log) as manager:
        worker.add_workload("a")
        manager.connect("w", worker.kubeconfig())
        await manager.connected("w")
        manager.home.keep_kubeconfig("elsewhere", worker.kubeconfig())
        for times, secret in ((2, "elsewhere"), (3, "elsewhere")):
            manager.connect("w", secret=secret)
            await manager.connected("w", times=times)
        assert manager.seen("w") == [("Observed", "a")] * 3


async def test_of_a_cluster_that_is_not_used_any_more_nothing_is_told_and_nothing_is_left(ca, log):
    async with served(ca) as worker, managing(ca, log) as manager:
        manager.connect("w", worker.kubeconfig())
        await manager.connected("w")
        manager.workers.perform(RemoteWrite("w", new_workload("a")))
        assert (await manager.answer("w")).trouble is None
        page = manager.metrics.render().decode()
        assert 'headgate_worker_cluster_requests_total{cluster="w",outcome="201"} 1.0' in page
        assert 'headgate_worker_cluster_request_duration_seconds_count{cluster="w"} 5.0' in page
        assert 'headgate_worker_cluster_effects_total{cluster="w",effect="Create",outcome="accepted"} 1.0' in page
        manager.workers.perform(Disconnect("w"))
        told = len(manager.told)
        await manager.until(lambda: True)
        await everybody_closed(worker)
        assert len(manager.told) == told
        assert 'cluster="w"' not in manager.metrics.render().decode()


async def test_a_cluster_without_workloads_of_kueue_is_no_worker(ca, log):
    async with served(ca, with_queues=False) as bare, managing(ca, log) as manager:
        manager.connect("w", bare.kubeconfig())
        lost = await manager.state("w", RemoteState.LOST)
        assert lost.message.startswith("reading workloads.kueue.x-k8s.io: ")


async def test_what_cannot_be_decoded_is_told_as_such_and_logged(ca, log):
    async with served(ca) as worker, managing(ca, log) as manager:
        worker.add_workload("fine")
        template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "much"}}}]}}
        worker.add_workload("odd", podSets=[{"template": template}])
        manager.connect("w", worker.kubeconfig())
        await manager.connected("w")
        assert manager.seen("w") == [("Observed", "fine"), ("Unreadable", "odd")]
        assert any("cannot be decoded" in line and "default/odd" in line for line in log.lines)


async def test_a_kubeconfig_in_a_file_is_reread_when_the_file_changes(ca, log, tmp_path):
    file = tmp_path / "w.kubeconfig"
    async with served(ca) as worker, managing(ca, log, str(tmp_path)) as manager:
        manager.connect("w", path=str(file))
        refused = await manager.state("w", RemoteState.REFUSED)
        assert refused.message == f"{file}: expected a readable file: No such file or directory"
        file.write_bytes(worker.kubeconfig())
        await manager.until_pausing(1)
        manager.clock.end()
        await manager.connected("w")
        file.write_bytes(b"{}")
        await manager.until_pausing(2)
        manager.clock.end()
        refused = await manager.state("w", RemoteState.REFUSED)
        assert refused.message.startswith(f"{file}: current-context: expected")


async def test_a_file_outside_the_directory_for_kubeconfigs_is_refused(ca, log, tmp_path):
    outside, inside = tmp_path / "token", tmp_path / "inside"
    inside.mkdir()
    outside.write_bytes(b"secret")
    (inside / "link").symlink_to(outside)
    async with managing(ca, log, str(inside)) as manager:
        for name, path in (("a", outside), ("b", inside / ".." / "token"), ("c", inside / "link")):
            manager.connect(name, path=str(path))
            refused = await manager.state(name, RemoteState.REFUSED)
            assert refused.message == f"{path}: expected a file in {inside} (multiKueue.kubeConfigDirectory)"


async def test_what_is_under_way_is_waited_for_when_the_process_stops(ca, log):
    async with served(ca) as worker, managing(ca, log) as manager:
        manager.connect("w", worker.kubeconfig())
        await manager.connected("w")
        worker.holds = True
        manager.workers.perform(RemoteWrite("w", new_workload("a")))
        while not (held := [one for one in worker.held if one.method == "POST"]):
            await asyncio.sleep(0)
        draining = asyncio.ensure_future(manager.workers.drain())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not draining.done()
        manager.workers.perform(RemoteWrite("w", new_workload("too-late")))
        worker.answer(held[0])
        assert await draining
        assert (await manager.answer("w")).trouble is None
        assert [path for method, path in worker.asked if method == "POST"] == [WORKLOADS]


async def everybody_closed(cluster: ServedCluster) -> None:
    while cluster.server.open:
        await asyncio.sleep(0)
