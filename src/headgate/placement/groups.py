"""Placement of a group: nodes for at least as many of its pods as are needed, or why there are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct, structs

from headgate.model.pod import Pod
from headgate.model.quantity import counted
from headgate.placement.domains import NOWHERE
from headgate.placement.filters import ON_NODES, ON_ROOM
from headgate.placement.packing import free_capacity, is_plain, other_orders, packed
from headgate.placement.placer import NoPlacement, Placement, Placer
from headgate.placement.plugins import Mask
from headgate.placement.table import Amounts, NodeTable
from headgate.placement.trial import PlacementTrial, TrialPlacements

RULE = "GangScheduling"
COUNTED_SHAPES = 16  # up to so many shapes it pays to count first how many pods a domain could take


class GroupDomain(Struct, frozen=True):
    label: str
    value: str
    rows: Mask

    @property
    def name(self) -> str:
        return f"{self.label}={self.value}"

    def told(self, pod: Pod) -> Pod:
        """The pod as one that may only run here, where a rule asks where it may: spreading counts no other nodes."""
        peers = pod.shape.peers
        if peers is None or not (peers.hard_spread or peers.soft_spread):
            return pod
        selector = {**dict(pod.shape.node_selector), self.label: self.value}
        return structs.replace(pod, shape=structs.replace(pod.shape, node_selector=tuple(sorted(selector.items()))))


class GroupDomains:
    """The domains worth trying: those that might take as many pods as are needed, most capacity first, then by lot.

    Where none might, the first is tried all the same, to say what is missing.
    """

    def __init__(self, placer: Placer, nodes: NodeTable, pods: Sequence[Pod], needed: int, label: str) -> None:
        self._placer, self._nodes, self._pods, self._label = placer, nodes, pods, label
        self._ids = placer.domains.of(label).ids
        self._most = self._most_placements()
        order = sorted(self._values(), key=lambda each: (-int(self._most[each[0]]), nodes.draw(each[1]), each[1]))
        self._order = [each for each in order if self._most[each[0]] >= needed] or order[:1]

    def __iter__(self) -> Iterator[GroupDomain]:
        for number, value in self._order:
            yield GroupDomain(self._label, value, self._ids == number)

    def refusal(self, refusals: Sequence[NoPlacement]) -> NoPlacement:
        """Why no domain will do: the reasons of the first, and all that could change the answer of any."""
        if not refusals:
            return self._placer.nowhere(RULE, f"the label {self._label} leaves no node to choose", ON_NODES)
        return structs.replace(
            refusals[0],
            filters=tuple(dict.fromkeys(name for each in refusals for name in each.filters)),
            wake_on=ON_ROOM.union(*(each.wake_on for each in refusals)),
            curable=sum(each.curable for each in refusals) + self._curable_elsewhere(),
        )

    def _values(self) -> list[tuple[int, str]]:
        """The domains there are, by number and value; the only one a pod may choose where it names one itself."""
        numbers, rows = np.unique(self._ids, return_index=True)
        there = [(int(number), self._nodes.nodes[row]) for number, row in zip(numbers, rows, strict=True)]
        named = dict(self._pods[0].shape.node_selector).get(self._label)
        values = [(number, node.labels[self._label]) for number, node in there if number != NOWHERE and node]
        return [(number, value) for number, value in values if named in (None, value)]

    def _most_placements(self) -> Amounts:
        """By domain, how many of the pods it could take at most if each shape had it for itself."""
        shapes = Counter(pod.shape for pod in self._pods)
        most: Amounts = np.zeros(int(self._ids.max(initial=NOWHERE)) + 1, dtype=np.int64)
        if len(shapes) > COUNTED_SHAPES:
            return most + len(self._pods)
        for shape, count in shapes.items():
            fitting = np.bincount(self._ids, weights=self._placer.capacity(shape, count), minlength=len(most))
            most += np.minimum(fitting.astype(np.int64), count)
        return most

    def _curable_elsewhere(self) -> int:
        """How many nodes of the domains not worth trying fit the first pod, or might if pods were evicted."""
        tried = np.isin(self._ids, [number for number, _ in self._order])
        first = self._pods[0]
        might = self._placer.curable(first) | (self._placer.capacity(first.shape, 1) > 0)
        return int(np.count_nonzero(might & ~tried & (self._ids != NOWHERE)))


ENOUGH_DOMAINS = 100  # that would do, of which the best is taken


class GroupPlacement(Struct, frozen=True):
    """Placements of enough of the pods, and the pods `left` without one; both in the order the pods were given."""

    placements: tuple[tuple[Pod, Placement], ...]
    left: tuple[Pod, ...]

    @property
    def worth(self) -> tuple[int, int]:
        """More placements are better, then higher scores."""
        return len(self.placements), sum(found.score for _, found in self.placements)


def place_group(
    placer: Placer, nodes: NodeTable, pods: Sequence[Pod], needed: int, topology: str = "", *, most: int | None = None
) -> GroupPlacement | NoPlacement:
    """Place the pods in order, each beside those before it: at least `needed` (and one) of them, or none.

    The surplus is placed where it fits, up to `most` pods in all. With a topology, all placements are on nodes with one
    and the same value of that label. The table is left as it was.
    """
    needed = max(1, needed)
    count = needed, len(pods) if most is None else max(most, needed)
    if len(pods) < needed:
        return placer.nowhere(
            RULE, f"the group has {counted(len(pods), 'pod')} and needs {needed} to start", frozenset()
        )
    with placer.nominations.set_aside(pods):
        if topology:
            return _in_one_domain(placer, nodes, pods, count, topology)
        return _placed(placer, nodes, pods, count)


Count = tuple[int, int]
"""How many pods of a group are placed at least, or none is, and how many at most."""


def _in_one_domain(
    placer: Placer, nodes: NodeTable, pods: Sequence[Pod], count: Count, topology: str
) -> GroupPlacement | NoPlacement:
    """The best of the domains that will do; the earlier of equally good ones."""
    domains = GroupDomains(placer, nodes, pods, count[0], topology)
    found: list[GroupPlacement] = []
    refusals: list[NoPlacement] = []
    for domain in domains:
        match _placed(placer, nodes, pods, count, domain):
            case GroupPlacement() as placement:
                found.append(placement)
            case NoPlacement() as refusal:
                refusals.append(refusal)
        if len(found) == ENOUGH_DOMAINS:
            break
    return max(found, key=lambda each: each.worth) if found else domains.refusal(refusals)


def _placed(
    placer: Placer, nodes: NodeTable, pods: Sequence[Pod], count: Count, domain: GroupDomain | None = None
) -> GroupPlacement | NoPlacement:
    within: Mask | None = domain.rows if domain is not None else None
    asking = [domain.told(pod) for pod in pods] if domain is not None else pods
    attempts = GroupAttempts(placer, nodes, count, within)
    first = attempts.in_order(asking, range(len(pods)))
    found = first if attempts.suffices(first) else attempts.otherwise(asking)
    if found is None:
        return _refusal(first, len(pods), count[0], domain)
    placed = found.placements
    rest = [pod for index, pod in enumerate(pods) if index not in placed] if len(placed) < len(pods) else ()
    return GroupPlacement(tuple([(pods[index], placed[index]) for index in sorted(placed)]), tuple(rest))


class GroupAttempts:
    """Tries to place `needed` pods of a group: by age, in other orders, on nodes that a search of all ways finds."""

    def __init__(self, placer: Placer, nodes: NodeTable, count: Count, within: Mask | None) -> None:
        self._placer, self._nodes, self._within = placer, nodes, within
        self._needed, self._most = count

    def suffices(self, placing: TrialPlacements) -> bool:
        return len(placing.placements) >= self._needed

    def in_order(self, pods: Sequence[Pod], order: Sequence[int]) -> TrialPlacements:
        with PlacementTrial(self._nodes) as trial:
            placing = TrialPlacements(self._placer, trial, pods, self._within)
            placing.place(self._needed, self._most, order)
        return placing

    def otherwise(self, pods: Sequence[Pod]) -> TrialPlacements | None:
        """For pods that are unlike, so that it matters which is placed first; None where that is of no use."""
        shape = pods[0].shape
        if all(pod.shape == shape for pod in pods):
            return None
        for order in other_orders(self._placer.rules.rows, pods, self._needed, self._within):
            placing = self.in_order(pods, order)
            if self.suffices(placing):
                return placing
        return self._on_found_rows(pods) if is_plain(self._placer, pods) else None

    def _on_found_rows(self, pods: Sequence[Pod]) -> TrialPlacements | None:
        """Pods keep the rows of the search as if they were nominated, and the surplus is placed beside them."""
        rows = packed(pods, self._needed, free_capacity(self._placer, pods, self._within))
        if rows is None:
            return None
        names = {index: self._nodes.name_at(row) for index, row in sorted(rows.items())[: self._most]}
        there = [structs.replace(pod, nominated=names.get(index, "")) for index, pod in enumerate(pods)]
        placing = self.in_order(there, range(len(pods)))
        return placing if self.suffices(placing) else None


def _refusal(placing: TrialPlacements, pods: int, needed: int, domain: GroupDomain | None) -> NoPlacement:
    """Why the first pod that got no placement was refused, and how far the group came."""
    assert placing.refusal is not None, "a pod that was refused has a reason"
    index, why = placing.refusal
    where = f" within {domain.name}" if domain is not None else ""
    whom = f"pod {index + 1} of {pods}{where} ({len(placing.placements)} placed, {needed} needed)"
    return structs.replace(why, whom=whom)
