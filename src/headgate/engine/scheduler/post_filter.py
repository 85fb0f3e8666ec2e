"""The PostFilter stage: finds whom to preempt for an entry of the queue that no node fits, or says why nobody helps."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import msgspec
from msgspec import Struct

from headgate.engine.scheduler import events
from headgate.engine.scheduler.cache import ClusterCache
from headgate.engine.scheduler.events import SchedulerMetrics
from headgate.engine.scheduler.gangs import GangTracker
from headgate.engine.scheduler.place import PlaceStage
from headgate.engine.scheduler.preempt import AssumedPreemption, PreemptStage, demand_of, is_part, nominations_of
from headgate.model.cluster_events import ClusterEvent
from headgate.model.effects import Effect
from headgate.model.keys import Key
from headgate.model.pod import GroupKey, Pod
from headgate.model.quantity import counted
from headgate.placement.placer import NoPlacement, Placer
from headgate.preemption.search import NoPlan, Plan, Preemption, Preemptor
from headgate.queueing.queue import QueuedPodInfo

NOT_ALLOWED = "preemption is not allowed by preemptionPolicy Never"


class PostFilterResult(Struct, frozen=True):
    """What is done for an entry that no node fits, in words and in effects."""

    says: str
    effects: tuple[Effect, ...] = ()
    helps: bool = False  # its victims will leave it a node
    wake_on: frozenset[ClusterEvent] = frozenset()  # the events after which a search may find a plan


class FailedSearch(Struct, frozen=True):
    """A search that found no plan, and the counts of load and nomination changes it was made at."""

    changes: tuple[int, int]
    found: NoPlan

    @property
    def says(self) -> str:
        return self.found.reason if self.found.candidates else ""


class PostFilterStage:
    """A search that found nothing is not repeated for the same demand until something has changed."""

    def __init__(
        self,
        cache: ClusterCache,
        gangs: GangTracker,
        place: PlaceStage,
        search: Preemption,
        preempt: PreemptStage,
        *,
        placers: Mapping[str, Placer],
        enabled: frozenset[str],  # the schedulerNames whose profile has preemption on
        metrics: SchedulerMetrics,
    ) -> None:
        self._cache = cache
        self._gangs = gangs
        self._place = place
        self._search = search
        self._preempt = preempt
        self._placers = placers
        self._enabled = enabled
        self._metrics = metrics
        self._failed_searches: dict[Hashable, FailedSearch] = {}  # by demand; forgotten at the next cluster event

    def forget_failed_searches(self) -> None:
        """Called for every cluster event: whatever wakes a refused preemptor also makes it searched for again."""
        self._failed_searches.clear()

    def run(self, info: QueuedPodInfo, found: NoPlacement, now: float) -> PostFilterResult:
        """What can be done for an entry that no node fits."""
        profile = info.pod.scheduler_name
        if profile not in self._enabled:
            return PostFilterResult("")
        preemptor = self._place.preemptor(info) if found.nodes and not found.everywhere else None
        if preemptor is None:
            return PostFilterResult("", self._preempt.withdrawn(self._gangs.pods_of(info)))
        placer = self._placers[profile]
        lacking = self._unfit_gang(info.pod, placer, now)
        if lacking is not None:
            return self._without_plan(lacking, preemptor)
        return self._post_filter(info.key, info.equivalence, preemptor, placer, now)

    def _unfit_gang(self, pod: Pod, placer: Placer, now: float) -> FailedSearch | None:
        """Why nobody is evicted for a pod that goes by itself: the gang it belongs to would not fit all the same."""
        gang = self._place.gang_of_lone_member(pod, self._cache.pods)
        if gang is None:
            return None
        if len(gang.pods) < gang.needed:
            missing = NoPlan(f"only {len(gang.pods)} wait", candidates=1)
            found: Plan | FailedSearch = FailedSearch((0, 0), missing)
        else:
            found = self._known_plan(gang, None, placer, now)
        if isinstance(found, Plan):
            return None
        reason = f"its gang needs {counted(gang.needed, 'pod')} more to start: {found.found.reason}"
        wake_on = found.found.wake_on | {ClusterEvent.MEMBERS_CHANGED, ClusterEvent.NEIGHBOURS_CHANGED}
        return FailedSearch(found.changes, NoPlan(reason, found.found.candidates, wake_on))

    def _post_filter(
        self, entry: Key, equivalence: Hashable, preemptor: Preemptor, placer: Placer, now: float
    ) -> PostFilterResult:
        """Waits for victims that are being evicted, evicts others, or finds that nothing helps."""
        assumed = self._preempt.assumed_for(entry)
        if assumed is not None and not is_part(assumed.preemptor, preemptor):
            self._preempt.abandon(entry)
            assumed = None
        if not all(pod.preempts for pod in preemptor.pods):
            return PostFilterResult(NOT_ALLOWED)
        if assumed is not None and assumed.unanswered:
            return PostFilterResult(events.preempting_text(assumed.plan), helps=True)
        members = tuple(self._preempt.with_nomination(pod) for pod in preemptor.pods)
        preemptor = msgspec.structs.replace(preemptor, pods=members)
        promised = preemptor.needed_first()
        nominated_nodes = nominations_of(promised)
        if len(nominated_nodes) >= preemptor.needed and self._search.holds(promised, nominated_nodes, placer):
            self._preempt.await_victims(entry, nominated_nodes)
            return PostFilterResult(
                events.preempting_text(assumed.plan) if assumed else events.awaiting_text(nominated_nodes),
                helps=True,
            )
        return self._search_for(entry, equivalence, preemptor, placer, now)

    def _search_for(
        self, entry: Key, equivalence: Hashable, preemptor: Preemptor, placer: Placer, now: float
    ) -> PostFilterResult:
        found = self._known_plan(preemptor, equivalence, placer, now)
        if isinstance(found, FailedSearch):
            return self._without_plan(found, preemptor)
        self._failed_searches.clear()
        planned = tuple(pod for pod, _ in found.placements)
        surplus = self._preempt.withdrawn(pod for pod in preemptor.pods if pod not in planned)
        part = msgspec.structs.replace(preemptor, pods=planned)
        begun = self._preempt.begin(entry, AssumedPreemption(part, found, placer), now)
        return PostFilterResult(events.preempting_text(found), (*surplus, *begun), helps=True)

    def _known_plan(
        self, preemptor: Preemptor, equivalence: Hashable, placer: Placer, now: float
    ) -> Plan | FailedSearch:
        """A plan; a search that failed is not repeated while nothing has changed."""
        changes, alike = (
            (self._cache.nodes.load_changes.end, self._cache.nominations.changes),
            (equivalence, demand_of(preemptor)),
        )
        known = self._failed_searches.get(alike)
        if known is not None and known.changes == changes:
            return known
        found = self._search.plan(preemptor, placer, now)
        self._metrics.searched(isinstance(found, Plan), for_group=isinstance(preemptor.key, GroupKey))
        if isinstance(found, Plan):
            return found
        failed = self._failed_searches[alike] = FailedSearch(changes, found)
        return failed

    def _without_plan(self, failed: FailedSearch, preemptor: Preemptor) -> PostFilterResult:
        return PostFilterResult(failed.says, self._preempt.withdrawn(preemptor.pods), wake_on=failed.found.wake_on)
