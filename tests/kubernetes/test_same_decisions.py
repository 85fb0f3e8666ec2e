"""Beside kube-scheduler on one API server: the same pods find a node, and the same node unless scores tie."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import yaml
from assets import program
from children import Child
from cluster import KUBE_SCHEDULER, Cluster
from objects import NODES, Manifest, create_nodes, pods_path, remove_all
from wire import Client
from worlds import DEVICE, Maker, World

from headgate.api.configuration import settings_from
from headgate.api.decode import decode, decode_list
from headgate.engine.extension_points import plugins_for
from headgate.engine.loop import Engine
from headgate.model.effects import Bind
from headgate.model.events import Observed
from headgate.model.keys import Key, Kind
from headgate.model.node import Node
from headgate.model.objects import Namespace, Object
from headgate.model.pod import Pod
from headgate.placement.neighbours import Neighbours
from headgate.placement.ranking import UNFIT
from headgate.placement.table import NodeTable

WORLDS = 300
READ = {Kind.NAMESPACE: "/api/v1/namespaces", Kind.NODE: NODES, Kind.POD: "/api/v1/pods"}
PATIENCE = 90.0  # seconds for kube-scheduler to look at every pod once
SHOWN = 3  # worlds a failure prints in full
LARGE_FIRST = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 3}, {"name": DEVICE, "weight": 5}]
CURVE = [{"utilization": 0, "score": 3}, {"utilization": 45, "score": 10}, {"utilization": 90, "score": 0}]
STRATEGIES: Mapping[str, Manifest] = {
    "packing": {"type": "MostAllocated", "resources": LARGE_FIRST},
    "curved": {
        "type": "RequestedToCapacityRatio",
        "resources": LARGE_FIRST,
        "requestedToCapacityRatio": {"shape": CURVE},
    },
}
PROFILES: list[Manifest] = [
    {"schedulerName": "default-scheduler"},
    *(
        {"schedulerName": name, "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]}
        for name, strategy in STRATEGIES.items()
    ),
]
"""What both are told: the same text is part of our configuration and of kube-scheduler's."""
SCHEDULERS = ["default-scheduler", "default-scheduler", *STRATEGIES]  # the first as often as all others
SETTINGS = settings_from({"scheduler": {"profiles": PROFILES}}, "both")


class Decision(NamedTuple):
    node: str  # empty when no node will do
    reason: str = ""


class Difference(NamedTuple):
    world: World
    ours: Decision
    theirs: Decision
    scores: dict[str, int]  # of each node that will do, by our rules

    def __str__(self) -> str:
        return f"{self.world.name}: ours {self.ours}; theirs {self.theirs}; our scores {self.scores}"

    def manifests(self) -> str:
        world = self.world
        documents = yaml.safe_dump_all([*world.namespaces, *world.nodes, *pods(world)], sort_keys=False)
        return f"# {world.name}: being deleted {names(world.leaving)}, ended {names(world.ended)}\n{documents}"


@pytest.fixture
async def worlds(client: Client) -> AsyncIterator[list[World]]:
    made = [Maker(seed, SCHEDULERS).world() for seed in range(WORLDS)]
    await create(client, made)
    yield made
    homes = [home for world in made for home in names(world.namespaces)]
    await asyncio.gather(*(remove_all(client, pods_path(home)) for home in homes))
    await remove_all(client, NODES)


@pytest.mark.timeout(300)
async def test_the_same_pods_find_a_node_and_the_same_one_unless_scores_tie(
    cluster: Cluster, client: Client, worlds: list[World], tmp_path: Path
) -> None:
    objects = [each async for each in observed(client)]
    ours = our_decisions(objects)
    theirs = await their_decisions(cluster, client, tmp_path)
    boards = Scoreboard(objects)

    differences = [
        Difference(world, ours[key], theirs[key], boards.scores(key))
        for world in worlds
        if boards.differ(key := incoming_key(world), ours[key].node, theirs[key].node)
    ]
    assert not differences, told(differences)
    placed = [key for key, decision in theirs.items() if decision.node]
    assert WORLDS // 4 < len(placed) < WORLDS * 9 // 10, f"{len(placed)} of {WORLDS} found a node: too one-sided"
    chosen = [key for key in placed if boards.is_a_choice(key)]
    assert len(chosen) > WORLDS // 4, f"only {len(chosen)} had a best node among several"


def told(differences: list[Difference]) -> str:
    lines = [f"{len(differences)} of {WORLDS} decisions differ", *map(str, differences)]
    return "\n".join([*lines, *(each.manifests() for each in differences[:SHOWN])])


def our_decisions(objects: list[Object]) -> dict[Key, Decision]:
    """What our engine makes of the cluster as it is stored, in one step."""
    engine = Engine(SETTINGS)
    effects = engine.step([Observed(each) for each in objects], now=0.0)
    nodes = {effect.target.key: effect.node for effect in effects if isinstance(effect, Bind)}
    waiting = [each.key for each in objects if isinstance(each, Pod) and each.wants_node]
    return {key: Decision(nodes.get(key, ""), engine.journal.about(key)[-1].message) for key in waiting}


async def their_decisions(cluster: Cluster, client: Client, folder: Path) -> dict[Key, Decision]:
    """What kube-scheduler makes of it when it is started now."""
    configuration = folder / "kube-scheduler.yaml"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {
            "kubeconfig": str(cluster.kubeconfig_of_user(*KUBE_SCHEDULER)),
            "qps": 5000,
            "burst": 5000,
        },
        "percentageOfNodesToScore": 100,
        "profiles": PROFILES,
    }
    configuration.write_text(yaml.safe_dump(document))
    command = [program("kube-scheduler"), f"--config={configuration}", "--secure-port=0"]
    scheduler = Child(command, folder / "kube-scheduler.log")
    try:
        async with asyncio.timeout(PATIENCE):
            while None in (decisions := await seen(client)).values():
                assert scheduler.running, scheduler.written()[-2000:]
                await asyncio.sleep(0.3)
    finally:
        scheduler.stop()
    return {key: decision for key, decision in decisions.items() if decision is not None}


async def seen(client: Client) -> dict[Key, Decision | None]:
    """What became of each incoming pod; None while it was not looked at."""
    listed = await client.get(f"{READ[Kind.POD]}?labelSelector=role%3Dincoming")
    return {
        Key(Kind.POD, each["metadata"]["namespace"], each["metadata"]["name"]): _decision(each)
        for each in listed["items"]
    }


def _decision(pod: Manifest) -> Decision | None:
    if pod["spec"].get("nodeName"):
        return Decision(pod["spec"]["nodeName"])
    conditions = {each["type"]: each for each in pod["status"].get("conditions", ())}
    return Decision("", conditions["PodScheduled"].get("message", "")) if "PodScheduled" in conditions else None


class Scoreboard:
    """What each node scores for a pod, by our rules, in the cluster as it was before any decision."""

    def __init__(self, objects: list[Object]) -> None:
        self._table = NodeTable()
        neighbours = Neighbours(self._table)
        self._pods = {each.key: each for each in objects if isinstance(each, Pod)}
        for each in objects:
            match each:
                case Node():
                    self._table.put(each)
                case Namespace():
                    neighbours.relabel(each.key.name, each.labels)
                case Pod() if each.holds_room:
                    self._table.charge(each, each.node)
        profiles = {profile.scheduler_name: profile for profile in SETTINGS.profiles}
        self._rules = {name: plugins_for(profile, neighbours).rules for name, profile in profiles.items()}
        self.scores = cache(self._scores)  # of every node that will do for the pod of that key, its weighted sum

    def differ(self, key: Key, ours: str, theirs: str) -> bool:
        scores = self.scores(key)
        return ours != theirs and not (ours in scores and scores.get(theirs) == scores[ours])

    def is_a_choice(self, key: Key) -> bool:
        """Several nodes would do, and one is better than all others."""
        ranked = sorted(self.scores(key).values(), reverse=True)
        return len(ranked) > 1 and ranked[0] > ranked[1]

    def _scores(self, key: Key) -> dict[str, int]:
        pod = self._pods[key]
        rules = self._rules[pod.scheduler_name]
        totals = rules.rows.rate(pod.shape, slice(0, len(self._table.nodes)))
        for rule in rules.peer_filters:
            for _, met in rule.demands(pod) if rule.concerns(pod) else ():
                totals[~met] = UNFIT
        fit = np.flatnonzero(totals > UNFIT)
        for score, weight in rules.field_scores if len(fit) else ():
            points = score.scores(pod, fit) if score.compares(pod) else None
            if points is not None:
                totals[fit] += weight * points
        return {self._table.name_at(row): int(totals[row]) for row in fit}


async def observed(client: Client) -> AsyncIterator[Object]:
    for kind, path in READ.items():
        answer = await client.request("GET", path)
        for raw in decode_list(answer.body).items:
            yield decode(kind, raw)


async def create(client: Client, worlds: list[World]) -> None:
    """All worlds at once, as they are before kube-scheduler starts."""
    await asyncio.gather(*(client.create(READ[Kind.NAMESPACE], home) for world in worlds for home in world.namespaces))
    await create_nodes(client, [each for world in worlds for each in world.nodes])
    await asyncio.gather(*(client.create(collection(each), each) for world in worlds for each in pods(world)))
    await asyncio.gather(*(client.delete(place(each)) for world in worlds for each in world.leaving))
    ended = {"status": {"phase": "Succeeded"}}
    await asyncio.gather(*(client.patch(f"{place(each)}/status", ended) for world in worlds for each in world.ended))


def pods(world: World) -> Iterator[Manifest]:
    yield from world.placed
    yield world.incoming


def names(manifests: list[Manifest]) -> list[str]:
    return [each["metadata"]["name"] for each in manifests]


def collection(pod: Manifest) -> str:
    return pods_path(pod["metadata"]["namespace"])


def place(pod: Manifest) -> str:
    return f"{collection(pod)}/{pod['metadata']['name']}"


def incoming_key(world: World) -> Key:
    return Key(Kind.POD, world.incoming["metadata"]["namespace"], world.incoming["metadata"]["name"])
