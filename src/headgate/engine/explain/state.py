"""The state of a workload apart from quota: finished, admitted, evicted, blocked; or pending for quota alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import Struct, structs

from headgate.engine.explain.explanation import WorkloadState
from headgate.engine.explain.snapshot import ClusterSnapshot
from headgate.lifecycle.terminating import WAITING_FOR_ROOM
from headgate.lifecycle.workload.admission import required_checks
from headgate.lifecycle.workload.conditions import (
    ADMITTED,
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    QUOTA_RESERVED,
    REQUEUED,
    without,
)
from headgate.model.keys import Condition
from headgate.model.pod import Pod
from headgate.model.quantity import counted, duration_text
from headgate.model.queues import (
    Admission,
    CheckState,
    CheckStatus,
    ClusterQueue,
    QueuedWorkload,
    StopPolicy,
)
from headgate.model.selectors import Requirement
from headgate.quota.pending_workload import has_failed_checks, has_rested

MOST_REASONS = 3  # why pods have no node
WAITS_FOR_REPLACEMENT = "WaitingForReplacementPods"


class StateReport(Struct, frozen=True):
    """A state other than waiting for quota, and the actions that change it. With `then_quota` the workload would need
    quota next.
    """

    state: WorkloadState
    summary: str
    actions: tuple[str, ...] = ()
    then_quota: bool = False


def state_before_quota(workload: QueuedWorkload, cluster: ClusterSnapshot) -> StateReport | None:
    """None if it waits for quota and nothing else."""
    return next((found for rule in _RULES if (found := rule(workload, cluster)) is not None), None)


def without_blockers(workload: QueuedWorkload) -> QueuedWorkload:
    """The workload without anything but quota that keeps it pending."""
    status = structs.replace(workload.status, requeue=None, checks=())
    freed = structs.replace(workload, active=True, gated_by=(), status=status)
    for condition_text in (REQUEUED, WAITS_FOR_REPLACEMENT, QUOTA_RESERVED):
        freed = without(freed, condition_text)
    return freed


def condition_text(condition: Condition | None) -> str:
    """A condition's reason and message."""
    if condition is None:
        return ""
    return f"{condition.reason}: {condition.message}" if condition.message else condition.reason


def _deleted(workload: QueuedWorkload, cluster: ClusterSnapshot) -> StateReport | None:
    if workload.deleted is None:
        return None
    kept = ", ".join(workload.finalizers) or "nothing"
    return StateReport(WorkloadState.DELETED, f"is being deleted; kept by finalizers: {kept}")


def _finished(workload: QueuedWorkload, cluster: ClusterSnapshot) -> StateReport | None:
    if not workload.is_true(FINISHED):
        return None
    return StateReport(WorkloadState.FINISHED, f"has finished: {condition_text(workload.condition(FINISHED))}")


def _holds_quota(workload: QueuedWorkload, cluster: ClusterSnapshot) -> StateReport | None:
    given = workload.status.admission
    if given is None:
        return None
    if workload.is_true(EVICTED):
        why = condition_text(workload.condition(EVICTED))
        actions = ("its pods must terminate; then it releases its quota and is requeued",)
        return StateReport(WorkloadState.LEAVING, f"is evicted and still holds its quota: {why}", actions)
    if workload.is_true(ADMITTED) and (held := workload.condition(WAITING_FOR_ROOM)) and held.status == "True":
        actions = ("wait for these pods to end; it starts at the time named in any case",)
        return StateReport(WorkloadState.NO_ROOM, f"is admitted and held: {held.message}", actions)
    if workload.is_true(ADMITTED):
        said, unplaced = (
            f"is admitted by ClusterQueue {given.cluster_queue}: {_flavors(given)}",
            _unplaced(workload, cluster),
        )
        return StateReport(WorkloadState.NO_NODE if unplaced else WorkloadState.ADMITTED, f"{said}{unplaced}")
    return _waits_for_checks(workload, given, cluster)


def _flavors(given: Admission) -> str:
    parts = []
    for one in given.pod_sets:
        flavors = ", ".join(sorted({flavor for _, flavor in one.flavors})) or "no flavor"
        parts.append(f"{counted(one.count, 'pod')} of {one.name} on {flavors}")
    return "; ".join(parts)


def _unplaced(workload: QueuedWorkload, cluster: ClusterSnapshot) -> str:
    """Its pods without a node, and what the scheduler says of them; empty if there are none."""
    pods = [
        pod
        for pod in cluster.pods.values()
        if (its := cluster.jobs.workload_for(pod)) is not None and its.key == workload.key
    ]
    waiting = [pod for pod in pods if pod.wants_node]
    if not waiting:
        return ""
    whys = Counter(_not_scheduled(pod) for pod in waiting).most_common(MOST_REASONS)
    verb = "has" if len(waiting) == 1 else "have"
    return f"; {len(waiting)} of {counted(len(pods), 'pod')} {verb} no node: {'; '.join(why for why, _ in whys)}"


def _not_scheduled(pod: Pod) -> str:
    told = pod.scheduled
    if told is None or told.status != "False":
        return f"no scheduler has answered yet (schedulerName {pod.scheduler_name})"
    return f"{told.reason}: {told.message.rstrip('.')}" if told.message else told.reason


def _waits_for_checks(workload: QueuedWorkload, given: Admission, cluster: ClusterSnapshot) -> StateReport:
    queue = cluster.objects.queues.get(given.cluster_queue)
    states = {check.name: check for check in workload.status.checks}
    names = required_checks(queue, given) if queue is not None else tuple(sorted(states))
    open_ones = [states.get(name, CheckStatus(name)) for name in names]
    waiting = [check for check in open_ones if check.state is not CheckState.READY]
    said = "; ".join(_check(check) for check in waiting) or "all are Ready, and it is not marked Admitted yet"
    actions = tuple(f"the controller of admission check {check.name} must set it to Ready" for check in waiting)
    return StateReport(WorkloadState.CHECKS, f"has quota and waits for its admission checks: {said}", actions)


def _check(check: CheckStatus) -> str:
    return f"{check.name} is {check.state}" + (f" ({check.message})" if check.message else "")


def _deactivated(workload: QueuedWorkload, cluster: ClusterSnapshot) -> StateReport | None:
    if workload.active:
        return None
    why = condition_text(workload.condition(DEACTIVATION_TARGET) or workload.condition(EVICTED))
    summary = "is deactivated (spec.active is false)" + (f": {why}" if why else "")
    return StateReport(WorkloadState.DEACTIVATED, summary, ("set spec.active to true",), True)


def _gated(workload: QueuedWorkload, cluster: ClusterSnapshot) -> StateReport | None:
    if not workload.gated_by:
        return None
    names = ", ".join(workload.gated_by)
    act = f"remove {names} from its annotation kueue.x-k8s.io/admission-gated-by"
    return StateReport(WorkloadState.GATED, f"is gated by {names}", (act,), True)


def _unsupported(workload: QueuedWorkload, cluster: ClusterSnapshot) -> StateReport | None:
    found = workload.unsupported
    if not found:
        return None
    summary = f"asks for what is not supported, so it is not admitted: {'; '.join(found)}"
    return StateReport(WorkloadState.INVALID, summary, tuple(f"remove {one}" for one in found))


def _held(workload: QueuedWorkload, cluster: ClusterSnapshot) -> StateReport | None:
    if workload.is_on_hold:
        return StateReport(
            WorkloadState.ON_HOLD, f"is on hold: {condition_text(workload.condition(QUOTA_RESERVED))}", (), True
        )
    if workload.is_true(WAITS_FOR_REPLACEMENT):
        why = condition_text(workload.condition(WAITS_FOR_REPLACEMENT))
        return StateReport(WorkloadState.ON_HOLD, f"waits for replacement pods: {why}", (), True)
    if workload.is_true(QUOTA_RESERVED):
        return StateReport(
            WorkloadState.ON_HOLD, "shows QuotaReserved, but no admission: its status contradicts itself"
        )
    return None


def _local_queue(workload: QueuedWorkload, cluster: ClusterSnapshot) -> StateReport | None:
    key = cluster.objects.local_of(workload)
    local = cluster.objects.locals.get(key)
    if local is None:
        there = [other.name for other in sorted(cluster.objects.locals) if other.namespace == key.namespace]
        listed = f"there are: {', '.join(there)}" if there else "there is none"
        named = f"LocalQueue {workload.queue} does not exist" if workload.queue else "it names no LocalQueue"
        act = f"create LocalQueue {workload.queue or '...'} in namespace {key.namespace}, or name one that exists"
        return StateReport(
            WorkloadState.NO_LOCAL_QUEUE, f"has no queue: {named} (in namespace {key.namespace} {listed})", (act,)
        )
    if local.deleted is not None:
        return StateReport(WorkloadState.LOCAL_STOPPED, f"cannot queue: LocalQueue {key.name} is being deleted")
    if local.stop_policy is not StopPolicy.NONE:
        act = f"set spec.stopPolicy of LocalQueue {key.name} to None"
        return StateReport(
            WorkloadState.LOCAL_STOPPED,
            f"cannot queue: LocalQueue {key.name} is stopped ({local.stop_policy})",
            (act,),
            True,
        )
    return None


def _unreadable(workload: QueuedWorkload, cluster: ClusterSnapshot) -> StateReport | None:
    """Without the rights to read all that admission depends on, what the workload's own status says."""
    if not cluster.hidden:
        return None
    found = _failed_checks(workload, cluster) or _rests(workload, cluster)
    if found is not None:
        return structs.replace(found, then_quota=False)
    told = workload.condition(QUOTA_RESERVED)
    why = f"its status says: {condition_text(told).rstrip('.')}" if told is not None else "its status says nothing yet"
    return StateReport(WorkloadState.PENDING, f"is pending; {why}")


def _cluster_queue(workload: QueuedWorkload, cluster: ClusterSnapshot) -> StateReport | None:
    name = cluster.objects.queue_of(workload)
    queue = cluster.objects.queues.get(name)
    if queue is None:
        summary = f"has no queue: ClusterQueue {name}, which LocalQueue {workload.queue} names, does not exist"
        return StateReport(WorkloadState.NO_QUEUE, summary, (f"create ClusterQueue {name}",))
    if name in cluster.forest.cyclic:
        return StateReport(
            WorkloadState.INACTIVE,
            f"cannot queue: ClusterQueue {name} is inactive, because its cohorts form a cycle",
        )
    activity = cluster.objects.activity(queue)
    if not activity.active:
        only_stopped = activity.reason == "Stopped" and activity.message.endswith(": is stopped.")
        summary = f"is in an inactive ClusterQueue, {name}: {activity.message.rstrip('.')}"
        return StateReport(WorkloadState.INACTIVE, summary, tuple(_activations(queue, cluster)), only_stopped)
    if not cluster.objects.may_enter(queue, workload.key.namespace):
        return _wrong_namespace(queue, workload.key.namespace)
    return None


def _activations(queue: ClusterQueue, cluster: ClusterSnapshot) -> Iterator[str]:
    if queue.stop_policy is not StopPolicy.NONE:
        yield f"set spec.stopPolicy of ClusterQueue {queue.name} to None"
    for name in dict.fromkeys(entry.flavor for group in queue.groups for entry in group.flavors):
        if name not in cluster.objects.flavors:
            yield f"create ResourceFlavor {name}"
    for check in queue.checks:
        if check.name not in cluster.objects.checks:
            yield f"create AdmissionCheck {check.name}"


def _wrong_namespace(queue: ClusterQueue, namespace: str) -> StateReport:
    if queue.namespaces is None:
        act = f"give ClusterQueue {queue.name} a namespaceSelector ({{}} selects all namespaces)"
        return StateReport(
            WorkloadState.WRONG_NAMESPACE, f"may not queue: ClusterQueue {queue.name} selects no namespace", (act,)
        )
    wanted = ", ".join(_in_words(one) for one in queue.namespaces)
    act = f"label namespace {namespace} so that {wanted}"
    summary = f"may not queue: ClusterQueue {queue.name} is only for namespaces with {wanted}"
    return StateReport(WorkloadState.WRONG_NAMESPACE, summary, (act,))


def _in_words(one: Requirement) -> str:
    values = f" ({', '.join(one.values)})" if one.values else ""
    return f"{one.key} {one.operator}{values}"


def _failed_checks(workload: QueuedWorkload, cluster: ClusterSnapshot) -> StateReport | None:
    if not has_failed_checks(workload):
        return None
    failed = [one for one in workload.status.checks if one.state in (CheckState.RETRY, CheckState.REJECTED)]
    summary = f"has failed admission checks: {'; '.join(_check(one) for one in failed)}"
    return StateReport(WorkloadState.CHECKS_FAILED, summary, (), True)


def _rests(workload: QueuedWorkload, cluster: ClusterSnapshot) -> StateReport | None:
    if has_rested(workload, cluster.now):
        return None
    requeue, why = workload.status.requeue, condition_text(workload.condition(REQUEUED))
    because = f" ({why})" if why else ""
    if requeue is None or requeue.at is None:
        return StateReport(WorkloadState.BACKOFF, f"is not requeued yet{because}", (), True)
    left = max(0, requeue.at - cluster.now)
    tries = "1 try" if requeue.count == 1 else f"{requeue.count} tries"
    summary = f"backs off for another {duration_text(round(left))} after {tries}{because}"
    return StateReport(WorkloadState.BACKOFF, summary, (f"wait {duration_text(round(left))}",), True)


_RULES: tuple[Callable[[QueuedWorkload, ClusterSnapshot], StateReport | None], ...] = (
    _deleted,
    _finished,
    _holds_quota,
    _unsupported,
    _deactivated,
    _gated,
    _held,
    _local_queue,
    _unreadable,
    _cluster_queue,
    _failed_checks,
    _rests,
)
