"""Numbers for Prometheus, rendered from the journal and from what the process does."""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from headgate.engine.distributions import Distribution, Labels
from headgate.engine.journal import Entry
from headgate.engine.scheduler.plugins import ADMISSION
from headgate.live.metric_texts import ENGINE, TEXTS
from headgate.live.stopwatch import FAILED, PASSED
from headgate.model.effects import Bind, Write
from headgate.model.events import Trouble
from headgate.model.keys import Kind

Measure = int | float | Distribution
Gauges = Mapping[tuple[str, Labels], Measure]

ATTEMPT_RESULTS = {"bind": "scheduled", "wait": "unschedulable", "forget": "error"}
"""What a decision about a pod counts as in kube-scheduler's metric."""

ATTEMPT_BUCKETS = tuple(0.001 * 2**n for n in range(15))  # these, as their metrics, are kube-scheduler's
SLI_BUCKETS = tuple(0.01 * 2**n for n in range(20))
PLUGIN_BUCKETS = tuple(0.00001 * 1.5**n for n in range(20))
TRIES_BUCKETS = (1, 2, 4, 8, 16)
VICTIMS_BUCKETS = (1, 2, 4, 8, 16, 32, 64)
MOST_TRIES = 15  # that are told apart

KUEUE = "kueue_"
STEP_BUCKETS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
BATCH_BUCKETS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000)
CYCLE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # Kueue's

STANDALONE, LEADER = "standalone", "leader"  # what this process is while it decides, as Kueue's metrics call it


class Metrics:
    """All series of one process. `profile` names attempts whose entry does not say which profile made them.

    Metrics of Kueue's names carry the `replica_role` of the process, for it is the one that decides.
    """

    def __init__(self, profile: str, replica_role: str = STANDALONE) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a series for each series, which nobody reads
        self.registry = CollectorRegistry()
        self._profile = profile
        self._attempt_seconds = self._histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "A step's time shared evenly among the attempts in it.",
            ATTEMPT_BUCKETS,
            ("result", "profile"),
        )
        self._sli = self._histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From a pod's first entry into the active queue to its placement; time spent gated does not count.",
            SLI_BUCKETS,
            ("attempts",),
        )
        self._tries = self._histogram(
            "scheduler_pod_scheduling_attempts", "Attempts until a pod was placed.", TRIES_BUCKETS
        )
        self._plugins = self._histogram(
            "scheduler_plugin_execution_duration_seconds",
            "One answer of a plugin; of placement rules, which may judge many nodes at once, one in ten is timed.",
            PLUGIN_BUCKETS,
            ("plugin", "extension_point", "status"),
        )
        self._answers = functools.cache(self._plugins.labels)  # asked for so often that finding them would tell
        self._cycles = self._histogram(
            "kueue_admission_attempt_duration_seconds",
            "One admission cycle; a success is one that admitted a workload.",
            CYCLE_BUCKETS,
            ("result", "replica_role"),
        )
        self._role = replica_role
        self._decisions = self._counter("headgate_decisions", "Decisions in the journal.", ("decision", "reason"))
        self._effects = self._counter("headgate_effects", "Writes to the cluster.", ("effect", "outcome"))
        self._restarts = self._counter("headgate_watch_restarts", "Watches opened again.", ("kind",))
        self._dropped = self._counter("headgate_events_dropped", "Kubernetes events dropped for lack of room.", ())
        self._steps = self._histogram("headgate_step_duration_seconds", "One step of the engine.", STEP_BUCKETS)
        self._batches = self._histogram("headgate_batch_size", "Events in one step.", BATCH_BUCKETS)
        self._leading = Gauge("headgate_leader", "1 while this process decides.", registry=self.registry)
        self._engine = _EngineGauges(replica_role)
        self.registry.register(self._engine)
        self._count_preemptions()

    def _count_preemptions(self) -> None:
        self._victims = self._histogram(
            "scheduler_preemption_victims", "Pods asked to leave in one preemption.", VICTIMS_BUCKETS
        )
        self._workload_victims = self._histogram(
            "scheduler_workload_preemption_victims", "Pods asked to leave for one group.", VICTIMS_BUCKETS
        )
        self._disruptions = self._histogram(
            "scheduler_preemption_workload_disruptions",
            "Workloads that lost a pod in one preemption.",
            VICTIMS_BUCKETS,
            ("preemptor",),
        )
        self._violations = self._counter(
            "scheduler_preemption_pdb_violations", "Pods asked to leave beyond a disruption budget.", ("preemptor",)
        )

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], labels: tuple[str, ...] = ()) -> Histogram:
        return Histogram(name, text, labels, registry=self.registry, buckets=buckets)

    def stepped(self, events: int, seconds: float, entries: Sequence[Entry]) -> None:
        """One step of the engine took so many events and so many seconds, and wrote these entries."""
        self._batches.observe(events)
        self._steps.observe(seconds)
        tries = [(entry, result) for entry in entries if (result := ATTEMPT_RESULTS.get(entry.decision))]
        for entry in entries:
            self._decisions.labels(entry.decision, entry.reason).inc()
            if entry.decision == "preempt":
                self._preempted(entry)
        for entry, result in tries:
            self._tried(entry, result, seconds / len(tries))

    def _tried(self, entry: Entry, result: str, seconds: float) -> None:
        profile = str(entry.numbers.get("profile", self._profile))
        self._attempt_seconds.labels(result, profile).observe(seconds)
        tries, queued = entry.numbers.get("attempts"), entry.numbers.get("queued_ms")
        if result == "scheduled" and isinstance(tries, int):
            self._tries.observe(tries)
            if isinstance(queued, int):
                self._sli.labels(str(tries) if tries <= MOST_TRIES else f"{MOST_TRIES}+").observe(queued / 1000)

    def _preempted(self, entry: Entry) -> None:
        """A receipt; where nobody was asked to leave, because room was about to be free, it is no preemption."""
        victims = int(entry.numbers.get("victims", 0))
        if not victims:
            return
        preemptor = "pod" if entry.key.kind is Kind.POD else "podgroup"
        self._victims.observe(victims)
        if preemptor == "podgroup":
            self._workload_victims.observe(victims)
        self._disruptions.labels(preemptor).observe(int(entry.numbers.get("workloads", 0)))
        self._violations.labels(preemptor).inc(int(entry.numbers.get("budget violations", 0)))

    def asked(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """A plugin was asked at this extension point, or an admission cycle was run, and answered."""
        if point == ADMISSION:
            self._cycles.labels(status, self._role).observe(seconds)
        else:
            self._answers(plugin, point, status).observe(seconds)

    def performed(self, write: Write, trouble: Trouble | None, seconds: float) -> None:
        self._effects.labels(type(write).__name__, trouble.value if trouble else "accepted").inc()
        if isinstance(write, Bind):
            self.asked("DefaultBinder", "Bind", FAILED if trouble else PASSED, seconds)

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
    """Asked only when somebody reads the metrics. What is called …_total is a counter."""

    def __init__(self, replica_role: str) -> None:
        self.source: Callable[[], Gauges] = dict
        self._role = ("replica_role", replica_role)

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Family] = {}
        for (name, labels), measure in self.source().items():
            said = (*labels, self._role) if name.startswith(KUEUE) else labels
            if name not in families:
                families[name] = _family(name, [label for label, _ in said], measure)
            _add(families[name], [text for _, text in said], measure)
        yield from families.values()
        if any(name.startswith(KUEUE) for name in families):
            yield build_info()


Family = GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily


def _family(name: str, labels: Sequence[str], measure: Measure) -> Family:
    text = TEXTS.get(name, ENGINE)
    if isinstance(measure, Distribution):
        return HistogramMetricFamily(name, text, labels=labels)
    made = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    return made(name, text, labels=labels)


def _add(family: Family, labels: Sequence[str], measure: Measure) -> None:
    if isinstance(measure, Distribution):
        assert isinstance(family, HistogramMetricFamily)
        upto = [*map(floatToGoString, measure.bounds), "+Inf"]
        family.add_metric(labels, list(zip(upto, accumulate(measure.counts), strict=True)), measure.total)
    else:
        assert not isinstance(family, HistogramMetricFamily)
        family.add_metric(labels, measure)


def build_info() -> Metric:
    """Under the name and labels by which Kueue tells of itself."""
    labels = ("git_version", "git_commit", "build_date", "go_version", "compiler", "platform")
    family = GaugeMetricFamily("kueue_build_info", "1, with the version of Headgate that is running.", labels=labels)
    compiler = f"{platform.python_implementation()} {platform.python_version()}"
    built_for = f"{platform.system().lower()}/{platform.machine()}"
    family.add_metric([f"v{version('headgate')}", "", "", "", compiler, built_for], 1)
    return family
