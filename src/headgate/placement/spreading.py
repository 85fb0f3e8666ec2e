"""Evenly over zones and nodes: PodTopologySpread, as a filter and as a score."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from operator import and_

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from headgate.model.cluster_events import ClusterEvent
from headgate.model.node import PodTerm, Spread, selects
from headgate.model.pod import Pod, PodShape
from headgate.placement.domains import Domain, Totals
from headgate.placement.filters import Verdicts
from headgate.placement.neighbours import Neighbours, PodQuery
from headgate.placement.plugins import MANY, NO_DOMAINS, Foresight, Mask, SkewLimit
from headgate.placement.scores import TOP_SCORE
from headgate.placement.table import Amounts

KEPT_GROUNDS = 256
HOSTNAME = "kubernetes.io/hostname"
REASON = "node(s) didn't match pod topology spread constraints"


class SpreadView(Struct, frozen=True):
    """What one constraint sees: whom it counts, on which rows, and which domains must keep even with each other."""

    spread: Spread
    domain: Domain
    question: PodQuery
    counted: Mask
    compared: NDArray[np.intp]  # the numbers of the domains with a counted row; none of them where they are too few
    totals: Totals


class SpreadSnapshot(Struct, frozen=True):
    """What some constraints see of the nodes, as long as no node changes."""

    at: int
    labelled: Mask
    unlabelled: Mask
    views: list[SpreadView]


class PodTopologySpread:
    """No domain gets too far ahead of the emptiest one (hard), and emptier domains are preferred (soft)."""

    name = "PodTopologySpread"
    wake_on = frozenset(ClusterEvent) - {ClusterEvent.CLAIMS_CHANGED, ClusterEvent.CANDIDATES_CHANGED}

    def __init__(self, neighbours: Neighbours, affinity: Verdicts, taints: Verdicts) -> None:
        self._neighbours = neighbours
        self._affinity = affinity
        self._taints = taints
        self._grounds: dict[tuple[PodShape, str, bool], SpreadSnapshot] = {}  # by shape, namespace and whether hard

    def concerns(self, pod: Pod) -> bool:
        return pod.shape.peers is not None and bool(pod.shape.peers.hard_spread)

    def demands(self, pod: Pod) -> Iterator[tuple[str, Mask]]:
        ground = self._ground(pod, hard=True)
        yield f"{REASON} (missing required label)", ground.labelled
        even = reduce(and_, [self._within_skew(pod, view) for view in ground.views])
        yield REASON, even | ground.unlabelled

    def admits(self, pod: Pod, row: int) -> bool:
        return all(met[row] for _, met in self.demands(pod))

    def hopeless(self, pod: Pod) -> Mask | bool:
        """A node without the labels stays without them."""
        return self._ground(pod, hard=True).unlabelled

    def foresee(self, pod: Pod) -> Foresight | None:
        """Domains close and open as pods come, if the constraint counts these pods themselves."""
        ground = self._ground(pod, hard=True)
        allowed, limits = ground.labelled, []
        for view in ground.views:
            if view.spread.selector and selects(view.spread.selector, pod.labels):
                ids, counted = view.domain.ids, view.counted
                limits.append(SkewLimit(ids, counted, self._totals(view), view.compared, view.spread.max_skew - 1))
            else:
                allowed = allowed & self._within_skew(pod, view)
        return Foresight(allowed * MANY, tuple(limits))

    def _within_skew(self, pod: Pod, view: SpreadView) -> Mask:
        spread, totals = view.spread, self._totals(view)
        fewest = np.minimum.reduce(totals[view.compared]) if len(view.compared) else 0
        itself = selects(spread.selector, pod.labels)
        even: Mask = (totals <= spread.max_skew + fewest - itself)[view.domain.ids]
        return even

    def compares(self, pod: Pod) -> bool:
        return pod.shape.peers is not None and bool(pod.shape.peers.soft_spread)

    def scores(self, pod: Pod, fit: NDArray[np.intp]) -> Amounts | None:
        """Fewer matching pods in a node's domains is better; nodes that lack a label they must have come last."""
        ground = self._ground(pod, hard=False)
        candidates = np.zeros(self._neighbours.rows, dtype=np.bool_)
        candidates[fit] = ground.labelled[fit]
        raw = np.zeros(self._neighbours.rows, dtype=np.float64)
        for view in ground.views:
            raw += self._crowding(view, candidates)
        return _fewer_is_better(np.floor(raw[fit] + 0.5).astype(np.int64), candidates[fit])

    def _crowding(self, view: SpreadView, candidates: Mask) -> NDArray[np.float64]:
        """How many matching pods share each row's domain, weighed by how many domains there are."""
        ids = view.domain.ids
        if view.spread.topology_key == HOSTNAME:
            here, size = self._neighbours.answer(view.question), int(candidates.sum())
        else:
            here, size = self._totals(view)[ids], len(np.unique(ids[candidates]))
        crowding: NDArray[np.float64] = here.astype(np.float64) * math.log(size + 2) + float(view.spread.max_skew - 1)
        return crowding * view.domain.somewhere

    def _totals(self, view: SpreadView) -> Amounts:
        return view.totals.of(self._neighbours.answer(view.question))

    def _ground(self, pod: Pod, *, hard: bool) -> SpreadSnapshot:
        """What the constraints see of the nodes, kept while no node changes."""
        key = pod.shape, pod.key.namespace, hard
        known = self._grounds.get(key)
        if known is None or known.at != self._neighbours.nodes.node_changes.end:
            known = self._grounds[key] = self._survey(pod, _spreads(pod, hard=hard))
            if len(self._grounds) > KEPT_GROUNDS:
                del self._grounds[next(iter(self._grounds))]
        return known

    def _survey(self, pod: Pod, spreads: tuple[Spread, ...]) -> SpreadSnapshot:
        labelled = self._labelled(spreads)
        views = [self._view(pod, spread, labelled & self._included(pod, spread)) for spread in spreads]
        return SpreadSnapshot(self._neighbours.nodes.node_changes.end, labelled, ~labelled, views)

    def _view(self, pod: Pod, spread: Spread, counted: Mask) -> SpreadView:
        domain = self._neighbours.domains.of(spread.topology_key)
        present = np.unique(domain.ids[counted & domain.somewhere])
        compared = present if len(present) >= spread.min_domains else NO_DOMAINS
        return SpreadView(
            spread, domain, _matching(pod, spread), counted, compared, Totals(self._neighbours.nodes, domain, counted)
        )

    def _labelled(self, spreads: tuple[Spread, ...]) -> Mask:
        """Rows that have all the topology labels they must have."""
        labelled: Mask = self._neighbours.alive.copy()
        for spread in spreads:
            if not spread.everywhere:
                labelled &= self._neighbours.domains.of(spread.topology_key).somewhere
        return labelled

    def _included(self, pod: Pod, spread: Spread) -> Mask:
        """Rows whose domains count for this constraint."""
        everything = slice(0, self._neighbours.rows)
        included = np.ones(self._neighbours.rows, dtype=np.bool_)
        for honoured, verdicts in ((spread.honor_affinity, self._affinity), (spread.honor_taints, self._taints)):
            passes = verdicts.passes(pod.shape, everything) if honoured else None
            if passes is not None:
                included &= passes
        return included


def _spreads(pod: Pod, *, hard: bool) -> tuple[Spread, ...]:
    peers = pod.shape.peers
    if peers is None:
        return ()
    return peers.hard_spread if hard else peers.soft_spread


def _matching(pod: Pod, spread: Spread) -> PodQuery:
    """Living pods of the pod's namespace that the selector picks; an empty selector picks none, as upstream.

    They are counted by node, so constraints over different labels share one question.
    """
    return PodQuery((PodTerm("", spread.selector or None, (pod.key.namespace,)),), living=True)


def _fewer_is_better(raw: Amounts, valid: Mask) -> Amounts:
    if not valid.any():
        return np.zeros(len(raw), dtype=np.int64)
    low, high = int(raw[valid].min()), int(raw[valid].max())
    if high == 0:
        return valid * TOP_SCORE
    scaled: Amounts = np.where(valid, TOP_SCORE * (high + low - raw) // high, 0)
    return scaled
