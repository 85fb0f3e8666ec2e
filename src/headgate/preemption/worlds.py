"""What a search asks of the cluster: would the preemptor fit without these units, and can this one be reprieved?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct, structs

from headgate.model.pod import Pod
from headgate.placement.placer import Placer
from headgate.placement.table import NodeTable
from headgate.preemption.loads import Units
from headgate.preemption.units import Flags

Placements = tuple[tuple[int, int], ...]
"""Which of the preemptor's pods, by its place in line, on which row."""


class SearchDomain(Struct, frozen=True):
    """A part of the cluster that could take the whole preemptor.

    `pods` are pinned to it by their own demands. With `placements` only the victims are left to choose.
    """

    name: str
    pods: tuple[Pod, ...]
    needed: int
    reach: Flags  # rows whose units may be preempted
    placements: Placements | None = None
    draw: int = 0  # settles ties between domains

    @property
    def usable(self) -> Flags:
        """The rows on which pods may be placed."""
        if self.placements is None:
            return self.reach
        rows: Flags = np.zeros_like(self.reach)
        rows[[row for _, row in self.placements]] = True
        return rows


class World(Protocol):
    """A cluster in which one domain is tried out; nothing of it is left behind."""

    def enough(self, gone: Flags) -> bool:
        """Whether the preemptor would fit without these units and all pods being deleted."""

    def place(self, gone: Flags) -> Placements | None:
        """Where it would be placed then; None when it would not fit."""

    def assume(self, gone: Flags, placements: Placements) -> None:
        """These units are gone and the preemptor is placed: units can be reprieved."""

    def doubtful(self, units: Units) -> Units:
        """Those of the units that must be tried one by one; all others are reprieved together."""

    def not_reprieved(self, units: Units) -> Units:
        """Reprieves units in this order; returns those that do not fit beside the placements and the reprieved."""


CLUSTER = "the cluster"
NOMINATED = "the nominated nodes"


def node_domain(nodes: NodeTable, pods: tuple[Pod, ...], row: int) -> SearchDomain:
    """One node for one pod: only units that run there may be preempted."""
    here: Flags = np.zeros(len(nodes.nodes), dtype=np.bool_)
    here[row] = True
    return SearchDomain(nodes.name_at(row), pods, 1, here, ((0, row),), int(nodes.draws[row]))


def node_domains(nodes: NodeTable, placer: Placer, pods: tuple[Pod, ...]) -> Iterator[SearchDomain]:
    """Every node that rejects the pod for something that evictions might cure."""
    for row in np.flatnonzero(placer.curable(pods[0])).tolist():
        yield node_domain(nodes, pods, row)


def group_domains(
    nodes: NodeTable, placer: Placer, pods: tuple[Pod, ...], needed: int, topology: str
) -> Iterator[SearchDomain]:
    """The whole cluster; for a group that must stay together one domain for each value of the label."""
    if not topology:
        yield SearchDomain(CLUSTER, pods, needed, nodes.alive)
        return
    ids = placer.domains.of(topology).ids
    values = {node.labels[topology]: row for row, node in enumerate(nodes.nodes) if node and topology in node.labels}
    for place, (value, row) in enumerate(sorted(values.items())):
        pinned = tuple(_pinned(pod, topology, value) for pod in pods)
        yield SearchDomain(f"{topology}={value}", pinned, needed, nodes.alive & (ids == ids[row]), None, place)


def placements_domain(nodes: NodeTable, pods: tuple[Pod, ...], placements: Placements, single: bool) -> SearchDomain:
    """Placements that are settled. A pod's victims are on its node; those of a group may be anywhere."""
    if single:
        return structs.replace(node_domain(nodes, pods, placements[0][1]), name=NOMINATED)
    return SearchDomain(NOMINATED, pods, len(placements), nodes.alive, placements)


def rows_of(nodes: NodeTable, pods: Sequence[Pod], placements: Sequence[tuple[Pod, str]]) -> Placements | None:
    """The placements by place in line and row; None when a node is not there any more."""
    places = {pod.key: index for index, pod in enumerate(pods)}
    rows = [(places[pod.key], nodes.row_of(name)) for pod, name in placements]
    known = tuple((index, row) for index, row in rows if row is not None)
    return known if len(known) == len(rows) else None


def _pinned(pod: Pod, label: str, value: str) -> Pod:
    """A pod that names another value itself asks for both, and so for what no node has."""
    selector = tuple(sorted({*pod.shape.node_selector, (label, value)}))
    return structs.replace(pod, shape=structs.replace(pod.shape, node_selector=selector))
