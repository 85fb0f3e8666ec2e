"""Where every workload stands: it holds quota, waits for it, or neither. Never both."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, structs

from headgate.engine.quota.consumption import Consumptions
from headgate.engine.quota.desk import Placed, Sheet
from headgate.engine.quota.surroundings import QuotaSurroundings
from headgate.engine.quota.tally import Place, Standing, Tally
from headgate.lifecycle.quota_conditions import ADMITTED, PODS_READY
from headgate.model.keys import Key
from headgate.model.queues import QueuedWorkload, StopPolicy
from headgate.model.quota_settings import QuotaSettings
from headgate.quota.ledger import Holder, Ledger
from headgate.quota.order import applying, may_queue, ordered_at
from headgate.quota.queues import PendingQueues
from headgate.quota.requests import holder_of

_PENDING, _RESERVING, _ADMITTED = Place.PENDING, Place.RESERVING, Place.ADMITTED
_RUNS = StopPolicy.NONE


class _Members(Struct, gc=False):
    """The workloads that name a local queue."""

    local: Key
    keys: dict[Key, None]


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
        self._by_local: dict[Key, _Members] = {}

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

    def members(self, local: Key) -> Iterator[Key]:
        """The workloads that name this local queue."""
        found = self._by_local.get(local)
        return iter(list(found.keys) if found is not None else ())

    def holders(self, queue: str) -> list[Key]:
        """The workloads that hold quota of this cluster queue."""
        return [holder.key for holder in self.ledger.holders(queue)]

    def cohorts_above(self, queue: str) -> list[str]:
        """Its own cohort first, the whole tree last."""
        node = self.ledger.node(queue)
        return [cohort.name for cohort in node.ancestors()] if node is not None else []

    def place(self, sheet: Sheet, now: float) -> None:
        """The workload stands where what is seen and decided of it puts it."""
        workload, holding = sheet.now, sheet.holding
        standing = Placed(workload, holding, sheet.is_open)
        if sheet.placed is not None and sheet.placed.looks_like(standing):
            return
        sheet.placed = standing
        local, holder = self._enter(workload), None
        if holding is not None:
            holder = self._place_holder(holding, local, now)
        else:
            self._place_other(workload, local, now, may_wait=standing.is_open)
        if self.consumptions is not None:
            self.consumptions.place(sheet.seen, local, holder)

    def _enter(self, workload: QueuedWorkload) -> Key:
        """It is one of those that name its local queue: the key of that, for all of them the very same."""
        named = self._surroundings.local_of(workload)
        found = self._by_local.get(named)
        if found is None:
            found = self._by_local[named] = _Members(named, {})
        found.keys[workload.key] = None
        return found.local

    def _place_holder(self, workload: QueuedWorkload, local: Key, now: float) -> Holder:
        holder = self._hold(workload, now)
        self.pending.withdraw(workload.key)
        if workload.is_true(ADMITTED):
            waits_for_pods = not holder.evicted and _waits_for_pods(workload)
            standing = Standing(local, holder.queue, _ADMITTED, holder.usage, waits_for_pods)
        else:
            standing = Standing(local, holder.queue, _RESERVING, holder.usage)
        self.tally.put(workload.key, standing)
        return holder

    def _place_other(self, workload: QueuedWorkload, local: Key, now: float, *, may_wait: bool) -> None:
        """It waits, if anything."""
        key, around = workload.key, self._surroundings
        self._let_go(key, now)
        if may_wait and self._lets_in(local, workload):
            queue = around.queue_of(workload)
            ordered = ordered_at(workload, self._settings)
            self.pending.offer(applying(workload, queue, around.wish(workload), ordered), now)
            self.tally.put(key, Standing(local, queue, _PENDING) if key in self.pending else None)
        else:
            self.pending.leave(key, now)
            self.tally.put(key, None)

    def remove(self, workload: QueuedWorkload, now: float) -> None:
        """The workload is gone."""
        self._let_go(workload.key, now)
        self.pending.leave(workload.key, now)
        self.tally.put(workload.key, None)
        self.leave_local(workload)
        if self.consumptions is not None:
            self.consumptions.leave(workload.key)

    def leave_local(self, workload: QueuedWorkload) -> None:
        """It no longer names the local queue it named."""
        found = self._by_local.get(self._surroundings.local_of(workload))
        if found is not None:
            found.keys.pop(workload.key, None)

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
        before = self._held.pop(key, None)
        if before is not None:
            self.ledger.leave(before.queue, before.uid)
            self.pending.wake(before.queue, now)

    def _lets_in(self, local: Key, workload: QueuedWorkload) -> bool:
        """A queue that is stopped keeps those who wait, but its local queue must let them in."""
        found = self._surroundings.locals.get(local)
        if found is None or found.deleted is not None or found.stop_policy is not _RUNS:
            return False
        return workload.deleted is None and may_queue(workload) and found.cluster_queue in self._surroundings.queues


def _gives_back(before: Holder, after: Holder) -> bool:
    held = dict(after.usage)
    return any(amount > held.get(of, 0) for of, amount in before.usage)


def _waits_for_pods(workload: QueuedWorkload) -> bool:
    """Nobody would say it of a workload without an owner, unless somebody has begun to."""
    told = workload.condition(PODS_READY)
    return told.status != "True" if told is not None else workload.owner is not None
