"""Statuses of queues and cohorts: counts, usage and the condition Active, each written at most once a second.

Where there are many queues, counts are written less often: writing them all would slow down admission.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from headgate.engine.deadlines import Deadlines
from headgate.engine.in_flight import InFlightWrites, WritePolicy, WriteResult
from headgate.engine.quota.activity import Activity
from headgate.engine.quota.consumption import Consumptions
from headgate.engine.quota.finalizers import InUse
from headgate.engine.quota.object_cache import QuotaObjectCache
from headgate.engine.quota.queue_usage import QueueUsage, QueueUsages
from headgate.engine.quota.rate_limiter import RateLimiter
from headgate.lifecycle.workload.conditions import second
from headgate.model.conditions import Condition
from headgate.model.effects import ClusterQueueStatus, CohortStatus, FlavorUse, LocalQueueStatus, PatchStatus
from headgate.model.events import WriteError
from headgate.model.keys import Key, Kind, Target
from headgate.model.queues import ClusterQueue, Cohort, LocalQueue
from headgate.model.resources import Resources
from headgate.queueing.backoff import Backoff
from headgate.quota.fair_sharing import share_of
from headgate.quota.ledger import Ledger
from headgate.quota.tree import FlavorResource

PACE = 1.0  # seconds between two writes about one queue
ACTIVE = "Active"
QueueStatus = ClusterQueueStatus | LocalQueueStatus | CohortStatus
StatusOwner = ClusterQueue | LocalQueue | Cohort


class QueueStatuses:
    """Writes a status when it differs from the one written last; one write at a time.

    A status is written whole and by nobody else, so it need not be made from the newest version: what is seen may lag.
    """

    def __init__(
        self,
        objects: QuotaObjectCache,
        usage: QueueUsages,
        in_use: InUse,
        backoff: Backoff,
        *,
        is_fair: bool,
        consumptions: Consumptions | None,
    ) -> None:
        self._consumptions = consumptions
        self._objects = objects
        self._in_use = in_use
        self._usage = usage
        self._is_fair = is_fair
        self._dirty: dict[Key, None] = {}  # something about it is news, perhaps
        self._fresh: dict[Key, None] = {}  # of these, those marked since the last `settle`
        self._fresh_counts: dict[Key, None] = {}  # the same, of those that only count otherwise
        self._due_statuses = Deadlines[Key]()  # when dirty statuses may be written
        self._due_counts = Deadlines[Key]()  # the same, of those that only count otherwise
        self._limited: dict[Key, None] = {}  # of these, those that are due and wait for the limiter
        self._limiter = RateLimiter(interval=0.05, burst=100)  # for counts: they change with every workload
        self._held_up: dict[Key, None] = {}  # dirty and due, but a write is in flight
        self._writes = InFlightWrites[Key, PatchStatus](WritePolicy(backoff, resends=False))
        self._written: dict[Key, QueueStatus] = {}
        self._last: dict[Key, float] = {}

    def mark_dirty(self, key: Key) -> None:
        """The status may differ in more than counts, so the rate limit for counts does not apply."""
        self._dirty[key] = self._fresh[key] = None

    def mark_shares_dirty(self) -> None:
        """Quota or weights have changed, and with them the shares; without fair sharing none is shown any more."""
        for name in self._objects.queues if self._is_fair else ():
            self._count(_queue_key(name))
        for cohort in self._objects.cohorts.values():
            if self._is_fair or cohort.shown_share is not None:
                self._count(cohort.key)

    def _count(self, key: Key) -> None:
        if key not in self._dirty:
            self._dirty[key] = self._fresh_counts[key] = None

    def lose(self, key: Key) -> None:
        dirty = (self._dirty, self._fresh, self._fresh_counts, self._limited, self._held_up)
        for known in (*dirty, self._written, self._last):
            known.pop(key, None)
        self._due_statuses.drop(key)
        self._due_counts.drop(key)
        self._writes.forget(key)

    def answered(self, patch: PatchStatus, trouble: WriteError | None, now: float) -> None:
        """A status that was not written is written anew after a back-off, unless the server refused it.

        What was written need not be waited for: if the object showed it before, there is no newer version to see.
        """
        key = patch.target.key
        result = self._writes.answer(key, patch, trouble, "", now)
        if result is not None and trouble is not None:
            self._written.pop(key, None)
        if result is WriteResult.PENDING:
            self.mark_dirty(key)

    def settle(self, ledger: Ledger, now: float, *, is_due: bool) -> Iterator[PatchStatus]:
        """The statuses to write now; `is_due` when some deadline may have come."""
        if self._usage.changed:
            self._collect(ledger)
        for _ in self._writes.due(now) if is_due else ():
            pass  # forgotten: they are dirty since they failed
        for key in self._ready(now, is_due) if self._dirty else ():
            del self._dirty[key]
            owner = self._owner(key)
            if owner is not None:
                yield from self._changed_status(owner, ledger, now)

    @property
    def deadlines(self) -> tuple[Deadlines[Key], ...]:
        """When to call `settle`."""
        return self._due_statuses, self._due_counts, self._writes.deadlines

    @property
    def next_count_at(self) -> float | None:
        """When the rate limit lets the next count be written that is due."""
        return self._limiter.next_at if self._limited else None

    def _ready(self, now: float, is_due: bool) -> list[Key]:
        """The dirty queues whose status may be written now."""
        fresh, self._fresh, self._held_up = {**self._held_up, **self._fresh}, {}, {}
        due = self._due_of([key for key in fresh if self._is_free(key)], self._due_statuses, now)
        if is_due:
            due += [key for key in self._due_statuses.due(now) if self._is_free(key)]
        ready = dict.fromkeys(self._in_order(due))
        if self._fresh_counts or is_due:
            counts, self._fresh_counts = self._fresh_counts, {}
            due = self._due_of(counts, self._due_counts, now)
            self._limited.update(dict.fromkeys(self._in_order(due + (self._due_counts.due(now) if is_due else []))))
        self._take_limited(ready, now)
        return list(ready)

    def _take_limited(self, ready: dict[Key, None], now: float) -> None:
        taken = []
        for key in self._limited:
            if key not in ready and self._is_free(key):
                if not self._limiter.try_accept(now):
                    break
                ready[key] = None
            taken.append(key)
        for key in taken:
            del self._limited[key]

    def _due_of(self, keys: Iterable[Key], deadlines: Deadlines[Key], now: float) -> list[Key]:
        """Those of the keys that may be written now; the others get a deadline."""
        due = []
        for key in keys:
            at = self._not_before(key)
            if at <= now:
                due.append(key)
            else:
                deadlines.set(key, at)
        return due

    def _in_order(self, due: list[Key]) -> list[Key]:
        return sorted(due, key=lambda key: (self._not_before(key), key)) if len(due) > 1 else due

    def _is_free(self, key: Key) -> bool:
        """Whether it is still dirty and waits for no write in flight."""
        if key not in self._dirty:
            return False
        if self._is_under_way(key):
            self._held_up[key] = None
            return False
        return True

    def _collect(self, ledger: Ledger) -> None:
        """Marks dirty whose counts have changed, and with fair sharing the whole tree."""
        locals_, queues = self._usage.take_changed()
        for local in locals_:
            self._count(local)
        for name in queues:
            self._count(_queue_key(name))
            node = ledger.node(name) if self._is_fair else None
            if node is not None:
                for leaf in node.root.leaves():
                    self._count(_queue_key(leaf.name))
                for cohort in node.ancestors():
                    self._count(Key(Kind.COHORT, "", cohort.name))

    def _not_before(self, key: Key) -> float:
        last = self._last.get(key)
        return -math.inf if last is None else last + PACE

    def _is_under_way(self, key: Key) -> bool:
        """A write is not answered yet, or waits for its back-off. Of these kinds only ClusterQueues have finalizers."""
        return key in self._writes or (key.kind is Kind.CLUSTER_QUEUE and self._in_use.is_under_way(key))

    def _owner(self, key: Key) -> StatusOwner | None:
        match key.kind:
            case Kind.CLUSTER_QUEUE:
                return self._objects.queues.get(key.name)
            case Kind.LOCAL_QUEUE:
                return self._objects.locals.get(key)
            case _:
                return self._objects.cohorts.get(key.name)

    def _changed_status(self, owner: StatusOwner, ledger: Ledger, now: float) -> Iterator[PatchStatus]:
        status = self._status(owner, ledger, now)
        shown = CohortStatus(owner.shown_share) if isinstance(owner, Cohort) else None
        if self._written.get(owner.key, shown) == status:
            return
        patch = PatchStatus(Target(owner.key, owner.uid), status)
        self._written[owner.key], self._last[owner.key] = status, now
        yield self._writes.send(owner.key, patch)

    def _status(self, owner: StatusOwner, ledger: Ledger, now: float) -> QueueStatus:
        match owner:
            case ClusterQueue(name=name):
                return self._of_queue(owner, self._usage.queue(name), ledger, now)
            case LocalQueue(key=key):
                return self._of_local(owner, self._usage.local(key), now)
            case Cohort(name=name):
                node = ledger.forest.cohort(name) if self._is_fair else None
                return CohortStatus(share_of(node).rounded if node is not None else 0 if self._is_fair else None)

    def _of_queue(self, queue: ClusterQueue, count: QueueUsage, ledger: Ledger, now: float) -> ClusterQueueStatus:
        node = ledger.node(queue.name)
        share = share_of(node).rounded if self._is_fair and node is not None else None
        return ClusterQueueStatus(
            _with_activity(queue.conditions, self._objects.activity(queue), queue.generation, now),
            count.pending,
            count.reserving,
            count.admitted,
            tuple(_uses(queue, count.reservation)),
            tuple(_uses(queue, count.usage)),
            share,
        )

    def _of_local(self, local: LocalQueue, count: QueueUsage, now: float) -> LocalQueueStatus:
        queue = self._objects.queues.get(local.cluster_queue)
        activity = self._objects.local_activity(local)
        return LocalQueueStatus(
            _with_activity(local.conditions, activity, local.generation, now),
            count.pending,
            count.reserving,
            count.admitted,
            tuple(_uses(queue, count.reservation, borrows=False)) if queue is not None else (),
            tuple(_uses(queue, count.usage, borrows=False)) if queue is not None else (),
            self._consumptions.shown(local.key) if self._consumptions is not None else None,
        )


def _queue_key(name: str) -> Key:
    return Key(Kind.CLUSTER_QUEUE, "", name)


def _uses(queue: ClusterQueue, used: Mapping[FlavorResource, int], borrows: bool = True) -> Iterator[FlavorUse]:
    """Every flavor and resource of the queue, in its own order."""
    for group in queue.groups:
        for flavor in group.flavors:
            totals = {name: used.get(FlavorResource(flavor.flavor, name), 0) for name, _ in flavor.quotas}
            beyond = {name: max(0, totals[name] - quota.nominal) for name, quota in flavor.quotas}
            borrowed = Resources.of(beyond) if borrows and queue.cohort else Resources()
            yield FlavorUse(flavor.flavor, Resources.of(totals), borrowed)


def _with_activity(
    conditions: tuple[Condition, ...], activity: Activity, generation: int, now: float
) -> tuple[Condition, ...]:
    status = str(activity.active)
    shown = next((one for one in conditions if one.type == ACTIVE), None)
    since = shown.at if shown is not None and shown.status == status else second(now)
    made = Condition(ACTIVE, status, activity.reason, activity.message, since, generation)
    return (*(one for one in conditions if one.type != ACTIVE), made)
