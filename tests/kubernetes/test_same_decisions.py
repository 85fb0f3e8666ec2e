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
from cluster import Cluster
from objects import (
    NAMESPACES,
    NODES,
    Manifest,
    collection,
    create_nodes,
    create_with_status,
    place,
    pods_path,
    remove_all,
)
from their_scheduler import Decision, PodName, their_decisions
from wire import Client
from worlds import DEVICE, Maker, World
from worlds_owners import Owners
from worlds_storage import Storage

from headgate.api.configuration import settings_from
from headgate.api.decode import decode, decode_list
from headgate.api.kinds import RESOURCES, collection_path
from headgate.engine.loop import Engine
from headgate.engine.scheduler.plugins import plugins_for
from headgate.engine.scheduler.resolving import Resolver, Unresolved
from headgate.model.effects import Bind
from headgate.model.events import Observed
from headgate.model.node import Node
from headgate.model.objects import Namespace, Object
from headgate.model.pod import Pod
from headgate.placement.neighbours import Neighbours
from headgate.placement.ranking import UNFIT
from headgate.placement.table import NodeTable
from headgate.placement.volumes import Attachments

WORLDS = 300
MORE = ((Owners, 4), (Storage, 5))
"""What every so many worlds have beside the rest; most have none of it.

Pod-level requests are not among it: kube-scheduler's resource score passes over those of the pod it places, ours counts
them.
"""
INCOMING = "/api/v1/pods?labelSelector=role%3Dincoming"
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
SCHEDULERS = ["default-scheduler", "default-scheduler", *STRATEGIES]  # the first as often as all others
CHOICES: Manifest = {"percentageOfNodesToScore": 100, "profiles": PROFILES}
"""What both are told: the same text is part of our configuration and of kube-scheduler's."""
SETTINGS = settings_from({"scheduler": CHOICES}, "both")


class Difference(NamedTuple):
    world: World
    ours: Decision
    theirs: Decision
    scores: dict[str, int]  # of each node that will do, by our rules

    def __str__(self) -> str:
        return f"{self.world.name}: ours {self.ours}; theirs {self.theirs}; our scores {self.scores}"

    def manifests(self) -> str:
        world = self.world
        everything = [*world.namespaces, *world.nodes, *world.others, *pods(world)]
        documents = yaml.safe_dump_all(everything, sort_keys=False)
        return f"# {world.name}: being deleted {names(world.leaving)}, ended {names(world.ended)}\n{documents}"


@pytest.fixture
async def worlds(client: Client) -> AsyncIterator[list[World]]:
    made = [make_world(seed) for seed in range(WORLDS)]
    try:
        await create(client, made)
        yield made
    finally:
        homes = [home for world in made for home in names(world.namespaces)]
        await asyncio.gather(*(remove_all(client, pods_path(home)) for home in homes))
        await remove_all(client, NODES)


def make_world(seed: int) -> World:
    made = Maker(seed, SCHEDULERS).world()
    for more, every in MORE:
        made = more(made).added() if seed % every == 0 else made
    return made


@pytest.mark.timeout(900)
async def test_the_same_pods_find_a_node_and_the_same_one_unless_scores_tie(
    cluster: Cluster, client: Client, worlds: list[World], tmp_path: Path
) -> None:
    objects = [each async for each in observed(client)]
    ours = our_decisions(objects)
    theirs = await their_decisions(cluster, client, tmp_path, CHOICES, INCOMING)
    boards = Scoreboard(objects)

    differences = [
        Difference(world, ours[key], theirs[key], boards.scores(key))
        for world in worlds
        if boards.differ(key := incoming_name(world), ours[key], theirs[key])
    ]
    assert not differences, told(differences)
    check_that_worlds_differ(worlds, theirs, boards)


def check_that_worlds_differ(worlds: list[World], decisions: dict[PodName, Decision], boards: Scoreboard) -> None:
    """Lest they agree because there was nothing to decide."""
    placed = {key for key, decision in decisions.items() if decision.node}
    with_claims = {incoming_name(world) for world in worlds if "volumes" in world.incoming["spec"]}
    for some in (set(decisions), with_claims):
        found = len(some & placed)
        assert len(some) // 4 < found < len(some) * 9 // 10, f"{found} of {len(some)} found a node: too one-sided"
    chosen = {key for key in placed if boards.is_a_choice(key)}
    assert len(chosen) > WORLDS // 4, f"only {len(chosen)} had a best node among several"
    spread = {key for key in chosen if boards.is_spread_by_default(key)}
    assert len(spread) > WORLDS // 20, f"only {len(spread)} of these were spread by default"


def told(differences: list[Difference]) -> str:
    lines = [f"{len(differences)} of {WORLDS} decisions differ", *map(str, differences)]
    return "\n".join([*lines, *(each.manifests() for each in differences[:SHOWN])])


def our_decisions(objects: list[Object]) -> dict[PodName, Decision]:
    """What our engine makes of the cluster as it is stored, in one step."""
    engine = Engine(SETTINGS)
    effects = engine.step([Observed(each) for each in objects], now=0.0)
    nodes = {effect.target.key: effect.node for effect in effects if isinstance(effect, Bind)}
    waiting = [each.key for each in objects if isinstance(each, Pod) and each.wants_node]
    return {
        (key.namespace, key.name): Decision(nodes.get(key, ""), engine.journal.about(key)[-1].message)
        for key in waiting
    }


class Scoreboard:
    """What each node scores for a pod, by our rules, in the cluster as it was before any decision."""

    def __init__(self, objects: list[Object]) -> None:
        self._table = NodeTable()
        neighbours, attachments = Neighbours(self._table), Attachments(self._table)
        self._resolver = Resolver(SETTINGS.profiles, attachments)
        self._pods = {(each.key.namespace, each.key.name): each for each in objects if isinstance(each, Pod)}
        for each in objects:
            match each:
                case Node():
                    self._table.put(each)
                case Namespace():
                    neighbours.relabel(each.key.name, each.labels)
                case Pod() if each.holds_room:
                    self._table.charge(each, each.node)
                case _:
                    self._resolver.observe(each)
        profiles = {profile.scheduler_name: profile for profile in SETTINGS.profiles}
        self._rules = {name: plugins_for(profile, neighbours, attachments).rules for name, profile in profiles.items()}
        self.scores = cache(self._scores)  # of every node that will do for the pod of that name, its weighted sum

    def differ(self, pod: PodName, ours: Decision, theirs: Decision) -> bool:
        """Another choice that is not a tie, or scores that are apart by more than what all nodes have alike."""
        scores = self.scores(pod)
        tied = ours.node in scores and scores.get(theirs.node) == scores[ours.node]
        return (ours.node != theirs.node and not tied) or not _alike(scores, theirs.scores)

    def is_a_choice(self, pod: PodName) -> bool:
        """Several nodes would do, and one is better than all others."""
        ranked = sorted(self.scores(pod).values(), reverse=True)
        return len(ranked) > 1 and ranked[0] > ranked[1]

    def is_spread_by_default(self, pod: PodName) -> bool:
        known, resolved = self._pods[pod], self._resolver.resolve(self._pods[pod])
        return isinstance(resolved, Pod) and resolved.shape.peers != known.shape.peers

    def _scores(self, name: PodName) -> dict[str, int]:
        pod = self._resolver.resolve(self._pods[name])
        if isinstance(pod, Unresolved):
            return {}
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


def _alike(ours: dict[str, int], theirs: dict[str, int]) -> bool:
    """The same nodes, and the same distance between any two; kube-scheduler does not score a node that is alone."""
    if not theirs:
        return len(ours) <= 1
    return ours.keys() == theirs.keys() and len({ours[name] - theirs[name] for name in ours}) == 1


async def observed(client: Client) -> AsyncIterator[Object]:
    for kind in Engine(SETTINGS).reads:
        answer = await client.request("GET", collection_path(RESOURCES[kind]))
        served = answer.code != 404 or not RESOURCES[kind].optional
        for raw in decode_list(answer.body).items if served else ():
            yield decode(kind, raw)


async def create(client: Client, worlds: list[World]) -> None:
    """All worlds at once, as they are before kube-scheduler starts."""
    await asyncio.gather(*(client.create(NAMESPACES, home) for world in worlds for home in world.namespaces))
    await create_nodes(client, [each for world in worlds for each in world.nodes])
    await asyncio.gather(*(create_with_status(client, each) for world in worlds for each in world.others))
    await asyncio.gather(*(client.create(collection(each), each) for world in worlds for each in pods(world)))
    await asyncio.gather(*(client.delete(place(each)) for world in worlds for each in world.leaving))
    ended = {"status": {"phase": "Succeeded"}}
    await asyncio.gather(*(client.patch(f"{place(each)}/status", ended) for world in worlds for each in world.ended))


def pods(world: World) -> Iterator[Manifest]:
    yield from world.placed
    yield world.incoming


def names(manifests: list[Manifest]) -> list[str]:
    return [each["metadata"]["name"] for each in manifests]


def incoming_name(world: World) -> PodName:
    return world.incoming["metadata"]["namespace"], world.incoming["metadata"]["name"]
