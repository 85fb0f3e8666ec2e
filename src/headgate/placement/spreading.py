"""Evenly over zones and nodes: PodTopologySpread, as a filter and as a score."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from headgate.model.happenings import Happening
from headgate.model.peers import PodTerm, Spread, selects
from headgate.model.pod import Pod, PodShape
from headgate.placement.columns import Amounts
from headgate.placement.domains import NOWHERE, Domain
from headgate.placement.neighbours import Neighbours, Question
from headgate.placement.plugins import Mask
from headgate.placement.scores import TOP_SCORE
from headgate.placement.verdicts import Verdicts

KEPT_GROUNDS = 256
HOSTNAME = "kubernetes.io/hostname"
REASON = "node(s) didn't match pod topology spread constraints"


class Ground(Struct, frozen=True):
    """What some constraints see of the nodes: which have the labels, and by constraint which rows and domains count."""

    at: int
    labelled: Mask
    counted: list[Mask]
    present: list[Mask]
    missing: list[bool]  # by constraint, whether pods run on rows that do not count


class PodTopologySpread:
    """No domain gets too far ahead of the emptiest one (hard), and emptier domains are preferred (soft)."""

    name = "PodTopologySpread"
    wake_on = frozenset(Happening) - {Happening.CLAIMS_CHANGED}

    def __init__(self, neighbours: Neighbours, affinity: Verdicts, taints: Verdicts) -> None:
        self._neighbours = neighbours
        self._affinity = affinity
        self._taints = taints
        self._grounds: dict[tuple[PodShape, tuple[Spread, ...]], Ground] = {}

    def concerns(self, pod: Pod) -> bool:
        return pod.shape.peers is not None and bool(pod.shape.peers.hard_spread)

    def demands(self, pod: Pod) -> Iterator[tuple[str, Mask]]:
        spreads = pod.shape.peers.hard_spread if pod.shape.peers else ()
        ground = self._ground(pod, spreads)
        yield f"{REASON} (missing required label)", ground.labelled
        even = ~ground.labelled
        even |= self._within_skew(pod, spreads[0], ground, 0)
        for index in range(1, len(spreads)):
            even &= self._within_skew(pod, spreads[index], ground, index) | ~ground.labelled
        yield REASON, even

    def admits(self, pod: Pod, row: int) -> bool:
        return all(met[row] for _, met in self.demands(pod))

    def hopeless(self, pod: Pod) -> Mask | bool:
        """A node without the labels stays without them."""
        return ~self._ground(pod, pod.shape.peers.hard_spread if pod.shape.peers else ()).labelled

    def _within_skew(self, pod: Pod, spread: Spread, ground: Ground, index: int) -> Mask:
        domain = self._neighbours.domains.of(spread.topology_key)
        counted = ground.counted[index] if ground.missing[index] else None
        totals, present = _totals(domain, self._matching(pod, spread), counted), ground.present[index]
        enough = int(np.count_nonzero(present)) >= max(1, spread.min_domains)
        fewest = int(totals[present].min()) if enough else 0
        itself = 1 if selects(spread.selector, pod.labels) else 0
        even: Mask = (totals + itself - fewest <= spread.max_skew)[domain.ids]
        return even

    def compares(self, pod: Pod) -> bool:
        return pod.shape.peers is not None and bool(pod.shape.peers.soft_spread)

    def scores(self, pod: Pod, fit: NDArray[np.intp]) -> Amounts | None:
        """Fewer matching pods in a node's domains is better; nodes that lack a label they must have come last."""
        spreads = pod.shape.peers.soft_spread if pod.shape.peers else ()
        ground = self._ground(pod, spreads)
        candidates = np.zeros(self._neighbours.rows, dtype=np.bool_)
        candidates[fit] = ground.labelled[fit]
        raw = np.zeros(self._neighbours.rows, dtype=np.float64)
        for spread, counted in zip(spreads, ground.counted, strict=True):
            raw += self._crowding(pod, spread, counted, candidates)
        return _fewer_is_better(np.floor(raw[fit] + 0.5).astype(np.int64), candidates[fit])

    def _crowding(self, pod: Pod, spread: Spread, counted: Mask, candidates: Mask) -> NDArray[np.float64]:
        """How many matching pods share each row's domain, weighed by how many domains there are."""
        domain = self._neighbours.domains.of(spread.topology_key)
        matching = self._matching(pod, spread)
        if spread.topology_key == HOSTNAME:
            here, size = matching, int(candidates.sum())
        else:
            here = _totals(domain, matching, counted)[domain.ids]
            size = len(np.unique(domain.ids[candidates]))
        crowding: NDArray[np.float64] = here.astype(np.float64) * math.log(size + 2) + float(spread.max_skew - 1)
        return crowding * domain.somewhere

    def _ground(self, pod: Pod, spreads: tuple[Spread, ...]) -> Ground:
        """What the constraints see of the nodes alone, kept while no node changes."""
        now = self._neighbours.nodes.node_changes.end
        known = self._grounds.get((pod.shape, spreads))
        if known is None or known.at != now:
            labelled = self._labelled(spreads)
            counted = [labelled & self._included(pod, spread) for spread in spreads]
            domains = [self._neighbours.domains.of(spread.topology_key) for spread in spreads]
            present = [_present(domain, mask) for domain, mask in zip(domains, counted, strict=True)]
            missing = [bool((self._neighbours.alive & ~mask).any()) for mask in counted]
            known = self._grounds[pod.shape, spreads] = Ground(now, labelled, counted, present, missing)
            if len(self._grounds) > KEPT_GROUNDS:
                del self._grounds[next(iter(self._grounds))]
        return known

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


def _totals(domain: Domain, counts: Amounts, counted: Mask | None) -> Amounts:
    """By domain number, how many pods there are on the counted rows; None: on all."""
    weights = counts if counted is None else counts * counted
    return np.bincount(domain.ids, weights=weights, minlength=domain.count).astype(np.int64)


def _present(domain: Domain, counted: Mask) -> Mask:
    """By domain number, whether it has a counted row at all."""
    present: Mask = np.bincount(domain.ids, weights=counted, minlength=domain.count) > 0
    present[NOWHERE] = False
    return present


def _fewer_is_better(raw: Amounts, valid: Mask) -> Amounts:
    if not valid.any():
        return np.zeros(len(raw), dtype=np.int64)
    low, high = int(raw[valid].min()), int(raw[valid].max())
    if high == 0:
        return valid * TOP_SCORE
    scaled: Amounts = np.where(valid, TOP_SCORE * (high + low - raw) // high, 0)
    return scaled
