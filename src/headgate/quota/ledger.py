"""Who holds how much quota. What is tried out on it is taken back in full."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, structs

from headgate.model.keys import Key
from headgate.model.queues import ClusterQueue, Cohort
from headgate.quota.allocations import Allocations
from headgate.quota.cohorts import ClusterQueueNode, cohort_forest
from headgate.quota.tree import Before, FlavorResource, QuotaNode, Usage, take_back


class Holder(Struct, frozen=True, gc=False):
    """A workload that holds quota, with all that decides whether and when it is a victim."""

    key: Key
    uid: str
    queue: str  # the cluster queue
    usage: Usage
    priority: int = 0
    ordered: float = 0.0  # its place in the order of queues
    reserved: float = 0.0  # when it got its quota
    evicted: bool = False
    local: str = ""  # its local queue

    def uses_any(self, needed: Sequence[FlavorResource]) -> bool:
        return any(of in needed for of, _ in self.usage)


class Trial:
    """A stretch of time after which the ledger is as before."""

    __slots__ = ("_ledger", "_mark")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __enter__(self) -> None:
        self._mark = self._ledger.begin()

    def __exit__(self, *_: object) -> None:
        self._ledger.take_back(*self._mark)


LocalUse = int | float
"""How much a local queue used lately, by weight; infinite when it comes after all others."""


class Ledger:
    """Usage of every queue and cohort, and the workloads it comes from.

    `local_use` says what a holder's local queue used lately; None: that never matters.
    """

    def __init__(
        self,
        queues: Sequence[ClusterQueue] = (),
        cohorts: Sequence[Cohort] = (),
        local_use: Callable[[Holder], LocalUse] | None = None,
    ) -> None:
        self.local_use = local_use
        self.forest = cohort_forest(queues, cohorts)
        self._holders: dict[str, dict[str, Holder]] = {}
        self._trials = 0
        self._uses: list[Before] = []  # what trials changed
        self._holds: list[tuple[dict[str, Holder], str, Holder | None]] = []  # and who held it before
        self._generation = 0
        self.allocations = Allocations()

    def rebuilt(self, queues: Sequence[ClusterQueue], cohorts: Sequence[Cohort]) -> Ledger:
        """The same holders under other queues and cohorts. Scan progress made before is void."""
        fresh = Ledger(queues, cohorts, self.local_use)
        fresh._generation = self._generation + 1
        for root in fresh.forest.roots:
            root.generation = fresh._generation
        for holders in self._holders.values():
            for holder in holders.values():
                fresh.hold(holder)
        return fresh

    def node(self, queue: str) -> ClusterQueueNode | None:
        return self.forest.queues.get(queue)

    def generation(self, queue: str) -> int:
        """Grows whenever quota or usage in the queue's tree changed for good."""
        node = self.forest.queues.get(queue)
        return node.root.generation if node is not None else 0

    def holders(self, queue: str) -> Iterator[Holder]:
        """Those who hold quota of this queue, in no order that means anything."""
        return iter(self._holders.get(queue, {}).values())

    def holder(self, queue: str, uid: str) -> Holder | None:
        return self._holders.get(queue, {}).get(uid)

    def hold(self, holder: Holder) -> None:
        """The workload holds this much quota, in place of whatever it held of the same queue."""
        queue, uid = holder.queue, holder.uid
        held = self._holders.setdefault(queue, {})
        before = held.pop(uid, None)
        if self._trials:
            self._holds.append((held, uid, before))
        held[uid] = holder
        node = self.forest.queues.get(queue)
        if node is not None:  # who holds quota of a queue that is gone, or below a ring, is only on record
            if before is None:
                self._add(node, holder.usage)
            elif before.usage != holder.usage:
                self._remove(node, before.usage)
                self._add(node, holder.usage)
            if not self._trials:
                self._generation += 1
                node.root.generation = self._generation
                if self.allocations:
                    self.allocations.replace(node.root, before, holder)

    def leave(self, queue: str, uid: str) -> Holder | None:
        """The workload gives back what it holds of this queue."""
        held = self._holders.get(queue, {})
        holder = held.pop(uid, None)
        if holder is None:
            return None
        if self._trials:
            self._holds.append((held, uid, holder))
        node = self.forest.queues.get(queue)
        if node is not None:
            self._remove(node, holder.usage)
            if not self._trials:
                self._generation += 1
                node.root.generation = self._generation
                if self.allocations:
                    self.allocations.replace(node.root, holder, None)
        return holder

    def mark_evicted(self, holder: Holder) -> None:
        """It was told to go, and holds its quota until it is gone."""
        if not holder.evicted:
            held = self._holders.setdefault(holder.queue, {})
            if self._trials:
                self._holds.append((held, holder.uid, held.get(holder.uid)))
            held[holder.uid] = evicted = structs.replace(holder, evicted=True)
            node = self.forest.queues.get(holder.queue)
            if self.allocations and not self._trials and node is not None:
                self.allocations.replace(node.root, holder, evicted)

    def preempt(self, preemptor: Holder, victims: Sequence[Holder]) -> None:
        """These are told to go for one that will hold what `preemptor` says; some may have been told before."""
        new, root = [one for one in victims if not one.evicted], self.forest.queues[preemptor.queue].root
        if new:
            self.allocations.track(root)
        for one in new:
            self.mark_evicted(one)
        self.allocations.reserve(root, preemptor, new)

    def refuse(self, queue: str, uid: str) -> None:
        """The workload gets nothing, and nothing will be freed for it."""
        node = self.forest.queues.get(queue)
        if self.allocations and node is not None:
            self.allocations.drop_reservation(node.root, uid)

    def forget_allocations(self, queue: str) -> bool:
        """Something changed in the tree of this queue that preemption did not cause.

        True when a preemption had been withheld, which may go ahead now.
        """
        node = self.forest.queues.get(queue)
        return bool(self.allocations) and node is not None and self.allocations.forget(node.root)

    def charge(self, queue: str, usage: Usage) -> None:
        """The queue uses this much more, whoever it is for."""
        self._add(self.forest.queues[queue], usage)

    def credit(self, queue: str, usage: Usage) -> None:
        """The queue uses this much less."""
        self._remove(self.forest.queues[queue], usage)

    def fits(self, queue: str, usage: Usage) -> bool:
        """Whether there is room for all of it. Nothing always fits."""
        node = self.forest.queues[queue]
        for of, amount in usage:
            room = node.accounts[of].available()
            if amount > room and amount > 0:
                return False
        return True

    def trial(self) -> Trial:
        """All that happens inside is taken back on exit, also when the body raises. Trials nest."""
        return Trial(self)

    def begin(self) -> tuple[int, int]:
        self._trials += 1
        return len(self._uses), len(self._holds)

    def take_back(self, uses: int, holds: int) -> None:
        self._trials -= 1
        take_back(self._uses, uses)
        while len(self._holds) > holds:
            held, uid, holder = self._holds.pop()
            if holder is None:
                held.pop(uid, None)
            else:
                held[uid] = holder

    def _add(self, node: QuotaNode, usage: Usage) -> None:
        noted = self._uses if self._trials else None
        for of, amount in usage:
            node.accounts[of].add(amount, noted)

    def _remove(self, node: QuotaNode, usage: Usage) -> None:
        noted = self._uses if self._trials else None
        for of, amount in usage:
            node.accounts[of].remove(amount, noted)
