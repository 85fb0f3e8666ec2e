"""The object cache: queues, cohorts, flavors, checks, priority classes, namespaces, limit ranges, runtime classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar
from weakref import WeakValueDictionary

from msgspec import structs

from headgate.engine.quota.activity import Activity, local_activity, queue_activity
from headgate.lifecycle.workload.queue_snapshot import QueueSnapshot
from headgate.model.keys import Key, Kind
from headgate.model.objects import LimitRange, Namespace, Object, RuntimeClass
from headgate.model.queues import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    PodSet,
    QueuedWorkload,
    ResourceFlavor,
    WorkloadPriorityClass,
)
from headgate.model.resources import Resources
from headgate.model.selectors import selects
from headgate.model.settings import QuotaSettings
from headgate.quota.pending_workload import WorkloadRequests, requests_of_workload
from headgate.quota.requests import Adjustments, limits_of

_Look = tuple[str, tuple[PodSet, ...], tuple[tuple[str, int], ...], int, bool]
"""Namespace, pod sets, reclaimable pods and priority: what a workload's requests depend on."""


class NamespaceAdjustments:
    """Limit ranges and runtime classes, and what workloads request by them. Changes return whether they matter."""

    def __init__(self, settings: QuotaSettings) -> None:
        self._settings = settings
        self._ranges: dict[Key, LimitRange] = {}
        self._classes: dict[str, RuntimeClass] = {}
        self._elsewhere = Adjustments()  # what holds where there are no limit ranges
        self._by_namespace: dict[str, Adjustments] = {}
        self._requests = WeakValueDictionary[_Look, WorkloadRequests]()  # kept by the workloads that wait

    def of(self, namespace: str) -> Adjustments:
        return self._by_namespace.get(namespace, self._elsewhere)

    def requests(self, workload: QueuedWorkload) -> WorkloadRequests:
        """What the workload requests; the same object for equal workloads, as long as one of them keeps it."""
        namespace = workload.key.namespace
        priority = workload.priority + workload.boost
        gated = self._settings.preemption_gates and workload.has_closed_gate
        look = namespace, workload.pod_sets, workload.status.reclaimable, priority, gated
        try:
            return self._requests[look]
        except KeyError:
            made = self._requests[look] = requests_of_workload(workload, self._settings, self.of(namespace))
            return made

    def put(self, found: LimitRange | RuntimeClass) -> bool:
        return self._put_range(found) if isinstance(found, LimitRange) else self._put_class(found)

    def drop(self, key: Key, uid: str) -> bool:
        """The object was deleted; False when another one has its name by now."""
        if key.kind is Kind.LIMIT_RANGE and key in self._ranges and self._ranges[key].uid == uid:
            del self._ranges[key]
            self._put_together(key.namespace)
            return True
        if key.kind is Kind.RUNTIME_CLASS and key.name in self._classes and self._classes[key.name].uid == uid:
            del self._classes[key.name]
            self._weigh_anew()
            return True
        return False

    def _put_range(self, found: LimitRange) -> bool:
        known, self._ranges[found.key] = self._ranges.get(found.key), found
        if known is not None and (known.containers, known.pods) == (found.containers, found.pods):
            return False
        self._put_together(found.key.namespace)
        return True

    def _put_class(self, found: RuntimeClass) -> bool:
        known, self._classes[found.key.name] = self._classes.get(found.key.name), found
        if known is not None and known.overhead == found.overhead:
            return False
        self._weigh_anew()
        return True

    def _put_together(self, namespace: str) -> None:
        self._requests.clear()
        ranges = [one for key, one in self._ranges.items() if key.namespace == namespace]
        if ranges:
            self._by_namespace[namespace] = Adjustments(limits_of(ranges), self._overheads)
        else:
            self._by_namespace.pop(namespace, None)

    def _weigh_anew(self) -> None:
        self._requests.clear()
        self._elsewhere = Adjustments(overheads=self._overheads)
        for namespace in list(self._by_namespace):
            self._put_together(namespace)

    @property
    def _overheads(self) -> dict[str, Resources]:
        return {name: one.overhead for name, one in self._classes.items() if one.overhead.items}


Described = ClusterQueue | LocalQueue | Cohort | ResourceFlavor
K = TypeVar("K", bound=str | Key)
Held = TypeVar("Held", bound=Described | AdmissionCheck | WorkloadPriorityClass)

_LOCAL_QUEUE = Kind.LOCAL_QUEUE
MOST_SNAPSHOTS = 16_384
_SnapshotKey = tuple[str, str, str | None, str]
"""Namespace, LocalQueue, the ClusterQueue it has quota of, or else what is wrong with its pods."""


class QuotaObjectCache:
    """The objects as last observed, and which queues, namespaces and classes changed since that was last asked."""

    def __init__(self, settings: QuotaSettings) -> None:
        self._settings = settings
        self.queues: dict[str, ClusterQueue] = {}
        self.locals: dict[Key, LocalQueue] = {}
        self._local_keys: dict[tuple[str, str], Key] = {}  # of those that exist
        self.cohorts: dict[str, Cohort] = {}
        self.flavors: dict[str, ResourceFlavor] = {}
        self.checks: dict[str, AdmissionCheck] = {}
        self.classes: dict[str, WorkloadPriorityClass] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._adjustments = NamespaceAdjustments(settings)
        self.requests = self._adjustments.requests  # of a workload, with limit ranges and overheads applied
        self._activities: dict[str, Activity] = {}
        self.inactive: frozenset[str] = frozenset()  # queues that admit nothing
        self.reshaped = False  # queues, cohorts, flavors or checks: quota is another
        self.relabeled = False  # namespaces
        self.changed_queues: dict[str, None] = {}
        self.changed_locals: dict[Key, None] = {}
        self.changed_classes: dict[str, None] = {}
        self._snapshots: dict[_SnapshotKey, QueueSnapshot] = {}  # until an object changes

    def observe(self, found: Object) -> None:
        match found:
            case ClusterQueue():
                name = found.key.name
                if _differs(self.queues.get(name), found):
                    self._reshape_queue(name)
                self.queues[name] = found
            case LocalQueue():
                if _differs(self.locals.get(found.key), found):
                    self.changed_locals[found.key] = None
                self.locals[found.key] = found
                self._local_keys[found.key.namespace, found.key.name] = found.key
            case Cohort():
                self.reshaped |= _differs(self.cohorts.get(found.name), found)
                self.cohorts[found.name] = found
            case ResourceFlavor():
                self.reshaped |= _differs(self.flavors.get(found.name), found)
                self.flavors[found.name] = found
            case AdmissionCheck():
                self.reshaped |= _activity(self.checks.get(found.key.name)) != _activity(found)
                self.checks[found.key.name] = found
            case WorkloadPriorityClass():
                self.classes[found.key.name] = found
                self.changed_classes[found.key.name] = None
            case Namespace(key=key, labels=labels):
                self._relabel(key.name, labels)
            case LimitRange() | RuntimeClass():
                self._adjust(found)
            case _:
                return
        self._snapshots.clear()

    def lose(self, key: Key, uid: str) -> None:
        match key.kind:
            case Kind.CLUSTER_QUEUE:
                if _drop(self.queues, key.name, uid):
                    self._reshape_queue(key.name)
            case Kind.COHORT:
                self.reshaped |= _drop(self.cohorts, key.name, uid)
            case Kind.RESOURCE_FLAVOR:
                self.reshaped |= _drop(self.flavors, key.name, uid)
            case Kind.ADMISSION_CHECK:
                self.reshaped |= _drop(self.checks, key.name, uid)
            case Kind.LOCAL_QUEUE:
                if _drop(self.locals, key, uid):
                    del self._local_keys[key.namespace, key.name]
                    self.changed_locals[key] = None
            case Kind.WORKLOAD_PRIORITY_CLASS:
                _drop(self.classes, key.name, uid)
            case Kind.NAMESPACE:
                self._relabel(key.name, None)
            case Kind.LIMIT_RANGE | Kind.RUNTIME_CLASS:
                if self._adjustments.drop(key, uid):
                    self._mark_locals_dirty(key.namespace)
            case _:
                return
        self._snapshots.clear()

    def take_reshaped(self) -> bool:
        """True once after queues, cohorts, flavors or checks have changed; whether queues are active is updated."""
        if not self.reshaped:
            return False
        self.reshaped, before = False, self._activities
        self._snapshots.clear()
        self._activities = {
            name: queue_activity(queue, self.flavors, self.checks) for name, queue in self.queues.items()
        }
        self.inactive = frozenset(name for name, activity in self._activities.items() if not activity.active)
        changed = [name for name, activity in self._activities.items() if before.get(name) != activity]
        self.changed_queues.update(dict.fromkeys(changed))
        return True

    def take_relabeled(self) -> bool:
        """True once after labels of namespaces have changed."""
        relabeled, self.relabeled = self.relabeled, False
        return relabeled

    def may_enter(self, queue: ClusterQueue, namespace: str) -> bool:
        labels = self._namespaces.get(namespace)
        if queue.namespaces is None or labels is None:
            return False
        return not queue.namespaces or all(requirement.holds(labels) for requirement in queue.namespaces)

    def adjustments(self, workload: QueuedWorkload) -> Adjustments:
        """The limit ranges and overheads that apply to the workload."""
        return self._adjustments.of(workload.key.namespace)

    def activity(self, queue: ClusterQueue) -> Activity:
        known = self._activities.get(queue.key.name)
        return known or queue_activity(queue, self.flavors, self.checks)

    def local_activity(self, local: LocalQueue) -> Activity:
        queue = self.queues.get(local.cluster_queue)
        return local_activity(local, None if queue is None else self.activity(queue))

    def local_of(self, workload: QueuedWorkload) -> Key:
        """The key of the LocalQueue it names, whether that exists or not."""
        named = workload.key.namespace, workload.queue
        return self._local_keys.get(named) or Key(_LOCAL_QUEUE, *named)

    def queue_of(self, workload: QueuedWorkload) -> str:
        """The ClusterQueue it has quota of, or would get it from; empty when there is none."""
        if workload.status.admission is not None:
            return workload.status.admission.cluster_queue
        local = self.locals.get(self.local_of(workload))
        return local.cluster_queue if local is not None else ""

    def queue_snapshot(self, workload: QueuedWorkload) -> QueueSnapshot:
        """The queues of the workload and whether they let it in; one object for equal workloads until a change."""
        given = workload.status.admission
        problem = self.requests(workload).problem if given is None else ""
        depends_on = workload.key.namespace, workload.queue, given.cluster_queue if given is not None else None, problem
        known = self._snapshots.get(depends_on)
        if known is None:
            if len(self._snapshots) >= MOST_SNAPSHOTS:
                self._snapshots.clear()
            known = self._snapshots[depends_on] = self._new_snapshot(workload, problem)
        return known

    def _new_snapshot(self, workload: QueuedWorkload, problem: str) -> QueueSnapshot:
        queue = self.queues.get(self.queue_of(workload))
        activity = self.activity(queue) if queue is not None else None
        is_active = activity is not None and activity.active
        lacks = activity.unsupported if activity is not None else ""
        may_enter = queue is not None and self.may_enter(queue, workload.key.namespace)
        local = self.locals.get(self.local_of(workload))
        return QueueSnapshot(local, queue, is_active, may_enter, self._settings, lacks, problem)

    def reports_on(self, local: Key) -> bool:
        """Whether metrics are reported for this LocalQueue."""
        selector, found = self._settings.metrics.local_queues, self.locals.get(local)
        return selector is not None and found is not None and selects(selector, found.labels)

    def locals_of(self, queue: str) -> Iterator[Key]:
        return (key for key, local in self.locals.items() if local.cluster_queue == queue)

    def _relabel(self, namespace: str, labels: Mapping[str, str] | None) -> None:
        if self._namespaces.get(namespace) == labels:
            return
        self.relabeled = True
        self._mark_locals_dirty(namespace)
        if labels is None:
            del self._namespaces[namespace]
        else:
            self._namespaces[namespace] = labels

    def _adjust(self, found: LimitRange | RuntimeClass) -> None:
        if self._adjustments.put(found):
            self._mark_locals_dirty(found.key.namespace)

    def _mark_locals_dirty(self, namespace: str = "") -> None:
        """LocalQueues of the namespace, or all, are dirty: what their workloads request or may have has changed."""
        self.changed_locals.update((key, None) for key in self.locals if not namespace or key.namespace == namespace)

    def _reshape_queue(self, name: str) -> None:
        self.reshaped = True
        self.changed_queues[name] = None

    def priority_of(self, workload: QueuedWorkload) -> int | None:
        """The value of its WorkloadPriorityClass; None when it names none, or one that does not exist."""
        named = workload.priority_class
        if named is None or named.kind != "WorkloadPriorityClass":
            return None
        found = self.classes.get(named.name)
        return found.value if found is not None else None


def _differs(old: Described | None, new: Described) -> bool:
    """Whether anything but the status and finalizers we write has changed."""
    return old is None or _spec(old) != _spec(new)


def _spec(one: Described) -> Described:
    match one:
        case ClusterQueue():
            return structs.replace(one, version="", conditions=(), finalizers=(), debt=())
        case LocalQueue():
            return structs.replace(one, version="", conditions=(), consumed=Resources(), consumed_at=None, labels={})
        case ResourceFlavor():
            return structs.replace(one, version="", finalizers=())
        case Cohort():
            return structs.replace(one, version="", shown_share=None)


def _activity(check: AdmissionCheck | None) -> tuple[object, ...] | None:
    if check is None:
        return None
    active = next((one.status for one in check.conditions if one.type == "Active"), "")
    return check.uid, check.controller, active


def _drop(known: dict[K, Held], name: K, uid: str) -> bool:
    """True when the object with this uid was the one that is known."""
    found = known.get(name)
    if found is None or found.uid != uid:
        return False
    del known[name]
    return True
