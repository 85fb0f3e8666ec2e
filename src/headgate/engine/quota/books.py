"""Where every workload stands: it holds quota, waits for it, or neither. Never both."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from headgate.engine.quota.consumption import Consumptions
from headgate.engine.quota.desk import Placed, Sheet
from headgate.engine.quota.surroundings import QuotaSurroundings
from headgate.engine.quota.tally import Place, Standing, Tally
from headgate.lifecycle.quota_conditions import ADMITTED, EVICTED, PODS_READY
from headgate.model.keys import Key
from headgate.model.queues import QueuedWorkload, StopPolicy
from headgate.model.quota_settings import QuotaSettings
from headgate.quota.ledger import Holder, Ledger
from headgate.quota.order import applicant, may_queue, ordered_at
from headgate.quota.queues import PendingQueues
from headgate.quota.requests import holder_of


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
        workload, holding = sheet.now, sheet.holding
        standing = Placed(workload, holding, sheet.is_open)
        if sheet.placed is not None and sheet.placed.looks_like(standing):
            return
        sheet.placed = standing
        self._by_local.setdefault(self._surroundings.local_of(workload), {})[workload.key] = None
        holder = None if holding is None else self._hold(holding, now)
        if holder is None:
            self._let_go(workload.key, now)
        if holder is not None or not sheet.is_open or not self._may_wait(workload):
            self._stop_waiting(workload.key, now, admitted=holder is not None)
        else:
            queue = self._surroundings.queue_of(workload)
            around = self._surroundings.adjustments(workload)
            self.pending.offer(applicant(workload, queue, self._settings, around), now)
        self.tally.put(workload.key, self._standing(holding or workload, holder))
        if self.consumptions is not None:
            self.consumptions.place(sheet.seen, self._surroundings.local_of(workload), holder)

    def _stop_waiting(self, key: Key, now: float, *, admitted: bool) -> None:
        if admitted:
            self.pending.withdraw(key)
        else:
            self.pending.leave(key, now)

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
        self._by_local.get(self._surroundings.local_of(workload), {}).pop(workload.key, None)

    def _hold(self, workload: QueuedWorkload, now: float) -> Holder:
        holder = holder_of(workload, ordered_at(workload, self._settings))
        assert holder is not None
        before = self._held.get(workload.key)
        if before is not None and (before.uid, before.queue) != (holder.uid, holder.queue):
            self._let_go(workload.key, now)
        known = self.ledger.holder(holder.queue, holder.uid)
        self._held[workload.key] = holder
        if known is not None and structs.replace(known, evicted=holder.evicted) == holder and holder.evicted:
            self.ledger.mark_evicted(known)
        elif known != holder:
            self.ledger.hold(holder)
            if known is not None and _gives_back(known, holder):
                self.pending.wake(holder.queue, now)
        return holder

    def _let_go(self, key: Key, now: float) -> None:
        before = self._held.pop(key, None)
        if before is not None:
            self.ledger.leave(before.queue, before.uid)
            self.pending.wake(before.queue, now)

    def _may_wait(self, workload: QueuedWorkload) -> bool:
        """A queue that is stopped keeps those who wait, but its local queue must let them in."""
        local = self._surroundings.locals.get(self._surroundings.local_of(workload))
        if local is None or local.deleted is not None or local.stop_policy is not StopPolicy.NONE:
            return False
        return workload.deleted is None and may_queue(workload) and local.cluster_queue in self._surroundings.queues

    def _standing(self, workload: QueuedWorkload, holder: Holder | None) -> Standing | None:
        local = self._surroundings.local_of(workload)
        if holder is None:
            waits = workload.key in self.pending
            return Standing(local, self._surroundings.queue_of(workload), Place.PENDING) if waits else None
        if not workload.is_true(ADMITTED):
            return Standing(local, holder.queue, Place.RESERVING, holder.usage)
        return Standing(local, holder.queue, Place.ADMITTED, holder.usage, _waits_for_pods(workload))


def _gives_back(before: Holder, after: Holder) -> bool:
    held = dict(after.usage)
    return any(amount > held.get(of, 0) for of, amount in before.usage)


def _waits_for_pods(workload: QueuedWorkload) -> bool:
    """Nobody would say it of a workload without an owner, unless somebody has begun to."""
    if workload.is_true(EVICTED):
        return False
    told = workload.condition(PODS_READY)
    return told.status != "True" if told is not None else workload.owner is not None
