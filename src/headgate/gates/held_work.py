"""May work that waits for quota be labelled like this, or be labelled anew? The rules all kinds of work share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headgate.gates.field_errors import FieldError, invalid, unchanged
from headgate.gates.queued_workloads import gate_change_errors, gate_errors
from headgate.gates.wire_values import ANNOTATIONS, LABELS, annotations_of, labels_of
from headgate.model.admission import Json
from headgate.model.kueue_names import MAX_EXECUTION_SECONDS, PREBUILT_WORKLOAD, PRIORITY_CLASS, QUEUE_NAME
from headgate.model.names import dns_subdomain_errors
from headgate.model.queues import ADMISSION_GATED_BY
from headgate.model.requirements import whole_number


def work_errors(new: Json) -> list[FieldError]:
    """All that is wrong with its labels and annotations as they are."""
    labels, annotations = labels_of(new), annotations_of(new)
    return [
        *name_errors(LABELS, labels, QUEUE_NAME),
        *name_errors(LABELS, labels, PREBUILT_WORKLOAD),
        *name_errors(ANNOTATIONS, annotations, PREBUILT_WORKLOAD),
        *_seconds_errors(labels),
        *gate_errors(annotations),
    ]


def work_change_errors(new: Json, old: Json, *, waits: bool, waited: bool) -> list[FieldError]:
    """What may not change so while its pods may start; `waits` and `waited`: they may not, now and before."""
    now, before = labels_of(new), labels_of(old)
    return [
        *(() if waits else _unchanged(QUEUE_NAME, now, before)),
        *unchanged(f"{LABELS}[{PREBUILT_WORKLOAD}]", prebuilt_workload(new), prebuilt_workload(old)),
        *class_change_errors(now, before, waits=waits),
        *(() if waits and waited else _unchanged(MAX_EXECUTION_SECONDS, now, before)),
        *gate_change_errors(gates_of(new), gates_of(old)),
    ]


def name_errors(path: str, given: Mapping[str, str], name: str) -> Iterator[FieldError]:
    """What is wrong with a label or annotation that is to be the name of an object."""
    if name in given and (wrong := dns_subdomain_errors(given[name])):
        yield invalid(f"{path}[{name}]", given[name], ",".join(wrong))


def prebuilt_workload(value: Json) -> str:
    """The name of the workload that somebody else has made for it."""
    return labels_of(value).get(PREBUILT_WORKLOAD) or annotations_of(value).get(PREBUILT_WORKLOAD, "")


def _seconds_errors(labels: Mapping[str, str]) -> Iterator[FieldError]:
    path, text = f"{LABELS}[{MAX_EXECUTION_SECONDS}]", labels.get(MAX_EXECUTION_SECONDS)
    if text is None:
        return
    seconds = whole_number(text)
    if seconds is None:
        yield invalid(path, text, "must be a whole number")
    elif seconds <= 0:
        yield invalid(path, seconds, "should be greater than 0")


def class_change_errors(now: Mapping[str, str], before: Mapping[str, str], *, waits: bool) -> Iterator[FieldError]:
    """A class may be exchanged for another; it is not taken away, and not given to work that already runs."""
    path, new, old = f"{LABELS}[{PRIORITY_CLASS}]", now.get(PRIORITY_CLASS, ""), before.get(PRIORITY_CLASS, "")
    if new and not old and not waits:
        yield invalid(path, new, "WorkloadPriorityClass cannot be added to a non-suspended workload")
    if old and not new:
        yield invalid(path, new, "WorkloadPriorityClass cannot be removed from a workload")


def _unchanged(label: str, now: Mapping[str, str], before: Mapping[str, str]) -> list[FieldError]:
    return unchanged(f"{LABELS}[{label}]", now.get(label, ""), before.get(label, ""))


def gates_of(value: Json) -> list[str]:
    """The controllers that hold it back."""
    named = annotations_of(value).get(ADMISSION_GATED_BY, "")
    return [name for name in named.split(",") if name]
