"""Pod groups: which pods belong together, with what priority, and how their group starts and is preempted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct

from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import GROUP_TOTAL
from headgate.model.objects import Classes, PriorityClass
from headgate.model.pod import Gang, GroupKey, Phase, Pod, PodGroup, PreemptionMode, Workload
from headgate.model.volcano import VolcanoGroup
from headgate.preemption.units import Standing


class Rank(Struct, frozen=True):
    """A workload's priority for placement, and the one against being preempted, which is never lower."""

    priority: int
    preemption_priority: int
    preempts: bool = True


class UnknownClass(Struct, frozen=True):
    name: str

    def __str__(self) -> str:
        return f"no PriorityClass with name {self.name} was found"


class Priorities:
    def __init__(self) -> None:
        self._found: dict[str, PriorityClass] = {}
        self._classes = Classes.of(())

    def put(self, found: PriorityClass) -> None:
        self._found[found.key.name] = found
        self._classes = Classes.of(self._found.values())

    def drop(self, name: str, uid: str) -> None:
        known = self._found.get(name)
        if known is not None and known.uid == uid:
            del self._found[name]
            self._classes = Classes.of(self._found.values())

    def rank(self, workload: Workload) -> Rank | UnknownClass:
        """Numbers in the object override its classes, which may be gone by now.

        A preemption priority below the priority, possible without our webhook, counts as the priority.
        """
        chosen = workload.priority_class or self._classes.default
        priority = self._worth(workload.priority, chosen, 0)
        if priority is None:
            return UnknownClass(chosen)
        shield = self._worth(workload.preemption_priority, workload.preemption_priority_class, priority)
        if shield is None:
            return UnknownClass(workload.preemption_priority_class)
        allowed = chosen not in self._classes.never_preempt
        return Rank(priority, max(shield, priority), allowed if workload.preempts is None else workload.preempts)

    def _worth(self, said: int | None, name: str, otherwise: int) -> int | None:
        """The number given, else that of the class, else the default; None when there is no such class."""
        if said is not None or not name:
            return otherwise if said is None else said
        return self._classes.values.get(name)


GROUP_KINDS = (Kind.PRIORITY_CLASS, Kind.WORKLOAD, Kind.POD_GROUP, Kind.VOLCANO_POD_GROUP)


class Described(Struct, frozen=True):
    """A group as its workload describes it."""

    group: PodGroup
    rank: Rank | None  # None: each pod has its own


class Undescribed(Struct, frozen=True):
    """Why a group cannot be scheduled yet."""

    reason: str


class Groups:
    """Workloads, priority classes and the pods of each workload, as observed."""

    def __init__(self) -> None:
        self._priorities = Priorities()
        self._workloads: dict[Key, Workload] = {}
        self._members: dict[Key, dict[Key, Pod]] = {}  # by workload; the pods as observed
        self._totals: dict[GroupKey, Counter[int]] = {}  # how many pods of a group name which total
        self._succeeded: Counter[GroupKey] = Counter()  # how many pods of such a group have succeeded

    # each returns the workloads whose priority changed, or the pods whose description changed

    def put_class(self, found: PriorityClass) -> list[Key]:
        before = self._ranks()
        self._priorities.put(found)
        return self._reranked(before)

    def drop_class(self, name: str, uid: str) -> list[Key]:
        before = self._ranks()
        self._priorities.drop(name, uid)
        return self._reranked(before)

    def put(self, workload: Workload) -> list[Pod]:
        known = self._workloads.get(workload.key)
        self._workloads[workload.key] = workload
        return [] if known is not None and _same_for_pods(known, workload) else self.pods_of(workload.key)

    def drop(self, key: Key, uid: str) -> list[Pod]:
        known = self._workloads.get(key)
        if known is None or known.uid != uid:
            return []
        del self._workloads[key]
        return self.pods_of(key)

    def put_pod(self, pod: Pod) -> None:
        if pod.group is not None:
            members = self._members.setdefault(pod.group.workload, {})
            if pod.key in members:
                self._count(members[pod.key], -1)
            members[pod.key] = pod
            self._count(pod, 1)

    def drop_pod(self, pod: Pod) -> None:
        members = self._members.get(pod.group.workload, {}) if pod.group is not None else {}
        known = members.pop(pod.key, None)
        if known is not None:
            self._count(known, -1)
        if pod.group is not None and not members:
            self._members.pop(pod.group.workload, None)

    def _count(self, pod: Pod, sign: int) -> None:
        """Counts what the pod says about its group, if it says how many pods that has."""
        if pod.group is None or not pod.group_total:
            return
        if pod.phase is Phase.SUCCEEDED:
            self._succeeded[pod.group] += sign
            if not self._succeeded[pod.group]:
                del self._succeeded[pod.group]
        totals = self._totals.setdefault(pod.group, Counter())
        totals[pod.group_total] += sign
        if not totals[pod.group_total]:
            del totals[pod.group_total]
        if not totals:
            del self._totals[pod.group]

    @property
    def workloads(self) -> Mapping[Key, Workload]:
        return self._workloads

    def has_pods(self, workload: Key) -> bool:
        return workload in self._members

    def pods_of(self, workload: Key) -> list[Pod]:
        return list(self._members.get(workload, {}).values())

    def ranked(self, pod: Pod) -> Pod:
        """The pod with the priority of its workload, which overrules its own."""
        described = self.describe(pod) if pod.group is not None else None
        if not isinstance(described, Described) or described.rank is None:
            return pod
        rank = described.rank
        if (pod.priority, pod.preempts) == (rank.priority, rank.preempts):
            return pod
        return msgspec.structs.replace(pod, priority=rank.priority, preempts=rank.preempts)

    def describe(self, pod: Pod) -> Described | Undescribed:
        """The group of a pod that names one."""
        assert pod.group is not None, f"{pod.key} belongs to no group"
        workload = self._workloads.get(pod.group.workload)
        if workload is None and pod.group_total:
            totals = self._totals.get(pod.group, ())
            if len(totals) > 1:
                return Undescribed(_disagreement(totals))
            return _described_by_pods(max(1, pod.group_total - self._succeeded[pod.group]))
        if workload is None:
            return Undescribed(f"waiting for {_named(pod.group.workload)} to be created")
        group = workload.group(pod.group.group)
        if group is None:
            return Undescribed(f'{_named(workload.key)} has no pod group "{pod.group.group}"')
        if workload.volcano is not None and workload.volcano.unsupported:
            return Undescribed(f"{_named(workload.key)} has {workload.volcano.unsupported}, which is not served")
        rank = self.rank(workload)
        return Undescribed(str(rank)) if isinstance(rank, UnknownClass) else Described(group, rank)

    def rank(self, workload: Workload) -> Rank | UnknownClass:
        return self._priorities.rank(workload)

    def standing(self, pod: Pod) -> Standing:
        """The pod's priority against being preempted, and the gang it would be preempted with."""
        described = self.describe(pod) if pod.group is not None else None
        has_object = pod.group is not None and pod.group.workload in self._workloads
        if pod.group_total and not (has_object and isinstance(described, Described)):
            described = _described_by_pods(pod.group_total)
        if not isinstance(described, Described):
            return Standing(pod.priority, preempts=pod.preempts)
        rank = described.rank or Rank(pod.priority, pod.priority, pod.preempts)
        gang = described.group.gang
        if gang is None:
            return Standing(rank.preemption_priority, preempts=rank.preempts)
        whole = gang.mode is PreemptionMode.POD_GROUP
        return Standing(rank.preemption_priority, pod.group, gang.min_count, whole, rank.preempts)

    def mismatched(self, workload: Workload, priority: int) -> Iterator[Pod]:
        """Its pods that name another priority."""
        return (pod for pod in self.pods_of(workload.key) if pod.priority != priority)

    def _ranks(self) -> dict[Key, Rank | UnknownClass]:
        return {key: self.rank(workload) for key, workload in self._workloads.items()}

    def _reranked(self, before: Mapping[Key, Rank | UnknownClass]) -> list[Key]:
        return [key for key, workload in self._workloads.items() if before[key] != self.rank(workload)]


def _described_by_pods(min_count: int) -> Described:
    """A group without an object, of which the pods say how many it has: it is preempted as a whole, and it starts with
    all of them but those that have succeeded, which nobody creates again.
    """
    return Described(PodGroup(gang=Gang(min_count, PreemptionMode.POD_GROUP)), None)


def _disagreement(totals: Iterable[int]) -> str:
    return f"the pods of its group name different totals in {GROUP_TOTAL}: {', '.join(map(str, sorted(totals)))}"


def _same_for_pods(old: Workload, new: Workload) -> bool:
    """Nothing that concerns its pods has changed; the status we write does not."""
    return _without_status(old) == _without_status(new)


def _without_status(workload: Workload) -> Workload:
    volcano = workload.volcano
    if volcano is not None:
        volcano = VolcanoGroup(volcano.queue, volcano.min_resources, unsupported=volcano.unsupported)
    return msgspec.structs.replace(workload, version="", conditions=(), volcano=volcano)


_KIND_NAMES = {Kind.POD_GROUP: "PodGroup", Kind.VOLCANO_POD_GROUP: "PodGroup"}


def _named(key: Key) -> str:
    return f"{_KIND_NAMES.get(key.kind, 'Workload')} {key.namespace}/{key.name}"
