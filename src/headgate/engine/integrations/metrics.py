"""Start latencies: until a job had its Workload, and until the gate was off its pods; observed once that is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headgate.engine.distributions import Bounds, Distributions
from headgate.engine.integrations.job_index import JobIndex
from headgate.engine.planes import Number
from headgate.lifecycle.workload.conditions import ADMITTED, second, true_since
from headgate.model.effects import Create, PatchSpec, PodStart
from headgate.model.events import Outcome
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import ADMISSION_GATE

CREATION = "kueue_workload_creation_latency_seconds"
GATE_REMOVAL = "kueue_pod_scheduling_gate_removal_seconds"
BOUNDS: Mapping[str, Bounds] = {
    CREATION: tuple(0.01 * 2**n for n in range(11)),
    GATE_REMOVAL: (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
}


class StartLatencies:
    """A later process makes none of these writes again, so nothing is counted twice."""

    def __init__(self, index: JobIndex) -> None:
        self._index = index
        self._latencies = Distributions(BOUNDS)

    def written(self, outcome: Outcome, job: Key, now: float) -> None:
        """A write for this job is done."""
        match outcome.effect:
            case Create(key=Key(kind=Kind.KUEUE_WORKLOAD)):
                self._created(job, now)
            case PatchSpec(change=PodStart()):
                self._started(job, now)
            case _:
                pass

    def __iter__(self) -> Iterator[Number]:
        return iter(self._latencies)

    def _created(self, job: Key, now: float) -> None:
        """Times of creation have whole seconds, so this one is taken to have them too."""
        since = self._index.created(job)
        if since is not None:
            kind = "Job" if job.kind is Kind.JOB else "Pod"
            self._latencies.observe(CREATION, (("job_kind", kind),), second(now) - since)

    def _started(self, job: Key, now: float) -> None:
        found = self._index.find(job)
        workload = self._index.workload_of(found)[0] if found is not None else None
        since = true_since(workload, ADMITTED) if workload is not None else None
        if workload is None or workload.status.admission is None or since is None:
            return
        is_group = str(job.kind is Kind.KUEUE_WORKLOAD).lower()
        queue = workload.status.admission.cluster_queue
        labels = (("cluster_queue", queue), ("is_group", is_group), ("name", ADMISSION_GATE))
        self._latencies.observe(GATE_REMOVAL, labels, now - since)

    def forget(self, queue: str) -> None:
        """The cluster queue is gone."""
        self._latencies.forget({"cluster_queue": queue})
