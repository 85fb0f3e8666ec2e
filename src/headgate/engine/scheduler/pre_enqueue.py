"""The PreEnqueue stage: pods that a plugin holds are gated, the others enter the queue, alone or with their gang."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from headgate.engine.scheduler import events
from headgate.engine.scheduler.events import PodConditions, Report
from headgate.engine.scheduler.gangs import PLUGIN, GangTracker, PodByPod, QueuedAsOne
from headgate.engine.scheduler.groups import Undescribed
from headgate.gates.pre_enqueue import ClusterView, Held, PreEnqueue, SchedulingGates, held_by
from headgate.model.cluster_events import ClusterEvent
from headgate.model.effects import PatchStatus
from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.queueing.queue import PodQueue, QueueName


class PreEnqueueStage:
    """Every pod of ours that wants a node comes by here, each time it changes.

    Members of a gang that passed the plugins wait for one another: `enqueue_gangs` queues or gates them.
    """

    def __init__(
        self,
        plugins: Mapping[str, tuple[PreEnqueue, ...]],
        with_gangs: frozenset[str],  # the schedulerNames that start gangs as gangs
        queue: PodQueue,
        gangs: GangTracker,
        conditions: PodConditions,
        *,
        view: ClusterView,
    ) -> None:
        self._plugins = plugins
        self._with_gangs = with_gangs
        self._queue = queue
        self._gangs = gangs
        self._conditions = conditions
        self._view = view
        heard = frozenset().union(*(plugin.wake_on for each in plugins.values() for plugin in each))
        self._members_matter = ClusterEvent.MEMBERS_CHANGED in heard or not with_gangs.issuperset(plugins)
        self._held: dict[Key, Held] = {}
        self.newly_gated: dict[Key, Pod] = {}
        self.released: dict[Key, Pod] = {}
        self._enqueued: dict[Key, str] = {}  # by uid

    def enqueue(self, pod: Pod, now: float) -> list[Report]:
        """Adds the pod to the queue, or gates it and reports why."""
        held = held_by(self._plugins[pod.scheduler_name], pod, self._view)
        if held is not None:
            if self._in_group(pod):
                self._gangs.gated(pod)
            return self._gate(pod, held, now)
        if self._in_group(pod):
            self._gangs.ready(pod)
            self._queue.update(pod)
            return []
        self._queue.add(pod, now)
        self._passed(pod, now)
        return []

    def rejoins_gang(self, pod: Pod) -> bool:
        """Whether a pod whose binding failed waits with its gang again; otherwise it is queued by itself."""
        if not self._in_group(pod):
            return False
        self._gangs.ready(pod)
        return self._gangs.waits_as_one(pod)

    def is_member_that_matters(self, pod: Pod) -> bool:
        """Whether it matters that this pod comes or changes: to a plugin, or to members that go by themselves."""
        return pod.group is not None and (self._members_matter or self._gangs.topology(pod.group) != "")

    def _in_group(self, pod: Pod) -> bool:
        return pod.group is not None and pod.scheduler_name in self._with_gangs

    def enqueue_gangs(self, now: float) -> list[Report]:
        """Queues or gates the members whose gang has a new state."""
        reports: list[Report] = []
        for pod, state in self._gangs.settle(now):
            match state:
                case Undescribed(reason):
                    reports += self._gate(pod, Held(PLUGIN, reason, frozenset()), now)
                case QueuedAsOne():
                    self._queue.delete(pod.key)
                    self._passed(pod, now)
                case PodByPod():
                    self._queue.add(pod, now)
                    self._passed(pod, now)
                case _:
                    assert_never(state)
        return reports

    def recheck(self, cluster_events: Mapping[ClusterEvent, None], now: float) -> list[Report]:
        """Asks the plugins again about the gated pods for which one of these events may matter."""
        return [report for pod in self._queue.gated_for(cluster_events) for report in self.enqueue(pod, now)]

    def recheck_all(self, now: float) -> list[Report]:
        return [report for pod in self._queue.gated_pods() for report in self.enqueue(pod, now)]

    def take_newly_gated(self) -> Iterable[Pod]:
        """The pods that were gated since the last call."""
        gated, self.newly_gated = self.newly_gated, {}
        return gated.values()

    def forget(self, key: Key) -> None:
        self._held.pop(key, None)
        self.newly_gated.pop(key, None)
        self.released.pop(key, None)
        self._enqueued.pop(key, None)

    def report_queued(self) -> list[Report]:
        """A condition for pods released in this step that still wait for their turn: they are not gated any more.

        Those that were tried have another one, although they may wait for another turn already.
        """
        reports: list[Report] = []
        for pod in self.released.values():
            info = self._queue.get(self._gangs.queue_key(pod))
            if info is not None and not info.attempts and info.queue in (QueueName.ACTIVE, QueueName.BACKOFF):
                reports += self._conditions.queued(pod)
        self.released = {}
        return reports

    def _passed(self, pod: Pod, now: float) -> None:
        key, uid = pod.key, pod.uid
        held = self._held.pop(key, None) if self._held else None
        self.newly_gated.pop(key, None)
        unheard_of = self._enqueued.get(key) != uid  # its condition may tell of a time before ours, once
        self._enqueued[key] = uid
        if pod.gates or (held is None and not (unheard_of and events.shown_as_gated(pod))):
            return
        self._conditions.released(pod, now)
        by_gates = events.shows(pod, SchedulingGates.reason) if held is None else held.plugin == SchedulingGates.name
        if not by_gates:  # what the server said of gates it is left to say
            self.released[key] = pod

    def _gate(self, pod: Pod, held: Held, now: float) -> list[Report]:
        self._queue.add_gated(pod, held.wake_on, held.plugin)
        known = self._held.get(pod.key)
        if known == held:
            return []
        self._held[pod.key] = held
        self.newly_gated[pod.key] = pod
        reports = self._conditions.gated(pod, events.gated(pod, held, now))
        with_event = known is None and held.plugin != PLUGIN
        return [report for report in reports if with_event or isinstance(report, PatchStatus)]
