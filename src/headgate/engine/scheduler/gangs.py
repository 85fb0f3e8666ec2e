"""Gangs in the queue: members are gated until there are enough of them, then the gang has one entry in the queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field, structs

from headgate.engine.scheduler.groups import Described, Groups, Undescribed
from headgate.model.keys import Key
from headgate.model.pod import Gang, GroupKey, Pod
from headgate.model.quantity import counted
from headgate.placement.nominations import Nominations
from headgate.placement.table import NodeTable
from headgate.queueing.queue import PodQueue, QueuedPodInfo, same_demand

PLUGIN = "GangScheduling"


class QueuedAsOne(Struct, frozen=True):
    """The gang is one entry of the queue: at least `needed` of its members are placed, or none is."""

    needed: int
    topology: str = ""


class PodByPod(Struct, frozen=True):
    """The gang has started, or the group is none: each further member is queued by itself."""


GangState = QueuedAsOne | PodByPod | Undescribed
POD_BY_POD = PodByPod()


class TrackedGang(Struct):
    """The known pods of one group; each is in exactly one of the three maps."""

    ready: dict[Key, Pod] = field(default_factory=dict)  # no plugin but gang scheduling holds them
    gated: dict[Key, Pod] = field(default_factory=dict)  # another PreEnqueue plugin holds them
    scheduled: dict[Key, str] = field(default_factory=dict)  # the node of each, bound or assumed
    state: GangState | None = None  # as of the last update
    described_anew: bool = False  # since the last update
    failures: int = 0  # attempts in a row after which a binding failed
    troubled: bool = False  # a binding of the last attempt failed

    def __len__(self) -> int:
        return len(self.ready) + len(self.gated) + len(self.scheduled)

    def leave(self, key: Key) -> None:
        self.ready.pop(key, None)
        self.gated.pop(key, None)
        self.scheduled.pop(key, None)


class GangTracker:
    """Updates a gang once per step however many members changed, and all its members only when its state changed."""

    def __init__(self, groups: Groups, queue: PodQueue, nominations: Nominations) -> None:
        self._groups = groups
        self._queue = queue
        self._nominations = nominations
        self._gangs: dict[GroupKey, TrackedGang] = {}
        self.quarantine: dict[Key, GroupKey] = {}  # members that exist and that nobody may look at
        self.touched: dict[GroupKey, dict[Key, None]] = {}  # groups to be updated, and which members changed

    def ready(self, pod: Pod) -> None:
        """The member passed all other PreEnqueue plugins."""
        assert pod.group is not None
        tracked = self._members_of(pod.group)
        known = tracked.ready.get(pod.key)
        tracked.leave(pod.key)
        tracked.ready[pod.key] = pod
        if known is None or not same_demand(known, pod) or (known.nominated != pod.nominated and tracked.gated):
            self._touch(pod.group, pod.key)

    def nominated(self, pod: Pod, node: str) -> None:
        """The member is assumed to be nominated to this node, or to none, which decides if gated ones hold its gang."""
        tracked = self._gangs.get(pod.group) if pod.group is not None else None
        if tracked is None or pod.group is None or pod.key not in tracked.ready:
            return
        tracked.ready[pod.key] = structs.replace(tracked.ready[pod.key], nominated=node)
        if tracked.gated:
            self._touch(pod.group, pod.key)

    def gated(self, pod: Pod) -> None:
        """Another PreEnqueue plugin holds the member, and with it the whole gang unless others were promised nodes."""
        assert pod.group is not None
        tracked = self._members_of(pod.group)
        known = pod.key in tracked.gated
        tracked.leave(pod.key)
        tracked.gated[pod.key] = pod
        if not known:
            self._touch(pod.group, pod.key)

    def scheduled(self, pod: Pod, node: str) -> None:
        """The member is bound or assumed on a node; one that is being deleted counts as gone."""
        if pod.group is None:
            return
        if pod.deleted is not None:
            self.gone(pod)
            return
        tracked = self._members_of(pod.group)
        if tracked.scheduled.get(pod.key) != node:
            tracked.leave(pod.key)
            tracked.scheduled[pod.key] = node
            self._touch(pod.group, pod.key)
        if pod.node and tracked.failures and not self.waits_as_one(pod):
            tracked.failures = 0

    def failed(self, pod: Pod) -> bool:
        """A binding of the member failed, so its gang backs off. True for the first one of an attempt."""
        tracked = self._gangs.get(pod.group) if pod.group is not None else None
        if tracked is None or tracked.troubled or not self.waits_as_one(pod):
            return False
        tracked.failures += 1
        tracked.troubled = True
        return True

    def waits_as_one(self, pod: Pod) -> bool:
        """Whether the members of its gang without a node wait for each other."""
        tracked = self._gangs.get(pod.group) if pod.group is not None else None
        return tracked is not None and not isinstance(self._judge(tracked), PodByPod)

    def gone(self, pod: Pod) -> None:
        tracked = self._gangs.get(pod.group) if pod.group is not None else None
        if tracked is None or pod.group is None:
            return
        tracked.leave(pod.key)
        self._touch(pod.group, pod.key)

    def quarantined(self, pod: Key, group: GroupKey | None) -> None:
        """The pod is in quarantine and belongs to this group; None: it is not, or it is gone, or belongs to none."""
        before = self.quarantine.pop(pod, None)
        if group is not None:
            self.quarantine[pod] = group
        for each in {before, group} - {None} if before != group else ():
            if each in self._gangs:
                self._touch(each)

    def touch_all(self, group: GroupKey) -> None:
        """The description of the group has changed."""
        tracked = self._gangs.get(group)
        if tracked is not None:
            tracked.described_anew = True
            self._touch(group, *tracked.ready)

    def settle(self, now: float) -> Iterator[tuple[Pod, GangState]]:
        """Yields every member whose gang has a new state, with that state, and updates the gangs' queue entries."""
        touched, self.touched = self.touched, {}
        for group, keys in touched.items():
            yield from self._update(group, keys, now)

    def members(self, group: GroupKey) -> list[Pod]:
        """The members without a node, oldest first; those that wait behind a gate after those that were let go."""
        return sorted(self._gangs[group].ready.values(), key=lambda pod: (bool(pod.gates), pod.created, pod.key))

    def needed(self, info: QueuedPodInfo) -> int:
        """How many pods of a queue entry are placed together."""
        state = self.state(info.group) if info.group is not None else None
        return state.needed if isinstance(state, QueuedAsOne) else 1

    def pods_of(self, info: QueuedPodInfo) -> list[Pod]:
        """The pods of a queue entry."""
        return [info.pod] if info.group is None else self.members(info.group)

    def state(self, group: GroupKey) -> GangState:
        return self._judge(self._gangs[group])

    def queue_key(self, pod: Pod) -> Key:
        """The key of the pod's queue entry: its own, or that of its gang."""
        tracked = self._gangs.get(pod.group) if pod.group is not None else None
        return pod.group.line_key if pod.group and tracked and isinstance(tracked.state, QueuedAsOne) else pod.key

    def missing(self, pod: Pod, known: Mapping[Key, Pod], nodes: NodeTable) -> tuple[list[Pod], int, str]:
        """Of the pod's gang, tracked or not: the members that may be placed, how many are needed, and its topology."""
        described = self._groups.describe(pod) if pod.group is not None else None
        if pod.group is None or not isinstance(described, Described) or described.group.gang is None:
            return [], 0, ""
        members = [known[each.key] for each in self._groups.pods_of(pod.group.workload) if each.group == pod.group]
        there = [each for each in members if nodes.charge_of(each.key) is not None and each.deleted is None]
        waiting = [each for each in members if each.wants_node and not each.gates and each not in there]
        waiting.sort(key=lambda each: (each.created, each.key))
        return waiting, described.group.gang.min_count - len(there), described.group.topology

    def topology(self, group: GroupKey) -> str:
        """The node label of which all members need the same value; empty for no such constraint."""
        tracked = self._gangs.get(group)
        member = next(iter(tracked.ready.values()), None) if tracked is not None else None
        described = self._groups.describe(member) if member is not None else None
        return described.group.topology if isinstance(described, Described) else ""

    def nodes_of(self, group: GroupKey) -> tuple[str, ...]:
        """The nodes of the scheduled members."""
        return tuple(self._gangs[group].scheduled.values())

    def _update(self, group: GroupKey, keys: dict[Key, None], now: float) -> Iterator[tuple[Pod, GangState]]:
        tracked = self._gangs[group]
        if not len(tracked):
            del self._gangs[group]
            self._queue.delete(group.line_key)
            return
        state, before = self._judge(tracked), tracked.state
        tracked.state = state
        concerned = keys if state == before and not tracked.described_anew else dict.fromkeys(tracked.ready)
        tracked.described_anew = False
        for key in list(concerned):
            if key in tracked.ready:
                yield tracked.ready[key], state
        self._enqueue(group, tracked, state, now)

    def _judge(self, tracked: TrackedGang) -> GangState:
        member = next(iter((tracked.ready or tracked.gated).values()), None)
        if member is None:
            return POD_BY_POD
        described = self._groups.describe(member)
        if not isinstance(described, Described):
            return described
        gang = described.group.gang
        if gang is None or len(tracked.scheduled) >= gang.min_count:
            return POD_BY_POD
        needed = gang.min_count - len(tracked.scheduled)
        return self._not_yet(tracked, gang, needed) or QueuedAsOne(needed, described.group.topology)

    def _not_yet(self, tracked: TrackedGang, gang: Gang, needed: int) -> Undescribed | None:
        """Why the gang is not queued. Once enough members are nominated, later ones are surplus, gated or not."""
        if len(tracked) < gang.min_count:
            missing, least = self._quarantined_members(tracked), counted(gang.min_count, "pod")
            return Undescribed(f"waiting for its gang to have at least {least}{missing}")
        if tracked.gated and sum(key in self._nominations for key in tracked.ready) < needed:
            first = min(tracked.gated)
            return Undescribed(f"waiting for the gates of {first.name}, a member of its gang")
        return None

    def _quarantined_members(self, tracked: TrackedGang) -> str:
        group = next((pod.group for pod in (*tracked.ready.values(), *tracked.gated.values())), None)
        names = sorted(key.name for key, each in self.quarantine.items() if each == group)
        return f"; not counted, as it is quarantined: {', '.join(names)}" if names else ""

    def _enqueue(self, group: GroupKey, tracked: TrackedGang, state: GangState, now: float) -> None:
        if not isinstance(state, QueuedAsOne):
            self._queue.delete(group.line_key)
            return
        tracked.troubled = False
        members = self.members(group)
        oldest = min(members, key=lambda pod: (pod.created, pod.key))
        info = QueuedPodInfo(oldest, since=now, group=group, pods=len(members), failures=tracked.failures)
        self._queue.add_group(info, now)

    def _members_of(self, group: GroupKey) -> TrackedGang:
        return self._gangs.setdefault(group, TrackedGang())

    def _touch(self, group: GroupKey, *keys: Key) -> None:
        self.touched.setdefault(group, {}).update(dict.fromkeys(keys))
