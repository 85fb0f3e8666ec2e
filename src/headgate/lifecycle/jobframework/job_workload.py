"""The Workload of a job: as it is created, with the priority it gets, and the status it should show.

It is put together here and not by the codecs of the API: it consists of the job's own templates, verbatim, and of names
and counts. So whoever decides that a Workload is needed can say which, and needs no one to encode it. Where its status
shows already what it should, nothing changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from headgate.lifecycle.jobframework.generic_job import Ending, GenericJob, WantedPodSet
from headgate.lifecycle.terminating import WAITING_FOR_ROOM, Hold, with_hold
from headgate.lifecycle.workload.conditions import (
    ADMITTED,
    EVICTED,
    FINISHED,
    ON_HOLD,
    PENDING_EVALUATION,
    PODS_READY,
    QUOTA_RESERVED,
    REQUEUED,
    ConditionUpdate,
    edited,
    shows,
    true_conditions,
    with_status,
)
from headgate.lifecycle.workload.deadlines import RECOVERING, STARTING
from headgate.lifecycle.workload.eviction import released, unreserved
from headgate.model.effects import Create
from headgate.model.keys import Kind, Target
from headgate.model.kueue_names import (
    ELASTIC_JOB,
    IN_USE,
    JOB_UID,
    MAX_EXECUTION_SECONDS,
    PRIORITY_CLASS,
    QUEUE_NAME,
    positive,
)
from headgate.model.objects import PriorityClass
from headgate.model.queues import ADMISSION_GATED_BY, PriorityClassRef, QueuedWorkload, WorkloadPriorityClass

API_VERSION = "kueue.x-k8s.io/v1beta2"
WAITING = "WaitingForReplacementPods"
OWNER_GONE = Ending("OwnerNotFound", "The work this workload stands for is being deleted")
READY = "All pods reached readiness and the workload is running"
NO_LONGER_ON_HOLD = "Workload no longer on hold; waiting for quota reservation"
NOT_READY = {
    STARTING: "Not all pods are ready or succeeded",
    RECOVERING: "At least one pod has failed, waiting for recovery",
}


class JobPriority(Struct, frozen=True, gc=False):
    value: int = 0
    ref: PriorityClassRef | None = None


def job_priority(
    job: GenericJob, workload_classes: Mapping[str, WorkloadPriorityClass], pod_classes: Mapping[str, PriorityClass]
) -> JobPriority | str:
    """The rank, or what has to be created first."""
    if name := job.labels.get(PRIORITY_CLASS, ""):
        known = workload_classes.get(name)
        if known is None:
            return f"WorkloadPriorityClass {name} does not exist"
        return JobPriority(known.value, PriorityClassRef("kueue.x-k8s.io", "WorkloadPriorityClass", name))
    return _of_pods(job.pod_priority_class, pod_classes)


def _of_pods(name: str, classes: Mapping[str, PriorityClass]) -> JobPriority | str:
    found = classes.get(name) if name else _default(classes)
    if found is None:
        return f"PriorityClass {name} does not exist" if name else JobPriority()
    return JobPriority(found.value, PriorityClassRef("scheduling.k8s.io", "PriorityClass", found.key.name))


def _default(classes: Mapping[str, PriorityClass]) -> PriorityClass | None:
    """Of several that say they are the default, the lowest is, as Kubernetes has it."""
    defaults = [each for each in classes.values() if each.is_default]
    return min(defaults, key=lambda each: (each.value, each.key), default=None)


OWNING = {Kind.JOB: ("batch/v1", "Job"), Kind.POD: ("v1", "Pod"), Kind.STATEFUL_SET: ("apps/v1", "StatefulSet")}
"""The kinds that can own a Workload, as owner references name them."""


def create_workload(job: GenericJob, rank: JobPriority, labels: Mapping[str, str]) -> Create:
    """`labels` are those it has in common with the job."""
    key, controller = job.workload_key, job.controller
    gated_by = job.annotations.get(ADMISSION_GATED_BY)
    metadata = {
        "name": key.name,
        "namespace": key.namespace,
        "labels": {**labels, JOB_UID: job.uid} if job.uid else labels,
        "annotations": {
            **({ADMISSION_GATED_BY: gated_by} if gated_by else {}),
            **({ELASTIC_JOB: "true"} if is_elastic(job) else {}),
            **job.workload_annotations,
        },
        "finalizers": [IN_USE],
        "ownerReferences": [_reference(owner, owner == controller) for owner in job.owners],
    }
    spec = {name: value for name, value in _spec(job, rank).items() if value is not None}
    manifest = {"apiVersion": API_VERSION, "kind": "Workload", "metadata": metadata, "spec": spec}
    return Create(key, Raw(msgspec.json.encode(manifest)))


def is_elastic(job: GenericJob) -> bool:
    """Whether it is to be resized while it runs."""
    return job.annotations.get(ELASTIC_JOB) == "true"


def common_labels(job: GenericJob, names: Sequence[str]) -> Mapping[str, str] | None:
    """Those of the named labels that its parts have; None where they contradict each other."""
    found: dict[str, str] = {}
    for labels in job.part_labels:
        for name in names:
            if name in labels and found.setdefault(name, labels[name]) != labels[name]:
                return None
    return found


def rewritten_spec(job: GenericJob, rank: JobPriority) -> Raw:
    """All fields that the job decides; None removes a field."""
    return Raw(msgspec.json.encode(_spec(job, rank)))


def priority_of(rank: JobPriority) -> Raw:
    return Raw(msgspec.json.encode(_priority(rank)))


def _spec(job: GenericJob, rank: JobPriority) -> dict[str, Any]:
    return {
        "podSets": pod_set_entries(job),
        "queueName": job.labels.get(QUEUE_NAME, "") or None,
        "maximumExecutionTimeSeconds": positive(job.labels, MAX_EXECUTION_SECONDS),
        **_priority(rank),
    }


def pod_set_entries(job: GenericJob) -> list[dict[str, Any]]:
    """The pod sets it consists of, as they stand in the manifest of its Workload."""
    return [_pod_set(wanted) for wanted in job.pod_sets()]


def _priority(rank: JobPriority) -> dict[str, Any]:
    ref = rank.ref
    named = None if ref is None else {"group": ref.group, "kind": ref.kind, "name": ref.name}
    return {"priorityClassRef": named, "priority": rank.value}


def _pod_set(wanted: WantedPodSet) -> dict[str, Any]:
    entry = {"name": wanted.name, "count": wanted.count, "template": wanted.template}
    if wanted.min_count is not None:
        entry["minCount"] = wanted.min_count
    if wanted.topology:
        entry["topologyRequest"] = {name: True if name == "unconstrained" else value for name, value in wanted.topology}
    return entry


def _reference(owner: Target, controls: bool) -> dict[str, Any]:
    api_version, kind = OWNING[owner.key.kind]
    reference = {"apiVersion": api_version, "kind": kind, "name": owner.key.name, "uid": owner.uid}
    return {**reference, "controller": True, "blockOwnerDeletion": True} if controls else reference


def progressed(
    job: GenericJob, workload: QueuedWorkload, active: bool, now: float, hold: Hold | None = None
) -> QueuedWorkload:
    """The Workload as it should be. `active`: a part of the job holds quota, or may be about to.

    A job that is deleted is finished, unless we deleted it and others may take its place.
    """
    true = true_conditions(workload)
    if FINISHED in true:
        return workload
    if hold is not None or WAITING_FOR_ROOM in true:
        workload = with_hold(workload, hold, now)
    if (ending := job.ending) is not None:
        return finished(workload, ending, now)
    if QUOTA_RESERVED in true:
        workload = _with_reclaimable(job, workload)
    if job.missing is not None:
        workload = _with_replacements(job.missing, workload, now)
    if job.on_hold or QUOTA_RESERVED not in true:
        before, workload = workload, _with_on_hold(job, workload, active, now)
        true = true if workload is before else true_conditions(workload)
    if EVICTED in true:
        workload = (
            _with_release(job, workload, now) if workload.status.admission is not None and not active else workload
        )
    elif ADMITTED in true:
        workload = _with_readiness(job, workload, PODS_READY in true, now)
    is_over = job.is_terminating and not active and not (EVICTED in true and job.can_restart)
    return finished(workload, OWNER_GONE, now) if is_over else workload


def finished(workload: QueuedWorkload, ending: Ending, now: float) -> QueuedWorkload:
    return _showing(workload, ConditionUpdate(FINISHED, True, ending.reason, ending.message), now)


def _with_release(job: GenericJob, workload: QueuedWorkload, now: float) -> QueuedWorkload:
    """An evicted Workload releases its quota; one whose job cannot restart is not requeued."""
    workload = with_status(workload, released(workload, now))
    again, evicted = workload.condition(REQUEUED), workload.condition(EVICTED)
    if again is not None and evicted is not None and not job.can_restart:
        workload = _showing(workload, ConditionUpdate(REQUEUED, False, again.reason, again.message), now)
    if workload.is_true(PODS_READY):
        workload = _showing(workload, ConditionUpdate(PODS_READY, False, STARTING, NOT_READY[STARTING]), now)
    return workload


def _with_on_hold(job: GenericJob, workload: QueuedWorkload, active: bool, now: float) -> QueuedWorkload:
    """A job on hold has no quota and does not queue for it until the hold ends."""
    if job.on_hold and workload.active and not active and not workload.is_on_hold:
        return with_status(workload, unreserved(workload, ON_HOLD, job.on_hold, now))
    if workload.is_on_hold and not job.on_hold:
        return _showing(workload, ConditionUpdate(QUOTA_RESERVED, False, PENDING_EVALUATION, NO_LONGER_ON_HOLD), now)
    return workload


def _with_reclaimable(job: GenericJob, workload: QueuedWorkload) -> QueuedWorkload:
    """Pods that are done stay done; no set has more of them than it has pods."""
    known, found = dict(workload.status.reclaimable), dict(job.reclaimable)
    each = [
        (pod_set.name, min(pod_set.count, max(known.get(pod_set.name, 0), found.get(pod_set.name, 0))))
        for pod_set in workload.pod_sets
    ]
    reclaimable = tuple((name, count) for name, count in each if count or name in known)
    return with_status(workload, replace(workload.status, reclaimable=reclaimable))


def _with_readiness(job: GenericJob, workload: QueuedWorkload, was_ready: bool, now: float) -> QueuedWorkload:
    """That pods are not ready yet is not written, which saves a write per Workload; that they are no longer, is."""
    is_ready = job.is_ready
    if is_ready and not was_ready:
        shown = workload.condition(PODS_READY)
        recovered = shown is not None and shown.reason == RECOVERING
        return _showing(
            workload, ConditionUpdate(PODS_READY, True, "Recovered" if recovered else "Started", READY), now
        )
    if was_ready and not is_ready:
        return _showing(workload, ConditionUpdate(PODS_READY, False, RECOVERING, NOT_READY[RECOVERING]), now)
    return workload


def _with_replacements(missing: int, workload: QueuedWorkload, now: float) -> QueuedWorkload:
    shown = workload.condition(WAITING)
    if shown is None and not missing:
        return workload
    if not missing:
        return _showing(workload, ConditionUpdate(WAITING, False, PODS_READY, "No pods need replacement"), now)
    evicted = workload.condition(EVICTED)
    if evicted is not None and evicted.status == "True":
        return _showing(workload, ConditionUpdate(WAITING, True, evicted.reason, evicted.message), now)
    if shown is not None and shown.status == "True":
        return workload
    return _showing(workload, ConditionUpdate(WAITING, True, "PodsFailed", "Some Failed pods need replacement"), now)


def _showing(workload: QueuedWorkload, update: ConditionUpdate, now: float) -> QueuedWorkload:
    return workload if shows(workload, update) else with_status(workload, edited(workload, now, update))
