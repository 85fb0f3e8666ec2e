"""Who is next, and where would it run: verdicts on waiting pods and gangs in the order of the queue."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping

import msgspec

from headgate.engine.scheduler.gangs import GangTracker, QueuedAsOne
from headgate.engine.scheduler.resolving import Resolver, Unresolved
from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.placement.groups import GroupPlacement, place_group
from headgate.placement.placer import NoPlacement, Placement, Placer
from headgate.placement.sampling import bundles_with
from headgate.placement.table import NodeTable
from headgate.placement.trial import WORTH_PLANNING
from headgate.preemption.search import Preemptor
from headgate.queueing.queue import PodQueue, QueuedPodInfo, same_verdicts

Found = Placement | GroupPlacement | NoPlacement
Verdict = tuple[QueuedPodInfo, Found]


class Choosing:
    """Takes pods and gangs from the queue and says for each where it would run.

    A verdict must be acted on, the room taken or the pod parked, before the next one is asked for: what one pod gets
    the next does not find.
    """

    def __init__(
        self, queue: PodQueue, placers: Mapping[str, Placer], resolver: Resolver, gangs: GangTracker, nodes: NodeTable
    ) -> None:
        self._queue = queue
        self._placers = placers
        self._resolver = resolver
        self._gangs = gangs
        self._nodes = nodes
        self.deciding: Key | None = None  # the pod whose turn it is, or that stands for those whose turn it is

    def verdicts(self, most: Callable[[], int]) -> Iterator[Verdict]:
        """One after the other while `most` allows any; a gang goes whole once its turn has come."""
        while (room := most()) > 0 and (first := self._queue.pop()) is not None:
            self.deciding = first.pod.key
            if first.group is not None:
                yield first, self._for_gang(first)
                continue
            alike = self._queue.pop_with(first, room, same_verdicts)
            yield from self._for_alike(alike) if len(alike) > 1 else self._for_different(first, room)

    def equivalence(self, info: QueuedPodInfo) -> Hashable:
        """Who shares its verdicts. Gangs, and pods with claims or a promise, wait for what is their own.

        A late member of a gang that must stay together shares them only with pods kept to the same place.
        """
        pod = info.pod
        if info.group is not None or pod.shape.claims or pod.nominated:
            return info.key
        resolved = self._resolve(pod)
        if isinstance(resolved, Unresolved):
            return info.key
        return self._placers[pod.scheduler_name].kin(resolved), pod.priority, pod.preempts

    def preemptor(self, info: QueuedPodInfo) -> Preemptor | None:
        """The pod or gang at this place as one for whom others may have to leave.

        None while something keeps it off all nodes alike, or when its gang does not stand in line as one any more.
        """
        if info.group is not None and not isinstance(self._gangs.state(info.group), QueuedAsOne):
            return None
        prepared = self._preparing(info)
        if isinstance(prepared, Unresolved):
            return None
        members, state = prepared
        pods, key = tuple(members[: state.needed]), info.group or info.pod.key
        return Preemptor(key, pods, state.needed, info.pod.priority, state.topology)

    def _preparing(self, info: QueuedPodInfo) -> tuple[list[Pod], QueuedAsOne] | Unresolved:
        """The pods that go together with what they name made out, and what their going together demands."""
        if info.group is None:
            alone = self._resolve(info.pod)
            return alone if isinstance(alone, Unresolved) else ([alone], QueuedAsOne(1))
        state = self._gangs.state(info.group)
        assert isinstance(state, QueuedAsOne), f"{info.group} stands in line and should not"
        members = []
        for pod in self._gangs.members(info.group):
            resolved = self._resolve(pod)
            if isinstance(resolved, Unresolved):
                return resolved
            members.append(resolved)
        return members, state

    def _for_gang(self, info: QueuedPodInfo) -> GroupPlacement | NoPlacement:
        placer, prepared = self._placer(info), self._preparing(info)
        if isinstance(prepared, Unresolved):
            return placer.nowhere(prepared.rule, prepared.why, prepared.wake_on)
        members, state = prepared
        return place_group(placer, self._nodes, members, state.needed, state.topology)

    def _resolve(self, pod: Pod) -> Pod | Unresolved:
        """With what it names made out, and kept to where its gang already runs if that must stay together."""
        resolved = self._resolver.resolve(pod)
        if pod.group is None or isinstance(resolved, Unresolved):
            return resolved
        topology = self._gangs.topology(pod.group)
        seats = self._gangs.nodes_of(pod.group) if topology else ()
        nodes = [node for seat in seats if (node := self._nodes.get(seat)) is not None and topology in node.labels]
        if not nodes:
            return resolved
        selector = tuple(sorted({*pod.shape.node_selector, (topology, nodes[0].labels[topology])}))
        return msgspec.structs.replace(resolved, shape=msgspec.structs.replace(resolved.shape, node_selector=selector))

    def _for_alike(self, alike: list[QueuedPodInfo]) -> Iterator[Verdict]:
        """Pods of one shape: those whom one plan serves at once, the others one by one."""
        while alike:
            served = self._served(alike)
            planned = self._placer(alike[0]).plan(alike[0].pod, served) if served >= WORTH_PLANNING else []
            run, alike = alike[: served or None], alike[served:] if served else []
            yield from zip(run, planned, strict=False)
            for info in run[len(planned) :]:
                self.deciding = info.pod.key
                yield info, self._place(info.pod)

    def _served(self, alike: list[QueuedPodInfo]) -> int:
        """How many of them, from the first on, can be planned for together; none if the first must be asked for."""
        pods = [info.pod for info in alike]
        if len(pods) < WORTH_PLANNING or not self._names_nothing(pods[0]):
            return 0
        return self._placer(alike[0]).plan_serves(pods[0], itertools.takewhile(self._names_nothing, pods))

    def _for_different(self, first: QueuedPodInfo, room: int) -> Iterator[Verdict]:
        """Pods that differ in amounts only: as many as can be planned at once, or just this one."""
        together = self._bundle(first, room)
        if len(together) == 1:
            yield first, self._place(first.pod)
            return
        planned = self._placer(first).plan_each([each.pod for each in together])
        yield from zip(together, planned, strict=False)
        left = together[len(planned) :]
        for info in left[1:]:
            self._queue.requeue(info)
        for info in left[:1]:
            yield info, self._place(info.pod)

    def _bundle(self, first: QueuedPodInfo, room: int) -> list[QueuedPodInfo]:
        placer = self._placer(first)
        if not placer.unknown(first.pod) or not self._names_nothing(first.pod):
            return [first]
        return self._queue.pop_with(first, min(room, placer.most_together(first.pod)), self._bundles)

    def _bundles(self, first: Pod, other: Pod) -> bool:
        if first.scheduler_name != other.scheduler_name or not bundles_with(first.shape, other.shape):
            return False
        return self._placers[other.scheduler_name].unknown(other) and self._names_nothing(other)

    def _place(self, pod: Pod) -> Placement | NoPlacement:
        """What the pod names is made out for placing it only: it waits and is counted as it was observed."""
        resolved = self._resolve(pod)
        if isinstance(resolved, Unresolved):
            return self._placers[pod.scheduler_name].nowhere(resolved.rule, resolved.why, resolved.wake_on)
        return self._placers[pod.scheduler_name].place(resolved)

    def _names_nothing(self, pod: Pod) -> bool:
        return self._resolve(pod) is pod

    def _placer(self, info: QueuedPodInfo) -> Placer:
        return self._placers[info.pod.scheduler_name]
