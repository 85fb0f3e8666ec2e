"""Pod scheduling: pods of our schedulerNames get nodes, alone or with their gang; others leave for them if need be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from headgate.engine.journal import Journal
from headgate.engine.planes import Number
from headgate.engine.scheduler import events
from headgate.engine.scheduler.bind import Assumption, Assumptions, still_in_doubt
from headgate.engine.scheduler.cache import ClusterCache
from headgate.engine.scheduler.choose import Choosing, Found
from headgate.engine.scheduler.events import PodConditions
from headgate.engine.scheduler.gangs import PLUGIN, GangTracker
from headgate.engine.scheduler.groups import GROUP_KINDS, Groups
from headgate.engine.scheduler.metrics import AttemptResult, SchedulerMetrics
from headgate.engine.scheduler.plugins import POST_FILTER, Watch, plugins_for, unwatched
from headgate.engine.scheduler.pre_enqueue import PreEnqueueStage
from headgate.engine.scheduler.preempt import DISRUPTION_TARGET, InterruptedPreemptions, PostFilterResult, PreemptStage
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
from headgate.queueing.queue import PodQueue, QueuedPodInfo, QueueName

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
        self._conditions = PodConditions(journal, self._retries)
        self._groups = Groups()
        self._statuses = WorkloadStatuses(self._groups)
        self._gangs = GangTracker(self._groups, self.queue)
        attachments = Attachments(self.nodes)
        resolver = Resolver(profiles, attachments)
        self._profiles = {p.scheduler_name: plugins_for(p, self._neighbours, attachments, watch) for p in profiles}
        self._assumptions = Assumptions(self._profiles)
        plugins = {profile.scheduler_name: profile.kept(pre_enqueue, Point.PRE_ENQUEUE) for profile in profiles}
        self._pre_enqueue = PreEnqueueStage(plugins, with_gangs, self.queue, self._gangs, self._conditions)
        self._placers = {name: Placer(plugins.rules) for name, plugins in self._profiles.items()}
        self._choosing = Choosing(self.queue, self._placers, resolver, self._gangs, self.nodes)
        budgets = Budgets()
        self._cache = ClusterCache(self._neighbours, self._groups, self._statuses, budgets, resolver)
        self._running = Running(self.nodes, self._groups.standing)
        search = watch(Preemption(self.nodes, self._running, budgets, certifier), POST_FILTER)
        interrupted, nominations = (
            InterruptedPreemptions(self._groups, self.nodes, journal),
            self._neighbours.nominations,
        )
        self._metrics = SchedulerMetrics()
        self._preempt = PreemptStage(
            self.nodes,
            nominations,
            search,
            interrupted,
            self.queue,
            in_line=self._in_line,
            gangs=self._gangs,
            journal=journal,
            metrics=self._metrics,
        )
        self._preempts = frozenset(p.scheduler_name for p in profiles if p.has_on(PREEMPTION, Point.POST_FILTER))
        self._alarms = Alarms()
        self._decided: list[Bind] = []

    def absorb(self, event: Event, now: float) -> Iterator[Effect]:
        match event:
            case Observed(object=Pod() as pod):
                yield from self._observe_pod(pod, now)
            case Observed(object=other):
                yield from self._look_again(self._cache.observe(other), now)
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
        yield from self._pre_enqueue.enqueue_gangs(now)
        for info, found in self._choosing.verdicts(self._room_in_flight):
            yield from self._act(info, found, now)
            yield from self._pre_enqueue.enqueue_gangs(now)
        yield from self._pre_enqueue.settle(now)
        yield from self._preempt.cancel_for(self._pre_enqueue.take_newly_gated())
        yield from self._preempt.settle(now)
        yield from self._try_again(now)
        yield from self._statuses.settle(now)
        deadlines = (self.queue.next_deadline(), self._retries.next_deadline())
        parked = bool(self.queue.sizes[QueueName.UNSCHEDULABLE] or self.queue.sizes[QueueName.GATED])
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
        for (plugin, profile), size in self.queue.unschedulable_by.items():
            yield "scheduler_unschedulable_pods", (("plugin", plugin), ("profile", profile)), size
        yield from self._metrics.collect()

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
            self._cache.note(Happening.CANDIDATES_CHANGED)

    def _observe_pod(self, observed: Pod, now: float) -> Iterator[Effect]:
        known = self.pods.get(observed.key)
        if known is not None and known.uid != observed.uid:
            yield from self._lose(observed.key, known.uid, now)
            known = None
        if known is not None and _changed_group(known, observed):
            self._leave_group(known)
        pod = self._preempt.as_assumed(self._grouped(observed, known))
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
                self._cache.note(Happening.ROOM_FREED)
            yield from self._pre_enqueue.enqueue(pod, now)

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
        self._preempt.leaves_line(pod.key, self._gangs.queue_key(pod))
        self._gangs.gone(pod)
        self._groups.drop_pod(pod)
        if pod.group is not None:
            self._statuses.touch(pod.group.workload)

    def _update_assumed(self, assumption: Assumption, pod: Pod) -> None:
        """The pod was seen before our binding took hold; it takes its node as it looks now."""
        node, before = assumption.bind.node, assumption.info.pod
        assumption.info.pod = pod
        if _changed_group(before, pod):
            self._gangs.scheduled(pod, node)
            self._weigh_anew(pod)
        self._cache.note(*self.nodes.charge(pod, node))

    def _confirm(self, pod: Pod, known: Pod | None) -> None:
        """The pod runs where it says, whatever we assumed."""
        if self._waits_no_more(pod):
            self._cache.note(Happening.ROOM_FREED)
        self._gangs.scheduled(pod, pod.node)
        self._cache.note(*self.nodes.charge(pod, pod.node))
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
            self._cache.note(Happening.ROOM_FREED)
            self._preempt.left(pod)

    def _waits_no_more(self, pod: Pod) -> bool:
        """Forget all that concerned its waiting; True when room was promised to it."""
        key = pod.key
        assumption = self._assumptions.settle(key)
        if assumption is not None:
            self._retries.settled(assumption.bind)
        self._conditions.forget(key)
        self._pre_enqueue.forget(key)
        self._preempt.waits_no_more(key, self._gangs.queue_key(pod))
        self.queue.delete(key)
        return self._neighbours.nominations.drop(key)

    def _lose(self, key: Key, uid: str, now: float) -> Iterator[Effect]:
        yield from self._look_again(self._cache.lose(key, uid), now)
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
        info = assumption.info
        pod = info.pod
        self._journal.write(events.forgotten(pod, assumption.bind, outcome, now))
        self._drop(pod)
        if pod.wants_node and not self._pre_enqueue.rejoins_gang(pod):
            self.queue.add_backoff(info, now)
        elif pod.wants_node and outcome.trouble is not Trouble.GONE:
            yield self._preempt.keep(pod, assumption.bind.node)
        self._metrics.failed(pod.scheduler_name, as_group=self._gangs.failed(pod))

    def _patch_answered(self, patch: PatchStatus, outcome: Outcome, now: float) -> Iterator[Effect]:
        if may_take_hold_later(outcome) and self._still_matters(patch):
            self._retries.add(patch, now)
            return
        self._retries.settled(patch)
        if isinstance(patch.change, Nomination):
            yield from self._preempt.nominated(patch, outcome, now)
        elif isinstance(patch.change, PodCondition) and patch.change.type == DISRUPTION_TARGET:
            yield from self._preempt.marked(patch, outcome, now)

    def _still_matters(self, effect: Retried) -> bool:
        """What was to be said of a pod that waits no longer is not true any more; nobody leaves for it either."""
        if isinstance(effect, Evict):
            return self._preempt.still_wants(effect)
        if isinstance(effect, PatchStatus) and isinstance(effect.change, Nomination):
            return self._preempt.still_means(effect.target, effect.change)
        if isinstance(effect, Bind) or effect.target.key.kind is not Kind.POD:
            return True
        pod = self.pods.get(effect.target.key)
        if pod is None or pod.uid != effect.target.uid:
            return False
        change = effect.change
        if isinstance(change, PodCondition) and change.type == DISRUPTION_TARGET:
            return pod.holds_room and pod.preempted
        outdated = isinstance(change, PodCondition) and not self._conditions.still_says(pod.key, change)
        return not outdated and not pod.holds_room and self._waits(pod)

    def _waits(self, pod: Pod) -> bool:
        """By itself, held or in line, or with its gang."""
        return pod.key in self.queue or self._gangs.queue_key(pod) in self.queue

    def _evict_answered(self, evict: Evict, outcome: Outcome, now: float) -> None:
        if may_take_hold_later(outcome) or self._preempt.insists(evict, outcome):
            self._retries.add(evict, now)
        else:
            self._retries.settled(evict)
            self._preempt.evicted(evict, outcome, now)

    # what to do

    def _wake(self, now: float) -> Iterator[Effect]:
        """Those whom something that happened may concern, those who have rested, and now and then everyone."""
        if self._preempt.take_freed():
            self._cache.note(Happening.ROOM_FREED)
        cluster_events = self._cache.take_events()
        if self._alarms.flush_is_due(now):
            cluster_events = dict.fromkeys(Happening)
            yield from self._pre_enqueue.recheck_all(now)
        if cluster_events:
            self._preempt.forget_failed_searches()
        yield from self._pre_enqueue.wake(cluster_events, now)
        self.queue.wake(cluster_events, now)
        self.queue.flush_backoff(now)

    def _room_in_flight(self) -> int:
        return self._max_in_flight - self._assumptions.in_flight

    def _act(self, info: QueuedPodInfo, found: Found, now: float) -> Iterator[Effect]:
        info.attempts += 1
        match found:
            case Placement():
                self._metrics.attempted(info, AttemptResult.SCHEDULED, 1)
                self.queue.done(info)
                yield from self._assume(info, found, now)
            case GroupPlacement(seats=seats):
                self._metrics.attempted(info, AttemptResult.SCHEDULED, len(seats))
                self.queue.done(info)
                for pod, seat in seats:
                    yield from self._assume(_member(info, self.pods[pod.key]), seat, now)
            case NoPlacement():
                yield from self._refuse(info, found, now)
            case _:
                assert_never(found)

    def _assume(self, info: QueuedPodInfo, found: Placement, now: float) -> Iterator[Effect]:
        pod, plugins = info.pod, self._profiles[info.pod.scheduler_name]
        self._preempt.waits_no_more(pod.key, self._gangs.queue_key(pod))
        if self._neighbours.nominations.drop(pod.key) and pod.nominated != found.node:
            self._cache.note(Happening.ROOM_FREED)
        self._gangs.scheduled(pod, found.node)
        for rule in plugins.reserve:
            rule.reserve(pod, found.node)
        self._cache.note(Happening.NEIGHBOURS_CHANGED)
        for bind in plugins.binder.bind(pod, found.node):
            self._assumptions.add(info, bind)
            self._decided.append(bind)
            self._journal.write(events.bound(info, found, now))
            yield bind

    def _refuse(self, info: QueuedPodInfo, found: NoPlacement, now: float) -> Iterator[Effect]:
        self.queue.set_equivalence(info, self._choosing.equivalence(info))
        info.rejected_by = found.filters
        post_filter = self._post_filter(info, found, now)
        self._metrics.attempted(
            info, AttemptResult.WAITING if post_filter.helps else AttemptResult.UNSCHEDULABLE, info.pods
        )
        self.queue.add_unschedulable(info, found.wake_on | post_filter.wake_on, now)
        for pod in self._at(info):
            yield from self._conditions.refused(pod, found, post_filter.says, now)
        yield from post_filter.effects

    def _at(self, info: QueuedPodInfo) -> list[Pod]:
        """All who stand at this place in line."""
        return [info.pod] if info.group is None else self._gangs.members(info.group)

    def _post_filter(self, info: QueuedPodInfo, found: NoPlacement, now: float) -> PostFilterResult:
        pod = info.pod
        if pod.scheduler_name not in self._preempts:
            return PostFilterResult("")
        preemptor = self._choosing.preemptor(info) if found.nodes and not found.everywhere else None
        if preemptor is None:
            return PostFilterResult("", self._preempt.withdrawn(self._at(info)))
        return self._preempt.post_filter(info.key, info.equivalence, preemptor, self._placers[pod.scheduler_name], now)

    def _in_line(self, place: Key) -> Preemptor | None:
        info = self.queue.get(place)
        return None if info is None else self._choosing.preemptor(info)

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


def _member(info: QueuedPodInfo, pod: Pod) -> QueuedPodInfo:
    """What the gang's place in line means for one of its pods."""
    return QueuedPodInfo(pod, attempts=info.attempts, since=info.since)


def _weighed(pod: Pod) -> tuple[object, ...]:
    """What only those look at who weigh what would be lost if a running pod left."""
    return pod.started, pod.checkpointed, pod.checkpoint_every


def _changed_group(before: Pod, now: Pod) -> bool:
    """Whether the pod goes with others than before."""
    return before.group != now.group or before.group_total != now.group_total
