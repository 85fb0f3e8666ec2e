"""Preemptions that a process began and did not finish: of a gang that is evicted as a whole nobody is left behind.

All its pods are marked with the DisruptionTarget condition before the first of them is evicted. So a successor can
tell a gang whose eviction has begun, of which the rest is evicted too, from one that was only marked, which is kept.
Pods that were made anew since are not part of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from headgate.engine.journal import Journal
from headgate.engine.scheduler import events
from headgate.engine.scheduler.groups import Groups
from headgate.model.effects import Evict, PatchStatus, PodCondition
from headgate.model.keys import Key
from headgate.model.pod import ENDED, EvictionMark, GroupKey, Pod
from headgate.placement.table import NodeTable
from headgate.preemption.search import Preemptor
from headgate.preemption.units import Unit

DISRUPTION_TARGET = "DisruptionTarget"


class InterruptedPreemptions:
    """Finishes or abandons the preemption of marked gangs; each is checked only when something about it changed."""

    def __init__(self, groups: Groups, nodes: NodeTable, journal: Journal) -> None:
        self._groups = groups
        self._nodes = nodes
        self._journal = journal
        self.gangs_to_check: dict[GroupKey, bool] = {}  # whether a pod is known to have been evicted with the others
        self.pods_to_check: dict[Key, Pod] = {}
        self._marked: dict[Key, Pod] = {}  # pods on a node that carry the mark, as observed
        self._removing: dict[Key, str] = {}  # marks being removed, by pod, with its uid, until that is observed

    def marks(self, units: Iterable[Unit], preemptor: Preemptor, now: float) -> Iterator[PatchStatus]:
        """The DisruptionTarget conditions for pods evicted with others that lack it, or will once it is removed."""
        for unit in units:
            mark = mark_of(unit)
            for pod in unit.pods if mark is not None else ():
                if not pod.preempted or pod.mark != mark or pod.key in self._removing:
                    text = events.victim_text(pod, preemptor, mark)
                    said = PodCondition(DISRUPTION_TARGET, "True", events.BY_SCHEDULER, text, now)
                    yield PatchStatus(pod.target, said)

    def marked(self, pod: Key) -> None:
        """The server accepted a mark, after whatever was written about the pod before."""
        self._removing.pop(pod, None)

    def removes_mark(self, pod: Pod) -> bool:
        return self._removing.get(pod.key) == pod.uid

    def observed(self, pod: Pod) -> None:
        """Takes in the pod as it is now; the gang of a marked pod on a node is checked."""
        if not (pod.preempted or self._marked or self._removing):
            return
        self._marked.pop(pod.key, None)
        if pod.preempted and pod.holds_room:
            self._marked[pod.key] = pod
            self.check_later(pod)
        if not pod.preempted or not self.removes_mark(pod):
            self._removing.pop(pod.key, None)

    def left(self, pod: Pod) -> None:
        """The pod takes no capacity any more."""
        self._marked.pop(pod.key, None)
        self._removing.pop(pod.key, None)

    def check_later(self, pod: Pod, *, has_left: bool = False) -> None:
        """The pod is marked, or may have been; with `has_left` it was evicted with the others of its gang."""
        gang = self._gang_of(pod)
        if gang is not None:
            self.gangs_to_check[gang] = has_left or self.gangs_to_check.get(gang, False)
        else:
            self.pods_to_check[pod.key] = pod

    def _gang_of(self, pod: Pod) -> GroupKey | None:
        """The gang that is evicted with the pod; none where the pod's mark names another, which it has left."""
        standing = self._groups.standing(pod)
        left = pod.mark is not None and pod.mark.gang != str(standing.gang)
        return standing.gang if standing.whole and not left else None

    def settle(self, busy: Callable[[Pod], bool], now: float) -> Iterator[PatchStatus | Evict]:
        """Evicts the rest of gangs whose eviction has begun, and removes marks that led to nothing.

        `busy` is true for pods that are being marked now.
        """
        gangs_to_check, self.gangs_to_check = self.gangs_to_check, {}
        strays = self._take_stray_pods(busy)
        for group, has_left in gangs_to_check.items():
            members = [pod for pod in self._groups.pods_of(group.workload) if pod.group == group]
            staying = [there for pod in members for there in self._running(pod)]
            if any(busy(pod) for pod in staying):
                if has_left:
                    self.gangs_to_check[group] = True
            else:
                begun = self._has_begun(group, members, staying, strays, has_left=has_left)
                marked = [pod for pod in staying if self._gang_of(pod) == group]
                rest = self._without_newer(group, members, staying) if begun else marked
                yield from self._finish(rest, begun=begun, now=now)
        yield from self._finish(self._last_marked(strays), begun=False, now=now)

    def _take_stray_pods(self, busy: Callable[[Pod], bool]) -> list[Pod]:
        """Running pods whose mark names a gang that they have left since."""
        pods_to_check, self.pods_to_check = self.pods_to_check, {}
        staying = [there for pod in pods_to_check.values() if not busy(pod) for there in self._running(pod)]
        return [pod for pod in staying if pod.preempted and pod.mark is not None and self._gang_of(pod) is None]

    def _last_marked(self, strays: list[Pod]) -> list[Pod]:
        """Strays of whose old gang no pod is marked any more; until then the others count as moved."""
        if not strays:
            return []
        gangs = {str(self._gang_of(pod)) for pod in self._marked.values()}
        last = [pod for pod in strays if pod.mark is None or pod.mark.gang not in gangs]
        self.pods_to_check.update((pod.key, pod) for pod in strays if pod not in last)
        return last

    def _has_begun(
        self, gang: GroupKey, members: list[Pod], staying: list[Pod], strays: list[Pod], *, has_left: bool
    ) -> bool:
        """Whether a member is being deleted, or fewer are left than were marked, without having ended or changed group.

        Where the marks do not say how many were marked, it was at least the minimum of the gang. A gang of which no pod
        is known to have been marked may just lack pods.
        """
        if not staying:
            return False
        stay = {pod.key for pod in staying}
        marked = [pod for pod in members if pod.preempted and self._gang_of(pod) == gang]
        leaving = any(pod.holds_room and pod.key not in stay for pod in marked)
        ended = sum(pod.phase in ENDED and pod.deleted is None for pod in members)
        said = max((pod.mark.pods for pod in marked if pod.mark is not None and pod.key in stay), default=0)
        moved = sum(pod.mark is not None and pod.mark.gang == str(gang) for pod in strays)
        were_marked = has_left or any(pod.key in stay for pod in marked)
        there = len(staying) + ended + moved
        return leaving or (were_marked and there < (said or self._groups.standing(staying[0]).min_count))

    def _without_newer(self, gang: GroupKey, members: list[Pod], staying: list[Pod]) -> list[Pod]:
        """Those that were there when the eviction began. A controller may have made others anew since."""
        marked = [pod for pod in members if pod.preempted and self._gang_of(pod) == gang]
        began = min((pod.deleted - pod.grace for pod in marked if pod.deleted is not None), default=math.inf)
        return [pod for pod in staying if pod.preempted or pod.created < began]

    def _finish(self, staying: list[Pod], *, begun: bool, now: float) -> Iterator[PatchStatus | Evict]:
        for pod in staying:
            if begun:
                self._journal.write(events.rest_evicted(pod, now))
                yield Evict(pod.target, events.BY_SCHEDULER, events.REST, now)
            elif pod.preempted:
                self._removing[pod.key] = pod.uid
                mark = PodCondition(DISRUPTION_TARGET, "False", "PreemptionAbandoned", events.ABANDONED, now)
                yield PatchStatus(pod.target, mark)

    def _running(self, pod: Pod) -> Iterator[Pod]:
        """The pod as charged to its node; nothing when it is on none or is being deleted."""
        charge = self._nodes.charge_of(pod.key)
        if charge is not None and charge[1].uid == pod.uid and charge[1].deleted is None:
            yield charge[1]


def mark_of(unit: Unit) -> EvictionMark | None:
    """What the pods of the unit are marked with before the first of them is evicted; nothing for a single pod."""
    return EvictionMark(str(unit.key), len(unit.pods)) if len(unit.pods) > 1 else None
