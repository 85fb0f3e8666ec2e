"""A world with all rules: pods are released and charged on the real table, inside a trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from headgate.model.keys import Key
from headgate.model.node import PodTerm, Spread
from headgate.model.pod import Pod, PodShape
from headgate.model.selectors import selects
from headgate.placement.groups import place_group
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import NoPlacement, Placer
from headgate.placement.table import NodeTable
from headgate.placement.trial import PlacementTrial
from headgate.preemption.candidates import Candidates, Units
from headgate.preemption.steps import Placements, SearchDomain
from headgate.preemption.units import Flags


class Bystanders:
    """Tells who is one: no term of theirs or of the preemptor's speaks of the other, and they share no ports.

    In doubt nobody is. Pods with volumes are none for a preemptor with volumes.
    """

    def __init__(self, neighbours: Neighbours, pods: Sequence[Pod]) -> None:
        shapes = list(dict.fromkeys(pod.shape for pod in pods))
        self._neighbours = neighbours
        self._namespaces = {pod.key.namespace for pod in pods}
        self._terms = [term for shape in shapes for term in _terms(shape)]
        self._spreads = [spread for shape in shapes for spread in _spreads(shape)]
        self._ports = [port for shape in shapes for port in shape.ports]
        self._claims = any(shape.claims or shape.bound_to is not None for shape in shapes)

    def has(self, pod: Pod) -> bool:
        shape = pod.shape
        if any(True for _ in _terms(shape)) or (self._claims and (shape.claims or shape.bound_to is not None)):
            return False
        if any(port.clashes_with(other) for port in shape.ports for other in self._ports):
            return False
        return not self._is_spoken_of(pod)

    def _is_spoken_of(self, pod: Pod) -> bool:
        if any(self._neighbours.speaks_of(term, pod) for term in self._terms):
            return True
        near = self._spreads if pod.key.namespace in self._namespaces else ()
        return any(spread.selector is not None and selects(spread.selector, pod.labels) for spread in near)


def _terms(shape: PodShape) -> Iterator[PodTerm]:
    """The terms that can keep a pod off a node."""
    if shape.peers is not None:
        yield from shape.peers.affinity
        yield from shape.peers.anti_affinity


def _spreads(shape: PodShape) -> Iterator[Spread]:
    if shape.peers is not None:
        yield from shape.peers.hard_spread


@contextmanager
def tried_out(placer: Placer, among: Candidates, bystanders: Bystanders, domain: SearchDomain) -> Iterator[TrialWorld]:
    """A world for as long as the block lasts; the table is then as it was."""
    with PlacementTrial(among.running.nodes) as trial:
        world = TrialWorld(placer, trial, among, bystanders, domain)
        world.without_deleted()
        yield world


class TrialWorld:
    """Tries a domain pod by pod."""

    def __init__(
        self, placer: Placer, trial: PlacementTrial, among: Candidates, bystanders: Bystanders, domain: SearchDomain
    ) -> None:
        self._placer = placer
        self._nodes: NodeTable = among.running.nodes
        self._trial = trial
        self._among = among
        self._bystanders = bystanders
        self._domain = domain
        self._gone: Flags = np.zeros(among.count, dtype=np.bool_)
        self._empty = 0  # the mark at which these are gone and no placement is taken
        self._placements: Placements = ()
        self._homes: dict[Key, tuple[str, Pod]] = {}  # of pods that left: where they were, and as what

    def without_deleted(self) -> None:
        """The pods being deleted are gone, which nothing takes back before the trial ends."""
        self._leave(self._among.running.pod_at(line).key for line in self._among.terminating.tolist())
        self._empty = self._trial.mark()

    def enough(self, gone: Flags) -> bool:
        return self.place(gone) is not None

    def place(self, gone: Flags) -> Placements | None:
        self._evict(gone)
        if self._domain.placements is not None:
            held = self._take_all(self._domain.placements)
            self._trial.back_to(self._empty)
            return self._domain.placements if held else None
        needed = self._domain.needed
        found = place_group(self._placer, self._nodes, self._domain.pods, needed, most=needed)
        if isinstance(found, NoPlacement):
            return None
        places = {pod.key: index for index, pod in enumerate(self._domain.pods)}
        return tuple((places[pod.key], self._row(placement.node)) for pod, placement in found.placements)

    def assume(self, gone: Flags, placements: Placements) -> None:
        self._evict(gone)
        self._placements = placements
        for index, row in placements:
            self._trial.take(self._domain.pods[index], self._nodes.name_at(row))

    def doubtful(self, units: Units) -> Units:
        """Units off the placements' rows come back together where the placements hold with all of them."""
        rows = np.zeros(len(self._nodes.nodes), dtype=np.bool_)
        rows[[row for _, row in self._placements]] = True
        near = self._among.on_rows(rows)[units]
        return units[near] if self._come_back(units[~near].tolist()) else units

    def not_reprieved(self, units: Units) -> Units:
        return np.array([unit for unit in units.tolist() if not self._come_back([unit])], dtype=np.intp)

    def _come_back(self, units: Sequence[int]) -> bool:
        """All of the units return, if the placements hold; else none does."""
        mark, pods = self._trial.mark(), [pod for unit in units for pod in self._among.pods_of(unit)]
        self._return(pods)
        touched = self._touched(pods)
        for index, _ in touched:
            self._trial.leave(self._domain.pods[index].key)
        if self._take_all(touched):
            return True
        self._trial.back_to(mark)
        return False

    def _touched(self, pods: Sequence[Pod]) -> Placements:
        """The placements that reprieving these pods could break: on their rows, or all if one is no bystander."""
        if not all(self._bystanders.has(pod) for pod in pods):
            return self._placements
        rows = {self._nodes.row_of(self._homes[pod.key][0]) for pod in pods}
        return tuple(placement for placement in self._placements if placement[1] in rows)

    def _take_all(self, placements: Placements) -> bool:
        """The pods take these placements one after the other, up to the first that will not do."""
        for index, row in placements:
            if not self._placer.fits(self._domain.pods[index], row):
                return False
            self._trial.take(self._domain.pods[index], self._nodes.name_at(row))
        return True

    def _evict(self, gone: Flags) -> None:
        """These units are gone and no others: only what differs from before is released or charged."""
        self._trial.back_to(self._empty)
        self._return(self._pods(self._gone & ~gone))
        self._leave(pod.key for pod in self._pods(gone & ~self._gone))
        self._gone, self._empty = gone, self._trial.mark()

    def _pods(self, units: Flags) -> Iterator[Pod]:
        return (self._among.running.pod_at(line) for line in self._among.lines[units[self._among.unit_of]].tolist())

    def _leave(self, pods: Iterable[Key]) -> None:
        for key in pods:
            charge = self._nodes.charge_of(key)
            assert charge is not None, f"{key} runs and is charged to no node"
            self._homes[key] = charge
            self._trial.leave(key)

    def _return(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            node, charged = self._homes[pod.key]
            self._trial.take(charged, node)

    def _row(self, name: str) -> int:
        row = self._nodes.row_of(name)
        assert row is not None, f"{name} is no known node"
        return row
