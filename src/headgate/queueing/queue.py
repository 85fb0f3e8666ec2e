"""The scheduling queue: active, backoff, unschedulable and gated pods, and the cluster events that move them.

A pod group that is scheduled as one has one entry, under its `line_key`.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import StrEnum
from typing import Protocol

from msgspec import Struct, structs

from headgate.model.cluster_events import ClusterEvent
from headgate.model.keys import Key
from headgate.model.pod import GroupKey, Pod
from headgate.queueing.backoff import Backoff

MOST_STALE = 64
"""Entries of removed pods stay in a heap until they come up; at more than so many, and half of it, they are dropped."""


class PodEquivalenceClass:
    """Unschedulable pods for which every plugin gives the same answer.

    A cluster event moves one of them, the probe, instead of all. When the probe is placed the next one is moved; when
    it is refused the others stay where they are.
    """

    def __init__(self) -> None:
        self.wake_on: frozenset[ClusterEvent] = frozenset()
        self.refusals = 0  # in a row; after a rest as long as the longest backoff they are counted anew
        self.not_before = 0.0
        self.probe: Key | None = None
        self._members: dict[Key, QueuedPodInfo] = {}
        self._heap: list[tuple[QueueOrder, Key]] = []

    def sort(self) -> None:
        """The order of members has changed."""
        self._heap = sorted((each.order, each.key) for each in self._members.values())

    def __len__(self) -> int:
        return len(self._members)

    def add(self, info: QueuedPodInfo) -> None:
        info.queue = QueueName.UNSCHEDULABLE
        self._members[info.key] = info
        heapq.heappush(self._heap, (info.order, info.key))
        if len(self._heap) > 2 * len(self._members) + MOST_STALE:
            self.sort()

    def remove(self, key: Key) -> None:
        self._members.pop(key, None)

    def pop_first(self) -> QueuedPodInfo | None:
        """Removes and returns the first member in queue order; heap entries of removed members are skipped."""
        while self._heap:
            order, key = heapq.heappop(self._heap)
            info = self._members.get(key)
            if info is not None and info.order == order:
                del self._members[key]
                return info
        return None


class QueueName(StrEnum):
    """Which queue an entry is in; the values are the labels of scheduler_pending_pods."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"


QueueOrder = tuple[int, int, float, Key]
QueueTurn = tuple[int, tuple[int, ...], QueueOrder, str]
"""By what a Volcano queue takes its turn: its priority, its share, the order of its first entry, its name."""


class QueuedPodInfo(Struct):
    """An entry of the queue: a pod, or a pod group of which all needed members are placed or none is."""

    pod: Pod  # of a group, its oldest member
    queue: QueueName = QueueName.ACTIVE
    failures: int = 0  # attempts in a row after which a write failed; refusals do not count
    equivalence: Hashable = None  # key of its equivalence class; set when it is refused
    rejected_by: tuple[str, ...] = ()  # the plugins that rejected it last
    attempts: int = 0
    since: float = 0.0  # when it entered the queue; time behind gates does not count
    group: GroupKey | None = None
    pods: int = 1  # of the group
    queue_priority: int = 0  # of the Volcano queue it is in
    sharing: str = ""  # the Volcano queue it is in, if queues take turns by what they use of what they deserve

    @property
    def key(self) -> Key:
        return self.pod.key if self.group is None else self.group.line_key

    @property
    def order(self) -> QueueOrder:
        """Queues of higher priority first, then higher priority, older, by name: the same order after a restart."""
        return (-self.queue_priority, -self.pod.priority, self.pod.created, self.pod.key)


class QueueingEvent(StrEnum):
    """Why an entry changed queues; the values are the labels of scheduler_queue_incoming_pods_total."""

    POD_ADD = "PodAdd"
    SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
    BACKOFF_COMPLETE = "BackoffComplete"
    CLUSTER_EVENT = "ClusterEvent"


COUNTED_BY_PLUGIN = frozenset({QueueName.UNSCHEDULABLE, QueueName.GATED})


class VolcanoOrder(Protocol):
    """How entries of Volcano's queues take their turn."""

    def enters(self, info: QueuedPodInfo) -> None:
        """Takes in an entry that is to be tried, and gives it its rank."""

    def backs_off(self, info: QueuedPodInfo) -> None:
        """Takes in an entry that is to be tried after a backoff, and gives it its rank."""

    def rank(self, info: QueuedPodInfo) -> None:
        """Sets `queue_priority` and `sharing` of the entry as its queue is now."""

    @property
    def share_changes(self) -> int:
        """How often a share has changed."""

    def share_of(self, queue: str, first: Key) -> tuple[int, ...]:
        """What the queue, and those above it, use of what they deserve: of queues of equal priority the least first.

        What is reserved for its `first` entry does not count.
        """


class NoVolcanoOrder:
    share_changes = 0

    def enters(self, info: QueuedPodInfo) -> None:
        pass

    def backs_off(self, info: QueuedPodInfo) -> None:
        pass

    def rank(self, info: QueuedPodInfo) -> None:
        pass

    def share_of(self, queue: str, first: Key) -> tuple[int, ...]:
        return ()


class PodQueue:
    """Every entry is in exactly one queue. No calls but `gated_pods` and `reorder` look at all of them."""

    def __init__(self, backoff: Backoff, volcano: VolcanoOrder | None = None) -> None:
        self._backoff = backoff
        self._volcano = NoVolcanoOrder() if volcano is None else volcano
        self._infos: dict[Key, QueuedPodInfo] = {}
        self._active: list[tuple[QueueOrder, Key]] = []
        self._sharing: dict[str, list[tuple[QueueOrder, Key]]] = {}  # the active ones of queues that take turns
        self._turns: list[QueueTurn] = []  # of these queues: a heap, with turns that are over
        self._turns_at = 0  # how often a share had changed then
        self._in_backoff: list[tuple[float, QueueOrder, Key]] = []
        self._classes: dict[Hashable, PodEquivalenceClass] = {}
        self._listeners: dict[ClusterEvent, dict[Hashable, None]] = {event: {} for event in ClusterEvent}
        self._gated_for: dict[ClusterEvent, dict[Key, None]] = {event: {} for event in ClusterEvent}
        self._sizes = dict.fromkeys(QueueName, 0)
        self.incoming: Counter[tuple[QueueName, QueueingEvent]] = Counter()
        self.unschedulable_by: Counter[tuple[str, str]] = Counter()  # pods by plugin and profile

    def __contains__(self, key: Key) -> bool:
        return key in self._infos

    def get(self, key: Key) -> QueuedPodInfo | None:
        """The entry under this key, in whichever queue; a popped one is still there."""
        return self._infos.get(key)

    def queue_of(self, key: Key) -> QueueName | None:
        info = self._infos.get(key)
        return info.queue if info else None

    def waits_refused(self, key: Key) -> bool:
        """Whether the entry was refused and waits for another attempt; after a failed write it only backs off."""
        info = self._infos.get(key)
        if info is None:
            return False
        return info.queue is QueueName.UNSCHEDULABLE or (info.queue is QueueName.BACKOFF and not info.failures)

    @property
    def sizes(self) -> Mapping[QueueName, int]:
        return self._sizes

    def add(self, pod: Pod, now: float = 0.0) -> None:
        """Adds the pod to the active queue. A known pod whose demand did not change stays where it is."""
        known = self._infos.get(pod.key)
        if known is not None:
            if known.queue is not QueueName.GATED and same_demand(known.pod, pod):
                known.pod = pod
                return
            self.delete(pod.key)
        self._push_active(QueuedPodInfo(pod, since=now), QueueingEvent.POD_ADD)

    def update(self, pod: Pod) -> None:
        """The pod's own entry, if it has one, stays where it is and shows the node that the pod is nominated to.

        Unless its demand changed, which is for `add` to see, it shows the pod as it is now; a gated one always does.
        """
        known = self._infos.get(pod.key)
        if known is not None and known.pod.uid == pod.uid:
            nominated = structs.replace(known.pod, nominated=pod.nominated)
            known.pod = pod if known.queue is QueueName.GATED or same_demand(nominated, pod) else nominated

    def add_group(self, info: QueuedPodInfo, now: float) -> None:
        """Adds or replaces the group's entry: in the active queue, or in backoff after failed attempts."""
        self.delete(info.key)
        if info.failures:
            self._push_backoff(info, now + self._backoff.after(info.failures), QueueingEvent.SCHEDULE_ATTEMPT_FAILURE)
        else:
            self._push_active(info, QueueingEvent.POD_ADD)

    def activate(self, key: Key) -> None:
        """Moves an unschedulable entry or one in backoff to the active queue at once."""
        info = self._infos.get(key)
        if info is None or info.queue not in (QueueName.UNSCHEDULABLE, QueueName.BACKOFF):
            return
        self.delete(key)
        self._push_active(info, QueueingEvent.CLUSTER_EVENT)

    def reorder(self) -> None:
        """The order of Volcano queues has changed: every entry takes its place anew. No entry may be popped."""
        backoff = [(until, key) for until, order, key in self._in_backoff if self._is_at(QueueName.BACKOFF, order, key)]
        infos = self._infos
        for info in infos.values():
            self._volcano.rank(info)
        self._active, self._sharing, self._turns = [], {}, []
        for order, key in sorted((each.order, each.key) for each in infos.values() if each.queue is QueueName.ACTIVE):
            self._heap_of(infos[key]).append((order, key))
        for queue in self._sharing:
            self._take_turn(queue)
        self._in_backoff = sorted((until, infos[key].order, key) for until, key in backoff)
        for alike in self._classes.values():
            alike.sort()

    def back_off(self, key: Key, now: float, failures: int = 1) -> None:
        """Moves an unschedulable entry to backoff: so many writes on its behalf failed; 0: the object had changed."""
        info = self._infos.get(key)
        if info is None or info.queue is not QueueName.UNSCHEDULABLE:
            return
        self.delete(key)
        info.failures += failures
        after = self._backoff.after(max(info.failures, 1))
        self._push_backoff(info, now + after, QueueingEvent.SCHEDULE_ATTEMPT_FAILURE)

    def add_gated(self, pod: Pod, wake_on: frozenset[ClusterEvent] = frozenset(), plugin: str = "") -> None:
        """Adds the pod to the gated queue. The plugin that holds it is asked again on `wake_on`."""
        self.delete(pod.key)
        self._enter(QueuedPodInfo(pod, rejected_by=(plugin,)), QueueName.GATED, QueueingEvent.POD_ADD)
        for event in sorted(wake_on):
            self._gated_for[event][pod.key] = None

    def gated_for(self, events: Iterable[ClusterEvent]) -> list[Pod]:
        """The gated pods whose plugin is to be asked again on one of these."""
        keys: dict[Key, None] = {}
        for event in events:
            keys.update(self._gated_for[event])
        return [self._infos[key].pod for key in keys]

    def gated_pods(self) -> list[Pod]:
        """All gated pods."""
        return [info.pod for info in self._infos.values() if info.queue is QueueName.GATED]

    def delete(self, key: Key) -> None:
        """Removes the entry; if it was the probe of its class, another one is moved."""
        info = self._infos.get(key)
        if info is None:
            return
        self._leave(info)
        if info.queue is QueueName.GATED:
            for listeners in self._gated_for.values():
                listeners.pop(key, None)
        alike = self._classes.get(info.equivalence)
        if alike is None:
            return
        alike.remove(key)
        if alike.probe == key:
            self._send_probe(info.equivalence, alike)
        self._forget_if_empty(info.equivalence, alike)

    def pop(self) -> QueuedPodInfo | None:
        """The next entry to try. The caller ends the attempt by `add_unschedulable`, `add_backoff` or `done`."""
        heap = self._active if not self._sharing else self._next_heap()
        while heap:
            info = self._standing_in(heap, *heapq.heappop(heap))
            if info is not None:
                if not heap:
                    self._sharing.pop(info.sharing, None)
                return info
        return None

    def _standing_in(self, heap: list[tuple[QueueOrder, Key]], order: QueueOrder, key: Key) -> QueuedPodInfo | None:
        """The active entry that this one of the heap stands for; None if it is stale.

        A pod that is made anew within a second, in another Volcano queue, has the order it had, in another heap.
        """
        info = self._infos.get(key)
        if info is None or info.queue is not QueueName.ACTIVE or info.order != order:
            return None
        return info if heap is (self._sharing.get(info.sharing) if info.sharing else self._active) else None

    def _next_heap(self) -> list[tuple[QueueOrder, Key]]:
        """The entries among which the next one is: those of the queue whose turn it is, or of none.

        Of queues of equal priority the one with the lowest share is first; a pod of no queue takes its turn with the
        first pod of that one.
        """
        if self._turns_at != self._volcano.share_changes:
            self._turns_at, self._turns = self._volcano.share_changes, []
            self._sharing = {queue: heap for queue, heap in self._sharing.items() if heap}
            for queue in self._sharing:
                self._take_turn(queue)
        while self._active and self._standing_in(self._active, *self._active[0]) is None:
            heapq.heappop(self._active)
        while self._turns:
            _, _, order, queue = self._turns[0]
            heap = self._sharing.get(queue, [])
            while heap and self._standing_in(heap, *heap[0]) is None:
                heapq.heappop(heap)
            if heap and heap[0][0] == order:
                return self._active if self._active and self._active[0][0] < order else heap
            heapq.heappop(self._turns)
            if heap:
                self._take_turn(queue)
            else:
                self._sharing.pop(queue, None)
        return self._active

    def _take_turn(self, queue: str) -> None:
        """The queue takes its turn with its first entry, by its share as it is now."""
        order, first = self._sharing[queue][0]
        heapq.heappush(self._turns, (order[0], self._volcano.share_of(queue, first), order, queue))

    def _heap_of(self, info: QueuedPodInfo) -> list[tuple[QueueOrder, Key]]:
        return self._active if not info.sharing else self._sharing.setdefault(info.sharing, [])

    def pop_with(self, first: QueuedPodInfo, most: int, goes_with: Callable[[Pod, Pod], bool]) -> list[QueuedPodInfo]:
        """The entry just popped and the single pods directly behind it that `goes_with` accepts, at most so many."""
        together, last = [first], first
        heap = self._behind(first)
        while heap and len(together) < most and (last.equivalence is None or not self._is_probe_for_others(last)):
            info = self._standing_in(heap, *heap[0])
            if info is None or info is last:  # added anew, an entry is in the heap twice
                heapq.heappop(heap)
                continue
            if info.group is not None or not goes_with(first.pod, info.pod):
                break
            heapq.heappop(heap)
            if not heap:
                self._sharing.pop(info.sharing, None)
            together.append(info)
            last = info
        return together

    def requeue(self, info: QueuedPodInfo) -> None:
        """Puts a popped entry back in its place: it was not tried."""
        heapq.heappush(self._heap_of(info), (info.order, info.key))
        if info.sharing:
            self._take_turn(info.sharing)

    def _behind(self, first: QueuedPodInfo) -> list[tuple[QueueOrder, Key]]:
        """The entries behind the one just popped.

        While queues take turns by what they use, none follows: the turn of another queue may have come.
        """
        if not self._sharing:
            return self._active
        takes_turns = len(self._sharing) > 1 or self._active or not first.sharing
        return [] if takes_turns else self._sharing.get(first.sharing, [])

    def _is_probe_for_others(self, info: QueuedPodInfo) -> bool:
        """Whether no entry may be taken behind this one: if it is placed, those it was sent for are next."""
        alike = self._classes.get(info.equivalence)
        return alike is not None and alike.probe == info.key and len(alike) > 0

    def set_equivalence(self, info: QueuedPodInfo, alike: Hashable) -> None:
        """Puts the popped entry into this equivalence class. If it was the probe of another, that gets a new one."""
        before = self._classes.get(info.equivalence)
        if before is not None and before.probe == info.key and info.equivalence != alike:
            self._send_probe(info.equivalence, before)
            self._forget_if_empty(info.equivalence, before)
        info.equivalence = alike

    def add_unschedulable(self, info: QueuedPodInfo, wake_on: frozenset[ClusterEvent], now: float) -> None:
        """Ends an attempt: no node fits, and none will before one of these cluster events."""
        alike = self._classes.setdefault(info.equivalence, PodEquivalenceClass())
        was_probe = alike.probe == info.key
        if was_probe or not alike.refusals:
            rested = now >= alike.not_before + self._backoff.limit
            alike.refusals = 1 if rested else alike.refusals + 1
            alike.not_before = now + self._backoff.after(alike.refusals)
        if was_probe:
            alike.probe = None
        self._listen(info.equivalence, alike, wake_on)
        self._leave(info)
        alike.add(info)
        self._enter(info, QueueName.UNSCHEDULABLE, QueueingEvent.SCHEDULE_ATTEMPT_FAILURE)

    def add_backoff(self, info: QueuedPodInfo, now: float) -> None:
        """Ends an attempt whose binding failed: the entry goes to backoff."""
        info.failures += 1
        self._leave(info)
        self._push_backoff(info, now + self._backoff.after(info.failures), QueueingEvent.SCHEDULE_ATTEMPT_FAILURE)

    def done(self, info: QueuedPodInfo) -> None:
        """Ends an attempt that found a node: the entry leaves the queue and the next of its class is moved."""
        self._leave(info)
        alike = self._classes.get(info.equivalence)
        if alike is None:
            return
        alike.refusals, alike.not_before = 0, 0.0
        if alike.probe in (None, info.key):
            self._send_probe(info.equivalence, alike)
        self._forget_if_empty(info.equivalence, alike)

    def wake(self, events: Iterable[ClusterEvent], now: float) -> None:
        """Moves one probe of every equivalence class that listens for one of these events and has none out."""
        for name in self._listening(events):
            alike = self._classes[name]
            if alike.probe is None:
                self._send_probe(name, alike, now)

    def flush_backoff(self, now: float) -> None:
        """Moves the entries whose backoff is over to the active queue."""
        while self._in_backoff and self._in_backoff[0][0] <= now:
            _, order, key = heapq.heappop(self._in_backoff)
            info = self._infos.get(key)
            if info is not None and info.queue is QueueName.BACKOFF and info.order == order:
                self._leave(info)
                self._push_active(info, QueueingEvent.BACKOFF_COMPLETE)

    def next_deadline(self) -> float | None:
        """When the next backoff is over."""
        return self._in_backoff[0][0] if self._in_backoff else None

    def _listening(self, events: Iterable[ClusterEvent]) -> dict[Hashable, None]:
        names: dict[Hashable, None] = {}
        for event in events:
            names.update(self._listeners[event])
        return names

    def _listen(self, name: Hashable, alike: PodEquivalenceClass, wake_on: frozenset[ClusterEvent]) -> None:
        for event in sorted(alike.wake_on - wake_on):
            del self._listeners[event][name]
        for event in sorted(wake_on):
            self._listeners[event][name] = None
        alike.wake_on = wake_on

    def _send_probe(self, name: Hashable, alike: PodEquivalenceClass, now: float = 0.0) -> None:
        probe = alike.pop_first()
        alike.probe = probe.key if probe else None
        if probe is None:
            return
        self._leave(probe)
        if alike.not_before > now:
            self._push_backoff(probe, alike.not_before, QueueingEvent.CLUSTER_EVENT)
        else:
            self._push_active(probe, QueueingEvent.CLUSTER_EVENT)

    def _forget_if_empty(self, name: Hashable, alike: PodEquivalenceClass) -> None:
        if not len(alike) and alike.probe is None:
            self._listen(name, alike, frozenset())
            del self._classes[name]

    def _push_active(self, info: QueuedPodInfo, event: QueueingEvent) -> None:
        self._volcano.enters(info)  # it may be in another queue by now
        key = self._enter(info, QueueName.ACTIVE, event)
        heap = self._active if not info.sharing else self._heap_of(info)
        heapq.heappush(heap, (info.order, key))
        if info.sharing:
            self._take_turn(info.sharing)
        if len(heap) > 2 * len(self._infos) + MOST_STALE:
            entries = dict.fromkeys(heap)
            heap[:] = sorted(entry for entry in entries if self._standing_in(heap, *entry) is not None)

    def _is_at(self, queue: QueueName, order: QueueOrder, key: Key) -> bool:
        """Whether a heap entry is not stale."""
        info = self._infos.get(key)
        return info is not None and info.queue is queue and info.order == order

    def _push_backoff(self, info: QueuedPodInfo, until: float, event: QueueingEvent) -> None:
        self._volcano.backs_off(info)
        key = self._enter(info, QueueName.BACKOFF, event)
        heapq.heappush(self._in_backoff, (until, info.order, key))
        if len(self._in_backoff) > 2 * len(self._infos) + MOST_STALE:
            entries = dict.fromkeys(self._in_backoff)
            self._in_backoff = sorted(each for each in entries if self._is_at(QueueName.BACKOFF, *each[1:]))

    def _enter(self, info: QueuedPodInfo, queue: QueueName, event: QueueingEvent) -> Key:
        """Returns the key that the entry is under."""
        key, pods = info.key, info.pods
        info.queue = queue
        self._infos[key] = info
        self._sizes[queue] += pods
        self.incoming[queue, event] += pods
        if info.rejected_by:
            self._count_plugins(info, 1)
        return key

    def _leave(self, info: QueuedPodInfo) -> None:
        if self._infos.pop(info.key, None) is not None:
            self._sizes[info.queue] -= info.pods
            if info.rejected_by:
                self._count_plugins(info, -1)

    def _count_plugins(self, info: QueuedPodInfo, sign: int) -> None:
        if info.queue in COUNTED_BY_PLUGIN:
            for plugin in info.rejected_by:
                self.unschedulable_by[plugin, info.pod.scheduler_name] += sign * info.pods


def same_verdicts(one: Pod, other: Pod) -> bool:
    """Nothing that placement looks at differs, labels aside; nominations count by priority."""
    same_profile = one.scheduler_name == other.scheduler_name and one.nominated == other.nominated
    return same_profile and one.priority == other.priority and one.shape == other.shape


def same_demand(old: Pod, new: Pod) -> bool:
    """Nothing changed that could change its order, its placement or whom it may preempt."""
    same_object = old.uid == new.uid and old.created == new.created
    same_group = old.group == new.group and old.group_total == new.group_total and old.owner == new.owner
    return same_object and same_group and _looks_alike(old, new) and same_verdicts(old, new)


def _looks_alike(old: Pod, new: Pod) -> bool:
    return old.labels == new.labels and old.preempts == new.preempts
