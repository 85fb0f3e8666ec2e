"""An immutable snapshot of queues and workloads: what a controller that starts now would know."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from msgspec import structs

from headgate.engine.integrations.job_index import FlavorsAndClasses, JobIndex
from headgate.engine.quota.consumption import Consumptions
from headgate.engine.quota.object_cache import QuotaObjectCache
from headgate.engine.quota.plane import QuotaPlane
from headgate.engine.quota.queue_usage import QueueUsages
from headgate.engine.quota.workload_records import WorkloadRecord
from headgate.lifecycle.workload.conditions import ADMITTED, EVICTED, FINISHED, PODS_READY
from headgate.lifecycle.workload.queue_snapshot import QueueSnapshot, inadmissible_reason
from headgate.model.keys import Key, Kind
from headgate.model.objects import Job, Namespace, Object, PriorityClass, ReplicaOwner, StatefulSet
from headgate.model.pod import Pod
from headgate.model.queues import ClusterQueue, QueuedWorkload, ResourceFlavor, WorkloadPriorityClass
from headgate.model.settings import QuotaSettings
from headgate.quota.ledger import Reservation, cohort_forest
from headgate.quota.pending_workload import PendingWorkload, has_rested, may_queue, ordered_at, pending_workload
from headgate.quota.requests import reservation_of

READ = QuotaPlane.reads
"""The kinds that decisions about quota depend on. Jobs, pods and their owners may be added."""
_DECIDING = frozenset(READ) - {Kind.NAMESPACE, Kind.LIMIT_RANGE, Kind.LOCAL_QUEUE}
"""Of these, what is in the namespace of a workload is not enough."""


class ClusterSnapshot:
    """Immutable; `now` is when it was read. Of the kinds in `unreadable` there may be objects that it does not have."""

    def __init__(
        self, objects: Iterable[Object], settings: QuotaSettings, now: float, unreadable: Collection[Kind] = ()
    ) -> None:
        self.settings, self.now, self.unreadable = settings, now, frozenset(unreadable)
        self.objects = QuotaObjectCache(settings)
        self.workloads: dict[Key, QueuedWorkload] = {}
        self.pods: dict[Key, Pod] = {}
        self.owners: dict[Key, Job | ReplicaOwner] = {}
        self.jobs, self.classes = JobIndex(settings), FlavorsAndClasses()
        for found in objects:
            self._put(found)
        self.objects.take_reshaped()
        for key, workload in self.workloads.items():
            self.workloads[key] = self._with_priority_of_class(workload)
        self.consumptions = self._consumptions()
        self.forest = cohort_forest(list(self.objects.queues.values()), list(self.objects.cohorts.values()))

    @property
    def hidden(self) -> tuple[Kind, ...]:
        """The kinds without which nothing can be decided about quota, and that could not be read."""
        return tuple(sorted(self.unreadable & _DECIDING))

    def queue_snapshot(self, workload: QueuedWorkload) -> QueueSnapshot:
        return self.objects.queue_snapshot(workload)

    def queue_of(self, workload: QueuedWorkload) -> ClusterQueue | None:
        return self.objects.queues.get(self.objects.queue_of(workload))

    def holders(self, queues: frozenset[str]) -> Iterator[Reservation]:
        """Workloads that hold quota of these queues, including evicted ones that have not released it."""
        for workload in self.workloads.values():
            if workload.status.admission is not None and workload.status.admission.cluster_queue in queues:
                reservation = reservation_of(workload, ordered_at(workload, self.settings))
                if reservation is not None and not workload.is_true(FINISHED):
                    yield reservation

    def pending(self, queues: frozenset[str]) -> Iterator[PendingWorkload]:
        """Pending workloads of these queues that would be considered now."""
        for workload in self.workloads.values():
            queue = self.objects.queue_of(workload)
            if queue in queues and self.applies(workload):
                yield pending_workload(workload, queue, self.settings, self.objects.adjustments(workload))

    def applies(self, workload: QueuedWorkload) -> bool:
        """Whether only quota and the order of its queue keep it pending."""
        if workload.status.admission is not None or workload.deleted is not None or not may_queue(workload):
            return False
        return has_rested(workload, self.now) and inadmissible_reason(workload, self.queue_snapshot(workload)) is None

    @property
    def all_ready(self) -> bool:
        """Whether the pods of all admitted workloads are ready, by their conditions."""
        return not any(_waits_for_pods(workload) for workload in self.workloads.values())

    def _put(self, found: Object) -> None:
        match found:
            case QueuedWorkload():
                self.workloads[found.key] = found
                self.jobs.put_workload(found)
            case Job():
                self.owners[found.key] = found
                self.jobs.put_job(found)
            case Pod():
                self.pods[found.key] = found
                if found.held is not None:
                    self.jobs.put_pod(found)
            case ReplicaOwner():
                self.owners[found.key] = found
                if isinstance(found, StatefulSet):
                    self.jobs.put_stateful_set(found)
            case PriorityClass():
                self.classes.put(found)
            case _:
                self._put_described(found)

    def _put_described(self, found: Object) -> None:
        if isinstance(found, ResourceFlavor | WorkloadPriorityClass):
            self.classes.put(found)
        if isinstance(found, Namespace):
            self.jobs.put_namespace(found)
        self.objects.observe(found)

    def _consumptions(self) -> Consumptions | None:
        """Usage of local queues by their statuses; None without usage-based fair sharing."""
        sharing = self.settings.usage_sharing
        if sharing is None:
            return None
        made = Consumptions(sharing, self.objects, QueueUsages())
        for local in self.objects.locals.values():
            made.open(local, (), self.now)
        for reservation in self.holders(frozenset(self.objects.queues)):
            record = WorkloadRecord.of(self.workloads[reservation.key])
            record.reservation = reservation
            made.place(record, self.objects.local_of(record.observed))
        return made

    def _with_priority_of_class(self, workload: QueuedWorkload) -> QueuedWorkload:
        """The workload with the current value of its priority class."""
        value = self.objects.priority_of(workload)
        return workload if value is None else structs.replace(workload, priority=value)


def _waits_for_pods(workload: QueuedWorkload) -> bool:
    if workload.status.admission is None or not workload.is_true(ADMITTED) or workload.is_true(EVICTED):
        return False
    told = workload.condition(PODS_READY)
    is_done = workload.is_true(FINISHED)
    return not is_done and (told.status != "True" if told is not None else workload.owner is not None)
