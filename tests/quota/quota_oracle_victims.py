"""Who has to go for whom: the rules of classical preemption and of fair sharing, in the plainest words."""

from __future__ import annotations

from typing import Any

from quota_oracle_tree import Amounts, Pair, Pairs, State, TreeRules

from headgate.model.queues import BorrowWithinCohort, Reclaim, WithinQueue
from headgate.model.settings import FairStrategy
from headgate.quota.ledger import Reservation
from headgate.quota.pending_workload import PendingWorkload

Reasons = dict[str, str]


class VictimRules(TreeRules):
    def allowed(self, head: PendingWorkload, holder: Reservation, short: Pairs) -> bool:
        policy = self.queues[head.queue].preemption
        if not any(of in short for of, _ in holder.usage):
            return False
        lower = head.priority > holder.priority
        if holder.queue != head.queue:
            return {Reclaim.NEVER: False, Reclaim.LOWER_PRIORITY: lower, Reclaim.ANY: True}[policy.reclaim]
        newer = head.priority == holder.priority and head.ordered < holder.ordered
        return {
            WithinQueue.NEVER: False,
            WithinQueue.LOWER_PRIORITY: lower,
            WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY: lower or newer,
        }[policy.within_queue]

    def order(self, head: PendingWorkload, holder: Reservation) -> tuple[Any, ...]:
        return not holder.evicted, holder.queue == head.queue, holder.priority, -holder.reserved, holder.uid

    def victims(self, head: PendingWorkload, usage: Amounts, short: tuple[Pair, ...], state: State) -> Reasons:
        return self.fair_victims(head, usage, short, state) if self.fair else self.classical(head, usage, short, state)

    def fill_back(
        self, head: PendingWorkload, usage: Amounts, taken: list[tuple[Reservation, str]], state: State, borrow: bool
    ) -> Reasons:
        gone = {holder.uid: reason for holder, reason in taken}
        for holder, _ in reversed(taken[:-1]):
            fewer = {uid: reason for uid, reason in gone.items() if uid != holder.uid}
            if self.fits(head.queue, usage, state.without(*fewer), borrow):
                gone = fewer
        return gone

    def classical(self, head: PendingWorkload, usage: Amounts, short: tuple[Pair, ...], state: State) -> Reasons:
        node, policy = ("q", head.queue), self.queues[head.queue].preemption
        own = [one for one in state.holders if one.queue == head.queue and self.allowed(head, one, short)]
        nearer, other = self.from_others(head, usage, short, state) if policy.reclaim is not Reclaim.NEVER else ([], [])
        lists = [sorted(part, key=lambda entry: self.order(head, entry[0])) for part in (nearer, other)]
        lists.append([(one, "InClusterQueue", None) for one in sorted(own, key=lambda one: self.order(head, one))])
        line = [entry for part in lists for entry in part if entry[0].evicted]
        line += [entry for part in lists for entry in part if not entry[0].evicted]
        off = policy.borrow is BorrowWithinCohort.NEVER
        under = all(self.usage(node, of, state) < self.quota(node, of).nominal for of in short)
        if (not nearer and not other) or (off and not under):
            attempts = [True]
        else:
            attempts = [False, True] if off and not nearer else [True, False]
        for borrow in attempts:
            taken: list[tuple[Reservation, str]] = []
            for holder, reason, meeting in line:
                now = state.without(*(one.uid for one, _ in taken))
                if meeting is not None:
                    if borrow and reason == "WithoutBorrowing":
                        continue
                    path = [("q", holder.queue), *self.above(("q", holder.queue))]
                    if not all(self.over(each, short, now) for each in path[: path.index(meeting)]):
                        continue
                taken.append((holder, "InCohortReclamation" if reason == "WithoutBorrowing" else reason))
                if self.fits(head.queue, usage, now.without(holder.uid), borrow):
                    return self.fill_back(head, usage, taken, state, borrow)
        return {}

    def from_others(self, head: PendingWorkload, usage: Amounts, short: Pairs, state: State) -> Any:
        policy, node = self.queues[head.queue].preemption, ("q", head.queue)
        nearer, other = [], []
        rest, advantage, visited = dict(usage), False, {node}
        previous = node
        for cohort in self.above(node):
            advantage = advantage or not any(self.borrows_with(previous, of, v, state) for of, v in rest.items())
            rest = {of: max(0, v - self.local_available(previous, of, state)) for of, v in rest.items()}
            for leaf in self.leaves(cohort):
                path = [leaf, *self.above(leaf)]
                path = path[: path.index(cohort)]
                if visited & set(path) or not all(self.over(each, short, state) for each in path):
                    continue
                for holder in state.holders:
                    if holder.queue == leaf[1] and self.allowed(head, holder, short):
                        important = holder.priority >= head.priority or (
                            policy.borrow_threshold is not None and holder.priority > policy.borrow_threshold
                        )
                        if advantage:
                            nearer.append((holder, "InCohortReclamation", cohort))
                        elif policy.borrow is BorrowWithinCohort.NEVER or important:
                            other.append((holder, "WithoutBorrowing", cohort))
                        else:
                            other.append((holder, "InCohortReclaimWhileBorrowing", cohort))
            visited.add(cohort)
            previous = cohort
        return nearer, other

    def fair_victims(self, head: PendingWorkload, usage: Amounts, short: tuple[Pair, ...], state: State) -> Reasons:
        node, policy = ("q", head.queue), self.queues[head.queue].preemption
        candidates = [one for one in state.holders if one.queue == head.queue and self.allowed(head, one, short)]
        if policy.reclaim is not Reclaim.NEVER:
            for leaf in self.leaves(self.root(node)):
                if leaf != node and self.over(leaf, short, state):
                    candidates += [
                        one for one in state.holders if one.queue == leaf[1] and self.allowed(head, one, short)
                    ]
        candidates.sort(key=lambda one: self.order(head, one))
        full = state.charged(head.queue, usage)
        entitled = not self.over(node, short, full)
        taken: list[tuple[Reservation, str]] = []
        spared: list[Reservation] = []

        def enough() -> bool:
            return self.fits(head.queue, usage, state.without(*(one.uid for one, _ in taken)))

        left = list(candidates)
        while True:
            now = full.without(*(one.uid for one, _ in taken))
            target = self.target(head, left, now)
            if target is None:
                break
            line = [one for one in left if one.queue == target[1]]
            if target == node or entitled:
                taken.append((line[0], "InClusterQueue" if target == node else "InCohortReclamation"))
                left.remove(line[0])
                if enough():
                    return self.fill_back(head, usage, taken, state, True)
                continue
            ours, theirs = self.sides(node, target)
            for holder in line:
                left.remove(holder)
                before, after = self.share(theirs, now), self.share(theirs, now.without(holder.uid))
                mine = self.share(ours, now)
                passes = mine <= after if self.fair[0] is FairStrategy.FINAL_SHARE else mine < before
                if passes:
                    taken.append((holder, "InCohortFairSharing"))
                    break
                spared.append(holder)
            if taken and enough():
                return self.fill_back(head, usage, taken, state, True)
        if len(self.fair) < 2:
            return {}
        left = list(spared)
        while left:
            now = full.without(*(one.uid for one, _ in taken))
            target = self.target(head, left, now)
            if target is None:
                break
            line = [one for one in left if one.queue == target[1]]
            left = [one for one in left if one.queue != target[1]]
            ours, theirs = self.sides(node, target)
            if self.share(ours, now) < self.share(theirs, now):
                taken.append((line[0], "InCohortFairSharing"))
                if enough():
                    return self.fill_back(head, usage, taken, state, True)
        return {}

    def sides(self, one: Pair, other: Pair) -> tuple[Pair, Pair]:
        ours, theirs = [one, *self.above(one)], [other, *self.above(other)]
        meeting = next(node for node in theirs if node in ours)
        return ours[ours.index(meeting) - 1], theirs[theirs.index(meeting) - 1]

    def target(self, head: PendingWorkload, left: list[Reservation], state: State) -> Pair | None:
        """Down from the root; a cohort that turns out to have nobody is left out and the descent begins anew."""
        node, spent = ("q", head.queue), set[Pair]()
        mine = [node, *self.above(node)]
        at = self.root(node)
        while at[0] == "c":
            choices = [
                child
                for child in self.children(at)
                if child not in spent
                and (child in mine or self.is_borrowing(child, state))
                and any(one.queue == leaf[1] for leaf in self.leaves(child) for one in left)
            ]
            if not choices:
                if at == self.root(node):
                    return None
                spent.add(at)
                at = self.root(node)
                continue
            most = max((self.share(child, state), child[0] == "c") for child in choices)
            equal = [child for child in choices if (self.share(child, state), child[0] == "c") == most]
            if most[1]:
                at = equal[0]
            else:
                first = {child: next(one for one in left if one.queue == child[1]) for child in equal}
                at = min(equal, key=lambda child: self.order(head, first[child]))
        return at if any(one.queue == at[1] for one in left) else None
