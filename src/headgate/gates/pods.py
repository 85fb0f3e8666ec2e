"""Admission of pods and pod groups that name a queue, gated until they are admitted, and of what makes such pods.

Of Deployments and StatefulSets that name a queue it is the pods that wait in it: those of a Deployment each for itself,
those of a StatefulSet all together, in a group of the set's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headgate.gates.fields import (
    ANNOTATIONS,
    LABELS,
    AdmissionFieldError,
    annotations_of,
    forbidden,
    immutable,
    invalid,
    is_going,
    labels_of,
    required,
    spec_of,
    unchanged,
    with_annotations,
    with_finalizer,
    with_labels,
    with_spec,
)
from headgate.gates.managed_jobs import (
    class_change_errors,
    controller_of,
    found_owner,
    gates_of,
    labels_to_add,
    name_errors,
    prebuilt_workload,
    work_change_errors,
    work_errors,
)
from headgate.gates.queues import gate_change_errors, gate_errors
from headgate.model.admission import (
    AdmissionAllowed,
    AdmissionHandler,
    AdmissionRequest,
    DeferredResponse,
    Json,
    WebhookSettings,
    WithLookups,
)
from headgate.model.kueue_names import (
    ADMISSION_GATE,
    FAST_ADMISSION,
    GROUP_NAME,
    GROUP_TOTAL,
    MANAGED,
    MANAGED_VALUE,
    PREBUILT_WORKLOAD,
    PRIORITY_CLASS,
    QUEUE_NAME,
    RETRIABLE,
    ROLE_HASH,
    SERVING,
    SUSPENDED_BY_PARENT,
    stateful_set_workload,
)
from headgate.model.objects import StatefulSet
from headgate.model.pod import ENDED, Pod
from headgate.model.selectors import whole_number
from headgate.model.settings import DEPLOYMENTS, PODS, STATEFUL_SETS

GROUP, TOTAL = f"{LABELS}[{GROUP_NAME}]", f"{ANNOTATIONS}[{GROUP_TOTAL}]"
TOGETHER = f"both the '{GROUP_TOTAL}' annotation and the '{GROUP_NAME}' label should be set"

MAIN = "main"
QUEUE_PATH = f"{LABELS}[{QUEUE_NAME}]"
PASSED_ON = (QUEUE_NAME, PRIORITY_CLASS)
"""Labels that are passed on to pods."""


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


def pods_wait(framework: str) -> AdmissionHandler:
    """Passes queue and priority class of a Deployment or StatefulSet on to the pods it creates from now on."""

    def handle(request: AdmissionRequest, settings: WebhookSettings) -> DeferredResponse:
        parent = annotations_of(_template(request.new)).get(SUSPENDED_BY_PARENT, framework)
        if framework not in settings.quota.frameworks or parent != framework or is_going(request.new):
            return AdmissionAllowed()
        labels = yield from labels_to_add(request, settings)
        if labels is None:
            return AdmissionAllowed()
        whole = with_labels(request.new, labels)
        own = {name: value for name in PASSED_ON if (value := labels_of(whole).get(name))}
        managed = {MANAGED: MANAGED_VALUE} if framework == DEPLOYMENTS else {}
        pods = with_annotations(with_labels(_template(whole), {**managed, **own}), {SUSPENDED_BY_PARENT: framework})
        return AdmissionAllowed(with_spec(whole, template=pods))

    return handle


def as_member_of_set(pod: Json, namespace: str) -> WithLookups[Json]:
    """A pod of a StatefulSet, as a member of the pod group of that set; other pods unchanged."""
    owner = controller_of(pod, namespace)
    parent = (yield from found_owner(owner)) if owner is not None else None
    if not isinstance(parent, StatefulSet):
        return pod
    group = stateful_set_workload(parent.key.name, parent.uid, parent.labels)
    own = {name: value for name in PASSED_ON if (value := parent.labels.get(name))}
    annotations = {
        PREBUILT_WORKLOAD: group,
        GROUP_NAME: group,
        GROUP_TOTAL: str(parent.replicas),
        FAST_ADMISSION: "true",
        SERVING: "true",
        ROLE_HASH: MAIN,
    }
    return with_annotations(with_labels(pod, {MANAGED: MANAGED_VALUE, **own}), annotations)


def replicas_errors(new: Json, old: Json | None = None) -> list[AdmissionFieldError]:
    """All errors of a Deployment or StatefulSet, and of the update from `old`."""
    errors = [*name_errors(LABELS, labels_of(new), QUEUE_NAME), *gate_errors(annotations_of(new))]
    if old is None:
        return errors
    waits = not (old.get("status") or {}).get("readyReplicas")
    queues = [labels_of(value).get(QUEUE_NAME, "") for value in (new, old)]
    return [
        *errors,
        *([] if waits and queues[0] else unchanged(QUEUE_PATH, *queues)),
        *class_change_errors(labels_of(new), labels_of(old), waits=waits),
        *gate_change_errors(gates_of(new), gates_of(old)),
    ]


def stateful_set_errors(request: AdmissionRequest) -> list[AdmissionFieldError]:
    new, old = request.new, request.old
    if annotations_of(_template(new)).get(SUSPENDED_BY_PARENT, STATEFUL_SETS) != STATEFUL_SETS:
        return []
    errors = replicas_errors(new, old)
    return errors if old is None else [*errors, *_scaling_errors(new, old), *_shape_errors(request)]


def _scaling_errors(new: Json, old: Json) -> Iterator[AdmissionFieldError]:
    """A StatefulSet is admitted as a whole, so it can only be scaled to and from zero."""
    now, before = _replicas(new), _replicas(old)
    if now and before and now != before:
        yield immutable("spec.replicas")
    if now and not before and (new.get("status") or {}).get("replicas"):
        yield forbidden("spec.replicas", "scaling down is still in progress")


def _shape_errors(request: AdmissionRequest) -> Iterator[AdmissionFieldError]:
    """The pod template is immutable while the set is admitted."""
    now, before = request.decoded, request.decoded_old
    if not isinstance(now, StatefulSet) or not isinstance(before, StatefulSet):
        return
    if (now.pods.shape, now.pods.needs) != (before.pods.shape, before.pods.needs):
        yield immutable("spec.template.spec")


def _template(value: Json) -> Json:
    template: Json = spec_of(value).get("template") or {}
    return template


def _replicas(value: Json) -> int:
    number: int | None = spec_of(value).get("replicas")
    return 1 if number is None else number
