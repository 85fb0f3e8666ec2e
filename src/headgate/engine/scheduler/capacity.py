"""The capacity stages: between choosing an entry of the queue and placing it, each may answer "not now, because".

A stage that limits more than nodes do, such as the capacity of a queue (`queue_capacity`), goes into the list in
`plane`. One that counts is told of every pod that takes capacity, assumed and observed alike, so after a restart it
counts the same.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from headgate.engine.scheduler.choose import Batch
from headgate.model.cluster_events import ClusterEvent
from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.queueing.queue import QueuedPodInfo


class NotNow(Struct, frozen=True):
    """Why a pod or a gang is not placed now."""

    reason: str  # of the PodScheduled condition; autoscalers act on "Unschedulable" only
    message: str
    wake_on: frozenset[ClusterEvent]  # the cluster events on which it is tried again
    numbers: Mapping[str, int | str] = {}  # for the journal
    allowed: int = 0  # the pods before the first one this is said of; they may be placed now
    equivalence: Hashable = None  # what it shares with others that get the same answer; None: it waits alone


class CapacityStage(Protocol):
    @property
    def name(self) -> str: ...

    def check(self, pods: Sequence[Pod], needed: int) -> NotNow | None:
        """About pods in queue order: one, several that are placed one by one, or the members of a gang.

        Of a gang at least `needed` pods are placed, or none is; otherwise `needed` is 1.
        """


@runtime_checkable
class CountingStage(CapacityStage, Protocol):
    """A stage that is told of every pod that takes capacity."""

    def charge(self, pod: Pod) -> None:
        """The pod is bound or assumed on a node, perhaps in another version than before."""

    def release(self, pod: Key) -> None:
        """The pod takes no capacity any more; it may never have taken any."""


class DeferredEntry(Struct, frozen=True):
    """An entry of the queue that a stage does not let pass now."""

    info: QueuedPodInfo
    stage: str
    not_now: NotNow

    @property
    def equivalence(self) -> Hashable:
        own = self.info.group is not None or self.not_now.equivalence is None
        return self.info.key if own else (self.stage, self.not_now.equivalence)


class CapacityStages:
    """In the order they are asked. The one that allows the fewest pods decides."""

    def __init__(
        self,
        stages: tuple[CapacityStage, ...],
        with_nominations: tuple[CapacityStage, ...] = (),
        nominated: Collection[Key] = (),
    ) -> None:
        """`with_nominations` are asked only while there are `nominated` pods."""
        self._stages, self._nominated = stages, nominated
        self._all = (*stages, *with_nominations)
        self._counting = tuple(stage for stage in self._all if isinstance(stage, CountingStage))

    def run(self, batch: Batch) -> Iterator[Batch | DeferredEntry]:
        """Yields what may be placed now and what is deferred, in queue order.

        The caller acts on each before it asks for the next, so that what was placed is charged.
        """
        if batch.group is not None:
            yield self._gang(batch)
            return
        pods, start = batch.pods if self._all else [], 0
        while start < len(pods):
            refused = self._check(pods[start:] if start else pods, batch.needed)
            if refused is None:
                break
            stage, not_now = refused
            end = start + not_now.allowed
            if start < end:
                yield batch.part(start, end)
                start = end  # the next is asked about again: those before it may have found no node
                continue
            yield DeferredEntry(batch.infos[end], stage, not_now)
            start = end + 1
        if start < len(batch.infos):
            yield batch.part(start, len(batch.infos)) if start else batch

    def _gang(self, batch: Batch) -> Batch | DeferredEntry:
        """The gang with the members that are allowed, if they are enough: any members in any order."""
        members, first = batch.members, None
        while len(members) >= batch.needed and (refused := self._check(members, batch.needed)) is not None:
            first = first or refused
            allowed = refused[1].allowed
            too_much = members[allowed].shape.requests
            others = [pod for pod in members[allowed + 1 :] if pod.shape.requests != too_much]
            members = [*members[:allowed], *others]
        if first is None:
            return batch
        return batch.with_members(members) if len(members) >= batch.needed else DeferredEntry(batch.infos[0], *first)

    def charge(self, pod: Pod) -> None:
        for stage in self._counting:
            stage.charge(pod)

    def release(self, pod: Key) -> None:
        for stage in self._counting:
            stage.release(pod)

    def _check(self, pods: Sequence[Pod], needed: int) -> tuple[str, NotNow] | None:
        """The answer that allows the fewest pods; None when every stage allows all of them."""
        fewest = None
        for stage in self._all if self._nominated else self._stages:
            not_now = stage.check(pods, needed)
            if not_now is None or not_now.allowed >= len(pods):
                continue
            if fewest is None or not_now.allowed < fewest[1].allowed:
                fewest = stage.name, not_now
        return fewest
