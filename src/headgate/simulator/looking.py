"""Moments at which a run is looked at: snapshots are taken and expectations checked."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.simulator.acting import Ambiguous
from headgate.simulator.cluster import Cluster
from headgate.simulator.expecting import mismatch
from headgate.simulator.report import Failure, Objects, Snapshot
from headgate.simulator.scenario import Expectation, InvalidScenario, Scenario


class Lookout:
    """Times are seconds from the start of the run."""

    def __init__(self, scenario: Scenario, clusters: Mapping[str, Cluster]) -> None:
        self._scenario, self._clusters = scenario, clusters
        expected = [item.at for item in scenario.expectations if item.at is not None]
        self._moments = sorted({*scenario.snapshots, *expected})
        self.snapshots: list[Snapshot] = []
        self.failures: list[Failure] = []

    @property
    def last_moment(self) -> float:
        """The last one still to come."""
        return self._moments[-1] if self._moments else 0.0

    def look_before(self, time: float) -> None:
        """Looks at every moment before this time; nothing is due any more at any of them."""
        while self._moments and self._moments[0] < time:
            at = self._moments.pop(0)
            self._look(at, at)

    def look_at_end(self, ended: float) -> None:
        self.look_before(float("inf"))
        self._look(None, ended)

    def objects(self) -> Objects:
        return {name: cluster.hand.everything() for name, cluster in self._clusters.items()}

    def _look(self, asked: float | None, at: float) -> None:
        for snapshot in self._scenario.snapshots:
            if snapshot == asked:
                self.snapshots.append(Snapshot(at, self.objects()))
        for expectation in self._scenario.expectations:
            if expectation.at == asked:
                self._check(expectation, at)

    def _check(self, expectation: Expectation, at: float) -> None:
        cluster = self._clusters[expectation.cluster or self._scenario.clusters[0].name]
        try:
            found = cluster.hand.get(expectation.reference)
        except Ambiguous as error:
            raise InvalidScenario(self._scenario.source, f"{expectation.path}.object", str(error)) from None
        missing = found is None and bool(expectation.matches)  # {} expects that there is no such object
        difference = "not found" if missing else mismatch(expectation.matches, found)
        if difference is not None:
            self.failures.append(Failure(expectation.path, at, str(expectation.reference), difference))
