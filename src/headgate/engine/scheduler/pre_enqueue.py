"""The door to the queue: what keeps a pod out, and what its owner is told about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from headgate.engine.scheduler import events
from headgate.engine.scheduler.events import Explaining, Told
from headgate.engine.scheduler.gangs import PLUGIN, ByThemselves, Gangs, InLine
from headgate.engine.scheduler.groups import Undescribed
from headgate.gates.pre_enqueue import Held, PreEnqueue, held_by
from headgate.model.effects import PatchStatus
from headgate.model.happenings import Happening
from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.queueing.queue import Line, PodQueue


class Entrance:
    """Every pod of ours that wants a node comes by here, each time it changes.

    Members of a gang that passed the plugins wait for one another: `settle_gangs` says what became of them.
    """

    def __init__(
        self,
        plugins: Mapping[str, tuple[PreEnqueue, ...]],
        with_gangs: frozenset[str],  # the schedulerNames that start gangs as gangs
        queue: PodQueue,
        gangs: Gangs,
        explaining: Explaining,
    ) -> None:
        self._plugins = plugins
        self._with_gangs = with_gangs
        self._queue = queue
        self._gangs = gangs
        self._explaining = explaining
        self._held: dict[Key, Held] = {}
        self._newly_held: dict[Key, Pod] = {}
        self._released: dict[Key, Pod] = {}
        self._let_in: dict[Key, str] = {}  # by uid

    def present(self, pod: Pod, now: float) -> Iterator[Told]:
        """Let the pod into the queue, or hold it and say why."""
        held = held_by(self._plugins[pod.scheduler_name], pod)
        if held is not None:
            if self._in_group(pod):
                self._gangs.gated(pod)
            yield from self._hold(pod, held, now)
        elif self._in_group(pod):
            self._gangs.ready(pod)
        else:
            self._queue.offer(pod, now)
            yield from self._admit(pod, now)

    def goes_with_others(self, pod: Pod) -> bool:
        """The pod, which had found a node, wants one again: whether it goes for it with its gang, or by itself."""
        if not self._in_group(pod):
            return False
        self._gangs.ready(pod)
        return self._gangs.is_one(pod)

    def _in_group(self, pod: Pod) -> bool:
        return pod.group is not None and pod.scheduler_name in self._with_gangs

    def settle_gangs(self, now: float) -> Iterator[Told]:
        """Members whose gang stands differently now are let in, alone or with it, or held."""
        for pod, stand in self._gangs.settle(now):
            match stand:
                case Undescribed(reason):
                    yield from self._hold(pod, Held(PLUGIN, reason, frozenset()), now)
                case InLine():
                    self._queue.withdraw(pod.key)
                    yield from self._admit(pod, now)
                case ByThemselves():
                    self._queue.offer(pod, now)
                    yield from self._admit(pod, now)
                case _:
                    assert_never(stand)

    def wake(self, happenings: Mapping[Happening, None], now: float) -> Iterator[Told]:
        """Ask again about the pods whose plugin listens for one of these."""
        for pod in self._queue.held_for(happenings):
            yield from self.present(pod, now)

    def ask_all(self, now: float) -> Iterator[Told]:
        for pod in self._queue.held():
            yield from self.present(pod, now)

    def take_held(self) -> Iterable[Pod]:
        """Those that were held, for whatever reason, since the last call."""
        held, self._newly_held = self._newly_held, {}
        return held.values()

    def forget(self, key: Key) -> None:
        self._held.pop(key, None)
        self._newly_held.pop(key, None)
        self._released.pop(key, None)
        self._let_in.pop(key, None)

    def settle(self, now: float) -> Iterator[Told]:
        """Those let in just now that still wait for their turn must not go on saying that they are gated."""
        for pod in self._released.values():
            if self._queue.line_of(self._gangs.place_of(pod)) in (Line.ACTIVE, Line.BACKOFF):
                yield from self._explaining.queued(pod)
        self._released = {}

    def _admit(self, pod: Pod, now: float) -> Iterator[Told]:
        held = self._held.pop(pod.key, None)
        unheard_of = self._let_in.get(pod.key) != pod.uid  # its condition may tell of a time before ours, once
        self._let_in[pod.key] = pod.uid
        if not pod.gates and (held is not None or (unheard_of and events.shown_as_gated(pod))):
            self._released[pod.key] = pod
            self._explaining.released(pod, now)
            if held is None or held.plugin != PLUGIN:  # that a gang is complete is not worth an event for each member
                yield events.released_event(pod, now)

    def _hold(self, pod: Pod, held: Held, now: float) -> Iterator[Told]:
        self._queue.hold(pod, held.wake_on, held.plugin)
        known = self._held.get(pod.key)
        if known == held:
            return
        self._held[pod.key] = held
        self._newly_held[pod.key] = pod
        for effect in self._explaining.gated(pod, events.gated(pod, held, now)):
            if isinstance(effect, PatchStatus) or (known is None and held.plugin != PLUGIN):
                yield effect
