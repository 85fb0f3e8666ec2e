"""Deployments and stateful sets that name a queue: it is their pods that wait in it.

Those of a Deployment wait each for itself, those of a StatefulSet all together, in a group of the set's own.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.gates.fields import (
    LABELS,
    AdmissionFieldError,
    annotations_of,
    forbidden,
    immutable,
    is_going,
    labels_of,
    spec_of,
    unchanged,
    with_annotations,
    with_labels,
    with_spec,
)
from headgate.gates.kueue_workloads import gate_change_errors, gate_errors
from headgate.gates.managed_jobs import (
    class_change_errors,
    controller_of,
    found_owner,
    gates_of,
    labels_to_add,
    name_errors,
)
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
    FAST_ADMISSION,
    GROUP_NAME,
    GROUP_TOTAL,
    MANAGED,
    MANAGED_VALUE,
    PREBUILT_WORKLOAD,
    PRIORITY_CLASS,
    QUEUE_NAME,
    ROLE_HASH,
    SERVING,
    SUSPENDED_BY_PARENT,
    stateful_set_workload,
)
from headgate.model.objects import StatefulSet
from headgate.model.settings import DEPLOYMENTS, STATEFUL_SETS

MAIN = "main"
QUEUE_PATH = f"{LABELS}[{QUEUE_NAME}]"
PASSED_ON = (QUEUE_NAME, PRIORITY_CLASS)
"""Labels that are passed on to pods."""


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
