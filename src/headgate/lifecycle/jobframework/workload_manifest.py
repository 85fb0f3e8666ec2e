"""The Workload that is created for work, as complete JSON.

It is put together here and not by the codecs of the API: it consists of the work's own templates, verbatim, and of
names and counts. So whoever decides that a Workload is needed can say which, and needs no one to encode it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from headgate.lifecycle.jobframework.generic_job import WantedPodSet, Work
from headgate.model.effects import Create
from headgate.model.keys import Kind, Target
from headgate.model.kueue_names import IN_USE, JOB_UID, MAX_EXECUTION_SECONDS, PRIORITY_CLASS, QUEUE_NAME, positive
from headgate.model.objects import PriorityClass
from headgate.model.queues import ADMISSION_GATED_BY, PriorityClassRef, WorkloadPriorityClass


class QueueRank(Struct, frozen=True, gc=False):
    value: int = 0
    ref: PriorityClassRef | None = None


def queue_rank(
    work: Work, workload_classes: Mapping[str, WorkloadPriorityClass], pod_classes: Mapping[str, PriorityClass]
) -> QueueRank | str:
    """The rank, or what has to be created first."""
    if name := work.labels.get(PRIORITY_CLASS, ""):
        known = workload_classes.get(name)
        if known is None:
            return f"WorkloadPriorityClass {name} does not exist"
        return QueueRank(known.value, PriorityClassRef("kueue.x-k8s.io", "WorkloadPriorityClass", name))
    return _of_pods(work.pod_priority_class, pod_classes)


def _of_pods(name: str, classes: Mapping[str, PriorityClass]) -> QueueRank | str:
    found = classes.get(name) if name else _default(classes)
    if found is None:
        return f"PriorityClass {name} does not exist" if name else QueueRank()
    return QueueRank(found.value, PriorityClassRef("scheduling.k8s.io", "PriorityClass", found.key.name))


def _default(classes: Mapping[str, PriorityClass]) -> PriorityClass | None:
    """Of several that say they are the default, the lowest is, as Kubernetes has it."""
    defaults = [each for each in classes.values() if each.is_default]
    return min(defaults, key=lambda each: (each.value, each.key), default=None)


API_VERSION = "kueue.x-k8s.io/v1beta2"
OWNING = {Kind.JOB: ("batch/v1", "Job"), Kind.POD: ("v1", "Pod"), Kind.STATEFUL_SET: ("apps/v1", "StatefulSet")}
"""The kinds that can own a Workload, as owner references name them."""


def create_workload(work: Work, rank: QueueRank, labels: Mapping[str, str]) -> Create:
    """`labels` are those it has in common with the work."""
    key, controller = work.workload_key, work.controller
    gated_by = work.annotations.get(ADMISSION_GATED_BY)
    metadata = {
        "name": key.name,
        "namespace": key.namespace,
        "labels": {**labels, JOB_UID: work.uid} if work.uid else labels,
        "annotations": {**({ADMISSION_GATED_BY: gated_by} if gated_by else {}), **work.marks},
        "finalizers": [IN_USE],
        "ownerReferences": [_reference(owner, owner == controller) for owner in work.owners],
    }
    spec = {name: value for name, value in _spec(work, rank).items() if value is not None}
    manifest = {"apiVersion": API_VERSION, "kind": "Workload", "metadata": metadata, "spec": spec}
    return Create(key, Raw(msgspec.json.encode(manifest)))


def common_labels(work: Work, names: Sequence[str]) -> Mapping[str, str] | None:
    """Those of the named labels that its parts have; None where they contradict each other."""
    found: dict[str, str] = {}
    for labels in work.labels_of_parts:
        for name in names:
            if name in labels and found.setdefault(name, labels[name]) != labels[name]:
                return None
    return found


def rewritten_spec(work: Work, rank: QueueRank) -> Raw:
    """All that the work has a say in; None takes a field away."""
    return Raw(msgspec.json.encode(_spec(work, rank)))


def priority_of(rank: QueueRank) -> Raw:
    return Raw(msgspec.json.encode(_priority(rank)))


def _spec(work: Work, rank: QueueRank) -> dict[str, Any]:
    return {
        "podSets": [_pod_set(wanted) for wanted in work.pod_sets()],
        "queueName": work.labels.get(QUEUE_NAME, "") or None,
        "maximumExecutionTimeSeconds": positive(work.labels, MAX_EXECUTION_SECONDS),
        **_priority(rank),
    }


def _priority(rank: QueueRank) -> dict[str, Any]:
    ref = rank.ref
    named = None if ref is None else {"group": ref.group, "kind": ref.kind, "name": ref.name}
    return {"priorityClassRef": named, "priority": rank.value}


def _pod_set(wanted: WantedPodSet) -> dict[str, Any]:
    entry = {"name": wanted.name, "count": wanted.count, "template": wanted.template}
    return entry if wanted.min_count is None else {**entry, "minCount": wanted.min_count}


def _reference(owner: Target, controls: bool) -> dict[str, Any]:
    api_version, kind = OWNING[owner.key.kind]
    reference = {"apiVersion": api_version, "kind": kind, "name": owner.key.name, "uid": owner.uid}
    return {**reference, "controller": True, "blockOwnerDeletion": True} if controls else reference
