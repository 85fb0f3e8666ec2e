"""Pod scheduling: pods of our schedulerNames get nodes, one binding at a time, assumed until observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import assert_never

from msgspec import Struct

from headgate.engine import telling
from headgate.engine.choosing import Choosing
from headgate.engine.entrance import Entrance
from headgate.engine.extension_points import Plugins, plugins_for
from headgate.engine.journal import Entry, Journal
from headgate.engine.resolving import READS, Resolver
from headgate.engine.retries import Retries
from headgate.gates.pre_enqueue import PreEnqueue
from headgate.model.effects import Bind, Effect, PatchStatus, WakeAt
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, Trouble
from headgate.model.happenings import Happening
from headgate.model.keys import Key, Kind
from headgate.model.node import Node
from headgate.model.objects import Namespace
from headgate.model.pod import Pod
from headgate.model.settings import Point, Settings
from headgate.placement.attachments import Attachments
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import NoPlacement, Placement, Placer
from headgate.placement.table import NodeTable
from headgate.queueing.queue import PodQueue
from headgate.queueing.waiting import Backoff, Line, Waiting

Number = tuple[str, tuple[tuple[str, str], ...], int]
TIMER = "scheduling"
FLUSH_AFTER = 300.0  # seconds after which parked pods are tried in any case, should a happening have been missed


class Assumption(Struct):
    """A binding we decided and have not observed yet."""

    waiting: Waiting
    bind: Bind
    doubtful: bool = False  # an answer was lost: it may have taken hold, so only an observation or a yes settles it


class PodScheduling:
    """One plane of the engine. `absorb` takes what is now true, `decide` yields what to do about it."""

    reads = (Kind.NAMESPACE, Kind.NODE, *READS, Kind.POD)

    def __init__(self, settings: Settings, pre_enqueue: tuple[PreEnqueue, ...], journal: Journal) -> None:
        backoff = Backoff(settings.initial_backoff, settings.max_backoff)
        self._settings = settings
        self._journal = journal
        self.nodes = NodeTable(settings.seed)
        self._neighbours = Neighbours(self.nodes)
        self.queue = PodQueue(backoff)
        self.pods: dict[Key, Pod] = {}
        self.assumed: dict[Key, Assumption] = {}
        self._in_flight: dict[Key, Bind] = {}
        self._retries = Retries(backoff)
        attachments = Attachments(self.nodes)
        profiles = settings.profiles_in_full()
        self._resolver = Resolver(profiles, attachments)
        self._profiles = {p.scheduler_name: plugins_for(p, self._neighbours, attachments) for p in profiles}
        doors = {profile.scheduler_name: profile.kept(pre_enqueue, Point.PRE_ENQUEUE) for profile in profiles}
        self._entrance = Entrance(doors, self.queue, journal)
        placers = {name: Placer(plugins.rules) for name, plugins in self._profiles.items()}
        self._choosing = Choosing(self.queue, placers, self._resolver)
        self._attempts: Counter[tuple[str, str]] = Counter()
        self._happened: dict[Happening, None] = {}
        self._told: dict[Key, str] = {}
        self._alarm: float | None = None
        self._flush_at: float | None = None
        self._decided: list[Bind] = []

    def absorb(self, event: Event, now: float) -> Iterator[Effect]:
        match event:
            case Observed(object=Pod() as pod):
                yield from self._observe_pod(pod, now)
            case Observed(object=Node() as node):
                self._observe_node(node)
            case Observed(object=Namespace() as namespace):
                if self._neighbours.relabel(namespace.key.name, namespace.labels):
                    self._happened[Happening.NEIGHBOURS_CHANGED] = None
            case Observed(object=other):
                for happening in self._resolver.observe(other):
                    self._happened[happening] = None
            case TimerFired():
                pass
            case Gone(key=key, uid=uid):
                self._lose(key, uid)
            case Outcome(effect=Bind() as bind):
                yield from self._bind_answered(bind, event, now)
            case Outcome(effect=PatchStatus() as patch):
                self._patch_answered(patch, event, now)
            case Outcome():
                pass
            case _:
                assert_never(event)

    def decide(self, now: float) -> Iterator[Effect]:
        self._decided = []
        yield from self._wake(now)
        for waiting, found in self._choosing.verdicts(self._room_in_flight):
            yield from self._act(waiting, found, now)
        yield from self._entrance.settle(now)
        yield from self._try_again(now)
        yield from self._wake_later(now)

    def check(self) -> None:
        """What must hold after every step, for what this step touched."""
        for bind in self._decided:
            shape = self.pods[bind.target.key].shape
            short = self.nodes.shortage(bind.node, shape)
            assert short is None, f"{bind.target.key} was placed on {bind.node} without room: {short}"
            assert bind.target.key not in self.queue, f"{bind.target.key} both waits and is assumed"

    def numbers(self) -> Iterator[Number]:
        """What can be counted or measured now, by metric, labels and value."""
        for line, size in self.queue.sizes.items():
            yield "scheduler_pending_pods", (("queue", line),), size
        for (line, cause), count in self.queue.incoming.items():
            yield "scheduler_queue_incoming_pods_total", (("event", cause), ("queue", line)), count
        for (plugin, profile), size in self.queue.kept_by.items():
            yield "scheduler_unschedulable_pods", (("plugin", plugin), ("profile", profile)), size
        for (result, profile), count in self._attempts.items():
            yield "scheduler_schedule_attempts_total", (("profile", profile), ("result", result)), count

    # what is now true

    def _observe_pod(self, pod: Pod, now: float) -> Iterator[Effect]:
        known = self.pods.get(pod.key)
        if known is not None and known.uid != pod.uid:
            self._lose(pod.key, known.uid)
        self.pods[pod.key] = pod
        if pod.holds_room:
            self._confirm(pod)
        elif not pod.wants_node:
            self._drop(pod.key)
        elif (assumption := self.assumed.get(pod.key)) is not None:
            assumption.waiting.pod = pod  # seen before our binding took hold
        elif pod.scheduler_name in self._profiles:
            self._neighbours.nominations.put(pod)
            yield from self._entrance.present(pod, now)

    def _confirm(self, pod: Pod) -> None:
        """The pod runs where it says, whatever we assumed."""
        self._waits_no_more(pod.key)
        for happening in self.nodes.charge(pod, pod.node):
            self._happened[happening] = None

    def _drop(self, key: Key) -> None:
        """The pod takes no room and wants none."""
        reserved = self._give_back(key)
        promised = self._waits_no_more(key)
        if self.nodes.release(key) or reserved or promised:
            self._happened[Happening.ROOM_FREED] = None

    def _give_back(self, key: Key) -> bool:
        """What a placed pod took hold of before it was bound; False when it had not been placed."""
        assumption = self.assumed.get(key)
        if assumption is None:
            return False
        for rule in self._plugins(assumption.waiting.pod).reserve:
            rule.unreserve(key)
        return True

    def _waits_no_more(self, key: Key) -> bool:
        """Forget all that concerned its waiting; True when room was promised to it."""
        assumption = self.assumed.pop(key, None)
        if assumption is not None:
            self._retries.settled(assumption.bind)
        self._in_flight.pop(key, None)
        self._told.pop(key, None)
        self._entrance.forget(key)
        self.queue.withdraw(key)
        return self._neighbours.nominations.drop(key)

    def _observe_node(self, node: Node) -> None:
        known = self.nodes.get(node.name)
        if known is not None and _same_for_scheduling(known, node):
            return
        self.nodes.put(node)
        self._happened[Happening.NODE_ADDED if known is None else Happening.NODE_CHANGED] = None

    def _lose(self, key: Key, uid: str) -> None:
        if key.kind is Kind.NODE:
            known_node = self.nodes.get(key.name)
            if known_node is not None and known_node.uid == uid:
                self.nodes.drop(key.name)
        for happening in self._resolver.lose(key, uid):
            self._happened[happening] = None
        known = self.pods.get(key)
        if known is not None and known.uid == uid:
            self._drop(key)
            del self.pods[key]
            self._journal.forget(key)

    # how effects went

    def _bind_answered(self, bind: Bind, outcome: Outcome, now: float) -> Iterator[Effect]:
        key = bind.target.key
        self._in_flight.pop(key, None)
        assumption = self.assumed.get(key)
        if outcome.trouble is None and (pod := self.pods.get(key)) is not None and pod.uid == bind.target.uid:
            yield telling.scheduled_event(pod, bind.node, now)
        if assumption is None or assumption.bind != bind:
            return
        if outcome.trouble is None:
            assumption.doubtful = False
            self._retries.settled(bind)
        elif _still_in_doubt(assumption, outcome.trouble):
            assumption.doubtful = True
            self._retries.add(bind, now)
        else:
            self._forget(assumption, outcome, now)

    def _forget(self, assumption: Assumption, outcome: Outcome, now: float) -> None:
        """The binding did not take hold: give the room back and let the pod try again after a while."""
        waiting, key = assumption.waiting, assumption.bind.target.key
        self._attempts["error", waiting.pod.scheduler_name] += 1
        self._journal.write(telling.forgotten(waiting.pod, assumption.bind, outcome, now))
        self._drop(key)
        if waiting.pod.wants_node:
            self.queue.failed(waiting, now)

    def _patch_answered(self, patch: PatchStatus, outcome: Outcome, now: float) -> None:
        if outcome.trouble in (Trouble.UNAVAILABLE, Trouble.UNKNOWN) and patch.target.key in self.queue:
            self._retries.add(patch, now)
        else:
            self._retries.settled(patch)

    # what to do

    def _wake(self, now: float) -> Iterator[Effect]:
        """Those whom something that happened may concern, those who have rested, and now and then everyone."""
        happened, self._happened = self._happened, {}
        if self._flush_at is not None and self._flush_at <= now:
            self._flush_at = None
            happened = dict.fromkeys(Happening)
            yield from self._entrance.ask_all(now)
        yield from self._entrance.wake(happened, now)
        self.queue.wake(happened, now)
        self.queue.ripen(now)

    def _room_in_flight(self) -> int:
        return self._settings.max_in_flight - len(self._in_flight)

    def _act(self, waiting: Waiting, found: Placement | NoPlacement, now: float) -> Iterator[Effect]:
        waiting.attempts += 1
        match found:
            case Placement():
                self._attempts["scheduled", waiting.pod.scheduler_name] += 1
                yield from self._assume(waiting, found, now)
            case NoPlacement():
                self._attempts["unschedulable", waiting.pod.scheduler_name] += 1
                waiting.kin, waiting.refused_by = self._choosing.kin(waiting.pod), found.filters
                self.queue.refused(waiting, found.wake_on, now)
                yield from self._explain(waiting.pod, found, now)
            case _:
                assert_never(found)

    def _assume(self, waiting: Waiting, found: Placement, now: float) -> Iterator[Effect]:
        pod, plugins = waiting.pod, self._plugins(waiting.pod)
        self.queue.placed(waiting)
        for rule in plugins.reserve:
            rule.reserve(pod, found.node)
        self._happened[Happening.NEIGHBOURS_CHANGED] = None
        for bind in plugins.binder.bind(pod, found.node):
            self.assumed[pod.key] = Assumption(waiting, bind)
            self._in_flight[pod.key] = bind
            self._decided.append(bind)
            self._journal.write(telling.bound(waiting, found, now))
            yield bind

    def _explain(self, pod: Pod, found: NoPlacement, now: float) -> Iterator[Effect]:
        entry = telling.refused(pod, found, now)
        if not self._tell(entry):
            return
        for effect in telling.condition_and_event(pod, entry):
            if isinstance(effect, PatchStatus):
                self._retries.settled(effect)  # an older text must not come after this one
            yield effect

    def _try_again(self, now: float) -> Iterator[Effect]:
        for effect in self._retries.due(now):
            if isinstance(effect, Bind):
                self._in_flight[effect.target.key] = effect
            elif effect.target.key not in self.queue:
                self._retries.settled(effect)  # it waits no longer: what the condition was to say is not true any more
                continue
            yield effect

    def _wake_later(self, now: float) -> Iterator[Effect]:
        """One alarm for whatever comes first; a later one is set when it has rung."""
        if self._alarm is not None and self._alarm <= now:
            self._alarm = None
        deadlines = [at for at in (self.queue.next_deadline(), self._retries.next_deadline()) if at is not None]
        if deadlines and (self._alarm is None or min(deadlines) < self._alarm):
            self._alarm = max(min(deadlines), now)
            yield WakeAt(self._alarm, TIMER)
        if self._flush_at is None and (self.queue.sizes[Line.UNSCHEDULABLE] or self.queue.sizes[Line.GATED]):
            self._flush_at = now + FLUSH_AFTER
            yield WakeAt(self._flush_at, TIMER, idle=True)

    def _tell(self, entry: Entry) -> bool:
        """Write the entry unless it says what was said last."""
        if self._told.get(entry.key) == entry.message:
            return False
        self._told[entry.key] = entry.message
        self._journal.write(entry)
        return True

    def _plugins(self, pod: Pod) -> Plugins:
        return self._profiles[pod.scheduler_name]


def _same_for_scheduling(old: Node, new: Node) -> bool:
    return (
        old.uid == new.uid
        and old.labels == new.labels
        and old.allocatable == new.allocatable
        and old.taints == new.taints
        and old.unschedulable == new.unschedulable
        and old.images == new.images
    )


def _still_in_doubt(assumption: Assumption, trouble: Trouble) -> bool:
    """After a lost answer, a conflict may be our own binding: the room stays taken until the truth is seen."""
    return trouble is Trouble.UNKNOWN or (assumption.doubtful and trouble is not Trouble.GONE)
