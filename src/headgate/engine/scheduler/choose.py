"""The choose stage: takes entries from the queue in order: a gang, equal pods, or pods that differ in amounts.

`StepWork` says how many of them one step can take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sized

import msgspec
from msgspec import Struct

from headgate.engine.scheduler.gangs import GangTracker, QueuedAsOne
from headgate.engine.scheduler.resolving import PodResolver
from headgate.model.keys import Key
from headgate.model.pod import GroupKey, Pod
from headgate.placement.placer import Placer
from headgate.placement.ranking import bundles_with
from headgate.queueing.queue import PodQueue, QueuedPodInfo, same_verdicts

MOST_WORK = 500_000  # of one step: about a third of a second
PLACING = 150  # a pod, where others of its kind are looked at too
REFUSING = 400  # a pod that is refused as another was: its condition and its event
TRYING = 2000  # a pod that is refused by itself: the reasons of all nodes
SEARCHING = 18  # each node, for each pod that preempts


class StepWork:
    """The work of one step; a unit of it is to filter one node for one pod.

    A step that takes too long keeps everything else waiting: newer and more important pods, and the renewal of the
    lease, without which the process does not lead any more. So a step that has done its work leaves the rest of the
    queue to the next one, which begins at once.
    """

    def __init__(self, nodes: Sized) -> None:
        self._nodes = nodes
        self.left = MOST_WORK  # it is done when none is

    def refused(self, pods: int, *, as_another: bool = False) -> None:
        self.left -= pods * (REFUSING if as_another else TRYING + len(self._nodes))

    def searched(self, pods: int) -> None:
        """Victims were looked for, so that these pods can start together."""
        self.left -= pods * SEARCHING * len(self._nodes)


class Batch(Struct, frozen=True):
    """Entries that were taken from the queue together: one gang, or one or more pods that are placed one by one."""

    infos: list[QueuedPodInfo]
    equal: bool = False  # the pods differ in nothing that placement looks at, labels aside
    group: GroupKey | None = None
    members: list[Pod] = []  # of the gang, oldest first
    needed: int = 1  # so many of the gang are placed together, or none is
    topology: str = ""  # the node label of which the gang needs one value

    @property
    def pods(self) -> list[Pod]:
        return [info.pod for info in self.infos] if self.group is None else self.members

    def part(self, start: int, end: int) -> Batch:
        return msgspec.structs.replace(self, infos=self.infos[start:end])

    def with_members(self, members: list[Pod]) -> Batch:
        return msgspec.structs.replace(self, members=members)


class ChooseStage:
    def __init__(
        self, queue: PodQueue, placers: Mapping[str, Placer], resolver: PodResolver, gangs: GangTracker
    ) -> None:
        self._queue = queue
        self._placers = placers
        self._resolver = resolver
        self._gangs = gangs
        self.deciding: Key | None = None  # the pod taken last, or the first of several

    def run(self, most: Callable[[], int]) -> Iterator[Batch]:
        """Batches of at most `most()` pods, while that allows any; a gang comes whole.

        The caller acts on a batch before it asks for the next: what one pod gets the next does not find.
        """
        while (count := most()) > 0 and (first := self._queue.pop()) is not None:
            self.deciding = first.pod.key
            if first.group is not None:
                gang = self._gang(first, first.group)
                if gang is not None:
                    yield gang
                continue
            equal = self._queue.pop_with(first, count, same_verdicts)
            yield Batch(equal, equal=True) if len(equal) > 1 else Batch(self._different(first, count))

    def _gang(self, info: QueuedPodInfo, group: GroupKey) -> Batch | None:
        """None if the gang has lost pods to one that was tried before it: what becomes of it is settled next."""
        state = self._gangs.state(group)
        if not isinstance(state, QueuedAsOne):
            assert group in self._gangs.touched, f"{group} is queued as one and should not be"
            return None
        return Batch([info], False, group, self._gangs.members(group), state.needed, state.topology)

    def _different(self, first: QueuedPodInfo, count: int) -> list[QueuedPodInfo]:
        """The pod and those behind it that differ in amounts only, where they can be placed by one plan."""
        placer = self._placers[first.pod.scheduler_name]
        if not placer.unknown(first.pod) or not self._resolver.names_nothing(first.pod):
            return [first]
        return self._queue.pop_with(first, min(count, placer.most_together(first.pod)), self._goes_with)

    def _goes_with(self, first: Pod, other: Pod) -> bool:
        if first.scheduler_name != other.scheduler_name or not bundles_with(first.shape, other.shape):
            return False
        return self._placers[other.scheduler_name].unknown(other) and self._resolver.names_nothing(other)
