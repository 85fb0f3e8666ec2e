"""Where would this pod run? One answer with its reason: a node, or why none will do."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
from msgspec import Struct

from headgate.model.happenings import Happening
from headgate.model.pod import Pod, PodShape
from headgate.placement.columns import Amounts
from headgate.placement.glances import Glances
from headgate.placement.neighbours import Neighbours
from headgate.placement.plugins import FieldScore, Mask, PeerFilter, Refuser
from headgate.placement.ranking import UNFIT, Ranking, RowRules, best_seat

KEPT_SHAPES = 512
SHOWN_REASONS = 12  # a message that lists hundreds of taints helps nobody


class Placement(Struct, frozen=True):
    """This node, for it has the best score."""

    node: str
    score: int


class NoPlacement(Struct, frozen=True):
    """No node will do: how many there are, how many fell to each reason, and what could change that."""

    nodes: int
    reasons: tuple[tuple[str, int], ...]
    filters: tuple[str, ...]
    wake_on: frozenset[Happening]
    everywhere: str = ""  # what keeps the pod off all nodes alike, so that none was asked
    curable: int = 0  # nodes that might do if pods left them

    def __str__(self) -> str:
        if not self.nodes:
            return "no nodes available to schedule pods"
        if self.everywhere:
            return f"0/{self.nodes} nodes are available: {self.everywhere}."
        often = sorted(self.reasons, key=lambda each: -each[1])
        counted = sorted(f"{count} {reason}" for reason, count in often[:SHOWN_REASONS])
        more = len(often) - SHOWN_REASONS
        counted += [f"and {more} other reasons"] if more > 0 else []
        return f"0/{self.nodes} nodes are available: {', '.join(counted)}."


class Rules(Struct, frozen=True):
    """All placement rules of one profile."""

    rows: RowRules
    neighbours: Neighbours
    peer_filters: tuple[PeerFilter, ...] = ()
    field_scores: tuple[tuple[FieldScore, int], ...] = ()
    percentage: int = 0  # of the nodes that will do, how many are compared; 0: as many as pay


Questioned = tuple[Refuser, Iterable[tuple[str, Mask]], Callable[[], Mask | bool]]
"""A rule, where its demands are met, and where nobody's leaving would help."""

Voices = tuple[list[PeerFilter], list[tuple[FieldScore, int]]]
NOBODY: Voices = ([], [])


class Placer:
    """Answers for one profile. Equal shapes share one ranking, so the second of a kind costs next to nothing."""

    def __init__(self, rules: Rules) -> None:
        self._nodes = rules.rows.nodes
        self._rules = rules
        self._rankings: dict[PodShape, Ranking] = {}
        self._glances = Glances(rules.rows, rules.percentage)
        self._plain: dict[PodShape, tuple[Voices, int]] = {}  # while no pod holds terms, the shape tells who has a say

    def place(self, pod: Pod) -> Placement | NoPlacement:
        filters, scores = self._voices(pod)
        if pod.nominated and (kept := self._nominated(pod, filters)) is not None:
            return kept
        best = self._compared(pod, filters, scores) if filters or scores else self._best(pod.shape)
        if best is None:
            return self._refusal(pod, filters)
        row, score = best
        return Placement(self._nodes.name_at(row), score)

    def nowhere(self, rule: str, why: str, wake_on: frozenset[Happening]) -> NoPlacement:
        """The refusal of a pod that something keeps off all nodes alike."""
        return NoPlacement(len(self._nodes), (), (rule,), wake_on, why)

    def plan(self, pod: Pod, count: int) -> list[Placement]:
        """Where so many pods like this one would go, one after the other; fewer when room runs out.

        Empty as well when neighbours or other nodes have a say, so that each must be asked for by itself.
        """
        if pod.nominated or any(self._voices(pod)):
            return []
        picks = self._ranking(pod.shape).plan(count)
        return [Placement(self._nodes.name_at(row), score) for row, score in picks]

    def plan_each(self, pods: Sequence[Pod]) -> list[Placement]:
        """Where these different pods would go, in order, up to the first that must be asked for by itself.

        They may differ in nothing but amounts; no more than `most_together` of them.
        """
        picks = self._glances.best_of_each([pod.shape for pod in pods])
        found = itertools.takewhile(lambda pick: pick is not None, picks)
        return [Placement(self._nodes.name_at(pick[0]), pick[1]) for pick in found if pick is not None]

    def most_together(self, pod: Pod) -> int:
        """How many pods that differ from this one in amounts can be planned at once; 1 where it stands alone."""
        if self._rules.neighbours.matter or any(self._voices(pod)):
            return 1
        return self._glances.most_together()

    def unknown(self, pod: Pod) -> bool:
        """True for a pod of a shape not placed lately, for which a glance will do."""
        return not pod.nominated and pod.shape not in self._rankings

    def kin(self, pod: Pod) -> Hashable:
        """Pods with equal kin get equal verdicts. Labels matter only where some rule looks at neighbours."""
        if not self._voices(pod)[0]:
            return pod.scheduler_name, pod.shape
        return pod.scheduler_name, pod.shape, pod.key.namespace, tuple(sorted(pod.labels.items()))

    def _nominated(self, pod: Pod, filters: list[PeerFilter]) -> Placement | None:
        """The node nominated to the pod, if it will do: it is taken without looking further."""
        row = self._nodes.row_of(pod.nominated)
        if row is None:
            return None
        score = int(self._rules.rows.rate(pod.shape, row))
        if score == UNFIT or not all(met[row] for rule in filters for _, met in rule.demands(pod)):
            return None
        return Placement(pod.nominated, score)

    def _voices(self, pod: Pod) -> Voices:
        """The rules beyond the single node that have a say about this pod."""
        if self._rules.neighbours.matter:
            return self._ask_who_cares(pod)
        known, at = self._plain.get(pod.shape, (NOBODY, -1))
        if at != self._nodes.node_changes.end:
            known = self._ask_who_cares(pod)
            self._plain[pod.shape] = (known, self._nodes.node_changes.end)
            if len(self._plain) > KEPT_SHAPES:
                del self._plain[next(iter(self._plain))]
        return known

    def _ask_who_cares(self, pod: Pod) -> Voices:
        return (
            [rule for rule in self._rules.peer_filters if rule.concerns(pod)],
            [(rule, weight) for rule, weight in self._rules.field_scores if rule.compares(pod)],
        )

    def _best(self, shape: PodShape) -> tuple[int, int] | None:
        if shape not in self._rankings and self._glances.will_do(shape):
            return self._glances.best(shape)
        return self._ranking(shape).best()

    def _ranking(self, shape: PodShape) -> Ranking:
        ranking = self._rankings.get(shape)
        if ranking is None:
            ranking = self._rankings[shape] = Ranking(shape, self._rules.rows)
            if len(self._rankings) > KEPT_SHAPES:
                del self._rankings[next(iter(self._rankings))]
        return ranking

    def _compared(
        self, pod: Pod, filters: list[PeerFilter], scores: list[tuple[FieldScore, int]]
    ) -> tuple[int, int] | None:
        """The best row when neighbours or the other nodes have a say."""
        ranking = self._ranking(pod.shape)
        ranking.refresh()
        total = ranking.scores
        for rule in filters:
            for _, met in rule.demands(pod):
                total = np.where(met, total, UNFIT)
        if scores:
            total = self._with_comparisons(pod, total, scores)
        top = int(total.max(initial=UNFIT))
        return None if top == UNFIT else (best_seat(self._nodes, np.flatnonzero(total == top)), top)

    def _with_comparisons(self, pod: Pod, total: Amounts, scores: list[tuple[FieldScore, int]]) -> Amounts:
        """With what the rules say that look at the other nodes that will do."""
        fit = np.flatnonzero(total > UNFIT)
        if not len(fit):
            return total
        total = total.copy()
        for rule, weight in scores:
            points = rule.scores(pod, fit)
            if points is not None:
                total[fit] += weight * points
        return total

    def _refusal(self, pod: Pod, filters: list[PeerFilter]) -> NoPlacement:
        """Each node counts for the first rule that refuses it, with all of that rule's reasons."""
        left: Mask = self._nodes.alive.copy()
        counts: dict[str, int] = {}
        refusing: list[str] = []
        wake_on: set[Happening] = {Happening.NODE_ADDED}
        curable = 0
        for rule, demands, hopeless in self._questions(pod, filters):
            refused = _count(demands, left, counts)
            if refused.any():
                refusing.append(rule.name)
                wake_on |= rule.wake_on
                left &= ~refused
                curable += int(np.count_nonzero(refused & np.logical_not(hopeless())))
        reasons = tuple(sorted(counts.items()))
        return NoPlacement(len(self._nodes), reasons, tuple(refusing), frozenset(wake_on), curable=curable)

    def _questions(self, pod: Pod, filters: list[PeerFilter]) -> Iterator[Questioned]:
        everything = slice(0, len(self._nodes.nodes))
        for verdicts in self._rules.rows.node_filters:
            yield verdicts.rule, verdicts.demands(pod.shape, everything), lambda: True
        for rule in self._rules.rows.load_filters:
            demands = rule.demands(pod.shape, self._nodes, everything, 0)
            yield rule, demands, partial(rule.hopeless, pod.shape, self._nodes)
        for peer in filters:
            yield peer, peer.demands(pod), partial(peer.hopeless, pod)


def _count(demands: Iterable[tuple[str, Mask]], left: Mask, counts: dict[str, int]) -> Mask:
    """Add to `counts` the rows still left where a demand is not met; returns all rows refused."""
    refused: Mask = np.zeros(len(left), dtype=np.bool_)
    for reason, met in demands:
        hit = left & ~met
        if hit.any():
            counts[reason] = counts.get(reason, 0) + int(hit.sum())
            refused |= hit
    return refused
