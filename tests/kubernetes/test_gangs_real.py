"""Gangs on a real cluster: they start whole, leave whole, and whoever dies in between is followed by one who finishes.

There is no kubelet, so pods that are asked to leave stay until the test lets them go: that is where it can look.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from children import PATIENCE, eventually, eventually_asked, free_port
from cluster import OWN_NAMESPACE, Cluster
from conftest import Start
from exchanges import priority_class
from exchanges_workloads import group, workload
from installing import wait_until_asked, webhooks_installed
from objects import CLASSES, Manifest, create_nodes, create_pods, node, pod, pods_path, priority_classes
from ours import HEADGATE, OurProcess
from wire import Client, Server

LINK = "scheduling.headgate.dev"
FLAGS = ("--no-leader-elect", "--lease-namespace", OWN_NAMESPACE)


class Kubelets:
    """Follows the pods of a namespace in the place of kubelets, which let pods go that were told to stop.

    `asked` are the pods that were ever asked to leave, `nodes` where each pod was last seen.
    """

    def __init__(self, server: Server, namespace: str) -> None:
        self._client, self._path = Client(server), pods_path(namespace)
        self._changed = asyncio.Condition()
        self._work: asyncio.Task[None] | None = None
        self.pods: dict[str, Manifest] = {}  # as last seen, also of those that are gone
        self.asked: dict[str, None] = {}
        self.gone: dict[str, None] = {}

    async def __aenter__(self) -> Kubelets:
        self._work = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self._work is not None
        self._work.cancel()
        await asyncio.gather(self._work, return_exceptions=True)
        await self._client.__aexit__()

    async def let_go(self, *names: str) -> None:
        for name in names:
            await self._client.delete(f"{self._path}/{name}?gracePeriodSeconds=0")

    async def until(self, what: str, holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(holds)
        except TimeoutError:
            seen = {name: (each["spec"].get("nodeName"), each["status"]) for name, each in self.pods.items()}
            raise AssertionError(f"not within {seconds:.0f} s: {what}; {json.dumps(seen)[:3000]}") from None

    def node_of(self, name: str) -> str:
        return str(self.pods.get(name, {}).get("spec", {}).get("nodeName", ""))

    def promised(self, name: str) -> str:
        return str(self.pods.get(name, {}).get("status", {}).get("nominatedNodeName", ""))

    def condition(self, name: str, kind: str) -> Manifest:
        conditions = self.pods.get(name, {}).get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), {})

    def bound(self, *names: str) -> bool:
        return all(self.node_of(name) for name in names)

    async def _follow(self) -> None:
        """All pods, and every change; anew when the server ends the watch, as a busy one may."""
        while True:
            page = await self._client.get(self._path)
            there = {each["metadata"]["name"]: each for each in page["items"]}
            for name in self.pods.keys() - there.keys() - self.gone.keys():
                await self._record("DELETED", self.pods[name])
            for each in there.values():
                await self._record("ADDED", each)
            version = page["metadata"]["resourceVersion"]
            async for line in self._client.lines(f"{self._path}?watch=true&resourceVersion={version}"):
                change = json.loads(line)
                if change["type"] == "ERROR":
                    break
                await self._record(change["type"], change["object"])

    async def _record(self, what: str, seen: Manifest) -> None:
        name = seen["metadata"]["name"]
        async with self._changed:
            self.pods[name] = seen
            if what == "DELETED":
                self.gone[name] = None
            elif seen["metadata"].get("deletionTimestamp"):
                self.asked[name] = None
            self._changed.notify_all()


@pytest.fixture(scope="module")
def port(cluster: Cluster) -> Iterator[int]:
    """Where our process is to answer about new workloads: everything is installed, and taken away in the end."""
    chosen = free_port()
    with webhooks_installed(cluster, chosen, "--no-queues"):
        yield chosen


@pytest.fixture
def run(cluster: Cluster, port: int, start: Start) -> Callable[[], OurProcess]:
    def started() -> OurProcess:
        process = start("--webhook-listen", f"127.0.0.1:{port}", "--no-queues", *FLAGS)
        wait_until_asked(cluster, process)
        eventually("our process is ready", lambda: process.answers("/readyz"))
        return process

    return started


@pytest.fixture
async def seen(cluster: Cluster, namespace: str) -> AsyncIterator[Kubelets]:
    async with Kubelets(cluster.server, namespace) as following:
        yield following


@pytest.fixture(autouse=True)
async def classes(client: Client) -> AsyncIterator[None]:
    known = [priority_class("gang-low", 10), priority_class("gang-high", 1000), priority_class("gang-shield", 500)]
    async with priority_classes(client, *known):
        yield


def member(name: str, of: str, **spec: Any) -> Manifest:
    made = pod(name, cpu="1", **spec)
    made["metadata"]["labels"] = {f"{LINK}/workload": of, f"{LINK}/pod-group": "workers"}
    return made


def gang(name: str, least: int, mode: str = "Pod", **spec: Any) -> Manifest:
    return workload(group(gang={"minCount": least, "preemptionMode": mode}), name=name, **spec)


async def create_workloads(client: Client, namespace: str, *manifests: Manifest) -> None:
    path = f"/apis/{LINK}/v1alpha1/namespaces/{namespace}/workloads"
    for each in manifests:
        await client.create(path, each)


async def status_of(client: Client, namespace: str, name: str) -> Manifest:
    found = await client.get(f"/apis/{LINK}/v1alpha1/namespaces/{namespace}/workloads/{name}")
    return dict(found.get("status", {}))


async def test_a_gang_starts_whole_or_not_at_all(
    client: Client, namespace: str, seen: Kubelets, run: Callable[[], OurProcess]
) -> None:
    names = [f"train-{number}" for number in range(3)]
    await create_nodes(client, [node("one", cpu="1"), node("two", cpu="1")])
    run()
    await create_workloads(client, namespace, gang("train", 3))
    await create_pods(client, namespace, [member(name, "train") for name in names[:2]])
    await seen.until("it waits", lambda: seen.condition("train-0", "PodScheduled").get("reason") == "SchedulingGated")
    await create_pods(client, namespace, [member(names[2], "train")])
    await seen.until(
        "it is refused", lambda: seen.condition("train-0", "PodScheduled").get("reason") == "Unschedulable"
    )
    assert not any(seen.node_of(name) for name in names), "two of three have room and get nothing"

    await create_nodes(client, [node("three", cpu="1")])

    await seen.until("all of it is bound", lambda: seen.bound(*names))
    assert sorted(seen.node_of(name) for name in names) == ["one", "three", "two"]
    await create_nodes(client, [node("four", cpu="1")])
    await create_pods(client, namespace, [member("train-3", "train")])
    await seen.until("a late member joins", lambda: seen.node_of("train-3") == "four")


async def test_priorities_and_pods_that_disagree_are_shown_in_the_status(
    client: Client, namespace: str, seen: Kubelets, run: Callable[[], OurProcess]
) -> None:
    await create_nodes(client, [node("one")])
    run()
    shielded = gang("train", 1, priorityClassName="gang-low", preemptionPriorityClassName="gang-shield")
    await create_workloads(client, namespace, shielded)
    await create_pods(client, namespace, [member("train-0", "train")])
    await seen.until("it is bound", lambda: seen.bound("train-0"))
    status = await eventually_has(client, namespace, "train", "conditions")
    assert (status["priority"], status["preemptionPriority"]) == (10, 500)
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"]) == ("PodsNotMatchingPriority", "True")
    assert condition["message"] == "the workload's priority, 10, counts and not that of its pods: train-0 has 0"


async def eventually_has(client: Client, namespace: str, name: str, field: str) -> Manifest:
    async def status() -> Manifest | None:
        found = await status_of(client, namespace, name)
        return found if found.get(field) else None

    return await eventually_asked(f"the status of {name} has {field}", status)


async def test_a_gang_in_pod_group_mode_is_preempted_whole(
    client: Client, namespace: str, seen: Kubelets, run: Callable[[], OurProcess]
) -> None:
    await create_nodes(client, [node("one", cpu="1"), node("two", cpu="1")])
    run()
    await create_workloads(client, namespace, gang("train", 2, "PodGroup", priorityClassName="gang-low"))
    await create_pods(client, namespace, [member(name, "train") for name in ("train-0", "train-1")])
    await seen.until("the gang runs", lambda: seen.bound("train-0", "train-1"))

    await create_pods(client, namespace, [pod("urgent", cpu="1", priorityClassName="gang-high")])

    await seen.until("all of it is asked to leave", lambda: sorted(seen.asked) == ["train-0", "train-1"])
    for name in seen.asked:
        mark = seen.condition(name, "DisruptionTarget")
        assert (mark["status"], mark["reason"]) == ("True", "PreemptionByScheduler")
    where = seen.promised("urgent")
    assert where and not seen.bound("urgent"), "its promise is on record while they leave"
    await seen.let_go("train-0", "train-1")
    await seen.until("it takes the room promised to it", lambda: seen.node_of("urgent") == where)


async def test_a_gang_preempts_for_all_its_members_at_once_or_for_none(
    client: Client, namespace: str, seen: Kubelets, run: Callable[[], OurProcess]
) -> None:
    names = [f"urgent-{number}" for number in range(3)]
    low = [pod(f"low-{each}", cpu="1", priorityClassName="gang-low") for each in ("one", "two")]
    await create_nodes(client, [node("one", cpu="1"), node("two", cpu="1")])
    process = run()
    await create_pods(client, namespace, low)
    await seen.until("both nodes are taken", lambda: seen.bound("low-one", "low-two"))
    await create_workloads(client, namespace, gang("urgent", 3, priorityClassName="gang-high"))
    await create_pods(client, namespace, [member(name, "urgent", priorityClassName="gang-high") for name in names])
    await seen.until("it is refused", lambda: seen.condition(names[0], "PodScheduled").get("reason") == "Unschedulable")
    told = seen.condition(names[0], "PodScheduled")["message"]
    assert "Preemption would not help" in told
    assert not seen.asked, "two nodes are too few for three: nobody is touched"

    await create_nodes(client, [node("three", cpu="1")])

    await seen.until("both are asked to leave", lambda: sorted(seen.asked) == ["low-one", "low-two"])
    assert not any(seen.node_of(name) for name in names)
    await seen.let_go("low-one")
    await seen.let_go("low-two")
    await seen.until("the gang runs", lambda: seen.bound(*names))
    told = explained(process, f"{namespace}/urgent")
    assert f"pod group {namespace}/urgent/workers, priority 1000, preempts pod {namespace}/low-" in told
    assert f"by pod group {namespace}/urgent/workers, priority 1000" in told


def explained(process: OurProcess, name: str) -> str:
    """What our process says when it is asked as people ask it."""
    command = [HEADGATE, "explain", "preemption", name, "--server", f"http://127.0.0.1:{process.port}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("moment", ["when the first promise is on record", "when the first victim is asked to leave"])
async def test_a_successor_goes_on_where_its_predecessor_was_killed(
    client: Client, namespace: str, seen: Kubelets, run: Callable[[], OurProcess], moment: str
) -> None:
    """Twelve of twenty equal pods must leave. Whoever began with some of them is followed by one who takes the rest."""
    places = [f"n-{number:02d}" for number in range(20)]
    names = [f"urgent-{number:02d}" for number in range(12)]
    await create_nodes(client, [node(name, cpu="1") for name in places])
    first = run()
    await create_workloads(client, namespace, gang("urgent", 12, priorityClassName="gang-high"))
    await create_pods(client, namespace, [pod(f"low-{name}", cpu="1") for name in places])
    await seen.until("all nodes are taken", lambda: seen.bound(*(f"low-{name}" for name in places)))
    await create_pods(client, namespace, [member(name, "urgent") for name in names])
    await seen.until(moment, lambda: bool(seen.asked) or ("promise" in moment and any(map(seen.promised, names))))
    first.kill()
    started, promises = set(seen.asked), {name: seen.promised(name) for name in names}

    run()

    await seen.until("so many leave as must", lambda: len(seen.asked) == len(names))
    assert started <= set(seen.asked)
    kept = {name: node for name, node in promises.items() if node}
    assert {name: seen.promised(name) for name in kept} == kept, "promises on record are kept"
    await seen.let_go(*list(seen.asked))
    await seen.until("the gang runs", lambda: seen.bound(*names))
    freed = sorted(seen.node_of(name) for name in seen.asked)
    assert sorted(seen.node_of(name) for name in names) == freed, "each who left made room for one of them"
    assert len(seen.asked) == len(names), "nobody left in vain"


class WithPodGroups(Cluster):
    """A server that has upstream's own PodGroup switched on."""

    def _apiserver_command(self) -> list[str | Path]:
        served = "--runtime-config=scheduling.k8s.io/v1alpha2=true"
        gates = "--feature-gates=GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true"
        return [*super()._apiserver_command(), served, gates]


def of_group(name: str, group_name: str) -> Manifest:
    return pod(name, cpu="1", schedulingGroup={"podGroupName": group_name})


def pod_group(name: str, least: int, **spec: Any) -> Manifest:
    kind = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": name}}
    return {**kind, "spec": {"schedulingPolicy": {"gang": {"minCount": least}}, **spec}}


async def test_upstreams_own_pod_group_is_understood(tmp_path: Path) -> None:
    with WithPodGroups(tmp_path) as other:
        process = OurProcess(other.kubeconfig_of_own_account(), tmp_path / "headgate.log", "--no-leader-elect")
        try:
            async with Client(other.server) as client, Kubelets(other.server, "default") as seen:
                await scheduled_and_preempted_by_pod_groups(client, seen)
        finally:
            process.stop()


async def scheduled_and_preempted_by_pod_groups(client: Client, seen: Kubelets) -> None:
    groups = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
    await create_nodes(client, [node("one", cpu="1"), node("two", cpu="1")])
    await client.create(CLASSES, priority_class("gang-high", 1000))
    await client.create(groups, pod_group("train", 2, disruptionMode="PodGroup"))
    await create_pods(client, "default", [of_group("train-0", "train")])
    await seen.until("it waits", lambda: seen.condition("train-0", "PodScheduled").get("reason") == "SchedulingGated")
    await create_pods(client, "default", [of_group("train-1", "train")])
    await seen.until("the gang runs", lambda: seen.bound("train-0", "train-1"))

    await client.create(groups, pod_group("urgent", 1, priorityClassName="gang-high"))
    await create_pods(client, "default", [of_group("urgent-0", "urgent")])

    await seen.until("all of it is asked to leave", lambda: sorted(seen.asked) == ["train-0", "train-1"])
    await seen.let_go("train-0", "train-1")
    await seen.until("the other runs", lambda: seen.bound("urgent-0"))
