"""The extension points of pod scheduling (Filter, Score, Reserve, Bind) and the one list of plugins at each.

The PreEnqueue plugins are in `gates.pre_enqueue`, the capacity stages in `capacity`. PostFilter is preemption: one
algorithm, which a profile has on or off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from headgate.engine.metrics import FILTER, RESERVE, SCORE, PluginObserver, R, unwatched
from headgate.model.effects import Bind, Effect, RemoveGate
from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.model.settings import Point, Profile
from headgate.model.volcano import QUEUE_GATES
from headgate.placement.affinity import InterPodAffinity
from headgate.placement.filters import LOAD_FILTERS, NODE_FILTERS, NodeAffinity, TaintToleration, Verdicts
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import Rules
from headgate.placement.plugins import FieldScore, PeerFilter, RowScore
from headgate.placement.ranking import RowRules
from headgate.placement.scores import (
    BalancedAllocation,
    ImageLocality,
    PreferredNodeAffinity,
    PreferredTaints,
    ResourceScore,
)
from headgate.placement.spreading import PodTopologySpread
from headgate.placement.table import NodeTable
from headgate.placement.volumes import (
    Attachments,
    DynamicResources,
    NodeVolumeLimits,
    Seldom,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)


class Reserve(Protocol):
    """What a placed pod reserves before it is bound, and gives back when binding fails or the pod is gone."""

    @property
    def name(self) -> str: ...

    def reserve(self, pod: Pod, node: str) -> None: ...

    def unreserve(self, pod: Key) -> None: ...


class Binder(Protocol):
    """The effects that bind a placed pod to its node."""

    def bind(self, pod: Pod, node: str) -> Iterator[Effect]:
        """Exactly one Bind, and before it what must be done first, such as removing a scheduling gate."""


class NodeReservation:
    """Charges the pod's requests to its node."""

    name = "NodeRoom"

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes

    def reserve(self, pod: Pod, node: str) -> None:
        self._nodes.charge(pod, node)

    def unreserve(self, pod: Key) -> None:
        self._nodes.release(pod)


class DefaultBinder:
    """Removes the queue-allocation gates first, those at the end before those at the front, as places shift."""

    def bind(self, pod: Pod, node: str) -> Iterator[RemoveGate | Bind]:
        for index in range(len(pod.gates) - 1, -1, -1) if pod.gates else ():
            if pod.gates[index] in QUEUE_GATES:
                yield RemoveGate(pod.target, pod.gates[index], index)
        yield Bind(pod.target, node)


class Plugins(Struct, frozen=True):
    """The plugins of one profile, in the order they run."""

    rules: Rules
    reserve: tuple[Reserve, ...]
    binder: Binder


WEIGHTS: Mapping[str, int] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
"""Default weights of the Score plugins."""


def plugins_for(
    profile: Profile, neighbours: Neighbours, attachments: Attachments | None = None, watch: PluginObserver = unwatched
) -> Plugins:
    """The list of plugins, without those the profile turned off."""
    nodes = neighbours.nodes
    spread = PodTopologySpread(neighbours, Verdicts(NodeAffinity(), nodes), Verdicts(TaintToleration(), nodes))
    affinity = InterPodAffinity(neighbours)
    judging: tuple[RowScore, ...] = (ResourceScore(profile.scoring), BalancedAllocation())
    near: tuple[PeerFilter, ...] = (
        Seldom(VolumeRestrictions(), nodes),
        NodeVolumeLimits(attachments or Attachments(nodes)),
        Seldom(VolumeBinding(), nodes),
        Seldom(VolumeZone(), nodes),
        spread,
        affinity,
        Seldom(DynamicResources(), nodes),
    )
    comparing: tuple[FieldScore, ...] = (
        PreferredTaints(nodes),
        PreferredNodeAffinity(nodes),
        spread,
        affinity,
        ImageLocality(nodes),
    )
    return Plugins(
        rules=Rules(
            rows=RowRules(
                nodes,
                node_filters=tuple(Verdicts(rule, nodes) for rule in _filters(profile, NODE_FILTERS, watch)),
                load_filters=_filters(profile, LOAD_FILTERS, watch),
                scores=_scores(profile, judging, watch),
            ),
            neighbours=neighbours,
            peer_filters=(*_filters(profile, near, watch), neighbours.nominations),
            field_scores=_scores(profile, comparing, watch),
            percentage=profile.percentage_of_nodes_to_score or 0,
        ),
        reserve=(watch(NodeReservation(nodes), RESERVE),),
        binder=DefaultBinder(),
    )


def _filters(profile: Profile, rules: tuple[R, ...], watch: PluginObserver) -> tuple[R, ...]:
    return tuple(watch(rule, FILTER) for rule in profile.kept(rules, Point.FILTER))


def _scores(profile: Profile, rules: tuple[R, ...], watch: PluginObserver) -> tuple[tuple[R, int], ...]:
    """Each with its weight."""
    kept = profile.kept(rules, Point.SCORE)
    return tuple((watch(rule, SCORE), profile.weights.get(rule.name, WEIGHTS[rule.name])) for rule in kept)
