"""Affinity to other pods and spreading, from the wire to what scheduling compares.

What the API server merges into a selector itself (matchLabelKeys and mismatchLabelKeys of affinity terms) is not
merged again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec
from msgspec import Struct

from headgate.api.errors import InvalidField, invalid_field
from headgate.api.wire import Int32, Wire
from headgate.model.peers import PodTerm, Selector, Spread, WeightedTerm
from headgate.model.requirements import Operator, Requirement
from headgate.model.selectors import InvalidSelector, label_selector

SPREADS = "$.spec.topologySpreadConstraints"
KEPT_SPREADS = 4096  # different lists of constraints whose meaning is kept

Inclusion = Literal["Honor", "Ignore"]
Entry = dict[str, Any]


class PodAffinityTerm(Wire, frozen=True):
    topology_key: str
    label_selector: Entry | None = None
    namespaces: list[str] | None = None
    namespace_selector: Entry | None = None


class WeightedPodAffinityTerm(Wire, frozen=True):
    weight: Int32
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Wire, frozen=True):
    """Also an anti-affinity, which has the same fields."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class SpreadConstraint(Wire, frozen=True):
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


_constraints = msgspec.json.Decoder(list[SpreadConstraint] | None)


def required_peers(path: str, affinity: PodAffinity | None, namespace: str) -> tuple[PodTerm, ...]:
    """The terms that must hold, for a pod of that namespace; `path` is where the affinity was found."""
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    path = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
    return tuple(_term(f"{path}[{index}]", term, namespace) for index, term in enumerate(required or ()))


def preferred_peers(
    path: str, affinity: PodAffinity | None, namespace: str, sign: Literal[1, -1]
) -> tuple[WeightedTerm, ...]:
    """The terms that should hold; an anti-affinity's have the sign -1."""
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else None
    path = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    return tuple(
        WeightedTerm(sign * each.weight, _term(f"{path}[{index}].podAffinityTerm", each.pod_affinity_term, namespace))
        for index, each in enumerate(preferred or ())
    )


@lru_cache(maxsize=KEPT_SPREADS)
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


def _demand(path: str, wire: SpreadConstraint) -> SpreadDemand:
    spread = Spread(
        max_skew=wire.max_skew,
        topology_key=wire.topology_key,
        selector=_selector(f"{path}.labelSelector", wire.label_selector),
        min_domains=1 if wire.min_domains is None else wire.min_domains,
        honor_affinity=wire.node_affinity_policy != "Ignore",
        honor_taints=wire.node_taints_policy == "Honor",
    )
    return SpreadDemand(wire.when_unsatisfiable == "DoNotSchedule", spread, tuple(wire.match_label_keys or ()))


def _term(path: str, wire: PodAffinityTerm, namespace: str) -> PodTerm:
    return PodTerm(
        topology_key=wire.topology_key,
        selector=_selector(f"{path}.labelSelector", wire.label_selector),
        namespaces=tuple(_namespaces(wire, namespace)),
        namespace_selector=_selector(f"{path}.namespaceSelector", wire.namespace_selector),
    )


def _namespaces(wire: PodAffinityTerm, own: str) -> Iterator[str]:
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
