"""Which pods reserve capacity of Volcano's queues, since when, for how long, and in which order they come into force.

Reservations within what their queues deserve come first. Then, as among these, those of queues of higher priority, of
pods of higher priority, and those that were made first. What a queue deserves is given to its reservations in the same
order, whether or not there is capacity for them, so a pod's place depends on the objects alone. A pod that waits sets
aside the reservations that come after its own, and no others: so no two can set each other aside.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from headgate.model.keys import Key
from headgate.model.pod import GroupKey, Pod
from headgate.model.resources import Resources, total
from headgate.preemption.volcano import Use, may_reclaim, names_deserved
from headgate.quota.volcano import QueueTree, VolcanoQueueNode

ReservationPlace = tuple[int, int, float, float, Key]
"""Where a reservation stands among those within what their queues deserve, or among the others."""


JUST_NOW = sys.float_info.max
"""When a pod was let go that has no time: after all that have one, and before those that are not let go yet."""


class QueueReservation(Struct, frozen=True):
    """A pod that was let go and has no node."""

    pod: Pod
    queue: str

    def since(self, now: float) -> float:
        """The time on the pod. Without one, or with one to come, which only others can have written, it is just now:
        somebody else removed the gate, or the binding did not follow."""
        at = self.pod.reserved_at
        return at if at is not None and at <= now else JUST_NOW

    def same_as(self, other: QueueReservation) -> bool:
        """Whether the two differ in nothing that matters here but the time."""
        one, two = self.pod, other.pod
        same_pod = one.uid == two.uid and one.group == two.group and one.priority == two.priority
        return same_pod and self.queue == other.queue and one.shape.requests == two.shape.requests


class QueueReservations:
    """All of them; `in_force` are those whose capacity is kept."""

    def __init__(
        self,
        timeout: float,
        needed: Callable[[GroupKey], int],
        changing: Callable[[str], VolcanoQueueNode | None],
    ) -> None:
        self.timeout = timeout
        self.tree = QueueTree(())
        self._changing = changing  # the queue in this tree, of which other amounts are reserved from now on
        self._needed = needed  # how many pods of a group start together; none of one that is no gang or has started
        self.priorities: Mapping[str, int] = {}  # of queues that have one other than 0
        self._all: dict[Key, QueueReservation] = {}
        self._of_queue: dict[str, dict[Key, QueueReservation]] = {}
        self._of_group: Counter[GroupKey] = Counter()
        self.in_force: dict[Key, QueueReservation] = {}
        self.undated: list[Key] = []  # of these, those without a time when they were settled last
        self.beyond: dict[str, ReservationPlace] = {}  # `first_beyond` of queues that have such reservations
        self.kept_out = False  # whether one was not put in force for the sake of a pod that waits
        self.overdue = False  # whether time was over for one when they were settled last
        self.next_deadline: float | None = None  # when one expires, or may be made anew
        self.now = 0.0
        self.node_is_coming = False  # then reservations whose time is over stay, until they would rest no more

    def __len__(self) -> int:
        return len(self._all)

    def get(self, pod: Key) -> QueueReservation | None:
        return self._all.get(pod)

    def put(self, each: QueueReservation) -> None:
        """Takes in a reservation, or one that is the same but for what does not matter here."""
        if each.pod.key not in self._all and each.pod.group is not None:
            self._of_group[each.pod.group] += 1
        self._all[each.pod.key] = each
        self._of_queue.setdefault(each.queue, {})[each.pod.key] = each
        if each.pod.key in self.in_force:
            self.in_force[each.pod.key] = each

    def drop(self, pod: Key) -> QueueReservation | None:
        """The reservation of this pod, which has none from now on."""
        held, known = self.in_force.pop(pod, None), self._all.pop(pod, None)
        if held is not None:
            self.unreserve(held)
        if known is None:
            return None
        if known.pod.group is not None:
            self._of_group -= Counter((known.pod.group,))
        del self._of_queue[known.queue][pod]
        if not self._of_queue[known.queue]:
            del self._of_queue[known.queue]
            self.beyond.pop(known.queue, None)
        return known

    def has_group(self, group: GroupKey | None) -> bool:
        return group in self._of_group

    @property
    def any_of_groups(self) -> bool:
        return bool(self._of_group)

    # in force

    def reserve(self, each: QueueReservation) -> None:
        if (node := self._changing(each.queue)) is not None:
            node.reserve(each.pod.shape.requests)

    def unreserve(self, each: QueueReservation) -> None:
        if (node := self._changing(each.queue)) is not None:
            node.unreserve(each.pod.shape.requests)

    def put_in_force(self, each: QueueReservation) -> None:
        """One that was found to fit."""
        self.reserve(each)
        self.in_force[each.pod.key] = each
        self._wake_at((each,))

    def settle(
        self, node_is_coming: Callable[[], bool], is_kept_from: Callable[[QueueReservation], bool] | None
    ) -> list[list[QueueReservation]]:
        """Puts them in force as far as there is capacity, and returns all of them as `units`.

        `is_kept_from`: whether one would be evicted for a pod that waits; None if no pod does.
        """
        for held in self.in_force.values():
            self.unreserve(held)
        self.in_force.clear()
        self.kept_out, self.next_deadline = False, None
        units = self.units()
        self.overdue = any(map(self.is_over, units))
        self.node_is_coming = self.overdue and node_is_coming()
        levels = [level for level in map(self.tree.get, self._of_queue) if level is not None]
        first = {level.name: self.first_beyond(level) for level in levels}
        self.beyond = {queue: place for queue, place in first.items() if place is not None}
        for unit in units:
            self._wake_at(unit)
        counting = [unit for unit in units if self.counts(unit)]
        counting.sort(key=self._is_beyond)
        for unit in counting:
            self._reserve_together(unit)
        if is_kept_from is not None:
            self._keep_out(counting, is_kept_from)
        self.undated = [pod for pod, each in self.in_force.items() if each.since(self.now) == JUST_NOW]
        return units

    def take_undated(self) -> list[Key]:
        """The pods that have their capacity and no time since the last call."""
        undated, self.undated = self.undated, []
        held = ((pod, self.in_force.get(pod)) for pod in undated)
        return [pod for pod, each in held if each is not None and each.since(self.now) == JUST_NOW]

    def _reserve_together(self, unit: Sequence[QueueReservation]) -> None:
        """Puts those in force that fit, if they are as many as start together: any members of a gang."""
        for each in unit:
            node = self.tree.get(each.queue)
            if node is not None and node.queue.is_open and node.fits(each.pod.shape.requests):
                self.reserve(each)
                self.in_force[each.pod.key] = each
        self._keep_whole(unit)

    def _keep_whole(self, unit: Sequence[QueueReservation]) -> None:
        """Of a gang that has not started nothing is in force unless enough of it is."""
        held, group = [each for each in unit if each.pod.key in self.in_force], unit[0].pod.group
        if group is not None and held and len(held) < self._needed(group):
            for each in held:
                self._put_out(each)

    def _put_out(self, each: QueueReservation) -> None:
        self.unreserve(self.in_force.pop(each.pod.key))

    def _keep_out(self, units: list[list[QueueReservation]], is_kept_from: Callable[[QueueReservation], bool]) -> None:
        """Puts out whoever would be evicted for a pod that waits, the last first; others may have what is left."""
        for unit in reversed(units):
            self._give_way(unit, is_kept_from)
        for unit in units if self.kept_out else ():
            if not any(each.pod.key in self.in_force for each in unit):
                self._reserve_together(unit)
                self._give_way(unit, is_kept_from)

    def _give_way(self, unit: list[QueueReservation], is_kept_from: Callable[[QueueReservation], bool]) -> None:
        for each in unit:
            if each.pod.key in self.in_force and is_kept_from(each):
                self.kept_out = True
                self._put_out(each)
        self._keep_whole(unit)

    # order

    def place(self, pod: Pod, queue: str, since: float) -> ReservationPlace:
        return -self.priorities.get(queue, 0), -pod.priority, since, pod.created, pod.key

    def place_of(self, pod: Pod, queue: str) -> ReservationPlace:
        """Where the pod's reservation stands; one that is to be made would be the last of its priority."""
        return self.place(pod, queue, self.since(pod, queue))

    def since(self, pod: Pod, queue: str) -> float:
        """Since when the pod reserves capacity of this queue; infinite if it does not, or its time is over."""
        known = self._all.get(pod.key)
        if known is None or known.queue != queue or not self.counts([known]):
            return math.inf
        return known.since(self.now)

    def in_order(self, reservations: Iterable[QueueReservation]) -> list[QueueReservation]:
        return sorted(reservations, key=lambda one: self.place(one.pod, one.queue, one.since(self.now)))

    def units(self, queue: str = "") -> list[list[QueueReservation]]:
        """Pods by themselves, and those of a gang that has not started, in order; of one queue, or of all."""
        found = self._of_queue.get(queue, {}) if queue else self._all
        units: dict[Key | GroupKey, list[QueueReservation]] = {}
        groups = {each.pod.group for each in found.values() if each.pod.group is not None} if self._of_group else ()
        waiting = {group for group in groups if self._needed(group) > 0}
        for each in self.in_order(found.values()):
            group = each.pod.group
            units.setdefault(group if group is not None and group in waiting else each.pod.key, []).append(each)
        return list(units.values())

    def first_beyond(self, node: VolcanoQueueNode) -> ReservationPlace | None:
        """Where the reservations of this queue begin that are more than it deserves; None if they all are within."""
        before: list[Use] = []
        held = reserved_in(node)
        for unit in self.units(node.name):
            uses = [(node, each.pod.shape.requests) for each in unit if each.queue == node.name]
            if not self.counts(unit) or not names_deserved(uses):
                continue
            place = self.place(unit[0].pod, node.name, unit[0].since(self.now))
            below = self.before(place, node) if node.children else []
            earlier = [(node, each.pod.shape.requests) for each in below if each.queue != node.name]
            if not may_reclaim(uses, before + earlier, held):
                return place
            before += uses
        return None

    def rank_differently(self, queue: str) -> bool:
        """Whether those of this queue, or of one above it, begin elsewhere to be more than their queue deserves."""
        node = self.tree.get(queue)
        levels = [level for level in node.path() if level.name in self._of_queue] if node is not None else []
        return any(self.beyond.get(level.name) != self.first_beyond(level) for level in levels)

    def _is_beyond(self, unit: Sequence[QueueReservation]) -> bool:
        """Whether the reservations of a unit are more than their queue deserves, or behind some that are."""
        queue = unit[0].queue
        first, node = self.beyond.get(queue), self.tree.get(queue)
        if node is None or not names_deserved(
            [(node, each.pod.shape.requests) for each in unit if each.queue == queue]
        ):
            return True
        return first is not None and first <= self._place_of_unit(unit)

    def _place_of_unit(self, unit: Sequence[QueueReservation]) -> ReservationPlace:
        return self.place(unit[0].pod, unit[0].queue, unit[0].since(self.now))

    def after(self, place: ReservationPlace, queue: str, *, beyond: bool) -> list[QueueReservation]:
        """Those in force that come after one of this queue, which is more than it deserves or not, as `units`."""
        found: list[QueueReservation] = []
        for unit in self.units():
            theirs = self._place_of_unit(unit)
            own = unit[0].queue == queue
            if theirs > place if own else (self._is_beyond(unit), theirs) > (beyond, place):
                found += [each for each in unit if each.pod.key in self.in_force]
        return found

    def before(self, place: ReservationPlace, node: VolcanoQueueNode) -> list[QueueReservation]:
        """The reservations of this queue, and of those below it, that come before this place, in force or not."""
        found = [each for queue in self._with_below(node) for each in self._of_queue[queue].values()]
        return [each for each in found if self.counts([each]) and self.place_of(each.pod, each.queue) < place]

    def held_before(self, pod: Pod, node: VolcanoQueueNode) -> Resources:
        """What is in force of this queue, and of those below it, before the pod, which reserves anew or uses that."""
        if not node.reserved:
            return Resources()
        before = self.before(self.place_of(pod, node.name), node)
        return total(each.pod.shape.requests for each in before if each.pod.key in self.in_force)

    def _with_below(self, node: VolcanoQueueNode) -> list[str]:
        """The queue and those below it, of those that have reservations."""
        if not node.children:
            return [node.name] if node.name in self._of_queue else []
        levels = [(queue, self.tree.get(queue)) for queue in self._of_queue]
        return [queue for queue, level in levels if level is not None and any(each is node for each in level.path())]

    # time

    def counts(self, unit: Sequence[QueueReservation]) -> bool:
        """Whether their time is not over, or a node is being brought up that they may be waiting for."""
        return not self.is_over(unit) or (self.node_is_coming and self.now < self.rests_until(unit))

    def is_over(self, unit: Sequence[QueueReservation]) -> bool:
        return self.now >= self._since(unit) + self.timeout

    def rests_until(self, unit: Sequence[QueueReservation]) -> float:
        """When pods whose reservation has expired may reserve again, so that they do not do so at once."""
        return self._since(unit) + 2 * self.timeout

    def rests(self, pod: Pod) -> str | None:
        """Why the pod, whose time is over, does not reserve again yet; None if it may."""
        known = self._all.get(pod.key)
        if known is None or known.pod.reserved_at is None:
            return None
        rest = self.rests_until([known]) - self.now
        if not 0 < rest <= self.timeout:
            return None
        return (
            f"no node came within {self.timeout:g}s: it does not reserve capacity of queue {known.queue} any more, "
            f"and may again in {rest:.0f}s"
        )

    def has_had(self, pod: Pod) -> bool:
        """Whether the pod has its capacity, or had it for its time and no node came."""
        return pod.key in self.in_force or self.rests(pod) is not None

    def _deadlines(self, unit: Sequence[QueueReservation]) -> Iterator[float]:
        """When their time is over and when they may reserve again, if that is to come."""
        at = (self._since(unit) + self.timeout, self.rests_until(unit))
        yield from (each for each in at if self.now < each < JUST_NOW)

    def _wake_at(self, unit: Sequence[QueueReservation]) -> None:
        for at in self._deadlines(unit):
            if self.next_deadline is None or at < self.next_deadline:
                self.next_deadline = at

    def _since(self, unit: Sequence[QueueReservation]) -> float:
        return max(each.since(self.now) for each in unit)


def reserved_in(node: VolcanoQueueNode) -> list[Use]:
    """What is in force of this queue and of those below it."""
    return [(node, Resources.of(node.reserved))] if node.reserved else []
