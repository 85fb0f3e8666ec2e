"""Where every workload stands: it holds quota, waits for it, or neither. Never both."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from headgate.engine.quota.consumption import Consumptions
from headgate.engine.quota.desk import Sheet
from headgate.engine.quota.surroundings import QuotaSurroundings
from headgate.engine.quota.tally import Place, Standing, Tally
from headgate.lifecycle.workload.conditions import ADMITTED, PODS_READY
from headgate.model.keys import Key
from headgate.model.queues import QueuedWorkload, StopPolicy
from headgate.model.quota_settings import QuotaSettings
from headgate.quota.ledger import Holder, Ledger
from headgate.quota.order import applying, may_queue, ordered_at
from headgate.quota.queues import PendingQueues
from headgate.quota.requests import holder_of

_PENDING, _RESERVING, _ADMITTED = Place.PENDING, Place.RESERVING, Place.ADMITTED
_RUNS = StopPolicy.NONE


class Books:
    """The ledger, the queues and the counts, brought in line with one workload at a time.

    Quota counts as held from the moment it is promised until its return is seen, so that no mistake, delay or
    lost answer can give it away twice.
    """

    def __init__(self, surroundings: QuotaSurroundings, settings: QuotaSettings) -> None:
        self._surroundings = surroundings
        self._settings = settings
        self.tally = Tally()
        sharing = settings.usage_sharing
        self.consumptions = Consumptions(sharing, surroundings, self.tally) if sharing is not None else None
        used = self.consumptions
        self.ledger = Ledger(local_use=used.used_by_holder if used is not None else None)
        self.pending = PendingQueues(surroundings.may_enter, used.used_by if used is not None else None)
        self._held: dict[Key, Holder] = {}
        self._by_local: dict[Key, dict[Key, None]] = {}

    def reshape(self, now: float) -> None:
        """Other queues and cohorts; who held quota holds it still."""
        queues, cohorts = list(self._surroundings.queues.values()), list(self._surroundings.cohorts.values())
        self.ledger = self.ledger.rebuilt(queues, cohorts)
        forest = self.ledger.forest
        trees = {name: forest.tree_of(name) for name in forest.queues}
        self.pending.configure(queues, trees, self._surroundings.inactive, now)

    def wake_all(self, now: float) -> None:
        for root in self.ledger.forest.roots:
            first = next(root.leaves(), None)
            if first is not None:
                self.pending.wake(first.name, now)

    def came_from_outside(self, workload: QueuedWorkload) -> None:
        """The workload is new: its tree may preempt as if it never had. Nobody is tried again for that alone."""
        if self.ledger.allocations:
            self.ledger.forget_allocations(self._surroundings.queue_of(workload))

    def changed_from_outside(self, workload: QueuedWorkload, now: float) -> None:
        """The workload went or was changed, or its time has come: whose preemption was withheld is tried again."""
        if self.ledger.allocations:
            queue = self._surroundings.queue_of(workload)
            if self.ledger.forget_allocations(queue):
                self.pending.wake(queue, now)

    def surroundings_changed(self, now: float) -> None:
        """As `changed_from_outside`, of all trees."""
        if self.ledger.allocations.forget_all():
            self.wake_all(now)

    def members(self, local: Key) -> Iterator[Key]:
        """The workloads that name this local queue."""
        return iter(list(self._by_local.get(local, ())))

    def holders(self, queue: str) -> list[Key]:
        """The workloads that hold quota of this cluster queue."""
        return [holder.key for holder in self.ledger.holders(queue)]

    def cohorts_above(self, queue: str) -> list[str]:
        """Its own cohort first, the whole tree last."""
        node = self.ledger.node(queue)
        return [cohort.name for cohort in node.ancestors()] if node is not None else []

    def place(self, sheet: Sheet, now: float) -> None:
        """The workload stands where what is seen and decided of it puts it."""
        workload, held, is_open, placed = sheet.now, sheet.held, sheet.is_open, sheet.placed
        if placed is not None:
            before, held_before, was_open = placed
            same = workload is before or workload.looks_like(before)
            if same and was_open is is_open and held_before == held:
                return
        sheet.placed = workload, held, is_open
        local, holder = sheet.local or self._enter(sheet), None
        if held is None:
            self._place_other(workload, local, now, may_wait=is_open)
        elif workload.admission is None:
            holder = self._place_holder(structs.replace(workload, admission=held), local, now)
        else:
            holder = self._place_holder(workload, local, now)
        if self.consumptions is not None:
            self.consumptions.place(sheet.seen, local, holder)

    def promised(self, sheet: Sheet, queue: str) -> None:
        """A cycle gave it quota of this queue. That is settled in ledger and queues, and remains to be noted here."""
        workload, local = sheet.now, sheet.local
        holder = self.ledger.holder(queue, workload.uid)
        assert holder is not None and local is not None, "only who waits is given quota"
        sheet.placed = workload, sheet.held, sheet.is_open
        self._held[workload.key] = holder
        self._count(workload, local, holder)
        if self.consumptions is not None:
            self.consumptions.place(sheet.seen, local, holder)

    def _enter(self, sheet: Sheet) -> Key:
        """It is one of those that name its local queue."""
        local = sheet.local = self._surroundings.local_of(sheet.seen)
        self._by_local.setdefault(local, {})[sheet.seen.key] = None
        return local

    def _place_holder(self, workload: QueuedWorkload, local: Key, now: float) -> Holder:
        holder = self._hold(workload, now)
        self.pending.withdraw(workload.key)
        self._count(workload, local, holder)
        return holder

    def _count(self, workload: QueuedWorkload, local: Key, holder: Holder) -> None:
        of = self.tally.crossing(local, holder.queue)
        if workload.is_true(ADMITTED):
            waits_for_pods = not holder.evicted and _waits_for_pods(workload)
            standing = Standing(of, _ADMITTED, holder.usage, waits_for_pods)
        else:
            standing = Standing(of, _RESERVING, holder.usage)
        self.tally.put(workload.key, standing)

    def _place_other(self, workload: QueuedWorkload, local: Key, now: float, *, may_wait: bool) -> None:
        """It waits, if anything."""
        key = workload.key
        if key in self._held:
            self._let_go(key, now)
        queue = self._lets_in(local, workload) if may_wait else None
        if queue is not None:
            ordered = ordered_at(workload, self._settings)
            self.pending.offer(applying(workload, queue, self._surroundings.wish(workload), ordered), now)
            of = self.tally.crossing(local, queue)
            self.tally.put(key, Standing(of, _PENDING) if key in self.pending else None)
        else:
            self.pending.leave(key, now)
            self.tally.put(key, None)

    def remove(self, sheet: Sheet, now: float) -> None:
        """The workload is gone."""
        key = sheet.seen.key
        if key in self._held:
            self._let_go(key, now)
        self.pending.leave(key, now)
        self.tally.put(key, None)
        self.leave_local(sheet)
        if self.consumptions is not None:
            self.consumptions.leave(key)

    def leave_local(self, sheet: Sheet) -> None:
        """It no longer names the local queue it named."""
        if sheet.local is not None:
            del self._by_local[sheet.local][sheet.seen.key]
            sheet.local = sheet.placed = None  # it may come back to it before it is looked at

    def _hold(self, workload: QueuedWorkload, now: float) -> Holder:
        holder = holder_of(workload, ordered_at(workload, self._settings))
        assert holder is not None
        before = self._held.get(workload.key)
        if before is not None and (before.queue != holder.queue or before.uid != holder.uid):
            self._let_go(workload.key, now)
        self._held[workload.key] = holder
        known = self.ledger.holder(holder.queue, holder.uid)
        if known == holder:
            return holder
        if known is not None and holder.evicted and structs.replace(known, evicted=True) == holder:
            self.ledger.mark_evicted(known)
            return holder
        self.ledger.hold(holder)
        if known is not None and _gives_back(known, holder):
            self.pending.wake(holder.queue, now)
        return holder

    def _let_go(self, key: Key, now: float) -> None:
        before = self._held.pop(key)
        self.ledger.leave(before.queue, before.uid)
        self.pending.wake(before.queue, now)

    def _lets_in(self, local: Key, workload: QueuedWorkload) -> str | None:
        """The queue it may wait in. One that is stopped keeps those who wait, but its local queue must let them in."""
        found = self._surroundings.locals.get(local)
        if found is None or found.deleted is not None or found.stop_policy is not _RUNS:
            return None
        if workload.deleted is not None or not may_queue(workload):
            return None
        return found.cluster_queue if found.cluster_queue in self._surroundings.queues else None


def _gives_back(before: Holder, after: Holder) -> bool:
    held = dict(after.usage)
    return any(amount > held.get(of, 0) for of, amount in before.usage)


def _waits_for_pods(workload: QueuedWorkload) -> bool:
    """Nobody would say it of a workload without an owner, unless somebody has begun to."""
    told = workload.condition(PODS_READY)
    return told.status != "True" if told is not None else workload.owner is not None
