"""Allocations that preemption led to, so that preemption never goes in circles."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from headgate.quota.tree import QuotaNode

if TYPE_CHECKING:
    from headgate.quota.ledger import Reservation

MOST_ENTRIES = 2  # of one allocation, by preemptors that stay within nominal quota
MOST_EVICTIONS = 10  # of one workload by preemption, between two changes from outside
_MASK = (1 << 128) - 1
_STEP = 0x9E3779B97F4A7C15F39CC0605CEDC835  # odd, so that multiples of it differ in all bits


class _History:
    """One tree since tracking began. Allocations are sums of numbers, relative to the one tracking began with.

    `alike` counts workloads of the same queue, priority and usage as one and the same, `exact` tells them apart.
    """

    __slots__ = (
        "_numbers",
        "alike",
        "alike_entered",
        "evictions",
        "exact",
        "exact_entered",
        "preempted",
        "reserved",
        "withheld",
    )

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self.alike = self.exact = 0
        self.alike_entered: dict[int, int] = {0: 1}  # how often
        self.exact_entered: dict[int, int] = {0: 1}
        self.reserved: dict[str, Reservation] = {}  # preemptors by uid, with what they get once their victims are gone
        self.preempted: dict[str, tuple[int, int]] = {}  # victims by uid, with the allocation they make way for
        self.evictions: dict[str, int] = {}  # by uid
        self.withheld = False  # some preemption was

    def add(self, reservation: Reservation) -> None:
        alike, exact = self.numbers_of(reservation)
        self.alike, self.exact = (self.alike + alike) & _MASK, (self.exact + exact) & _MASK

    def remove(self, reservation: Reservation) -> None:
        alike, exact = self.numbers_of(reservation)
        self.alike, self.exact = (self.alike - alike) & _MASK, (self.exact - exact) & _MASK

    def numbers_of(self, reservation: Reservation) -> tuple[int, int]:
        """What the reservation adds to `alike` and `exact`."""
        known, like = self._numbers, (reservation.queue, reservation.priority, reservation.usage)
        alike = known.get(like) or self._new_number(like)
        own = known.get(reservation.uid) or self._new_number(reservation.uid)
        return alike, own * alike & _MASK

    def _new_number(self, of: Hashable) -> int:
        """A number of its own for everything, never 0, whose sums are no other's but by chance."""
        mixed = (len(self._numbers) + 1) * _STEP & _MASK
        mixed = (mixed ^ mixed >> 61) * _STEP & _MASK
        number = self._numbers[of] = mixed ^ mixed >> 67
        return number

    def enter(self) -> None:
        """The tree is in this allocation now."""
        self.alike_entered[self.alike] = self.alike_entered.get(self.alike, 0) + 1
        self.exact_entered[self.exact] = self.exact_entered.get(self.exact, 0) + 1

    def forget_entry(self, alike: int, exact: int) -> None:
        """The tree was never in this allocation after all."""
        for entered, allocation in ((self.alike_entered, alike), (self.exact_entered, exact)):
            if entered.get(allocation, 0) > 1:
                entered[allocation] -= 1
            else:
                entered.pop(allocation, None)


class Allocations:
    """For each tree of queues, the allocations entered since the last change from outside.

    An allocation is who holds which quota, where victims on their way out no longer count and the preemptors they
    make way for already do. Between changes from outside it decides what happens next; so a tree that enters one again
    goes in a circle. A tree is tracked from its first preemption on, until `forget`.
    """

    def __init__(self) -> None:
        self.histories: dict[QuotaNode, _History] = {}  # of the trees that are tracked

    def forget(self, root: QuotaNode) -> bool:
        """Something changed that preemption in this tree did not cause. True when a preemption had been withheld."""
        history = self.histories.pop(root, None)
        return history is not None and history.withheld

    def forget_all(self) -> bool:
        """As `forget`, of all trees."""
        withheld = any(history.withheld for history in self.histories.values())
        self.histories.clear()
        return withheld

    def withhold(self, root: QuotaNode) -> None:
        """A preemption in this tree waits for a change from outside."""
        history = self.histories.get(root)
        if history is not None:
            history.withheld = True

    def replace(self, root: QuotaNode, before: Reservation | None, after: Reservation | None) -> None:
        """The workload held `before` and holds `after`; None: nothing."""
        history = self.histories.get(root)
        if history is None:
            return
        if before is not None and not before.evicted:
            history.remove(before)
        if after is None:
            if before is not None:
                history.preempted.pop(before.uid, None)
        elif not after.evicted:
            self._arrive(history, before, after)

    def _arrive(self, history: _History, before: Reservation | None, after: Reservation) -> None:
        reserved = history.reserved.pop(after.uid, None)
        if reserved is not None:
            history.remove(reserved)
        history.add(after)
        if before is not None and before.evicted:
            self._not_evicted(history, after.uid)
        elif before is None and (reserved is None or reserved.usage != after.usage):
            history.enter()

    def _not_evicted(self, history: _History, uid: str) -> None:
        """Its eviction was decided and did not come about: whoever decided it may do so again."""
        entered = history.preempted.pop(uid, None)
        if entered is not None:
            history.forget_entry(*entered)
            history.evictions[uid] -= 1

    def drop_reservation(self, root: QuotaNode, uid: str) -> None:
        """The preemptor was refused, or preempts others instead."""
        history = self.histories.get(root)
        reserved = history.reserved.pop(uid, None) if history is not None else None
        if history is not None and reserved is not None:
            history.remove(reserved)

    def track(self, root: QuotaNode) -> None:
        """From now on the allocations of this tree are noted, the one it is in first."""
        if root not in self.histories:
            self.histories[root] = _History()

    def reserve(self, root: QuotaNode, preemptor: Reservation, victims: Sequence[Reservation]) -> None:
        """These were marked as evicted just now, for one that will hold what `preemptor` says."""
        history = self.histories.get(root)
        if history is None:
            return
        self.drop_reservation(root, preemptor.uid)
        history.reserved[preemptor.uid] = preemptor
        history.add(preemptor)
        for victim in victims:
            history.preempted[victim.uid] = history.alike, history.exact
            history.evictions[victim.uid] = history.evictions.get(victim.uid, 0) + 1
        if victims:
            history.enter()

    def plan(self, root: QuotaNode) -> AllocationPlan | None:
        """What this tree may do next without going in a circle; None while it may do anything."""
        history = self.histories.get(root)
        return AllocationPlan(history) if history is not None else None


class AllocationPlan:
    """What is decided about one tree in a cycle, one workload after the other, before any of it is settled."""

    __slots__ = ("_alike", "_exact", "_history")

    def __init__(self, history: _History) -> None:
        self._history = history
        self._alike, self._exact = history.alike, history.exact

    def closes_circle(self, preemptor: Reservation, victims: Sequence[Reservation], *, borrows: bool) -> bool:
        """Whether the preemption leads back to an allocation the tree was in before.

        Who takes back its nominal quota may do so once more: then the one who borrowed it is held back next time.
        """
        history = self._history
        new = [victim for victim in victims if not victim.evicted]
        if not new:
            return False  # they leave already
        if any(history.evictions.get(victim.uid, 0) >= MOST_EVICTIONS for victim in new):
            return True
        most = 1 if borrows else MOST_ENTRIES
        alike, exact = self._with(preemptor, new)
        if alike != self._alike:
            return history.alike_entered.get(alike, 0) >= most
        return history.exact_entered.get(exact, 0) >= most

    def refuse(self, uid: str) -> None:
        """The workload gets nothing in this cycle."""
        reserved = self._history.reserved.get(uid)
        if reserved is not None:
            alike, exact = self._history.numbers_of(reserved)
            self._alike, self._exact = (self._alike - alike) & _MASK, (self._exact - exact) & _MASK

    def admit(self, reservation: Reservation, victims: Sequence[Reservation] = ()) -> None:
        """The workload gets this, now or once the victims are gone."""
        self._alike, self._exact = self._with(reservation, [victim for victim in victims if not victim.evicted])

    def _with(self, reservation: Reservation, victims: Sequence[Reservation]) -> tuple[int, int]:
        history = self._history
        alike, exact = history.numbers_of(reservation)
        reserved = history.reserved.get(reservation.uid)
        for lost in victims if reserved is None else (*victims, reserved):
            less_alike, less_exact = history.numbers_of(lost)
            alike, exact = alike - less_alike, exact - less_exact
        return (self._alike + alike) & _MASK, (self._exact + exact) & _MASK
