"""Affinity and tolerations, from the wire to what scheduling compares."""

from __future__ import annotations

from functools import lru_cache

import msgspec
from msgspec import Struct

from headgate.api.errors import InvalidField, invalid_field
from headgate.api.peers import PodAffinity, preferred_peers, required_peers
from headgate.api.wire import Expression, Int32, Int64, Wire
from headgate.model.affinity import NodeTerm, PreferredTerm, Toleration
from headgate.model.node import TaintEffect
from headgate.model.peers import PodTerm, WeightedTerm
from headgate.model.requirements import Requirement

AFFINITY = "$.spec.affinity"
KEPT_AFFINITIES = 4096  # different affinities whose meaning is kept

_EFFECTS: dict[str, TaintEffect | None] = {"": None} | {effect.value: effect for effect in TaintEffect}


class NodeSelectorTerm(Wire, frozen=True):
    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeSelector(Wire, frozen=True):
    node_selector_terms: list[NodeSelectorTerm]


class Preference(Wire, frozen=True):
    weight: Int32
    preference: NodeSelectorTerm


class NodeAffinity(Wire, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[Preference] | None = None


class Affinity(Wire, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class AffinityDemands(Struct, frozen=True, gc=False):
    """What one affinity says of nodes and of other pods, by the names of PodShape and PeerDemands."""

    required_terms: tuple[NodeTerm, ...] | None = None
    preferred_terms: tuple[PreferredTerm, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferences: tuple[WeightedTerm, ...] = ()


class TolerationEntry(Wire, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


NO_AFFINITY = AffinityDemands()
_affinities = msgspec.json.Decoder(Affinity | None)


@lru_cache(maxsize=KEPT_AFFINITIES)
def affinity_demands(raw: bytes, namespace: str) -> AffinityDemands:
    """The spec's affinity; pods of one template say the same, so each text is read once per namespace."""
    try:
        wire = _affinities.decode(raw)
    except msgspec.DecodeError as error:
        field = invalid_field(error)
        raise InvalidField(field.path.replace("$", AFFINITY, 1), field.expected) from None
    return NO_AFFINITY if wire is None else _demands(wire, namespace)


def _demands(wire: Affinity, namespace: str) -> AffinityDemands:
    near, far = f"{AFFINITY}.podAffinity", f"{AFFINITY}.podAntiAffinity"
    return AffinityDemands(
        required_terms=_required_terms(wire.node_affinity) if wire.node_affinity else None,
        preferred_terms=_preferred_terms(wire.node_affinity) if wire.node_affinity else (),
        affinity=required_peers(near, wire.pod_affinity, namespace),
        anti_affinity=required_peers(far, wire.pod_anti_affinity, namespace),
        preferences=(
            *preferred_peers(near, wire.pod_affinity, namespace, 1),
            *preferred_peers(far, wire.pod_anti_affinity, namespace, -1),
        ),
    )


def _required_terms(affinity: NodeAffinity) -> tuple[NodeTerm, ...] | None:
    return node_terms(affinity.required_during_scheduling_ignored_during_execution)


def node_terms(selector: NodeSelector | None) -> tuple[NodeTerm, ...] | None:
    """The terms of which one must match; None where nothing is demanded."""
    return None if selector is None else tuple(_term(term) for term in selector.node_selector_terms)


def _preferred_terms(affinity: NodeAffinity) -> tuple[PreferredTerm, ...]:
    preferred = affinity.preferred_during_scheduling_ignored_during_execution or ()
    return tuple(PreferredTerm(entry.weight, _term(entry.preference)) for entry in preferred)


def tolerations(entries: list[TolerationEntry] | None) -> tuple[Toleration, ...]:
    """What is tolerated. An entry with an operator we do not know tolerates nothing, so it is left out."""
    return tuple(
        Toleration(
            key=entry.key,
            exists=entry.operator == "Exists",
            value=entry.value,
            effect=_effect(index, entry.effect),
            seconds=entry.toleration_seconds,
        )
        for index, entry in enumerate(entries or ())
        if entry.operator in {"", "Equal", "Exists"}
    )


def _effect(index: int, effect: str) -> TaintEffect | None:
    if effect not in _EFFECTS:
        raise InvalidField(
            f"$.spec.tolerations[{index}].effect",
            f"expected {', '.join(TaintEffect)} or nothing, found {effect!r}",
        )
    return _EFFECTS[effect]


def _term(term: NodeSelectorTerm) -> NodeTerm:
    return NodeTerm(_requirements(term.match_expressions), _requirements(term.match_fields))


def _requirements(expressions: list[Expression] | None) -> tuple[Requirement, ...]:
    return tuple(expression.requirement() for expression in expressions or ())
