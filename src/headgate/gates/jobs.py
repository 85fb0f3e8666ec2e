"""Admission of Jobs: suspended when a queue manages them, and kept consistent while they wait."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.gates.fields import (
    ANNOTATIONS,
    AdmissionFieldError,
    annotations_of,
    forbidden,
    invalid,
    labels_of,
    spec_of,
    with_labels,
    with_spec,
)
from headgate.gates.managed_jobs import labels_to_add, work_change_errors, work_errors
from headgate.model.admission import (
    AdmissionAllowed,
    AdmissionRequest,
    DeferredResponse,
    Json,
    WebhookSettings,
    WithLookups,
)
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import (
    COMPLETIONS_EQUAL_PARALLELISM,
    ELASTIC_JOB,
    MIN_PARALLELISM,
    MULTIKUEUE,
    QUEUE_NAME,
)
from headgate.model.queues import AdmissionCheck, ClusterQueue, LocalQueue
from headgate.model.selectors import whole_number
from headgate.model.settings import JOBS

FEWEST, EQUAL = f"{ANNOTATIONS}[{MIN_PARALLELISM}]", f"{ANNOTATIONS}[{COMPLETIONS_EQUAL_PARALLELISM}]"
ELASTIC = f"{ANNOTATIONS}[{ELASTIC_JOB}]"
JOB_CONTROLLER = "kubernetes.io/job-controller"  # what spec.managedBy means where it says nothing
_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")


def suspended_if_managed(request: AdmissionRequest, settings: WebhookSettings) -> DeferredResponse:
    """Suspends a job that needs quota, and fills in the default queue and priority class, and who is to run it."""
    if JOBS not in settings.quota.frameworks:
        return AdmissionAllowed()
    labels = yield from labels_to_add(request, settings)
    if labels is None:
        return AdmissionAllowed()
    made = with_spec(with_labels(request.new, labels), suspend=True)
    if settings.dispatches and spec_of(made).get("managedBy") in (None, JOB_CONTROLLER):
        queue = labels_of(made).get(QUEUE_NAME, "")
        if (yield from _runs_elsewhere(Key(Kind.LOCAL_QUEUE, request.namespace, queue))):
            made = with_spec(made, managedBy=MULTIKUEUE)
    return AdmissionAllowed(made)


def _runs_elsewhere(queue: Key) -> WithLookups[bool]:
    """Whether jobs of that queue are dispatched to worker clusters: then none of their pods is to run here."""
    for local in (yield queue):
        name = local.cluster_queue if isinstance(local, LocalQueue) else ""
        for found in (yield Key(Kind.CLUSTER_QUEUE, "", name)):
            for required in found.checks if isinstance(found, ClusterQueue) else ():
                checks = yield Key(Kind.ADMISSION_CHECK, "", required.name)
                if any(isinstance(check, AdmissionCheck) and check.controller == MULTIKUEUE for check in checks):
                    return True
    return False


def job_errors(new: Json, old: Json | None = None) -> list[AdmissionFieldError]:
    """All errors of the object, and of the update from `old`."""
    errors = [*work_errors(new), *_equal_errors(new)]
    if old is None:
        return [*errors, *_fewest_errors(new)]
    return [
        *errors,
        *(_fewest_errors(new) if _fewest(new) != _fewest(old) else ()),
        *work_change_errors(new, old, waits=_is_suspended(new), waited=_is_suspended(old)),
        *_partial_change_errors(new, old),
    ]


def _fewest_errors(job: Json) -> Iterator[AdmissionFieldError]:
    """minParallelism must be at least 1 and below the number of pods."""
    text = _fewest(job)
    if text is None:
        return
    fewest, most = whole_number(text), _pods(job) - 1
    if fewest is None:
        yield invalid(FEWEST, text, "must be a whole number")
    elif not 0 < fewest <= most:
        yield invalid(FEWEST, fewest, f"should be between 0 and {most}")


def _equal_errors(job: Json) -> Iterator[AdmissionFieldError]:
    text, spec = annotations_of(job).get(COMPLETIONS_EQUAL_PARALLELISM), spec_of(job)
    if text is None or text in _FALSE:
        return
    if text not in _TRUE:
        yield invalid(EQUAL, text, "must be true or false")
        return
    if spec.get("completionMode", "NonIndexed") == "NonIndexed":
        yield invalid(EQUAL, text, "should not be enabled for NonIndexed jobs")
    completions = _number(job, "completions") or 1
    if completions != _parallelism(job):
        needed = f"should be equal to parallelism while {COMPLETIONS_EQUAL_PARALLELISM} is true"
        yield invalid("spec.completions", completions, needed)


def _partial_change_errors(new: Json, old: Json) -> Iterator[AdmissionFieldError]:
    """The number of pods is immutable while the job runs."""
    if _is_suspended(old):
        return
    if _fewest(old) is not None and _parallelism(new) != _parallelism(old):
        yield forbidden(
            "spec.parallelism", "cannot change when partial admission is enabled and the job is not suspended"
        )
    if annotations_of(new).get(ELASTIC_JOB) != annotations_of(old).get(ELASTIC_JOB):
        yield forbidden(ELASTIC, "field is immutable while the job is not suspended")
    if not _is_suspended(new) and _keeps_equal(new) != _keeps_equal(old):
        yield forbidden(EQUAL, "field is immutable while the job is not suspended")


def _fewest(job: Json) -> str | None:
    return annotations_of(job).get(MIN_PARALLELISM)


def _keeps_equal(job: Json) -> bool:
    return annotations_of(job).get(COMPLETIONS_EQUAL_PARALLELISM) in _TRUE


def _is_suspended(job: Json) -> bool:
    return bool(spec_of(job).get("suspend"))


def _parallelism(job: Json) -> int:
    number = _number(job, "parallelism")
    return 1 if number is None else number


def _pods(job: Json) -> int:
    """The number of pods that run at once."""
    completions = _number(job, "completions")
    return _parallelism(job) if completions is None else min(_parallelism(job), completions)


def _number(job: Json, field: str) -> int | None:
    number: int | None = spec_of(job).get(field)
    return number
