"""What a search asks of the cluster: would the preemptor have its seats if these were gone, and can this one stay?"""

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

Seats = tuple[tuple[int, int], ...]
"""Which of the preemptor's pods, by its place in line, on which row."""


class SearchDomain(Struct, frozen=True):
    """A part of the cluster that could take the whole preemptor.

    `pods` are pinned to it by their own demands. With `seats` there is nothing left to choose but who leaves.
    """

    name: str
    pods: tuple[Pod, ...]
    needed: int
    reach: Flags  # rows whose units may be asked to leave
    seats: Seats | None = None
    draw: int = 0  # settles ties between domains


class World(Protocol):
    """A cluster in which one domain is tried out; nothing of it is left behind."""

    def enough(self, gone: Flags) -> bool:
        """Whether the preemptor would have its seats with these units gone, and all pods being deleted."""

    def place(self, gone: Flags) -> Seats | None:
        """Where it would sit then; None when it would not."""

    def sit(self, gone: Flags, seats: Seats) -> None:
        """These are gone and the preemptor has these seats: units can be asked to come back."""

    def doubtful(self, units: Units) -> Units:
        """Those of the units that must be asked one by one; all others are back in place and harm no seat."""

    def cannot_stay(self, units: Units) -> Units:
        """Asked in this order, who cannot be in its place beside the seats and all who stayed before; others are."""


CLUSTER = "the cluster"
NOMINATED = "the nominated seats"


def node_domain(nodes: NodeTable, pods: tuple[Pod, ...], row: int) -> SearchDomain:
    """One node for one pod: only who runs there may be asked to leave."""
    here: Flags = np.zeros(len(nodes.nodes), dtype=np.bool_)
    here[row] = True
    return SearchDomain(nodes.name_at(row), pods, 1, here, ((0, row),), int(nodes.draws[row]))


def node_domains(nodes: NodeTable, placer: Placer, pods: tuple[Pod, ...]) -> Iterator[SearchDomain]:
    """Every node that refuses the pod for something that pods leaving might cure."""
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


def seats_domain(nodes: NodeTable, pods: tuple[Pod, ...], seats: Seats, single: bool) -> SearchDomain:
    """Seats that are settled. A pod's victims are on its node; those of a group may be anywhere."""
    if single:
        return structs.replace(node_domain(nodes, pods, seats[0][1]), name=NOMINATED)
    return SearchDomain(NOMINATED, pods, len(seats), nodes.alive, seats)


def rows_of(nodes: NodeTable, pods: Sequence[Pod], seats: Sequence[tuple[Pod, str]]) -> Seats | None:
    """The seats by place in line and row; None when a node is not there any more."""
    places = {pod.key: index for index, pod in enumerate(pods)}
    rows = [(places[pod.key], nodes.row_of(name)) for pod, name in seats]
    known = tuple((index, row) for index, row in rows if row is not None)
    return known if len(known) == len(rows) else None


def _pinned(pod: Pod, label: str, value: str) -> Pod:
    """A pod that names another value itself asks for both, and so for what no node has."""
    selector = tuple(sorted({*pod.shape.node_selector, (label, value)}))
    return structs.replace(pod, shape=structs.replace(pod.shape, node_selector=selector))
