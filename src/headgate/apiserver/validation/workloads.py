"""What is wrong with a Deployment, a ReplicaSet or a StatefulSet: counts, selector, pod template, and what may not
change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headgate.apiserver.field_errors import FieldError, forbidden, invalid, not_supported, required, unchanged
from headgate.apiserver.messages import Json
from headgate.apiserver.selectors import object_selector
from headgate.apiserver.validation.metadata import label_errors, metadata_errors, metadata_update_errors
from headgate.apiserver.validation.pods import pod_spec_errors
from headgate.apiserver.validation.scheduling import selector_errors
from headgate.apiserver.validation.types import (
    ApiType,
    Int32,
    LabelSelector,
    ObjectMeta,
    PodSpec,
    PodTemplateSpec,
    typed,
)
from headgate.model.names import dns_subdomain_errors

CHANGEABLE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)
"""What of a StatefulSet may change."""
_FORBIDDEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


class ReplicatedSpec(ApiType, frozen=True):
    """What the specs of these kinds have in common."""

    replicas: Int32 | None = None
    min_ready_seconds: Int32 | None = None
    revision_history_limit: Int32 | None = None
    progress_deadline_seconds: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec | None = None


class Replicated(ApiType, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta | None = None
    spec: ReplicatedSpec | None = None


Errors = Sequence[FieldError]


def errors_of(kind: str) -> Callable[[Json], Errors]:
    """The errors of a new object of the kind."""

    def check(new: Json) -> Errors:
        found = typed(new, Replicated)
        named = metadata_errors(found.metadata or ObjectMeta(), dns_subdomain_errors, namespaced=True)
        return [*named, *_spec_errors(kind, found.spec or ReplicatedSpec(), new["spec"])]

    return check


def update_errors_of(kind: str) -> Callable[[Json, Json], Errors]:
    """The errors of an update: those of the new object, and of what may not change."""

    def check(new: Json, old: Json) -> Errors:
        found = typed(new, Replicated)
        errors = list(metadata_update_errors(new["metadata"], old["metadata"], found.metadata or ObjectMeta()))
        errors += _spec_errors(kind, found.spec or ReplicatedSpec(), new["spec"])
        if kind == "StatefulSet":
            kept, before = ({n: v for n, v in of["spec"].items() if n not in CHANGEABLE} for of in (new, old))
            return [*errors, forbidden("spec", _FORBIDDEN)] if kept != before else errors
        return errors + unchanged("spec.selector", new["spec"].get("selector"), old["spec"].get("selector"))

    return check


def _spec_errors(kind: str, spec: ReplicatedSpec, raw: Json) -> list[FieldError]:
    errors = _negative("replicas", spec.replicas)
    late = _negative("minReadySeconds", spec.min_ready_seconds)
    errors += [] if kind == "Deployment" else late
    template = spec.template or PodTemplateSpec()
    wrong = _selector_errors(kind, spec.selector)
    errors += wrong + _template_errors(kind, template, {} if wrong else raw["selector"])
    if kind != "Deployment":
        return errors
    errors += late + _negative("revisionHistoryLimit", spec.revision_history_limit)
    deadline = spec.progress_deadline_seconds
    errors += _negative("progressDeadlineSeconds", deadline)
    if deadline is not None and deadline <= (spec.min_ready_seconds or 0):
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return errors


def _negative(name: str, count: int | None) -> list[FieldError]:
    if count is None or count >= 0:
        return []
    return [invalid(f"spec.{name}", count, "must be greater than or equal to 0")]


def _selector_errors(kind: str, selector: LabelSelector | None) -> list[FieldError]:
    if selector is None:
        return [required("spec.selector")]
    errors = list(selector_errors("spec.selector", selector))
    if not selector.match_labels and not selector.match_expressions:
        named = "statefulset" if kind == "StatefulSet" else "deployment"
        errors.append(invalid("spec.selector", {}, f"empty selector is invalid for {named}"))
    return errors


def _template_errors(kind: str, template: PodTemplateSpec, selector: Json) -> list[FieldError]:
    path, spec, labels = "spec.template", template.spec or PodSpec(), (template.metadata or ObjectMeta()).labels or {}
    errors: list[FieldError] = []
    if selector and not object_selector(selector)(labels):
        detail = "`selector` does not match template `labels`"
        errors.append(invalid(f"{path}.metadata.labels", labels, detail))
    errors += label_errors(f"{path}.labels", labels)
    errors += pod_spec_errors(f"{path}.spec", spec)
    if spec.restart_policy != "Always":
        errors.append(not_supported(f"{path}.spec.restartPolicy", spec.restart_policy or "", ("Always",)))
    if spec.active_deadline_seconds is not None:
        named = "StatefulSet" if kind == "StatefulSet" else "ReplicaSet"
        detail = f"activeDeadlineSeconds in {named} is not Supported"
        errors.append(forbidden(f"{path}.spec.activeDeadlineSeconds", detail))
    return errors
