"""The bind stage: reserve, assume, bind. A decided binding counts at once, until it is observed or has failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from headgate.engine.in_flight import InFlightWrites, WritePolicy
from headgate.engine.journal import Journal
from headgate.engine.scheduler import events
from headgate.engine.scheduler.capacity import CapacityStages
from headgate.engine.scheduler.events import GroupAttempt, SchedulerMetrics
from headgate.engine.scheduler.plugins import Plugins
from headgate.model.effects import Bind, Effect
from headgate.model.events import WriteError
from headgate.model.keys import Key
from headgate.placement.placer import Placement
from headgate.queueing.queue import QueuedPodInfo


class AssumedPod(Struct):
    """A pod that counts as bound and has not been observed on its node yet."""

    info: QueuedPodInfo
    bind: Bind
    attempt: GroupAttempt | None = None  # of its gang
    doubtful: bool = False  # an answer was lost: only an observation or a yes settles it
    counted: bool = False  # as scheduled


class BindStage:
    def __init__(
        self,
        profiles: Mapping[str, Plugins],
        capacity: CapacityStages,
        journal: Journal,
        policy: WritePolicy,
        metrics: SchedulerMetrics,
    ) -> None:
        self._profiles = profiles
        self._capacity = capacity
        self._journal = journal
        self._metrics = metrics
        self._assumed: dict[Key, AssumedPod] = {}
        self.writes = InFlightWrites[Key, Bind](policy)
        self.decided: list[Bind] = []  # since the caller last cleared it

    def run(
        self, info: QueuedPodInfo, found: Placement, now: float, attempt: GroupAttempt | None = None
    ) -> list[Effect]:
        """Reserves what the pod takes and returns the binder's effects in their order.

        Effects for one object are carried out in order, so what a binder puts before its Bind is done before it.
        """
        pod = info.pod
        plugins = self._profiles[pod.scheduler_name]
        for rule in plugins.reserve:
            rule.reserve(pod, found.node)
        self._capacity.charge(pod)
        self._journal.write(events.bound(info, found, now))
        effects = list(plugins.binder.bind(pod, found.node))
        for effect in effects:
            if isinstance(effect, Bind):
                self._assumed[pod.key] = AssumedPod(info, effect, attempt)
                self.writes.send(pod.key, effect)
                self.decided.append(effect)
        return effects

    def get(self, key: Key) -> AssumedPod | None:
        return self._assumed.get(key)

    @property
    def in_flight(self) -> int:
        """Bindings sent and not answered yet."""
        return self.writes.unanswered

    def answer(self, bind: Bind, trouble: WriteError | None, now: float) -> AssumedPod | None:
        """Takes in the server's answer; returns the assumed pod if its binding has failed for good.

        After a lost answer a conflict may be our own binding: the pod stays assumed until the truth is observed.
        """
        key = bind.target.key
        assumed = self._assumed.get(key)
        if assumed is None or assumed.bind != bind:
            return None
        if trouble is None:
            assumed.doubtful = False
            self.writes.confirm(key)
            self._count(assumed)
        elif trouble is WriteError.UNKNOWN or (assumed.doubtful and trouble is not WriteError.GONE):
            assumed.doubtful = True
            self.writes.retry(key, bind, now)
        else:
            return assumed
        return None

    def observed(self, key: Key, node: str) -> None:
        """The pod runs on this node, whether or not its binding was answered."""
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.bind.node == node:
            self._count(assumed)

    def _count(self, assumed: AssumedPod) -> None:
        if not assumed.counted:
            assumed.counted = True
            self._metrics.bound(assumed.info.pod.scheduler_name, assumed.attempt)

    def due(self, now: float) -> list[Effect]:
        """The bindings to be sent again, each with what its binder puts before it: that may be what did not arrive."""
        return [
            effect for pod, bind, _ in self.writes.due(now) for effect in self._again(self._assumed[pod].info, bind)
        ]

    def _again(self, info: QueuedPodInfo, bind: Bind) -> Iterable[Effect]:
        return self._profiles[info.pod.scheduler_name].binder.bind(info.pod, bind.node)

    def unreserve(self, key: Key) -> bool:
        """Gives back what an assumed pod reserved; False when it is not assumed."""
        assumed = self._assumed.get(key)
        if assumed is None:
            return False
        for rule in self._profiles[assumed.info.pod.scheduler_name].reserve:
            rule.unreserve(key)
        return True

    def settle(self, key: Key) -> None:
        """The truth about the pod is known: nothing is assumed any more."""
        if self._assumed.pop(key, None) is not None:
            self.writes.forget(key)
