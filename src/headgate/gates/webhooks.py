"""The admission webhooks: one table of what an API server asks and which handler answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from headgate.gates.fields import (
    ALLOWED,
    AdmissionFieldError,
    immutable,
    is_going,
    is_well_typed,
    response_to,
    spec_of,
    with_finalizer,
    with_spec,
)
from headgate.gates.jobs import job_errors, suspended_if_managed
from headgate.gates.pods import gated_if_managed, pod_errors, pods_wait, replicas_errors, stateful_set_errors
from headgate.gates.queues import (
    RESERVED,
    cluster_queue_errors,
    cohort_errors,
    flavor_errors,
    pod_set_change_errors,
    template_errors,
    workload_change_errors,
    workload_errors,
)
from headgate.gates.volcano import default_pod_group, default_queue, gated_by_queue, validate_pod_group, validate_queue
from headgate.model.admission import (
    AdmissionAllowed,
    AdmissionDenied,
    AdmissionHandler,
    AdmissionRequest,
    AdmissionResponse,
    AdmissionWebhook,
    DeferredResponse,
    HandlerResult,
    Json,
    WebhookSettings,
    WithLookups,
)
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import IN_USE
from headgate.model.objects import Classes, PriorityClass
from headgate.model.pod import Workload
from headgate.model.queues import (
    ClusterQueue,
    Cohort,
    PriorityClassRef,
    QueuedWorkload,
    ResourceFlavor,
    WorkloadPriorityClass,
)
from headgate.model.settings import DEPLOYMENTS, JOBS, PODS, STATEFUL_SETS


def class_to_fill_in(workload: Workload, classes: Classes) -> str:
    """The class a workload gets that names none, as a pod would; where no class is the default, it stays without."""
    return "" if workload.priority_class else classes.default


def priority_class_response(workload: Workload, classes: Classes) -> AdmissionResponse:
    """Denied unless its classes exist and its preemptionPriorityClassName is worth at least its priorityClassName."""
    for name in (workload.priority_class, workload.preemption_priority_class):
        if name and name not in classes.values:
            return AdmissionDenied(f"no PriorityClass with name {name} was found")
    if workload.preemption_priority_class and _preempts_more(workload, classes):
        return AdmissionDenied(_endless(workload, classes))
    return AdmissionAllowed()


def _preempts_more(workload: Workload, classes: Classes) -> bool:
    return classes.values[workload.preemption_priority_class] < _priority(workload, classes)


def _priority(workload: Workload, classes: Classes) -> int:
    return classes.values.get(workload.priority_class or classes.default, 0)


def _endless(workload: Workload, classes: Classes) -> str:
    """Two workloads like this one could take each other's place for ever."""
    shield, chosen = workload.preemption_priority_class, workload.priority_class or classes.default
    of_class = f"of priorityClassName {chosen}" if chosen else "of a workload without priorityClassName"
    return (
        f"the value of preemptionPriorityClassName {shield} ({classes.values[shield]}) is below the value {of_class} "
        f"({_priority(workload, classes)}): workloads like this one would preempt each other without end"
    )


Errors = Callable[[AdmissionRequest], Iterable[AdmissionFieldError]]

_CLASS_KINDS: Mapping[tuple[str, str], Kind] = {
    ("kueue.x-k8s.io", "WorkloadPriorityClass"): Kind.WORKLOAD_PRIORITY_CLASS,
    ("scheduling.k8s.io", "PriorityClass"): Kind.PRIORITY_CLASS,
}


def default_workload(request: AdmissionRequest, _rules: WebhookSettings) -> DeferredResponse:
    workload = request.decoded
    if not isinstance(workload, Workload):
        return AdmissionAllowed()
    name = class_to_fill_in(workload, (yield from _classes()))
    return AdmissionAllowed(with_spec(request.new, priorityClassName=name) if name else None)


def validate_workload(request: AdmissionRequest, _rules: WebhookSettings) -> DeferredResponse:
    workload = request.decoded
    if not isinstance(workload, Workload):
        return AdmissionAllowed()
    return priority_class_response(workload, (yield from _classes()))


def keep_while_in_use(request: AdmissionRequest, _rules: WebhookSettings) -> AdmissionResponse:
    """Adds the finalizer that keeps the object until nothing refers to it."""
    return AdmissionAllowed(with_finalizer(request.new, IN_USE))


def default_queued_workload(request: AdmissionRequest, _rules: WebhookSettings) -> HandlerResult:
    """Fills in the priority of the class that the workload names."""
    spec = spec_of(request.new)
    if spec.get("priority") is not None or spec.get("priorityClassRef") is None:
        return ALLOWED
    workload = request.decoded
    named = workload.priority_class if isinstance(workload, QueuedWorkload) else None
    return ALLOWED if named is None else _with_priority(request.new, named)


def _with_priority(value: Json, named: PriorityClassRef) -> DeferredResponse:
    priority = yield from _value_of(named)
    return AdmissionAllowed(None if priority is None else with_spec(value, priority=priority))


def checked(errors: Errors, framework: str = "") -> AdmissionHandler:
    """Denies objects with such errors; objects being deleted, and jobs of a framework that is off, are allowed."""

    def handle(request: AdmissionRequest, settings: WebhookSettings) -> AdmissionResponse:
        if (framework and framework not in settings.quota.frameworks) or is_going(request.new):
            return ALLOWED
        return response_to(errors(request))

    return handle


def _classes() -> WithLookups[Classes]:
    found = yield Kind.PRIORITY_CLASS
    return Classes.of(one for one in found if isinstance(one, PriorityClass))


def _value_of(named: PriorityClassRef) -> WithLookups[int | None]:
    kind = _CLASS_KINDS.get((named.group, named.kind))
    if kind is None:
        return None
    found = yield Key(kind, "", named.name)
    return next((one.value for one in found if isinstance(one, PriorityClass | WorkloadPriorityClass)), None)


def _of_cluster_queue(request: AdmissionRequest) -> list[AdmissionFieldError]:
    queue, old = request.decoded, request.decoded_old
    if not isinstance(queue, ClusterQueue):
        return []
    errors = cluster_queue_errors(queue, old if isinstance(old, ClusterQueue) else None)
    return errors + _fixed("concurrentAdmissionPolicy", request)


def _fixed(field: str, request: AdmissionRequest) -> list[AdmissionFieldError]:
    if request.old is None or spec_of(request.new).get(field) == spec_of(request.old).get(field):
        return []
    return [immutable(f"spec.{field}")]


def _of_cohort(request: AdmissionRequest) -> list[AdmissionFieldError]:
    cohort = request.decoded
    return cohort_errors(cohort) if isinstance(cohort, Cohort) else []


def _of_flavor(request: AdmissionRequest) -> list[AdmissionFieldError]:
    flavor = request.decoded
    return flavor_errors(flavor) if isinstance(flavor, ResourceFlavor) else []


def _of_queued_workload(request: AdmissionRequest) -> Sequence[AdmissionFieldError]:
    """Many workloads share one spec and status, so the result is memoized by these."""
    old = () if request.old is None else _looked_at(request.old)
    return request.memoize(_queued_workload_errors, request, *_looked_at(request.new), *old)


def _looked_at(value: Json) -> tuple[object, object, object]:
    """The parts that validation depends on; other metadata are validated by the server."""
    return value.get("spec"), value.get("status"), (value.get("metadata") or {}).get("annotations")


def _queued_workload_errors(request: AdmissionRequest) -> Sequence[AdmissionFieldError]:
    new, old = request.decoded, request.decoded_old
    if not isinstance(new, QueuedWorkload):
        return ()
    pod_sets = _pod_sets(request.new)
    errors = [*workload_errors(new), *request.memoize(template_errors, pod_sets, pod_sets)]
    if isinstance(old, QueuedWorkload) and request.old is not None:
        errors += workload_change_errors(new, old)
        if old.is_true(RESERVED):
            errors += pod_set_change_errors(pod_sets, _pod_sets(request.old))
    return errors


def _pod_sets(value: Json) -> Sequence[Json]:
    return spec_of(value).get("podSets") or ()


def _of_well_typed(handler: AdmissionHandler) -> AdmissionHandler:
    """Allows objects whose fields have wrong types: the server's own validation names those best.

    Most are allowed as they are, whatever their types, so these are looked at last.
    """

    def handle_well_typed(request: AdmissionRequest, settings: WebhookSettings) -> HandlerResult:
        try:
            result = handler(request, settings)
        except Exception:
            if _has_right_types(request):
                raise
            return ALLOWED
        return result if result is ALLOWED or _has_right_types(request) else ALLOWED

    return handle_well_typed


def _has_right_types(request: AdmissionRequest) -> bool:
    return is_well_typed(request.new) and (request.old is None or is_well_typed(request.old))


_HANDLERS: Mapping[AdmissionWebhook, AdmissionHandler] = {
    AdmissionWebhook.DEFAULT_WORKLOAD: default_workload,
    AdmissionWebhook.VALIDATE_WORKLOAD: validate_workload,
    AdmissionWebhook.DEFAULT_CLUSTER_QUEUE: keep_while_in_use,
    AdmissionWebhook.VALIDATE_CLUSTER_QUEUE: checked(_of_cluster_queue),
    AdmissionWebhook.VALIDATE_COHORT: checked(_of_cohort),
    AdmissionWebhook.DEFAULT_RESOURCE_FLAVOR: keep_while_in_use,
    AdmissionWebhook.VALIDATE_RESOURCE_FLAVOR: checked(_of_flavor),
    AdmissionWebhook.DEFAULT_QUEUED_WORKLOAD: default_queued_workload,
    AdmissionWebhook.VALIDATE_QUEUED_WORKLOAD: checked(_of_queued_workload),
    AdmissionWebhook.DEFAULT_JOB: suspended_if_managed,
    AdmissionWebhook.VALIDATE_JOB: checked(lambda request: job_errors(request.new, request.old), JOBS),
    AdmissionWebhook.DEFAULT_POD: gated_if_managed,
    AdmissionWebhook.VALIDATE_POD: checked(lambda request: pod_errors(request.new, request.old), PODS),
    AdmissionWebhook.DEFAULT_DEPLOYMENT: pods_wait(DEPLOYMENTS),
    AdmissionWebhook.VALIDATE_DEPLOYMENT: checked(
        lambda request: replicas_errors(request.new, request.old), DEPLOYMENTS
    ),
    AdmissionWebhook.DEFAULT_STATEFUL_SET: pods_wait(STATEFUL_SETS),
    AdmissionWebhook.VALIDATE_STATEFUL_SET: checked(stateful_set_errors, STATEFUL_SETS),
    AdmissionWebhook.DEFAULT_QUEUE_GATE: gated_by_queue,
    AdmissionWebhook.DEFAULT_VOLCANO_QUEUE: default_queue,
    AdmissionWebhook.VALIDATE_VOLCANO_QUEUE: validate_queue,
    AdmissionWebhook.DEFAULT_VOLCANO_POD_GROUP: default_pod_group,
    AdmissionWebhook.VALIDATE_VOLCANO_POD_GROUP: validate_pod_group,
}

HANDLERS: Mapping[AdmissionWebhook, AdmissionHandler] = {
    webhook: _of_well_typed(handler) for webhook, handler in _HANDLERS.items()
}
