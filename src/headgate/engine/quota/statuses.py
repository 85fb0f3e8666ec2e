"""What queues and cohorts show: counts, usage, and whether they take work. Told at most once a second each.

Where there are many queues, their counts are told less often: writing them all down would slow down admission.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache

from headgate.engine.quota.activity import Activity
from headgate.engine.quota.consumption import Consumptions
from headgate.engine.quota.finalizers import InUse
from headgate.engine.quota.pace import Pace
from headgate.engine.quota.rests import Rests
from headgate.engine.quota.surroundings import QuotaSurroundings
from headgate.engine.quota.tally import QueueCount, Tally
from headgate.lifecycle.quota_conditions import second
from headgate.model.conditions import Condition
from headgate.model.effects import ClusterQueueStatus, CohortStatus, FlavorUse, LocalQueueStatus, PatchStatus
from headgate.model.events import Trouble
from headgate.model.keys import Key, Kind, Target
from headgate.model.queues import ClusterQueue, Cohort, LocalQueue
from headgate.model.resources import Resources
from headgate.queueing.backoff import Backoff
from headgate.quota.ledger import Ledger
from headgate.quota.shares import share_of
from headgate.quota.tree import FlavorResource

PACE = 1.0  # seconds between two writes about one queue
ACTIVE = "Active"
Told = ClusterQueueStatus | LocalQueueStatus | CohortStatus
Teller = ClusterQueue | LocalQueue | Cohort


class QueueStatuses:
    """Writes a status when it is news; one write at a time.

    A status is written whole and by nobody else, so it need not be made from the newest version: what is seen may lag.
    """

    def __init__(
        self,
        surroundings: QuotaSurroundings,
        tally: Tally,
        in_use: InUse,
        backoff: Backoff,
        *,
        is_fair: bool,
        consumptions: Consumptions | None,
    ) -> None:
        self._consumptions = consumptions
        self._surroundings = surroundings
        self._in_use = in_use
        self._tally = tally
        self._is_fair = is_fair
        self._touched: dict[Key, None] = {}  # something about it is news, perhaps
        self._line: list[tuple[float, Key]] = []  # when those may be told
        self._counted: list[tuple[float, Key]] = []  # the same, of those that only count otherwise
        self._pace = Pace(seconds=0.05, ahead=100)  # for counts: they change with every workload
        self._held_up: dict[Key, None] = {}  # could be told by now, but for a write under way
        self._sent: dict[Key, PatchStatus] = {}
        self._rests = Rests(backoff)
        self._told: dict[Key, Told] = {}
        self._last: dict[Key, float] = {}

    def touch(self, key: Key) -> None:
        """It may have more to tell than other counts."""
        self._touched[key] = None
        heapq.heappush(self._line, (self._not_before(key), key))

    def _count(self, key: Key) -> None:
        if key not in self._touched:
            self._touched[key] = None
            heapq.heappush(self._counted, (self._not_before(key), key))

    def lose(self, key: Key) -> None:
        for known in (self._touched, self._held_up, self._sent, self._told, self._last):
            known.pop(key, None)
        self._rests.forget(key)

    def answered(self, patch: PatchStatus, trouble: Trouble | None, now: float) -> None:
        """What was not written is news again, unless the server will never have it.

        What was written need not be waited for: if the object showed it before, there is no newer version to see.
        """
        key = patch.target.key
        if self._sent.get(key) != patch:
            return
        if trouble is not None:
            self._told.pop(key, None)
        if trouble in (None, Trouble.REFUSED, Trouble.GONE):
            del self._sent[key]
            self._rests.forget(key)
        else:
            self._rests.begin(key, now)
            self.touch(key)

    def settle(self, ledger: Ledger, now: float) -> Iterator[PatchStatus]:
        self._collect(ledger)
        for key in self._rests.over(now):
            self._sent.pop(key, None)
        for key in self._whose_turn_it_is(now):
            del self._touched[key]
            teller = self._teller(key)
            if teller is not None:
                yield from self._news(teller, ledger, now)

    def next_deadline(self) -> float | None:
        """When the next may be told again, of those that only wait for that or were turned away."""
        earliest = self._rests.next_deadline()
        for line, paced_until in ((self._line, -math.inf), (self._counted, self._pace.next_turn)):
            while line and not self._is_next(*line[0]):
                heapq.heappop(line)
            if line:
                at = max(line[0][0], paced_until)
                earliest = at if earliest is None else min(earliest, at)
        return earliest

    def _whose_turn_it_is(self, now: float) -> list[Key]:
        """Of those that are touched, all that may be told now."""
        held_up = self._held_up
        if held_up:
            self._held_up = {}
        for key in held_up:
            heapq.heappush(self._line, (self._not_before(key), key))
        ready: dict[Key, None] = {}
        while self._line and self._line[0][0] <= now:
            at, key = heapq.heappop(self._line)
            if self._is_next(at, key):
                ready[key] = None
        while self._counted and self._counted[0][0] <= now:
            at, key = self._counted[0]
            if key not in ready and self._is_next(at, key):
                if not self._pace.take(now):
                    break
                ready[key] = None
            heapq.heappop(self._counted)
        return list(ready)

    def _is_next(self, at: float, key: Key) -> bool:
        """It waits for this time and for nothing else."""
        if key not in self._touched or at != self._not_before(key):
            return False  # told meanwhile; if it is touched again, it stands in line once more
        if self._is_under_way(key):
            self._held_up[key] = None
            return False
        return True

    def _collect(self, ledger: Ledger) -> None:
        """All whose counts have changed, and the cohorts above them where shares are told."""
        locals_, queues = self._tally.take_changed()
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
        """A write is not answered yet, or rests after it was turned away."""
        return key in self._sent or self._in_use.is_under_way(key)

    def _teller(self, key: Key) -> Teller | None:
        match key.kind:
            case Kind.CLUSTER_QUEUE:
                return self._surroundings.queues.get(key.name)
            case Kind.LOCAL_QUEUE:
                return self._surroundings.locals.get(key)
            case _:
                return self._surroundings.cohorts.get(key.name)

    def _news(self, teller: Teller, ledger: Ledger, now: float) -> Iterator[PatchStatus]:
        status = self._status(teller, ledger, now)
        if self._told.get(teller.key) == status or (isinstance(status, CohortStatus) and not self._is_fair):
            return
        patch = PatchStatus(Target(teller.key, teller.uid), status)
        self._told[teller.key], self._sent[teller.key], self._last[teller.key] = status, patch, now
        self._rests.cut_short(teller.key)
        yield patch

    def _status(self, teller: Teller, ledger: Ledger, now: float) -> Told:
        match teller:
            case ClusterQueue(name=name):
                return self._of_queue(teller, self._tally.queue(name), ledger, now)
            case LocalQueue(key=key):
                return self._of_local(teller, self._tally.local(key), now)
            case Cohort(name=name):
                node = ledger.forest.cohort(name)
                return CohortStatus(share_of(node).rounded if node is not None else 0)

    def _of_queue(self, queue: ClusterQueue, count: QueueCount, ledger: Ledger, now: float) -> ClusterQueueStatus:
        node = ledger.node(queue.name)
        share = share_of(node).rounded if self._is_fair and node is not None else None
        return ClusterQueueStatus(
            _with_activity(queue.conditions, self._surroundings.activity(queue), queue.generation, now),
            count.pending,
            count.reserving,
            count.admitted,
            tuple(_uses(queue, count.reservation)),
            tuple(_uses(queue, count.usage)),
            share,
        )

    def _of_local(self, local: LocalQueue, count: QueueCount, now: float) -> LocalQueueStatus:
        queue = self._surroundings.queues.get(local.cluster_queue)
        activity = self._surroundings.local_activity(local)
        return LocalQueueStatus(
            _with_activity(local.conditions, activity, local.generation, now),
            count.pending,
            count.reserving,
            count.admitted,
            tuple(_uses(queue, count.reservation, borrows=False)) if queue is not None else (),
            tuple(_uses(queue, count.usage, borrows=False)) if queue is not None else (),
            self._consumptions.shown(local.key) if self._consumptions is not None else None,
        )


@lru_cache(maxsize=4096)
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
