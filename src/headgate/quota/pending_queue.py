"""The pending workloads of one ClusterQueue: queued, or inadmissible until something changes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Protocol

from msgspec import Struct, structs

from headgate.model.keys import Key
from headgate.model.queues import ClusterQueue, PreemptionProposal, QueueingStrategy
from headgate.quota import messages
from headgate.quota.ledger import LocalUse
from headgate.quota.pending_workload import (
    EquivalenceClass,
    PendingWorkload,
    Progress,
    Rank,
    differs,
    has_rested,
    tells_of_gates,
)


class Requeue(StrEnum):
    """Why a head is requeued."""

    GENERIC = ""
    FAILED_AFTER_NOMINATION = "FailedAfterNomination"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    PENDING_PREEMPTION = "PendingPreemption"
    PREEMPTION_FAILED = "PreemptionFailed"
    PODS_NOT_READY = "PodsNotReady"
    PREEMPTION_GATED = "PreemptionGated"
    CLASS_GATED = "PreemptionGatedForAll"  # as are all of its class
    NO_CANDIDATES = "PreemptionNoCandidates"
    NO_FIT = "NoFit"


_AT_ONCE = frozenset(
    {
        Requeue.FAILED_AFTER_NOMINATION,
        Requeue.PENDING_PREEMPTION,
        Requeue.PREEMPTION_FAILED,
        Requeue.PODS_NOT_READY,
    }
)
# found sooner than members of enums
_GENERIC, _PENDING_PREEMPTION, _STRICT = Requeue.GENERIC, Requeue.PENDING_PREEMPTION, QueueingStrategy.STRICT_FIFO
SPEAKS_FOR_CLASS = frozenset({Requeue.NO_FIT, Requeue.NO_CANDIDATES, Requeue.CLASS_GATED})
"""Reasons that hold for the whole equivalence class until something changes."""


ENDS_ROUND = frozenset({Requeue.PREEMPTION_GATED, Requeue.CLASS_GATED})
"""After these nothing is tried again until something else changes, and then every flavor is."""


def comes_back_at_once(strategy: QueueingStrategy, why: Requeue, has_more_flavors: bool) -> bool:
    """Whether a refused head stays queued: in StrictFIFO always, else if the next cycle may answer otherwise."""
    if strategy is _STRICT:
        return why is not Requeue.NAMESPACE_MISMATCH
    return why in _AT_ONCE or has_more_flavors


class Unreserved(StrEnum):
    """Why a workload has no quota; the values are the reasons of its condition QuotaReserved."""

    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    GATED = "AdmissionGated"
    PODS_NOT_READY = "WaitingForPodsReady"
    NO_FLAVOR = "NoMatchingFlavor"
    TOO_LARGE = "ExceedsMaxQuota"
    WAITING = "WaitingForQuota"
    TOPOLOGY = "TopologyPlacementFailed"
    PREEMPTING = "WaitingForPreemptedWorkloads"
    PENDING = "PendingEvaluation"


PRICED = frozenset({Unreserved.GATED, Unreserved.WAITING})
"""Reasons of a gated workload that depend on whom it could preempt."""


class ClassRefusal(Struct, frozen=True, gc=False):
    """Why all of an equivalence class wait, and of a gated one what preempting for each of them would cost."""

    reason: Unreserved
    proposal: PreemptionProposal | None = None
    message: str = messages.PASSED_OVER


BEHIND = ClassRefusal(Unreserved.WAITING, None, messages.BEHIND)


SLACK = 64  # positions left behind that are not worth a sweep
QueuePosition = tuple[int, float, str, Key]
"""A rank and its workload. A new tuple whenever a workload is queued, so that stale ones are known by identity."""


class _ClassMembers:
    """An equivalence class: its size, and a heap of positions in each line, the first of which is never stale.

    `told` is the refusal that was last passed on to all of them.
    """

    __slots__ = ("positions", "size", "told")

    def __init__(self) -> None:
        self.size = 0
        self.told: ClassRefusal | None = None
        self.positions: dict[str, list[QueuePosition]] = {}


class _Member(Struct, gc=False):
    head: PendingWorkload
    line: str
    same_class: _ClassMembers
    position: QueuePosition


class WorkloadLines:
    """Ordered lines of pending workloads by name. Only the first of every class is in the front of its line.

    So a class that is blocked costs nothing, however many belong to it. No call but `all` looks at everybody.
    """

    def __init__(self) -> None:
        self._members: dict[Key, _Member] = {}
        self._classes: dict[EquivalenceClass, _ClassMembers] = {}
        self._fronts: dict[str, list[QueuePosition]] = {}
        self._blocked: dict[EquivalenceClass, None] = {}

    def __len__(self) -> int:
        return len(self._members)

    @property
    def blocked(self) -> int:
        """How many belong to a blocked class."""
        return sum(self._classes[kind].size for kind in self._blocked if kind in self._classes)

    @property
    def sizes(self) -> Mapping[EquivalenceClass, int]:
        """How many belong to each class, blocked or not."""
        return {kind: same_class.size for kind, same_class in self._classes.items()}

    def get(self, key: Key) -> PendingWorkload | None:
        found = self._members.get(key)
        return found.head if found is not None else None

    def has_class(self, kind: EquivalenceClass) -> bool:
        """Whether anybody belongs to the class."""
        return kind in self._classes

    def is_blocked(self, kind: EquivalenceClass) -> bool:
        return kind in self._blocked

    def all(self) -> list[PendingWorkload]:
        return [member.head for member in self._members.values()]

    def add(self, line: str, pending: PendingWorkload) -> None:
        """Queues the workload in this line and no other; it keeps its position if rank and class are the same."""
        key, kind, rank = pending.workload.key, pending.kind, pending.rank
        known = self._members.get(key)
        if known is not None:
            before = known.head
            if known.line == line and before.rank == rank and before.kind == kind:
                known.head = pending
                return
            self.remove(key)
        same_class = self._classes.get(kind)
        if same_class is None:
            same_class = self._classes[kind] = _ClassMembers()
        position = (*rank, key)
        self._members[key] = _Member(pending, line, same_class, position)
        same_class.size += 1
        same_class.told = None
        positions = same_class.positions.setdefault(line, [])
        heapq.heappush(positions, position)
        if positions[0] is position:
            self._push_front(line, kind, position)

    def remove(self, key: Key) -> PendingWorkload | None:
        member = self._members.pop(key, None)
        if member is None:
            return None
        pending, same_class = member.head, member.same_class
        same_class.size -= 1
        if not same_class.size:
            del self._classes[pending.kind]
        elif same_class.positions[member.line][0] is member.position:
            self._advance_class(member.line, same_class, pending.kind)
        elif len(same_class.positions[member.line]) > 2 * same_class.size + SLACK:
            self._sweep(same_class.positions[member.line])
        return pending

    def firsts(self) -> list[PendingWorkload]:
        """The first of each line that is not blocked.

        Places left behind, of blocked classes, or behind others of the class are not looked at again.
        """
        found, fronts, members, blocked = [], self._fronts, self._members, self._blocked
        for line in sorted(fronts) if len(fronts) > 1 else tuple(fronts):
            front = fronts[line]
            while front:
                position = front[0]
                member = members.get(position[3])
                if (
                    member is not None
                    and member.position is position
                    and member.same_class.positions[line][0] is position
                ):
                    pending = member.head
                    if pending.kind not in blocked:
                        found.append(pending)
                        break
                heapq.heappop(front)
            if not front:
                del fronts[line]
        return found

    def untold(self, kind: EquivalenceClass, refusal: ClassRefusal) -> list[PendingWorkload]:
        """All of the class, unless they were told this refusal last; they are now."""
        same_class, members = self._classes.get(kind), self._members
        if same_class is None or same_class.told == refusal:
            return []
        same_class.told = refusal
        found = [(members.get(one[3]), one) for positions in same_class.positions.values() for one in positions]
        return [member.head for member, one in found if member is not None and member.position is one]

    def block(self, kind: EquivalenceClass) -> None:
        self._blocked[kind] = None

    def unblock_all(self) -> None:
        if self._blocked:
            self.unblock(tuple(self._blocked))

    def unblock(self, kinds: Iterable[EquivalenceClass]) -> None:
        for kind in kinds:
            self._blocked.pop(kind, None)
            same_class = self._classes.get(kind)
            if same_class is not None:
                for line, positions in same_class.positions.items():
                    self._push_front(line, kind, positions[0])

    def _push_front(self, line: str, kind: EquivalenceClass, position: QueuePosition) -> None:
        """A blocked class does so when it is unblocked."""
        if kind not in self._blocked:
            front = self._fronts.setdefault(line, [])
            heapq.heappush(front, position)
            if len(front) > SLACK and len(front) > 2 * len(self._members) + SLACK:
                self._sweep(front)

    def _sweep(self, positions: list[QueuePosition]) -> None:
        """Positions that were left behind stay in a heap until they come up; here they are swept out."""
        members = self._members
        current = {id(one): one for one in positions if one[3] in members and members[one[3]].position is one}
        positions[:] = current.values()
        heapq.heapify(positions)

    def _advance_class(self, line: str, same_class: _ClassMembers, kind: EquivalenceClass) -> None:
        """The first has left the line."""
        positions, members = same_class.positions[line], self._members
        while positions:
            found = members.get(positions[0][3])
            if found is not None and found.position is positions[0]:
                self._push_front(line, kind, positions[0])
                return
            heapq.heappop(positions)
        del same_class.positions[line]


LocalUsage = Callable[[PendingWorkload], LocalUse]
"""How much the local queue of this workload has used lately."""


class BackoffDeadlines(Protocol):
    """When the back-off of a workload is over, which is for the caller to watch."""

    def set(self, key: Key, at: float) -> None: ...

    def drop(self, key: Key) -> None: ...


Census = Mapping[EquivalenceClass, int]
"""How many there are of each class."""


class PendingQueue:
    """Every waiting workload is in line or set aside; one of those in line may be taken, and must be brought back.

    Set aside are single workloads, and all of a class one of which was refused for reasons that hold for all.
    """

    def __init__(
        self, queue: ClusterQueue, local_usage: LocalUsage | None, backoffs: BackoffDeadlines | None = None
    ) -> None:
        self._local_usage = local_usage
        self._backoffs = backoffs
        self._follow(queue)
        self._inadmissible: dict[Key, PendingWorkload] = {}
        self._refusals: dict[EquivalenceClass, ClassRefusal] = {}
        self._missed: dict[EquivalenceClass, None] = {}  # refused, but for flavors that may do by now
        self._skipped: dict[Key, None] = {}  # in line as long as anything goes on in the tree
        self._priced: dict[Key, None] = {}  # their status tells of closed gates
        self._taken: PendingWorkload | None = None
        self._woken_meanwhile = False
        self._preemptor: tuple[Key, int] | None = None  # with its generation
        self._claim_stands = False  # nothing changed since its victims were chosen

    def _follow(self, queue: ClusterQueue) -> None:
        self.queue, self._lines = queue, WorkloadLines()
        self._is_best_effort = queue.strategy is QueueingStrategy.BEST_EFFORT_FIFO
        self._usage = self._local_usage if queue.usage_based else None  # where it decides who goes first

    @property
    def active(self) -> int:
        """How many are evaluated as things are."""
        return len(self._lines) - self._lines.blocked

    @property
    def inadmissible(self) -> int:
        """How many wait until something changes."""
        return len(self._inadmissible) + self._lines.blocked

    def census(self) -> tuple[Census, Census]:
        """Counts by class of active workloads, and of inadmissible ones."""
        tried: dict[EquivalenceClass, int] = {}
        waiting: dict[EquivalenceClass, int] = {}
        for kind, size in self._lines.sizes.items():
            counted = waiting if self._lines.is_blocked(kind) else tried
            counted[kind] = size
        for pending in self._inadmissible.values():
            waiting[pending.kind] = waiting.get(pending.kind, 0) + 1
        return tried, waiting

    def waiting_for_change(self) -> Iterator[PendingWorkload]:
        """The inadmissible workloads, in no particular order."""
        yield from self._inadmissible.values()
        if self._lines.blocked:
            yield from (one for one in self._lines.all() if self._lines.is_blocked(one.kind))

    def everybody(self) -> list[PendingWorkload]:
        """All pending workloads, in the order they would be tried."""
        return sorted([*self._lines.all(), *self._inadmissible.values()], key=self._place)

    @property
    def has_next(self) -> bool:
        return bool(self._lines.firsts())

    def passed_over(self, key: Key) -> tuple[PendingWorkload, ClassRefusal] | None:
        """The workload, if it is not tried because another of its class was refused since the last change; and why.

        In a strict queue, if it tells of closed gates and waits behind another one.
        """
        pending = self._lines.get(key)
        if pending is None:
            return None
        if self._is_best_effort:
            why = self._refusals.get(pending.kind)
        else:
            why = BEHIND if key in self._priced and self._first() is not pending else None
        return None if why is None else (pending, why)

    def untold(self, head: PendingWorkload) -> list[PendingWorkload]:
        """Workloads that may say of their gates what is no longer so, now that the head was refused.

        Those of its class, if that refusal is not the one they were last told; in a strict queue, those behind it.
        """
        if not self._is_best_effort:
            return [found for key in self._priced if (found := self._lines.get(key)) is not None]
        refusal = self._refusals.get(head.kind) if head.kind.gated else None
        return [] if refusal is None else self._lines.untold(head.kind, refusal)

    def add(self, pending: PendingWorkload, now: float) -> bool:
        """The workload is new or has changed. True when this may change the head."""
        key, taken = pending.workload.key, self._taken
        if pending.kind.gated and tells_of_gates(pending.workload):
            self._priced[key] = None
        elif self._priced:
            self._priced.pop(key, None)
        if taken is not None and taken.workload.key == key:
            self._taken = _going_on(pending, taken)
            self._push(self._taken)
            return False
        aside = self._inadmissible.pop(key, None) if self._inadmissible else None
        in_line = self._lines.get(key) if aside is None else None
        known = aside or in_line
        changed = known is None or _another_answer_is_possible(known, pending)
        if known is not None:
            pending = _going_on(pending, known)
        if in_line is None and not (changed and has_rested(pending.workload, now)):
            self._mark_inadmissible(pending)
            return False
        self._push(pending)
        if known is not None and known.kind != pending.kind:
            self._drop_empty_class(known.kind)
        return changed and not self._lines.is_blocked(pending.kind)

    def delete(self, key: Key) -> bool:
        """The workload no longer waits. True when it did."""
        self._skipped.pop(key, None)
        self._priced.pop(key, None)
        if self._preemptor is not None and self._preemptor[0] == key:
            self._preemptor = None
        if self._taken is not None and self._taken.workload.key == key:
            self._taken = None
        removed = self._lines.remove(key)
        if removed is not None:
            self._drop_empty_class(removed.kind)
            return True
        if self._backoffs is not None:
            self._backoffs.drop(key)
        return self._inadmissible.pop(key, None) is not None

    def _drop_empty_class(self, kind: EquivalenceClass) -> None:
        """Nobody waits for what was refused to the class: the next of it is evaluated."""
        if kind in self._refusals and not self._lines.has_class(kind):
            self._refusals.pop(kind, None)
            self._missed.pop(kind, None)
            self._lines.unblock((kind,))

    def take(self) -> PendingWorkload | None:
        """The head, which keeps its position until it is requeued by `bring_back` or removed by `delete`."""
        assert self._taken is None, "one at a time"
        first = self._first()
        if first is not None:
            key, preemptor = first.workload.key, self._preemptor
            self._skipped.pop(key, None)
            is_preemptor = preemptor is not None and preemptor == (key, first.workload.generation)
            stands = is_preemptor and self._claim_stands
            if first.is_preemptor is not is_preemptor or first.claim_stands is not stands:
                first = structs.replace(first, is_preemptor=is_preemptor, claim_stands=stands)
        self._taken, self._woken_meanwhile = first, False
        return first

    def put_back(self) -> None:
        """The head was not decided; it is still the head, unless an earlier one comes."""
        self._taken = None

    def bring_back(self, key: Key, why: Requeue, progress: Progress | None, refusal: ClassRefusal) -> bool:
        """Requeues the head, which was refused like this; False when it is inadmissible now."""
        pending, self._taken = self._taken, None
        assert pending is not None and pending.workload.key == key, "only what was taken comes back"
        skipped = progress is not None and why is _GENERIC
        if progress is None and pending.progress is not None and why not in ENDS_ROUND:
            progress = pending.progress.forgotten
        pending = _with_progress(pending, progress)
        if why is _PENDING_PREEMPTION:
            self._preemptor = (key, pending.workload.generation)
            self._claim_stands = not self._woken_meanwhile
        if self._woken_meanwhile or skipped or self._comes_back_at_once(why, progress):
            if skipped and self._is_best_effort:
                self._skipped[key] = None
            self._push(pending)
            return True
        if self._is_best_effort and why in SPEAKS_FOR_CLASS:
            self._refuse_all(pending.kind, refusal, missed=progress is not None and progress.missed)
            self._push(pending)
        else:
            self._lines.remove(key)
            self._mark_inadmissible(pending)
        return False

    def _comes_back_at_once(self, why: Requeue, progress: Progress | None) -> bool:
        return comes_back_at_once(self.queue.strategy, why, progress is not None and progress.has_more)

    def _refuse_all(self, kind: EquivalenceClass, refusal: ClassRefusal, *, missed: bool) -> None:
        self._refusals[kind] = refusal
        if missed:
            self._missed[kind] = None
        self._lines.block(kind)

    def wake(self, may_enter: Callable[[str], bool], now: float) -> None:
        """Something changed: inadmissible workloads are queued again, but for those in back-off or kept out."""
        self._refusals.clear()
        self._missed.clear()
        self._skipped.clear()
        self._lines.unblock_all()
        self._woken_meanwhile = True
        self._claim_stands = False
        aside = self._inadmissible.values() if self._inadmissible else ()
        for pending in [one for one in aside if has_rested(one.workload, now) and may_enter(one.key.namespace)]:
            del self._inadmissible[pending.key]
            self._push(pending)

    def reprice(self, now: float) -> None:
        """Gated workloads are queued again if they may preempt now, or if that may cost something else."""
        kinds = [kind for kind, refusal in self._refusals.items() if kind.gated and refusal.reason in PRICED]
        for kind in kinds:
            del self._refusals[kind]
        self._lines.unblock(kinds)
        aside = self._inadmissible.values() if self._inadmissible else ()
        for pending in [one for one in aside if one.kind.gated and has_rested(one.workload, now)]:
            del self._inadmissible[pending.key]
            self._push(pending)

    @property
    def is_unsettled(self) -> bool:
        """Some workloads wait until nothing else is left to try in the tree."""
        return bool(self._skipped or self._missed)

    def step_aside(self) -> bool:
        """Skipped workloads become inadmissible. True when there is another head."""
        skipped, self._skipped = self._skipped, {}
        for pending in [self._lines.remove(key) for key in skipped]:
            if pending is not None:
                self._mark_inadmissible(pending)
        return bool(skipped) and self.has_next

    def try_again(self) -> bool:
        """Classes that left out flavors which may fit by now are unblocked. True when there is a head."""
        kinds, self._missed = self._missed, {}
        for kind in kinds:
            self._refusals.pop(kind, None)
        self._lines.unblock(kinds)
        return bool(kinds) and self.has_next

    def flush_backoff(self, key: Key, now: float) -> bool:
        """Queues the workload if it only waits for its back-off, and this is over. True when that is so."""
        pending = self._inadmissible.get(key)
        if pending is None or not has_rested(pending.workload, now):
            return False
        del self._inadmissible[key]
        self._push(pending)
        return True

    def reconfigure(self, queue: ClusterQueue) -> None:
        """The ClusterQueue's spec has changed: workloads are queued anew in its order."""
        waiting = self._lines.all()
        self._follow(queue)
        for pending in waiting:
            self._push(pending)

    def _push(self, pending: PendingWorkload) -> None:
        """Queues in one line, or in that of its LocalQueue where usage decides between these."""
        line = "" if self._usage is None else f"{pending.key.namespace}/{pending.workload.queue}"
        self._lines.add(line, pending)

    def _mark_inadmissible(self, pending: PendingWorkload) -> None:
        self._inadmissible[pending.key] = pending
        requeue = pending.workload.status.requeue
        if self._backoffs is not None and requeue is not None and requeue.at is not None:
            self._backoffs.set(pending.key, requeue.at)

    def _first(self) -> PendingWorkload | None:
        """The head: a preemptor first, then of the first of each line the one whose LocalQueue used least."""
        if self._preemptor is not None:
            sticky = self._sticky()
            if sticky is not None and not self._lines.is_blocked(sticky.kind):
                return sticky
        firsts = self._lines.firsts()
        if len(firsts) > 1:
            return min(firsts, key=self._place)
        return firsts[0] if firsts else None

    def _sticky(self) -> PendingWorkload | None:
        """The workload whose victims are on their way out, as long as it is the one they leave for.

        A strict queue needs none, as whoever preempts is more important and so first, but where use goes before that.
        """
        if self._preemptor is None or not (self._is_best_effort or self._usage is not None):
            return None
        key, generation = self._preemptor
        pending = self._lines.get(key)
        return pending if pending is not None and pending.workload.generation == generation else None

    def _place(self, pending: PendingWorkload) -> tuple[bool, LocalUse, Rank]:
        """Were it not for the preemptor, a victim of a less busy local queue would come back before it, for ever."""
        usage = self._usage
        used = usage(pending) if usage is not None else 0
        return pending is not self._sticky(), used, pending.rank


def _another_answer_is_possible(before: PendingWorkload, now: PendingWorkload) -> bool:
    """The workload or its requests changed in a way that may change the answer."""
    return before.kind != now.kind or before.problem != now.problem or differs(before.workload, now.workload)


def _going_on(pending: PendingWorkload, before: PendingWorkload) -> PendingWorkload:
    """The changed workload, with the flavors tried so far if it still asks for the same."""
    return _with_progress(pending, before.progress if pending.kind == before.kind else None)


def _with_progress(pending: PendingWorkload, progress: Progress | None) -> PendingWorkload:
    return pending if pending.progress is progress else structs.replace(pending, progress=progress)
