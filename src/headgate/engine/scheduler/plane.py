"""The scheduler plane: pods of our schedulerNames get nodes, alone or with their gang, by preemption if need be.

Its stages, in the order a pod passes them: absorb, PreEnqueue, choose, capacity, place, preempt or bind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from msgspec import structs

from headgate.engine.deadlines import Timer
from headgate.engine.in_flight import AwaitedPermits, InformPermits, WritePolicy
from headgate.engine.journal import Journal
from headgate.engine.metrics import POST_FILTER, Number, PluginObserver, unwatched
from headgate.engine.scheduler import events
from headgate.engine.scheduler.absorb import AbsorbStage
from headgate.engine.scheduler.bind import AssumedPod, BindStage
from headgate.engine.scheduler.cache import CACHED_KINDS, CacheView, ClusterCache
from headgate.engine.scheduler.capacity import CapacityStage, CapacityStages, DeferredEntry, NotNow
from headgate.engine.scheduler.choose import MOST_WORK, PLACING, Batch, ChooseStage, StepWork
from headgate.engine.scheduler.events import (
    AttemptResult,
    GroupAttempt,
    PodConditions,
    SchedulerMetrics,
    may_take_effect_later,
)
from headgate.engine.scheduler.gangs import PLUGIN, GangTracker
from headgate.engine.scheduler.interrupted import DISRUPTION_TARGET
from headgate.engine.scheduler.place import Found, PlaceStage
from headgate.engine.scheduler.plugins import plugins_for
from headgate.engine.scheduler.post_filter import PostFilterStage
from headgate.engine.scheduler.pre_enqueue import PreEnqueueStage
from headgate.engine.scheduler.preempt import PreemptStage
from headgate.engine.scheduler.queue_capacity import QueueCapacity
from headgate.engine.scheduler.queue_gates import queue_gates
from headgate.engine.scheduler.queue_preempt import QueuePreemptStage, QueueUnits, ReclaimedNodes
from headgate.engine.scheduler.queue_refusals import WAKE_ON as QUEUE_WAKE_ON
from headgate.engine.scheduler.queue_refusals import reason_for
from headgate.engine.scheduler.resolving import PodResolver
from headgate.engine.scheduler.statuses import VolcanoStatuses, WorkloadStatuses
from headgate.gates.pre_enqueue import PreEnqueue
from headgate.model.cluster_events import ClusterEvent
from headgate.model.effects import (
    Bind,
    Effect,
    Evict,
    Nomination,
    PatchSpec,
    PatchStatus,
    PodCondition,
    VolcanoStatus,
    WorkloadStatus,
    Write,
)
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.model.settings import GangPreemption, Point, Profile, Settings
from headgate.placement.groups import GroupPlacement
from headgate.placement.placer import NoPlacement, Placement, Placer
from headgate.preemption.pod_by_pod import PodByPodPreemption
from headgate.preemption.search import Preemption
from headgate.preemption.solver.problem import Certifier
from headgate.queueing.backoff import Backoff
from headgate.queueing.queue import PodQueue, QueuedPodInfo, QueueName

PREEMPTION = "DefaultPreemption"
PREEMPTIONS: Mapping[GangPreemption, type[Preemption]] = {
    GangPreemption.TOGETHER: Preemption,
    GangPreemption.POD_BY_POD: PodByPodPreemption,
}
TIMER = "scheduling"
FLUSH_AFTER = 300.0  # seconds after which unschedulable and gated pods are tried in any case, as in kube-scheduler
STATUS_PATIENCE = 60.0  # seconds an accepted status of a workload may stay unobserved before it is decided anew


class SchedulerPlane:
    """Owns the stages. `absorb` takes in what is now true, `decide` yields what to do about it."""

    timer = TIMER
    reads = CACHED_KINDS

    def __init__(
        self,
        settings: Settings,
        pre_enqueue: tuple[PreEnqueue, ...],
        journal: Journal,
        certifier: Certifier | None = None,
        watch: PluginObserver = unwatched,
        *,
        capacity: tuple[CapacityStage, ...] = (),
    ) -> None:
        profiles = settings.profiles_in_full()
        backoff = Backoff(settings.initial_backoff, settings.max_backoff)
        self._max_in_flight = settings.max_in_flight
        self._journal = journal
        self._cache = cache = ClusterCache(profiles, settings.seed)
        preempting = _having(PREEMPTION, Point.POST_FILTER, profiles)
        self._queue_capacity = QueueCapacity(cache, settings.volcano, waiting=self._starts_with, preempting=preempting)
        self._queue = queue = PodQueue(backoff, self._queue_capacity)
        self._gangs = gangs = GangTracker(cache.groups, queue, cache.nominations)
        self._metrics = SchedulerMetrics(queue)
        self._conditions = PodConditions(journal, WritePolicy(backoff))
        status_writes = WritePolicy(backoff, STATUS_PATIENCE, resends=False)
        self._statuses = WorkloadStatuses(cache, status_writes)
        plugins = {p.scheduler_name: plugins_for(p, cache.neighbours, cache.attachments, watch) for p in profiles}
        placers = {name: Placer(each.rules) for name, each in plugins.items()}
        resolver = PodResolver(cache.resolver, gangs, cache.nodes)
        with_gangs = _having(PLUGIN, Point.PRE_ENQUEUE, profiles)
        # the stages
        self._pre_enqueue = PreEnqueueStage(
            {p.scheduler_name: p.kept(pre_enqueue, Point.PRE_ENQUEUE) for p in profiles},
            with_gangs,
            queue,
            gangs,
            self._conditions,
            view=CacheView(cache),
        )
        self._work = StepWork(cache.nodes)
        self._choose = ChooseStage(queue, placers, resolver, gangs)
        self._gates = queue_gates(settings.volcano.gates, self._queue_capacity, WritePolicy(backoff))
        self._reclaimed = reclaimed = ReclaimedNodes(cache, self._queue_capacity)
        self._capacity = CapacityStages((self._queue_capacity, *capacity), (reclaimed,), cache.nominations.pods)
        self._queue_statuses = VolcanoStatuses(cache, self._queue_capacity, frozenset(plugins), status_writes)
        self._place = PlaceStage(placers, resolver, gangs, cache.nodes, with_gangs=with_gangs, work=self._work)
        units = QueueUnits(cache, self._queue_capacity)
        preemption = PREEMPTIONS[settings.preemption.gangs]
        search = watch(preemption(cache.nodes, cache.running, cache.budgets, certifier, units.reaches), POST_FILTER)
        self._preempt = PreemptStage(cache, queue, gangs, self._place, search, journal=journal, backoff=backoff)
        self._post_filter = PostFilterStage(
            cache,
            gangs,
            self._place,
            search,
            self._preempt,
            placers=placers,
            enabled=preempting,
            metrics=self._metrics,
            work=self._work,
        )
        self._queue_preemption = QueuePreemptStage(units, self._queue_capacity, self._preempt, self._place.equivalence)
        self._bind = BindStage(plugins, self._capacity, journal, WritePolicy(backoff), self._metrics)
        self._absorb = AbsorbStage(
            cache,
            queue,
            gangs,
            pre_enqueue=self._pre_enqueue,
            capacity=self._capacity,
            preempt=self._preempt,
            bind=self._bind,
            queue_capacity=self._queue_capacity,
            gates=self._gates,
            queue_statuses=self._queue_statuses,
            conditions=self._conditions,
            journal=journal,
            ours=frozenset(plugins),
        )
        writes = (
            *(self._conditions.retries, self._bind.writes, self._statuses.writes),
            *(self._queue_statuses.writes, self._gates.removals.writes),
        )
        evicting = (self._preempt.nominating.deadlines, self._preempt.evicting.deadlines, reclaimed.overdue)
        self._timer = Timer(TIMER, queue, *(each.deadlines for each in writes), *evicting)
        self._flush_timer = Timer(TIMER, idle=True)
        self._flush_at: float | None = None

    def absorb(self, event: Event, now: float) -> Iterable[Effect]:
        match event:
            case Observed():
                return self._absorb.observe(event.object, now)
            case Outcome():
                return self._answered(event.effect, event, now)
            case Gone():
                self._gangs.quarantined(event.key, event.quarantined_in)
                return self._absorb.lose(event.key, event.uid, now)
            case TimerFired():
                return ()
            case _:
                assert_never(event)

    def _answered(self, write: Write, outcome: Outcome, now: float) -> Iterable[Effect]:
        match write:
            case Bind():
                return self._bind_answered(write, outcome, now)
            case PatchStatus():
                return self._patch_answered(write, outcome, now)
            case Evict():
                return list(self._preempt.evicted(write, outcome, now))
            case PatchSpec():
                return self._removal_answered(write, outcome, now)
            case _:
                return ()  # of other planes

    def decide(self, now: float) -> Iterator[Effect]:
        self._bind.decided.clear()
        self._work.left = MOST_WORK
        yield from self._wake(now)
        if self._gangs.touched:
            yield from self._pre_enqueue.enqueue_gangs(now)
        yield from self._schedule(now)
        while self._reservations_changed(now):
            yield from self._schedule(now)
        if self._queue_capacity.reservations.undated:
            yield from self._note_times(now)
        if self._pre_enqueue.released:
            yield from self._pre_enqueue.report_queued()
        if self._pre_enqueue.newly_gated:
            yield from self._stop_trying(self._pre_enqueue.take_newly_gated())
        yield from self._preempt.settle(now)
        if self._timer.at <= now:
            yield from self._send_again(now)
        if self._cache.touched_workloads:
            yield from self._statuses.settle(now)
        if self._queue_capacity.in_use or self._cache.touched_pod_groups:
            yield from self._queue_statuses.settle(now)
        yield from self._wake_later(now)

    def _stop_trying(self, gated: Iterable[Pod]) -> Iterator[Effect]:
        pods = list(gated)
        for pod in pods:
            self._queue_capacity.stops_waiting(pod.key)
        yield from self._preempt.cancel_for(pods)

    def _schedule(self, now: float) -> Iterator[Effect]:
        postponed: list[QueuedPodInfo] = []
        yield from self._try_entries(postponed, now)
        if postponed:
            for info in postponed:
                self._queue.requeue(info)
            yield from self._try_entries(None, now)

    def _try_entries(self, postponed: list[QueuedPodInfo] | None, now: float) -> Iterator[Effect]:
        """Tries the active entries; those from which capacity is kept for others that are to be tried go after them."""
        for batch in self._choose.run(self._most_pods):
            for part in self._capacity.run(batch):
                if not isinstance(part, DeferredEntry):
                    yield from self._place_and_bind(part, now)
                elif postponed is not None and self._kept_for_active(part):
                    postponed.append(part.info)
                else:
                    yield from self._defer(part, now)

    def _kept_for_active(self, deferred: DeferredEntry) -> bool:
        not_now = deferred.not_now
        kept = self._queue_capacity.kept_from(not_now.equivalence) if "keptFor" in not_now.numbers else None
        entries = [self._gangs.queue_key(pod) for pod in kept.pods] if kept is not None else []
        return any(self._queue.queue_of(entry) is QueueName.ACTIVE for entry in entries)

    def _reservations_changed(self, now: float) -> bool:
        """Activates the pods whose reservation came into force or lost it: what is said of them is outdated.

        A gang may have lost it by a write of its own that failed: then it backs off first.
        """
        if not self._queue_capacity.in_use:
            return False
        self._queue_capacity.refresh(now)
        active = self._queue.sizes[QueueName.ACTIVE]
        changed, self._queue_capacity.changed = self._queue_capacity.changed, {}
        pods = [(pod, lost) for key, lost in changed.items() if (pod := self._cache.pods.get(key)) is not None]
        entries = [(entry := self._gangs.queue_key(pod), lost and entry == pod.key) for pod, lost in pods]
        waiting = [entry for entry, lost in entries if lost or self._queue.waits_refused(entry)]
        for entry in waiting:
            self._queue.activate(entry)
        if self._queue_capacity.given_up:
            self._queue_capacity.given_up = False
            self._queue.wake(QUEUE_WAKE_ON, now)
        return self._queue.sizes[QueueName.ACTIVE] > active

    def _starts_with(self, pod: Pod) -> list[Pod]:
        """The pods that start together with the first of a queue entry; none if there is no such entry to be tried."""
        info = self._queue.get(self._gangs.queue_key(pod))
        if info is None or info.queue is QueueName.GATED or info.pod.key != pod.key:
            return []
        return self._gangs.pods_of(info)[: self._gangs.needed(info)]

    @property
    def deciding(self) -> Key | None:
        return self._place.deciding or self._choose.deciding

    @property
    def permits(self) -> InformPermits:
        return self._queue_statuses.permits

    @property
    def awaited_permits(self) -> AwaitedPermits | None:
        """The informative writes that wait for permits; pods' conditions name no version and wait in the shell."""
        return self._queue_statuses.awaited_permits

    @property
    def queue_capacity(self) -> QueueCapacity:
        """For explanations."""
        return self._queue_capacity

    def check(self) -> None:
        """What must hold after every step, for what this step touched."""
        pods, nodes = self._cache.pods, self._cache.nodes
        for bind in self._bind.decided:
            key = bind.target.key
            short = nodes.shortage(bind.node, pods[key].shape)
            assert short is None, f"{key} was placed on {bind.node} without room: {short}"
            assert key not in self._queue, f"{key} both waits and is assumed"

    def collect(self) -> Iterator[Number]:
        yield from self._metrics.collect()
        yield from self._queue_capacity.collect()
        yield "headgate_queue_gates_removed_total", (), self._gates.removals.count

    # the answers of the server

    def _bind_answered(self, bind: Bind, outcome: Outcome, now: float) -> list[Effect]:
        effects: list[Effect] = []
        pod = self._cache.pods.get(bind.target.key) if outcome.trouble is None else None
        if pod is not None and pod.uid == bind.target.uid:
            effects.append(events.scheduled_event(pod, bind.node, now))
        failed = self._bind.answer(bind, outcome.trouble, now)
        if failed is not None:
            effects += self._forget(failed, outcome, now)
        return effects

    def _removal_answered(self, patch: PatchSpec, outcome: Outcome, now: float) -> list[Effect]:
        """A pod whose gates were not removed is gated as before, and tried again after a back-off.

        After a conflict it is not as it was observed last: no write failed, and what is observed next may end that.
        """
        failed = self._gates.removals.answer(patch, outcome.trouble, now)
        if failed is None or outcome.trouble is WriteError.GONE:
            return []
        return self._gated_again(failed, now, failures=outcome.trouble is not WriteError.CONFLICT)

    def _gated_again(self, failed: Pod, now: float, failures: int = 1) -> list[Effect]:
        effects = self._absorb.observe(failed, now)
        entry = self._gangs.queue_key(failed)
        self._queue.back_off(entry, now, failures)
        info = self._queue.get(entry)
        if info is not None and info.queue is QueueName.BACKOFF:
            self._queue_capacity.keeps_place(info.pod)
        return effects

    def _forget(self, assumed: AssumedPod, outcome: Outcome, now: float) -> list[Effect]:
        """The binding failed: the node is released and the pod, or its gang, is tried again after a back-off."""
        info, effects = assumed.info, list[Effect]()
        pod = info.pod
        entry = events.forgotten(pod, assumed.bind, outcome, now)
        self._journal.write(entry)
        if outcome.trouble is not WriteError.GONE:
            effects.append(events.failed_event(pod, entry))
        self._absorb.drop(pod)
        effects += self._gates.observed(pod) if pod.wants_node else ()
        if pod.wants_node and not self._pre_enqueue.rejoins_gang(pod):
            self._queue.add_backoff(info, now)
            self._queue_capacity.keeps_place(pod)
            self._cache.nominations.put(self._preempt.with_nomination(pod))  # its victims must not come back there
        elif pod.wants_node and outcome.trouble is not WriteError.GONE:
            effects.append(self._preempt.keep(pod, assumed.bind.node))
        self._metrics.failed(pod.scheduler_name, as_group=self._gangs.failed(pod))
        return effects

    def _patch_answered(self, patch: PatchStatus, outcome: Outcome, now: float) -> Iterable[Effect]:
        change = patch.change
        if isinstance(change, WorkloadStatus):
            self._statuses.answer(patch, outcome.trouble, now)
            return ()
        if isinstance(change, VolcanoStatus):
            self._queue_statuses.answer(patch, outcome.trouble, now)
            return ()
        if isinstance(change, Nomination):
            return self._preempt.nominated(patch, outcome, now)
        if may_take_effect_later(outcome) and self._still_matters(patch):
            self._conditions.retries.retry(patch.target.key, patch, now)
            return ()
        self._conditions.retries.forget(patch.target.key)
        if isinstance(change, PodCondition) and change.type == DISRUPTION_TARGET:
            return self._preempt.marked(patch, outcome, now)
        return ()

    def _still_matters(self, patch: PatchStatus) -> bool:
        """False for a condition of a pod that waits no longer, or that says something else by now."""
        change = patch.change
        pod = self._cache.pods.get(patch.target.key)
        if pod is None or pod.uid != patch.target.uid:
            return False
        if isinstance(change, PodCondition) and change.type == DISRUPTION_TARGET:
            return self._preempt.still_marks(pod, patch)
        outdated = isinstance(change, PodCondition) and not self._conditions.still_says(pod.key, change)
        waits = pod.key in self._queue or self._gangs.queue_key(pod) in self._queue
        return not outdated and not pod.holds_room and waits

    # what to do

    def _wake(self, now: float) -> list[Effect]:
        """Moves the pods that cluster events may concern, those whose backoff is over, and now and then all."""
        effects: list[Effect] = []
        if self._queue_capacity.in_use and self._cache.nominations:
            self._queue_capacity.recheck_nominated(now)
        self._reservations_changed(now)
        if self._queue_capacity.take_reordered():
            self._queue.reorder()
        self._reclaimed.wake(now)
        cluster_events = self._cache.take_events()
        if self._flush_at is not None and self._flush_at <= now:
            self._flush_at = None
            cluster_events = dict.fromkeys(ClusterEvent)
            effects += self._pre_enqueue.recheck_all(now)
        if cluster_events:
            self._post_filter.forget_failed_searches()
            if self._queue_capacity.in_use:
                self._queue_preemption.forget_failed_searches()
            effects += self._pre_enqueue.recheck(cluster_events, now)
            self._queue.wake(cluster_events, now)
        self._queue.flush_backoff(now)
        return effects

    def _wake_later(self, now: float) -> Iterator[Effect]:
        sizes = self._queue.sizes
        goes_on = now if self._work.left <= 0 and sizes[QueueName.ACTIVE] else None
        yield from self._timer.wake_at(now, self._queue_capacity.reservations.next_deadline, goes_on)
        if self._flush_at is None and (sizes[QueueName.UNSCHEDULABLE] or sizes[QueueName.GATED]):
            self._flush_at = now + FLUSH_AFTER
            yield from self._flush_timer.wake_at(now, self._flush_at)

    def _most_pods(self) -> int:
        return self._max_in_flight - self._bind.in_flight if self._work.left > 0 else 0

    def _place_and_bind(self, batch: Batch, now: float) -> Iterator[Effect]:
        refused = False
        for info, found in self._place.run(batch):
            if isinstance(found, NoPlacement):
                self._work.refused(info.pods, as_another=refused and batch.equal)
                refused = True
            elif found is not None:
                self._work.left -= PLACING * info.pods
            yield from self._act(info, found, batch.members, now)
            if self._gangs.touched:
                yield from self._pre_enqueue.enqueue_gangs(now)

    def _act(self, info: QueuedPodInfo, found: Found | None, members: list[Pod], now: float) -> Iterable[Effect]:
        """`members` are those of a gang that every capacity stage allows."""
        if found is None:
            self._queue.requeue(info)
            return ()
        info.attempts += 1
        match found:
            case Placement():
                self._queue.done(info)
                return self._assume(info, found, now, GroupAttempt(1) if info.group is not None else None)
            case GroupPlacement(placements=placements):
                self._queue.done(info)
                attempt = GroupAttempt(len(placements))
                placed = [(_member(info, self._cache.pods[pod.key]), placement) for pod, placement in placements]
                return [effect for member, each in placed for effect in self._assume(member, each, now, attempt)]
            case NoPlacement():
                return self._refuse(info, found, members or [info.pod], now)
            case _:
                assert_never(found)

    def _assume(self, info: QueuedPodInfo, found: Placement, now: float, attempt: GroupAttempt | None) -> list[Effect]:
        pod = info.pod
        self._preempt.waits_no_more(pod)
        if self._cache.nominations.pods:
            if self._cache.nominations.drop(pod.key) and pod.nominated != found.node:
                self._cache.note(ClusterEvent.ROOM_FREED)
            self._preempt.charged(found.node, pod.priority)
        self._gangs.scheduled(pod, found.node)
        self._cache.note(ClusterEvent.NEIGHBOURS_CHANGED)
        return self._bind.run(info, found, now, attempt)

    def _refuse(self, info: QueuedPodInfo, found: NoPlacement, pods: list[Pod], now: float) -> list[Effect]:
        alike = self._place.equivalence(info)
        if self._queue_capacity.in_use:  # whom it may preempt depends on its queue
            alike = alike, self._queue_capacity.queue_of(info.pod)
        self._queue.set_equivalence(info, alike)
        info.rejected_by = found.filters
        post_filter = self._post_filter.run(info, found, now)
        result = AttemptResult.WAITING if post_filter.helps else AttemptResult.UNSCHEDULABLE
        self._metrics.attempted(info, result, info.pods)
        wake_on = found.wake_on | post_filter.wake_on
        if info.group is None and info.pod.group is not None:  # where it may run depends on the others of its group
            wake_on |= {ClusterEvent.MEMBERS_CHANGED}
        if len(pods) < info.pods:  # the others wait for their queue
            wake_on |= QUEUE_WAKE_ON
        self._queue.add_unschedulable(info, wake_on, now)
        if not post_filter.helps:
            self._queue_capacity.no_node(info.pod)
        expired = {pod.key: why for pod in pods if (why := self._queue_capacity.expired(pod)) is not None}
        nominations = [effect for effect in post_filter.effects if _nominates(effect)]
        others = [effect for effect in post_filter.effects if not _nominates(effect)]
        effects = [*nominations, *self._reserve(info, [pod for pod in pods if pod.key not in expired], now)]
        if self._queue_capacity.in_use:
            self._queue_capacity.remains_unplaced(pods[: self._gangs.needed(info)])
        allowed = {pod.key for pod in pods}
        for pod in self._gangs.pods_of(info):
            not_now = expired.get(pod.key) if pod.key in allowed else self._queue_capacity.beyond(pod, len(pods))
            if not_now is not None:
                effects += self._report_deferred(pod, self._queue_capacity.name, not_now, now)
            else:
                effects += self._conditions.waits(pod, events.refused(pod, found, post_filter.says, now))
        return [*effects, *others]

    def _reserve(self, info: QueuedPodInfo, pods: list[Pod], now: float) -> list[Effect]:
        """Removes the queue-allocation gates of pods that no node fits: autoscalers may bring one."""
        keeps = self._queue_capacity.keeps(self._gangs.pods_of(info))
        effects: list[Effect] = [*self._gates.unplaced(pods, now)] if keeps else []
        for effect in effects:
            assert isinstance(effect, PatchSpec)
            pod = self._gates.removals.without_gates(self._cache.pods[effect.target.key])
            self._cache.pods[pod.key] = pod
            self._journal.write(events.reserved(pod, self._queue_capacity.queue_of(pod), now))
            if info.group is None:
                info.pod = pod
            else:
                self._gangs.ready(pod)
        return effects

    def _note_times(self, now: float) -> Iterator[Effect]:
        """Has pods that were let go without a time, and get no node in this step, reserve capacity from now on."""
        removals = self._gates.removals
        for key in self._queue_capacity.reservations.take_undated():
            yield removals.reserve(self._cache.pods[key], now)
            pod = self._cache.pods[key] = removals.without_gates(self._cache.pods[key])
            self._queue_capacity.waits(pod)
            yield from self._pre_enqueue.enqueue(pod, now)
        self._queue_capacity.refresh(now)

    def _defer(self, deferred: DeferredEntry, now: float) -> list[Effect]:
        """A capacity stage says "not now": the entry waits like an unschedulable one, without preempting on nodes."""
        info, not_now = deferred.info, deferred.not_now
        info.attempts += 1
        is_short = self._queue_capacity.is_short(deferred.stage, not_now)
        self._work.refused(info.pods, as_another=not is_short)
        alike, wake_on, pods = deferred.equivalence, not_now.wake_on, self._gangs.pods_of(info)
        if is_short:
            alike = alike, self._queue_preemption.equivalence(info, pods)
        self._queue.set_equivalence(info, alike)
        info.rejected_by = (deferred.stage,)
        self._metrics.attempted(info, AttemptResult.UNSCHEDULABLE, info.pods)
        effects: list[Effect] = [*self._preempt.cancel_for(pods)]
        if is_short:
            made = self._queue_preemption.run(info, pods, self._gangs.needed(info), not_now.equivalence, now)
            effects += made.effects
            wake_on |= made.wake_on
            if made.says:
                not_now = structs.replace(not_now, message=f"{not_now.message}; {made.says}")
        self._queue.add_unschedulable(info, wake_on, now)
        for pod in pods:
            if deferred.stage == self._queue_capacity.name and not_now.reason != reason_for(pod):
                said = structs.replace(not_now, reason=reason_for(pod))  # of a gang some may have asked for the gate
                effects += self._report_deferred(pod, deferred.stage, said, now)
            else:
                effects += self._report_deferred(pod, deferred.stage, not_now, now)
        return effects

    def _report_deferred(self, pod: Pod, stage: str, not_now: NotNow, now: float) -> list[events.Report]:
        entry = events.deferred(pod, stage, not_now, now)
        gated = not_now.reason == events.GATED
        return self._conditions.held_back(pod, entry) if gated else self._conditions.waits(pod, entry)

    def _remove_again(self, now: float) -> Iterator[Effect]:
        """Sends removals of gates again, and forgets those of pods that do not reserve capacity any more."""
        for patch in self._gates.removals.due(now):
            if self._gates.still_removes(patch.target.key):
                yield patch
            elif (pod := self._gates.forget(patch.target.key)) is not None:
                yield from self._gated_again(pod, now)

    def _send_again(self, now: float) -> Iterator[Effect]:
        yield from self._bind.due(now)
        yield from self._remove_again(now)
        yield from self._preempt.due(now)
        for pod, patch, _ in self._conditions.retries.due(now):
            if self._still_matters(patch):
                yield patch
            else:
                self._conditions.retries.forget(pod)
        self._statuses.recheck_due(now)
        self._queue_statuses.recheck_due(now)


def _having(plugin: str, point: Point, profiles: Iterable[Profile]) -> frozenset[str]:
    """The schedulerNames of the profiles that have the plugin on."""
    return frozenset(profile.scheduler_name for profile in profiles if profile.has_on(plugin, point))


def _nominates(effect: Effect) -> bool:
    """Nominations are written before the condition that autoscalers act on, so that they buy no node for the pod."""
    return isinstance(effect, PatchStatus) and isinstance(effect.change, Nomination)


def _member(info: QueuedPodInfo, pod: Pod) -> QueuedPodInfo:
    """The gang's queue entry as one of its pod."""
    return QueuedPodInfo(pod, attempts=info.attempts, since=info.since)
