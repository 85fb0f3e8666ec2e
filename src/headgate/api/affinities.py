"""Node affinity and tolerations, from the wire to what scheduling compares."""

from __future__ import annotations

from headgate.api.errors import InvalidField
from headgate.api.wire import Expression, Wire
from headgate.model.affinity import NodeTerm, PreferredTerm, Toleration
from headgate.model.node import TaintEffect
from headgate.model.requirements import Requirement

_EFFECTS: dict[str, TaintEffect | None] = {"": None} | {effect.value: effect for effect in TaintEffect}


class NodeSelectorTerm(Wire, frozen=True):
    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeSelector(Wire, frozen=True):
    node_selector_terms: list[NodeSelectorTerm]


class Preference(Wire, frozen=True):
    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Wire, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[Preference] | None = None


class Affinity(Wire, frozen=True):
    node_affinity: NodeAffinity | None = None


class TolerationEntry(Wire, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


def required_terms(affinity: Affinity | None) -> tuple[NodeTerm, ...] | None:
    """The terms of which one must match; None where nothing is demanded."""
    if affinity is None or affinity.node_affinity is None:
        return None
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    return None if required is None else tuple(_term(term) for term in required.node_selector_terms)


def preferred_terms(affinity: Affinity | None) -> tuple[PreferredTerm, ...]:
    if affinity is None or affinity.node_affinity is None:
        return ()
    preferred = affinity.node_affinity.preferred_during_scheduling_ignored_during_execution or ()
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
