"""The clones on a worker cluster, of a Workload and of the job it was made for, and what home shows of them.

A clone is put together from the verbatim specs of the objects at home. It carries the label of its origin, and the
clone of a job names its Workload, so that the worker makes no other. The status of a job at home is that of its clone
on the worker cluster that admitted it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from headgate.model.effects import Create, JobProgress, PodRun
from headgate.model.keys import Key
from headgate.model.kueue_names import (
    JOB_UID,
    MANAGED,
    MULTIKUEUE,
    MULTIKUEUE_ORIGIN,
    OPENED_GATE,
    ORIGIN_UID,
    PREBUILT_WORKLOAD,
)
from headgate.model.objects import Job, StatefulSet
from headgate.model.pod import ENDED, Phase, Pod
from headgate.model.queues import QueuedWorkload

_OF_ITS_CONTROLLER = (
    *("controller-uid", "job-name"),
    *("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"),
)
_OF_THE_ORIGINAL_JOB = ("managedBy", "selector", "manualSelector")
_OF_THE_ORIGINAL_POD = ("nodeName", "hostname", "subdomain")
_fields = msgspec.json.Decoder(dict[str, Raw])

SUSPENDED = "Suspended"
STOPPED = "JobSuspended"


def workload_clone(home: QueuedWorkload, pod_sets: Sequence[Mapping[str, Any]], origin: str, *, gated: bool) -> Create:
    """`pod_sets` are those its job consists of, as they stand in a manifest; `gated`: it may not preempt by itself.

    The priority class was resolved at home: a class of the same name elsewhere may be worth something else.
    """
    labels = {name: value for name, value in home.labels.items() if name != JOB_UID}
    spec: dict[str, Any] = {"podSets": list(pod_sets), "queueName": home.queue, "priority": home.priority}
    if home.max_execution_seconds is not None:
        spec["maximumExecutionTimeSeconds"] = home.max_execution_seconds
    if gated:
        spec["preemptionGates"] = [{"name": MULTIKUEUE}]
    annotations = {name: value for name, value in home.annotations.items() if name != OPENED_GATE}
    metadata = {
        **_named(home.key),
        "labels": {**labels, MULTIKUEUE_ORIGIN: origin},
        "annotations": {**annotations, ORIGIN_UID: home.uid},
    }
    manifest = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": metadata, "spec": spec}
    return Create(home.key, Raw(msgspec.json.encode(manifest)))


def job_clone(job: Job, workload: Key, origin: str) -> Create:
    """Suspended, and run by whoever runs Jobs there."""
    spec: dict[str, Any] = {
        name: value for name, value in _fields.decode(job.spec).items() if name not in _OF_THE_ORIGINAL_JOB
    }
    spec["template"] = _template(spec.get("template", Raw(b"{}")))
    spec["suspend"] = True
    metadata = {
        **_named(job.key),
        "labels": _labels(job.labels, workload, origin),
        "annotations": dict(job.annotations),
    }
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    return Create(job.key, Raw(msgspec.json.encode(manifest)))


def pod_clone(pod: Pod, workload: Key, origin: str) -> Create:
    """Gated as it is at home, where it stays so."""
    fields = _fields.decode(pod.held.spec) if pod.held is not None else {}
    metadata = {
        **_named(pod.key),
        "labels": {**_labels(pod.labels, workload, origin), MANAGED: "true"},
        "annotations": dict(pod.annotations),
    }
    spec = {name: value for name, value in fields.items() if name not in _OF_THE_ORIGINAL_POD}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return Create(pod.key, Raw(msgspec.json.encode(manifest)))


def stateful_set_clone(found: StatefulSet, workload: Key, origin: str) -> Create:
    """The pods it makes there carry the labels of a clone too: their status is shown at home."""
    spec: dict[str, Any] = dict(_fields.decode(found.spec))
    template = _template(spec.get("template", Raw(b"{}")))
    metadata = template.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    labels = _labels(known.get("labels") or {}, workload, origin)
    spec["template"] = {**template, "metadata": {**known, "labels": labels}}
    named = {
        **_named(found.key),
        "labels": _labels(found.labels, workload, origin),
        "annotations": dict(found.annotations),
    }
    manifest = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": named, "spec": spec}
    return Create(found.key, Raw(msgspec.json.encode(manifest)))


def _named(key: Key) -> dict[str, Any]:
    return {"name": key.name, "namespace": key.namespace}


def _labels(labels: Mapping[str, str], workload: Key, origin: str) -> dict[str, str]:
    kept = {name: value for name, value in labels.items() if name not in _OF_ITS_CONTROLLER}
    return {**kept, PREBUILT_WORKLOAD: workload.name, MULTIKUEUE_ORIGIN: origin}


def _template(raw: Raw) -> dict[str, Any]:
    """Without the labels that the Job at home gave its pods: the clone gives its own."""
    template: dict[str, Any] = dict(_fields.decode(raw))
    metadata = msgspec.json.decode(template["metadata"]) if "metadata" in template else None
    if isinstance(metadata, dict):
        labels = metadata.get("labels") or {}
        kept = {name: value for name, value in labels.items() if name not in _OF_ITS_CONTROLLER}
        template["metadata"] = {**metadata, "labels": kept}
    return template


class _Shown(Struct, frozen=True):
    """What both statuses have in common, to be compared."""

    active: int
    ready: int
    succeeded: int
    failed: int
    ended: str
    suspended: bool


def job_status(home: Job, clone: Job | None, now: float) -> JobProgress | None:
    """The status the Job at home is to get; None when it shows that, or must not show it yet.

    A suspended Job shows no progress of pods that run. Without a clone it is at rest. Counters never go back, and the
    time of a start does not change while it runs.
    """
    if home.ended:
        return None
    if clone is None:
        return _at_rest(home, now) if home.suspended else None
    if home.suspended and not clone.suspended and not clone.ended:
        return None
    wanted = _Shown(
        0 if clone.ended else clone.active,
        0 if clone.ended else min(clone.ready, clone.active),
        max(home.succeeded, clone.succeeded),
        max(home.failed, clone.failed),
        clone.ended,
        home.suspended and not clone.ended,
    )
    indexes, shown = clone.indexes, home.indexes
    if wanted == _shown(home) and (indexes is None or shown is None or indexes.completed == shown.completed):
        return None
    return JobProgress(
        wanted.active,
        wanted.ready,
        wanted.succeeded,
        wanted.failed,
        _started(home, clone),
        now // 1.0,
        condition=clone.ended or (SUSPENDED if wanted.suspended else ""),
        reason=STOPPED if wanted.suspended else "",
        message=clone.ended_message,
        completed_indexes=indexes.completed if indexes is not None else None,
        failed_indexes=indexes.failed if indexes is not None and indexes.backoff_limit is not None else None,
    )


def _at_rest(home: Job, now: float) -> JobProgress | None:
    if not home.active and (home.started is None or home.suspension_shown):
        return None
    return JobProgress(
        0,
        0,
        home.succeeded,
        home.failed,
        None,
        now // 1.0,
        condition=SUSPENDED,
        reason=STOPPED,
        message="Job suspended",
    )


def _shown(job: Job) -> _Shown:
    return _Shown(job.active, job.ready, job.succeeded, job.failed, job.ended, job.suspension_shown)


def _started(home: Job, clone: Job) -> float | None:
    if home.started is not None and not home.suspended:
        return home.started
    return clone.started if clone.ended or not home.suspended else None


def pod_status(home: Pod, clone: Pod | None, now: float) -> PodRun | None:
    """The status a pod at home is to get; None when it shows that. It runs once its clone is ready.

    A clone that is stopped, as by an eviction there, has not failed: the pod at home may run again elsewhere.
    """
    if home.phase in ENDED:
        return None
    if clone is not None and clone.deleted is not None and clone.phase is Phase.FAILED and home.deleted is None:
        return None
    phase = Phase.PENDING if clone is None else clone.phase
    if clone is not None and phase is Phase.RUNNING and home.phase is not phase and not _is_ready(clone):
        phase = Phase.PENDING
    return None if phase is home.phase else PodRun(phase, now // 1.0)


def _is_ready(pod: Pod) -> bool:
    return pod.held is not None and pod.held.ready
