"""Pod scheduling: pods of our schedulerNames get nodes, alone or with their gang; others leave for them if need be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from headgate.engine.journal import Journal
from headgate.engine.planes import Number
from headgate.engine.scheduler import events
from headgate.engine.scheduler.bind import Assumption, Assumptions, still_in_doubt
from headgate.engine.scheduler.cache import Surroundings
from headgate.engine.scheduler.choose import Choosing, Found
from headgate.engine.scheduler.events import Explaining
from headgate.engine.scheduler.gangs import PLUGIN, Gangs
from headgate.engine.scheduler.groups import GROUP_KINDS, Groups
from headgate.engine.scheduler.metrics import Result, Tallies
from headgate.engine.scheduler.plugins import POST_FILTER, Watch, plugins_for, unwatched
from headgate.engine.scheduler.pre_enqueue import Entrance
from headgate.engine.scheduler.preempt import DISRUPTION_TARGET, Preempting, Remedy, Unfinished
from headgate.engine.scheduler.resolving import READS, Resolver
from headgate.engine.scheduler.workload_status import WorkloadStatuses
from headgate.engine.scheduler.writes import Retried, Retries, may_take_hold_later
from headgate.gates.pre_enqueue import PreEnqueue
from headgate.model.effects import Bind, Effect, Evict, Nomination, PatchStatus, PodCondition, WakeAt, WorkloadStatus
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, Trouble
from headgate.model.happenings import Happening
from headgate.model.keys import Key, Kind
from headgate.model.pod import Pod
from headgate.model.resources import saturated
from headgate.model.settings import Point, Settings
from headgate.placement.groups import GroupPlacement
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import NoPlacement, Placement, Placer
from headgate.placement.table import NodeTable
from headgate.placement.volumes import Attachments
from headgate.preemption.budgets import Budgets
from headgate.preemption.search import Preemption, Preemptor
from headgate.preemption.solver.problem import Certifier
from headgate.preemption.units import Running
from headgate.queueing.backoff import Backoff
from headgate.queueing.queue import Line, PodQueue, Waiting

TIMER = "scheduling"
FLUSH_AFTER = 300.0  # seconds after which parked pods are tried in any case, should a happening have been missed


class Alarms:
    def __init__(self) -> None:
        self._alarm: float | None = None
        self._flush_at: float | None = None

    def flush_is_due(self, now: float) -> bool:
        """True once, when it is time to try everyone."""
        if self._flush_at is None or self._flush_at > now:
            return False
        self._flush_at = None
        return True

    def wake_later(self, deadlines: Iterable[float | None], anyone_parked: bool, now: float) -> Iterator[WakeAt]:
        """One alarm for whatever comes first; a later one is set when it has rung."""
        if self._alarm is not None and self._alarm <= now:
            self._alarm = None
        earliest = min((at for at in deadlines if at is not None), default=None)
        if earliest is not None and (self._alarm is None or earliest < self._alarm):
            self._alarm = max(earliest, now)
            yield WakeAt(self._alarm, TIMER)
        if self._flush_at is None and anyone_parked:
            self._flush_at = now + FLUSH_AFTER
            yield WakeAt(self._flush_at, TIMER, idle=True)


PREEMPTION = "DefaultPreemption"


class PodScheduling:
    """One plane of the engine. `absorb` takes what is now true, `decide` yields what to do about it."""

    reads = (Kind.NAMESPACE, *GROUP_KINDS, Kind.DISRUPTION_BUDGET, Kind.NODE, *READS, Kind.POD)

    def __init__(
        self,
        settings: Settings,
        pre_enqueue: tuple[PreEnqueue, ...],
        journal: Journal,
        certifier: Certifier | None = None,
        watch: Watch = unwatched,
    ) -> None:
        backoff = Backoff(settings.initial_backoff, settings.max_backoff)
        profiles = settings.profiles_in_full()
        with_gangs = frozenset(p.scheduler_name for p in profiles if p.has_on(PLUGIN, Point.PRE_ENQUEUE))
        self._max_in_flight = settings.max_in_flight
        self._journal = journal
        self.nodes = NodeTable(settings.seed)
        self._neighbours = Neighbours(self.nodes)
        self.queue = PodQueue(backoff)
        self.pods: dict[Key, Pod] = {}
        self._retries = Retries(backoff)
        self._explaining = Explaining(journal, self._retries)
        self._groups = Groups()
        self._statuses = WorkloadStatuses(self._groups)
        self._gangs = Gangs(self._groups, self.queue)
        attachments = Attachments(self.nodes)
        resolver = Resolver(profiles, attachments)
        self._profiles = {p.scheduler_name: plugins_for(p, self._neighbours, attachments, watch) for p in profiles}
        self._assumptions = Assumptions(self._profiles)
        doors = {profile.scheduler_name: profile.kept(pre_enqueue, Point.PRE_ENQUEUE) for profile in profiles}
        self._entrance = Entrance(doors, with_gangs, self.queue, self._gangs, self._explaining)
        self._placers = {name: Placer(plugins.rules) for name, plugins in self._profiles.items()}
        self._choosing = Choosing(self.queue, self._placers, resolver, self._gangs, self.nodes)
        budgets = Budgets()
        self._surroundings = Surroundings(self._neighbours, self._groups, self._statuses, budgets, resolver)
        self._running = Running(self.nodes, self._groups.standing)
        search = watch(Preemption(self.nodes, self._running, budgets, certifier), POST_FILTER)
        unfinished, promises = Unfinished(self._groups, self.nodes, journal), self._neighbours.nominations
        self._tallies = Tallies()
        self._preempting = Preempting(
            self.nodes,
            promises,
            search,
            unfinished,
            self.queue,
            in_line=self._in_line,
            gangs=self._gangs,
            journal=journal,
            tallies=self._tallies,
        )
        self._preempts = frozenset(p.scheduler_name for p in profiles if p.has_on(PREEMPTION, Point.POST_FILTER))
        self._alarms = Alarms()
        self._decided: list[Bind] = []

    def absorb(self, event: Event, now: float) -> Iterator[Effect]:
        match event:
            case Observed(object=Pod() as pod):
                yield from self._observe_pod(pod, now)
            case Observed(object=other):
                yield from self._look_again(self._surroundings.observe(other), now)
            case TimerFired():
                pass
            case Gone(key=key, uid=uid):
                yield from self._lose(key, uid, now)
            case Outcome(effect=Bind() as bind):
                yield from self._bind_answered(bind, event, now)
            case Outcome(effect=PatchStatus() as patch):
                yield from self._patch_answered(patch, event, now)
            case Outcome(effect=Evict() as evict):
                self._evict_answered(evict, event, now)
            case Outcome():
                pass
            case _:
                assert_never(event)

    def decide(self, now: float) -> Iterator[Effect]:
        self._decided = []
        yield from self._wake(now)
        yield from self._entrance.settle_gangs(now)
        for waiting, found in self._choosing.verdicts(self._room_in_flight):
            yield from self._act(waiting, found, now)
            yield from self._entrance.settle_gangs(now)
        yield from self._entrance.settle(now)
        yield from self._preempting.held_back(self._entrance.take_held())
        yield from self._preempting.settle(now)
        yield from self._try_again(now)
        yield from self._statuses.settle(now)
        deadlines = (self.queue.next_deadline(), self._retries.next_deadline())
        parked = bool(self.queue.sizes[Line.UNSCHEDULABLE] or self.queue.sizes[Line.GATED])
        yield from self._alarms.wake_later(deadlines, parked, now)

    @property
    def deciding(self) -> Key | None:
        return self._choosing.deciding

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
        yield from self._tallies.numbers()

    # what is now true

    def _look_again(self, pods: Iterable[Pod], now: float) -> Iterator[Effect]:
        """What describes these pods has changed: their priority, or how their group starts and leaves."""
        for pod in pods:
            yield from self._observe_pod(pod, now)
            if pod.group is not None:
                self._statuses.touch(pod.group.workload)
                self._gangs.touch_all(pod.group)
            self._weigh_anew(self.pods[pod.key])

    def _weigh_anew(self, pod: Pod) -> None:
        """Whether the pod may be preempted, and with whom it would leave, may differ from before."""
        if self.nodes.charge_of(pod.key) is not None:
            self._running.changed([pod])
            self._surroundings.happen(Happening.CANDIDATES_CHANGED)

    def _observe_pod(self, observed: Pod, now: float) -> Iterator[Effect]:
        known = self.pods.get(observed.key)
        if known is not None and known.uid != observed.uid:
            yield from self._lose(observed.key, known.uid, now)
            known = None
        if known is not None and _changed_group(known, observed):
            self._leave_group(known)
        pod = self._preempting.as_assumed(self._grouped(observed, known))
        self.pods[pod.key] = pod
        if known is None or known.shape is not pod.shape:
            yield from self._warn(pod, now)
        if pod.holds_room:
            self._confirm(pod, known)
        elif not observed.wants_node:
            self._drop(pod)
        elif (assumption := self._assumptions.get(pod.key)) is not None:
            self._update_assumed(assumption, pod)
        elif pod.scheduler_name in self._profiles:
            if self._neighbours.nominations.put(pod):
                self._surroundings.happen(Happening.ROOM_FREED)
            yield from self._entrance.present(pod, now)

    def _warn(self, pod: Pod, now: float) -> Iterator[Effect]:
        if names := saturated(pod.shape.requests):
            entry = events.saturated_entry(pod.key, names, now)
            self._journal.write(entry)
            yield events.saturated_event(pod.target, entry)

    def _grouped(self, observed: Pod, known: Pod | None) -> Pod:
        """The pod with the priority of its workload. That a group has one pod more may be news to the workload."""
        if observed.group is None:
            return observed
        self._groups.put_pod(observed)
        if known is None or _changed_group(known, observed):
            self._statuses.touch(observed.group.workload)
        return self._groups.ranked(observed)

    def _leave_group(self, pod: Pod) -> None:
        """The pod says it belongs elsewhere: nobody counts on it any more where it was, and nothing is kept for it."""
        self._preempting.leaves_line(pod.key, self._gangs.place_of(pod))
        self._gangs.gone(pod)
        self._groups.drop_pod(pod)
        if pod.group is not None:
            self._statuses.touch(pod.group.workload)

    def _update_assumed(self, assumption: Assumption, pod: Pod) -> None:
        """The pod was seen before our binding took hold; it takes its node as it looks now."""
        node, before = assumption.bind.node, assumption.waiting.pod
        assumption.waiting.pod = pod
        if _changed_group(before, pod):
            self._gangs.seated(pod, node)
            self._weigh_anew(pod)
        self._surroundings.happen(*self.nodes.charge(pod, node))

    def _confirm(self, pod: Pod, known: Pod | None) -> None:
        """The pod runs where it says, whatever we assumed."""
        if self._waits_no_more(pod):
            self._surroundings.happen(Happening.ROOM_FREED)
        self._gangs.seated(pod, pod.node)
        self._surroundings.happen(*self.nodes.charge(pod, pod.node))
        if known is not None and _changed_group(known, pod):
            self._weigh_anew(pod)
        elif known is not None and _weighed(known) != _weighed(pod):
            self._running.changed([pod])

    def _drop(self, pod: Pod) -> None:
        """The pod takes no room and wants none."""
        reserved = self._assumptions.give_back(pod.key)
        promised = self._waits_no_more(pod)
        self._gangs.gone(pod)
        if self.nodes.release(pod.key) or reserved or promised:
            self._surroundings.happen(Happening.ROOM_FREED)
            self._preempting.left(pod)

    def _waits_no_more(self, pod: Pod) -> bool:
        """Forget all that concerned its waiting; True when room was promised to it."""
        key = pod.key
        assumption = self._assumptions.settle(key)
        if assumption is not None:
            self._retries.settled(assumption.bind)
        self._explaining.forget(key)
        self._entrance.forget(key)
        self._preempting.waits_no_more(key, self._gangs.place_of(pod))
        self.queue.withdraw(key)
        return self._neighbours.nominations.drop(key)

    def _lose(self, key: Key, uid: str, now: float) -> Iterator[Effect]:
        yield from self._look_again(self._surroundings.lose(key, uid), now)
        known = self.pods.get(key)
        if known is not None and known.uid == uid:
            self._lose_pod(known)
        elif key.kind in GROUP_KINDS:
            self._journal.forget(key)

    def _lose_pod(self, pod: Pod) -> None:
        self._drop(pod)
        self._groups.drop_pod(pod)
        if pod.group is not None:
            self._statuses.touch(pod.group.workload)
        del self.pods[pod.key]
        self._journal.forget(pod.key)

    # how effects went

    def _bind_answered(self, bind: Bind, outcome: Outcome, now: float) -> Iterator[Effect]:
        key = bind.target.key
        assumption = self._assumptions.answered(bind)
        if outcome.trouble is None and (pod := self.pods.get(key)) is not None and pod.uid == bind.target.uid:
            yield events.scheduled_event(pod, bind.node, now)
        if assumption is None:
            return
        if outcome.trouble is None:
            assumption.doubtful = False
            self._retries.settled(bind)
        elif still_in_doubt(assumption, outcome):
            assumption.doubtful = True
            self._retries.add(bind, now)
        else:
            yield from self._forget(assumption, outcome, now)

    def _forget(self, assumption: Assumption, outcome: Outcome, now: float) -> Iterator[Effect]:
        """The binding did not take hold: give the room back and let the pod, or its gang, try again after a while."""
        waiting = assumption.waiting
        pod = waiting.pod
        self._journal.write(events.forgotten(pod, assumption.bind, outcome, now))
        self._drop(pod)
        if pod.wants_node and not self._entrance.goes_with_others(pod):
            self.queue.failed(waiting, now)
        elif pod.wants_node and outcome.trouble is not Trouble.GONE:
            yield self._preempting.keep(pod, assumption.bind.node)
        self._tallies.failed(pod.scheduler_name, as_group=self._gangs.failed(pod))

    def _patch_answered(self, patch: PatchStatus, outcome: Outcome, now: float) -> Iterator[Effect]:
        if may_take_hold_later(outcome) and self._still_matters(patch):
            self._retries.add(patch, now)
            return
        self._retries.settled(patch)
        if isinstance(patch.change, Nomination):
            yield from self._preempting.nominated(patch, outcome, now)
        elif isinstance(patch.change, PodCondition) and patch.change.type == DISRUPTION_TARGET:
            yield from self._preempting.marked(patch, outcome, now)

    def _still_matters(self, effect: Retried) -> bool:
        """What was to be said of a pod that waits no longer is not true any more; nobody leaves for it either."""
        if isinstance(effect, Evict):
            return self._preempting.still_wants(effect)
        if isinstance(effect, PatchStatus) and isinstance(effect.change, Nomination):
            return self._preempting.still_means(effect.target, effect.change)
        if isinstance(effect, Bind) or effect.target.key.kind is not Kind.POD:
            return True
        pod = self.pods.get(effect.target.key)
        if pod is None or pod.uid != effect.target.uid:
            return False
        change = effect.change
        if isinstance(change, PodCondition) and change.type == DISRUPTION_TARGET:
            return pod.holds_room and pod.preempted
        outdated = isinstance(change, PodCondition) and not self._explaining.still_says(pod.key, change)
        return not outdated and not pod.holds_room and self._waits(pod)

    def _waits(self, pod: Pod) -> bool:
        """By itself, held or in line, or with its gang."""
        return pod.key in self.queue or self._gangs.place_of(pod) in self.queue

    def _evict_answered(self, evict: Evict, outcome: Outcome, now: float) -> None:
        if may_take_hold_later(outcome) or self._preempting.insists(evict, outcome):
            self._retries.add(evict, now)
        else:
            self._retries.settled(evict)
            self._preempting.evicted(evict, outcome, now)

    # what to do

    def _wake(self, now: float) -> Iterator[Effect]:
        """Those whom something that happened may concern, those who have rested, and now and then everyone."""
        if self._preempting.take_freed():
            self._surroundings.happen(Happening.ROOM_FREED)
        happened = self._surroundings.take_happenings()
        if self._alarms.flush_is_due(now):
            happened = dict.fromkeys(Happening)
            yield from self._entrance.ask_all(now)
        if happened:
            self._preempting.forget_failed_searches()
        yield from self._entrance.wake(happened, now)
        self.queue.wake(happened, now)
        self.queue.ripen(now)

    def _room_in_flight(self) -> int:
        return self._max_in_flight - self._assumptions.in_flight

    def _act(self, waiting: Waiting, found: Found, now: float) -> Iterator[Effect]:
        waiting.attempts += 1
        match found:
            case Placement():
                self._tallies.tried(waiting, Result.SCHEDULED, 1)
                self.queue.placed(waiting)
                yield from self._assume(waiting, found, now)
            case GroupPlacement(seats=seats):
                self._tallies.tried(waiting, Result.SCHEDULED, len(seats))
                self.queue.placed(waiting)
                for pod, seat in seats:
                    yield from self._assume(_member(waiting, self.pods[pod.key]), seat, now)
            case NoPlacement():
                yield from self._refuse(waiting, found, now)
            case _:
                assert_never(found)

    def _assume(self, waiting: Waiting, found: Placement, now: float) -> Iterator[Effect]:
        pod, plugins = waiting.pod, self._profiles[waiting.pod.scheduler_name]
        self._preempting.waits_no_more(pod.key, self._gangs.place_of(pod))
        if self._neighbours.nominations.drop(pod.key) and pod.nominated != found.node:
            self._surroundings.happen(Happening.ROOM_FREED)
        self._gangs.seated(pod, found.node)
        for rule in plugins.reserve:
            rule.reserve(pod, found.node)
        self._surroundings.happen(Happening.NEIGHBOURS_CHANGED)
        for bind in plugins.binder.bind(pod, found.node):
            self._assumptions.add(waiting, bind)
            self._decided.append(bind)
            self._journal.write(events.bound(waiting, found, now))
            yield bind

    def _refuse(self, waiting: Waiting, found: NoPlacement, now: float) -> Iterator[Effect]:
        self.queue.join(waiting, self._choosing.kin(waiting))
        waiting.refused_by = found.filters
        remedy = self._remedy(waiting, found, now)
        self._tallies.tried(waiting, Result.WAITING if remedy.helps else Result.UNSCHEDULABLE, waiting.pods)
        self.queue.refused(waiting, found.wake_on | remedy.wake_on, now)
        for pod in self._at(waiting):
            yield from self._explaining.refused(pod, found, remedy.says, now)
        yield from remedy.effects

    def _at(self, waiting: Waiting) -> list[Pod]:
        """All who stand at this place in line."""
        return [waiting.pod] if waiting.group is None else self._gangs.members(waiting.group)

    def _remedy(self, waiting: Waiting, found: NoPlacement, now: float) -> Remedy:
        pod = waiting.pod
        if pod.scheduler_name not in self._preempts:
            return Remedy("")
        preemptor = self._choosing.preemptor(waiting) if found.nodes and not found.everywhere else None
        if preemptor is None:
            return Remedy("", self._preempting.withdrawn(self._at(waiting)))
        return self._preempting.remedy(waiting.key, waiting.kin, preemptor, self._placers[pod.scheduler_name], now)

    def _in_line(self, place: Key) -> Preemptor | None:
        waiting = self.queue.get(place)
        return None if waiting is None else self._choosing.preemptor(waiting)

    def _try_again(self, now: float) -> Iterator[Effect]:
        for effect in self._retries.due(now):
            if not self._still_matters(effect):
                self._retries.settled(effect)
                continue
            if isinstance(effect, PatchStatus) and isinstance(effect.change, WorkloadStatus):
                self._statuses.failed(effect.target.key)  # made anew, for the object may be another by now
                continue
            if isinstance(effect, Bind):
                self._assumptions.sent(effect)
            yield effect


def _member(waiting: Waiting, pod: Pod) -> Waiting:
    """What the gang's place in line means for one of its pods."""
    return Waiting(pod, attempts=waiting.attempts, since=waiting.since)


def _weighed(pod: Pod) -> tuple[object, ...]:
    """What only those look at who weigh what would be lost if a running pod left."""
    return pod.started, pod.checkpointed, pod.checkpoint_every


def _changed_group(before: Pod, now: Pod) -> bool:
    """Whether the pod goes with others than before."""
    return before.group != now.group or before.group_total != now.group_total
