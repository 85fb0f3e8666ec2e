"""The capacity of Volcano's queues: what their pods use, and what is reserved for pods that have no node yet.

A pod whose queue has capacity for it, and that no node fits, loses its queue-allocation gate and reserves that capacity
until it is bound, deleted or its time is over. Which pods reserve is read from the pods alone: they asked for the gate,
have none of ours any more, and no node. Reservations are in force in the order of the queue, each only if it fits on
top of what is in use and of those before it. So usage and reservations never exceed a capability, at any level, and no
two reservations can wait for each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence

import msgspec

from headgate.engine.metrics import Number
from headgate.engine.scheduler.cache import ClusterCache
from headgate.engine.scheduler.capacity import NotNow
from headgate.engine.scheduler.groups import Described
from headgate.engine.scheduler.queue_claims import KeptCapacity, QueueClaims
from headgate.engine.scheduler.queue_lines import QueueLines, UnplacedEntries, UnplacedEntry
from headgate.engine.scheduler.queue_refusals import RefusedPod, of_whole_gang, opted_in
from headgate.engine.scheduler.queue_reservations import QueueReservation, QueueReservations, reserved_in
from headgate.engine.scheduler.queue_usage import PodUse, VolcanoUsage
from headgate.model.cluster_events import ClusterEvent
from headgate.model.keys import Key, Kind
from headgate.model.pod import GroupKey, Pod
from headgate.model.resources import Resources
from headgate.model.settings import VolcanoSettings
from headgate.model.volcano import (
    DEFAULT_QUEUE,
    QUEUE_ANNOTATIONS,
    QUEUE_GATES,
    DequeueStrategy,
    VolcanoQueue,
    queue_named,
)
from headgate.preemption.volcano import Use, may_reclaim, remove
from headgate.queueing.queue import QueuedPodInfo, QueueOrder
from headgate.quota.volcano import NO_SHARE, VolcanoQueueNode

_NAMES = frozenset({*QUEUE_ANNOTATIONS, *QUEUE_GATES})  # by these annotations a pod is in a queue


class QueueCapacity:
    """`changed` names the pods whose reservation came into force or lost it: they are to be tried again.

    The value says whether one lost what it had: it is told so at once, also while it backs off after a failed write.
    """

    name = "QueueCapacity"

    def __init__(
        self,
        cache: ClusterCache,
        settings: VolcanoSettings,
        *,
        waiting: Callable[[Pod], Sequence[Pod]],
        preempting: frozenset[str],
    ) -> None:
        """`waiting`: the pods that start with the first of a queue entry. `preempting`: the profiles that preempt."""
        self._queues = cache.volcano_queues
        self._groups = cache.groups
        self._known = cache.pods
        self._nominated = cache.nominations.pods
        self._note = cache.note
        self._node_is_coming = cache.node_is_coming
        self._gated = settings.gates
        self.usage = VolcanoUsage(self._queues, self._outdated)
        self.reservations = QueueReservations(settings.reservation_timeout, self._needed, self.usage.changing)
        self._asked: dict[Key, str] = {}  # the queue that each waiting pod was checked for last; empty: none
        self._lines = QueueLines(self._is_fifo)  # of these, those that wait for their queue
        self._unplaced = UnplacedEntries(self._is_refused)  # and those that no node fits and that reserve nothing
        self._claims = QueueClaims(
            preempting,
            waiting,
            self.wanted,
            reserves=self.reservations.has_had,
            within=self.within_deserved,
            before=self.reservations.held_before,
            keeps=self.keeps,
        )
        self.may_evict = self._claims.may_evict
        self._waiting = waiting
        self._kept: dict[Hashable, KeptCapacity] = {}  # from whom, by equivalence, until something changes
        self._fitting: set[Key] = set()  # pods that were found to fit since the last refresh
        self._answers: dict[tuple[object, ...], NotNow] = {}  # to the first pod of a check, until something changes
        self.changed: dict[Key, bool] = {}
        self._sharing = False  # whether a queue deserves something
        self.share_changes = 0
        self._shares: dict[Hashable, tuple[int, ...]] = {}  # of queues, until what one of them uses changes
        self._keeping = False  # whether a queue deserves or is guaranteed anything: its use decides who may leave
        self._reordered = False  # whether these have changed since the last `take_reordered`
        self._stale = False
        self.given_up = False  # whether what was kept for a pod is free because no node fits that pod
        self._weighed = False  # whether what was answered may be different now, for pods that wait for their victims
        self.in_use = False  # whether a queue, or a pod that belongs to one, was ever seen
        self.now = self._settled_at = 0.0

    @property
    def in_force(self) -> dict[Key, QueueReservation]:
        return self.reservations.in_force

    # what is now true

    def observe(self, known: VolcanoQueue | None, found: VolcanoQueue) -> None:
        """Takes in a queue that was `known` as another before; what its status counts decides nothing."""
        if known is None or known.limits != found.limits:
            self.queues_changed()
        self.usage.touched[found.name] = None

    def queues_changed(self) -> None:
        """A queue has another limit, place or state, or is new or gone."""
        self.in_use = True
        self.usage.queues_changed()
        self._note(ClusterEvent.QUEUE_CAPACITY_FREED)
        self._note(ClusterEvent.CANDIDATES_CHANGED)

    def nodes_changed(self) -> None:
        """A node that is being brought up keeps reservations in force whose time is over."""
        self._stale |= self.reservations.overdue

    def groups_changed(self) -> None:
        """A group is described differently: how many of its pods start together may be another number."""
        self._stale |= self.reservations.any_of_groups

    def lose(self, queue: str) -> None:
        self.usage.touched[queue] = None
        self.queues_changed()

    def queue_of(self, pod: Pod) -> str:
        """The queue of its PodGroup, else the one it names; empty for a pod that belongs to none."""
        group = pod.group
        if group is not None and group.workload.kind is Kind.VOLCANO_POD_GROUP:
            workload = self._groups.workloads.get(group.workload)
            if workload is not None and workload.volcano is not None:
                self.in_use = True
                return workload.volcano.queue
        if not pod.annotations or (_NAMES.isdisjoint(pod.annotations) and not pod.gates and pod.reserved_at is None):
            return ""
        named = queue_named(pod.annotations) or (DEFAULT_QUEUE if opted_in(pod) else "")
        self.in_use |= bool(named)
        return named

    def enters(self, info: QueuedPodInfo) -> None:
        """Takes in an entry that is to be tried, and by what its queue takes its turn."""
        queue = self._take_in(info)
        if queue and self._claims.enter(info, queue):
            self._weigh_again()
        elif queue == "" and info.pod.key in self._claims:
            self._gives_up(info.pod.key)

    def backs_off(self, info: QueuedPodInfo) -> None:
        """Takes in an entry that is to be tried later. Nothing is kept for one that no node fitted when it was tried
        last: each time it is woken in vain somebody else would be evicted, and start again.
        """
        if info.pod.key in self._unplaced.entries:
            self._take_in(info)
            self._gives_up(info.pod.key)
        else:
            self.enters(info)

    def _take_in(self, info: QueuedPodInfo) -> str | None:
        """Gives the entry its rank; returns its queue, or None where nothing is to be known of it."""
        if not self.in_use:
            return None
        queue = self.queue_of(info.pod)
        info.queue_priority = self.reservations.priorities.get(queue, 0)
        info.sharing = queue if self._sharing else ""
        known = self._known.get(info.pod.key)
        if known is None or (info.group is not None and known.group != info.group):
            return None  # the entry of a gang whose oldest member is gone or has left it: it is about to be made anew
        return queue

    def rank(self, info: QueuedPodInfo) -> None:
        queue = self.queue_of(info.pod)
        info.queue_priority = self.reservations.priorities.get(queue, 0)
        info.sharing = queue if self._sharing else ""

    def share_of(self, queue: str, first: Key) -> tuple[int, ...]:
        node = self.usage.tree.get(queue)
        known = queue if first not in self.in_force else (queue, first)
        if node is not None and known not in self._shares:
            own = [each.pod.shape.requests for each in self._with(first) if each.queue == queue]
            for requests in own:
                node.unreserve(requests)
            self._shares[known] = node.shares()
            for requests in own:
                node.reserve(requests)
        return self._shares[known] if node is not None else NO_SHARE

    def _with(self, first: Key) -> list[QueueReservation]:
        """The reservations in force of this pod and of the others of its group."""
        held = self.in_force.get(first)
        if held is None or held.pod.group is None:
            return [held] if held is not None else []
        return [each for each in self.in_force.values() if each.pod.group == held.pod.group]

    def no_node(self, pod: Pod) -> None:
        """No node fits the pod: unless it reserves capacity, none is kept for it until it is tried again."""
        if pod.key in self._claims:
            self.given_up |= bool(self._kept) or self.reservations.kept_out
            self._gives_up(pod.key)

    def remains_unplaced(self, pods: Sequence[Pod]) -> None:
        """No node fits these pods, which start together and which their queues allow: they may not later."""
        first = min(pods, key=lambda pod: (pod.created, pod.key))
        queue = self.queue_of(first)
        for pod in pods:
            self._unplaced.drop(pod.key)
        new = [pod.shape.requests for pod in pods if pod.key not in self.in_force]
        if not queue or not new:
            return
        requests = sum(new[1:], new[0])
        least = self._least_of_group(first)
        if least is not None:
            names = dict(requests.items) | dict(least.items)
            requests = Resources.of({name: max(requests[name], least[name]) for name in names})
        devices = any(claim.kind is Kind.DEVICE_CLAIM for claim in first.shape.claims)
        self._unplaced.put(UnplacedEntry(tuple(pods), first, queue, requests, devices))

    def _may_displace(self, pod: Pod, queue: str) -> bool:
        """Whether a pod that waits may keep others from reserving: those of its queue, or that have too much."""
        node = self.usage.tree.get(queue)
        if node is not None and node.queue.deserved.items:
            return bool(self.in_force)
        return any(each.queue == queue and each.pod.priority < pod.priority for each in self.in_force.values())

    def _gives_up(self, pod: Key) -> None:
        """What was kept for the pod is not any more."""
        if self._claims.leave(pod):
            self._weigh_again()

    def _weigh_again(self) -> None:
        """What was answered may be different now; those from whom capacity was kept may start."""
        self._forget_answers()
        self._weighed = True
        self._stale |= self.reservations.kept_out
        if self._kept:
            self._kept.clear()
            self._note(ClusterEvent.QUEUE_CAPACITY_FREED)

    def _forget_answers(self) -> None:
        self._answers.clear()
        self._unplaced.forget_answers()
        self._claims.reservations_changed()

    def recheck_nominated(self, now: float) -> None:
        """Pods that wait for their victims to leave a node are tried again if their queue allows them no longer."""
        self.refresh(now)
        weighed, self._weighed = self._weighed, False
        for pod in list(self._nominated.values()) if weighed else ():
            pods = self._waiting(pod) if self.queue_of(pod) else ()
            if pods and self.check(pods, len(pods)) is not None:
                self.changed.setdefault(pod.key, False)

    def take_reordered(self) -> bool:
        """Whether priorities of queues, or whether they take turns by share, have changed since the last call."""
        reordered, self._reordered = self._reordered, False
        return reordered

    def charge(self, pod: Pod) -> None:
        known = self.usage.of_pods.get(pod.key)
        if self.in_use and (pod.key in self._asked or pod.key in self._claims):
            self.stops_waiting(pod.key)
        if known is None and not pod.annotations and pod.group is None:
            return
        queue = self.queue_of(pod)
        if known is None and not queue:
            return
        use = PodUse(queue, pod.shape.requests)
        if known == use:
            self._note_leaving(pod)
            return
        if known is not None:
            self._freed()
        in_force = self.in_force.get(pod.key)
        held = in_force is not None and PodUse(in_force.queue, in_force.pod.shape.requests) == use
        self._drop(pod.key)
        if not queue:
            return
        self._weigh_again()
        self.usage.put(pod.key, use)
        self._rank_again(queue)
        self._candidates_changed()
        self._stale |= bool(self.in_force) and not held and pod.key not in self._fitting
        self._stale |= self.reservations.has_group(pod.group)  # fewer of the others start together
        self._begins(pod)
        self._note_leaving(pod)

    def _note_leaving(self, pod: Pod) -> None:
        if pod.deleted is not None:
            self.leaves(pod.key)
        elif self.usage.stays(pod.key):
            self._weigh_again()

    def release(self, pod: Key) -> None:
        if self.in_use:
            if self._drop(pod):
                self._freed()
            self.stops_waiting(pod)

    def stops_waiting(self, pod: Key) -> None:
        """The pod waits for its queue no longer, so nobody waits behind it or for it."""
        self._asked.pop(pod, None)
        if pod in self._unplaced.entries:
            self._unplaced.drop(pod)
        self._passes(pod)
        self._gives_up(pod)

    def leaves(self, pod: Key) -> None:
        """The pod is being evicted: what it uses will be free."""
        if self.usage.leaves(pod):
            self._stale |= bool(self.in_force) and bool(self._lines.refused)  # more may be kept from reservations
            self._weigh_again()

    def _freed(self) -> None:
        self._note(ClusterEvent.QUEUE_CAPACITY_FREED)
        self._candidates_changed()
        self._stale |= len(self.reservations) > len(self.in_force)

    def candidate_changed(self, pod: Pod) -> None:
        """The running pod has another priority or gang: whoever waits for its queue may be able to preempt it now."""
        if pod.key in self.usage.of_pods:
            self._note(ClusterEvent.QUEUE_CAPACITY_FREED)

    def _candidates_changed(self) -> None:
        """What queues use decides who may be evicted on nodes, if they deserve or are guaranteed anything."""
        if self._keeping:
            self._note(ClusterEvent.CANDIDATES_CHANGED)

    def waits(self, pod: Pod) -> None:
        """Takes in a pod of ours without a node: whether it reserves capacity, and of which queue."""
        known, asked = self.reservations.get(pod.key), self._asked.get(pod.key)
        new = known is None and asked is None and pod.key not in self._claims
        if new and not pod.annotations and pod.reserved_at is None:
            return
        queue = self.queue_of(pod)
        if (asked is not None and asked != queue) or self._claims.queue_of(pod.key) not in ("", queue):
            self.stops_waiting(pod.key)
            self.changed.setdefault(pod.key, False)
        if not queue or pod.gates or not opted_in(pod):
            if known is not None and self._drop(pod.key):
                self._freed()
            return
        found = QueueReservation(pod, queue)
        if known is not None and known.same_as(found):
            self._stale |= known.pod.reserved_at != pod.reserved_at
            self.reservations.put(found)
            return
        if known is not None and self._drop(pod.key):
            self._freed()
        self.reservations.put(found)
        whole = pod.group is None or len(self.reservations) == len(self.in_force) + 1  # no member has lost it
        if pod.key in self._fitting and pod.key not in self.usage.of_pods and whole:
            self.reservations.put_in_force(found)
            self._begins(pod)
            self._weigh_again()
            self._candidates_changed()
            self._rank_again(queue)
        else:
            self.changed.setdefault(pod.key, False)
            self._stale = True

    def _drop(self, pod: Key) -> bool:
        """Whether the pod used or reserved anything; it does no longer."""
        use, reserving = self.usage.drop(pod), self.reservations.drop(pod)
        if reserving is not None:
            self._rank_again(reserving.queue)
            self._stale |= self.reservations.has_group(reserving.pod.group)  # the others may be too few
        if use is not None:
            self._weigh_again()
            self._rank_again(use.queue)
        return use is not None or reserving is not None

    def _outdated(self) -> None:
        """Other amounts of a queue are in use or reserved from now on."""
        self._forget_answers()
        self._shares.clear()
        self.share_changes += 1

    # reservations in force

    def refresh(self, now: float) -> None:
        """Brings the reservations in force up to date with queues, usage and time."""
        if now != self.now:
            self._claims.reservations_changed()  # who rests may rest no more
        self.now = self.reservations.now = now
        self._fitting.clear()
        if self.usage.is_stale:
            self._rebuild()
        deadline = self.reservations.next_deadline
        if self._stale or (deadline is not None and deadline <= now):
            self._settle(now)

    def _rebuild(self) -> None:
        priorities = {queue.name: queue.priority for queue in self._queues.values() if queue.priority}
        sharing = any(queue.deserved.items for queue in self._queues.values())
        self._keeping = sharing or any(queue.guarantee.items for queue in self._queues.values())
        self._reordered |= priorities != self.reservations.priorities or sharing != self._sharing
        self.reservations.priorities, self._sharing = priorities, sharing
        self.usage.rebuild()
        self.reservations.tree = self.usage.tree
        for held in self.in_force.values():
            self.reservations.reserve(held)
        self._lines.form()
        self._stale = True

    def _settle(self, now: float) -> None:
        """Puts reservations in force as far as there is capacity, and has those tried again that gained or lost it."""
        before, beyond = dict(self.in_force), self.reservations.beyond
        self._stale = False
        units = self.reservations.settle(self._node_is_coming, self._is_kept_from if self._lines.refused else None)
        for unit in units:
            if self._settled_at < self.reservations.rests_until(unit) <= now:
                self.changed.update((each.pod.key, False) for each in unit)
        self._settled_at = now
        differ, reranked = before.keys() ^ self.in_force.keys(), beyond != self.reservations.beyond
        self.changed.update((pod, pod in before) for pod in sorted(differ))
        for gained in self.in_force.keys() - before.keys():
            self._begins(self.in_force[gained].pod)
        self._weigh_again()
        if differ or reranked:
            self._candidates_changed()
        if before.keys() - self.in_force.keys() or reranked:
            self._note(ClusterEvent.QUEUE_CAPACITY_FREED)

    def _is_kept_from(self, each: QueueReservation) -> bool:
        """Whether its pod would be evicted for one that waits."""
        return self._kept_from_started(each.pod, each.queue, among=self._lines.refused) is not None

    def _kept_from_started(self, pod: Pod, queue: str, among: Container[Key] | None = None) -> KeptCapacity | None:
        """What is kept from a pod whose reservation is in force, once it uses that capacity."""
        node, requests = self.usage.tree.get(queue), pod.shape.requests
        if node is None:
            return None
        node.unreserve(requests)
        node.add(requests)
        kept = self._claims.kept_from(pod, (node, requests), self.usage.tree, self.usage.going, among)
        node.remove(requests)
        node.reserve(requests)
        return kept

    def _rank_again(self, queue: str) -> None:
        """Other reservations of this queue, or of one above it, may be within what their queue deserves now."""
        if self._keeping and not self.usage.is_stale and len(self.reservations):
            self._stale |= self.reservations.rank_differently(queue)

    def _needed(self, group: GroupKey) -> int:
        """How many pods of the group start together: none of one that is no gang, or that has started."""
        members = [pod for pod in self._groups.pods_of(group.workload) if pod.group == group]
        described = self._groups.describe(members[0]) if members else None
        gang = described.group.gang if isinstance(described, Described) else None
        there = sum(pod.key in self.usage.of_pods and pod.deleted is None for pod in members)
        return gang.min_count - there if gang is not None else 0

    def expired(self, pod: Pod) -> NotNow | None:
        """Why the pod does not reserve capacity again yet, although its queue has some and no node fits."""
        known, rests = self.reservations.get(pod.key), self.reservations.rests(pod)
        if known is None or rests is None or pod.key in self.in_force:
            return None
        return RefusedPod(pod, known.queue, 0, ()).rests(rests, self.reservations.timeout)

    def wanted(self, pods: Sequence[Pod]) -> list[Use] | None:
        """What the pods want of their queues; None if no victim can help them: a queue takes none, or they have had it.

        A pod for which no node came evicts nobody while it rests: it would not keep what they leave.
        """
        uses: list[Use] = []
        for pod in pods:
            node = self.usage.tree.get(self.queue_of(pod))
            if node is None or not node.queue.is_open or self.reservations.has_had(pod) or node.refuses_devices(pod):
                return None
            uses.append((node, pod.shape.requests))
        queue = self.queue_of(pods[0])
        return uses if self._group_refusal(pods[0], queue, 0) is None else None

    def keeps(self, pods: Iterable[Pod]) -> bool:
        """Whether these pods, which start together, reserve what they may have if no node fits.

        A gang does as a whole, also for members that did not ask for the gate; nobody does while gates are off.
        """
        return self._gated and any(opted_in(pod) for pod in pods)

    def kept_from(self, alike: Hashable) -> KeptCapacity | None:
        """What is kept from pods of this equivalence, which their queue has capacity for."""
        return self._kept.get(alike)

    def beyond(self, pod: Pod, members: int) -> NotNow:
        """What is said of a gang's member when the queue has capacity for so many of the others only."""
        return RefusedPod(pod, self.queue_of(pod), 0, ()).others_only(members)

    # the decision

    def check(self, pods: Sequence[Pod], needed: int) -> NotNow | None:
        if self._stale or self.usage.is_stale:
            self.refresh(self.now)
        taken: list[Use] = []
        displaced: dict[Key, QueueReservation] = {}
        found = None
        oldest = pods[0] if needed == 1 else min(pods, key=lambda pod: (pod.created, pod.key))
        for allowed, pod in enumerate(pods):
            queue = self.queue_of(pod)
            if self.in_use:
                self._asked[pod.key] = queue
            if not queue:
                continue
            if pod.key in self.in_force:
                found = self._kept_reservation(pod, queue, allowed)
            else:
                place_of = oldest if allowed < needed else None
                found = self._check_one(pods[allowed:], queue, place_of, allowed, taken=taken, displaced=displaced)
            if found is not None:
                break
        if self._lines.refused and (found is None or found.allowed >= needed):
            self._pass_all(pods if found is None else pods[: found.allowed])
        remove(taken)
        for each in displaced.values():
            self.reservations.reserve(each)
        return self._of_whole_gang(found, pods[:needed]) if found is not None and found.allowed < needed > 1 else found

    def _of_whole_gang(self, refused: NotNow, pods: Sequence[Pod]) -> NotNow:
        """The same with the numbers of all that start together, of which none is in use or reserved."""
        node = self.usage.tree.get(str(refused.numbers.get("queue")))
        if node is None or "level" not in refused.numbers:
            return refused
        new = [pod.shape.requests for pod in pods if pod.key not in self.in_force]
        return of_whole_gang(refused, len(new), node.shortage(sum(new, Resources())))

    def _check_one(
        self,
        pods: Sequence[Pod],
        queue: str,
        oldest: Pod | None,  # of those that its gang needs: it stands in that one's place, otherwise in its own
        allowed: int,
        *,
        taken: list[Use],
        displaced: dict[Key, QueueReservation],
    ) -> NotNow | None:
        """Why the queue has no capacity for the first of these pods, which start together with those `taken`."""
        pod, first = pods[0], oldest or pods[0]
        order = QueuedPodInfo(first).order
        if self._lines.stands_elsewhere(first.key, queue, order):
            self._passes(first.key)
        found = self._group_refusal(pod, queue, allowed)
        found = found or self._refusal(pods, queue, order, allowed, taken=taken, displaced=displaced)
        if found is not None and oldest is None and self._waits_with_gang(pod):
            return found  # its gang needs no more, and does not wait for the queue
        if found is not None:
            self._waits_in_line(first, queue, order)
        elif not displaced:
            self._fitting.add(pod.key)
        return found

    def _waits_in_line(self, first: Pod, queue: str, order: QueueOrder) -> None:
        self._unplaced.drop(first.key)
        if self._lines.refuse(first, queue, order):
            self._stale |= self._may_displace(first, queue)

    def _group_refusal(self, pod: Pod, queue: str, allowed: int) -> NotNow | None:
        """Why the queue has no capacity for the minResources of a group of which nothing runs or reserves yet."""
        wanted = self._least_of_group(pod) if pod.group is not None and not allowed else None
        node = self.usage.tree.get(queue) if wanted is not None else None
        if wanted is None or pod.group is None or node is None or node.fits(wanted):
            return None
        return RefusedPod(pod, queue, allowed, (queue, pod.group.workload)).group_short(node.shortage(wanted))

    def _least_of_group(self, pod: Pod) -> Resources | None:
        """The minResources of its group, if there are any and nothing of it runs or reserves yet."""
        least = self._min_resources(pod)
        members = self._groups.pods_of(pod.group.workload) if least is not None and pod.group is not None else ()
        started = any(member.key in self.usage.of_pods or member.key in self.in_force for member in members)
        return None if started else least

    def _min_resources(self, pod: Pod) -> Resources | None:
        workload = self._groups.workloads.get(pod.group.workload) if pod.group is not None else None
        least = workload.volcano.min_resources if workload is not None and workload.volcano is not None else None
        return least if least is not None and least.items else None

    def _begins(self, pod: Pod) -> None:
        """The pod runs or reserves: the others of its group wait for its minResources no longer."""
        if self._min_resources(pod) is not None:
            self._note(ClusterEvent.MEMBERS_CHANGED)

    def _refusal(
        self,
        pods: Sequence[Pod],
        queue: str,
        order: QueueOrder,
        allowed: int,
        *,
        taken: list[Use],
        displaced: dict[Key, QueueReservation],
    ) -> NotNow | None:
        """Why the queue has no capacity for the first on top of those `taken`; otherwise it is taken too."""
        pod = pods[0]
        node, alike = self.usage.tree.get(queue), self._alike(pod, queue)
        if not taken and (known := self._answers.get(alike)) is not None:
            return known if known.allowed == allowed else msgspec.structs.replace(known, allowed=allowed)
        says = RefusedPod(pod, queue, allowed, alike)
        if node is None:
            return says.misplaced(self.misplaced(queue))
        if not node.queue.is_open:
            return says.closed(node.queue)
        if pod.shape.claims and (limited := node.refuses_devices(pod)):
            return says.limited(limited)
        head = self._lines.head(queue)
        if head is not None and head[0] < order and not self._start_together(pod, head[1]):
            return says.behind(head[1])
        if node.queue.dequeue is DequeueStrategy.FIFO:
            first = self._waits_again(node, order, pod, taken)
            if first is not None:
                return says.behind(first)
        requests = pod.shape.requests
        if not node.fits(requests) and not self._displace(pods, node, displaced):
            refused = says.short(node.shortage(requests), reclaims=may_reclaim([(node, requests)]))
        else:
            node.add(requests)
            kept = self._claims.kept_from(pod, (node, requests), self.usage.tree, self.usage.going)
            if kept is None:
                taken.append((node, requests))
                return None
            node.remove(requests)
            self._kept[alike] = kept
            refused = says.kept(kept, self.queue_of(kept.pods[0]))
        if not taken and node.queue.dequeue is DequeueStrategy.TRAVERSE:
            self._answers[alike] = refused
        return refused

    def _waits_again(self, node: VolcanoQueueNode, order: QueueOrder, pod: Pod, taken: list[Use]) -> Key | None:
        """The first before this place that no node fits, and that its fifo queue does not allow any more.

        It is asked again, unless it is only on top of those `taken`, which may find no node either.
        """
        entry = self._unplaced.first_refused_now(node) if taken else self._unplaced.first_refused(node)
        if entry is None or not entry.place[0] < order or self._start_together(pod, entry.first.key):
            return None
        if not taken:
            self._waits_in_line(entry.first, node.name, entry.place[0])
            self.changed.setdefault(entry.first.key, False)
        return entry.first.key

    def _is_unplaced_refused(self, pod: Pod) -> bool:
        """Whether no node fitted the pod, or those that start with it, and its queue would refuse it by now."""
        entry = self._unplaced.entries.get(pod.key)
        node = self.usage.tree.get(entry.queue) if entry is not None else None
        return entry is not None and node is not None and self._is_refused(entry, node)

    def _is_refused(self, entry: UnplacedEntry, node: VolcanoQueueNode) -> bool:
        """Whether the queue has no capacity for these pods any more, also without the reservations after theirs."""
        if entry.devices and node.refuses_devices(entry.first):
            return True
        if node.fits(entry.requests):
            return False
        displaced: dict[Key, QueueReservation] = {}
        fits = self._displace(entry.pods, node, displaced) and node.fits(entry.requests)
        for each in displaced.values():
            self.reservations.reserve(each)
        return not fits

    def _alike(self, pod: Pod, queue: str) -> tuple[object, ...]:
        """What the pod shares with others that get the same answer."""
        return queue, pod.shape.requests, pod.priority, opted_in(pod), self.reservations.since(pod, queue)

    def _kept_reservation(self, pod: Pod, queue: str, allowed: int) -> NotNow | None:
        """Why a pod that reserves its capacity may not use it: it would be evicted for one that was not tried yet."""
        kept = self._kept_from_started(pod, queue)
        if kept is None:
            return None
        alike = self._alike(pod, queue)
        self._kept[alike] = kept
        return RefusedPod(pod, queue, allowed, alike).kept(kept, self.queue_of(kept.pods[0]))

    def _displace(self, pods: Sequence[Pod], node: VolcanoQueueNode, displaced: dict[Key, QueueReservation]) -> bool:
        """Whether the first of these pods, which start together, fits once all reservations after it are set aside.

        Then the reservations that are settled with it leave it in force, so no two can displace each other. Those of
        its own gang start with it and are not set aside.
        """
        if displaced:
            return False
        place, beyond = self.reservations.place_of(pods[0], node.name), not self.within_deserved(pods, node)
        after = self.reservations.after(place, node.name, beyond=beyond)
        aside = [each for each in after if not self._start_together(pods[0], each.pod.key)]
        for each in aside:
            self.reservations.unreserve(each)
        if aside and node.fits(pods[0].shape.requests):
            displaced |= {each.pod.key: each for each in aside}
            return True
        for each in aside:
            self.reservations.reserve(each)
        return False

    def within_deserved(self, pods: Sequence[Pod], node: VolcanoQueueNode) -> bool:
        """Whether the queue uses no more than it deserves with these of its pods and with what is reserved before."""
        place = self.reservations.place_of(pods[0], node.name)
        first = self.reservations.beyond.get(node.name)
        if not node.queue.deserved.items or (first is not None and first < place):
            return False
        keys = {pod.key for pod in pods}
        before = [each for each in self.reservations.before(place, node) if each.pod.key not in keys]
        wanted = [(node, pod.shape.requests) for pod in pods if self.queue_of(pod) == node.name]
        uses = [(node, each.pod.shape.requests) for each in before]
        return may_reclaim(wanted, uses, reserved_in(node))

    def _start_together(self, pod: Pod, other: Key) -> bool:
        """Whether both are of one gang: it starts with any of its members, in the place of the first."""
        known = self._known.get(other)
        return known is not None and known.group == pod.group and self._waits_with_gang(pod)

    def _waits_with_gang(self, pod: Pod) -> bool:
        return pod.group is not None and self._needed(pod.group) > 0

    def _pass_all(self, pods: Sequence[Pod]) -> None:
        """These wait for their queue no longer, nor do the others of a gang: it starts without them."""
        for pod in pods:
            self._passes(pod.key)
        others = self._lines.refused_of(pods[0].group)
        for other in others if others and self._waits_with_gang(pods[0]) else ():
            self._passes(other)

    def _passes(self, pod: Key) -> None:
        if self._lines.passes(pod):
            self._note(ClusterEvent.QUEUE_CAPACITY_FREED)

    def keeps_place(self, pod: Pod) -> None:
        """The pod, or the gang whose first it is, backs off after a failed write: nobody overtakes it meanwhile."""
        queue = self.queue_of(pod) if pod.gates else ""
        if queue and self._is_fifo(queue):
            self._lines.refuse(pod, queue, QueuedPodInfo(pod).order)

    def _is_fifo(self, queue: str) -> bool:
        node = self.usage.tree.get(queue)
        return node is not None and node.queue.dequeue is DequeueStrategy.FIFO

    # what is shown

    def is_short(self, stage: str, not_now: NotNow) -> bool:
        """Whether this stage said so because a queue has too little capacity, which victims can give back."""
        return stage == self.name and not not_now.numbers.keys().isdisjoint(("level", "keptFor"))

    def allows(self, pods: Sequence[Pod], needed: int) -> bool:
        """Whether the queues have capacity for so many pods of a group, and did not refuse them.

        Pods that never asked for the gate reserve nothing, so nobody asks again when the capacity they fit is used up:
        of these it does not count whether they were refused when they were tried last.
        """
        if any(opted_in(pod) and (pod.key in self._lines.refused or self._is_unplaced_refused(pod)) for pod in pods):
            return False
        new = [pod for pod in pods if pod.key not in self.in_force]
        missing, taken = needed - (len(pods) - len(new)), list[Use]()
        for pod in sorted(new, key=lambda pod: (bool(pod.gates), pod.created, pod.key)):
            node = self.usage.tree.get(self.queue_of(pod))
            if len(taken) < missing and node is not None and node.fits(pod.shape.requests):
                node.add(pod.shape.requests)
                taken.append((node, pod.shape.requests))
        remove(taken)
        return len(taken) >= missing

    def uses_any(self, queue: str) -> bool:
        """Whether a pod of this queue is on a node or reserves capacity."""
        return self.usage.has_pods(queue) or any(each.queue == queue for each in self.in_force.values())

    def misplaced(self, queue: str) -> str:
        return self.usage.tree.misplaced.get(queue, "")

    def collect(self) -> Iterator[Number]:
        """Pods of each queue that reserve capacity of it, and that wait for some."""
        reserved = Counter(each.queue for each in self.in_force.values())
        waiting = Counter(queue for queue, _, _ in self._lines.refused.values())
        for metric, pods in (("headgate_queue_reserved_pods", reserved), ("headgate_queue_waiting_pods", waiting)):
            for queue in sorted({*self._queues, *pods}):
                yield metric, (("queue", queue),), pods[queue]
