"""Asking others to leave: the promise of room is put on record first, and only then is anyone evicted.

So a process that dies in between leaves either promises for which nobody was harmed yet, or the whole promise on the
pods it was given to: its successor finds the seats there and goes on with the same victims.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct, field

from headgate.engine.journal import Journal
from headgate.engine.scheduler import preemption_events
from headgate.engine.scheduler.cache import ClusterCache
from headgate.engine.scheduler.gangs import GangTracker
from headgate.engine.scheduler.groups import Groups
from headgate.engine.scheduler.metrics import SchedulerMetrics
from headgate.engine.scheduler.place import PlaceStage
from headgate.model.effects import Effect, Evict, Nomination, PatchStatus, PodCondition
from headgate.model.events import Outcome, Trouble
from headgate.model.groups import GroupKey
from headgate.model.happenings import Happening
from headgate.model.keys import Key, Target
from headgate.model.pod import ENDED, Pod
from headgate.placement.placer import NoPlacement, Placer
from headgate.placement.table import NodeTable
from headgate.preemption.search import NoPlan, Plan, Preemption, Preemptor
from headgate.preemption.units import Unit
from headgate.queueing.queue import PodQueue, QueuedPodInfo

DISRUPTION_TARGET = "DisruptionTarget"


def marks(units: Iterable[Unit], preemptor: Preemptor, now: float) -> Iterator[PatchStatus]:
    """For every pod that leaves with others and does not carry the mark yet."""
    for unit in units:
        together = len(unit.pods)
        for pod in unit.pods if together > 1 else ():
            if not pod.preempted or pod.leaves_with != together:
                text = preemption_events.hidden(pod, preemptor, together)
                mark = PodCondition(DISRUPTION_TARGET, "True", preemption_events.BY_SCHEDULER, text, now)
                yield PatchStatus(pod.target, mark)


class InterruptedPreemptions:
    """Looks at gangs of which a pod that runs carries the mark; at each only when something about it changed."""

    def __init__(self, groups: Groups, nodes: NodeTable, journal: Journal) -> None:
        self._groups = groups
        self._nodes = nodes
        self._journal = journal
        self.suspects: dict[GroupKey, None] = {}
        self.single: dict[Key, Pod] = {}

    def suspect(self, pod: Pod) -> None:
        """The pod carries the mark, or carried it when its gang was last looked at."""
        standing = self._groups.standing(pod)
        if standing.gang is not None and standing.whole:
            self.suspects[standing.gang] = None
        else:
            self.single[pod.key] = pod

    def settle(self, busy: Callable[[Pod], bool], now: float) -> Iterator[PatchStatus | Evict]:
        """Whole gangs that began to leave lose their last pods; marks without consequence are taken back.

        `busy` says which pods someone is just about to evict.
        """
        suspects, self.suspects = self.suspects, {}
        strays = self._take_strays(busy)
        for group in suspects:
            members = [pod for pod in self._groups.pods_of(group.workload) if pod.group == group]
            staying = [there for pod in members for there in self._running(pod)]
            if not any(busy(pod) for pod in staying):
                begun = self._has_begun(members, staying, strays)
                yield from self._finish(staying, begun=begun, now=now)
        yield from self._finish(strays, begun=False, now=now)

    def _take_strays(self, busy: Callable[[Pod], bool]) -> list[Pod]:
        """Running pods whose mark says that they leave with others, with whom they have nothing to do any more."""
        single, self.single = self.single, {}
        staying = [there for pod in single.values() if not busy(pod) for there in self._running(pod)]
        return [pod for pod in staying if pod.preempted and pod.leaves_with > 1 and not self._leaves_whole(pod)]

    def _leaves_whole(self, pod: Pod) -> bool:
        standing = self._groups.standing(pod)
        return standing.gang is not None and standing.whole

    def _has_begun(self, members: list[Pod], staying: list[Pod], strays: list[Pod]) -> bool:
        """One of them is going, or so many are gone, neither ended nor moved, that these are not all who were marked.

        Where the marks do not say how many that was, there were at least as many as the gang needs.
        """
        if not staying:
            return False
        stay = {pod.key for pod in staying}
        leaving = any(pod.preempted and pod.holds_room and pod.key not in stay for pod in members)
        ended = sum(pod.phase in ENDED and pod.deleted is None for pod in members)
        marked = max(pod.leaves_with for pod in staying) or self._groups.standing(staying[0]).min_count
        space = staying[0].key.namespace
        moved = sum(pod.leaves_with == marked and pod.key.namespace == space for pod in strays)
        return leaving or len(staying) + ended + moved < marked

    def _finish(self, staying: list[Pod], *, begun: bool, now: float) -> Iterator[PatchStatus | Evict]:
        for pod in staying:
            if begun:
                self._journal.write(preemption_events.rest_evicted(pod, now))
                yield Evict(pod.target, preemption_events.BY_SCHEDULER, preemption_events.REST, now)
            elif pod.preempted:
                mark = PodCondition(DISRUPTION_TARGET, "False", "PreemptionAbandoned", preemption_events.ABANDONED, now)
                yield PatchStatus(pod.target, mark)

    def _running(self, pod: Pod) -> Iterator[Pod]:
        """The pod as it runs; nothing when it runs nowhere or is leaving."""
        charge = self._nodes.charge_of(pod.key)
        if charge is not None and charge[1].uid == pod.uid and charge[1].deleted is None:
            yield charge[1]


class AwaitedVictims:
    """Says when the last of those someone waits for has left, so that nobody looks in vain after each of them."""

    def __init__(self) -> None:
        self._expected: dict[Key, dict[Key, None]] = {}  # by place in line
        self._awaiting: dict[Key, dict[Key, None]] = {}  # by pod that is to leave

    def expect(self, place: Key, pods: Iterable[Key]) -> None:
        """These, and no others, must leave for the one at this place."""
        self.forget(place)
        expected = dict.fromkeys(pods)
        if expected:
            self._expected[place] = expected
        for pod in expected:
            self._awaiting.setdefault(pod, {})[place] = None

    def forget(self, place: Key) -> None:
        for pod in self._expected.pop(place, {}):
            self._awaiting[pod].pop(place)
            if not self._awaiting[pod]:
                del self._awaiting[pod]

    def left(self, pod: Key) -> list[Key]:
        """The pod has left: the places at which nobody else is waited for now."""
        places = list(self._awaiting.pop(pod, ()))
        for place in places:
            del self._expected[place][pod]
        done = [place for place in places if not self._expected[place]]
        for place in done:
            del self._expected[place]
        return done


NOT_ALLOWED = "preemption is not allowed by preemptionPolicy Never"
Seats = tuple[tuple[Pod, str], ...]


class AssumedPreemption(Struct):
    """A plan for someone in line. Nobody is evicted for it before every nomination is on record."""

    preemptor: Preemptor
    plan: Plan
    placer: Placer
    unanswered: dict[Key, None] = field(default_factory=dict)  # pods about which something is being put on record


class PendingEviction(Struct, frozen=True):
    evict: Evict
    place: Key  # in line, of the one it is done for
    with_others: bool  # it leaves with its gang, which must not be left half there


class PostFilterResult(Struct, frozen=True):
    """What is done for one who finds no room, in words and in effects."""

    says: str
    effects: tuple[Effect, ...] = ()
    helps: bool = False  # there will be room
    wake_on: frozenset[Happening] = frozenset()  # what, besides what could give it a node as it is, could change this


class FailedSearch(Struct, frozen=True):
    """A search that found no plan, and the counts of load and nomination changes it was made at."""

    stands: tuple[int, int]
    found: NoPlan

    @property
    def says(self) -> str:
        return self.found.reason if self.found.candidates else ""


class PreemptStage:
    """For entries of the queue that no node fits: nominates, marks, checks once more and evicts, in this order."""

    def __init__(
        self,
        cache: ClusterCache,
        queue: PodQueue,
        gangs: GangTracker,
        place: PlaceStage,
        search: Preemption,
        *,
        placers: Mapping[str, Placer],
        enabled: frozenset[str],  # the schedulerNames whose profile has preemption on
        journal: Journal,
        metrics: SchedulerMetrics,
    ) -> None:
        self._cache = cache
        self._nodes = cache.nodes
        self._nominations = cache.nominations
        self._queue = queue
        self._gangs = gangs
        self._place = place
        self._search = search
        self._placers = placers
        self._enabled = enabled
        self._journal = journal
        self._metrics = metrics
        self._interrupted = InterruptedPreemptions(cache.groups, cache.nodes, journal)
        self._assumed: dict[Key, AssumedPreemption] = {}  # by key of the queue entry
        self._nominated: dict[Key, str] = {}  # decided and not observed yet, by pod
        self._unrecorded: dict[Key, None] = {}  # those of them that the server has not accepted yet
        self._evictions: dict[Key, PendingEviction] = {}  # likewise
        self._place_of: dict[Key, Key] = {}  # the queue entry of each pod with a node in an assumed preemption
        self._marking: dict[Key, Key] = {}  # pods being marked, and the queue entry they are marked for
        self._awaited = AwaitedVictims()
        self._failed_searches: dict[Hashable, FailedSearch] = {}  # by demand; forgotten at the next cluster event

    # what is now true

    def as_assumed(self, pod: Pod) -> Pod:
        """The pod as it will look when what was decided about it has taken hold; observations may be older."""
        eviction = self._evictions.get(pod.key)
        if eviction is not None and (pod.deleted is not None or pod.uid != eviction.evict.target.uid):
            del self._evictions[pod.key]
        elif eviction is not None:
            pod = msgspec.structs.replace(pod, deleted=eviction.evict.at + pod.grace)
        if pod.preempted and pod.holds_room:
            self._interrupted.suspect(pod)
        if self._nominated.get(pod.key) == pod.nominated:
            self._forget_nomination(pod.key)
        return self._with_nomination(pod)

    def _with_nomination(self, pod: Pod) -> Pod:
        node = self._nominated.get(pod.key)
        return pod if node is None else msgspec.structs.replace(pod, nominated=node)

    def _forget_nomination(self, pod: Key) -> None:
        self._nominated.pop(pod, None)
        self._unrecorded.pop(pod, None)

    def left(self, pod: Pod) -> None:
        """The pod takes no room any more. Whoever waited for the last of several to leave is tried next."""
        eviction = self._evictions.pop(pod.key, None)
        if eviction is not None and eviction.with_others:
            self._interrupted.suspect(pod)
        for place in self._awaited.left(pod.key):
            self._queue.activate(place)

    def waits_no_more(self, pod: Key, place: Key) -> None:
        """The pod has its node or wants none: nobody is evicted for its sake any more."""
        self._forget_nomination(pod)
        self.leaves_queue(pod, place)

    def leaves_queue(self, pod: Key, place: Key) -> None:
        """Drops the promise and the awaited departures of a place in line that the pod has left."""
        for each in dict.fromkeys((place, self._place_of.get(pod, place))):
            self._abandon(each)
            self._awaited.forget(each)

    def forget_failed_searches(self) -> None:
        """Called for every cluster event: whatever wakes a refused preemptor also makes it searched for again."""
        self._failed_searches.clear()

    # what to do

    def run(self, info: QueuedPodInfo, found: NoPlacement, now: float) -> PostFilterResult:
        """What can be done for an entry that no node fits."""
        profile = info.pod.scheduler_name
        if profile not in self._enabled:
            return PostFilterResult("")
        preemptor = self._place.preemptor(info) if found.nodes and not found.everywhere else None
        if preemptor is None:
            return PostFilterResult("", self.withdrawn(self._gangs.pods_of(info)))
        return self._post_filter(info.key, info.equivalence, preemptor, self._placers[profile], now)

    def _post_filter(
        self, place: Key, equivalence: Hashable, preemptor: Preemptor, placer: Placer, now: float
    ) -> PostFilterResult:
        """For one who finds no room: wait for those already asked to leave, ask others, or nothing that would help."""
        assumed = self._assumed.get(place)
        if assumed is not None and not _same(assumed.preemptor, preemptor):
            self._abandon(place)
            assumed = None
        if not all(pod.preempts for pod in preemptor.pods):
            return PostFilterResult(NOT_ALLOWED)
        if assumed is not None and assumed.unanswered:
            return PostFilterResult(preemption_events.promised(assumed.plan), helps=True)
        members = tuple(self._with_nomination(pod) for pod in preemptor.pods)
        preemptor = msgspec.structs.replace(preemptor, pods=members)
        seats = nominated_seats(preemptor)
        if len(seats) >= preemptor.needed and self._search.holds(preemptor, seats, placer):
            self._await(place, seats)
            return PostFilterResult(
                preemption_events.promised(assumed.plan) if assumed else preemption_events.awaiting(seats), helps=True
            )
        return self._search_for(place, equivalence, preemptor, placer, now)

    def _search_for(
        self, place: Key, equivalence: Hashable, preemptor: Preemptor, placer: Placer, now: float
    ) -> PostFilterResult:
        stands, alike = (self._nodes.load_changes.end, self._nominations.changes), (equivalence, _demand(preemptor))
        known = self._failed_searches.get(alike)
        if known is not None and known.stands == stands:
            return self._no_plan(known, preemptor)
        found = self._search.plan(preemptor, placer, now)
        self._metrics.searched(isinstance(found, Plan), for_group=isinstance(preemptor.key, GroupKey))
        if isinstance(found, NoPlan):
            self._failed_searches[alike] = FailedSearch(stands, found)
            return self._no_plan(self._failed_searches[alike], preemptor)
        self._failed_searches.clear()
        assumed = self._assume(place, AssumedPreemption(preemptor, found, placer))
        nominations = self._nominate(assumed)
        evictions = () if assumed.unanswered else tuple(self._proceed(place, assumed, now))
        return PostFilterResult(preemption_events.promised(found), (*nominations, *evictions), helps=True)

    def _no_plan(self, failed: FailedSearch, preemptor: Preemptor) -> PostFilterResult:
        return PostFilterResult(failed.says, self.withdrawn(preemptor.pods), wake_on=failed.found.wake_on)

    def nominated(self, patch: PatchStatus, outcome: Outcome, now: float) -> Iterator[Effect]:
        """How the record of a promise went; with the last of them, victims are asked to leave."""
        pod = patch.target.key
        place = self._place_of.get(pod, pod)
        assumed = self._assumed.get(place)
        if isinstance(patch.change, Nomination) and self._nominated.get(pod, patch.change.node) != patch.change.node:
            return  # another one is on its way
        self._unrecorded.pop(pod, None)
        if outcome.trouble is not None:
            seated = [each for each, _ in assumed.plan.seats if each.key == pod] if assumed is not None else []
            if self._nominations.drop(pod):
                self._cache.note(Happening.ROOM_FREED)
            self._nominated.pop(pod, None)
            self._abandon(place)
            self._queue.back_off(place, now)
            for each in seated:  # an earlier try may have been recorded after all
                yield self._write(each, "")
        elif assumed is not None and assumed.unanswered.pop(pod, "") is None and not assumed.unanswered:
            yield from self._proceed(place, assumed, now)

    def still_means(self, target: Target, nomination: Nomination) -> bool:
        """Whether this is what is to be on record about the pod, and has not been seen there or is to be answered."""
        assumed = self._assumed.get(self._place_of.get(target.key, target.key))
        if assumed is None or target.key not in assumed.unanswered:
            return self._nominated.get(target.key) == nomination.node
        return any((pod.key, node) == (target.key, nomination.node) for pod, node in assumed.plan.seats)

    def marked(self, patch: PatchStatus, outcome: Outcome, now: float) -> Iterator[Effect]:
        """How marking a pod of a gang that is to leave whole went; with the last of them, all are evicted."""
        pod = patch.target.key
        place = self._marking.pop(pod, pod)
        assumed = self._assumed.get(place)
        if assumed is None or assumed.unanswered.pop(pod, "") is not None:
            return
        if outcome.trouble is not None:
            self._abandon(place)
            self._queue.back_off(place, now)
        elif not assumed.unanswered:
            yield from self._actuate(place, assumed, now)

    def settle(self, now: float) -> Iterator[Effect]:
        """What evictions begun by someone else demand."""
        interrupted = self._interrupted
        if not interrupted.suspects and not interrupted.single:
            return
        for effect in interrupted.settle(lambda pod: pod.key in self._marking, now):
            if isinstance(effect, Evict):
                self._note_rest(effect, now)
            yield effect

    def evicted(self, evict: Evict, outcome: Outcome, now: float) -> None:
        """How an eviction went that will not be tried again as it is."""
        eviction = self._evictions.get(evict.target.key)
        if outcome.trouble is not None and eviction is not None and eviction.evict == evict:
            self._keep(evict)
            self._queue.back_off(eviction.place, now)

    def insists(self, evict: Evict, outcome: Outcome) -> bool:
        """Whether an eviction that was refused for now must be tried again: its gang is leaving."""
        eviction = self._evictions.get(evict.target.key)
        outdated = outcome.trouble is Trouble.CONFLICT and eviction is not None and eviction.evict == evict
        return outdated and eviction is not None and eviction.with_others

    def still_wants(self, evict: Evict) -> bool:
        """Whether an eviction that ended in trouble is to be tried again; if not, the pod is taken to stay."""
        eviction = self._evictions.get(evict.target.key)
        if eviction is None or eviction.evict != evict:
            return False
        if eviction.place not in self._assumed and not eviction.with_others:
            self._keep(evict)
            return False
        return True

    def _note_rest(self, evict: Evict, now: float) -> None:
        """The pod leaves because its gang does, whoever that was for."""
        key = evict.target.key
        charge = self._nodes.charge_of(key)
        if charge is not None:
            self._note_evicted(charge[1], PendingEviction(evict, key, with_others=True))
            self._nodes.charge(msgspec.structs.replace(charge[1], deleted=now + charge[1].grace), charge[0])

    def _note_evicted(self, pod: Pod, eviction: PendingEviction) -> None:
        """From now on it counts as leaving, whatever is seen of it; its gang does not count it any more."""
        self._evictions[pod.key] = eviction
        self._gangs.gone(pod)

    def _keep(self, evict: Evict) -> None:
        key = evict.target.key
        del self._evictions[key]
        charge = self._nodes.charge_of(key)
        if charge is not None and charge[1].uid == evict.target.uid:
            self._nodes.charge(msgspec.structs.replace(charge[1], deleted=None), charge[0])
            self._gangs.scheduled(msgspec.structs.replace(charge[1], deleted=None), charge[0])

    def _assume(self, place: Key, assumed: AssumedPreemption) -> AssumedPreemption:
        for each in dict.fromkeys((place, *(self._place_of.get(pod.key, place) for pod, _ in assumed.plan.seats))):
            self._abandon(each)
        self._assumed[place] = assumed
        for pod, _ in assumed.plan.seats:
            self._place_of[pod.key] = place
        return assumed

    def _abandon(self, place: Key) -> None:
        assumed = self._assumed.pop(place, None)
        if assumed is None:
            return
        for pod, _ in assumed.plan.seats:
            self._place_of.pop(pod.key, None)
        for unit in assumed.plan.victims:
            for pod in unit.pods:
                self._marking.pop(pod.key, None)
                self._interrupted.suspect(pod)

    def _nominate(self, assumed: AssumedPreemption) -> tuple[Effect, ...]:
        effects: list[Effect] = []
        for pod, node in assumed.plan.seats:
            if pod.nominated != node:
                effects.append(self._write(pod, node))
            if pod.key in self._unrecorded:
                assumed.unanswered[pod.key] = None
        return tuple(effects)

    def cancel_for(self, pods: Iterable[Pod]) -> Iterator[Effect]:
        """These do not stand in line any more, so nobody leaves for them and nothing is kept for them."""
        for pod in pods:
            self._abandon(self._place_of.get(pod.key, pod.key))
            yield from self.withdrawn((pod,))

    def keep(self, pod: Pod, node: str) -> PatchStatus:
        """The seat of a gang's member whose binding failed is not given to others while its gang rests."""
        return self._write(pod, node)

    def withdrawn(self, pods: Iterable[Pod]) -> tuple[Effect, ...]:
        """Room that can no longer be promised is not kept from others."""
        return tuple(self._write(pod, "") for pod in map(self._with_nomination, pods) if pod.nominated)

    def _write(self, pod: Pod, node: str) -> PatchStatus:
        if pod.nominated:
            self._cache.note(Happening.ROOM_FREED)
        self._nominated[pod.key] = node
        self._unrecorded[pod.key] = None
        self._nominations.put(msgspec.structs.replace(pod, nominated=node))
        return PatchStatus(pod.target, Nomination(node))

    def _proceed(self, place: Key, assumed: AssumedPreemption, now: float) -> Iterator[Effect]:
        """The promise is on record. Pods that leave together are marked before the first of them goes."""
        if not self._preemptor_unchanged(place, assumed):
            self._abandon(place)
            self._queue.activate(place)
            return
        for mark in marks(assumed.plan.victims, assumed.preemptor, now):
            assumed.unanswered[mark.target.key] = None
            self._marking[mark.target.key] = place
            yield mark
        if not assumed.unanswered:
            yield from self._actuate(place, assumed, now)

    def _actuate(self, place: Key, assumed: AssumedPreemption, now: float) -> Iterator[Effect]:
        """Evict, if with the victims gone the promise is still good: much may have changed while it was recorded."""
        plan = assumed.plan
        victims = [there for unit in plan.victims for pod in unit.pods for there in self._where(pod)]
        unchanged = self._preemptor_unchanged(place, assumed)
        outdated = not unchanged or not self._search.still_victims(assumed.preemptor, plan.victims)
        for pod in victims:
            self._nodes.charge(msgspec.structs.replace(pod, deleted=now + pod.grace), pod.node)
        if outdated or not self._search.holds(assumed.preemptor, plan.seats, assumed.placer):
            for pod in victims:
                self._nodes.charge(pod, pod.node)
            self._abandon(place)
            self._queue.activate(place)
            return
        self._journal.write(preemption_events.preempting(assumed.preemptor, plan, now))
        yield from self._clear_the_way(assumed)
        together = {pod.key: len(unit.pods) for unit in plan.victims for pod in unit.pods}
        for pod in victims:
            text = preemption_events.hidden(pod, assumed.preemptor, together[pod.key])
            evict = Evict(pod.target, preemption_events.BY_SCHEDULER, text, now)
            yield from self._evict(pod, assumed, PendingEviction(evict, place, together[pod.key] > 1))
        yield from preemption_events.preemptor_events(assumed.preemptor, plan, now)
        self._await(place, plan.seats)

    def _preemptor_unchanged(self, place: Key, assumed: AssumedPreemption) -> bool:
        """Whether the preemptor at this place in line is the one the promise was given to, with the same demand."""
        info = self._queue.get(place)
        there = self._place.preemptor(info) if info is not None else None
        return there is not None and _same(assumed.preemptor, there)

    def _evict(self, pod: Pod, assumed: AssumedPreemption, eviction: PendingEviction) -> Iterator[Effect]:
        evict = eviction.evict
        self._journal.write(preemption_events.evicted(pod, assumed.preemptor, assumed.plan, evict.at))
        self._note_evicted(pod, eviction)
        yield evict
        yield preemption_events.victim_event(pod, assumed.preemptor, evict.at)

    def _clear_the_way(self, assumed: AssumedPreemption) -> Iterator[Effect]:
        """Less important ones that were promised room on the same nodes must look for other room."""
        nodes = dict.fromkeys(node for _, node in assumed.plan.seats)
        own = {pod.key for pod in assumed.preemptor.pods}
        for pod in self._nominations.lower_on(nodes, assumed.preemptor.priority):
            if pod.key not in own:
                place = self._place_of.get(pod.key, pod.key)
                self._abandon(place)
                yield self._write(pod, "")
                self._queue.activate(place)

    def _await(self, place: Key, seats: Seats) -> None:
        """Remember who must leave these seats."""
        nodes = dict.fromkeys(node for _, node in seats)
        going = {pod.key: None for node in nodes for pod in self._nodes.pods_on(node) if pod.deleted is not None}
        self._awaited.expect(place, going)

    def _where(self, pod: Pod) -> Iterator[Pod]:
        """The pod with the node it runs on or is being bound to; nothing if it has left or is leaving."""
        charge = self._nodes.charge_of(pod.key)
        if charge is not None and charge[1].uid == pod.uid and charge[1].deleted is None:
            yield msgspec.structs.replace(charge[1], node=charge[0])


def nominated_seats(preemptor: Preemptor) -> Seats:
    return tuple((pod, pod.nominated) for pod in preemptor.pods if pod.nominated)


def _same(one: Preemptor, other: Preemptor) -> bool:
    """Whether both are the same pod or group with the same demand."""
    return one.key == other.key and _demand(one) == _demand(other)


def _demand(preemptor: Preemptor) -> Hashable:
    """All of the preemptor that decides a search. Labels of a single pod are part of its kin where they matter."""
    pods = tuple((pod.shape, pod.priority, pod.preempts) for pod in preemptor.pods)
    if preemptor.single:
        return pods, preemptor.priority
    named = tuple((pod.key, pod.uid, tuple(sorted(pod.labels.items()))) for pod in preemptor.pods)
    return pods, named, preemptor.needed, preemptor.priority, preemptor.topology
