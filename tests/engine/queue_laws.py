"""Laws of Volcano's queues over random histories. Each takes a seed.

Answers fail or are lost, reservations expire, and the process restarts at any moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from random import Random

from histories import PLAIN, BrokenLaw, History, said
from queue_histories import Controllers, QueueCluster, QueueMaking, SharingMaking, UngatedMaking
from queue_view import QueueView, has_started, reserves

from headgate.model.effects import (
    Bind,
    PatchSpec,
    PatchStatus,
    RemoveGate,
)
from headgate.model.events import Gone, Observed, Outcome, WriteError
from headgate.model.keys import Kind
from headgate.model.pod import ENDED, Pod
from headgate.model.settings import Profile, Settings, VolcanoSettings

LAWS = {}
"""Every law by its name."""
TIMEOUT = 600.0  # of reservations
SETTINGS = Settings(
    profiles=(Profile(), Profile(PLAIN, disabled=frozenset({"DefaultPreemption"}))),
    volcano=VolcanoSettings(reservation_timeout=TIMEOUT),
)
MOST_EVICTIONS = 2  # of one pod, between two changes from outside
BACKOFFS_ARE_OVER = 20.0  # seconds after which
MOST_ROUNDS = 40  # in which all pods there are must have run


def law(check):
    LAWS[check.__name__] = check
    return check


class QueueHistory(History):
    settings = SETTINGS
    worded = frozenset({"Unschedulable", "SchedulingGated"})
    horizon = 60.0  # less than reservations last: those expire and are made again for ever

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.lost: list[Bind] = []  # bindings whose answer was lost: they are sent again, not decided anew

    def begin(self):
        cluster = QueueCluster(self.dice)
        return cluster, QueueMaking(self.dice, cluster, self.told)

    def live(self) -> None:
        self.making.begin()
        for _ in range(12):
            self.making.act()
            if self.dice.random() < 0.08:
                self.restart()
            if self.dice.random() < 0.5:
                self.settle()
            else:
                for _ in range(self.dice.randrange(3)):
                    self.turn(self.dice.randrange(4), self.dice.randrange(4))
        self.settle()

    def settle(self) -> None:
        self.rest()
        self.compare()
        self.check()

    def restart(self) -> None:
        """The process dies with all that was decided and not done; another finds the cluster as it is."""
        self.told.append(f"{self.cluster.now:g}s restart")
        self.undone.clear()
        self.timers.clear()
        self.engine = self.process()
        self.cluster.news = deque(self.observations(self.engine))

    def _do(self, effect) -> None:
        if self.dice.random() < 0.03:
            self.told.append(f"    answer lost: {said(effect)}")
            self.cluster.perform(effect)
            kept = [each for each in self.cluster.news if not (isinstance(each, Outcome) and each.effect == effect)]
            self.cluster.news = deque([*kept, Outcome(effect, WriteError.UNKNOWN)])
        else:
            super()._do(effect)
        if isinstance(effect, Bind) and Outcome(effect, WriteError.UNKNOWN) in self.cluster.news:
            self.lost.append(effect)

    def decided(self, effects) -> None:
        """What must hold of decisions made on all there is to know."""
        if self.cluster.news or self.undone:
            return
        again = [effect for effect in effects if effect in self.lost]  # they may have arrived
        before = QueueView(self.cluster.objects | self._performed(again))
        after = QueueView(self.cluster.objects | self._performed(effects))
        freed = {each.key for each in after.pods if has_started(before.objects[each.key], each)}
        self._within(after, before.shown)
        for key in sorted(freed):
            self._whole(after, after.objects[key])
            overtaken = [each for each in before.overtaken(before.objects[key]) if each.key not in freed]
            if overtaken:
                raise BrokenLaw(f"{key.name} overtakes {overtaken[0].key.name} in a fifo queue\n{self.story}")

    def _performed(self, effects):
        """The pods as they will be when all of it is done."""
        changed = {}
        for effect in effects:
            if isinstance(effect, Bind | RemoveGate | PatchSpec | PatchStatus) and effect.target.key.kind is Kind.POD:
                known = changed.get(effect.target.key) or self.cluster.objects.get(effect.target.key)
                done = self.cluster._changed(known, effect) if known is not None else None
                if done is not None and not isinstance(done, WriteError):
                    changed[done.key] = done
        return changed

    def _within(self, view: QueueView, already: Mapping[str, int]) -> None:
        """Usage and reservations exceed a capability at no level, beyond what was there already."""
        for name in view.queues:
            limit, used = view.limit(name), view.shown[name]
            if limit is not None and used > max(limit, already[name]):
                numbers = f"{view.in_use[name]} in use, {used} with what is reserved, of {limit}"
                raise BrokenLaw(f"queue {name}: {numbers}\n{self.story}")

    def _whole(self, view: QueueView, one: Pod) -> None:
        """With the pod enough others of its gang are on nodes or were let go."""
        members = [each for each in view.pods if each.group == one.group and one.group is not None]
        started = [each for each in members if each.holds_room or (each.wants_node and not each.gates)]
        if view.members_needed(one) > len(started):
            raise BrokenLaw(f"{one.key.name} starts without its gang: {len(started)} members do\n{self.story}")

    def check(self) -> None:
        """What must hold at rest, by the objects alone."""
        view = QueueView(self.cluster.objects)
        self._within(view, view.in_use)
        for unit in view.waiting():
            if view.allows(unit):
                names = ", ".join(one.key.name for one in unit)
                raise BrokenLaw(f"{names} is gated and queue {view.queue_of(unit[0])} allows it\n{self.story}")


@law
def queues_are_decided_as_by_a_fresh_process(seed: int) -> None:
    """And limits hold, gates of others stay, gangs start whole, nobody overtakes in fifo queues or waits who fits."""
    QueueHistory(seed).live()


@law
def everybody_runs_in_the_end(seed: int) -> None:
    """One after another, as far as the queues allow, once nodes, queues and gates of others stand in nobody's way."""
    history = QueueHistory(seed)
    history.making.begin()
    for _ in range(10):
        history.making.act()
        history.turn(history.dice.randrange(4), history.dice.randrange(4))
    history.making.clear_the_way()
    for _ in range(MOST_ROUNDS):
        history.settle()
        if not history.making.finish_all():
            return
    raise BrokenLaw(f"somebody waits for ever\n{history.story}")


class Returning(QueueHistory):
    """Whoever is evicted is made anew by its controller."""

    def begin(self):
        cluster = Controllers(self.dice)
        return cluster, SharingMaking(self.dice, cluster, self.told)

    def rest(self) -> None:
        self.cluster.evictions.clear()
        super().rest()
        often = {name: count for name, count in self.cluster.evictions.items() if count > MOST_EVICTIONS}
        if often:
            raise BrokenLaw(f"evicted again and again: {often}\n{self.story}")


@law
def evictions_come_to_rest(seed: int) -> None:
    """Nobody is evicted again and again while nobody touches the cluster, although whoever is evicted comes back."""
    Returning(seed).live()


class Unfailing(Random):
    """Dice of a cluster where every write takes hold and every victim leaves at once."""

    def random(self) -> float:
        return 0.5


class Steady(QueueHistory):
    """A cluster where all that is decided is done at once."""

    def begin(self):
        cluster = QueueCluster(Unfailing(0))
        return cluster, UngatedMaking(self.dice, cluster, self.told)

    def _do(self, effect) -> None:
        self.cluster.perform(effect)

    def turn(self, events: int, effects: int) -> None:
        super().turn(events, 0)
        while self.undone:
            self._do(self.undone.popleft())

    def outcome(self):
        self.rest()
        self.check()
        return {one.key.name: verdict(one) for one in self.cluster.objects.values() if isinstance(one, Pod)}


class Crash(Steady):
    """A cluster as another history left it, and a process that dies before or after one of its writes, or does not."""

    def __init__(self, objects, now: float, at: int | None = None, done: bool = False) -> None:
        super().__init__(0)
        self.cluster.objects, self.cluster.now = dict(objects), now
        self.cluster._made = 10_000
        self.writes, self._at, self._done = 0, at, done
        self.restart()

    def sees(self, other: QueueCluster) -> None:
        """What has happened in the other cluster and nobody was told yet happens here."""
        self.cluster.now = other.now
        for event in other.news:
            self.cluster.news.append(event)
            if isinstance(event, Observed):
                self.cluster.objects[event.object.key] = event.object
            elif isinstance(event, Gone):
                self.cluster.objects.pop(event.key, None)

    def _do(self, effect) -> None:
        crashes = self.writes == self._at
        self.writes += 1
        if not crashes or self._done:
            self.cluster.perform(effect)
        if crashes:
            self.restart()


def verdict(one: Pod) -> str:
    if one.phase in ENDED or one.node:
        return "on a node" if one.node else "ended"
    return "gated" if one.gates else "reserves" if reserves(one) else "waits"


@law
def a_crash_changes_nothing_in_the_end(seed: int) -> None:
    """Before or after any write: the same pods run, wait and reserve. Which node one has may differ."""
    past = QueueHistory(seed)
    past.making.begin()
    for _ in range(past.dice.randrange(6)):
        past.making.act()
        past.rest()
    past.making.act()
    objects, now = past.cluster.objects, past.cluster.now
    calm = Crash(objects, now)
    expected = calm.outcome()
    for at in range(calm.writes):
        for done in (False, True):
            crashed = Crash(objects, now, at, done)
            found = crashed.outcome()
            if found != expected:
                stories = f"{past.story}\n-- undisturbed\n{calm.story}\n-- with the crash\n{crashed.story}"
                raise BrokenLaw(f"a crash {'after' if done else 'before'} write {at}: {expected} is {found}\n{stories}")


@law
def what_is_done_is_what_a_fresh_process_does(seed: int) -> None:
    """A change has the same pods run, wait and reserve as if the process had started right before it."""
    history = Steady(seed)
    history.making.begin()
    for _ in range(12):
        history.rest()
        fresh = Crash(history.cluster.objects, history.cluster.now)
        fresh.rest()
        history.cluster.now = max(history.cluster.now, fresh.cluster.now) + BACKOFFS_ARE_OVER
        history.making.act()
        fresh.sees(history.cluster)
        found, expected = history.outcome(), fresh.outcome()
        if found != expected:
            stories = f"{history.story}\n-- the fresh process\n{fresh.story}"
            raise BrokenLaw(f"a fresh process has {expected}, this one {found}\n{stories}")
