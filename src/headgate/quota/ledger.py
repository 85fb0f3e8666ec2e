"""Who holds how much quota. What is tried out on it is taken back in full."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct, structs

from headgate.model.keys import Key
from headgate.model.queues import ClusterQueue, Cohort
from headgate.quota.tree import FlavorResource, Forest, QuotaNode, Usage, available, local_available


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


class _Used(NamedTuple):
    node: QuotaNode
    of: FlavorResource
    before: int


class _Held(NamedTuple):
    queue: str
    uid: str
    before: Holder | None


class Trial:
    """A stretch of time after which the ledger is as before."""

    __slots__ = ("_ledger", "_mark")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __enter__(self) -> None:
        self._mark = self._ledger.begin()

    def __exit__(self, *_: object) -> None:
        self._ledger.take_back(self._mark)


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
        self.forest = Forest(queues, cohorts)
        self._holders: dict[str, dict[str, Holder]] = {}
        self._changes: list[_Used | _Held] = []
        self._trials = 0
        self._generations: dict[QuotaNode, int] = {}
        self._generation = 0

    def rebuilt(self, queues: Sequence[ClusterQueue], cohorts: Sequence[Cohort]) -> Ledger:
        """The same holders under other queues and cohorts. Scan progress made before is void."""
        fresh = Ledger(queues, cohorts, self.local_use)
        fresh._generation = self._generation + 1
        fresh._generations = dict.fromkeys(fresh.forest.roots, fresh._generation)
        for holders in self._holders.values():
            for holder in holders.values():
                fresh.hold(holder)
        return fresh

    def node(self, queue: str) -> QuotaNode | None:
        return self.forest.queues.get(queue)

    def generation(self, queue: str) -> int:
        """Grows whenever quota or usage in the queue's tree changed for good."""
        node = self.forest.queues.get(queue)
        return self._generations.get(node.root, 0) if node else 0

    def holders(self, queue: str) -> Iterator[Holder]:
        """Those who hold quota of this queue, in no order that means anything."""
        return iter(self._holders.get(queue, {}).values())

    def holder(self, queue: str, uid: str) -> Holder | None:
        return self._holders.get(queue, {}).get(uid)

    def hold(self, holder: Holder) -> None:
        """The workload holds this much quota, in place of whatever it held of the same queue."""
        self.leave(holder.queue, holder.uid)
        self._put(holder.queue, holder.uid, holder)
        self._charge_all(holder, 1)
        self._count_change(holder.queue)

    def leave(self, queue: str, uid: str) -> Holder | None:
        """The workload gives back what it holds of this queue."""
        holder = self.holder(queue, uid)
        if holder is None:
            return None
        self._put(queue, uid, None)
        self._charge_all(holder, -1)
        self._count_change(queue)
        return holder

    def mark_evicted(self, holder: Holder) -> None:
        """It was told to go, and holds its quota until it is gone."""
        if not holder.evicted:
            self._put(holder.queue, holder.uid, structs.replace(holder, evicted=True))

    def charge(self, queue: str, usage: Usage) -> None:
        """The queue uses this much more, whoever it is for."""
        node = self.forest.queues[queue]
        for of, amount in usage:
            if amount:
                self._add(node, of, amount)

    def credit(self, queue: str, usage: Usage) -> None:
        """The queue uses this much less."""
        node = self.forest.queues[queue]
        for of, amount in usage:
            if amount:
                self._remove(node, of, amount)

    def fits(self, queue: str, usage: Usage) -> bool:
        node = self.forest.queues[queue]
        return all(amount <= max(0, available(node, of)) for of, amount in usage)

    def trial(self) -> Trial:
        """All that happens inside is taken back on exit, also when the body raises. Trials nest."""
        return Trial(self)

    def begin(self) -> int:
        self._trials += 1
        return len(self._changes)

    def take_back(self, mark: int) -> None:
        self._trials -= 1
        while len(self._changes) > mark:
            self._undo(self._changes.pop())

    def _undo(self, change: _Used | _Held) -> None:
        if isinstance(change, _Used):
            change.node.use(change.of, change.before)
        else:
            self._place(change.queue, change.uid, change.before)

    def _put(self, queue: str, uid: str, holder: Holder | None) -> None:
        if self._trials:
            self._changes.append(_Held(queue, uid, self.holder(queue, uid)))
        self._place(queue, uid, holder)

    def _place(self, queue: str, uid: str, holder: Holder | None) -> None:
        held = self._holders.setdefault(queue, {})
        if holder is None:
            held.pop(uid, None)
        else:
            held[uid] = holder

    def _charge_all(self, holder: Holder, sign: int) -> None:
        """A holder of a queue that is gone, or below a ring of cohorts, is on record without being charged."""
        if holder.queue not in self.forest.queues:
            return
        if sign > 0:
            self.charge(holder.queue, holder.usage)
        else:
            self.credit(holder.queue, holder.usage)

    def _add(self, node: QuotaNode | None, of: FlavorResource, amount: int) -> None:
        """What does not fit into the part the parent never sees is the parent's to carry."""
        while node is not None and amount > 0:
            beyond = amount - local_available(node, of)
            self._set(node, of, amount)
            node, amount = node.parent, beyond

    def _remove(self, node: QuotaNode | None, of: FlavorResource, amount: int) -> None:
        """The parent is relieved first."""
        while node is not None and amount > 0:
            carried = node.usage.get(of, 0) - node.kept.get(of, 0)
            self._set(node, of, -amount)
            node, amount = node.parent, min(amount, carried)

    def _set(self, node: QuotaNode, of: FlavorResource, more: int) -> None:
        before = node.usage.get(of, 0)
        if self._trials:
            self._changes.append(_Used(node, of, before))
        node.use(of, before + more)

    def _count_change(self, queue: str) -> None:
        node = self.forest.queues.get(queue)
        if node is not None and not self._trials:
            self._generation += 1
            self._generations[node.root] = self._generation
