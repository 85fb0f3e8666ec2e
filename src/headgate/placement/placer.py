"""Where would this pod run? One answer with its reason: a node, or why none will do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from msgspec import Struct

from headgate.model.happenings import Happening
from headgate.model.pod import PodShape
from headgate.placement.plugins import Mask
from headgate.placement.ranking import Ranking, Rules

KEPT_SHAPES = 512


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

    def __str__(self) -> str:
        if not self.nodes:
            return "no nodes available to schedule pods"
        counted = sorted(f"{count} {reason}" for reason, count in self.reasons)
        return f"0/{self.nodes} nodes are available: {', '.join(counted)}."


class Placer:
    """Answers for one profile. Equal shapes share one ranking, so the second of a kind costs next to nothing."""

    def __init__(self, rules: Rules) -> None:
        self._nodes = rules.nodes
        self._rules = rules
        self._rankings: dict[PodShape, Ranking] = {}

    def place(self, shape: PodShape, lot: int) -> Placement | NoPlacement:
        best = self._ranking(shape).best(lot)
        if best is None:
            return self._refusal(shape)
        row, score = best
        return Placement(self._nodes.name_at(row), score)

    def _ranking(self, shape: PodShape) -> Ranking:
        ranking = self._rankings.get(shape)
        if ranking is None:
            ranking = self._rankings[shape] = Ranking(shape, self._rules)
            if len(self._rankings) > KEPT_SHAPES:
                del self._rankings[next(iter(self._rankings))]
        return ranking

    def _refusal(self, shape: PodShape) -> NoPlacement:
        """Each node counts for the first filter that refuses it, with all of that filter's reasons."""
        rows = np.flatnonzero(self._nodes.alive)
        left: Mask = np.ones(len(rows), dtype=np.bool_)
        counts: dict[str, int] = {}
        refusing: list[str] = []
        wake_on: set[Happening] = {Happening.NODE_ADDED}
        for name, wakes, refusals in self._questions(shape, rows):
            refused = _count(refusals, left, counts)
            if refused.any():
                refusing.append(name)
                wake_on |= wakes
                left &= ~refused
        return NoPlacement(len(rows), tuple(sorted(counts.items())), tuple(refusing), frozenset(wake_on))

    def _questions(
        self, shape: PodShape, rows: np.ndarray[tuple[int], np.dtype[np.intp]]
    ) -> Iterator[tuple[str, frozenset[Happening], Iterable[tuple[str, Mask]]]]:
        for verdicts in self._rules.node_filters:
            yield verdicts.rule.name, verdicts.rule.wake_on, verdicts.refusals(shape, rows)
        for rule in self._rules.load_filters:
            yield rule.name, rule.wake_on, rule.refusals(shape, self._nodes, rows)


def _count(refusals: Iterable[tuple[str, Mask]], left: Mask, counts: dict[str, int]) -> Mask:
    """Add to `counts` the rows still left that each reason refuses; returns all rows refused."""
    refused: Mask = np.zeros(len(left), dtype=np.bool_)
    for reason, mask in refusals:
        hit = mask & left
        if hit.any():
            counts[reason] = counts.get(reason, 0) + int(hit.sum())
            refused |= hit
    return refused
