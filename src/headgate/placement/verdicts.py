"""What the node filters say, kept per demand and node, brought up to date for changed nodes only."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import reduce
from operator import and_

import numpy as np

from headgate.model.pod import PodShape
from headgate.placement.columns import Amounts, padded
from headgate.placement.domains import Domains
from headgate.placement.plugins import Each, LabelFilter, Mask, NodeFilter, Rows
from headgate.placement.table import NodeTable

KEPT_DEMANDS = 1024
PASSES = 0


class Verdict:
    """One filter's answer to one demand: a reason code for each row, 0 where the node passes."""

    def __init__(self) -> None:
        self.codes: Amounts = np.zeros(0, dtype=np.int64)
        self.reasons: list[str] = [""]  # by code
        self.everywhere = False  # every node passes
        self.cursor = -1

    def code_of(self, reason: str | None) -> int:
        if reason is None:
            return PASSES
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason)


class Verdicts:
    def __init__(self, rule: NodeFilter, nodes: NodeTable) -> None:
        self.rule = rule
        self._nodes = nodes
        self._labels = Domains(nodes)
        self._by_demand: dict[Hashable, Verdict] = {}

    def passes(self, shape: PodShape, rows: Rows) -> Each | None:
        """Where the filter lets the pod pass; None for everywhere."""
        verdict = self._current(shape)
        return None if verdict is None or verdict.everywhere else verdict.codes[rows] == PASSES

    def demands(self, shape: PodShape, rows: Rows) -> Iterator[tuple[str, Mask]]:
        """Each reason there is for a refusal, and where it does not apply."""
        verdict = self._current(shape)
        if verdict is None:
            return
        for code, reason in enumerate(verdict.reasons[1:], start=1):
            yield reason, verdict.codes[rows] != code

    def _current(self, shape: PodShape) -> Verdict | None:
        demand = self.rule.demand(shape)
        if demand is None:
            return None
        verdict = self._by_demand.get(demand)
        if verdict is None:
            verdict = self._by_demand[demand] = Verdict()
            self._forget_oldest()
        if verdict.cursor != self._nodes.node_changes.end:
            self._refresh(verdict, shape)
        return verdict

    def _refresh(self, verdict: Verdict, shape: PodShape) -> None:
        verdict.codes = padded(verdict.codes, len(self._nodes.nodes))
        for row in self._worth_asking(verdict, shape):
            node = self._nodes.nodes[row]
            verdict.codes[row] = PASSES if node is None else verdict.code_of(self.rule.refusal(shape, node))
        verdict.cursor = self._nodes.node_changes.end
        verdict.everywhere = not verdict.codes.any()

    def _worth_asking(self, verdict: Verdict, shape: PodShape) -> Iterable[int]:
        """The rows that changed; of a demand never heard before those with the labels, all others being refused."""
        if verdict.cursor >= 0 or not isinstance(self.rule, LabelFilter):
            return self._nodes.rows_changed_since(verdict.cursor)
        having = [self._labels.of(key).having(values) for key, values in self.rule.needed(shape)]
        asked: Mask = reduce(and_, having, self._nodes.alive)
        verdict.codes = (self._nodes.alive & ~asked) * verdict.code_of(self.rule.reason)
        rows: list[int] = np.flatnonzero(asked).tolist()
        return rows

    def _forget_oldest(self) -> None:
        if len(self._by_demand) > KEPT_DEMANDS:
            del self._by_demand[next(iter(self._by_demand))]
