"""Evenly over zones and nodes: PodTopologySpread, as a filter and as a score."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headgate.model.happenings import Happening
from headgate.model.peers import PodTerm, Spread, selects
from headgate.model.pod import Pod
from headgate.placement.columns import Amounts
from headgate.placement.domains import Domain
from headgate.placement.neighbours import Neighbours, Question
from headgate.placement.plugins import Mask
from headgate.placement.scores import TOP_SCORE
from headgate.placement.verdicts import Verdicts

HOSTNAME = "kubernetes.io/hostname"
REASON = "node(s) didn't match pod topology spread constraints"


class PodTopologySpread:
    """No domain gets too far ahead of the emptiest one (hard), and emptier domains are preferred (soft)."""

    name = "PodTopologySpread"
    wake_on = frozenset(Happening) - {Happening.CLAIMS_CHANGED}

    def __init__(self, neighbours: Neighbours, affinity: Verdicts, taints: Verdicts) -> None:
        self._neighbours = neighbours
        self._affinity = affinity
        self._taints = taints

    def concerns(self, pod: Pod) -> bool:
        return pod.shape.peers is not None and bool(pod.shape.peers.hard_spread)

    def demands(self, pod: Pod) -> Iterator[tuple[str, Mask]]:
        spreads = pod.shape.peers.hard_spread if pod.shape.peers else ()
        labelled = self._labelled(spreads)
        even = np.ones(self._neighbours.rows, dtype=np.bool_)
        for spread in spreads:
            even &= self._within_skew(pod, spread, labelled)
        yield f"{REASON} (missing required label)", labelled
        yield REASON, even | ~labelled

    def _within_skew(self, pod: Pod, spread: Spread, labelled: Mask) -> Mask:
        counted = labelled & self._included(pod, spread)
        domain = self._neighbours.domains.of(spread.topology_key)
        totals, present = _totals(domain, self._matching(pod, spread), counted)
        fewest = int(totals[present].min(initial=np.iinfo(np.int64).max)) if present.any() else 0
        if int(present.sum()) < spread.min_domains:
            fewest = 0
        itself = 1 if selects(spread.selector, pod.labels) else 0
        even: Mask = totals[domain.ids] + itself - fewest <= spread.max_skew
        return even

    def compares(self, pod: Pod) -> bool:
        return pod.shape.peers is not None and bool(pod.shape.peers.soft_spread)

    def scores(self, pod: Pod, fit: NDArray[np.intp]) -> Amounts | None:
        """Fewer matching pods in a node's domains is better; nodes that lack a label they must have come last."""
        spreads = pod.shape.peers.soft_spread if pod.shape.peers else ()
        labelled = self._labelled(spreads)
        candidates = np.zeros(self._neighbours.rows, dtype=np.bool_)
        candidates[fit] = labelled[fit]
        raw = np.zeros(self._neighbours.rows, dtype=np.float64)
        for spread in spreads:
            raw += self._crowding(pod, spread, labelled, candidates)
        return _fewer_is_better(np.floor(raw[fit] + 0.5).astype(np.int64), candidates[fit])

    def _crowding(self, pod: Pod, spread: Spread, labelled: Mask, candidates: Mask) -> NDArray[np.float64]:
        """How many matching pods share each row's domain, weighed by how many domains there are."""
        domain = self._neighbours.domains.of(spread.topology_key)
        matching = self._matching(pod, spread)
        if spread.topology_key == HOSTNAME:
            here, size = matching, int(candidates.sum())
        else:
            totals, _ = _totals(domain, matching, labelled & self._included(pod, spread))
            here, size = totals[domain.ids], len(np.unique(domain.ids[candidates]))
        crowding: NDArray[np.float64] = here.astype(np.float64) * math.log(size + 2) + float(spread.max_skew - 1)
        return crowding * domain.somewhere

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

    def _matching(self, pod: Pod, spread: Spread) -> Amounts:
        """Living pods of the pod's namespace that the selector picks; an empty selector picks none, as upstream.

        They are counted by node, so constraints over different labels share one question.
        """
        term = PodTerm("", spread.selector or None, (pod.key.namespace,))
        return self._neighbours.answer(Question((term,), living=True))


def _totals(domain: Domain, counts: Amounts, counted: Mask) -> tuple[Amounts, Mask]:
    """By domain number: how many pods on the counted rows, and whether there is a counted row at all."""
    totals = np.bincount(domain.ids, weights=counts * counted, minlength=domain.count).astype(np.int64)
    present: Mask = np.bincount(domain.ids, weights=counted, minlength=domain.count) > 0
    present[0] = False
    return totals, present


def _fewer_is_better(raw: Amounts, valid: Mask) -> Amounts:
    if not valid.any():
        return np.zeros(len(raw), dtype=np.int64)
    low, high = int(raw[valid].min()), int(raw[valid].max())
    if high == 0:
        return valid * TOP_SCORE
    scaled: Amounts = np.where(valid, TOP_SCORE * (high + low - raw) // high, 0)
    return scaled
