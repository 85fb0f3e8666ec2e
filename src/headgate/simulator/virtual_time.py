"""Runs a scenario in virtual time: all that is due happens, everyone acts until nothing is new, then time jumps."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Generic, TypeVar, assert_never

from msgspec import structs

from headgate.api.kinds import RESOURCES
from headgate.gates.pre_enqueue import PreEnqueue
from headgate.model.events import Observed
from headgate.model.keys import Key
from headgate.model.quantity import duration_text
from headgate.model.settings import Role
from headgate.simulator.clients import AmbiguousKind, Kubectl, RefusedRequest
from headgate.simulator.cluster import SimulatedCluster
from headgate.simulator.faults import NO_FAULTS, FaultInjector, Faults
from headgate.simulator.fleet import FleetInvariants, ManagerCluster, fleet_summary
from headgate.simulator.manifests import unreadable_quantity
from headgate.simulator.network import OUTSIDE, Network
from headgate.simulator.observing import ObjectChange
from headgate.simulator.process import ProcessPlan
from headgate.simulator.report import (
    ExpectationChecker,
    Report,
    autoscaler_summary,
    merged_journal,
    rounded_seconds,
    summary_of,
)
from headgate.simulator.scenario import (
    Apply,
    Crash,
    DeleteObject,
    DisconnectCluster,
    DropNode,
    InvalidScenario,
    PatchObject,
    Reference,
    Scenario,
    ScheduledAction,
    Stale,
)

EPOCH = 1_767_225_600.0  # 2026-01-01T00:00:00Z, the start of every run
LONGEST = 30 * 24 * 3600.0  # seconds a run may take to settle
MOST_ROUNDS = 10_000  # at one instant
OTHER_UIDS = 1_000_003  # added to the seed of each further cluster, so that no two give the same uids and names
WATCHED_ROUNDS = 100  # of a run that does not settle
MOST_TOLD, MOST_SEARCHED, MOST_CHARACTERS = 5, 1000, 200  # objects, journal entries and characters of a line

Progress = Callable[[float, float | None], None]
"""Called with the time and, where it is known, the end of the run, in seconds from the start."""
E = TypeVar("E")


@dataclass(slots=True)
class VirtualTime(Generic[E]):
    """A clock that stands still between events and jumps to the next one."""

    now: float = 0.0
    _instants: list[float] = field(default_factory=list)  # a heap of those at which anything is due
    _timers: dict[float, deque[tuple[E, bool]]] = field(default_factory=dict)  # by instant, never none
    _awaited: int = 0

    def wake(self, at: float, event: E, idle: bool = False) -> None:
        """Sets a timer; one set for the past fires at once. Idle timers do not count as awaited."""
        at = max(at, self.now)
        timers = self._timers.get(at)
        if timers is None:
            timers = self._timers[at] = deque()
            heappush(self._instants, at)
        timers.append((event, idle))
        self._awaited += not idle

    @property
    def awaiting(self) -> bool:
        """Whether any timer that is not idle is set."""
        return self._awaited > 0

    @property
    def next_at(self) -> float | None:
        """When the earliest event is due."""
        return self._instants[0] if self._instants else None

    def due(self) -> Iterator[E]:
        """All events due now, in order, also those set meanwhile."""
        while self._instants and self._instants[0] <= self.now:
            timers = self._timers[self._instants[0]]
            event, idle = timers.popleft()
            if not timers:
                del self._timers[heappop(self._instants)]
            self._awaited -= not idle
            yield event

    def advance(self, to: float) -> None:
        """Moves the clock, which must not go back."""
        assert to >= self.now, "time does not go back"
        self.now = to


class NeverSettles(Exception):
    """The run does not end by itself within the limits; the text tells of the objects that change again and again."""


class Interrupted(Exception):
    """The user interrupted the run; `report` is what is known so far."""

    def __init__(self, report: Report) -> None:
        super().__init__(f"interrupted at {duration_text(report.until)} of the scenario")
        self.report = report


def run(
    scenario: Scenario,
    seed: int = 0,
    faults: Faults = NO_FAULTS,
    progress: Progress | None = None,
    plugins: tuple[PreEnqueue, ...] = (),
) -> Report:
    """Runs the scenario; equal seeds give equal reports.

    Raises InvalidScenario, NeverSettles, Interrupted and BrokenInvariant.

    `plugins` are installed PreEnqueue plugins; a profile of the scenario enables them.
    """
    return _Run(scenario, seed, faults, progress or _no_progress, plugins).report()


class _Run:
    def __init__(
        self, scenario: Scenario, seed: int, faults: Faults, progress: Progress, plugins: tuple[PreEnqueue, ...]
    ) -> None:
        self._scenario, self._progress = scenario, progress
        self._time = VirtualTime[Callable[[], None]](now=EPOCH)
        self._injector = FaultInjector(faults, seed)
        self._network = Network()
        alone = len(scenario.clusters) == 1
        self._clusters = {
            plan.name: SimulatedCluster(
                plan.name,
                seed + number * OTHER_UIDS,
                self._injector,
                ProcessPlan(structs.replace(plan.settings, seed=seed), plugins),
                self._network,
                place=OUTSIDE if alone else plan.name,
                autoscaler=plan.autoscaler.start() if plan.autoscaler is not None else None,
            )
            for number, plan in enumerate(scenario.clusters)
        }
        managers = [
            ManagerCluster(plan.name, plan.settings.multikueue, self._clusters[plan.name].journal)
            for plan in scenario.clusters
            if Role.FLEET in plan.settings.roles
        ]
        self._fleet = FleetInvariants(managers, self._clusters, self._network) if managers else None
        self._checker = ExpectationChecker(
            scenario, {name: cluster.kubectl for name, cluster in self._clusters.items()}
        )
        self._refused: list[dict[str, object]] = []
        self._changes: deque[dict[str, list[Sequence[ObjectChange]]]] = deque(maxlen=WATCHED_ROUNDS)  # by cluster
        self._warnings: list[dict[str, object]] = []

    def report(self) -> Report:
        self._create_objects()
        for scheduled in self._scenario.timeline:
            self._time.wake(EPOCH + scheduled.at, self._at_its_time(scheduled))
        try:
            ended = self._run_to_end()
        except KeyboardInterrupt:
            raise Interrupted(self._so_far(round(self._time.now - EPOCH, 6))) from None
        self._checker.check_at_end(ended)
        for cluster in self._clusters.values():
            cluster.process.check_at_end(self._time.now)
        return self._so_far(ended)

    def _so_far(self, ended: float) -> Report:
        clusters = list(self._clusters.values())
        journal = merged_journal({cluster.name: cluster.journal_entries for cluster in clusters}, EPOCH)
        decisions = sum(len(cluster.process.journal_entries) for cluster in clusters)
        return Report(
            until=ended,
            snapshots=self._checker.snapshots,
            final=self._checker.objects(),
            journal=journal,
            refused=self._refused,
            warnings=self._warnings,
            summary=summary_of([cluster.pod_counts for cluster in clusters], decisions, self._injector.writes)
            | autoscaler_summary([each.review.counts(EPOCH + ended) for each in clusters if each.review is not None])
            | (fleet_summary(self._fleet.counts) if self._fleet is not None else {}),
            failures=self._checker.failures,
        )

    def _run_to_end(self) -> float:
        """Runs to the end; returns its time in seconds from the start."""
        end = self._scenario.until
        self._settle()
        while (at := self._time.next_at) is not None and (self._time.awaiting if end is None else at <= EPOCH + end):
            if at > EPOCH + LONGEST and end is None:
                days = f"{LONGEST / 86400:g} days"
                raise NeverSettles(f"nothing settled within {days}; give `until` a duration{self._story()}")
            self._checker.check_before(at - EPOCH)
            self._time.advance(at)
            self._settle()
            self._progress(at - EPOCH, end)
        return self._settled_at() if end is None else end

    def _settled_at(self) -> float:
        """The time of the last change or of the last snapshot or expectation."""
        changed = max(cluster.changed_at for cluster in self._clusters.values())
        return max(round(changed - EPOCH, 6), self._checker.last_time)

    def _settle(self) -> None:
        """Lets all clusters act until nothing is new."""
        for _ in range(MOST_ROUNDS):
            rang = [ring() for ring in self._time.due()]
            moved = [cluster.round(self._time.now, self._time.wake) for cluster in self._clusters.values()]
            self._changes.append({cluster.name: cluster.changes for cluster in self._clusters.values()})
            self._check_fleet()
            if not rang and not any(moved) and (self._time.next_at or float("inf")) > self._time.now:
                return
            self._progress(self._time.now - EPOCH, self._scenario.until)
        at = duration_text(self._time.now - EPOCH)
        raise NeverSettles(f"at {at} things go round: {MOST_ROUNDS} rounds and time does not go on{self._story()}")

    def _check_fleet(self) -> None:
        if self._fleet is None:
            return
        for cluster in self._clusters.values():
            for changes in cluster.changes:
                self._fleet.observe(cluster.name, changes, self._time.now)
        self._fleet.check(self._time.now)

    def _story(self) -> str:
        """The objects that changed most in the last rounds, and what was decided about them last."""
        counts = Counter(self._changed()).most_common(MOST_TOLD)
        lines = [f". What changed most in the last {len(self._changes)} rounds:"] if counts else []
        for (cluster, key), times in counts:
            where = f"{key.namespace}/" if key.namespace else ""
            lines.append(f"  {RESOURCES[key.kind].kind_name} {where}{key.name} ({times} times)")
            recent = self._clusters[cluster].process.journal_entries[-MOST_SEARCHED:]
            decided = [entry for entry in recent if entry.key == key][-2:]
            lines += [f"    {entry.decision} {entry.reason}: {entry.message}"[:MOST_CHARACTERS] for entry in decided]
        return "\n".join(lines)

    def _changed(self) -> Iterator[tuple[str, Key]]:
        """The cluster and key of every object that changed in the last rounds, once for each change."""
        for by_cluster in self._changes:
            for cluster, batches in by_cluster.items():
                for change in (one for batch in batches for one in batch):
                    yield cluster, (change.object if isinstance(change, Observed) else change).key

    def _create_objects(self) -> None:
        for plan in self._scenario.clusters:
            for located in plan.objects:
                refused = self._clusters[plan.name].kubectl.create(located.manifest, self._time.now)
                if refused is not None:
                    field, problem = unreadable_quantity(located.manifest) or ("", "")
                    problem = problem or f"refused with {refused.code} {refused.reason}: {refused.message}"
                    raise self._invalid(f"{located.path}.{field}" if field else located.path, problem)
            self._record_warnings(plan.name)

    def _at_its_time(self, scheduled: ScheduledAction) -> Callable[[], None]:
        return lambda: self._perform(scheduled)

    def _perform(self, scheduled: ScheduledAction) -> None:
        action, now = scheduled.action, self._time.now
        match action:
            case Apply(manifests):
                for located in manifests:
                    refused = self._cluster(scheduled.cluster).kubectl.apply(located.manifest, now)
                    if refused is not None and (found := unreadable_quantity(located.manifest)) is not None:
                        refused = structs.replace(refused, message=f"{refused.message} ({': '.join(found)})")
                    self._record(scheduled, refused)
            case DeleteObject(reference):
                self._record(scheduled, self._try(scheduled, lambda kubectl: kubectl.delete(reference, now)))
            case PatchObject(reference, merge):
                self._record(scheduled, self._try(scheduled, lambda kubectl: kubectl.patch(reference, merge, now)))
            case DropNode(name):
                self._record(
                    scheduled, self._try(scheduled, lambda kubectl: kubectl.delete(Reference("Node", name), now))
                )
            case DisconnectCluster(seconds):
                name, until = self._cluster(scheduled.cluster).name, now + seconds
                self._network.cut_off(name, until)
                self._time.wake(until, lambda: self._network.reconnect(name, until))
            case Crash(seconds):
                for cluster in self._clusters_of(scheduled.cluster):
                    cluster.crash(now, seconds, self._time.wake)
            case Stale(seconds):
                for cluster in self._clusters_of(scheduled.cluster):
                    cluster.set_lag(seconds, now, self._time.wake)
            case _:
                assert_never(action)

    def _try(
        self, scheduled: ScheduledAction, attempt: Callable[[Kubectl], RefusedRequest | None]
    ) -> RefusedRequest | None:
        try:
            return attempt(self._cluster(scheduled.cluster).kubectl)
        except AmbiguousKind as error:
            raise self._invalid(scheduled.path, str(error)) from None

    def _record(self, scheduled: ScheduledAction, refused: RefusedRequest | None) -> None:
        name = self._cluster(scheduled.cluster).name
        self._record_warnings(name)
        if refused is not None:
            self._refused.append({**self._here(name), **structs.asdict(refused)})

    def _record_warnings(self, cluster: str) -> None:
        for warned in self._clusters[cluster].kubectl.take_warnings():
            self._warnings.append({**self._here(cluster), **structs.asdict(warned)})

    def _here(self, cluster: str) -> dict[str, object]:
        return {"at": rounded_seconds(self._time.now - EPOCH), "cluster": cluster}

    def _cluster(self, name: str) -> SimulatedCluster:
        return self._clusters[name or self._scenario.clusters[0].name]

    def _clusters_of(self, name: str) -> Iterator[SimulatedCluster]:
        """The named cluster, or all of them."""
        yield from [self._clusters[name]] if name else self._clusters.values()

    def _invalid(self, path: str, problem: str) -> InvalidScenario:
        return InvalidScenario(self._scenario.source, path, problem)


def _no_progress(now: float, end: float | None) -> None:
    """Shows nothing."""
