"""The absorb stage: brings the cache, the queue and all assumptions up to date with what is observed."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.engine.journal import Journal
from headgate.engine.planes import saturated_entry, saturated_event
from headgate.engine.scheduler.bind import AssumedPod, BindStage
from headgate.engine.scheduler.cache import ClusterCache
from headgate.engine.scheduler.capacity import CapacityStages
from headgate.engine.scheduler.events import PodConditions
from headgate.engine.scheduler.gangs import GangTracker
from headgate.engine.scheduler.groups import GROUP_KINDS
from headgate.engine.scheduler.pre_enqueue import PreEnqueueStage
from headgate.engine.scheduler.preempt import PreemptStage
from headgate.engine.scheduler.queue_capacity import QueueCapacity
from headgate.engine.scheduler.queue_gates import QueueGates
from headgate.engine.scheduler.statuses import VolcanoStatuses
from headgate.model.cluster_events import ClusterEvent
from headgate.model.effects import Effect
from headgate.model.keys import Key, Kind
from headgate.model.node import Node
from headgate.model.objects import Object
from headgate.model.pod import GroupKey, Pod, Workload
from headgate.model.resources import saturated
from headgate.model.volcano import VolcanoQueue
from headgate.queueing.queue import PodQueue, same_demand


class AbsorbStage:
    """Observations are level-triggered: an object is taken as it is now, whatever was known or assumed before."""

    def __init__(
        self,
        cache: ClusterCache,
        queue: PodQueue,
        gangs: GangTracker,
        *,
        pre_enqueue: PreEnqueueStage,
        capacity: CapacityStages,
        preempt: PreemptStage,
        bind: BindStage,
        queue_capacity: QueueCapacity,
        gates: QueueGates,
        queue_statuses: VolcanoStatuses,
        conditions: PodConditions,
        journal: Journal,
        ours: frozenset[str],  # the schedulerNames whose pods are placed here
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._gangs = gangs
        self._pre_enqueue = pre_enqueue
        self._capacity = capacity
        self._preempt = preempt
        self._bind = bind
        self._queue_capacity = queue_capacity
        self._gates = gates
        self._queue_statuses = queue_statuses
        self._conditions = conditions
        self._journal = journal
        self._ours = ours

    def observe(self, found: Object, now: float) -> list[Effect]:
        if isinstance(found, Pod):
            return self._observe_pod(found, now)
        if isinstance(found, VolcanoQueue):
            self._queue_capacity.observe(self._cache.volcano_queues.get(found.name), found)
        elif isinstance(found, Node):
            self._queue_capacity.nodes_changed()
        elif isinstance(found, Workload):
            self._queue_capacity.groups_changed()
        return self._observe_again(self._cache.observe(found), now)

    def lose(self, key: Key, uid: str, now: float) -> list[Effect]:
        """The object of this key and uid is gone."""
        effects = self._observe_again(self._cache.lose(key, uid), now)
        known = self._cache.pods.get(key)
        if known is not None and known.uid == uid:
            self._lose_pod(known)
        elif key.kind in GROUP_KINDS:
            self._queue_capacity.groups_changed()
            self._journal.forget(key)
        elif key.kind is Kind.VOLCANO_QUEUE:
            self._queue_capacity.lose(key.name)
        elif key.kind is Kind.NODE:
            self._queue_capacity.nodes_changed()
        return effects

    def drop(self, pod: Pod) -> None:
        """The pod takes no capacity and waits for none."""
        reserved = self._bind.unreserve(pod.key)
        nominated = self._stops_waiting(pod)
        self._gangs.gone(pod)
        self._capacity.release(pod.key)
        if self._cache.nodes.release(pod.key) or reserved or nominated:
            self._cache.note(ClusterEvent.ROOM_FREED)
            self._preempt.left(pod)

    def _observe_again(self, pods: Iterable[Pod], now: float) -> list[Effect]:
        """The priority of these pods, or how their group starts and is preempted, may have changed."""
        effects: list[Effect] = []
        for pod in pods:
            effects += self._observe_pod(pod, now)
            if pod.group is not None:
                self._cache.touch_workload(pod.group.workload)
                self._gangs.touch_all(pod.group)
                self._cache.note(ClusterEvent.MEMBERS_CHANGED)
            self._candidate_changed(self._cache.pods[pod.key])
        return effects

    def _candidate_changed(self, pod: Pod) -> None:
        """Whether a running pod may be preempted, and with whom, may have changed."""
        if self._cache.nodes.charge_of(pod.key) is not None:
            self._cache.running.changed([pod])
            self._cache.note(ClusterEvent.CANDIDATES_CHANGED)
            self._queue_capacity.candidate_changed(pod)

    def _observe_pod(self, observed: Pod, now: float) -> list[Effect]:
        cache, key = self._cache, observed.key
        effects: list[Effect] = []
        if key in self._gangs.quarantine:
            self._gangs.quarantined(key, None)
        known = cache.pods.get(key)
        if known is not None:
            if known.uid != observed.uid:
                effects += self.lose(key, known.uid, now)
                known = None
            elif _changed_group(known, observed):
                self._leave_group(known)
        ranked = observed if observed.group is None else self._with_group_priority(observed, observed.group, known)
        pod = self._as_assumed(ranked)
        cache.pods[key] = pod
        if (known is None or known.shape is not pod.shape) and (names := saturated(pod.shape.requests)):
            entry = saturated_entry(key, names, now)
            self._journal.write(entry)
            effects.append(saturated_event(pod.target, entry))
        if pod.holds_room:
            self._confirm(pod, known)
        elif not observed.wants_node:
            self.drop(pod)
        elif (assumed := self._bind.get(key)) is not None:
            self._update_assumed(assumed, pod)
        elif pod.scheduler_name in self._ours:
            if cache.nominations.put(pod):
                cache.note(ClusterEvent.ROOM_FREED)
            if pod.group is not None and self._pre_enqueue.is_member_that_matters(pod):
                same = known is not None and same_demand(known, pod) and known.gates == pod.gates
                cache.note(*() if same else (ClusterEvent.MEMBERS_CHANGED,))
            if pod.annotations or pod.gates or self._queue_capacity.in_use:
                effects += self._gates.observed(pod)
            effects += self._pre_enqueue.enqueue(pod, now)
        return effects

    def _as_assumed(self, pod: Pod) -> Pod:
        """The pod with the assumed effect of writes that are not observed yet; its queue may have to show it."""
        pod = self._preempt.as_assumed(pod)
        if self._gates.removals.removed:
            pod = self._gates.as_assumed(pod)
        if pod.annotations or pod.group is not None or self._queue_capacity.in_use:
            self._queue_statuses.observe_pod(pod)
        return pod

    def _with_group_priority(self, observed: Pod, group: GroupKey, known: Pod | None) -> Pod:
        """The pod with the priority of its workload, which may have to report one pod more."""
        self._cache.groups.put_pod(observed)
        if known is None or _changed_group(known, observed):
            self._cache.touch_workload(group.workload)
        return self._cache.groups.ranked(observed)

    def _leave_group(self, pod: Pod) -> None:
        """The pod names another group: the one it was in does not count it, and no node is kept for it there."""
        self._preempt.leaves_queue(pod)
        self._gangs.gone(pod)
        self._drop_member(pod)

    def _drop_member(self, pod: Pod) -> None:
        if pod.group is None:
            return
        groups, workload = self._cache.groups, pod.group.workload
        groups.drop_pod(pod)
        if self._pre_enqueue.is_member_that_matters(pod):
            self._cache.note(ClusterEvent.MEMBERS_CHANGED)
        self._cache.touch_workload(workload)
        if workload not in groups.workloads and not groups.has_pods(workload):
            self._journal.forget(workload)  # of a group without an object nothing else says that it is gone

    def _update_assumed(self, assumed: AssumedPod, pod: Pod) -> None:
        """The pod was observed before its binding: it is charged to its node as it looks now."""
        node, before = assumed.bind.node, assumed.info.pod
        assumed.info.pod = pod
        if _changed_group(before, pod):
            self._gangs.scheduled(pod, node)
            self._candidate_changed(pod)
        self._capacity.charge(pod)
        self._cache.note(*self._cache.nodes.charge(pod, node))

    def _confirm(self, pod: Pod, known: Pod | None) -> None:
        """The pod runs on the node it names, whatever was assumed."""
        cache = self._cache
        self._bind.observed(pod.key, pod.node)
        is_known_there = known is not None and known.node == pod.node
        if not is_known_there and self._stops_waiting(pod):
            cache.note(ClusterEvent.ROOM_FREED)
        self._gangs.scheduled(pod, pod.node)
        if cache.nominations and cache.nodes.charge_of(pod.key) is None:
            self._preempt.charged(pod.node)  # who bound it may not have looked at nominations
        self._capacity.charge(pod)
        cache.note(*cache.nodes.charge(pod, pod.node))
        if known is not None and _changed_group(known, pod):
            self._candidate_changed(pod)
        elif known is not None and _costs_otherwise(known, pod):
            cache.running.changed([pod])

    def _stops_waiting(self, pod: Pod) -> bool:
        """Drops all that concerned its waiting; True when it was nominated to a node."""
        key = pod.key
        self._bind.settle(key)
        self._conditions.forget(key)
        self._pre_enqueue.forget(key)
        self._preempt.waits_no_more(pod)
        self._queue.delete(key)
        return self._cache.nominations.drop(key)

    def _lose_pod(self, pod: Pod) -> None:
        self.drop(pod)
        self._gates.forget(pod.key)
        self._drop_member(pod)
        self._queue_statuses.lose_pod(pod)
        del self._cache.pods[pod.key]
        self._queue_capacity.stops_waiting(pod.key)  # what it left may have had an entry of its gang tried again
        self._journal.forget(pod.key)


def _costs_otherwise(before: Pod, now: Pod) -> bool:
    """Whether preempting the running pod would cost more or less work than before."""
    return (
        before.started != now.started
        or before.checkpointed != now.checkpointed
        or before.checkpoint_every != now.checkpoint_every
    )


def _changed_group(before: Pod, now: Pod) -> bool:
    return before.group != now.group or before.group_total != now.group_total
