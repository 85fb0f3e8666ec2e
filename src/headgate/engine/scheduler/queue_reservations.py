"""Which pods reserve capacity of Volcano's queues, since when, for how long, and in which order they come into force.

Reservations within what their queues deserve come first. Then, as among these, those of queues of higher priority, of
pods of higher priority, and those that were made first. What a queue deserves is given to its reservations in the same
order, whether or not there is capacity for them, so a pod's place depends on the objects alone. A pod that waits sets
aside the reservations that come after its own, and no others: so no two can set each other aside.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from headgate.model.groups import GroupKey
from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.model.resources import Resources
from headgate.preemption.volcano import Use, may_reclaim, names_deserved
from headgate.quota.volcano import VolcanoQueueNode

ReservationPlace = tuple[int, int, float, float, Key]
"""Where a reservation stands among those within what their queues deserve, or among the others."""


class QueueReservation(Struct, frozen=True):
    """A pod that was let go and has no node."""

    pod: Pod
    queue: str

    def since(self, now: float) -> float:
        """Times that are not over, which only others can have written, do not count."""
        at = self.pod.reserved_at
        return at if at is not None and at <= now else self.pod.created

    def same_as(self, other: QueueReservation) -> bool:
        one, two = self.pod, other.pod
        same_place = (one.priority, one.created, one.reserved_at) == (two.priority, two.created, two.reserved_at)
        same_pod = one.uid == two.uid and one.group == two.group
        return same_place and same_pod and self.queue == other.queue and one.shape.requests == two.shape.requests


class QueueReservations:
    """All of them; `in_force` are those whose capacity is kept."""

    def __init__(self, timeout: float, needed: Callable[[GroupKey], int]) -> None:
        self.timeout = timeout
        self._needed = needed  # how many pods of a group start together; none of one that is no gang or has started
        self.priorities: Mapping[str, int] = {}  # of queues that have one other than 0
        self._all: dict[Key, QueueReservation] = {}
        self._of_queue: dict[str, dict[Key, QueueReservation]] = {}
        self._of_group: Counter[GroupKey] = Counter()
        self.in_force: dict[Key, QueueReservation] = {}
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
        """The reservation of this pod, which has none from now on; it must not be in force."""
        known = self._all.pop(pod, None)
        if known is None:
            return None
        if known.pod.group is not None:
            self._of_group -= Counter((known.pod.group,))
        del self._of_queue[known.queue][pod]
        if not self._of_queue[known.queue]:
            del self._of_queue[known.queue]
        return known

    def has(self, queue: str) -> bool:
        return queue in self._of_queue

    def has_group(self, group: GroupKey | None) -> bool:
        return group in self._of_group

    @property
    def queues(self) -> Iterable[str]:
        return self._of_queue

    @property
    def any_of_groups(self) -> bool:
        return bool(self._of_group)

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
        held = self.held(node)
        for unit in self.units(node.name):
            uses = [(node, each.pod.shape.requests) for each in unit if each.queue == node.name]
            if not self.counts(unit) or not names_deserved(uses):
                continue
            if not may_reclaim(uses, before, held):
                return self.place(unit[0].pod, node.name, unit[0].since(self.now))
            before += uses
        return None

    def before(self, place: ReservationPlace, node: VolcanoQueueNode) -> list[QueueReservation]:
        """The reservations of this queue that come before this place, in force or not."""
        found = self._of_queue.get(node.name, {}).values()
        return [each for each in found if self.counts([each]) and self.place_of(each.pod, node.name) < place]

    def held(self, node: VolcanoQueueNode) -> list[Use]:
        """What is in force of this queue and of those below it."""
        return [(node, Resources.of(node.reserved))] if node.reserved else []

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

    def deadlines(self, unit: Sequence[QueueReservation]) -> Iterator[float]:
        """When their time is over and when they may reserve again, if that is to come."""
        yield from (at for at in (self._since(unit) + self.timeout, self.rests_until(unit)) if at > self.now)

    def _since(self, unit: Sequence[QueueReservation]) -> float:
        return max(each.since(self.now) for each in unit)
