"""Pods and groups that want nodes: whose turn it is, who waits for what, and which happening wakes whom."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from headgate.model.groups import GroupKey
from headgate.model.happenings import Happening
from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.queueing.backoff import Backoff


class Kin:
    """Pods that share every verdict: when the first of them is refused, so would be the others.

    A happening sends out one scout instead of all; its success sends the next, its refusal spares the rest.
    """

    def __init__(self) -> None:
        self.wake_on: frozenset[Happening] = frozenset()
        self.refusals = 0  # in a row
        self.not_before = 0.0
        self.scout: Key | None = None
        self._members: dict[Key, Waiting] = {}
        self._order: list[tuple[Rank, Key]] = []

    def __len__(self) -> int:
        return len(self._members)

    def add(self, waiting: Waiting) -> None:
        waiting.line = Line.UNSCHEDULABLE
        self._members[waiting.key] = waiting
        heapq.heappush(self._order, (waiting.rank, waiting.key))

    def remove(self, key: Key) -> None:
        self._members.pop(key, None)

    def pop_first(self) -> Waiting | None:
        """The member that goes before all others; entries of members that left are passed over."""
        while self._order:
            rank, key = heapq.heappop(self._order)
            waiting = self._members.get(key)
            if waiting is not None and waiting.rank == rank:
                del self._members[key]
                return waiting
        return None


class Line(StrEnum):
    """Where a waiting pod stands; the values are the labels of scheduler_pending_pods."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"


Rank = tuple[int, float, Key]


class Waiting(Struct):
    """One place in line: a pod's, or that of a group whose members go together or not at all."""

    pod: Pod  # of a group, the member that stands for it
    line: Line = Line.ACTIVE
    failures: int = 0  # attempts in a row that ended in trouble, not in a refusal
    kin: Hashable = None  # pods of equal kin get equal verdicts; set when it is refused
    refused_by: tuple[str, ...] = ()  # the plugins that last kept it from a node, or out of the queue
    attempts: int = 0
    since: float = 0.0  # when it first had its turn coming: time behind gates does not count
    group: GroupKey | None = None
    pods: int = 1  # how many stand here as one

    @property
    def key(self) -> Key:
        return self.pod.key if self.group is None else self.group.line_key

    @property
    def rank(self) -> Rank:
        """Higher priority first, then older, then by name: the same order after a restart."""
        return (-self.pod.priority, self.pod.created, self.pod.key)


class Cause(StrEnum):
    """What sent a pod to a line; the values are the labels of scheduler_queue_incoming_pods_total."""

    POD_CHANGED = "PodAdd"
    ATTEMPT_FAILED = "ScheduleAttemptFailure"
    BACKOFF_OVER = "BackoffComplete"
    HAPPENING = "ClusterEvent"


KEPT_BACK = frozenset({Line.UNSCHEDULABLE, Line.GATED})


class PodQueue:
    """Every waiting pod stands in exactly one line. No call looks at all of them."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._waiting: dict[Key, Waiting] = {}
        self._active: list[tuple[Rank, Key]] = []
        self._resting: list[tuple[float, Rank, Key]] = []
        self._kin: dict[Hashable, Kin] = {}
        self._listeners: dict[Happening, dict[Hashable, None]] = {happening: {} for happening in Happening}
        self._held_for: dict[Happening, dict[Key, None]] = {happening: {} for happening in Happening}
        self._sizes = dict.fromkeys(Line, 0)
        self.incoming: Counter[tuple[Line, Cause]] = Counter()  # pods that came to each line, by what sent them
        self.kept_by: Counter[tuple[str, str]] = Counter()  # parked and gated pods by plugin and profile

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting

    def get(self, key: Key) -> Waiting | None:
        """Who stands at this place, in whichever line."""
        return self._waiting.get(key)

    def line_of(self, key: Key) -> Line | None:
        waiting = self._waiting.get(key)
        return waiting.line if waiting else None

    @property
    def sizes(self) -> Mapping[Line, int]:
        return self._sizes

    def offer(self, pod: Pod, now: float = 0.0) -> None:
        """The pod wants a node and nothing holds it back. One that changed in nothing that matters keeps its place."""
        known = self._waiting.get(pod.key)
        if known is not None and known.line is not Line.GATED and same_demand(known.pod, pod):
            known.pod = pod
            return
        self.withdraw(pod.key)
        self._activate(Waiting(pod, since=now), Cause.POD_CHANGED)

    def offer_group(self, waiting: Waiting, now: float) -> None:
        """The group goes for its nodes as one; after attempts that ended in trouble, not before it has rested."""
        self.withdraw(waiting.key)
        if waiting.failures:
            self._rest(waiting, now + self._backoff.after(waiting.failures), Cause.ATTEMPT_FAILED)
        else:
            self._activate(waiting, Cause.POD_CHANGED)

    def hurry(self, key: Key) -> None:
        """What it waited for has come: whatever its rest, it is tried next time."""
        waiting = self._waiting.get(key)
        if waiting is None or waiting.line not in (Line.UNSCHEDULABLE, Line.BACKOFF):
            return
        self.withdraw(key)
        self._activate(waiting, Cause.HAPPENING)

    def try_later(self, key: Key, now: float) -> None:
        """What was being done for it ended in trouble; it is tried again after a while, longer each time."""
        waiting = self._waiting.get(key)
        if waiting is None or waiting.line is not Line.UNSCHEDULABLE:
            return
        self.withdraw(key)
        waiting.failures += 1
        self._rest(waiting, now + self._backoff.after(waiting.failures), Cause.ATTEMPT_FAILED)

    def hold(self, pod: Pod, wake_on: frozenset[Happening] = frozenset(), plugin: str = "") -> None:
        """The pod is gated: on record, never tried. Whoever holds it wants to be asked again on `wake_on`."""
        self.withdraw(pod.key)
        self._enter(Waiting(pod, refused_by=(plugin,)), Line.GATED, Cause.POD_CHANGED)
        for happening in sorted(wake_on):
            self._held_for[happening][pod.key] = None

    def held_for(self, happenings: Iterable[Happening]) -> list[Pod]:
        """The gated pods whose holder wants to be asked again on one of these."""
        keys: dict[Key, None] = {}
        for happening in happenings:
            keys.update(self._held_for[happening])
        return [self._waiting[key].pod for key in keys]

    def held(self) -> list[Pod]:
        """All gated pods."""
        return [waiting.pod for waiting in self._waiting.values() if waiting.line is Line.GATED]

    def withdraw(self, key: Key) -> None:
        """The pod no longer waits."""
        waiting = self._waiting.get(key)
        if waiting is None:
            return
        self._leave(waiting)
        if waiting.line is Line.GATED:
            for listeners in self._held_for.values():
                listeners.pop(key, None)
        kin = self._kin.get(waiting.kin)
        if kin is None:
            return
        kin.remove(key)
        if kin.scout == key:
            self._send_scout(waiting.kin, kin)
        self._forget_if_empty(waiting.kin, kin)

    def pop(self) -> Waiting | None:
        """The next pod to try. It must come back by `refused`, `failed` or `placed`."""
        while self._active:
            rank, key = heapq.heappop(self._active)
            waiting = self._waiting.get(key)
            if waiting is not None and waiting.line is Line.ACTIVE and waiting.rank == rank:
                return waiting
        return None

    def pop_with(self, first: Waiting, most: int, goes_with: Callable[[Pod, Pod], bool]) -> list[Waiting]:
        """The pod just popped and those that follow it directly and go with it, up to so many."""
        together = [first]
        while len(together) < most and (waiting := self._next_if(together, goes_with)) is not None:
            together.append(waiting)
        return together

    def put_back(self, waiting: Waiting) -> None:
        """The popped pod was not tried after all and keeps its turn."""
        heapq.heappush(self._active, (waiting.rank, waiting.key))

    def _next_if(self, together: list[Waiting], goes_with: Callable[[Pod, Pod], bool]) -> Waiting | None:
        """The next pod if it goes with the first of these; it is looked at before it is taken.

        One that was let in anew since stands there twice and must not be taken twice.
        """
        while self._active:
            rank, key = self._active[0]
            waiting = self._waiting.get(key)
            taken = waiting is together[-1]
            if waiting is not None and not taken and waiting.line is Line.ACTIVE and waiting.rank == rank:
                if waiting.group is not None or not goes_with(together[0].pod, waiting.pod):
                    return None
                heapq.heappop(self._active)
                return waiting
            heapq.heappop(self._active)
        return None

    def join(self, waiting: Waiting, kin: Hashable) -> None:
        """From now on the popped pod shares these verdicts. Had it gone to see for others, one of them goes instead."""
        before = self._kin.get(waiting.kin)
        if before is not None and before.scout == waiting.key and waiting.kin != kin:
            self._send_scout(waiting.kin, before)
            self._forget_if_empty(waiting.kin, before)
        waiting.kin = kin

    def refused(self, waiting: Waiting, wake_on: frozenset[Happening], now: float) -> None:
        """No node will do until one of these happens."""
        kin = self._kin.setdefault(waiting.kin, Kin())
        scouted = kin.scout == waiting.key
        if scouted or not kin.refusals:
            kin.refusals += 1
            kin.not_before = now + self._backoff.after(kin.refusals)
        if scouted:
            kin.scout = None
        self._listen(waiting.kin, kin, wake_on)
        self._leave(waiting)
        kin.add(waiting)
        self._enter(waiting, Line.UNSCHEDULABLE, Cause.ATTEMPT_FAILED)

    def failed(self, waiting: Waiting, now: float) -> None:
        """The attempt ended in trouble; try again after a while, longer each time."""
        waiting.failures += 1
        self._leave(waiting)
        self._rest(waiting, now + self._backoff.after(waiting.failures), Cause.ATTEMPT_FAILED)

    def placed(self, waiting: Waiting) -> None:
        """The pod found its node; if others of its kind wait, the next may go and see."""
        self._leave(waiting)
        kin = self._kin.get(waiting.kin)
        if kin is None:
            return
        kin.refusals, kin.not_before = 0, 0.0
        if kin.scout in (None, waiting.key):
            self._send_scout(waiting.kin, kin)
        self._forget_if_empty(waiting.kin, kin)

    def wake(self, happenings: Iterable[Happening], now: float) -> None:
        """One scout of every kind that listens for one of these goes out, if none is out already."""
        for name in self._listening(happenings):
            kin = self._kin[name]
            if kin.scout is None:
                self._send_scout(name, kin, now)

    def ripen(self, now: float) -> None:
        """Those whose rest is over may be tried again."""
        while self._resting and self._resting[0][0] <= now:
            _, rank, key = heapq.heappop(self._resting)
            waiting = self._waiting.get(key)
            if waiting is not None and waiting.line is Line.BACKOFF and waiting.rank == rank:
                self._leave(waiting)
                self._activate(waiting, Cause.BACKOFF_OVER)

    def next_deadline(self) -> float | None:
        """When the next rest is over."""
        return self._resting[0][0] if self._resting else None

    def _listening(self, happenings: Iterable[Happening]) -> dict[Hashable, None]:
        names: dict[Hashable, None] = {}
        for happening in happenings:
            names.update(self._listeners[happening])
        return names

    def _listen(self, name: Hashable, kin: Kin, wake_on: frozenset[Happening]) -> None:
        for happening in sorted(kin.wake_on - wake_on):
            del self._listeners[happening][name]
        for happening in sorted(wake_on):
            self._listeners[happening][name] = None
        kin.wake_on = wake_on

    def _send_scout(self, name: Hashable, kin: Kin, now: float = 0.0) -> None:
        scout = kin.pop_first()
        kin.scout = scout.key if scout else None
        if scout is None:
            return
        self._leave(scout)
        if kin.not_before > now:
            self._rest(scout, kin.not_before, Cause.HAPPENING)
        else:
            self._activate(scout, Cause.HAPPENING)

    def _forget_if_empty(self, name: Hashable, kin: Kin) -> None:
        if not len(kin) and kin.scout is None:
            self._listen(name, kin, frozenset())
            del self._kin[name]

    def _activate(self, waiting: Waiting, cause: Cause) -> None:
        self._enter(waiting, Line.ACTIVE, cause)
        heapq.heappush(self._active, (waiting.rank, waiting.key))

    def _rest(self, waiting: Waiting, until: float, cause: Cause) -> None:
        self._enter(waiting, Line.BACKOFF, cause)
        heapq.heappush(self._resting, (until, waiting.rank, waiting.key))

    def _enter(self, waiting: Waiting, line: Line, cause: Cause) -> None:
        waiting.line = line
        self._waiting[waiting.key] = waiting
        self._sizes[line] += waiting.pods
        self.incoming[line, cause] += waiting.pods
        self._count_keepers(waiting, 1)

    def _leave(self, waiting: Waiting) -> None:
        if self._waiting.pop(waiting.key, None) is not None:
            self._sizes[waiting.line] -= waiting.pods
            self._count_keepers(waiting, -1)

    def _count_keepers(self, waiting: Waiting, sign: int) -> None:
        if waiting.line in KEPT_BACK:
            for plugin in waiting.refused_by:
                self.kept_by[plugin, waiting.pod.scheduler_name] += sign * waiting.pods


def same_verdicts(one: Pod, other: Pod) -> bool:
    """Nothing that placement looks at differs, labels aside: room is promised by priority."""
    same_door = one.scheduler_name == other.scheduler_name and one.nominated == other.nominated
    return same_door and one.priority == other.priority and one.shape == other.shape


def same_demand(old: Pod, new: Pod) -> bool:
    """Nothing changed that could change its turn, its verdict or whom it may preempt."""
    same_object = old.uid == new.uid and old.created == new.created
    same_company = old.group == new.group and old.group_total == new.group_total and old.owner == new.owner
    return same_object and same_company and _looks_alike(old, new) and same_verdicts(old, new)


def _looks_alike(old: Pod, new: Pod) -> bool:
    return old.labels == new.labels and old.preempts == new.preempts
