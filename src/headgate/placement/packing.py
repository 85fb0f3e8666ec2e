"""Nodes for unlike pods where asking for them by age finds none: other orders, then a bounded search of all ways.

The search knows amounts only, so it serves plain pods: for these each row is judged by itself and by amounts alone,
nominations of other pods aside. It gives up after a number of steps, never after a time: one state of the cluster has
one answer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from headgate.model.pod import Pod, PodShape
from headgate.placement.filters import NodeResourcesFit
from headgate.placement.placer import Placer
from headgate.placement.plugins import Mask
from headgate.placement.ranking import RowRules
from headgate.placement.table import PODS, Amounts, NodeTable

MOST_STEPS = 1000  # of one search
MOST_PODS = 256  # in one search
MOST_SHAPES = 16  # that are compared by how many nodes they could run on, and in one search


def is_plain(placer: Placer, pods: Sequence[Pod]) -> bool:
    """Whether rows can be judged each by itself and by amounts alone for these pods, nominated capacity aside.

    Preferences that compare nodes do not count when others are evicted for a placement.
    """
    rules = placer.rules
    near = [rule for rule in rules.peer_filters if rule is not placer.nominations]
    if not any(isinstance(rule, NodeResourcesFit) for rule in rules.rows.load_filters):
        return False
    return not any(pod.shape.ports or any(rule.concerns(pod) for rule in near) for pod in pods)


def nominated_capacity(placer: Placer, pods: Sequence[Pod]) -> dict[str, Amounts]:
    """By name and row, what is promised to pods at least as important as these, which are alike in that."""
    if not placer.nominations.concerns(pods[0]):
        return {}
    nodes = placer.rules.rows.nodes
    everywhere, names = slice(0, len(nodes.nodes)), asked_of([pod.shape for pod in pods])
    return {name: placer.nominations.promised(pods[0], name, everywhere) for name in names}


def asked_of(shapes: Sequence[PodShape]) -> dict[str, int]:
    """What pods of these shapes ask for together, each name that matters: one place a pod, and no zeros."""
    asked = {PODS: len(shapes)}
    for shape in shapes:
        for name, amount in shape.requests.items:
            if amount:
                asked[name] = asked.get(name, 0) + amount
    return asked


def allowed_rows(rules: RowRules, shape: PodShape) -> Mask:
    """Where what the node itself is does not keep the pod off."""
    everywhere = slice(0, len(rules.nodes.nodes))
    allowed: Mask = rules.nodes.alive.copy()
    for verdicts in rules.node_filters:
        passes = verdicts.passes(shape, everywhere)
        if passes is not None:
            allowed &= passes
    allowed[list(rules.nodes.overfull())] = False
    return allowed


class RowCapacity(Struct, frozen=True):
    """What is free by resource and row, and the rows each shape may run on as far as amounts do not decide it."""

    free: Mapping[str, Amounts]
    allowed: Mapping[PodShape, Mask]
    draws: Amounts  # by row; of equally good rows the one with the smallest is taken


def free_capacity(placer: Placer, pods: Sequence[Pod], within: Mask | None) -> RowCapacity:
    """For plain pods, as things stand and as the least important of them sees it; `within` limits the rows."""
    least = sorted(pods, key=lambda pod: pod.priority)
    nodes, promised = placer.rules.rows.nodes, nominated_capacity(placer, least)
    free = {}
    for name in asked_of([pod.shape for pod in pods]):
        free[name] = nodes.allocatable[name] - nodes.requested[name] - promised.get(name, 0)
    allowed = {shape: allowed_rows(placer.rules.rows, shape) for shape in dict.fromkeys(pod.shape for pod in pods)}
    if within is not None:
        allowed = {shape: rows & within for shape, rows in allowed.items()}
    return RowCapacity(free, allowed, nodes.draws)


def other_orders(rules: RowRules, pods: Sequence[Pod], needed: int, within: Mask | None) -> Iterator[list[int]]:
    """Orders, other than the given one, in which `needed` of these unlike pods are more likely to find nodes.

    First the smallest `needed` pods, the largest of them first; then those that most nodes could run, those that
    fewest could first. The others follow in the given order.
    """
    shapes = list(dict.fromkeys(pod.shape for pod in pods))
    sizes = _dominant_shares(rules.nodes, shapes)
    seen = {tuple(range(len(pods)))}
    for hardness in (sizes, _hardness(rules, shapes, sizes, within) if len(shapes) <= MOST_SHAPES else {}):
        if hardness:
            easiest = sorted(range(len(pods)), key=lambda index: (hardness[pods[index].shape], index))
            chosen = sorted(easiest[:needed], key=lambda index: (_reverse(hardness[pods[index].shape]), index))
            order = (*chosen, *sorted(easiest[needed:]))
            if order not in seen:
                seen.add(order)
                yield list(order)


Hardness = tuple[Fraction, ...]
"""The higher, the harder is a pod to place."""


def _reverse(hardness: Hardness) -> Hardness:
    return tuple(-each for each in hardness)


def _dominant_shares(nodes: NodeTable, shapes: Sequence[PodShape]) -> dict[PodShape, Hardness]:
    """The largest share that a pod of each shape takes of all there is of a resource."""
    totals: dict[str, int] = {}
    for name in {name for shape in shapes for name, _ in shape.requests.items}:
        totals[name] = max(1, sum(nodes.allocatable[name][nodes.alive].tolist()))
    return {
        shape: (max((Fraction(amount, totals[name]) for name, amount in shape.requests.items), default=Fraction(0)),)
        for shape in shapes
    }


def _hardness(
    rules: RowRules, shapes: Sequence[PodShape], sizes: Mapping[PodShape, Hardness], within: Mask | None
) -> dict[PodShape, Hardness]:
    """The fewer nodes could run a pod of the shape now, the harder it is; then the larger."""
    everywhere = slice(0, len(rules.nodes.nodes))
    fit = {shape: rules.fit(shape, everywhere, 0) for shape in shapes}
    options = {shape: np.count_nonzero(each if within is None else each & within) for shape, each in fit.items()}
    return {shape: (Fraction(-int(options[shape])), *sizes[shape]) for shape in shapes}


def packed(pods: Sequence[Pod], needed: int, capacity: RowCapacity) -> dict[int, int] | None:
    """Rows for at least `needed` of these plain pods, by their place in line; None when the search found none."""
    indexes: dict[PodShape, list[int]] = {}
    for index, pod in enumerate(pods):
        indexes.setdefault(pod.shape, []).append(index)
    if len(pods) > MOST_PODS or len(indexes) > MOST_SHAPES:
        return None
    search = PackingSearch({shape: len(of_shape) for shape, of_shape in indexes.items()}, needed, capacity)
    rows = search.run() if search.has_enough_capacity else None
    if rows is None:
        return None
    return {index: row for shape in rows for index, row in zip(indexes[shape], rows[shape], strict=False)}


RowState = tuple[int, tuple[int, ...]]
"""Rows that are alike to the search: which of the shapes they may run, as bits, and what they have free."""


class PackingStep(Struct, frozen=True):
    """One more pod of the shape in turn goes to a row in this state; None: its remaining pods get no row."""

    state: RowState | None
    shape: int
    left: int  # pods of that shape without a row before this step
    skips: int  # pods that may still go without, before this step


class PackingSearch:
    """Depth first, the shape with the least capacity first, each pod on the fullest row that takes it."""

    def __init__(self, counts: Mapping[PodShape, int], needed: int, capacity: RowCapacity) -> None:
        most = {shape: _most(shape, capacity) for shape in counts}
        self._shapes = sorted(counts, key=lambda shape: (int(most[shape].sum()), shape.requests.items))
        self._counts = [counts[shape] for shape in self._shapes]
        self._needed = needed
        self._most = sum(min(counts[shape], int(most[shape].sum())) for shape in self._shapes)
        asked = [asked_of([shape]) for shape in self._shapes]
        self._names = sorted({name for asks in asked for name in asks})
        self._asks = [tuple(asks.get(name, 0) for name in self._names) for asks in asked]
        self._rows = self._by_state(capacity, np.flatnonzero(np.logical_or.reduce(list(most.values()))))
        fullest = sorted(self._rows, key=_fullest_first)
        self._untouched = [[state for state in fullest if self._takes(state, shape)] for shape in range(len(asked))]
        self._changes: dict[RowState, int] = {}  # how many rows more than at first are in a state
        self._placed: list[tuple[int, RowState, RowState]] = []  # the shape, and its row's state before and after
        self._seen: set[Hashable] = set()

    @property
    def has_enough_capacity(self) -> bool:
        """False where too few would fit if each shape had the rows for itself, or all rows were one."""
        return self._most >= self._needed and all(self._suffices(at) for at in range(len(self._names)))

    def _suffices(self, name: int) -> bool:
        """Whether as much of this resource is free as those `needed` pods ask for that ask for least of it."""
        asks = sorted(ask[name] for ask, count in zip(self._asks, self._counts, strict=True) for _ in range(count))
        return sum(asks[: self._needed]) <= sum(free[name] * len(rows) for (_, free), rows in self._rows.items())

    def run(self) -> dict[PodShape, list[int]] | None:
        """The rows of each shape; None when there is no way, or none within the steps."""
        path: list[PackingStep] = []
        ahead = [self._steps(0, self._counts[0], sum(self._counts) - self._needed)]
        for _ in range(MOST_STEPS):
            step = next(ahead[-1], None)
            if step is not None:
                path.append(step)
                shape, left, skips = self._do(step)
                if shape == len(self._shapes):
                    return self._found()
                ahead.append(self._steps(shape, left, skips))
            elif path:
                ahead.pop()
                self._undo(path.pop())
            else:
                break
        return None

    def _steps(self, shape: int, left: int, skips: int) -> Iterator[PackingStep]:
        """The steps from here, one for each kind of row; none where the same was tried before in another order."""
        here = shape, left, skips, frozenset(self._changes.items())
        if here in self._seen:
            return
        self._seen.add(here)
        touched = [state for state, more in self._changes.items() if more > 0 and self._takes(state, shape)]
        for state in sorted(touched, key=_fullest_first):
            yield PackingStep(state, shape, left, skips)
        for state in self._untouched[shape]:
            if self._rows[state] and state not in touched:
                yield PackingStep(state, shape, left, skips)
        if left <= skips:
            yield PackingStep(None, shape, left, skips)

    def _do(self, step: PackingStep) -> tuple[int, int, int]:
        """Takes the step; returns the shape in turn, its pods without a row, and how many pods may go without."""
        shape, left, skips = step.shape, step.left - 1, step.skips
        if step.state is None:
            left, skips = 0, step.skips - step.left
        else:
            bits, free = step.state
            after = bits, tuple(have - ask for have, ask in zip(free, self._asks[shape], strict=True))
            self._move(step.state, after)
            self._placed.append((shape, step.state, after))
        if left:
            return shape, left, skips
        return shape + 1, self._counts[shape + 1] if shape + 1 < len(self._counts) else 0, skips

    def _undo(self, step: PackingStep) -> None:
        if step.state is not None:
            _, before, after = self._placed.pop()
            self._move(after, before)

    def _move(self, before: RowState, after: RowState) -> None:
        """The last row in one state is in the other one now, as its last."""
        self._rows.setdefault(after, []).append(self._rows[before].pop())
        for state, one in ((before, -1), (after, 1)):
            more = self._changes.pop(state, 0) + one
            if more:
                self._changes[state] = more

    def _found(self) -> dict[PodShape, list[int]]:
        """Undoes all steps, which shows the row of each."""
        found: dict[PodShape, list[int]] = {shape: [] for shape in self._shapes}
        while self._placed:
            shape, before, after = self._placed.pop()
            found[self._shapes[shape]].append(self._rows[after][-1])
            self._move(after, before)
        return found

    def _takes(self, state: RowState, shape: int) -> bool:
        bits, free = state
        return bool(bits >> shape & 1) and all(have >= ask for have, ask in zip(free, self._asks[shape], strict=True))

    def _by_state(self, capacity: RowCapacity, rows: NDArray[np.intp]) -> dict[RowState, list[int]]:
        """These rows, the first to be taken last; what is free beyond all that is asked for makes no difference."""
        rows = rows[np.argsort(-capacity.draws[rows], kind="stable")]
        asked = zip(*self._asks, strict=True)
        wanted = [sum(ask * count for ask, count in zip(asks, self._counts, strict=True)) for asks in asked]
        bits = [sum(1 << at for at, shape in enumerate(self._shapes) if capacity.allowed[shape][row]) for row in rows]
        free = [np.clip(capacity.free[name][rows], 0, None).tolist() for name in self._names]
        states: dict[RowState, list[int]] = {}
        for row, may_run, amounts in zip(rows.tolist(), bits, zip(*free, strict=True), strict=True):
            state = may_run, tuple(min(have, want) for have, want in zip(amounts, wanted, strict=True))
            states.setdefault(state, []).append(row)
        return states


def _fullest_first(state: RowState) -> tuple[tuple[int, ...], int]:
    bits, free = state
    return free, bits


def _most(shape: PodShape, capacity: RowCapacity) -> Amounts:
    """How many pods of the shape each row could take by itself."""
    asks = asked_of([shape])
    most: Amounts = np.min([capacity.free[name] // amount for name, amount in asks.items()], axis=0)
    return np.maximum(most, 0) * capacity.allowed[shape]
