"""The loop in virtual time: what is due happens, everyone acts until nothing is new, then time jumps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import assert_never

from msgspec import structs

from headgate.gates.pre_enqueue import PreEnqueue
from headgate.simulator.acting import Ambiguous, Hand, Refused
from headgate.simulator.census import summary_of
from headgate.simulator.cluster import Cluster
from headgate.simulator.faults import NO_FAULTS, Dice, Faults
from headgate.simulator.looking import Lookout
from headgate.simulator.process import ProcessPlan
from headgate.simulator.report import Report, tidy, told
from headgate.simulator.scenario import (
    Action,
    Apply,
    Crash,
    DeleteObject,
    Disconnect,
    DropNode,
    InvalidScenario,
    PatchObject,
    Reference,
    Scenario,
    Stale,
)
from headgate.simulator.virtual_time import VirtualTime

EPOCH = 1_767_225_600.0  # 2026-01-01T00:00:00Z, the start of every run
LONGEST = 30 * 24 * 3600.0  # seconds a run may take to settle
MOST_ROUNDS = 10_000  # at one instant

Progress = Callable[[float, float | None], None]
"""Told the time now and the time of the end, where that is known; seconds from the start."""


class NeverSettles(Exception):
    """The run would go on for ever, or for longer than anyone waits."""


def run(
    scenario: Scenario,
    seed: int = 0,
    faults: Faults = NO_FAULTS,
    progress: Progress | None = None,
    plugins: tuple[PreEnqueue, ...] = (),
) -> Report:
    """One seed, one history. Raises InvalidScenario, NeverSettles and BrokenInvariant.

    `plugins` are those that others have written; a profile of the scenario turns them on.
    """
    plan = ProcessPlan(structs.replace(scenario.settings, seed=seed), plugins)
    return _Run(scenario, seed, faults, progress or _nobody, plan).report()


class _Run:
    def __init__(self, scenario: Scenario, seed: int, faults: Faults, progress: Progress, process: ProcessPlan) -> None:
        self._scenario, self._progress = scenario, progress
        self._time = VirtualTime[Callable[[], None]](now=EPOCH)
        self._dice = Dice(faults, seed)
        self._clusters = {
            plan.name: Cluster(plan.name, seed, faults, self._dice, process) for plan in scenario.clusters
        }
        self._lookout = Lookout(scenario, self._clusters)
        self._refused: list[dict[str, object]] = []

    def report(self) -> Report:
        self._create_objects()
        for action in self._scenario.timeline:
            self._time.wake(EPOCH + action.at, self._acting(action))
        ended = self._live()
        self._lookout.look_at_end(ended)
        clusters = list(self._clusters.values())
        for cluster in clusters:
            cluster.process.check_at_end(self._time.now)
        journal = told({cluster.name: cluster.process.story for cluster in clusters}, EPOCH)
        return Report(
            until=ended,
            snapshots=self._lookout.snapshots,
            final=self._lookout.objects(),
            journal=journal,
            refused=self._refused,
            summary=summary_of([cluster.census for cluster in clusters], len(journal), self._dice.writes),
            failures=self._lookout.failures,
        )

    def _live(self) -> float:
        """All of it; when it ended, in seconds from the start."""
        end = self._scenario.until
        self._settle()
        while (at := self._time.next_at) is not None and (self._time.awaiting if end is None else at <= EPOCH + end):
            if at > EPOCH + LONGEST and end is None:
                raise NeverSettles(f"nothing settled within {LONGEST / 86400:g} days; give `until` a duration")
            self._lookout.look_before(at - EPOCH)
            self._time.advance(at)
            self._settle()
            self._progress(at - EPOCH, end)
        return self._settled_at() if end is None else end

    def _settled_at(self) -> float:
        """When the last object changed, or what was asked for was last looked at."""
        changed = max(cluster.changed_at for cluster in self._clusters.values())
        return max(round(changed - EPOCH, 6), self._lookout.last_moment)

    def _settle(self) -> None:
        """Everyone acts until nothing is new."""
        for _ in range(MOST_ROUNDS):
            rang = [ring() for ring in self._time.due()]
            moved = [cluster.round(self._time.now, self._time.wake) for cluster in self._clusters.values()]
            if not rang and not any(moved) and (self._time.next_at or float("inf")) > self._time.now:
                return
        raise NeverSettles(f"at {self._time.now - EPOCH:g}s things go round and round, {MOST_ROUNDS} times")

    def _create_objects(self) -> None:
        for plan in self._scenario.clusters:
            for placed in plan.objects:
                refused = self._clusters[plan.name].hand.create(placed.manifest, self._time.now)
                if refused is not None:
                    raise self._wrong(placed.path, f"refused with {refused.code} {refused.reason}: {refused.message}")

    def _acting(self, action: Action) -> Callable[[], None]:
        return lambda: self._act(action)

    def _act(self, action: Action) -> None:
        happening, now = action.happening, self._time.now
        match happening:
            case Apply(manifests):
                for placed in manifests:
                    self._record(action, self._cluster(action.cluster).hand.apply(placed.manifest, now))
            case DeleteObject(reference):
                self._record(action, self._ask(action, lambda hand: hand.delete(reference, now)))
            case PatchObject(reference, merge):
                self._record(action, self._ask(action, lambda hand: hand.patch(reference, merge, now)))
            case DropNode(name):
                self._record(action, self._ask(action, lambda hand: hand.delete(Reference("Node", name), now)))
            case Disconnect(seconds):
                self._cluster(action.cluster).disconnect(now, seconds, self._time.wake)
            case Crash(seconds):
                for cluster in self._meant(action.cluster):
                    cluster.crash(now, seconds, self._time.wake)
            case Stale(seconds):
                for cluster in self._meant(action.cluster):
                    cluster.process.view.set_lag(seconds, now)
            case _:
                assert_never(happening)

    def _ask(self, action: Action, ask: Callable[[Hand], Refused | None]) -> Refused | None:
        try:
            return ask(self._cluster(action.cluster).hand)
        except Ambiguous as error:
            raise self._wrong(action.path, str(error)) from None

    def _record(self, action: Action, refused: Refused | None) -> None:
        if refused is None:
            return
        where = {"at": tidy(self._time.now - EPOCH), "cluster": self._cluster(action.cluster).name}
        self._refused.append({**where, **structs.asdict(refused)})

    def _cluster(self, name: str) -> Cluster:
        return self._clusters[name or self._scenario.clusters[0].name]

    def _meant(self, name: str) -> Iterator[Cluster]:
        """The named cluster; unnamed, our process everywhere."""
        yield from [self._clusters[name]] if name else self._clusters.values()

    def _wrong(self, path: str, problem: str) -> InvalidScenario:
        return InvalidScenario(self._scenario.source, path, problem)


def _nobody(now: float, end: float | None) -> None:
    """Nobody watches the progress."""
