"""Statuses of queues and cohorts: counts, usage and the condition Active, each written at most once a second.

They are informative: each is made out when there is a permit for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from headgate.engine.deadlines import Deadlines
from headgate.engine.in_flight import AwaitedPermits, InFlightWrites, InformPermits, WritePolicy, WriteResult
from headgate.engine.quota.activity import Activity
from headgate.engine.quota.consumption import Consumptions
from headgate.engine.quota.finalizers import InUse
from headgate.engine.quota.object_cache import QuotaObjectCache
from headgate.engine.quota.queue_usage import QueueUsage, QueueUsages
from headgate.lifecycle.workload.conditions import second
from headgate.model.effects import ClusterQueueStatus, CohortStatus, FlavorUse, LocalQueueStatus, PatchStatus
from headgate.model.events import WriteError
from headgate.model.keys import Condition, Key, Kind, Target
from headgate.model.queues import ClusterQueue, Cohort, LocalQueue
from headgate.model.resources import Resources
from headgate.queueing.backoff import Backoff
from headgate.quota.fair_sharing import share_of
from headgate.quota.ledger import Ledger
from headgate.quota.tree import FlavorResource

_CLUSTER_QUEUE, _LOCAL_QUEUE = Kind.CLUSTER_QUEUE, Kind.LOCAL_QUEUE  # found sooner than members of enums
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
        permits: InformPermits,
        *,
        is_fair: bool,
        consumptions: Consumptions | None,
    ) -> None:
        self._consumptions = consumptions
        self._objects = objects
        self._in_use = in_use
        self._usage = usage
        self._permits = permits
        self._is_fair = is_fair
        self._dirty: dict[Key, None] = {}  # something about it is news, perhaps
        self._fresh: dict[Key, None] = {}  # of these, those marked since the last `settle`
        self._paced = Deadlines[Key]()  # when dirty statuses may be written
        self._waiting: dict[Key, float] = {}  # those that may be written and wait for a permit, and since when
        self._held_up: dict[Key, None] = {}  # dirty and due, but a write is in flight
        self._writes = InFlightWrites[Key, PatchStatus](WritePolicy(backoff, resends=False))
        self._written: dict[Key, QueueStatus] = {}
        self._last: dict[Key, float] = {}

    def mark_dirty(self, key: Key) -> None:
        """The status may differ from the one written last."""
        if key not in self._dirty:
            self._dirty[key] = self._fresh[key] = None

    def mark_shares_dirty(self) -> None:
        """Quota or weights have changed, and with them the shares; without fair sharing none is shown any more."""
        for name in self._objects.queues if self._is_fair else ():
            self.mark_dirty(_queue_key(name))
        for cohort in self._objects.cohorts.values():
            if self._is_fair or cohort.shown_share is not None:
                self.mark_dirty(cohort.key)

    def lose(self, key: Key) -> None:
        known: tuple[dict[Key, Any], ...] = (self._dirty, self._fresh, self._waiting, self._held_up)
        for one in (*known, self._written, self._last):
            one.pop(key, None)
        self._paced.drop(key)
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
        if self._dirty:
            self._collect_due(now, is_due)
            yield from self._permitted(ledger, now)

    def _permitted(self, ledger: Ledger, now: float) -> Iterator[PatchStatus]:
        """The statuses that are news, as far as permits go."""
        for key in list(self._waiting) if self._permits.left > 0 else ():
            del self._waiting[key]
            if self._is_free(key):
                del self._dirty[key]
                owner = self._owner(key)
                patch = self._changed_status(owner, ledger, now) if owner is not None else None
                if patch is not None:
                    self._permits.take()
                    yield self._writes.send(key, patch)
                    if self._permits.left <= 0:
                        return

    @property
    def deadlines(self) -> tuple[Deadlines[Key], ...]:
        """When to call `settle`."""
        return self._paced, self._writes.deadlines

    @property
    def awaited_permits(self) -> AwaitedPermits | None:
        """The statuses that wait for permits."""
        if not self._waiting or self._permits.left > 0:
            return None
        return AwaitedPermits(len(self._waiting), next(iter(self._waiting.values())))

    def _collect_due(self, now: float, is_due: bool) -> None:
        """Has those wait for a permit that are dirty, whose pace allows it and that have no write in flight."""
        fresh, self._fresh, self._held_up = {**self._held_up, **self._fresh}, {}, {}
        due = [key for key in fresh if self._is_free(key) and self._may_be_written(key, now)]
        if is_due:
            due += filter(self._is_free, self._paced.due(now))
        for key in self._in_order(due):
            self._waiting.setdefault(key, now)

    def _may_be_written(self, key: Key, now: float) -> bool:
        """Whether its pace allows it by now; otherwise it has a deadline."""
        at = self._not_before(key)
        if at > now:
            self._paced.set(key, at)
        return at <= now

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
            self.mark_dirty(local)
        for name in queues:
            self.mark_dirty(_queue_key(name))
            node = ledger.node(name) if self._is_fair else None
            if node is not None:
                for leaf in node.root.leaves():
                    self.mark_dirty(_queue_key(leaf.name))
                for cohort in node.ancestors():
                    self.mark_dirty(Key(Kind.COHORT, "", cohort.name))

    def _not_before(self, key: Key) -> float:
        last = self._last.get(key)
        return -math.inf if last is None else last + PACE

    def _is_under_way(self, key: Key) -> bool:
        """A write is not answered yet, or waits for its back-off. Of these kinds only ClusterQueues have finalizers."""
        return key in self._writes or (key.kind is _CLUSTER_QUEUE and self._in_use.is_under_way(key))

    def _owner(self, key: Key) -> StatusOwner | None:
        if key.kind is _CLUSTER_QUEUE:
            return self._objects.queues.get(key.name)
        return self._objects.locals.get(key) if key.kind is _LOCAL_QUEUE else self._objects.cohorts.get(key.name)

    def _changed_status(self, owner: StatusOwner, ledger: Ledger, now: float) -> PatchStatus | None:
        status = self._status(owner, ledger, now)
        shown = CohortStatus(owner.shown_share) if isinstance(owner, Cohort) else None
        if self._written.get(owner.key, shown) == status:
            return None
        self._written[owner.key], self._last[owner.key] = status, now
        return PatchStatus(Target(owner.key, owner.uid), status, permitted=True)

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
    return Key(_CLUSTER_QUEUE, "", name)


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
