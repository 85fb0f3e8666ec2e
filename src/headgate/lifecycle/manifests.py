"""The Workload that is created for work, as complete JSON.

It is put together here and not by the codecs of the API: it consists of the work's own templates, verbatim, and of
names and counts. So whoever decides that a Workload is needed can say which, and needs no one to encode it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from headgate.lifecycle.ranking import QueueRank
from headgate.lifecycle.work import WantedPodSet, Work
from headgate.model.effects import Create
from headgate.model.keys import Kind, Target
from headgate.model.kueue_names import IN_USE, IS_GROUP_WORKLOAD, JOB_UID, MAX_EXECUTION_SECONDS, QUEUE_NAME, positive
from headgate.model.queues import ADMISSION_GATED_BY

API_VERSION = "kueue.x-k8s.io/v1beta2"
OWNING = {Kind.JOB: ("batch/v1", "Job"), Kind.POD: ("v1", "Pod")}
"""The kinds that can own a Workload, as owner references name them."""


def create_workload(work: Work, rank: QueueRank) -> Create:
    key, controller = work.workload_key, work.controller
    gated_by = work.annotations.get(ADMISSION_GATED_BY)
    annotations = {ADMISSION_GATED_BY: gated_by} if gated_by else {}
    metadata = {
        "name": key.name,
        "namespace": key.namespace,
        "labels": {JOB_UID: controller.uid} if controller is not None else {},
        "annotations": annotations if controller is not None else {**annotations, IS_GROUP_WORKLOAD: "true"},
        "finalizers": [IN_USE],
        "ownerReferences": [_reference(part, part == controller) for part in work.parts],
    }
    spec = {name: value for name, value in _spec(work, rank).items() if value is not None}
    manifest = {"apiVersion": API_VERSION, "kind": "Workload", "metadata": metadata, "spec": spec}
    return Create(key, Raw(msgspec.json.encode(manifest)))


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
