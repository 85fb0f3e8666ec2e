"""The place stage: a node for every pod of a batch and for every member of a gang, or why there is none."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence

from headgate.engine.scheduler.choose import Batch, StepWork
from headgate.engine.scheduler.gangs import GangTracker, QueuedAsOne
from headgate.engine.scheduler.resolving import PodResolver, Unresolved
from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.placement.groups import GroupPlacement, place_group
from headgate.placement.placer import NoPlacement, Placement, Placer
from headgate.placement.table import NodeTable
from headgate.placement.trial import WORTH_PLANNING
from headgate.preemption.search import Preemptor
from headgate.queueing.queue import QueuedPodInfo

Found = Placement | GroupPlacement | NoPlacement
Placed = tuple[QueuedPodInfo, Found | None]
"""An entry and what was found for it; None: it was not tried and keeps its place in the queue."""


class PlaceStage:
    """What is found for one entry must be acted on, the node charged or the entry parked, before the next is asked."""

    def __init__(
        self,
        placers: Mapping[str, Placer],
        resolver: PodResolver,
        gangs: GangTracker,
        nodes: NodeTable,
        *,
        with_gangs: frozenset[str],  # the schedulerNames that start gangs as gangs
        work: StepWork,
    ) -> None:
        self._placers = placers
        self._resolver = resolver
        self._gangs = gangs
        self._nodes = nodes
        self._with_gangs = with_gangs
        self._work = work
        self.deciding: Key | None = None  # the pod being placed, or the first of several

    def run(self, batch: Batch) -> Iterator[Placed]:
        first = batch.infos[0]
        self.deciding = first.pod.key
        if batch.group is not None:
            yield first, self._place_gang(batch)
        elif batch.equal:
            yield from self._place_equal(batch.infos)
        elif len(batch.infos) > 1:
            yield from self._place_different(batch.infos)
        else:
            yield first, self._place(first.pod)
        self.deciding = None

    def equivalence(self, info: QueuedPodInfo) -> Hashable:
        """The key of its equivalence class. Gangs, and pods with claims or a nomination, have one of their own.

        A late member of a gang with a topology shares one with pods kept to the same place only, and a member that
        never waits for its gang with others of that gang.
        """
        pod = info.pod
        if info.group is not None or pod.shape.claims or pod.nominated:
            return info.key
        resolved = self._resolver.resolve(pod)
        if isinstance(resolved, Unresolved):
            return info.key
        gang = None if pod.scheduler_name in self._with_gangs else pod.group
        return self._placers[pod.scheduler_name].equivalence_class(resolved), pod.priority, pod.preempts, gang

    def preemptor(self, info: QueuedPodInfo) -> Preemptor | None:
        """The pod or gang of this entry as a preemptor.

        None while something keeps it off all nodes alike, or when its gang is not queued as one any more.
        """
        if info.group is None:
            alone = self._resolver.resolve(info.pod)
            if isinstance(alone, Unresolved):
                return None
            return Preemptor(info.pod.key, (alone,), 1, info.pod.priority, "")
        state = self._gangs.state(info.group)
        if not isinstance(state, QueuedAsOne):
            return None
        members = self._resolved(self._gangs.members(info.group))
        if isinstance(members, Unresolved):
            return None
        return Preemptor(info.group, tuple(members), state.needed, info.pod.priority, state.topology)

    def gang_of_lone_member(self, pod: Pod, known: Mapping[Key, Pod]) -> Preemptor | None:
        """The waiting members of the pod's gang, where its profile queues them one by one; None if enough of it run."""
        if pod.group is None or pod.scheduler_name in self._with_gangs:
            return None
        waiting, needed, topology = self._gangs.missing(pod, known, self._nodes)
        members = self._resolved(waiting)
        if needed <= 0 or isinstance(members, Unresolved):
            return None
        return Preemptor(pod.group, tuple(members), needed, pod.priority, topology)

    def _place_gang(self, batch: Batch) -> GroupPlacement | NoPlacement:
        placer, members = self.placer(batch.infos[0]), self._resolved(batch.members)
        if isinstance(members, Unresolved):
            return placer.nowhere(members.rule, members.why, members.wake_on)
        return place_group(placer, self._nodes, members, batch.needed, batch.topology)

    def _resolved(self, pods: Sequence[Pod]) -> list[Pod] | Unresolved:
        members = []
        for pod in pods:
            resolved = self._resolver.resolve(pod)
            if isinstance(resolved, Unresolved):
                return resolved
            members.append(resolved)
        return members

    def _place_equal(self, infos: list[QueuedPodInfo]) -> Iterator[Placed]:
        """Those that one plan serves by that plan, the others one by one."""
        while infos:
            served = self._served(infos)
            planned = self.placer(infos[0]).plan(infos[0].pod, served) if served >= WORTH_PLANNING else []
            run, infos = infos[: served or None], infos[served:] if served else []
            yield from zip(run, planned, strict=False)
            for info in run[len(planned) :]:
                self.deciding = info.pod.key
                yield info, self._place(info.pod) if self._work.left > 0 else None

    def _served(self, infos: list[QueuedPodInfo]) -> int:
        """How many of them, from the first on, one plan serves; 0 if the first must be placed by itself."""
        pods = [info.pod for info in infos]
        if len(pods) < WORTH_PLANNING or not self._resolver.names_nothing(pods[0]):
            return 0
        return self.placer(infos[0]).plan_serves(pods[0], itertools.takewhile(self._resolver.names_nothing, pods))

    def _place_different(self, infos: list[QueuedPodInfo]) -> Iterator[Placed]:
        """By one plan as far as it goes; of the others the first one is placed by itself and the rest is not tried."""
        planned = self.placer(infos[0]).plan_each([info.pod for info in infos])
        yield from zip(infos, planned, strict=False)
        left = infos[len(planned) :]
        for info in left[1:]:
            yield info, None
        for info in left[:1]:
            yield info, self._place(info.pod)

    def _place(self, pod: Pod) -> Placement | NoPlacement:
        """What the pod names is resolved for its placement only: it is queued and counted as it was observed."""
        placer, resolved = self._placers[pod.scheduler_name], self._resolver.resolve(pod)
        if isinstance(resolved, Unresolved):
            return placer.nowhere(resolved.rule, resolved.why, resolved.wake_on)
        return placer.place(resolved)

    def placer(self, info: QueuedPodInfo) -> Placer:
        return self._placers[info.pod.scheduler_name]
