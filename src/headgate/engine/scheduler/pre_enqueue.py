"""The door to the queue: what keeps a pod out, and what its owner is told about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from headgate.engine.scheduler import events
from headgate.engine.scheduler.events import PodConditions, Report
from headgate.engine.scheduler.gangs import PLUGIN, GangTracker, PodByPod, QueuedAsOne
from headgate.engine.scheduler.groups import Undescribed
from headgate.gates.pre_enqueue import Held, PreEnqueue, held_by
from headgate.model.effects import PatchStatus
from headgate.model.happenings import Happening
from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.queueing.queue import PodQueue, QueueName


class PreEnqueueStage:
    """Every pod of ours that wants a node comes by here, each time it changes.

    Members of a gang that passed the plugins wait for one another: `enqueue_gangs` says what became of them.
    """

    def __init__(
        self,
        plugins: Mapping[str, tuple[PreEnqueue, ...]],
        with_gangs: frozenset[str],  # the schedulerNames that start gangs as gangs
        queue: PodQueue,
        gangs: GangTracker,
        conditions: PodConditions,
    ) -> None:
        self._plugins = plugins
        self._with_gangs = with_gangs
        self._queue = queue
        self._gangs = gangs
        self._conditions = conditions
        self._held: dict[Key, Held] = {}
        self._newly_gated: dict[Key, Pod] = {}
        self._released: dict[Key, Pod] = {}
        self._enqueued: dict[Key, str] = {}  # by uid

    def enqueue(self, pod: Pod, now: float) -> Iterator[Report]:
        """Let the pod into the queue, or hold it and say why."""
        held = held_by(self._plugins[pod.scheduler_name], pod)
        if held is not None:
            if self._in_group(pod):
                self._gangs.gated(pod)
            yield from self._gate(pod, held, now)
        elif self._in_group(pod):
            self._gangs.ready(pod)
        else:
            self._queue.add(pod, now)
            yield from self._admit(pod, now)

    def rejoins_gang(self, pod: Pod) -> bool:
        """The pod, which had found a node, wants one again: whether it goes for it with its gang, or by itself."""
        if not self._in_group(pod):
            return False
        self._gangs.ready(pod)
        return self._gangs.waits_as_one(pod)

    def _in_group(self, pod: Pod) -> bool:
        return pod.group is not None and pod.scheduler_name in self._with_gangs

    def enqueue_gangs(self, now: float) -> Iterator[Report]:
        """Members whose gang stands differently now are let in, alone or with it, or held."""
        for pod, state in self._gangs.settle(now):
            match state:
                case Undescribed(reason):
                    yield from self._gate(pod, Held(PLUGIN, reason, frozenset()), now)
                case QueuedAsOne():
                    self._queue.delete(pod.key)
                    yield from self._admit(pod, now)
                case PodByPod():
                    self._queue.add(pod, now)
                    yield from self._admit(pod, now)
                case _:
                    assert_never(state)

    def wake(self, happenings: Mapping[Happening, None], now: float) -> Iterator[Report]:
        """Ask again about the pods whose plugin listens for one of these."""
        for pod in self._queue.gated_for(happenings):
            yield from self.enqueue(pod, now)

    def recheck_all(self, now: float) -> Iterator[Report]:
        for pod in self._queue.gated_pods():
            yield from self.enqueue(pod, now)

    def take_newly_gated(self) -> Iterable[Pod]:
        """Those that were held, for whatever reason, since the last call."""
        held, self._newly_gated = self._newly_gated, {}
        return held.values()

    def forget(self, key: Key) -> None:
        self._held.pop(key, None)
        self._newly_gated.pop(key, None)
        self._released.pop(key, None)
        self._enqueued.pop(key, None)

    def settle(self, now: float) -> Iterator[Report]:
        """Those let in just now that still wait for their turn must not go on saying that they are gated."""
        for pod in self._released.values():
            if self._queue.queue_of(self._gangs.queue_key(pod)) in (QueueName.ACTIVE, QueueName.BACKOFF):
                yield from self._conditions.queued(pod)
        self._released = {}

    def _admit(self, pod: Pod, now: float) -> Iterator[Report]:
        held = self._held.pop(pod.key, None)
        unheard_of = self._enqueued.get(pod.key) != pod.uid  # its condition may tell of a time before ours, once
        self._enqueued[pod.key] = pod.uid
        if not pod.gates and (held is not None or (unheard_of and events.shown_as_gated(pod))):
            self._released[pod.key] = pod
            self._conditions.released(pod, now)
            if held is None or held.plugin != PLUGIN:  # that a gang is complete is not worth an event for each member
                yield events.released_event(pod, now)

    def _gate(self, pod: Pod, held: Held, now: float) -> Iterator[Report]:
        self._queue.add_gated(pod, held.wake_on, held.plugin)
        known = self._held.get(pod.key)
        if known == held:
            return
        self._held[pod.key] = held
        self._newly_gated[pod.key] = pod
        for effect in self._conditions.gated(pod, events.gated(pod, held, now)):
            if isinstance(effect, PatchStatus) or (known is None and held.plugin != PLUGIN):
                yield effect
