"""Gangs that leave whole, also when whoever was evicting them died half way.

All pods of such a gang are marked before the first of them is evicted. So a successor can tell a gang that has begun
to leave, of which the rest must go too, from one that was only marked, which may stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headgate.engine import telling_preemption as telling
from headgate.engine.groups import Groups
from headgate.engine.journal import Journal
from headgate.model.effects import Evict, PatchStatus, PodCondition
from headgate.model.groups import GroupKey
from headgate.model.keys import Key
from headgate.model.pod import ENDED, Pod
from headgate.placement.table import NodeTable
from headgate.preemption.search import Preemptor
from headgate.preemption.units import Unit

DISRUPTION_TARGET = "DisruptionTarget"


class Unfinished:
    """Looks at gangs of which a pod that runs carries the mark; at each only when something about it changed."""

    def __init__(self, groups: Groups, nodes: NodeTable, journal: Journal) -> None:
        self._groups = groups
        self._nodes = nodes
        self._journal = journal
        self._suspects: dict[GroupKey, bool] = {}  # whether one of its pods is known to have left with the others
        self._single: dict[Key, Pod] = {}
        self._marked: dict[Key, Pod] = {}  # those that carry the mark and take room, as observed
        self._taken_back: dict[Key, str] = {}  # marks, and the uids of their pods, until observed to be gone

    def marks(self, units: Iterable[Unit], preemptor: Preemptor, now: float) -> Iterator[PatchStatus]:
        """For every pod that leaves with others and does not carry the mark, or will not once it is taken back."""
        for unit in units:
            together = len(unit.pods)
            for pod in unit.pods if together > 1 else ():
                if not pod.preempted or pod.leaves_with != together or pod.key in self._taken_back:
                    text = telling.hidden(pod, preemptor, together)
                    mark = PodCondition(DISRUPTION_TARGET, "True", telling.BY_SCHEDULER, text, now)
                    yield PatchStatus(pod.target, mark)

    def marked(self, pod: Key) -> None:
        """The pod was marked, after whatever was written about it before."""
        self._taken_back.pop(pod, None)

    def takes_back(self, pod: Pod) -> bool:
        """Whether the mark of the pod is to be taken back, as far as is known."""
        return self._taken_back.get(pod.key) == pod.uid

    def observed(self, pod: Pod) -> None:
        """The pod as it is now; one that carries the mark and takes room makes its gang suspect."""
        self._marked.pop(pod.key, None)
        if pod.preempted and pod.holds_room:
            self._marked[pod.key] = pod
            self.suspect(pod)
        if not pod.preempted or not self.takes_back(pod):
            self._taken_back.pop(pod.key, None)

    def left(self, pod: Pod) -> None:
        """The pod takes no room any more."""
        self._marked.pop(pod.key, None)
        self._taken_back.pop(pod.key, None)

    def suspect(self, pod: Pod, *, has_left: bool = False) -> None:
        """The pod carries the mark, or may have, or it has left as one of those that leave together."""
        standing = self._groups.standing(pod)
        if standing.gang is not None and standing.whole:
            self._suspects[standing.gang] = has_left or self._suspects.get(standing.gang, False)
        else:
            self._single[pod.key] = pod

    def settle(self, busy: Callable[[Pod], bool], now: float) -> Iterator[PatchStatus | Evict]:
        """Whole gangs that began to leave lose their last pods; marks without consequence are taken back.

        `busy` says which pods someone is just about to evict.
        """
        suspects, self._suspects = self._suspects, {}
        strays = self._take_strays(busy)
        for group, has_left in suspects.items():
            members = [pod for pod in self._groups.pods_of(group.workload) if pod.group == group]
            staying = [there for pod in members for there in self._running(pod)]
            if any(busy(pod) for pod in staying):
                if has_left:
                    self._suspects[group] = True
            else:
                begun = self._has_begun(members, staying, strays, has_left=has_left)
                yield from self._finish(staying, begun=begun, now=now)
        yield from self._finish(self._last_marked(strays), begun=False, now=now)

    def _take_strays(self, busy: Callable[[Pod], bool]) -> list[Pod]:
        """Running pods whose mark says that they leave with others, with whom they have nothing to do any more."""
        single, self._single = self._single, {}
        staying = [there for pod in single.values() if not busy(pod) for there in self._running(pod)]
        return [pod for pod in staying if pod.preempted and pod.leaves_with > 1 and not self._leaves_whole(pod)]

    def _last_marked(self, strays: list[Pod]) -> list[Pod]:
        """Those with whose old gang nobody carries the mark any more. The others must be counted as moved till then."""
        if not strays:
            return []
        gangs = {(pod.key.namespace, pod.leaves_with) for pod in self._marked.values() if self._leaves_whole(pod)}
        last = [pod for pod in strays if (pod.key.namespace, pod.leaves_with) not in gangs]
        self._single.update((pod.key, pod) for pod in strays if pod not in last)
        return last

    def _leaves_whole(self, pod: Pod) -> bool:
        standing = self._groups.standing(pod)
        return standing.gang is not None and standing.whole

    def _has_begun(self, members: list[Pod], staying: list[Pod], strays: list[Pod], *, has_left: bool) -> bool:
        """One of them is going, or so many are gone, neither ended nor moved, that these are not all who were marked.

        Where the marks do not say how many that was, there were at least as many as the gang needs. A gang of which
        nobody is known to have been marked may just lack pods.
        """
        if not staying:
            return False
        stay = {pod.key for pod in staying}
        leaving = any(pod.preempted and pod.holds_room and pod.key not in stay for pod in members)
        ended = sum(pod.phase in ENDED and pod.deleted is None for pod in members)
        marked = max(pod.leaves_with for pod in staying) or self._groups.standing(staying[0]).min_count
        space = staying[0].key.namespace
        moved = sum(pod.leaves_with == marked and pod.key.namespace == space for pod in strays)
        were_marked = has_left or any(pod.preempted for pod in staying)
        return leaving or (were_marked and len(staying) + ended + moved < marked)

    def _finish(self, staying: list[Pod], *, begun: bool, now: float) -> Iterator[PatchStatus | Evict]:
        for pod in staying:
            if begun:
                self._journal.write(telling.rest_evicted(pod, now))
                yield Evict(pod.target, telling.BY_SCHEDULER, telling.REST, now)
            elif pod.preempted:
                mark = PodCondition(DISRUPTION_TARGET, "False", "PreemptionAbandoned", telling.ABANDONED, now)
                self._taken_back[pod.key] = pod.uid
                yield PatchStatus(pod.target, mark)

    def _running(self, pod: Pod) -> Iterator[Pod]:
        """The pod as it runs; nothing when it runs nowhere or is leaving."""
        charge = self._nodes.charge_of(pod.key)
        if charge is not None and charge[1].uid == pod.uid and charge[1].deleted is None:
            yield charge[1]
