"""The workloads that wait for one cluster queue: in line, or set aside until something changes."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from msgspec import structs

from headgate.model.keys import Key
from headgate.model.queues import ClusterQueue, QueueingStrategy
from headgate.quota.lines import Lines
from headgate.quota.order import Applicant, EquivalenceClass, Rank, differs, has_rested
from headgate.quota.progress import Progress
from headgate.quota.requeue import SPEAKS_FOR_CLASS, Requeue, comes_back_at_once

LocalUsage = Callable[[Key], int]
"""How much the local queue of this workload has used lately."""


class PendingQueue:
    """Every waiting workload is in line, set aside, or the one that was taken out and must be brought back.

    Set aside are single workloads, and all of a class one of which was refused for reasons that hold for all.
    """

    def __init__(self, queue: ClusterQueue, local_usage: LocalUsage) -> None:
        self.queue = queue
        self._local_usage = local_usage
        self._lines = Lines()
        self._aside: dict[Key, Applicant] = {}
        self._resting: list[tuple[float, Key]] = []  # of those set aside
        self._refusals: dict[EquivalenceClass, Requeue] = {}
        self._taken: Applicant | None = None
        self._woken_meanwhile = False
        self._preemptor: tuple[Key, int] | None = None  # with its generation

    @property
    def active(self) -> int:
        """How many will be tried as things are."""
        return len(self._lines) - self._lines.blocked + (self._taken is not None)

    @property
    def inadmissible(self) -> int:
        """How many wait for a change."""
        return len(self._aside) + self._lines.blocked

    def everybody(self) -> list[Applicant]:
        """All who wait, in the order they would be tried."""
        taken = [self._taken] if self._taken else []
        return sorted([*taken, *self._lines.all(), *self._aside.values()], key=self._place)

    @property
    def has_next(self) -> bool:
        return next(self._lines.firsts(), None) is not None

    def refusal_of(self, applicant: Applicant) -> Requeue | None:
        """Why another workload of its class was refused since the last change."""
        return self._refusals.get(applicant.kind)

    def offer(self, applicant: Applicant, now: float) -> bool:
        """The workload applies, or has changed. True when this may change who is next."""
        key = applicant.key
        if self._taken is not None and self._taken.key == key:
            self._taken = _going_on(applicant, self._taken)
            return False
        known = self._aside.get(key) or self._lines.get(key)
        changed = known is None or differs(known.workload, applicant.workload)
        applicant = _going_on(applicant, known) if known else applicant
        in_line = self._lines.remove(key) is not None
        if self._aside.pop(key, None) is not None and not changed:
            self._set_aside(applicant)
            return False
        if not in_line and not has_rested(applicant.workload, now):
            self._set_aside(applicant)
            return False
        self._line_up(applicant)
        return changed and not self._lines.is_blocked(applicant.kind)

    def withdraw(self, key: Key) -> bool:
        """The workload no longer waits. True when it did."""
        if self._preemptor is not None and self._preemptor[0] == key:
            self._preemptor = None
        if self._taken is not None and self._taken.key == key:
            self._taken = None
            return True
        return self._lines.remove(key) is not None or self._aside.pop(key, None) is not None

    def take(self) -> Applicant | None:
        """The next to try. It must come back by `bring_back`, or leave by `withdraw`."""
        assert self._taken is None, "one at a time"
        first = self._first()
        if first is not None:
            self._lines.remove(first.key)
            first = structs.replace(first, is_preemptor=self._preemptor == (first.key, first.workload.generation))
        self._taken, self._woken_meanwhile = first, False
        return first

    def bring_back(self, key: Key, why: Requeue, progress: Progress | None) -> bool:
        """The taken workload was not admitted; True when it is in line again."""
        assert self._taken is not None and self._taken.key == key, "only what was taken comes back"
        applicant, self._taken = structs.replace(self._taken, progress=progress), None
        if why is Requeue.PENDING_PREEMPTION:
            self._preemptor = (applicant.key, applicant.workload.generation)
        more = progress is not None and progress.has_more
        if self._woken_meanwhile or comes_back_at_once(self.queue.strategy, why, more):
            self._line_up(applicant)
            return True
        if self._is_best_effort and why in SPEAKS_FOR_CLASS:
            self._refusals[applicant.kind] = why
            self._lines.block(applicant.kind)
            self._line_up(applicant)
        else:
            self._set_aside(applicant)
        return False

    def wake(self, may_enter: Callable[[str], bool], now: float) -> None:
        """Something changed: all set aside get another chance, but those that rest or may not enter."""
        self._refusals.clear()
        self._lines.unblock_all()
        self._woken_meanwhile = True
        ready = [one for one in self._aside.values() if has_rested(one.workload, now) and may_enter(one.key.namespace)]
        for applicant in ready:
            del self._aside[applicant.key]
            self._line_up(applicant)

    def ripen(self, now: float) -> bool:
        """Those whose rest has ended since they were set aside line up. True when there were any."""
        ready = False
        while self._resting and self._resting[0][0] <= now:
            until, key = heapq.heappop(self._resting)
            applicant = self._aside.get(key)
            if applicant is not None and _rests_until(applicant) == until and has_rested(applicant.workload, now):
                del self._aside[key]
                self._line_up(applicant)
                ready = True
        return ready

    def next_deadline(self) -> float | None:
        """When the next rest ends, or one that was cut short would have."""
        return self._resting[0][0] if self._resting else None

    def reconfigure(self, queue: ClusterQueue) -> None:
        """Another spec, so another order perhaps."""
        waiting, self.queue, self._lines = self._lines.all(), queue, Lines()
        for applicant in waiting:
            self._line_up(applicant)

    @property
    def _is_best_effort(self) -> bool:
        return self.queue.strategy is QueueingStrategy.BEST_EFFORT_FIFO

    def _line_up(self, applicant: Applicant) -> None:
        by_local_queue = self.queue.usage_based
        self._lines.add(f"{applicant.key.namespace}/{applicant.workload.queue}" if by_local_queue else "", applicant)

    def _set_aside(self, applicant: Applicant) -> None:
        self._aside[applicant.key] = applicant
        until = _rests_until(applicant)
        if until is not None:
            heapq.heappush(self._resting, (until, applicant.key))

    def _first(self) -> Applicant | None:
        """The first of each line, and of these the one whose local queue used least; a preemptor before its equals."""
        firsts = list(self._lines.firsts())
        sticky = self._sticky()
        if sticky is not None and not self._lines.is_blocked(sticky.kind):
            firsts.append(sticky)
        return min(firsts, key=self._place, default=None)

    def _sticky(self) -> Applicant | None:
        """The workload whose victims are on their way out, as long as it is the one they leave for."""
        if self._preemptor is None or not self._is_best_effort:
            return None
        key, generation = self._preemptor
        applicant = self._lines.get(key)
        return applicant if applicant is not None and applicant.workload.generation == generation else None

    def _place(self, applicant: Applicant) -> tuple[int, bool, Rank]:
        used = self._local_usage(applicant.key) if self.queue.usage_based else 0
        return used, applicant is not self._sticky(), applicant.rank


def _going_on(applicant: Applicant, before: Applicant) -> Applicant:
    """The changed workload, with the flavors tried so far if it still asks for the same."""
    return structs.replace(applicant, progress=before.progress if applicant.kind == before.kind else None)


def _rests_until(applicant: Applicant) -> float | None:
    requeue = applicant.workload.requeue
    return requeue.at if requeue is not None else None
