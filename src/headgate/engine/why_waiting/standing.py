"""Where a workload stands before quota comes into it: done, holding quota, kept out, or waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct, structs

from headgate.engine.why_waiting.answers import Verdict
from headgate.engine.why_waiting.cluster import Cluster
from headgate.lifecycle.terminating.holds import WAITING_FOR_ROOM
from headgate.lifecycle.workload.checks import required_checks
from headgate.lifecycle.workload.conditions import (
    ADMITTED,
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    QUOTA_RESERVED,
    REQUEUED,
    without,
)
from headgate.model.conditions import Condition
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

WAITS_FOR_REPLACEMENT = "WaitingForReplacementPods"


class Standing(Struct, frozen=True):
    """`acts` say what would change it. With `then_quota` it would wait for quota next, and whether it gets some is
    worth knowing."""

    verdict: Verdict
    summary: str
    acts: tuple[str, ...] = ()
    then_quota: bool = False


def standing(workload: QueuedWorkload, cluster: Cluster) -> Standing | None:
    """None: it waits for quota, and for nothing else."""
    return next((found for rule in _RULES if (found := rule(workload, cluster)) is not None), None)


def unhindered(workload: QueuedWorkload) -> QueuedWorkload:
    """The workload as one that nothing but quota keeps waiting."""
    freed = structs.replace(workload, active=True, gated_by=(), requeue=None, checks=())
    for told in (REQUEUED, WAITS_FOR_REPLACEMENT, QUOTA_RESERVED):
        freed = without(freed, told)
    return freed


def told(condition: Condition | None) -> str:
    """A condition's reason and message."""
    if condition is None:
        return ""
    return f"{condition.reason}: {condition.message}" if condition.message else condition.reason


def _deleted(workload: QueuedWorkload, cluster: Cluster) -> Standing | None:
    if workload.deleted is None:
        return None
    kept = ", ".join(workload.finalizers) or "nothing"
    return Standing(Verdict.DELETED, f"is being deleted; kept by finalizers: {kept}")


def _finished(workload: QueuedWorkload, cluster: Cluster) -> Standing | None:
    if not workload.is_true(FINISHED):
        return None
    return Standing(Verdict.FINISHED, f"has finished: {told(workload.condition(FINISHED))}")


def _holds_quota(workload: QueuedWorkload, cluster: Cluster) -> Standing | None:
    given = workload.admission
    if given is None:
        return None
    if workload.is_true(EVICTED):
        why = told(workload.condition(EVICTED))
        acts = ("its pods must end; then it gives its quota back and queues up again",)
        return Standing(Verdict.LEAVING, f"was told to leave and still holds its quota: {why}", acts)
    if workload.is_true(ADMITTED) and (held := workload.condition(WAITING_FOR_ROOM)) and held.status == "True":
        acts = ("wait for these pods to end; it starts at the time named in any case",)
        return Standing(Verdict.NO_ROOM, f"is admitted and held: {held.message}", acts)
    if workload.is_true(ADMITTED):
        return Standing(Verdict.ADMITTED, f"is admitted by ClusterQueue {given.cluster_queue}: {_flavors(given)}")
    return _waits_for_checks(workload, given, cluster)


def _flavors(given: Admission) -> str:
    parts = [
        f"{one.count} pods of {one.name} on {', '.join(sorted({flavor for _, flavor in one.flavors})) or 'no flavor'}"
        for one in given.pod_sets
    ]
    return "; ".join(parts)


def _waits_for_checks(workload: QueuedWorkload, given: Admission, cluster: Cluster) -> Standing:
    queue = cluster.around.queues.get(given.cluster_queue)
    states = {check.name: check for check in workload.checks}
    names = required_checks(queue, given) if queue is not None else tuple(sorted(states))
    open_ones = [states.get(name, CheckStatus(name)) for name in names]
    waiting = [check for check in open_ones if check.state is not CheckState.READY]
    said = "; ".join(_check(check) for check in waiting) or "all of them are Ready, and nobody has said so yet"
    acts = tuple(f"the controller of admission check {check.name} must say Ready" for check in waiting)
    return Standing(Verdict.CHECKS, f"has quota and waits for its admission checks: {said}", acts)


def _check(check: CheckStatus) -> str:
    return f"{check.name} is {check.state}" + (f" ({check.message})" if check.message else "")


def _deactivated(workload: QueuedWorkload, cluster: Cluster) -> Standing | None:
    if workload.active:
        return None
    why = told(workload.condition(DEACTIVATION_TARGET) or workload.condition(EVICTED))
    summary = "is deactivated (spec.active is false)" + (f": {why}" if why else "")
    return Standing(Verdict.DEACTIVATED, summary, ("set spec.active to true",), True)


def _gated(workload: QueuedWorkload, cluster: Cluster) -> Standing | None:
    if not workload.gated_by:
        return None
    names = ", ".join(workload.gated_by)
    act = f"{names} must be taken off its annotation kueue.x-k8s.io/admission-gated-by"
    return Standing(Verdict.GATED, f"is held back by {names}", (act,), True)


def _held(workload: QueuedWorkload, cluster: Cluster) -> Standing | None:
    if workload.is_on_hold:
        return Standing(Verdict.ON_HOLD, f"is on hold: {told(workload.condition(QUOTA_RESERVED))}", (), True)
    if workload.is_true(WAITS_FOR_REPLACEMENT):
        why = told(workload.condition(WAITS_FOR_REPLACEMENT))
        return Standing(Verdict.ON_HOLD, f"waits for pods in place of those that failed: {why}", (), True)
    if workload.is_true(QUOTA_RESERVED):
        return Standing(Verdict.ON_HOLD, "shows QuotaReserved, but no admission: its status contradicts itself")
    return None


def _local_queue(workload: QueuedWorkload, cluster: Cluster) -> Standing | None:
    key = cluster.around.local_of(workload)
    local = cluster.around.locals.get(key)
    if local is None:
        there = [other.name for other in sorted(cluster.around.locals) if other.namespace == key.namespace]
        listed = f"there are: {', '.join(there)}" if there else "there is none"
        named = f"LocalQueue {workload.queue} does not exist" if workload.queue else "it names no LocalQueue"
        act = f"create LocalQueue {workload.queue or '...'} in namespace {key.namespace}, or name one that exists"
        return Standing(
            Verdict.NO_LOCAL_QUEUE, f"has no queue: {named} (in namespace {key.namespace} {listed})", (act,)
        )
    if local.deleted is not None:
        return Standing(Verdict.LOCAL_STOPPED, f"cannot queue: LocalQueue {key.name} is being deleted")
    if local.stop_policy is not StopPolicy.NONE:
        act = f"set spec.stopPolicy of LocalQueue {key.name} to None"
        return Standing(
            Verdict.LOCAL_STOPPED, f"cannot queue: LocalQueue {key.name} is stopped ({local.stop_policy})", (act,), True
        )
    return None


def _cluster_queue(workload: QueuedWorkload, cluster: Cluster) -> Standing | None:
    name = cluster.around.queue_of(workload)
    queue = cluster.around.queues.get(name)
    if queue is None:
        summary = f"has no queue: ClusterQueue {name}, which LocalQueue {workload.queue} names, does not exist"
        return Standing(Verdict.NO_QUEUE, summary, (f"create ClusterQueue {name}",))
    if name in cluster.forest.cyclic:
        return Standing(
            Verdict.INACTIVE, f"cannot queue: ClusterQueue {name} is inactive, since the cohorts above it form a ring"
        )
    activity = cluster.around.activity(queue)
    if not activity.active:
        only_stopped = activity.reason == "Stopped" and activity.message.endswith(": is stopped.")
        summary = f"gets no quota of an inactive ClusterQueue {name}: {activity.message.rstrip('.')}"
        return Standing(Verdict.INACTIVE, summary, tuple(_activations(queue, cluster)), only_stopped)
    if not cluster.around.may_enter(queue, workload.key.namespace):
        return _wrong_namespace(queue, workload.key.namespace)
    return None


def _activations(queue: ClusterQueue, cluster: Cluster) -> Iterator[str]:
    if queue.stop_policy is not StopPolicy.NONE:
        yield f"set spec.stopPolicy of ClusterQueue {queue.name} to None"
    for name in dict.fromkeys(entry.flavor for group in queue.groups for entry in group.flavors):
        if name not in cluster.around.flavors:
            yield f"create ResourceFlavor {name}"
    for check in queue.checks:
        if check.name not in cluster.around.checks:
            yield f"create AdmissionCheck {check.name}"


def _wrong_namespace(queue: ClusterQueue, namespace: str) -> Standing:
    if queue.namespaces is None:
        act = f"give ClusterQueue {queue.name} a namespaceSelector ({{}} selects all namespaces)"
        return Standing(
            Verdict.WRONG_NAMESPACE, f"may not queue: ClusterQueue {queue.name} selects no namespace", (act,)
        )
    wanted = ", ".join(_in_words(one) for one in queue.namespaces)
    act = f"label namespace {namespace} so that {wanted}"
    summary = f"may not queue: ClusterQueue {queue.name} is only for namespaces with {wanted}"
    return Standing(Verdict.WRONG_NAMESPACE, summary, (act,))


def _in_words(one: Requirement) -> str:
    values = f" ({', '.join(one.values)})" if one.values else ""
    return f"{one.key} {one.operator}{values}"


def _failed_checks(workload: QueuedWorkload, cluster: Cluster) -> Standing | None:
    if not has_failed_checks(workload):
        return None
    failed = [one for one in workload.checks if one.state in (CheckState.RETRY, CheckState.REJECTED)]
    summary = f"has failed admission checks: {'; '.join(_check(one) for one in failed)}"
    return Standing(Verdict.CHECKS_FAILED, summary, (), True)


def _rests(workload: QueuedWorkload, cluster: Cluster) -> Standing | None:
    if has_rested(workload, cluster.now):
        return None
    requeue, why = workload.requeue, told(workload.condition(REQUEUED))
    because = f" ({why})" if why else ""
    if requeue is None or requeue.at is None:
        return Standing(Verdict.BACKOFF, f"may not queue up again yet{because}", (), True)
    left = max(0, requeue.at - cluster.now)
    summary = f"rests for another {left:.0f} s before it queues up again, after {requeue.count} tries{because}"
    return Standing(Verdict.BACKOFF, summary, (f"wait {left:.0f} s",), True)


_RULES: tuple[Callable[[QueuedWorkload, Cluster], Standing | None], ...] = (
    _deleted,
    _finished,
    _holds_quota,
    _deactivated,
    _gated,
    _held,
    _local_queue,
    _cluster_queue,
    _failed_checks,
    _rests,
)
