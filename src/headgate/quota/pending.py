"""The workloads that wait for one cluster queue: in line, or set aside until something changes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping

from msgspec import structs

from headgate.model.keys import Key
from headgate.model.queues import ClusterQueue, QueueingStrategy
from headgate.quota.ledger import LocalUse
from headgate.quota.lines import Lines
from headgate.quota.order import Applicant, EquivalenceClass, Rank, differs, has_rested
from headgate.quota.progress import Progress
from headgate.quota.requeue import SPEAKS_FOR_CLASS, Requeue, Unreserved, comes_back_at_once

LocalUsage = Callable[[Applicant], LocalUse]
"""How much the local queue of this workload has used lately."""

Census = Mapping[EquivalenceClass, int]
"""How many there are of each class."""


class PendingQueue:
    """Every waiting workload is in line or set aside; one of those in line may be taken, and must be brought back.

    Set aside are single workloads, and all of a class one of which was refused for reasons that hold for all.
    """

    def __init__(self, queue: ClusterQueue, local_usage: LocalUsage | None) -> None:
        self._local_usage = local_usage
        self._follow(queue)
        self._aside: dict[Key, Applicant] = {}
        self.resting: list[tuple[float, Key]] = []  # of those set aside; some may have been told to line up since
        self._refusals: dict[EquivalenceClass, Unreserved] = {}
        self._missed: dict[EquivalenceClass, None] = {}  # refused, but for flavors that may do by now
        self._skipped: dict[Key, None] = {}  # in line as long as anything goes on in the tree
        self._taken: Applicant | None = None
        self._woken_meanwhile = False
        self._preemptor: tuple[Key, int] | None = None  # with its generation

    def _follow(self, queue: ClusterQueue) -> None:
        self.queue, self._lines = queue, Lines()
        self._is_best_effort = queue.strategy is QueueingStrategy.BEST_EFFORT_FIFO
        self._usage = self._local_usage if queue.usage_based else None  # where it decides who goes first

    @property
    def active(self) -> int:
        """How many will be tried as things are."""
        return len(self._lines) - self._lines.blocked

    @property
    def inadmissible(self) -> int:
        """How many wait for a change."""
        return len(self._aside) + self._lines.blocked

    def census(self) -> tuple[Census, Census]:
        """Of those who will be tried as things are, and of those who wait for a change."""
        tried: dict[EquivalenceClass, int] = {}
        waiting: dict[EquivalenceClass, int] = {}
        for kind, size in self._lines.sizes.items():
            counted = waiting if self._lines.is_blocked(kind) else tried
            counted[kind] = size
        for applicant in self._aside.values():
            waiting[applicant.kind] = waiting.get(applicant.kind, 0) + 1
        return tried, waiting

    def waiting_for_change(self) -> Iterator[Applicant]:
        """Those who wait for a change, in no order that means anything."""
        yield from self._aside.values()
        if self._lines.blocked:
            yield from (one for one in self._lines.all() if self._lines.is_blocked(one.kind))

    def everybody(self) -> list[Applicant]:
        """All who wait, in the order they would be tried."""
        return sorted([*self._lines.all(), *self._aside.values()], key=self._place)

    @property
    def has_next(self) -> bool:
        return bool(self._lines.firsts())

    def passed_over(self, key: Key) -> tuple[Applicant, Unreserved] | None:
        """The workload, if it is not tried because another of its class was refused since the last change; and why."""
        applicant = self._lines.get(key)
        why = None if applicant is None else self._refusals.get(applicant.kind)
        return None if applicant is None or why is None else (applicant, why)

    def offer(self, applicant: Applicant, now: float) -> bool:
        """The workload applies, or has changed. True when this may change who is next."""
        key, taken = applicant.workload.key, self._taken
        if taken is not None and taken.workload.key == key:
            self._taken = _going_on(applicant, taken)
            self._line_up(self._taken)
            return False
        aside = self._aside.pop(key, None)
        known = aside if aside is not None else self._lines.get(key)
        changed = known is None or _another_answer_is_possible(known, applicant)
        if known is not None:
            applicant = _going_on(applicant, known)
        stays_aside, in_line = aside is not None and not changed, aside is None and known is not None
        if stays_aside or (not in_line and not has_rested(applicant.workload, now)):
            self._set_aside(applicant)
            return False
        self._line_up(applicant)
        return changed and not self._lines.is_blocked(applicant.kind)

    def withdraw(self, key: Key) -> bool:
        """The workload no longer waits. True when it did."""
        self._skipped.pop(key, None)
        if self._preemptor is not None and self._preemptor[0] == key:
            self._preemptor = None
        if self._taken is not None and self._taken.workload.key == key:
            self._taken = None
        return self._lines.remove(key) is not None or self._aside.pop(key, None) is not None

    def take(self) -> Applicant | None:
        """The next to try, who keeps its place in line. It must come back by `bring_back`, or leave by `withdraw`."""
        assert self._taken is None, "one at a time"
        first = self._first()
        if first is not None:
            key, preemptor = first.workload.key, self._preemptor
            self._skipped.pop(key, None)
            is_preemptor = preemptor is not None and preemptor == (key, first.workload.generation)
            if first.is_preemptor is not is_preemptor:
                first = structs.replace(first, is_preemptor=is_preemptor)
        self._taken, self._woken_meanwhile = first, False
        return first

    def bring_back(self, key: Key, why: Requeue, progress: Progress | None, told: Unreserved) -> bool:
        """The taken workload was not admitted, for the reason that is told; True when it is in line again."""
        applicant, self._taken = self._taken, None
        assert applicant is not None and applicant.workload.key == key, "only what was taken comes back"
        skipped = progress is not None and why is Requeue.GENERIC
        if progress is None and applicant.progress is not None:
            progress = applicant.progress.forgotten
        applicant = _with_progress(applicant, progress)
        if why is Requeue.PENDING_PREEMPTION:
            self._preemptor = (key, applicant.workload.generation)
        if self._woken_meanwhile or skipped or self._comes_back_at_once(why, progress):
            if skipped and self._is_best_effort:
                self._skipped[key] = None
            self._line_up(applicant)
            return True
        if self._is_best_effort and why in SPEAKS_FOR_CLASS:
            self._refuse_all(applicant.kind, told, missed=progress is not None and progress.missed)
            self._line_up(applicant)
        else:
            self._lines.remove(key)
            self._set_aside(applicant)
        return False

    def _comes_back_at_once(self, why: Requeue, progress: Progress | None) -> bool:
        return comes_back_at_once(self.queue.strategy, why, progress is not None and progress.has_more)

    def _refuse_all(self, kind: EquivalenceClass, told: Unreserved, *, missed: bool) -> None:
        self._refusals[kind] = told
        if missed:
            self._missed[kind] = None
        self._lines.block(kind)

    def wake(self, may_enter: Callable[[str], bool], now: float) -> None:
        """Something changed: all set aside get another chance, but those that rest or may not enter."""
        self._refusals.clear()
        self._missed.clear()
        self._skipped.clear()
        self._lines.unblock_all()
        self._woken_meanwhile = True
        aside = self._aside.values() if self._aside else ()
        for applicant in [one for one in aside if has_rested(one.workload, now) and may_enter(one.key.namespace)]:
            del self._aside[applicant.key]
            self._line_up(applicant)

    @property
    def is_unsettled(self) -> bool:
        """Somebody waits for the end of all that goes on in the tree, to step aside or to try again."""
        return bool(self._skipped or self._missed)

    def step_aside(self) -> bool:
        """Who was skipped waits for a change from now on. True when someone is next instead."""
        skipped, self._skipped = self._skipped, {}
        for applicant in [self._lines.remove(key) for key in skipped]:
            if applicant is not None:
                self._set_aside(applicant)
        return bool(skipped) and self.has_next

    def try_again(self) -> bool:
        """Who left out flavors that may do by now lines up. True when someone is next."""
        kinds, self._missed = self._missed, {}
        for kind in kinds:
            self._refusals.pop(kind, None)
        self._lines.unblock(kinds)
        return bool(kinds) and self.has_next

    def ripen(self, now: float) -> bool:
        """Those whose rest has ended since they were set aside line up. True when there were any."""
        ready = False
        while self.resting and self.resting[0][0] <= now:
            until, key = heapq.heappop(self.resting)
            applicant = self._aside.get(key)
            if applicant is not None and _rests_until(applicant) == until and has_rested(applicant.workload, now):
                del self._aside[key]
                self._line_up(applicant)
                ready = True
        return ready

    def next_deadline(self) -> float | None:
        """When the next rest ends, or one that was cut short would have."""
        return self.resting[0][0] if self.resting else None

    def reconfigure(self, queue: ClusterQueue) -> None:
        """Another spec, so another order perhaps."""
        waiting = self._lines.all()
        self._follow(queue)
        for applicant in waiting:
            self._line_up(applicant)

    def _line_up(self, applicant: Applicant) -> None:
        """In one line, or in that of its local queue where these take turns."""
        in_common = self._usage is None
        self._lines.add("" if in_common else f"{applicant.key.namespace}/{applicant.workload.queue}", applicant)

    def _set_aside(self, applicant: Applicant) -> None:
        self._aside[applicant.key] = applicant
        until = _rests_until(applicant)
        if until is not None:
            heapq.heappush(self.resting, (until, applicant.key))

    def _first(self) -> Applicant | None:
        """The first of each line, and of these the one whose local queue used least; a preemptor before all others."""
        if self._preemptor is not None:
            sticky = self._sticky()
            if sticky is not None and not self._lines.is_blocked(sticky.kind):
                return sticky
        firsts = self._lines.firsts()
        if len(firsts) > 1:
            return min(firsts, key=self._place)
        return firsts[0] if firsts else None

    def _sticky(self) -> Applicant | None:
        """The workload whose victims are on their way out, as long as it is the one they leave for.

        A strict queue needs none, as whoever preempts is more important and so first, but where use goes before that.
        """
        if self._preemptor is None or not (self._is_best_effort or self._usage is not None):
            return None
        key, generation = self._preemptor
        applicant = self._lines.get(key)
        return applicant if applicant is not None and applicant.workload.generation == generation else None

    def _place(self, applicant: Applicant) -> tuple[bool, LocalUse, Rank]:
        """Were it not for the preemptor, a victim of a less busy local queue would come back before it, for ever."""
        usage = self._usage
        used = usage(applicant) if usage is not None else 0
        return applicant is not self._sticky(), used, applicant.rank


def _another_answer_is_possible(before: Applicant, now: Applicant) -> bool:
    """It changed, or what it asks for is counted or judged otherwise."""
    return before.kind != now.kind or before.problem != now.problem or differs(before.workload, now.workload)


def _going_on(applicant: Applicant, before: Applicant) -> Applicant:
    """The changed workload, with the flavors tried so far if it still asks for the same."""
    return _with_progress(applicant, before.progress if applicant.kind == before.kind else None)


def _with_progress(applicant: Applicant, progress: Progress | None) -> Applicant:
    return applicant if applicant.progress is progress else structs.replace(applicant, progress=progress)


def _rests_until(applicant: Applicant) -> float | None:
    requeue = applicant.workload.requeue
    return requeue.at if requeue is not None else None
