"""What Volcano's queues have in use and allow, worked out once more from the objects alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from histories import PLAIN
from volcano_scenes import group_key, queue

from headgate.engine.scheduler.queue_refusals import opted_in
from headgate.model.keys import Key, Kind
from headgate.model.pod import GroupKey, Pod, Workload
from headgate.model.volcano import (
    DEFAULT_QUEUE,
    QUEUE_ANNOTATIONS,
    QUEUE_GATES,
    ROOT,
    DequeueStrategy,
    VolcanoQueue,
)

GROUPS = ("red", "blue")
HELD = ("waiting for its gang", "waiting for the gates", "waiting for PodGroup", "no PriorityClass")


class QueueView:
    """What every queue has in use and reserved, and what it allows, worked out from the objects as they are."""

    def __init__(self, objects) -> None:
        self.objects = objects
        self.queues = {each.name: each for each in objects.values() if isinstance(each, VolcanoQueue)}
        self.queues.setdefault(ROOT, queue(ROOT, None, ""))
        self.queues.setdefault(DEFAULT_QUEUE, queue(DEFAULT_QUEUE))
        self.own: Counter[str] = Counter()
        self.used: Counter[str] = Counter()
        self.pods = sorted((each for each in objects.values() if isinstance(each, Pod)), key=lambda each: each.key)
        self.placed = [each for each in self.pods if each.holds_room and self.queue_of(each)]
        self.reserving = [each for each in self.pods if reserves(each) and self.queue_of(each)]
        for each in self.placed:
            self.add(self.queue_of(each), each.shape.requests["cpu"])
        self.in_use = Counter(self.used)
        for each in self.reserving:
            self.add(self.queue_of(each), each.shape.requests["cpu"])
        self.shown = Counter(self.used)
        for each in self.pods:
            if is_held(each) and self.queue_of(each):
                self.add(self.queue_of(each), each.shape.requests["cpu"])

    def queue_of(self, one: Pod) -> str:
        group = self.objects.get(one.group.workload) if one.group is not None else None
        if isinstance(group, Workload):
            return group.volcano.queue
        return one.annotations.get(QUEUE_ANNOTATIONS[0]) or (DEFAULT_QUEUE if opted_in(one) else "")

    def path(self, name: str) -> list[str] | None:
        """The queue and those above it; None where it has no place."""
        found = []
        while name != ROOT:
            if name in found or name not in self.queues:
                return None
            found.append(name)
            name = self.queues[name].parent
        return [*found, ROOT]

    def add(self, name: str, cpu: int) -> None:
        self.own[name] += cpu
        for level in self.path(name) or ():
            self.used[level] += cpu

    def below(self, name: str) -> list[str]:
        return [each for each, one in self.queues.items() if one.parent == name and each != ROOT and self.path(each)]

    def limit(self, name: str) -> int | None:
        return dict(self.queues[name].capability.items).get("cpu")

    def kept(self, name: str) -> int:
        """Guaranteed to the queue, or to those below it."""
        if any(self._beyond(level) for level in (self.path(name) or ())[1:]):
            return 0
        own = max(self.queues[name].guarantee["cpu"], self._kept_below(name))
        return own if self.limit(name) is None else min(own, self.limit(name))

    def _kept_below(self, name: str) -> int:
        total = sum(self._claim(each) for each in self.below(name))
        return 0 if self.limit(name) is not None and total > self.limit(name) else total

    def _claim(self, name: str) -> int:
        own = max(self.queues[name].guarantee["cpu"], self._kept_below(name))
        return own if self.limit(name) is None else min(own, self.limit(name))

    def _beyond(self, name: str) -> bool:
        """Whether more is guaranteed below the queue than it may use: then none of that counts."""
        total = sum(self._claim(each) for each in self.below(name))
        return self.limit(name) is not None and total > self.limit(name)

    def cost(self, name: str) -> int:
        """What the queue takes from the one above: what is in use below, or is guaranteed."""
        return max(self.kept(name), self._inside(name))

    def _inside(self, name: str) -> int:
        return self.own[name] + sum(self.cost(each) for each in self.below(name))

    def takes_pods(self, name: str) -> bool:
        return self.path(name) is not None and self.queues[name].is_open

    def fits(self, name: str, cpu: int) -> bool:
        """Whether every level allows this much more, and leaves the queues beside it what they are guaranteed."""
        more = cpu
        for level in self.path(name) if cpu else ():
            limit, inside = self.limit(level), self._inside(level)
            if limit is not None and (self.used[level] + cpu > limit or (more and inside + more > limit)):
                return False
            more = max(self.kept(level), inside + more) - max(self.kept(level), inside)
        return True

    # who waits

    def waiting(self) -> Iterator[list[Pod]]:
        """Pods that wait behind our gate and no other, alone or as many of a gang as start together."""
        ready = [each for each in self.pods if is_ours(each) and each.wants_node and not set(each.gates) - QUEUE_GATES]
        for one in ready:
            if one.gates and self.needed(one) <= 0 and self._describes(one):
                yield [one]
        for name in GROUPS:
            members = [each for each in self.pods if each.group == GroupKey(group_key(name))]
            waiting = [each for each in members if each.wants_node]
            needed = self.needed(waiting[0]) if waiting else 0
            if needed > 0 and len(waiting) >= needed and all(each in ready for each in waiting):
                unit = sorted(waiting, key=lambda each: (each.created, each.key))[:needed]
                if self._describes(unit[0]) and any(each.gates for each in unit):
                    yield unit

    def needed(self, one: Pod) -> int:
        """How many pods of its gang start together; 0 for one that goes by itself."""
        there = [each for each in self.pods if each.group == one.group and each.holds_room and each.deleted is None]
        least = self.members_needed(one)
        return least - len(there) if least else 0

    def members_needed(self, one: Pod) -> int:
        group = self.objects.get(one.group.workload) if one.group is not None else None
        gang = group.groups[0].gang if isinstance(group, Workload) else None
        return gang.min_count if gang is not None else 0

    def _describes(self, one: Pod) -> bool:
        """Whether it is known how and how important its group is; what it asks for in all is not looked at here."""
        if one.group is None:
            return True
        group = self.objects.get(one.group.workload)
        if not isinstance(group, Workload) or group.volcano.min_resources.items:
            return False
        return not group.priority_class or Key(Kind.PRIORITY_CLASS, "", group.priority_class) in self.objects

    def allows(self, unit: list[Pod]) -> bool:
        name = self.queue_of(unit[0])
        if not self.takes_pods(name) or (self.queues[name].dequeue is DequeueStrategy.FIFO and self.before(unit[0])):
            return False
        if not self.fits(name, sum(each.shape.requests["cpu"] for each in unit if not reserves(each))):
            return False
        if any(self._waits_for_node(other, unit[0]) for other in self.pods):
            return False
        return not any(self._keeps_out(other, unit) for other in self._claimants(unit))

    def _waits_for_node(self, other: Pod, one: Pod) -> bool:
        """Whether the other queue takes back a node, which it keeps from pods of a higher priority."""
        lower = self.order(other)[0] > self.order(one)[0]
        return bool(other.nominated) and lower and self.queue_of(other) != self.queue_of(one)

    # what is kept for others

    def _claimants(self, unit: list[Pod]) -> Iterator[list[Pod]]:
        """Whoever else waits and may have pods evicted, alone or with its gang."""
        ready = [each for each in self.pods if is_ours(each) and each.wants_node and not set(each.gates) - QUEUE_GATES]
        for one in ready:
            if one in unit or one.scheduler_name == PLAIN or not one.preempts or reserves(one):
                continue
            if self.takes_pods(self.queue_of(one)):
                members = [each for each in ready if each.group == one.group] if self.needed(one) > 0 else [one]
                members.sort(key=lambda each: (bool(each.gates), each.created, each.key))
                yield members[: max(1, self.needed(one))]

    def _keeps_out(self, other: list[Pod], unit: list[Pod]) -> bool:
        """Whether these fit without the unit, once the pods that leave are gone, and would evict it otherwise."""
        ours, theirs = self.queue_of(unit[0]), self.queue_of(other[0])
        cpu = sum(each.shape.requests["cpu"] for each in unit if not reserves(each))
        wanted = sum(each.shape.requests["cpu"] for each in other)
        if ours == theirs:
            takes_back = self.order(other[0])[0] < self.order(unit[0])[0]
        else:
            within = self.used[theirs] + wanted <= self.queues[theirs].deserved["cpu"]
            takes_back = within and self.queues[ours].reclaimable
            takes_back &= self.used[ours] + cpu > self.queues[ours].deserved["cpu"]
        if not takes_back:
            return False
        leaving = [each for each in self.placed if each.deleted is not None]
        for each in leaving:
            self.add(self.queue_of(each), -each.shape.requests["cpu"])
        alone = self.fits(theirs, wanted)
        self.add(ours, cpu)
        beside = self.fits(theirs, wanted)
        self.add(ours, -cpu)
        for each in leaving:
            self.add(self.queue_of(each), each.shape.requests["cpu"])
        return alone and not beside

    def before(self, one: Pod) -> list[Pod]:
        """Those that wait for the same queue and come first, as far as the pods tell."""
        order = self.order(one)
        return [
            each
            for each in self.pods
            if is_ours(each) and each.wants_node and not reserves(each) and not set(each.gates) - QUEUE_GATES
            if each.group is None or each.group != one.group or self.needed(one) <= 0
            if self.queue_of(each) == self.queue_of(one) and self.order(each) < order
        ]

    def overtaken(self, one: Pod) -> list[Pod]:
        """Those in the same fifo queue that come first and stay gated."""
        found = self.queues.get(self.queue_of(one))
        if found is None or found.dequeue is not DequeueStrategy.FIFO or not one.gates:
            return []
        members = [each for each in self.pods if each.group == one.group] if self.needed(one) > 0 else [one]
        oldest = min(members, key=lambda each: (each.created, each.key))  # in its place its gang stands
        return [each for each in self.before(oldest) if each.gates and each.group is None]

    def order(self, one: Pod) -> tuple[int, float, Key]:
        group = self.objects.get(one.group.workload) if one.group is not None else None
        chosen = group.priority_class if isinstance(group, Workload) else ""
        found = self.objects.get(Key(Kind.PRIORITY_CLASS, "", chosen))
        priority = one.priority if not isinstance(group, Workload) else found.value if found is not None else 0
        return -priority, one.created, one.key


def is_ours(one: Pod) -> bool:
    return one.scheduler_name in ("headgate", PLAIN)


def reserves(one: Pod) -> bool:
    """Whether an autoscaler may buy a node for the pod."""
    says = one.scheduled.reason if one.scheduled is not None else ""
    return one.wants_node and not one.gates and opted_in(one) and says == "Unschedulable"


def has_started(before: Pod, after: Pod) -> bool:
    """Whether the pod got a node, or was let go without one."""
    return (bool(after.node) and not before.node) or (bool(before.gates) and not after.gates)


def is_held(one: Pod) -> bool:
    """Whether the pod was let go and its gang holds it: then it may reserve."""
    says = one.scheduled.message if one.scheduled is not None else ""
    return one.wants_node and not one.gates and opted_in(one) and says.startswith(HELD)
