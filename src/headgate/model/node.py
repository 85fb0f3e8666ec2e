"""A node as scheduling sees it, and what pods demand of nodes: selector requirements, affinity terms, tolerations."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from headgate.model.keys import Key
from headgate.model.resources import Resources
from headgate.model.selectors import Requirement

Selector = tuple[Requirement, ...] | None
"""None selects nothing, an empty one everything."""


class TaintEffect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(Struct, frozen=True, gc=False):
    key: str
    value: str
    effect: TaintEffect


class Node(Struct, frozen=True, gc=False):
    """A node; `allocatable` includes the resource `pods`, how many pods it may run."""

    key: Key
    uid: str
    version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    allocatable: Resources
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    images: Mapping[str, int] = {}  # size in bytes by each name the image is known by

    @property
    def name(self) -> str:
        return self.key.name


class NodeTerm(Struct, frozen=True, gc=False):
    """All expressions (on labels) and fields (on metadata.name) must hold; an empty term matches nothing."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if not self.expressions and not self.fields:
            return False
        return all(part.holds(labels) for part in self.expressions) and all(
            part.holds({"metadata.name": name}) for part in self.fields
        )


class PreferredTerm(Struct, frozen=True, gc=False):
    weight: int
    term: NodeTerm


class Toleration(Struct, frozen=True, gc=False):
    """Empty key with `exists` tolerates every taint; an empty effect tolerates all effects."""

    key: str = ""
    exists: bool = False
    value: str = ""
    effect: TaintEffect | None = None
    seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        if self.effect is not None and self.effect is not taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.exists or self.value == taint.value


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    return selector is not None and all(part.holds(labels) for part in selector)


class PodTerm(Struct, frozen=True, gc=False, cache_hash=True):
    """Pods that a term speaks of, and how near they must be: on nodes that agree on `topology_key`.

    `namespaces` are complete: a term that names none has its own pod's namespace there.
    """

    topology_key: str
    selector: Selector
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector = None

    def matches(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        if namespace not in self.namespaces and not selects(self.namespace_selector, namespace_labels):
            return False
        return selects(self.selector, labels)


class WeightedTerm(Struct, frozen=True, gc=False):
    """A preference: nearer to the pods of the term for a positive weight, farther for a negative one."""

    weight: int
    term: PodTerm


class Spread(Struct, frozen=True, gc=False):
    """No domain may have more than `max_skew` pods of the selector above the emptiest one."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int = 1
    honor_affinity: bool = True  # only nodes the pod's own node affinity allows count as domains
    honor_taints: bool = False  # only nodes whose taints the pod tolerates count as domains
    everywhere: bool = False  # nodes without the label take part: they are just not spread over by this one


class PeerDemands(Struct, frozen=True, gc=False):
    """All that one pod demands of others."""

    affinity: tuple[PodTerm, ...] = ()  # every one must hold
    anti_affinity: tuple[PodTerm, ...] = ()
    preferences: tuple[WeightedTerm, ...] = ()
    hard_spread: tuple[Spread, ...] = ()
    soft_spread: tuple[Spread, ...] = ()


EVERY_ADDRESS = "0.0.0.0"


class HostPort(Struct, frozen=True, gc=False):
    """A port taken on the node itself; the address 0.0.0.0 is every address."""

    port: int
    protocol: str = "TCP"
    ip: str = EVERY_ADDRESS

    def clashes_with(self, other: HostPort) -> bool:
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.ip == other.ip or EVERY_ADDRESS in (self.ip, other.ip)
