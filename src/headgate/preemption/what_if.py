"""The table as it would be with some pods gone, for rules that judge each row by itself."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.model.pod import PodShape
from headgate.placement.columns import Amounts, ChangeLog, Columns
from headgate.placement.ranking import Ranking, RowRules
from headgate.placement.table import PODS, NodeTable
from headgate.preemption.loads import After


class WhatIf(NodeTable):
    """Shares all but the loads with the real table. Only row rules read it; pods are neither charged nor released."""

    def __init__(self, nodes: NodeTable, after: After, promised: Mapping[str, Amounts]) -> None:
        self.nodes, self.alive, self.draws, self.extent = nodes.nodes, nodes.alive, nodes.draws, nodes.extent
        self.allocatable, self.ports = nodes.allocatable, nodes.ports
        self.node_changes, self.load_changes = nodes.node_changes, ChangeLog()
        self.requested, self.scored = Columns(len(nodes.nodes)), Columns(len(nodes.nodes))
        for name in list(nodes.requested.names()):
            self.requested[name][:] = after.requested(name)
        for name in list(nodes.scored.names()):
            self.scored[name][:] = after.scored(name)
        for name, amounts in promised.items():
            self.requested[name][:] += amounts

    def seat(self, shape: PodShape, row: int) -> None:
        """One more pod of this shape is there."""
        self.requested.add(row, shape.requests, 1)
        self.requested[PODS][row] += 1
        self.scored.add(row, shape.scored_requests, 1)
        self.load_changes.append(row)


class Seating:
    """Finds seats for one pod after the other in such a table, many at once where they are alike."""

    def __init__(self, table: WhatIf, rules: RowRules) -> None:
        self._table = table
        self._rules = RowRules(table, rules.node_filters, rules.load_filters, rules.scores)
        self._rankings: dict[PodShape, Ranking] = {}

    def seats(self, shape: PodShape, count: int) -> list[int]:
        """The rows that so many pods of the shape get, which are taken from now on; fewer when room runs out."""
        ranking = self._rankings.get(shape)
        if ranking is None:
            ranking = self._rankings[shape] = Ranking(shape, self._rules)
        rows = [row for row, _ in ranking.plan(count)]
        for row in rows:
            self._table.seat(shape, row)
        return rows
