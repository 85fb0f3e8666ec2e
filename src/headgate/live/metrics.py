"""Prometheus metrics from the journal, the engine and the process. Gauges are computed at scrape time."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from headgate.engine.journal import Entry
from headgate.engine.metrics import ADMISSION, Bounds, Distribution, Histogram, Labels
from headgate.live.plugin_calls import FAILED, PASSED
from headgate.model.effects import Bind, Write
from headgate.model.events import WriteError
from headgate.model.keys import Kind

ENGINE = "A gauge of the engine."
"""The help text of metrics that are not in TEXTS."""

_QUEUED = "since they were created or queued up again"
_QUEUES: Mapping[str, str] = {
    "quota_reserved_workloads_total": "Workloads whose quota was reserved.",
    "quota_reserved_wait_time_seconds": f"How long workloads waited for quota, {_QUEUED}.",
    "admitted_workloads_total": "Workloads that were admitted.",
    "admission_wait_time_seconds": f"How long workloads waited to be admitted, {_QUEUED}.",
    "admission_checks_wait_time_seconds": "How long workloads with quota waited for their admission checks.",
    "ready_wait_time_seconds": f"How long it took until the pods of workloads were ready, {_QUEUED}.",
    "admitted_until_ready_wait_time_seconds": "How long it took the pods of admitted workloads to be ready.",
    "finished_workloads_total": "Workloads that finished.",
    "finished_workloads": "Finished workloads that are not deleted.",
    "execution_time_seconds": "How long finished workloads were admitted, all their admissions together.",
    "evicted_workloads_total": "Evictions of workloads.",
    "pending_workloads": "Pending workloads: active ones are in the queue, inadmissible ones wait for a change.",
    "reserving_active_workloads": "Workloads with reserved quota.",
    "admitted_active_workloads": "Workloads that are admitted.",
    "unadmitted_workloads": "Workloads that are neither admitted nor finished, by reason.",
}
"""Metrics of cluster queues that exist for local queues too, under another name."""

TEXTS: Mapping[str, str] = {
    "headgate_queue_reserved_pods": "Pods without a node that reserve capacity of their Volcano queue.",
    "headgate_queue_waiting_pods": "Pods that their Volcano queue has no capacity for.",
    "headgate_queue_gates_removed_total": "Pods whose queue-allocation gate was removed before they had a node.",
    "headgate_informative_writes_waiting": "Informative writes that wait for capacity of the API server.",
    "headgate_informative_writes_age_seconds": "How long the oldest informative write waits, events aside.",
    "headgate_informative_writes_window": "Informative writes that may be under way: fewer while the server is slow.",
    "headgate_worker_cluster_connected": "1 while the worker cluster is connected.",
    "headgate_worker_cluster_unreadable_objects": "Objects of worker clusters that cannot be read or dealt with.",
    "headgate_preemption_gates_opened_total": "Preemption gates that were opened on worker clusters.",
    "multikueue_workloads_dispatched_total": "Workloads that were created on worker clusters.",
    "multikueue_workloads_admitted_total": "Workloads that worker clusters admitted.",
    "headgate_quarantined_objects": "Objects in quarantine, until they change.",
    "headgate_quarantines_total": "Quarantines of objects.",
    "headgate_engine_rebuilds_total": "Restarts of the engine after it failed.",
    **{f"kueue_{name}": text for name, text in _QUEUES.items()},
    **{f"kueue_local_queue_{name}": f"By local queue: {text[0].lower()}{text[1:]}" for name, text in _QUEUES.items()},
    "kueue_admission_attempts_total": "Admission cycles; a success is one that admitted a workload.",
    "kueue_admission_cycle_preemption_skips": "Preemptions deferred in the queue's last cycle.",
    "kueue_preemption_target_recomputations_total": "Decisions repeated, their victims being taken.",
    "headgate_withheld_preemptions_total": "Preemptions withheld, to prevent preemption in circles.",
    "headgate_gated_preemptions_total": "How often a closed preemption gate held back a preemption.",
    "headgate_preemption_gated_workloads": "Workloads that wait for a preemption gate.",
    "kueue_pending_scheduling_hashes": "Equivalence classes of pending workloads, by equal requests.",
    "kueue_evicted_workloads_once_total": "Workloads evicted for the first time, by reason.",
    "kueue_preempted_workloads_total": "Preempted workloads, by the queue of the preemptor.",
    "kueue_pods_ready_to_evicted_time_seconds": "How long pods had been ready when their workload was evicted.",
    "kueue_workload_eviction_latency_seconds": "How long evicted workloads kept their quota.",
    "kueue_workload_creation_latency_seconds": "How long after a job its workload was created.",
    "kueue_pod_scheduling_gate_removal_seconds": "How long after admission the scheduling gate of a pod was removed.",
    "kueue_cluster_queue_status": "1 for the status the cluster queue has, 0 for the others.",
    "kueue_cluster_queue_info": "1, with the cohorts that the cluster queue is in.",
    "kueue_cluster_queue_weighted_share": "Borrowed over lendable quota, in thousandths, by weight.",
    "kueue_cluster_queue_resource_pending": "Requests of pending workloads.",
    "kueue_cluster_queue_resource_reservation": "Quota reserved by workloads.",
    "kueue_cluster_queue_resource_usage": "Quota used by admitted workloads.",
    "kueue_cluster_queue_nominal_quota": "The cluster queue's own quota.",
    "kueue_cluster_queue_borrowing_limit": "How much the cluster queue may borrow.",
    "kueue_cluster_queue_lending_limit": "How much of its quota the cluster queue lends.",
    "kueue_cohort_info": "1, with the cohorts that the cohort is in.",
    "kueue_cohort_weighted_share": "Borrowed over lendable quota, in thousandths, by weight.",
    "kueue_cohort_subtree_quota": "The quota of the cohort and all below it.",
    "kueue_cohort_subtree_resource_reservations": "Quota reserved by workloads in all queues of the cohort.",
    "kueue_cohort_subtree_admitted_workloads_total": "Workloads that were admitted in all queues of the cohort.",
    "kueue_cohort_subtree_admitted_active_workloads": "Workloads that are admitted in all queues of the cohort.",
    "kueue_local_queue_status": "1 for the status the local queue has, 0 for the others.",
    "kueue_local_queue_resource_reservation": "Quota reserved by workloads.",
    "kueue_local_queue_resource_usage": "Quota used by admitted workloads.",
    "kueue_local_queue_admission_fair_sharing_usage": "Usage of the local queue, for usage-based fair sharing.",
}


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


def seconds_of_attempts(entries: Iterable[Entry], seconds: float) -> float:
    """The time of a step shared evenly among the attempts in it."""
    return seconds / max(1, sum(entry.decision in ATTEMPT_RESULTS for entry in entries))


STANDALONE, LEADER = "standalone", "leader"  # what this process is while it decides, as Kueue's metrics call it


class Metrics:
    """All series of one process. `profile` names attempts whose entry does not say which profile made them.

    Metrics of Kueue's names carry the `replica_role` of the process, for it is the one that decides.
    """

    def __init__(self, profile: str, replica_role: str = STANDALONE) -> None:
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
        self._cycles = self._histogram(
            "kueue_admission_attempt_duration_seconds",
            "One admission cycle; a success is one that admitted a workload.",
            CYCLE_BUCKETS,
            ("result", "replica_role"),
        )
        self._role = replica_role
        self._decisions = self._counter("headgate_decisions", "Decisions in the journal.", ("decision", "reason"))
        self._effects = self._counter("headgate_effects", "Writes to the cluster.", ("effect", "outcome"))
        self._reviews = self._counter(
            "controller_runtime_webhook_requests", "Requests to our admission webhooks by status.", ("webhook", "code")
        )
        self._restarts = self._counter("headgate_watch_restarts", "Watches opened again.", ("kind",))
        self._dropped = self._counter("headgate_events_dropped", "Kubernetes events dropped for lack of room.", ())
        self._merged = self._counter(
            "headgate_informative_writes_merged",
            "Informative writes replaced before they were sent.",
            (),
        )
        self._steps = self._histogram("headgate_step_duration_seconds", "One step of the engine.", STEP_BUCKETS)
        self._batches = self._histogram("headgate_batch_size", "Events in one step.", BATCH_BUCKETS)
        self._leading = Gauge("headgate_leader", "1 while this process decides.", registry=self.registry)
        self.workers = WorkerMetrics(self.registry)
        self._engine = _EngineGauges(replica_role)
        self.registry.register(self._engine)
        self._count_preemptions()

    def _count_preemptions(self) -> None:
        self._victims = self._histogram(
            "scheduler_preemption_victims", "Pods evicted in one preemption.", VICTIMS_BUCKETS
        )
        self._workload_victims = self._histogram(
            "scheduler_workload_preemption_victims", "Pods evicted for one group.", VICTIMS_BUCKETS
        )
        self._disruptions = self._histogram(
            "scheduler_preemption_workload_disruptions",
            "Workloads that lost a pod in one preemption.",
            VICTIMS_BUCKETS,
            ("preemptor",),
        )
        self._violations = self._counter(
            "scheduler_preemption_pdb_violations", "Pods evicted beyond a disruption budget.", ("preemptor",)
        )

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> LabelledCounter:
        return LabelledCounter(self.registry, name, text, labels)

    def _histogram(self, name: str, text: str, bounds: Bounds, labels: tuple[str, ...] = ()) -> LabelledHistogram:
        return LabelledHistogram(self.registry, name, text, bounds, labels)

    def stepped(self, events: int, seconds: float) -> None:
        """One step of the engine took so many events and so many seconds."""
        self._batches.observe(events)
        self._steps.observe(seconds)

    def told(self, entries: Iterable[Entry], attempt_seconds: float) -> None:
        """These decisions hold; each attempt among them took so many seconds."""
        for entry in entries:
            self._decisions.inc(entry.decision, entry.reason)
            if entry.decision == "preempt":
                self._preempted(entry)
            if result := ATTEMPT_RESULTS.get(entry.decision):
                self._tried(entry, result, attempt_seconds)

    def _tried(self, entry: Entry, result: str, seconds: float) -> None:
        profile = str(entry.numbers.get("profile", self._profile))
        self._attempt_seconds.observe(seconds, result, profile)
        tries, queued = entry.numbers.get("attempts"), entry.numbers.get("queued_ms")
        if result == "scheduled" and isinstance(tries, int):
            self._tries.observe(tries)
            if isinstance(queued, int):
                self._sli.observe(queued / 1000, str(tries) if tries <= MOST_TRIES else f"{MOST_TRIES}+")

    def _preempted(self, entry: Entry) -> None:
        """Counts a receipt with victims as a preemption."""
        victims = int(entry.numbers.get("victims", 0))
        if not victims:
            return
        preemptor = "pod" if entry.key.kind is Kind.POD else "podgroup"
        self._victims.observe(victims)
        if preemptor == "podgroup":
            self._workload_victims.observe(victims)
        self._disruptions.observe(int(entry.numbers.get("workloads", 0)), preemptor)
        self._violations.inc(preemptor, by=int(entry.numbers.get("budget violations", 0)))

    def asked(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Records a plugin call at this extension point, or an admission cycle."""
        if point == ADMISSION:
            self._cycles.observe(seconds, status, self._role)
        else:
            self._plugins.observe(seconds, plugin, point, status)

    def performed(self, write: Write, trouble: WriteError | None, seconds: float) -> None:
        self._effects.inc(type(write).__name__, trouble.value if trouble else "accepted")
        if isinstance(write, Bind):
            self.asked("DefaultBinder", "Bind", FAILED if trouble else PASSED, seconds)

    def event_dropped(self) -> None:
        self._dropped.inc()

    def note_merged(self) -> None:
        self._merged.inc()

    def restarted(self, kind: Kind) -> None:
        self._restarts.inc(kind.value)

    def reviewed(self, webhook: str, code: int) -> None:
        """A webhook, named by its path, has answered an API server."""
        self._reviews.inc(webhook, str(code))

    def start_leading(self, gauges: Callable[[], Gauges]) -> None:
        """This process leads from now on; the engine's gauges are collected from this function."""
        self._leading.set(1)
        self._engine.source = gauges

    def stop_leading(self) -> None:
        self._leading.set(0)
        self._engine.source = dict

    def render(self) -> bytes:
        return generate_latest(self.registry)


class LabelledCounter(Collector):
    """Counts by labels, kept as plain numbers: counting takes a small part of what the library's own counters take.

    Without labels there is a series from the start.
    """

    def __init__(self, registry: CollectorRegistry, name: str, text: str, labels: tuple[str, ...]) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._counts: dict[tuple[str, ...], int] = {} if labels else {(): 0}
        registry.register(self)

    def inc(self, *labels: str, by: int = 1) -> None:
        self._counts[labels] = self._counts.get(labels, 0) + by

    def remove(self, first: str) -> None:
        """Drops the series whose first label has this value."""
        self._counts = {labels: count for labels, count in self._counts.items() if labels[0] != first}

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, count in self._counts.items():
            _add(family, labels, count)
        yield family


class LabelledHistogram(Collector):
    """Distributions by labels, kept like the counts of a `LabelledCounter`."""

    def __init__(
        self, registry: CollectorRegistry, name: str, text: str, bounds: Bounds, labels: tuple[str, ...] = ()
    ) -> None:
        self._name, self._text, self._bounds, self._labels = name, text, bounds, labels
        self._series: dict[tuple[str, ...], Histogram] = {} if labels else {(): Histogram(bounds)}
        registry.register(self)

    def observe(self, value: float, *labels: str) -> None:
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = Histogram(self._bounds)
        series.add(value)

    def remove(self, first: str) -> None:
        """Drops the series whose first label has this value."""
        self._series = {labels: series for labels, series in self._series.items() if labels[0] != first}

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for labels, series in self._series.items():
            _add(family, labels, series.so_far)
        yield family


class WorkerMetrics:
    """Requests and writes to worker clusters; a cluster that is not used any more leaves no series behind."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = LabelledHistogram(
            registry,
            "headgate_worker_cluster_request_duration_seconds",
            "One request to a worker cluster, until its answer.",
            STEP_BUCKETS,
            ("cluster",),
        )
        self._requests = LabelledCounter(
            registry,
            "headgate_worker_cluster_requests",
            "Requests to worker clusters, by the status of the answer; watches are not counted.",
            ("cluster", "outcome"),
        )
        self._writes = LabelledCounter(
            registry, "headgate_worker_cluster_effects", "Writes to worker clusters.", ("cluster", "effect", "outcome")
        )

    def requested(self, cluster: str, outcome: str, seconds: float) -> None:
        self._requests.inc(cluster, outcome)
        self._seconds.observe(seconds, cluster)

    def wrote(self, cluster: str, write: Write, trouble: WriteError | None) -> None:
        self._writes.inc(cluster, type(write).__name__, trouble.value if trouble else "accepted")

    def forgotten(self, cluster: str) -> None:
        for series in (self._seconds, self._requests, self._writes):
            series.remove(cluster)


class _EngineGauges(Collector):
    """Collects the engine's gauges at scrape time. A name that ends in _total is a counter."""

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
