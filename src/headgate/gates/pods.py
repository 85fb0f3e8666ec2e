"""Admission of pods and pod groups that name a queue: gated until they are admitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headgate.gates.fields import (
    ANNOTATIONS,
    LABELS,
    AdmissionFieldError,
    annotations_of,
    forbidden,
    invalid,
    labels_of,
    required,
    spec_of,
    unchanged,
    with_annotations,
    with_finalizer,
    with_labels,
    with_spec,
)
from headgate.gates.managed_jobs import labels_to_add, name_errors, prebuilt_workload, work_change_errors, work_errors
from headgate.gates.replicas import as_member_of_set
from headgate.model.admission import AdmissionAllowed, AdmissionRequest, DeferredResponse, Json, WebhookSettings
from headgate.model.kueue_names import (
    ADMISSION_GATE,
    GROUP_NAME,
    GROUP_TOTAL,
    MANAGED,
    MANAGED_VALUE,
    PREBUILT_WORKLOAD,
    RETRIABLE,
    ROLE_HASH,
    SUSPENDED_BY_PARENT,
)
from headgate.model.pod import ENDED, Pod
from headgate.model.selectors import whole_number
from headgate.model.settings import PODS, STATEFUL_SETS

GROUP, TOTAL = f"{LABELS}[{GROUP_NAME}]", f"{ANNOTATIONS}[{GROUP_TOTAL}]"
TOGETHER = f"both the '{GROUP_TOTAL}' annotation and the '{GROUP_NAME}' label should be set"


def gated_if_managed(request: AdmissionRequest, settings: WebhookSettings) -> DeferredResponse:
    """Gates a pod that needs quota, and adds the finalizer that keeps it until its end was counted.

    What gates pods for a parent of theirs sees to the rest itself.
    """
    if (parent := annotations_of(request.new).get(SUSPENDED_BY_PARENT)) is not None:
        gated = _gated(request, {}, settings)
        return AdmissionAllowed(
            (yield from as_member_of_set(gated, request.namespace)) if parent == STATEFUL_SETS else gated
        )
    if PODS not in settings.quota.frameworks:
        return AdmissionAllowed()
    labels = yield from labels_to_add(request, settings)
    if labels is None:
        return AdmissionAllowed()
    return AdmissionAllowed(with_finalizer(_gated(request, {**labels, MANAGED: MANAGED_VALUE}, settings), MANAGED))


def pod_errors(new: Json, old: Json | None = None) -> list[AdmissionFieldError]:
    """All errors of the object, and of the update from `old`."""
    errors = [*work_errors(new), *_managed_errors(new), *_group_errors(new), *_prebuilt_errors(new)]
    if old is None:
        return errors
    kept = unchanged(GROUP, _group(new), _group(old)) if _group(old) else []
    changes = work_change_errors(new, old, waits=_waits(new), waited=_waits(old))
    return [*changes, *errors, *kept, *_retriable_errors(new, old)]


def _gated(request: AdmissionRequest, labels: Mapping[str, str], settings: WebhookSettings) -> Json:
    pod = with_labels(request.new, labels)
    if ADMISSION_GATE not in _gates(pod):
        pod = with_spec(pod, schedulingGates=[*(spec_of(pod).get("schedulingGates") or ()), {"name": ADMISSION_GATE}])
    read = request.decoded
    role = {ROLE_HASH: settings.role_hash(read.shape, read.priority)} if isinstance(read, Pod) else {}
    return with_annotations(pod, role) if role else pod


def _managed_errors(pod: Json) -> Iterator[AdmissionFieldError]:
    if labels_of(pod).get(MANAGED, MANAGED_VALUE) != MANAGED_VALUE:
        yield forbidden(f"{LABELS}[{MANAGED}]", f"managed label value can only be '{MANAGED_VALUE}'")


def _group_errors(pod: Json) -> list[AdmissionFieldError]:
    total = annotations_of(pod).get(GROUP_TOTAL)
    if not _group(pod):
        return [] if total is None else [required(GROUP, TOGETHER)]
    wrong = [
        *name_errors(LABELS, labels_of(pod), GROUP_NAME),
        *name_errors(ANNOTATIONS, annotations_of(pod), GROUP_NAME),
    ]
    return [*wrong, *([required(TOTAL, TOGETHER)] if total is None else _total_errors(total))]


def _total_errors(total: str) -> Iterator[AdmissionFieldError]:
    number = whole_number(total)
    if number is None:
        yield invalid(TOTAL, total, "must be a whole number")
    elif number < 1:
        yield invalid(TOTAL, total, "group total count should be greater than zero")


def _prebuilt_errors(pod: Json) -> Iterator[AdmissionFieldError]:
    """The workload of a pod group has the group's name."""
    prebuilt, group = prebuilt_workload(pod), _group(pod)
    if prebuilt and group and prebuilt != group:
        yield invalid(f"{LABELS}[{PREBUILT_WORKLOAD}]", prebuilt, "prebuilt workload and pod group should be equal")


def _retriable_errors(new: Json, old: Json) -> Iterator[AdmissionFieldError]:
    if _group(new) and _is_final(old) and not _is_final(new):
        path = f"{ANNOTATIONS}[{RETRIABLE}]"
        yield forbidden(path, "unretriable pod group can't be converted to retriable")


def _group(pod: Json) -> str:
    return labels_of(pod).get(GROUP_NAME) or annotations_of(pod).get(GROUP_NAME, "")


def _is_final(pod: Json) -> bool:
    return annotations_of(pod).get(RETRIABLE) == "false"


def _gates(pod: Json) -> list[str]:
    return [gate["name"] for gate in spec_of(pod).get("schedulingGates") or ()]


def _waits(pod: Json) -> bool:
    """Whether the pod is gated or terminated, and so uses no quota."""
    return ADMISSION_GATE in _gates(pod) or (pod.get("status") or {}).get("phase") in ENDED
