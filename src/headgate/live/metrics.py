"""Numbers for Prometheus, rendered from the journal and from what the process does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headgate.engine.journal import Entry
from headgate.model.effects import Write
from headgate.model.events import Trouble
from headgate.model.keys import Kind

Gauges = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]

ATTEMPT_RESULTS = {"bind": "scheduled", "wait": "unschedulable", "forget": "error"}
"""What a decision about a pod counts as in kube-scheduler's metric."""

STEP_BUCKETS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
BATCH_BUCKETS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000)


class Metrics:
    """All series of one process. `profile` names attempts whose entry does not say which profile made them."""

    def __init__(self, profile: str) -> None:
        self.registry = CollectorRegistry()
        self._profile = profile
        self._attempts = self._counter("scheduler_schedule_attempts", "Attempts to place pods.", ("result", "profile"))
        self._decisions = self._counter("headgate_decisions", "Decisions in the journal.", ("decision", "reason"))
        self._effects = self._counter("headgate_effects", "Writes to the cluster.", ("effect", "outcome"))
        self._restarts = self._counter("headgate_watch_restarts", "Watches opened again.", ("kind",))
        self._dropped = self._counter("headgate_events_dropped", "Kubernetes events dropped for lack of room.", ())
        self._steps = Histogram(
            "headgate_step_duration_seconds", "One step of the engine.", registry=self.registry, buckets=STEP_BUCKETS
        )
        self._batches = Histogram(
            "headgate_batch_size", "Events in one step.", registry=self.registry, buckets=BATCH_BUCKETS
        )
        self._leading = Gauge("headgate_leader", "1 while this process decides.", registry=self.registry)
        self._engine = _EngineGauges()
        self.registry.register(self._engine)

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def entries(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._decisions.labels(entry.decision, entry.reason).inc()
            if result := ATTEMPT_RESULTS.get(entry.decision):
                self._attempts.labels(result, str(entry.numbers.get("profile", self._profile))).inc()

    def stepped(self, events: int, seconds: float) -> None:
        self._batches.observe(events)
        self._steps.observe(seconds)

    def performed(self, write: Write, trouble: Trouble | None) -> None:
        self._effects.labels(type(write).__name__, trouble.value if trouble else "accepted").inc()

    def event_dropped(self) -> None:
        self._dropped.inc()

    def restarted(self, kind: Kind) -> None:
        self._restarts.labels(kind.value).inc()

    def leads(self, gauges: Callable[[], Gauges]) -> None:
        """This process decides now; the engine's own gauges come from there."""
        self._leading.set(1)
        self._engine.source = gauges

    def stands_by(self) -> None:
        self._leading.set(0)
        self._engine.source = dict

    def render(self) -> bytes:
        return generate_latest(self.registry)


class _EngineGauges(Collector):
    """Asked only when somebody reads the metrics."""

    def __init__(self) -> None:
        self.source: Callable[[], Gauges] = dict

    def collect(self) -> Iterator[Metric]:
        families: dict[str, GaugeMetricFamily] = {}
        for (name, labels), value in self.source().items():
            names = [label for label, _ in labels]
            family = families.setdefault(name, GaugeMetricFamily(name, "As the engine sees it.", labels=names))
            family.add_metric([text for _, text in labels], value)
        yield from families.values()
