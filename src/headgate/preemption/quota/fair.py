"""Quota victims by fair sharing: from whoever has most more than its due."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from headgate.model.queues import Reclaim, WithinQueue
from headgate.model.settings import FairStrategy
from headgate.preemption.quota.search import (
    QuotaPreemptor,
    Victim,
    VictimReason,
    candidate_order,
    fits,
    give_back,
    in_order,
    may_take,
)
from headgate.quota.fair_sharing import SHARE_WORK, Share, share_of
from headgate.quota.ledger import Ledger, Reservation
from headgate.quota.tree import QuotaNode, within_nominal


def fair_victims(ledger: Ledger, preemptor: QuotaPreemptor, strategies: Sequence[FairStrategy]) -> tuple[Victim, ...]:
    """Shares are those with the preemptor admitted; the second strategy looks at whom the first one spared."""
    candidates = _candidates(ledger, preemptor)
    if not candidates:
        return ()
    with ledger.trial():
        ledger.charge(preemptor.queue, preemptor.usage)
        search = _Search(ledger, preemptor, candidates)
        enough = search.run_first(strategies[0]) or (len(strategies) > 1 and search.run_second())
        if not enough:
            return ()
        ledger.credit(preemptor.queue, preemptor.usage)
        return give_back(ledger, preemptor, search.victims, borrow=True)


def _candidates(ledger: Ledger, preemptor: QuotaPreemptor) -> list[Reservation]:
    node = ledger.forest.queues[preemptor.queue]
    policy = node.queue.preemption
    found = []
    if policy.within_queue is not WithinQueue.NEVER:
        found += [held for held in ledger.reservations(preemptor.queue) if may_take(preemptor, policy, held)]
    if policy.reclaim is not Reclaim.NEVER:
        for other in node.root.leaves():
            if other is not node and not within_nominal(other, preemptor.needed):
                found += [held for held in ledger.reservations(other.name) if may_take(preemptor, policy, held)]
    found = [held for held in found if held.uid not in ledger.gone]
    return in_order(ledger, found, lambda held: held, lambda one, use: candidate_order(one, preemptor.queue, use))


class _Search:
    """Victims no longer count as they are chosen; whoever is spared is kept for the second strategy."""

    def __init__(self, ledger: Ledger, preemptor: QuotaPreemptor, candidates: Sequence[Reservation]) -> None:
        self._ledger = ledger
        self._preemptor = preemptor
        self._node = ledger.forest.queues[preemptor.queue]
        self._path = (self._node, *self._node.ancestors())
        self._lines = _lines(candidates)
        self._spared: list[Reservation] = []
        self._done: set[QuotaNode] = set()
        self.victims: list[Victim] = []

    def run_first(self, strategy: FairStrategy) -> bool:
        entitled = within_nominal(self._node, self._preemptor.needed)
        for target in self._targets():
            line = self._lines[target.name]
            if target is self._node:
                chosen, reason = line.popleft(), VictimReason.IN_QUEUE
            elif entitled:
                chosen, reason = line.popleft(), VictimReason.RECLAMATION
            else:
                found = self._first_that_may_go(target, strategy)
                if found is None:
                    continue
                chosen, reason = found, VictimReason.FAIR_SHARING
            if self._take(chosen, reason):
                return True
        return False

    def run_second(self) -> bool:
        """One more of each queue that had more at first than the preemptor's would have now."""
        self._lines, self._done = _lines(self._spared), set()
        for target in self._targets():
            ours, theirs = self._below_meeting(target)
            self._done.add(target)
            if share_of(ours).order < share_of(theirs).order and self._take(
                self._lines[target.name].popleft(), VictimReason.FAIR_SHARING
            ):
                return True
        return False

    def _first_that_may_go(self, target: QuotaNode, strategy: FairStrategy) -> Reservation | None:
        ours, theirs = self._below_meeting(target)
        our_share, their_share = share_of(ours), share_of(theirs)
        line = self._lines[target.name]
        while line:
            held = line.popleft()
            if strategy is FairStrategy.INITIAL_SHARE:
                allowed = our_share.order < their_share.order
            else:
                allowed = our_share.order <= self._share_without(theirs, held).order
            if allowed:
                return held
            self._spared.append(held)
        return None

    def _share_without(self, node: QuotaNode, held: Reservation) -> Share:
        self._ledger.work += SHARE_WORK
        with self._ledger.trial():
            self._ledger.credit(held.queue, held.usage)
            return share_of(node)

    def _take(self, held: Reservation, reason: VictimReason) -> bool:
        """Whether this was enough."""
        self._ledger.credit(held.queue, held.usage)
        self.victims.append(Victim(held, reason))
        with self._ledger.trial():
            self._ledger.credit(self._preemptor.queue, self._preemptor.usage)
            return fits(self._ledger, self._preemptor)

    def _below_meeting(self, target: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
        """The two nodes just below the lowest cohort that has both queues: the preemptor's side, and the other."""
        theirs = target
        while theirs.parent is not None and theirs.parent not in self._path:
            theirs = theirs.parent
        ours = next(node for node in self._path if node.parent is theirs.parent)
        return ours, theirs

    def _targets(self) -> Iterator[QuotaNode]:
        """The queue to take from next, found anew each time because shares change; until nobody is left."""
        root = self._path[-1]
        while root not in self._done:
            target = self._target_below(root)
            if target is not None:
                yield target

    def _target_below(self, node: QuotaNode) -> QuotaNode | None:
        """Down to the child that has most; on equal terms a cohort before a queue, then the better first victim."""
        if node.is_queue:
            if not self._lines.get(node.name):
                self._done.add(node)
                return None
            return node
        best: QuotaNode | None = None
        best_place: tuple[object, ...] = ()
        self._ledger.work += SHARE_WORK * len(node.children)
        for child in node.children:
            share = share_of(child)
            if child in self._done or not (share.borrows or child in self._path) or not self._has_candidates(child):
                continue
            place = (share.order, not child.is_queue)
            if best is None or place > best_place or (place == best_place and self._goes_before(child, best)):
                best, best_place = child, place
        if best is None:
            self._done.add(node)
            return None
        return self._target_below(best)

    def _has_candidates(self, node: QuotaNode) -> bool:
        return any(self._lines.get(leaf.name) and leaf not in self._done for leaf in node.leaves())

    def _goes_before(self, one: QuotaNode, other: QuotaNode) -> bool:
        if not one.is_queue:
            return False  # cohorts stand in order of their names
        first, second = self._lines[one.name][0], self._lines[other.name][0]
        return candidate_order(first, self._preemptor.queue) < candidate_order(second, self._preemptor.queue)


def _lines(candidates: Sequence[Reservation]) -> dict[str, deque[Reservation]]:
    lines: dict[str, deque[Reservation]] = {}
    for held in candidates:
        lines.setdefault(held.queue, deque()).append(held)
    return lines
