"""Over random loads on a server that takes its time: all is told in the end, and what decides never waits for it."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from integration_scenes import KUEUE, LOCAL_QUEUES, PODS, cluster_queue, flavor, local_queue, pod
from loaded_server import LoadedTerm, SlowServer, in_virtual_time, passed
from msgspec import structs
from test_live_performer import Watcher, bind, counts, event, note

from headgate.api.requests import Call
from headgate.live.connection import HttpResponse
from headgate.live.performer import CONCURRENCY, STEP_REST, Performer
from headgate.model.effects import PatchStatus
from headgate.model.pod import Pod, ScheduledCondition
from headgate.model.queues import ClusterQueue, QueuedWorkload
from headgate.model.settings import InformWithin

WITHIN = InformWithin(5.0, 60.0)
WORKLOADS = f"{KUEUE}/namespaces/default/workloads"
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "4", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]},
}


def workload(name: str, cpu: int) -> dict:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": template}]}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": name}, "spec": spec}


FINISHED = {"type": "Finished", "status": "True", "reason": "ByTest", "message": ""}


class Driver:
    """Creates workloads and pods, and finishes workloads some time after they were admitted."""

    def __init__(self, server: SlowServer, runtime: float) -> None:
        self._server, self._runtime = server, runtime
        self.term: LoadedTerm
        self._done: set[str] = set()

    async def prepare(self) -> None:
        await self._server.ask("POST", "/api/v1/nodes", NODE)
        await self._server.ask("POST", f"{KUEUE}/resourceflavors", flavor("default"))
        await self._server.ask("POST", f"{KUEUE}/clusterqueues", cluster_queue(4))
        await self._server.ask("POST", LOCAL_QUEUES, local_queue())

    async def load(self, arrivals: list[tuple[str, int, float]]) -> None:
        finishing = asyncio.create_task(self._finish_for_ever())
        for number, (kind, cpu, pause) in enumerate(arrivals):
            await passed(pause)
            path, made = (WORKLOADS, workload(f"w{number}", cpu)) if kind == "work" else (PODS, self._pod(number, cpu))
            await self._server.ask("POST", path, made)
        await passed(self._runtime)
        finishing.cancel()

    def _pod(self, number: int, cpu: int) -> dict:
        made = pod(f"p{number}")
        made["metadata"].pop("labels", None)
        made["spec"] |= {"schedulerName": "headgate"}
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(cpu)}}
        return made

    async def _finish_for_ever(self) -> None:
        while True:
            await passed(self._runtime)
            for one in list(self.term.feed.objects.values()):
                if isinstance(one, QueuedWorkload) and one.is_true("Admitted") and one.key.name not in self._done:
                    self._done.add(one.key.name)
                    add = [{"op": "add", "path": "/status/conditions/-", "value": FINISHED}]
                    path = f"{WORKLOADS}/{one.key.name}/status"
                    await self._server.ask("PATCH", path, add, "application/json-patch+json")


def arrivals(dice: random.Random) -> list[tuple[str, int, float]]:
    """Workloads and pods, their cores, and the pauses before them."""
    return [
        (dice.choice(["work", "pod"]), dice.randint(1, 5), dice.choice([0.0, 0.0, 0.01, 0.3]))
        for _ in range(dice.randint(5, 60))
    ]


def untold(term: LoadedTerm) -> list[str]:
    """What is not shown as it is: the last reason why something waits, and how many do."""
    objects = list(term.feed.objects.values())
    works = [one for one in objects if isinstance(one, QueuedWorkload) and not one.is_true("Finished")]
    wrong = []
    for one in objects:
        last = term.engine.journal.last(one.key)
        last = last if last is not None and last.decision == "wait" else None
        if isinstance(one, QueuedWorkload) and one in works and not one.is_true("QuotaReserved"):
            said = one.condition("QuotaReserved")
            if last is not None and (said is None or (said.reason, said.message) != (last.reason, last.message)):
                wrong.append(f"{one.key}: {said}, not {last}")
        elif isinstance(one, Pod) and not one.node:
            if last is not None and one.scheduled != ScheduledCondition("False", last.reason, last.message):
                wrong.append(f"{one.key}: {one.scheduled}, not {last}")
        elif isinstance(one, ClusterQueue):
            admitted = sum(work.is_true("Admitted") for work in works)
            shown = term.status_of(f"{KUEUE}/clusterqueues/{one.key.name}")
            if (shown["pendingWorkloads"], shown["admittedWorkloads"]) != (len(works) - admitted, admitted):
                wrong.append(f"{one.key}: {shown}, not {len(works) - admitted} and {admitted}")
    return wrong


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("seconds", "at_once"),
    [pytest.param(0.005, 3, id="idle"), pytest.param(0.05, 1, id="busy"), pytest.param(0.4, 2, id="saturated")],
)
def test_after_any_load_every_object_shows_how_things_stand_within_the_time_that_is_promised(seed, seconds, at_once):
    async def loaded() -> None:
        server = SlowServer(seconds, at_once)
        driver = Driver(server, runtime=1.0)
        await driver.prepare()
        driver.term = term = LoadedTerm(server, WITHIN)
        running = asyncio.create_task(term.run())
        await driver.load(arrivals(random.Random(seed)))
        await passed(WITHIN.saturated)
        assert untold(term) == []
        assert term.performer.gauges()["headgate_informative_writes_waiting", ()] == 0
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    in_virtual_time(loaded)


@pytest.mark.parametrize("waiting", [100, 300])
def test_what_waited_while_others_kept_the_server_busy_is_told_once_they_are_done(waiting):
    """However much it is; meanwhile it is about one write a second."""

    async def loaded() -> None:
        server = SlowServer(0.02, 2)
        driver = Driver(server, runtime=1.0)
        await driver.prepare()
        driver.term = term = LoadedTerm(server, WITHIN)
        running = asyncio.create_task(term.run())
        await passed(1.0)
        others = [asyncio.create_task(server.keep_busy(100.0)) for _ in range(40)]
        created = (server.ask("POST", WORKLOADS, workload(f"w{number}", 5 + number)) for number in range(waiting))
        await asyncio.gather(*created)
        await passed(10.0)
        before = server.written
        await passed(60.0)
        assert 30 <= server.written - before <= 70
        await asyncio.gather(*others)
        assert term.performer.gauges()["headgate_informative_writes_waiting", ()] > 0
        await passed(2 * WITHIN.idle)
        assert untold(term) == []
        assert term.performer.gauges()["headgate_informative_writes_waiting", ()] == 0
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    in_virtual_time(loaded)


class Arrivals:
    """A server that notes when each request came, and answers after a while."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.came: dict[str, float] = {}

    async def perform(self, call: Call) -> HttpResponse:
        self.came[call.path] = asyncio.get_running_loop().time()
        await passed(self.seconds)
        return HttpResponse(200, b"", b"{}")


@settings(max_examples=25, deadline=None)
@given(
    writes=st.lists(
        st.tuples(st.sampled_from([bind, note, counts, event]), st.sampled_from([0.0, 0.0, 0.1])), max_size=200
    ),
    seconds=st.sampled_from([0.001, 0.1, 1.0]),
)
def test_a_decisive_write_is_sent_the_moment_it_is_decided_whatever_else_waits(writes, seconds):
    async def sent() -> None:
        loop, server = asyncio.get_running_loop(), Arrivals(seconds)
        watcher, due = Watcher(), dict[str, float]()
        performer = Performer(server, watcher.outcomes.put_nowait, watcher, passed, loop.time)
        running = asyncio.create_task(performer.run())
        await asyncio.sleep(0)
        for number, (made, pause) in enumerate(writes):
            await passed(pause)
            performer.submit(made(f"o{number}"))
            recent = [at for at in due.values() if at > loop.time() - seconds]
            if made is bind and len(recent) < CONCURRENCY - 1:
                due[f"/api/v1/namespaces/default/pods/o{number}/binding"] = loop.time()
        await passed(1000.0)
        assert {path: server.came[path] for path in due} == due
        assert performer.gauges()["headgate_informative_writes_waiting", ()] == 0, "none is lost"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    in_virtual_time(sent)


def new_reason(name: str) -> PatchStatus:
    return structs.replace(note(name), change=structs.replace(note(name).change, new_reason=True))


async def answered_within(seconds: float, performer: Performer, server: Arrivals) -> None:
    """The server has taken so long for many writes."""
    server.seconds = seconds
    for number in range(100):
        performer.submit(bind(f"{seconds}-{number}"))
    await passed(10.0)


def test_the_engine_rests_between_two_steps_while_the_server_is_saturated_and_only_then():
    async def rested() -> None:
        loop, server, watcher = asyncio.get_running_loop(), Arrivals(0.01), Watcher()
        performer = Performer(server, watcher.outcomes.put_nowait, watcher, passed, loop.time)
        running = asyncio.create_task(performer.run())
        await asyncio.sleep(0)
        rests = []
        for seconds in (0.01, 0.5, 0.01):
            await answered_within(seconds, performer, server)
            began = loop.time()
            await performer.rest_of_a_step()
            rests.append(loop.time() - began)
        assert rests == [0.0, pytest.approx(STEP_REST), 0.0]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    in_virtual_time(rested)


def test_what_an_autoscaler_waits_for_is_told_at_once_however_much_else_is_to_be_told():
    async def sent() -> None:
        loop, server, watcher = asyncio.get_running_loop(), Arrivals(0.01), Watcher()
        performer = Performer(server, watcher.outcomes.put_nowait, watcher, passed, loop.time)
        running = asyncio.create_task(performer.run())
        await asyncio.sleep(0)
        await answered_within(0.01, performer, server)
        await answered_within(0.5, performer, server)
        for number in range(100):
            performer.submit(note(f"text-{number}"))
        due = {}
        for number in range(20):
            performer.submit(new_reason(f"new-{number}"))
            due[f"/api/v1/namespaces/default/pods/new-{number}/status"] = loop.time()
            await passed(0.1)
        assert {path: server.came[path] for path in due} == due
        texts = [at for path, at in server.came.items() if "text" in path]
        assert 1 <= len(texts) <= 3, "they are told meanwhile, about one a second"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    in_virtual_time(sent)
