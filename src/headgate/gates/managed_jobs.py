"""Which objects a queue manages, by namespace, queue name and ancestors, and the rules all of them share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headgate.gates.fields import (
    ANNOTATIONS,
    LABELS,
    AdmissionFieldError,
    annotations_of,
    invalid,
    labels_of,
    unchanged,
)
from headgate.gates.queues import gate_change_errors, gate_errors
from headgate.model.admission import AdmissionRequest, Json, WebhookSettings, WithLookups
from headgate.model.keys import Key, Kind, Target
from headgate.model.kueue_names import (
    DEFAULT_CLASS,
    DEFAULT_QUEUE,
    MAX_EXECUTION_SECONDS,
    PREBUILT_WORKLOAD,
    PRIORITY_CLASS,
    QUEUE_NAME,
)
from headgate.model.names import dns_subdomain_errors
from headgate.model.objects import Job, Namespace, ReplicaOwner
from headgate.model.queues import ADMISSION_GATED_BY
from headgate.model.selectors import selects, whole_number
from headgate.model.settings import DEPLOYMENTS, JOBS, STATEFUL_SETS

MOST_ANCESTORS = 10
_KINDS: Mapping[tuple[str, str], Kind] = {
    ("batch", "Job"): Kind.JOB,
    ("apps", "ReplicaSet"): Kind.REPLICA_SET,
    ("apps", "StatefulSet"): Kind.STATEFUL_SET,
    ("apps", "Deployment"): Kind.DEPLOYMENT,
}
_FRAMEWORKS: Mapping[Kind, str] = {
    Kind.JOB: JOBS,
    Kind.STATEFUL_SET: STATEFUL_SETS,
    Kind.DEPLOYMENT: DEPLOYMENTS,
}
"""The frameworks whose jobs need quota; a ReplicaSet is only an intermediate owner."""


def has_managed_ancestor(value: Json, namespace: str, settings: WebhookSettings) -> WithLookups[bool]:
    """Whether an owner waits for quota: then this object waits as part of it and not by itself."""
    owner = controller_of(value, namespace)
    for _ in range(MOST_ANCESTORS):
        if owner is None:
            return False
        parent = yield from found_owner(owner)
        if parent is None or _is_managed(parent, settings):
            return parent is not None
        owner = parent.owner
    return False


def controller_of(value: Json, namespace: str) -> Target | None:
    """Its controller, if that is of a known kind."""
    for reference in (value.get("metadata") or {}).get("ownerReferences") or ():
        if reference.get("controller"):
            group = str(reference.get("apiVersion")).rpartition("/")[0]
            kind = _KINDS.get((group, str(reference.get("kind"))))
            return None if kind is None else Target(Key(kind, namespace, reference["name"]), reference.get("uid") or "")
    return None


def found_owner(owner: Target) -> WithLookups[Job | ReplicaOwner | None]:
    """The owner with this key and UID, if it exists."""
    found = yield owner.key
    return next((one for one in found if isinstance(one, Job | ReplicaOwner) and one.uid == owner.uid), None)


def _is_managed(parent: Job | ReplicaOwner, settings: WebhookSettings) -> bool:
    if _FRAMEWORKS.get(parent.key.kind) not in settings.quota.frameworks:
        return False
    return settings.quota.manages_all or bool(parent.labels.get(QUEUE_NAME))


def labels_to_add(request: AdmissionRequest, settings: WebhookSettings) -> WithLookups[Mapping[str, str] | None]:
    """The labels to add to a managed job; None if it is not managed."""
    queue = yield from _default_queue(request)
    if not (queue or labels_of(request.new).get(QUEUE_NAME) or settings.quota.manages_all):
        return None
    if not (yield from _namespace_is_chosen(request.namespace, settings)):
        return None
    if (yield from has_managed_ancestor(request.new, request.namespace, settings)):
        return None
    return {**queue, **(yield from _default_class(request))}


def _default_queue(request: AdmissionRequest) -> WithLookups[Mapping[str, str]]:
    if labels_of(request.new).get(QUEUE_NAME):
        return {}
    found = yield Key(Kind.LOCAL_QUEUE, request.namespace, DEFAULT_QUEUE)
    return {QUEUE_NAME: DEFAULT_QUEUE} if found else {}


def _default_class(request: AdmissionRequest) -> WithLookups[Mapping[str, str]]:
    if labels_of(request.new).get(PRIORITY_CLASS):
        return {}
    found = yield Key(Kind.WORKLOAD_PRIORITY_CLASS, "", DEFAULT_CLASS)
    return {PRIORITY_CLASS: DEFAULT_CLASS} if found else {}


def _namespace_is_chosen(name: str, settings: WebhookSettings) -> WithLookups[bool]:
    found = yield Key(Kind.NAMESPACE, "", name)
    return any(isinstance(one, Namespace) and selects(settings.quota.namespaces, one.labels) for one in found)


def work_errors(new: Json) -> list[AdmissionFieldError]:
    """All errors of its labels and annotations."""
    labels, annotations = labels_of(new), annotations_of(new)
    return [
        *name_errors(LABELS, labels, QUEUE_NAME),
        *name_errors(LABELS, labels, PREBUILT_WORKLOAD),
        *name_errors(ANNOTATIONS, annotations, PREBUILT_WORKLOAD),
        *_seconds_errors(labels),
        *gate_errors(annotations),
    ]


def work_change_errors(new: Json, old: Json, *, waits: bool, waited: bool) -> list[AdmissionFieldError]:
    """Errors of an update; `waits` and `waited` say whether the job is held back, now and before."""
    now, before = labels_of(new), labels_of(old)
    return [
        *(() if waits else _unchanged(QUEUE_NAME, now, before)),
        *unchanged(f"{LABELS}[{PREBUILT_WORKLOAD}]", prebuilt_workload(new), prebuilt_workload(old)),
        *class_change_errors(now, before, waits=waits),
        *(() if waits and waited else _unchanged(MAX_EXECUTION_SECONDS, now, before)),
        *gate_change_errors(gates_of(new), gates_of(old)),
    ]


def name_errors(path: str, given: Mapping[str, str], name: str) -> Iterator[AdmissionFieldError]:
    """Errors of a label or annotation that names an object."""
    if name in given and (wrong := dns_subdomain_errors(given[name])):
        yield invalid(f"{path}[{name}]", given[name], ",".join(wrong))


def prebuilt_workload(value: Json) -> str:
    """The name of its prebuilt workload."""
    return labels_of(value).get(PREBUILT_WORKLOAD) or annotations_of(value).get(PREBUILT_WORKLOAD, "")


def _seconds_errors(labels: Mapping[str, str]) -> Iterator[AdmissionFieldError]:
    path, text = f"{LABELS}[{MAX_EXECUTION_SECONDS}]", labels.get(MAX_EXECUTION_SECONDS)
    if text is None:
        return
    seconds = whole_number(text)
    if seconds is None:
        yield invalid(path, text, "must be a whole number")
    elif seconds <= 0:
        yield invalid(path, seconds, "should be greater than 0")


def class_change_errors(
    now: Mapping[str, str], before: Mapping[str, str], *, waits: bool
) -> Iterator[AdmissionFieldError]:
    """The priority class may be replaced, but not removed, and not added to a running job."""
    path, new, old = f"{LABELS}[{PRIORITY_CLASS}]", now.get(PRIORITY_CLASS, ""), before.get(PRIORITY_CLASS, "")
    if new and not old and not waits:
        yield invalid(path, new, "WorkloadPriorityClass cannot be added to a non-suspended workload")
    if old and not new:
        yield invalid(path, new, "WorkloadPriorityClass cannot be removed from a workload")


def _unchanged(label: str, now: Mapping[str, str], before: Mapping[str, str]) -> list[AdmissionFieldError]:
    return unchanged(f"{LABELS}[{label}]", now.get(label, ""), before.get(label, ""))


def gates_of(value: Json) -> list[str]:
    """The controllers that gate its admission."""
    named = annotations_of(value).get(ADMISSION_GATED_BY, "")
    return [name for name in named.split(",") if name]
