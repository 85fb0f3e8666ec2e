"""The Workload that is created for a job, as complete JSON, and the priority it gets.

It is put together here and not by the codecs of the API: it consists of the job's own templates, verbatim, and of
names and counts. So whoever decides that a Workload is needed can say which, and needs no one to encode it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from headgate.lifecycle.jobframework.generic_job import GenericJob, WantedPodSet
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
from headgate.model.queues import ADMISSION_GATED_BY, PriorityClassRef, WorkloadPriorityClass


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


API_VERSION = "kueue.x-k8s.io/v1beta2"
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
