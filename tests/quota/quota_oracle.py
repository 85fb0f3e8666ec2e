"""The choice of flavors and the cycle once more, in the plainest words, to compare decisions with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from quota_oracle_tree import Pair, State
from quota_oracle_victims import VictimRules

from headgate.model.queues import BorrowWithinCohort, ClusterQueue, FlavorPreference, FlavorSearch, Reclaim
from headgate.quota.pending_workload import PendingWorkload

NO_FIT, NO_CANDIDATES, PREEMPT, RECLAIM, FIT = range(5)
SEVERITY = ["TopologyPlacementFailed", "WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor"]

Pins = dict[Pair, str] | None


@dataclass(frozen=True)
class Plan:
    """What a head was assigned: its mode, flavors by pod set and resource, counts, usage, level and shortages."""

    mode: int
    flavors: dict[Pair, str]
    counts: tuple[int, ...]
    usage: dict[Pair, int]
    borrow: int
    short: tuple[Pair, ...]
    reason: str = ""


class Rules(VictimRules):
    def worse(self, one: tuple[int, int], other: tuple[int, int], queue: ClusterQueue) -> bool:
        """Whether the first is preferred to the second."""
        if NO_FIT in (one[0], other[0]):
            return one[0] != NO_FIT
        if (one[0] == NO_CANDIDATES) != (other[0] == NO_CANDIDATES):
            return other[0] == NO_CANDIDATES
        if queue.fungibility.preference is FlavorPreference.PREEMPTION_OVER_BORROWING:
            return one[1] < other[1] or (one[1] == other[1] and one[0] > other[0])
        return one[0] > other[0] or (one[0] == other[0] and one[1] < other[1])

    def one_resource(
        self, head: PendingWorkload, of: Pair, assumed: int, asked: int, state: State
    ) -> tuple[int, int, str]:
        node, queue, value = ("q", head.queue), self.queues[head.queue], assumed + asked
        if value > self.potential(node, of):
            return NO_FIT, 0, "ExceedsMaxQuota"
        height, may_reclaim = self.level(node, of, value, state)
        if value <= max(0, self.available(node, of, state)):
            return FIT, height, ""
        while_borrowing = queue.preemption.borrow is not BorrowWithinCohort.NEVER
        while_borrowing |= bool(self.fair) and queue.preemption.reclaim is not Reclaim.NEVER
        if not (self.quota(node, of).nominal >= value or may_reclaim or while_borrowing):
            return NO_FIT, height, "WaitingForQuota"
        victims = self.victims(head, {of: value}, (of,), state)
        height, _ = self.level(node, of, value, state.without(*victims))
        own = {one.uid for one in state.holders if one.queue == head.queue}
        return (PREEMPT if own & victims.keys() else RECLAIM) if victims else NO_CANDIDATES, height, ""

    def plan(
        self, head: PendingWorkload, counts: tuple[int, ...], state: State, pinned: dict[Pair, str] | None = None
    ) -> Plan:
        """One resource group and no scan progress: the worlds compared are made so."""
        queue = self.queues[head.queue]
        flavors: dict[Pair, str] = {}
        usage: dict[Pair, int] = {}
        short: set[Pair] = set()
        mode, borrow = FIT, 0
        for ask, count in zip(head.pod_set_requests, counts, strict=True):
            asked = {name: amount * count for name, amount in ask.each}
            best: tuple[int, int] = (NO_FIT, 0)
            chosen: dict[str, tuple[int, int]] = {}
            flavor, blockers = "", []
            for option in queue.groups[0].flavors:
                if pinned is not None and option.flavor not in {pinned.get((ask.name, name)) for name in asked}:
                    continue
                parts = {
                    name: self.one_resource(
                        head, (option.flavor, name), usage.get((option.flavor, name), 0), amount, state
                    )
                    for name, amount in sorted(asked.items())
                }
                whole = (FIT, 0)
                for found in parts.values():
                    if self.worse(whole, found[:2], queue):
                        whole = found[:2]
                if whole[0] == NO_FIT:
                    blockers.append(max(SEVERITY.index(found[2]) for found in parts.values() if found[0] == NO_FIT))
                    continue
                found_here = {name: found[:2] for name, found in parts.items()}
                rules = queue.fungibility
                goes_on = whole[0] == NO_CANDIDATES
                goes_on |= whole[0] in (PREEMPT, RECLAIM) and rules.when_can_preempt is FlavorSearch.TRY_NEXT_FLAVOR
                goes_on |= whole[1] > 0 and rules.when_can_borrow is FlavorSearch.TRY_NEXT_FLAVOR
                if not goes_on:
                    best, chosen, flavor = whole, found_here, option.flavor
                    break
                if self.worse(whole, best, queue):
                    best, chosen, flavor = whole, found_here, option.flavor
            if not chosen:
                reason = SEVERITY[min(blockers)] if blockers else "NoMatchingFlavor"
                return Plan(NO_FIT, {}, counts, usage, borrow, (), reason)
            for name, (granular, height) in chosen.items():
                flavors[ask.name, name] = flavor
                usage[flavor, name] = usage.get((flavor, name), 0) + asked[name]
                borrow = max(borrow, height)
                mode = min(mode, FIT if granular == FIT else PREEMPT)
                if granular != FIT:
                    short.add((flavor, name))
        return Plan(mode, flavors, counts, usage, borrow, tuple(sorted(short)))

    def nominate(
        self, head: PendingWorkload, state: State, pinned: dict[Pair, str] | None = None
    ) -> tuple[Plan, dict[str, str]]:
        counts = tuple(ask.count for ask in head.pod_set_requests)

        def attempt(counts: tuple[int, ...]) -> tuple[Plan, dict[str, str]]:
            plan = self.plan(head, counts, state, pinned)
            return plan, self.victims(head, plan.usage, plan.short, state) if plan.mode == PREEMPT else {}

        whole = attempt(counts)
        if whole[0].mode == FIT or whole[1]:
            return whole
        spare = [ask.count - ask.min_count if ask.min_count is not None else 0 for ask in head.pod_set_requests]
        low, high, found = 0, sum(spare) + 1, None
        while sum(spare) and low < high:  # the search itself is part of the rule: fitting need not be monotone
            fewer = (low + high) // 2
            less = tuple(count - part * fewer // sum(spare) for count, part in zip(counts, spare, strict=True))
            tried = attempt(less)
            if tried[0].mode == FIT or tried[1]:
                found, high = tried, fewer
            else:
                low = fewer + 1
        return found or whole

    def turns(self, nominated: dict[str, tuple[PendingWorkload, Plan]], states: list[State]) -> Iterator[str]:
        waiting = dict(nominated)
        while waiting:
            if not self.fair:
                name = min(waiting, key=lambda name: self.turn(*waiting[name]))
            else:
                root = min(self.root(("q", name)) for name in waiting)
                name = self.tournament(root, waiting, states[-1])
            yield name
            del waiting[name]

    def turn(self, head: PendingWorkload, plan: Plan) -> tuple[Any, ...]:
        return not head.is_preemptor, plan.borrow, head.rank

    def tournament(self, node: Pair, waiting: dict[str, tuple[PendingWorkload, Plan]], state: State) -> str:
        if node[0] == "q":
            return node[1] if node[1] in waiting else ""
        best, best_score = "", None
        for child in self.children(node):
            name = self.tournament(child, waiting, state)
            if not name:
                continue
            head, plan = waiting[name]
            then = state.charged(name, plan.usage)
            borrows = any(
                amount > 0 and self.usage(child, of, then) > self.subtree(child, of)
                for of, amount in plan.usage.items()
            )
            score = (not head.is_preemptor, borrows, self.share(child, then), head.rank)
            if best_score is None or score < best_score:
                best, best_score = name, score
        return best

    def cycle(self, heads: list[PendingWorkload], state: State) -> dict[str, tuple[Any, ...]]:
        """By queue: what became of its head."""
        by_queue = {head.queue: head for head in heads}
        nominated = {name: self.nominate(head, state) for name, head in by_queue.items()}
        leaving: set[str] = set()
        result: dict[str, tuple[Any, ...]] = {}
        now, states, real = state, [state], state
        for name in self.turns({name: (by_queue[name], plan) for name, (plan, _) in nominated.items()}, states):
            head, (plan, victims) = by_queue[name], nominated[name]
            if leaving & victims.keys():
                plan, victims = self.nominate(head, now.without(*leaving), plan.flavors)
                if plan.mode == FIT:
                    now = now.charged(name, plan.usage)
                    states.append(now)
                    result[name] = ("deferred",)
                    continue
            if plan.mode == NO_FIT:
                result[name] = ("waits", plan.reason, "NoFit")
            elif plan.mode == PREEMPT and not victims:
                now = self.reserved(name, plan, now)
                result[name] = ("waits", "WaitingForQuota", "PreemptionNoCandidates")
            elif not self.fits(name, plan.usage, now.without(*leaving, *victims)):
                result[name] = ("waits", "WaitingForQuota", "")
            else:
                now = now.charged(name, plan.usage)
                leaving |= victims.keys()
                if victims:
                    result[name] = ("preempts", victims)
                elif self.fits(name, plan.usage, real):
                    real = real.charged(name, plan.usage)
                    result[name] = ("admitted", plan.flavors, plan.counts)
                else:  # victims still hold what it would take: quota is not exceeded even for a moment
                    result[name] = ("deferred",)
            states.append(now)
        return result

    def reserved(self, name: str, plan: Plan, state: State) -> State:
        queue, node = self.queues[name], ("q", name)
        if queue.preemption.reclaim is Reclaim.ANY:
            return state
        kept = {}
        for of, amount in plan.usage.items():
            quota = self.quota(node, of)
            limit = quota.nominal + (quota.borrowing_limit or 0) if plan.borrow else quota.nominal
            unlimited = plan.borrow > 0 and quota.borrowing_limit is None
            kept[of] = amount if unlimited else max(0, min(amount, limit - self.usage(node, of, state)))
        return state.charged(name, kept)
