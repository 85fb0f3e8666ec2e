"""A world of row rules only: amounts by row are all there is to it, so nothing needs to be charged or released."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from headgate.model.pod import Pod, PodShape
from headgate.placement.filters import NodePorts
from headgate.placement.packing import RowCapacity, allowed_rows, asked_of, other_orders, packed
from headgate.placement.placer import Placer
from headgate.placement.plugins import Mask
from headgate.placement.ranking import Ranking, RowRules
from headgate.placement.table import ONE_POD, Amounts, ChangeLog, Columns, NodeTable, times
from headgate.preemption.candidates import After, Candidates, Shares, Units
from headgate.preemption.steps import Placements, SearchDomain
from headgate.preemption.units import Flags


def not_reprieved(shares: Shares, rows: NDArray[np.intp], left: Mapping[str, Amounts]) -> NDArray[np.intp]:
    """Which of the shares do not fit when each row reprieves what it can, in the given order.

    `rows` are the rows they are on, ascending, and `left` says what each of these has left with nobody back. A share
    must fit by itself: what a unit holds on other rows is not looked at.
    """
    turns = np.argsort(shares.rows, kind="stable")
    lengths = np.bincount(np.searchsorted(rows, shares.rows), minlength=len(rows))
    starts = np.cumsum(lengths) - lengths
    left = {name: amounts.copy() for name, amounts in left.items()}
    held = {name: shares.held(name) for name in left}
    victims: list[NDArray[np.intp]] = [turns[:0]]
    for turn in range(int(lengths.max(initial=0))):
        asking = np.flatnonzero(lengths > turn)
        asked = turns[starts[asking] + turn]
        after = {name: amounts[asking] - held[name][asked] for name, amounts in left.items()}
        fits = np.logical_and.reduce([amounts >= 0 for amounts in after.values()])
        for name, amounts in after.items():
            left[name][asking[fits]] = amounts[fits]
        victims.append(asked[~fits])
    return np.concatenate(victims)


class WhatIf(NodeTable):
    """Shares all but the loads with the real table. Only row rules read it; pods are neither charged nor released."""

    def __init__(self, nodes: NodeTable, after: After, promised: Mapping[str, Amounts]) -> None:
        self.nodes, self.alive, self.draws, self.extent = nodes.nodes, nodes.alive, nodes.draws, nodes.extent
        self.allocatable, self.ports = nodes.allocatable, nodes.ports
        self.node_changes, self.load_changes = nodes.node_changes, ChangeLog()
        self.requested, self.scored = Columns(len(nodes.nodes)), Columns(len(nodes.nodes))
        for name in list(nodes.requested.names()):
            self.requested.adopt(name, after.requested(name))
        for name in list(nodes.scored.names()):
            self.scored.adopt(name, after.scored(name))
        for name, amounts in promised.items():
            self.requested.open(name)[:] += amounts

    def place(self, shape: PodShape, row: int) -> None:
        """One more pod of this shape is there."""
        self.requested.add(row, (*shape.requests.items, ONE_POD), 1)
        self.scored.add(row, shape.scored_requests.items, 1)
        self.load_changes.append(row)


class PlainPlacements:
    """Finds placements for one pod after the other in such a table, many at once where they are alike."""

    def __init__(self, table: WhatIf, rules: RowRules) -> None:
        self._table = table
        self.rules = RowRules(table, rules.node_filters, rules.load_filters, rules.scores)
        self._rankings: dict[PodShape, Ranking] = {}

    def placements(self, shape: PodShape, count: int) -> list[int]:
        """The rows that so many pods of the shape get, which are taken from now on; fewer when capacity runs out."""
        ranking = self._rankings.get(shape)
        if ranking is None:
            ranking = self._rankings[shape] = Ranking(shape, self.rules)
        rows = [row for row, _ in ranking.plan(count)]
        for row in rows:
            self._table.place(shape, row)
        return rows


PLENTY = 1 << 62


def allowed_beside(placer: Placer, pod: Pod) -> Mask:
    """Where all rules let the pod pass as things stand, but for amounts and nominated capacity."""
    rules = placer.rules
    allowed = allowed_rows(rules.rows, pod.shape)
    everywhere = slice(0, len(allowed))
    for load in rules.rows.load_filters:
        if isinstance(load, NodePorts):
            for _, met in load.demands(pod.shape, rules.rows.nodes, everywhere, 0):
                allowed &= met
    for peer in rules.peer_filters:
        if peer is not placer.nominations and peer.concerns(pod):
            for _, met in peer.demands(pod):
                allowed &= met
    return allowed


class PlainWorld:
    """Tries a domain by arithmetic on the rows."""

    def __init__(
        self, rules: RowRules, among: Candidates, domain: SearchDomain, promised: Mapping[str, Amounts]
    ) -> None:
        self._rules = rules
        self._nodes: NodeTable = rules.nodes
        self._among = among
        self._domain = domain
        self._promised = promised
        self._shapes = dict.fromkeys(pod.shape for pod in domain.pods)
        self._allowed = {shape: allowed_rows(rules, shape) for shape in self._shapes}
        self._rows: NDArray[np.intp] = np.zeros(0, dtype=np.intp)  # those with placements, ascending
        self._left: dict[str, Amounts] = {}  # what each of them has left beside the placements
        self._assumed_for: tuple[Flags | None, Placements] = (None, ())  # what the two above are known for

    def enough(self, gone: Flags) -> bool:
        if self._domain.placements is not None or len(self._shapes) > 1:
            return self.place(gone) is not None
        (shape,) = self._shapes
        return self._most(shape, self._among.after(gone)) >= self._domain.needed

    def place(self, gone: Flags) -> Placements | None:
        after = self._among.after(gone)
        if self._domain.placements is not None:
            return self._domain.placements if self._hold(self._domain.placements, after) else None
        first = self._in_order(range(len(self._domain.pods)), self._empty(after))
        if len(first) >= self._domain.needed:
            return first
        return self._otherwise(after) if len(self._shapes) > 1 else None

    def assume(self, gone: Flags, placements: Placements) -> None:
        if self._assumed_for[0] is not gone or self._assumed_for[1] is not placements:
            self._rows = np.unique([row for _, row in placements])
            self._left = self._left_beside(placements, self._rows, self._among.after(gone))
            self._assumed_for = gone, placements

    def doubtful(self, units: Units) -> Units:
        rows = np.zeros(len(self._nodes.nodes), dtype=np.bool_)
        rows[self._rows] = True
        return units[self._among.on_rows(rows)[units]]

    def not_reprieved(self, units: Units) -> Units:
        shares = self._among.shares_on(self._rows, units)
        if not self._among.whole[units].any():
            return shares.units[np.sort(not_reprieved(shares, self._rows, self._left))]
        return np.array(list(self._whole_units(shares)), dtype=np.intp)

    def _whole_units(self, shares: Shares) -> Iterator[int]:
        """As `not_reprieved`, for units that are reprieved on all of their rows or on none."""
        left = [amounts.tolist() for amounts in self._left.values()]
        places = np.searchsorted(self._rows, shares.rows).tolist()
        held = zip(*(shares.held(name).tolist() for name in self._left), strict=True)
        lines = zip(shares.units.tolist(), places, held, strict=True)
        for unit, own in itertools.groupby(lines, key=itemgetter(0)):
            takes = [(place, amounts) for _, place, amounts in own]
            if all(have[place] >= less for place, amounts in takes for have, less in zip(left, amounts, strict=True)):
                for place, amounts in takes:
                    for have, less in zip(left, amounts, strict=True):
                        have[place] -= less
            else:
                yield unit

    def _most(self, shape: PodShape, after: After) -> int:
        """How many pods of the shape would fit."""
        most = self._allowed[shape] * len(self._domain.pods)
        for name, amount in asked_of([shape]).items():
            most = np.minimum(most, self._free(name, after) // amount)
        return int(np.maximum(most, 0).sum())

    def _free(self, name: str, after: After) -> Amounts:
        free: Amounts = self._nodes.allocatable[name] - after.requested(name)
        return free - self._promised[name] if name in self._promised else free

    def _empty(self, after: After) -> PlainPlacements:
        """None of the preemptor's pods is placed yet."""
        return PlainPlacements(WhatIf(self._nodes, after, self._promised), self._rules)

    def _in_order(self, order: Sequence[int], placing: PlainPlacements) -> Placements:
        """As many pods as are needed, if that many fit in this order."""
        pods, found = self._domain.pods, list[tuple[int, int]]()
        for shape, run in itertools.groupby(order, key=lambda index: pods[index].shape):
            waiting = list(run)[: self._domain.needed - len(found)]
            found += zip(waiting, placing.placements(shape, len(waiting)) if waiting else (), strict=False)
        return tuple(sorted(found))

    def _otherwise(self, after: After) -> Placements | None:
        """As `placement.groups` places pods that are unlike: in other orders, then where a search of all ways says."""
        pods, needed = self._domain.pods, self._domain.needed
        for order in other_orders(self._empty(after).rules, pods, needed, None):
            found = self._in_order(order, self._empty(after))
            if len(found) >= needed:
                return found
        free = {name: self._free(name, after) for name in asked_of(list(self._shapes))}
        rows = packed(pods, needed, RowCapacity(free, self._allowed, self._nodes.draws))
        return None if rows is None else tuple(sorted(rows.items())[:needed])

    def _hold(self, placements: Placements, after: After) -> bool:
        left = self._left_beside(placements, np.unique([row for _, row in placements]), after)
        allowed = all(self._allowed[self._domain.pods[index].shape][row] for index, row in placements)
        return allowed and all(bool((amounts >= 0).all()) for amounts in left.values())

    def _left_beside(self, placements: Placements, rows: NDArray[np.intp], after: After) -> dict[str, Amounts]:
        """By name what is left on these rows when the placements are taken; plenty where nobody placed asks for it."""
        asked = {name: np.zeros(len(rows), dtype=np.int64) for shape in self._shapes for name in asked_of([shape])}
        for shape in self._shapes:
            taken = [row for index, row in placements if self._domain.pods[index].shape == shape]
            here = np.bincount(np.searchsorted(rows, taken), minlength=len(rows))
            for name, amount in asked_of([shape]).items():
                asked[name] += times(amount, here)
        return {
            name: np.where(amounts > 0, self._free(name, after)[rows] - amounts, PLENTY)
            for name, amounts in asked.items()
        }
