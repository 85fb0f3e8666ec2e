"""Near some pods and far from others: InterPodAffinity, as a filter and as a score."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import and_, or_

import numpy as np
from numpy.typing import NDArray

from headgate.model.cluster_events import ClusterEvent
from headgate.model.node import PodTerm
from headgate.model.pod import Pod
from headgate.placement.domains import Domain
from headgate.placement.neighbours import Neighbours, PodQuery, TermRole
from headgate.placement.plugins import MANY, NO_DOMAINS, Foresight, Mask, SkewLimit
from headgate.placement.scores import TOP_SCORE
from headgate.placement.table import Amounts

HARD_AFFINITY_WEIGHT = 1  # what an existing pod's required affinity adds to the score of a pod it speaks of


class InterPodAffinity:
    """What the pod demands of its neighbours, and what they demand of it."""

    name = "InterPodAffinity"
    wake_on = frozenset(ClusterEvent) - {ClusterEvent.CLAIMS_CHANGED, ClusterEvent.CANDIDATES_CHANGED}

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours

    def concerns(self, pod: Pod) -> bool:
        demands = pod.shape.peers
        if demands is not None and (demands.affinity or demands.anti_affinity):
            return True
        return any(True for _ in self._neighbours.holding(TermRole.FORBIDDEN, pod))

    def demands(self, pod: Pod) -> Iterator[tuple[str, Mask]]:
        """A row that fails one is not counted for the next, as one reason a node is given."""
        before: list[Mask] = []
        for reason, met in self._each_demand(pod):
            yield reason, reduce(or_, (~each for each in before), met)
            before.append(met)

    def _each_demand(self, pod: Pod) -> Iterator[tuple[str, Mask]]:
        own = pod.shape.peers
        if own is not None and own.affinity:
            yield "node(s) didn't match pod affinity rules", self._near(pod)
        if own is not None and own.anti_affinity:
            yield "node(s) didn't match pod anti-affinity rules", self._far(pod)
        resented = list(self._neighbours.holding(TermRole.FORBIDDEN, pod))
        if resented:
            yield "node(s) didn't satisfy existing pods anti-affinity rules", self._without(resented)

    def admits(self, pod: Pod, row: int) -> bool:
        return all(met[row] for _, met in self.demands(pod))

    def hopeless(self, pod: Pod) -> Mask | bool:
        """Evicting pods brings none of those nearer that must be near."""
        return ~self._near(pod)

    def foresee(self, pod: Pod) -> Foresight | None:
        """Those who must be near others depend on who came first; those who only stay away close what they take."""
        own = pod.shape.peers
        if own is not None and own.affinity:
            return None
        most: Amounts = reduce(and_, (met for _, met in self.demands(pod))) * MANY
        held = own.anti_affinity if own is not None else ()
        mutual = [term for term in held if self._neighbours.speaks_of(term, pod)]
        domains = [self._neighbours.domains.of(term.topology_key) for term in mutual]
        for domain in domains:
            if domain.single:
                most = np.minimum(most, np.where(domain.somewhere, 1, MANY))
        return Foresight(most, tuple(_one_each(domain) for domain in domains if not domain.single))

    def _near(self, pod: Pod) -> Mask:
        """Every required term has a pod near; the first pod of a series may start alone."""
        terms = pod.shape.peers.affinity if pod.shape.peers else ()
        everywhere = self._everywhere()
        if not terms:
            return everywhere
        counts = self._neighbours.answer(PodQuery(terms))
        domains = [self._neighbours.domains.of(term.topology_key) for term in terms]
        labelled = everywhere.copy()
        near = everywhere.copy()
        for domain in domains:
            labelled &= domain.somewhere
            near &= domain.sums(counts) > 0
        if self._is_first(pod, terms, counts):
            return labelled
        return near & labelled

    def _is_first(self, pod: Pod, terms: tuple[PodTerm, ...], counts: Amounts) -> bool:
        """No pod in any domain matches the terms yet, and this one would."""
        placed = any(bool((counts * self._neighbours.domains.of(term.topology_key).somewhere).any()) for term in terms)
        return not placed and all(self._neighbours.speaks_of(term, pod) for term in terms)

    def _far(self, pod: Pod) -> Mask:
        terms = pod.shape.peers.anti_affinity if pod.shape.peers else ()
        return self._without([(term, self._neighbours.answer(PodQuery((term,)))) for term in terms])

    def _without(self, counted: list[tuple[PodTerm, Amounts]]) -> Mask:
        """The rows in whose domains there is none of those counted."""
        free = [self._neighbours.domains.of(term.topology_key).without(counts) for term, counts in counted]
        return reduce(and_, free)

    def _everywhere(self) -> Mask:
        return np.ones(self._neighbours.rows, dtype=np.bool_)

    def compares(self, pod: Pod) -> bool:
        return any(True for _ in self._preferences(pod))

    def scores(self, pod: Pod, fit: NDArray[np.intp]) -> Amounts | None:
        """The weights of all preferences, the pod's own and those of others that speak of it, scaled to 0..100."""
        raw = np.zeros(self._neighbours.rows, dtype=np.int64)
        for term, weights in self._preferences(pod):
            raw += self._neighbours.domains.of(term.topology_key).sums(weights)
        raw = raw[fit]
        low, high = int(raw.min()), int(raw.max())
        if low == high:
            return None
        scaled: Amounts = (TOP_SCORE * ((raw - low) / (high - low))).astype(np.int64)
        return scaled

    def _preferences(self, pod: Pod) -> Iterator[tuple[PodTerm, Amounts]]:
        for preference in pod.shape.peers.preferences if pod.shape.peers else ():
            yield preference.term, self._neighbours.answer(PodQuery((preference.term,))) * preference.weight
        for term, counts in self._neighbours.holding(TermRole.REQUIRED, pod):
            yield term, counts * HARD_AFFINITY_WEIGHT
        yield from self._neighbours.holding(TermRole.PREFERRED, pod)


def _one_each(domain: Domain) -> SkewLimit:
    """At most one pod in every domain; the rows that are nowhere share none."""
    return SkewLimit(domain.ids, domain.somewhere, np.zeros(domain.count, dtype=np.int64), NO_DOMAINS, 0)
