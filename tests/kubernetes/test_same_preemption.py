"""Beside kube-scheduler on one API server: the same pods must leave for the one that comes, unless candidates tie."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import objects
import pytest
import yaml
from children import Child
from cluster import Cluster
from conftest import Start
from objects import (
    NAMESPACES,
    NODES,
    Manifest,
    collection,
    create_nodes,
    create_with_status,
    pods_path,
    remove_all,
)
from their_preemption import LOGGED, Judge, logged_candidates, node_number
from their_scheduler import started
from wire import Client
from worlds import World
from worlds_preemption import FullWorlds, priority_classes

from headgate.api.install_manifests import definitions

WORLDS = 300
PATIENCE = 300.0  # seconds until all pods are decided on
LOOK_EVERY = 1.0  # seconds
LOOKS = 4  # what has not changed for so many is done
SHOWN = 3  # worlds a failure prints in full
PODS = "/api/v1/pods"
INCOMING = f"{PODS}?labelSelector=role%3Dincoming"
PREEMPTED = ("DisruptionTarget", "True", "PreemptionByScheduler")


class Answer(NamedTuple):
    """What became of a world: its incoming pod is bound, or nominated, or neither; and who has to leave."""

    bound: str
    nominated: str
    victims: frozenset[str]
    reason: str = ""

    @property
    def verdict(self) -> str:
        return "bound" if self.bound else "preempts" if self.nominated or self.victims else "pending"


class Case(NamedTuple):
    """One world, decided twice."""

    world: World
    ours: Answer
    theirs: Answer
    judge: Judge

    @property
    def agrees(self) -> bool:
        """The same verdict, and where others have to leave, one of the best candidates of kube-scheduler."""
        ours, theirs = self.ours, self.theirs
        if ours.verdict != theirs.verdict or ours.verdict != "preempts":
            return ours.verdict == theirs.verdict
        return ours.nominated in self.judge.best() and ours.victims == self.judge.candidates[ours.nominated]

    def __str__(self) -> str:
        judge = self.judge
        lines = [f"{self.world.name}:", f"  ours {self.ours}", f"  theirs {self.theirs}"]
        lines += [f"  node {node}: {sorted(names)} {judge.cost(node)}" for node, names in judge.candidates.items()]
        return "\n".join(lines)

    def manifests(self) -> str:
        world = self.world
        return yaml.safe_dump_all([*world.nodes, *world.others, *world.placed, world.incoming], sort_keys=False)


@pytest.fixture
async def classes(client: Client) -> AsyncIterator[None]:
    """The priority classes that pods name."""
    async with objects.priority_classes(client, *priority_classes()):
        yield


@pytest.fixture
def gangs(cluster: Cluster) -> None:
    """Workloads can be created. kube-scheduler knows nothing of them, and is to choose as if nobody did."""
    cluster.define(*definitions())


@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("classes", "gangs")
async def test_the_same_pods_must_leave_for_the_one_that_comes(
    cluster: Cluster, client: Client, start: Start, tmp_path: Path
) -> None:
    async with created(client, "theirs", "default-scheduler") as worlds:
        scheduler = started(cluster, tmp_path, {"percentageOfNodesToScore": 100}, LOGGED)
        theirs = await answers(client, scheduler, worlds)
    async with created(client, "ours", "headgate") as same_worlds:
        ours = await answers(client, start("--no-leader-elect"), same_worlds)
    candidates = logged_candidates(scheduler.written())
    cases = [
        Case(world, mine, other, Judge(world, candidates.get(world.name, {})))
        for world, mine, other in zip(worlds, ours, theirs, strict=True)
    ]
    check_that_worlds_differ(cases)
    differences = [case for case in cases if not case.agrees]
    assert not differences, told(differences)


@asynccontextmanager
async def created(client: Client, name: str, scheduler: str) -> AsyncIterator[list[World]]:
    """All worlds, the same for every scheduler but for their names; one scheduler is not bothered with another's."""
    worlds = [FullWorlds(seed, f"{name}-{seed:03d}", scheduler).world() for seed in range(WORLDS)]
    try:
        await asyncio.gather(*(client.create(NAMESPACES, home) for world in worlds for home in world.namespaces))
        await create_nodes(client, [each for world in worlds for each in world.nodes])
        standing = [each for world in worlds for each in (*world.others, *world.placed)]
        await asyncio.gather(*(create_with_status(client, each) for each in standing))
        await asyncio.gather(*(client.create(collection(world.incoming), world.incoming) for world in worlds))
        yield worlds
    finally:
        await asyncio.gather(*(remove_all(client, pods_path(world.name)) for world in worlds))
        await remove_all(client, NODES)


def check_that_worlds_differ(cases: list[Case]) -> None:
    """Lest they agree because there was nothing to decide, or the costs computed here are not those compared there."""
    preempting = [case for case in cases if case.theirs.verdict == "preempts"]
    misjudged = [case for case in preempting if case.theirs.nominated not in case.judge.best()]
    assert not misjudged, f"kube-scheduler itself chose another:\n{told(misjudged)}"
    verdicts = Counter(case.theirs.verdict for case in cases)
    assert min(verdicts[verdict] for verdict in ("bound", "preempts", "pending")) > WORLDS // 10, verdicts
    choices = [case for case in preempting if len(case.judge.best()) < len(case.judge.candidates)]
    assert len(choices) > WORLDS // 10, f"only {len(choices)} had a best candidate among several"
    violating = [case for case in preempting if case.judge.cost(case.theirs.nominated).violations]
    assert len(violating) > WORLDS // 20, f"only {len(violating)} had to violate a budget"
    for mark in ("/workload", "/checkpoint"):
        marked = [case for case in preempting if any(_carries(each, mark) for each in case.world.placed)]
        assert len(marked) > WORLDS // 10, f"only {len(marked)} were decided beside pods with {mark}"


def _carries(pod: Manifest, mark: str) -> bool:
    metadata = pod["metadata"]
    return any(mark in name for name in (*metadata.get("labels", {}), *metadata.get("annotations", {})))


def told(cases: list[Case]) -> str:
    lines = [f"{len(cases)} of {WORLDS} worlds", *map(str, cases)]
    return "\n".join([*lines, *(case.manifests() for case in cases[:SHOWN])])


async def answers(client: Client, scheduler: Child, worlds: list[World]) -> list[Answer]:
    """What becomes of the worlds, when all pods are decided on and nothing changes any more; then it is stopped."""
    before: list[list[Answer]] = []
    try:
        async with asyncio.timeout(PATIENCE):
            while not all(map(is_decided, await pods_of(client, worlds, INCOMING))):
                assert scheduler.running, scheduler.written()[-2000:]
                await asyncio.sleep(LOOK_EVERY)
            while (now := await seen(client, worlds)) and (before != [now] * LOOKS or any(map(awaits_victims, now))):
                before = [*before, now][-LOOKS:]
                await asyncio.sleep(LOOK_EVERY)
    finally:
        scheduler.stop()
    return now


async def pods_of(client: Client, worlds: list[World], collection: str) -> list[Manifest]:
    homes = {world.name for world in worlds}
    return [each for each in (await client.get(collection))["items"] if each["metadata"]["namespace"] in homes]


async def seen(client: Client, worlds: list[World]) -> list[Answer]:
    pods: dict[str, list[Manifest]] = {world.name: [] for world in worlds}
    for each in await pods_of(client, worlds, PODS):
        pods[each["metadata"]["namespace"]].append(each)
    return [answer_of(each) for each in pods.values()]


def answer_of(pods: Iterable[Manifest]) -> Answer:
    named = {each["metadata"]["name"]: each for each in pods}
    incoming = named.pop("incoming")
    bound = incoming["spec"].get("nodeName", "")
    nominated = "" if bound else incoming["status"].get("nominatedNodeName", "")
    victims = frozenset(name for name, each in named.items() if is_preempted(each))
    reasons = [each.get("message", "") for each in incoming["status"].get("conditions", ())]
    return Answer(node_number(bound), node_number(nominated), victims, "; ".join(reasons))


def awaits_victims(answer: Answer) -> bool:
    """Whether its victims are chosen and not evicted yet."""
    return bool(answer.nominated) and not answer.victims


def is_decided(incoming: Manifest) -> bool:
    conditions = incoming["status"].get("conditions", ())
    return "nodeName" in incoming["spec"] or any(each["type"] == "PodScheduled" for each in conditions)


def is_preempted(pod: Manifest) -> bool:
    conditions = [(each["type"], each["status"], each.get("reason")) for each in pod["status"].get("conditions", ())]
    return "deletionTimestamp" in pod["metadata"] and PREEMPTED in conditions
