"""The preempt stage carries out plans of preemption: every nomination is written before the first victim is evicted.

So a process that dies in between leaves either nominations for which no pod was evicted, or all nominations of the
plan: its successor finds them on the pods and goes on with the same victims.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator

import msgspec
from msgspec import Struct, field

from headgate.engine.in_flight import InFlightWrites, WritePolicy, WriteState
from headgate.engine.journal import Journal
from headgate.engine.scheduler import events
from headgate.engine.scheduler.cache import ClusterCache
from headgate.engine.scheduler.events import may_take_effect_later
from headgate.engine.scheduler.gangs import GangTracker
from headgate.engine.scheduler.interrupted import InterruptedPreemptions, mark_of
from headgate.engine.scheduler.place import PlaceStage
from headgate.model.cluster_events import ClusterEvent
from headgate.model.effects import Effect, EmitEvent, Evict, Nomination, PatchStatus
from headgate.model.events import Outcome, WriteError
from headgate.model.keys import Key, Target
from headgate.model.pod import Pod
from headgate.placement.filters import ON_ROOM
from headgate.placement.placer import Placer
from headgate.preemption.search import Plan, Preemption, Preemptor
from headgate.preemption.units import Unit
from headgate.queueing.backoff import Backoff
from headgate.queueing.queue import PodQueue, QueuedPodInfo

ON_ANY_NODE = ON_ROOM | {ClusterEvent.CLAIMS_CHANGED}
"""What may have a node fit a pod that none fits."""


class AwaitedVictims:
    """Which preemptors wait for which victims, so that each is tried again when its last victim is gone, not before."""

    def __init__(self) -> None:
        self.victims_of: dict[Key, dict[Key, None]] = {}  # by queue entry
        self._awaiting: dict[Key, dict[Key, None]] = {}  # queue entries by victim

    def expect(self, entry: Key, pods: Iterable[Key]) -> None:
        """The entry waits for these victims and no others."""
        self.forget(entry)
        expected = dict.fromkeys(pods)
        if expected:
            self.victims_of[entry] = expected
        for pod in expected:
            self._awaiting.setdefault(pod, {})[entry] = None

    def forget(self, entry: Key) -> None:
        for pod in self.victims_of.pop(entry, {}):
            self._awaiting[pod].pop(entry)
            if not self._awaiting[pod]:
                del self._awaiting[pod]

    def left(self, pod: Key) -> list[Key]:
        """The victim is gone; returns the entries that wait for no other one."""
        places = list(self._awaiting.pop(pod, ()))
        for entry in places:
            del self.victims_of[entry][pod]
        done = [entry for entry in places if not self.victims_of[entry]]
        for entry in done:
            del self.victims_of[entry]
        return done


NominatedNodes = tuple[tuple[Pod, str], ...]


class AssumedPreemption(Struct):
    """A plan being carried out for a queue entry. No victim is evicted before every nomination is written."""

    preemptor: Preemptor
    plan: Plan
    placer: Placer
    unanswered: dict[Key, None] = field(default_factory=dict)  # pods with a nomination or mark not answered yet


class PendingEviction(Struct, frozen=True):
    evict: Evict
    entry: Key  # of the preemptor in the queue
    with_others: bool  # its whole gang is evicted


class PlannedMark(Struct, frozen=True):
    """A pod is to be evicted with others; `patch` sets its DisruptionTarget condition, None where it shows that."""

    entry: Key  # of the preemptor in the queue
    patch: PatchStatus | None


class PreemptorNews(Struct):
    """The event of a preemptor, told once: with the first eviction for it that the server accepts."""

    event: EmitEvent
    told: bool = False


class PreemptStage:
    """Nominates, marks, checks once more and evicts, in this order, by the plans that `post_filter` finds."""

    def __init__(
        self,
        cache: ClusterCache,
        queue: PodQueue,
        gangs: GangTracker,
        place: PlaceStage,
        search: Preemption,
        *,
        journal: Journal,
        backoff: Backoff,
    ) -> None:
        self._cache = cache
        self._nodes = cache.nodes
        self._nominations = cache.nominations
        self._queue = queue
        self._gangs = gangs
        self._place = place
        self._search = search
        self._journal = journal
        self._interrupted = InterruptedPreemptions(cache.groups, cache.nodes, journal)
        self._assumed: dict[Key, AssumedPreemption] = {}  # by key of the queue entry
        until_observed = WritePolicy(backoff, patience=math.inf)
        self.nominating = InFlightWrites[Key, PatchStatus](until_observed)  # by pod
        self.evicting = InFlightWrites[Key, PendingEviction](until_observed)  # likewise
        self._entry_of: dict[Key, Key] = {}  # the queue entry of each pod with a node in an assumed preemption
        self._marking = InFlightWrites[Key, PlannedMark](until_observed)  # by pod, those of all plans together
        self._news: dict[Target, PreemptorNews] = {}  # by victim whose eviction is not answered yet
        self._awaited = AwaitedVictims()

    # what is now true

    def as_assumed(self, pod: Pod) -> Pod:
        """The pod with the assumed effect of writes that are not observed yet."""
        if (eviction := self.evicting.get(pod.key)) is not None:
            evict = eviction.write.evict
            if pod.deleted is not None or pod.uid != evict.target.uid:
                self.evicting.confirm(pod.key)
            else:
                pod = msgspec.structs.replace(pod, deleted=evict.at + pod.grace)
        self._interrupted.observed(pod)
        node = self._nominated_node(pod.key)
        if node is None:
            return pod
        if node != pod.nominated:
            return msgspec.structs.replace(pod, nominated=node)
        self.nominating.see(pod.key)
        return pod

    def _nominated_node(self, pod: Key) -> str | None:
        """The node of a nomination that is in flight; None when there is none."""
        flight = self.nominating.get(pod)
        return flight.write.change.node if flight and isinstance(flight.write.change, Nomination) else None

    def with_nomination(self, pod: Pod) -> Pod:
        """The pod with its nomination that is in flight, if there is one."""
        node = self._nominated_node(pod.key)
        return pod if node is None else msgspec.structs.replace(pod, nominated=node)

    def left(self, pod: Pod) -> None:
        """The pod takes no capacity any more. A preemptor whose last victim it was is activated."""
        self._interrupted.left(pod)
        flight = self.evicting.get(pod.key)
        if flight is not None and flight.write.with_others:
            self._interrupted.check_later(pod, has_left=True)
        self.evicting.forget(pod.key)
        for entry in self._awaited.left(pod.key):
            self._queue.activate(entry)

    def charged(self, node: str, below: int = 1 << 31) -> None:
        """A pod came to the node: preemptors below this priority, nominated there, may have to look elsewhere."""
        for pod in self._nominations.lower_on((node,), below):
            self._queue.activate(self._gangs.queue_key(pod))

    def waits_no_more(self, pod: Pod) -> None:
        """The pod is bound, assumed or gone: no victim is evicted for it any more."""
        self.nominating.forget(pod.key)
        if self._assumed or self._awaited.victims_of:
            self.leaves_queue(pod)

    def leaves_queue(self, pod: Pod) -> None:
        """Abandons the preemption of the queue entry that the pod has left."""
        entry = self._gangs.queue_key(pod)
        for each in dict.fromkeys((entry, self._entry_of.get(pod.key, entry))):
            self.abandon(each)
            self._awaited.forget(each)

    # what to do

    def begin(self, entry: Key, assumed: AssumedPreemption, now: float) -> list[Effect]:
        """Carries out the plan for the queue entry, in place of one that was being carried out for it or its pods."""
        self._assume(entry, assumed)
        effects = list(self._nominate(assumed))
        if not assumed.unanswered:
            effects += self._proceed(entry, assumed, now)
        return effects

    def assumed_for(self, entry: Key) -> AssumedPreemption | None:
        """The plan being carried out for the queue entry."""
        return self._assumed.get(entry)

    def nominated(self, patch: PatchStatus, outcome: Outcome, now: float) -> Iterator[Effect]:
        """Takes in the answer to a nomination; after the last one of a plan its victims are marked or evicted."""
        pod = patch.target.key
        entry = self._entry_of.get(pod, pod)
        assumed = self._assumed.get(entry)
        flight = self.nominating.get(pod)
        if flight is None or flight.write != patch:
            return  # another one is on its way, or none is wanted any more
        if may_take_effect_later(outcome):
            self.nominating.retry(pod, patch, now)
            return
        if outcome.trouble is not None:
            placed_there = (
                [each for each, _ in assumed.plan.placements if each.key == pod] if assumed is not None else []
            )
            if self._nominations.drop(pod):
                self._cache.note(ClusterEvent.ROOM_FREED)
            self.nominating.forget(pod)
            if pod in self._cache.pods:
                self._gangs.nominated(self._cache.pods[pod], "")
            self.abandon(entry)
            self._queue.back_off(entry, now)
            for each in placed_there:  # an earlier try may have been accepted after all
                yield self._write(each, "")
            return
        self.nominating.answer(pod, patch, None, "", now)
        if assumed is not None and assumed.unanswered.pop(pod, "") is None and not assumed.unanswered:
            yield from self._proceed(entry, assumed, now)

    def due(self, now: float) -> Iterator[PatchStatus | Evict]:
        """The nominations and evictions to be sent again."""
        for _, patch, _ in self.nominating.due(now):
            yield patch
        for _, eviction, _ in self.evicting.due(now):
            if eviction.entry in self._assumed or eviction.with_others:
                yield eviction.evict
            else:
                self._keep(eviction.evict)
                self._queue.back_off(eviction.entry, now)  # it waits for a victim that stays

    def marked(self, patch: PatchStatus, outcome: Outcome, now: float) -> Iterator[Effect]:
        """Takes in the answer to a DisruptionTarget condition; after the last one the victims are evicted."""
        pod = patch.target.key
        entry = next((mark.entry for mark in self._marks(pod) if mark.patch == patch), None)
        if entry is None:
            return
        assumed = self._assumed[entry]
        assumed.unanswered.pop(pod, None)
        if outcome.trouble is not None:
            self.abandon(entry)
            self._queue.back_off(entry, now)
            return
        self._interrupted.marked(pod)
        if not assumed.unanswered:
            yield from self._evict_victims(entry, assumed, now)

    def still_marks(self, pod: Pod, patch: PatchStatus) -> bool:
        """Whether the mark is still to be set on the pod, or removed from it, as the patch says."""
        if not pod.holds_room or not pod.preempted:
            return False
        marks = self._marks(pod.key)
        return any(mark.patch == patch for mark in marks) if marks else self._interrupted.removes_mark(pod)

    def _marks(self, pod: Key) -> tuple[PlannedMark, ...]:
        flight = self._marking.get(pod)
        return () if flight is None else flight.writes

    def settle(self, now: float) -> Iterator[Effect]:
        """Finishes preemptions that another process began and this one found."""
        interrupted = self._interrupted
        if not interrupted.gangs_to_check and not interrupted.pods_to_check:
            return
        for effect in interrupted.settle(lambda pod: pod.key in self._marking, now):
            if isinstance(effect, Evict):
                self._note_rest(effect, now)
            yield effect

    def evicted(self, evict: Evict, outcome: Outcome, now: float) -> Iterator[Effect]:
        """Takes in the answer to an eviction: a victim that was not evicted is kept, its preemptor backs off.

        With the rest of its gang a pod is evicted in whatever version.
        """
        key, flight = evict.target.key, self.evicting.get(evict.target.key)
        news = self._news.pop(evict.target, None)
        if outcome.trouble is None:
            yield events.victim_event(evict, now)
            if news is not None and not news.told:
                news.told = True
                yield msgspec.structs.replace(news.event, at=now)
        if flight is None or flight.write.evict != evict:
            return
        eviction = flight.write
        outdated = outcome.trouble is WriteError.CONFLICT and eviction.with_others
        if may_take_effect_later(outcome) or outdated:
            self.evicting.retry(key, eviction, now)
            if news is not None:
                self._news[evict.target] = news
        elif outcome.trouble is None:
            self.evicting.answer(key, eviction, None, "", now)
        else:
            self._keep(evict)
            self._queue.back_off(eviction.entry, now)
            if outcome.trouble is not WriteError.GONE:
                entry = events.not_evicted(evict, outcome, now)
                self._journal.write(entry)
                yield events.not_evicted_event(evict, entry)

    def _note_rest(self, evict: Evict, now: float) -> None:
        """The pod is evicted with the rest of its gang, whoever that is for."""
        key = evict.target.key
        charge = self._nodes.charge_of(key)
        if charge is not None:
            self._note_evicted(charge[1], PendingEviction(evict, key, with_others=True))
            self._nodes.charge(msgspec.structs.replace(charge[1], deleted=now + charge[1].grace), charge[0])

    def _note_evicted(self, pod: Pod, eviction: PendingEviction) -> None:
        """The pod counts as being deleted from now on, and its gang does not count it any more."""
        self.evicting.forget(pod.key)
        self.evicting.send(pod.key, eviction)
        self._gangs.gone(pod)
        self._cache.note(ClusterEvent.CANDIDATES_CHANGED)  # what it leaves may do for others too

    def _keep(self, evict: Evict) -> None:
        key = evict.target.key
        self.evicting.forget(key)
        self._news.pop(evict.target, None)
        charge = self._nodes.charge_of(key)
        if charge is not None and charge[1].uid == evict.target.uid:
            self._nodes.charge(msgspec.structs.replace(charge[1], deleted=None), charge[0])
            self._gangs.scheduled(msgspec.structs.replace(charge[1], deleted=None), charge[0])

    def _assume(self, entry: Key, assumed: AssumedPreemption) -> None:
        for each in dict.fromkeys((entry, *(self._entry_of.get(pod.key, entry) for pod, _ in assumed.plan.placements))):
            self.abandon(each)
        self._assumed[entry] = assumed
        for pod, _ in assumed.plan.placements:
            self._entry_of[pod.key] = entry

    def abandon(self, entry: Key) -> None:
        """The plan for the queue entry is not carried out any further; marks that were set for it are checked."""
        assumed = self._assumed.pop(entry, None)
        if assumed is None:
            return
        for pod, _ in assumed.plan.placements:
            self._entry_of.pop(pod.key, None)
        self._forget_marking(entry, assumed)
        for unit in assumed.plan.victims:
            for pod in unit.pods:
                self._interrupted.check_later(pod)
                for there in self._running_there(pod):  # by now it may belong to another gang
                    self._interrupted.check_later(there)

    def _forget_marking(self, entry: Key, assumed: AssumedPreemption) -> None:
        for unit in assumed.plan.victims:
            for pod in unit.pods:
                for mark in self._marks(pod.key):
                    if mark.entry == entry:
                        self._marking.leave(pod.key, mark)

    def _nominate(self, assumed: AssumedPreemption) -> tuple[Effect, ...]:
        effects: list[Effect] = []
        for pod, node in assumed.plan.placements:
            if pod.nominated != node:
                effects.append(self._write(pod, node))
            flight = self.nominating.get(pod.key)
            if flight is not None and flight.state is not WriteState.ACCEPTED:
                assumed.unanswered[pod.key] = None
        return tuple(effects)

    def cancel_for(self, pods: Iterable[Pod]) -> Iterator[Effect]:
        """Abandons the preemptions for these pods and withdraws their nominations: they are not tried any more."""
        for pod in pods:
            self.abandon(self._entry_of.get(pod.key, pod.key))
            yield from self.withdrawn((pod,))

    def keep(self, pod: Pod, node: str) -> PatchStatus:
        """Nominates a gang's member whose binding failed to its node while the gang backs off."""
        return self._write(pod, node)

    def withdrawn(self, pods: Iterable[Pod]) -> tuple[Effect, ...]:
        """Withdraws the nominations of these pods."""
        return tuple(self._write(pod, "") for pod in map(self.with_nomination, pods) if pod.nominated)

    def _write(self, pod: Pod, node: str) -> PatchStatus:
        if pod.nominated:
            self._cache.note(ClusterEvent.ROOM_FREED)
        self._nominations.put(msgspec.structs.replace(pod, nominated=node))
        self._gangs.nominated(pod, node)
        self.nominating.forget(pod.key)
        return self.nominating.send(pod.key, PatchStatus(pod.target, Nomination(node)))

    def _proceed(self, entry: Key, assumed: AssumedPreemption, now: float) -> Iterator[Effect]:
        """All nominations are written: marks the pods that are evicted together, or evicts."""
        if not self._preemptor_unchanged(entry, assumed):
            self.abandon(entry)
            self._queue.activate(entry)
            return
        marks = self._interrupted.marks(assumed.plan.victims, assumed.preemptor, now)
        patches = {patch.target.key: patch for patch in marks}
        for unit in assumed.plan.victims:
            for pod in unit.pods if len(unit.pods) > 1 else ():
                mark = PlannedMark(entry, patches.get(pod.key))
                (self._marking.join if pod.key in self._marking else self._marking.send)(pod.key, mark)
        assumed.unanswered.update(dict.fromkeys(patches))
        yield from patches.values()
        if not assumed.unanswered:
            yield from self._evict_victims(entry, assumed, now)

    def _evict_victims(self, entry: Key, assumed: AssumedPreemption, now: float) -> Iterator[Effect]:
        """Evicts the victims if the plan still holds without them: much may have changed while it was written."""
        plan = assumed.plan
        victims = [there for unit in plan.victims for pod in unit.pods for there in self._running_there(pod)]
        unchanged = self._preemptor_unchanged(entry, assumed)
        outdated = not unchanged or not self._search.still_victims(assumed.preemptor, plan.victims)
        for pod in victims:
            self._nodes.charge(msgspec.structs.replace(pod, deleted=now + pod.grace), pod.node)
        if outdated or not self._search.holds(assumed.preemptor, plan.placements, assumed.placer):
            for pod in victims:
                self._nodes.charge(pod, pod.node)
            self.abandon(entry)
            self._queue.activate(entry)
            return
        self._journal.write(events.preempting(assumed.preemptor, plan, now))
        yield from self._displace_nominations(assumed)
        together = {pod.key: mark_of(unit) for unit in plan.victims for pod in unit.pods}
        self._forget_marking(entry, assumed)
        news = PreemptorNews(events.preemptor_event(assumed.preemptor, plan, now))
        for pod in victims:
            self._news[pod.target] = news
            text = events.victim_text(pod, assumed.preemptor, together[pod.key])
            evict = Evict(pod.target, events.BY_SCHEDULER, text, now)
            yield from self._evict(pod, assumed, PendingEviction(evict, entry, together[pod.key] is not None))
        self.await_victims(entry, plan.placements)

    def _preemptor_unchanged(self, entry: Key, assumed: AssumedPreemption) -> bool:
        """Whether the queue entry is still the preemptor of the plan, with the same demand."""
        info = self._queue.get(entry)
        there = self._place.preemptor(info) if info is not None else None
        return there is not None and is_part(assumed.preemptor, there)

    def _evict(self, pod: Pod, assumed: AssumedPreemption, eviction: PendingEviction) -> Iterator[Effect]:
        evict = eviction.evict
        self._journal.write(events.evicted(pod, assumed.preemptor, assumed.plan, evict.at))
        self._note_evicted(pod, eviction)
        yield evict

    def evict_units(self, entry: Key, preemptor: Preemptor, units: Iterable[Unit], now: float) -> Iterator[Effect]:
        """Evicts pods for one that its queue has no capacity for, and that is activated when the last of them is gone.

        The mark of the first one evicted says how many leave together, so a successor finishes a gang that was begun.
        """
        victims: list[Key] = []
        for unit in units:
            for pod in [there for member in unit.pods for there in self._running_there(member)]:
                text = events.victim_text(pod, preemptor, mark_of(unit))
                evict = Evict(pod.target, events.BY_SCHEDULER, text, now)
                self._journal.write(events.evicted_from_queue(pod, preemptor, now))
                self._note_evicted(pod, PendingEviction(evict, entry, with_others=True))
                self._nodes.charge(msgspec.structs.replace(pod, deleted=now + pod.grace), pod.node)
                victims.append(pod.key)
                yield evict
        self._awaited.expect(entry, victims)

    def refused_without(self, info: QueuedPodInfo, units: Iterable[Unit], now: float) -> frozenset[ClusterEvent] | None:
        """None if nodes fit the entry once these pods are gone, by preemption if need be; else what may change that."""
        preemptor = self._place.preemptor(info)
        if preemptor is None:
            return ON_ANY_NODE
        victims = [there for unit in units for pod in unit.pods for there in self._running_there(pod)]
        for pod in victims:
            self._nodes.charge(msgspec.structs.replace(pod, deleted=now + pod.grace), pod.node)
        found = self._search.plan(preemptor, self._place.placer(info), now)
        for pod in victims:
            self._nodes.charge(pod, pod.node)
        return None if isinstance(found, Plan) else ON_ANY_NODE | found.wake_on

    def _displace_nominations(self, assumed: AssumedPreemption) -> Iterator[Effect]:
        """Withdraws lower-priority nominations to the same nodes."""
        nodes = dict.fromkeys(node for _, node in assumed.plan.placements)
        own = {pod.key for pod in assumed.preemptor.pods}
        for pod in self._nominations.lower_on(nodes, assumed.preemptor.priority):
            if pod.key not in own:
                entry = self._entry_of.get(pod.key, pod.key)
                self.abandon(entry)
                yield self._write(pod, "")
                self._queue.activate(entry)

    def await_victims(self, entry: Key, nominated_nodes: NominatedNodes) -> None:
        """The entry is activated when all pods being deleted from these nodes are gone."""
        nodes = dict.fromkeys(node for _, node in nominated_nodes)
        going = {pod.key: None for node in nodes for pod in self._nodes.pods_on(node) if pod.deleted is not None}
        self._awaited.expect(entry, going)

    def _running_there(self, pod: Pod) -> Iterator[Pod]:
        """The pod with the node it is bound or assumed on; nothing if it is gone or being deleted."""
        charge = self._nodes.charge_of(pod.key)
        if charge is not None and charge[1].uid == pod.uid and charge[1].deleted is None:
            yield msgspec.structs.replace(charge[1], node=charge[0])


def nominations_of(preemptor: Preemptor) -> NominatedNodes:
    return tuple((pod, pod.nominated) for pod in preemptor.pods if pod.nominated)


def is_part(one: Preemptor, other: Preemptor) -> bool:
    """Whether both are the same pod or group, and all pods of the first belong to it with the same demand.

    Pods that came since are surplus: they do not undo what was promised to the others.
    """
    there = {pod.key: pod for pod in other.pods}
    others = tuple(there[pod.key] for pod in one.pods if pod.key in there)
    return one.key == other.key and demand_of(one) == demand_of(msgspec.structs.replace(other, pods=others))


def demand_of(preemptor: Preemptor) -> Hashable:
    """All of the preemptor that decides a search; of a single pod the equivalence class has the labels that matter."""
    pods = tuple((pod.shape, pod.priority, pod.preempts) for pod in preemptor.pods)
    if preemptor.single:
        return pods, preemptor.priority
    named = tuple((pod.key, pod.uid, tuple(sorted(pod.labels.items()))) for pod in preemptor.pods)
    return pods, named, preemptor.needed, preemptor.priority, preemptor.topology
