"""Decodes nodes, and what pods demand of them: node affinity, pod affinity, topology spreading, tolerations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec
from msgspec import Struct

from headgate.api.amounts import resources_at
from headgate.api.wire import (
    Amounts,
    Buffer,
    Int32,
    Int64,
    InvalidField,
    Wire,
    WireConditionStatus,
    WireExpression,
    WireMetadata,
    invalid_field,
    is_true,
)
from headgate.model.keys import Kind
from headgate.model.node import (
    Node,
    NodeTerm,
    PodTerm,
    PreferredTerm,
    Selector,
    Spread,
    Taint,
    TaintEffect,
    Toleration,
    WeightedTerm,
)
from headgate.model.resources import LARGEST_REQUEST, Resources
from headgate.model.selectors import InvalidSelector, Operator, Requirement, label_selector

SPREADS = "$.spec.topologySpreadConstraints"
KEPT_SPREADS = 4096  # different lists of constraints whose meaning is kept

Inclusion = Literal["Honor", "Ignore"]
Entry = dict[str, Any]


class WirePodAffinityTerm(Wire, frozen=True):
    topology_key: str
    label_selector: Entry | None = None
    namespaces: list[str] | None = None
    namespace_selector: Entry | None = None


class WireWeightedPodAffinityTerm(Wire, frozen=True):
    weight: Int32
    pod_affinity_term: WirePodAffinityTerm


class WirePodAffinity(Wire, frozen=True):
    """Also an anti-affinity, which has the same fields."""

    required_during_scheduling_ignored_during_execution: list[WirePodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WireWeightedPodAffinityTerm] | None = None


class WireTopologySpreadConstraint(Wire, frozen=True):
    max_skew: Int32
    topology_key: str
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: Entry | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: Inclusion | None = None
    node_taints_policy: Inclusion | None = None
    match_label_keys: list[str] | None = None


class SpreadDemand(Struct, frozen=True, gc=False):
    """One constraint; the labels named in `same_labels` must be those of the pod itself."""

    hard: bool
    spread: Spread
    same_labels: tuple[str, ...]

    def of_pod(self, labels: Mapping[str, str]) -> Spread:
        """The constraint with the pod's own labels in its selector; one that selects nothing stays so."""
        own = [Requirement(key, Operator.IN, (labels[key],)) for key in self.same_labels if key in labels]
        if not own or self.spread.selector is None:
            return self.spread
        return msgspec.structs.replace(self.spread, selector=_ordered((*own, *self.spread.selector)))


_constraints = msgspec.json.Decoder(list[WireTopologySpreadConstraint] | None)


def required_peers(path: str, affinity: WirePodAffinity | None, namespace: str) -> tuple[PodTerm, ...]:
    """The terms that must hold, for a pod of that namespace; `path` is where the affinity was found."""
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    path = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
    return tuple(_pod_term(f"{path}[{index}]", term, namespace) for index, term in enumerate(required or ()))


def preferred_peers(
    path: str, affinity: WirePodAffinity | None, namespace: str, sign: Literal[1, -1]
) -> tuple[WeightedTerm, ...]:
    """The terms that should hold; an anti-affinity's have the sign -1."""
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else None
    path = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    return tuple(
        WeightedTerm(
            sign * each.weight, _pod_term(f"{path}[{index}].podAffinityTerm", each.pod_affinity_term, namespace)
        )
        for index, each in enumerate(preferred or ())
    )


@lru_cache(maxsize=KEPT_SPREADS)  # bench_decode takes 1.4 times as long without it
def spread_demands(raw: bytes) -> tuple[SpreadDemand, ...]:
    """The spec's topologySpreadConstraints; pods of one template say the same, so each text is read once."""
    try:
        constraints = _constraints.decode(raw)
    except msgspec.DecodeError as error:
        field = invalid_field(error)
        raise InvalidField(field.path.replace("$", SPREADS, 1), field.expected) from None
    return tuple(_demand(f"{SPREADS}[{index}]", each) for index, each in enumerate(constraints or ()))


def spreads(demands: Iterable[SpreadDemand], hard: bool, labels: Mapping[str, str]) -> tuple[Spread, ...]:
    """The hard or the soft ones, as they hold for a pod with these labels."""
    return tuple(demand.of_pod(labels) for demand in demands if demand.hard is hard)


def _demand(path: str, wire: WireTopologySpreadConstraint) -> SpreadDemand:
    spread = Spread(
        max_skew=wire.max_skew,
        topology_key=wire.topology_key,
        selector=_selector(f"{path}.labelSelector", wire.label_selector),
        min_domains=1 if wire.min_domains is None else wire.min_domains,
        honor_affinity=wire.node_affinity_policy != "Ignore",
        honor_taints=wire.node_taints_policy == "Honor",
    )
    return SpreadDemand(wire.when_unsatisfiable == "DoNotSchedule", spread, tuple(wire.match_label_keys or ()))


def _pod_term(path: str, wire: WirePodAffinityTerm, namespace: str) -> PodTerm:
    return PodTerm(
        topology_key=wire.topology_key,
        selector=_selector(f"{path}.labelSelector", wire.label_selector),
        namespaces=tuple(_namespaces(wire, namespace)),
        namespace_selector=_selector(f"{path}.namespaceSelector", wire.namespace_selector),
    )


def _namespaces(wire: WirePodAffinityTerm, own: str) -> Iterator[str]:
    """Those the term names; its own pod's where it says nothing at all."""
    if not wire.namespaces and wire.namespace_selector is None:
        yield own
    yield from sorted(set(wire.namespaces or ()))


def _selector(path: str, wire: Entry | None) -> Selector:
    if wire is None:
        return None
    try:
        return _ordered(label_selector(wire))
    except InvalidSelector as error:
        raise InvalidField(path, str(error)) from None


def _ordered(requirements: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
    """Each once and sorted, so that selectors which say the same in another order are equal."""
    return tuple(sorted(dict.fromkeys(requirements), key=lambda each: (each.key, each.operator, each.values)))


AFFINITY = "$.spec.affinity"
KEPT_AFFINITIES = 4096  # different affinities whose meaning is kept

_EFFECTS: dict[str, TaintEffect | None] = {"": None} | {effect.value: effect for effect in TaintEffect}


class WireNodeSelectorTerm(Wire, frozen=True):
    match_expressions: list[WireExpression] | None = None
    match_fields: list[WireExpression] | None = None


class WireNodeSelector(Wire, frozen=True):
    node_selector_terms: list[WireNodeSelectorTerm]


class WirePreferredSchedulingTerm(Wire, frozen=True):
    weight: Int32
    preference: WireNodeSelectorTerm


class WireNodeAffinity(Wire, frozen=True):
    required_during_scheduling_ignored_during_execution: WireNodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[WirePreferredSchedulingTerm] | None = None


class WireAffinity(Wire, frozen=True):
    node_affinity: WireNodeAffinity | None = None
    pod_affinity: WirePodAffinity | None = None
    pod_anti_affinity: WirePodAffinity | None = None


class AffinityDemands(Struct, frozen=True, gc=False):
    """What one affinity says of nodes and of other pods, by the names of PodShape and PeerDemands."""

    required_terms: tuple[NodeTerm, ...] | None = None
    preferred_terms: tuple[PreferredTerm, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferences: tuple[WeightedTerm, ...] = ()


class WireToleration(Wire, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


NO_AFFINITY = AffinityDemands()
TOLERATIONS = "$.spec.tolerations"
KEPT_TOLERATIONS = 4096  # different lists of tolerations whose meaning is kept
_affinities = msgspec.json.Decoder(WireAffinity | None)
_tolerations = msgspec.json.Decoder(list[WireToleration] | None)


@lru_cache(maxsize=KEPT_AFFINITIES)  # bench_decode takes 1.6 times as long without it
def affinity_demands(raw: bytes, namespace: str) -> AffinityDemands:
    """The spec's affinity; pods of one template say the same, so each text is read once per namespace."""
    try:
        wire = _affinities.decode(raw)
    except msgspec.DecodeError as error:
        field = invalid_field(error)
        raise InvalidField(field.path.replace("$", AFFINITY, 1), field.expected) from None
    return NO_AFFINITY if wire is None else _demands(wire, namespace)


def _demands(wire: WireAffinity, namespace: str) -> AffinityDemands:
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


def _required_terms(affinity: WireNodeAffinity) -> tuple[NodeTerm, ...] | None:
    return node_terms(affinity.required_during_scheduling_ignored_during_execution)


def node_terms(selector: WireNodeSelector | None) -> tuple[NodeTerm, ...] | None:
    """The terms of which one must match; None where nothing is demanded."""
    return None if selector is None else tuple(_node_term(term) for term in selector.node_selector_terms)


def _preferred_terms(affinity: WireNodeAffinity) -> tuple[PreferredTerm, ...]:
    preferred = affinity.preferred_during_scheduling_ignored_during_execution or ()
    return tuple(PreferredTerm(entry.weight, _node_term(entry.preference)) for entry in preferred)


@lru_cache(maxsize=KEPT_TOLERATIONS)  # bench_decode takes 1.2 times as long without it
def tolerations_in(raw: bytes) -> tuple[Toleration, ...]:
    """The spec's tolerations; nearly all pods say the same, so each text is read once."""
    try:
        entries = _tolerations.decode(raw)
    except msgspec.DecodeError as error:
        field = invalid_field(error)
        raise InvalidField(field.path.replace("$", TOLERATIONS, 1), field.expected) from None
    return tolerations(entries)


def tolerations(entries: list[WireToleration] | None) -> tuple[Toleration, ...]:
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
            f"{TOLERATIONS}[{index}].effect",
            f"expected {', '.join(TaintEffect)} or nothing, found {effect!r}",
        )
    return _EFFECTS[effect]


def _node_term(term: WireNodeSelectorTerm) -> NodeTerm:
    return NodeTerm(_requirements(term.match_expressions), _requirements(term.match_fields))


def _requirements(expressions: list[WireExpression] | None) -> tuple[Requirement, ...]:
    return tuple(expression.requirement() for expression in expressions or ())


class WireTaint(Wire, frozen=True):
    key: str
    effect: TaintEffect
    value: str = ""


class WireNodeSpec(Wire, frozen=True):
    unschedulable: bool = False
    taints: list[WireTaint] | None = None


class WireImage(Wire, frozen=True):
    names: list[str] | None = None
    size_bytes: Int64 = 0


class WireNodeStatus(Wire, frozen=True):
    allocatable: Amounts | None = None
    capacity: Amounts | None = None
    conditions: list[WireConditionStatus] | None = None
    images: list[WireImage] | None = None


class WireNode(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireNodeSpec = WireNodeSpec()
    status: WireNodeStatus = WireNodeStatus()


_decoder = msgspec.json.Decoder(WireNode)


def decode_node(raw: Buffer) -> Node:
    wire = _decoder.decode(raw)
    metadata = wire.metadata
    return Node(
        key=metadata.key(Kind.NODE),
        uid=metadata.uid,
        version=metadata.resource_version,
        labels=metadata.labels or {},
        annotations=metadata.annotations or {},
        allocatable=_allocatable(wire.status),
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in wire.spec.taints or ()),
        unschedulable=wire.spec.unschedulable,
        ready=is_true(wire.status.conditions, "Ready"),
        images={name: image.size_bytes for image in wire.status.images or () for name in image.names or ()},
    )


def _allocatable(status: WireNodeStatus) -> Resources:
    """What pods may use; a node that does not say offers its whole capacity."""
    if status.allocatable is not None:
        return _counted(resources_at("$.status.allocatable", status.allocatable))
    return _counted(resources_at("$.status.capacity", status.capacity))


def _counted(amounts: Resources) -> Resources:
    """No node has as much as the largest request, so that a request that was saturated fits nowhere."""
    return Resources.of({name: max(0, min(amount, LARGEST_REQUEST - 1)) for name, amount in amounts})
