"""Jobs: the rules on a spec, on its updates and on its status."""

from __future__ import annotations

import re

from msgspec import structs

from headgate.apiserver.defaulting import CONTROLLER_UID, GENERATED_LABELS, JOB_NAME, NAME_LABELS, UID_LABELS
from headgate.apiserver.field_errors import (
    OMITTED,
    FieldError,
    at_least_zero,
    invalid,
    not_supported,
    quote,
    required,
    same,
    too_long,
    unchanged,
)
from headgate.apiserver.messages import Json
from headgate.apiserver.metadata import seconds_of
from headgate.apiserver.validation.metadata import (
    dns_label_errors,
    label_errors,
    metadata_errors,
    metadata_update_errors,
)
from headgate.apiserver.validation.pods import pod_spec_errors
from headgate.apiserver.validation.scheduling import selector_errors
from headgate.apiserver.validation.types import (
    Job,
    JobInStatus,
    JobSpec,
    JobStatus,
    LabelSelector,
    ObjectMeta,
    PodSpec,
    PodTemplateSpec,
    typed,
)
from headgate.model.names import dns_subdomain_errors

MOST_INDEXED_PARALLELISM = 100_000
_LONGEST_MANAGER = 63
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_MODES = ("NonIndexed", "Indexed")
_PATH_OF_DOMAIN = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+").fullmatch


def job_errors(new: Json) -> list[FieldError]:
    """The rules on a Job at any time."""
    job = typed(new, Job)
    metadata, spec = job.metadata or ObjectMeta(), job.spec or JobSpec()
    errors = metadata_errors(_without_generated_labels(metadata), dns_subdomain_errors, namespaced=True)
    errors += _generated_selector_errors(metadata, spec)
    errors += job_spec_errors(spec)
    return errors + _host_name_errors(metadata, spec)


def _without_generated_labels(metadata: ObjectMeta) -> ObjectMeta:
    """Metadata without generated labels, whose errors are reported for the template."""
    labels = {name: value for name, value in (metadata.labels or {}).items() if name not in GENERATED_LABELS}
    return structs.replace(metadata, labels=labels)


def job_spec_errors(spec: JobSpec) -> list[FieldError]:
    errors = _count_errors(spec)
    errors += _mode_errors(spec)
    errors += _manager_errors(spec.managed_by)
    errors += _replacement_errors(spec)
    errors += _template_errors(
        spec.template or PodTemplateSpec(), has_failure_policy=spec.pod_failure_policy is not None
    )
    if spec.selector is None:
        return [*errors, required("spec.selector")]
    errors += selector_errors("spec.selector", spec.selector)
    labels = _template_labels(spec)
    if not _selects(spec.selector, labels):
        detail = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels, detail))
    return errors


def _count_errors(spec: JobSpec) -> list[FieldError]:
    counts = (
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index),
        ("maxFailedIndexes", spec.max_failed_indexes),
    )
    errors = [error for name, count in counts for error in at_least_zero(f"spec.{name}", count)]
    if spec.max_failed_indexes is not None and spec.backoff_limit_per_index is None:
        errors.append(required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    return errors


def _mode_errors(spec: JobSpec) -> list[FieldError]:
    match spec.completion_mode:
        case "Indexed":
            return _indexed_errors(spec)
        case "NonIndexed" | None:
            only_indexed = (
                ("backoffLimitPerIndex", spec.backoff_limit_per_index),
                ("maxFailedIndexes", spec.max_failed_indexes),
            )
            detail = "requires indexed completion mode"
            return [invalid(f"spec.{name}", value, detail) for name, value in only_indexed if value is not None]
        case other:
            return [not_supported("spec.completionMode", other, _MODES)]


def _indexed_errors(spec: JobSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.completions is None:
        errors.append(required("spec.completions", "when completion mode is Indexed"))
    if (spec.parallelism or 0) > MOST_INDEXED_PARALLELISM:
        detail = f"must be less than or equal to {MOST_INDEXED_PARALLELISM} when completion mode is Indexed"
        errors.append(invalid("spec.parallelism", spec.parallelism, detail))
    if spec.completions is not None and (spec.max_failed_indexes or 0) > spec.completions:
        errors.append(
            invalid("spec.maxFailedIndexes", spec.max_failed_indexes, "must be less than or equal to completions")
        )
    return errors


def _manager_errors(manager: str | None) -> list[FieldError]:
    """managedBy is a domain-prefixed path, such as kueue.x-k8s.io/multikueue."""
    path = "spec.managedBy"
    if manager is None:
        return []
    if not manager:
        return [required(path)]
    domain, slash, rest = manager.partition("/")
    if not slash or not domain or not rest:
        return [invalid(path, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [invalid(path, domain, wrong) for wrong in dns_subdomain_errors(domain)]
    if not _PATH_OF_DOMAIN(rest):
        errors.append(
            invalid(path, rest, "Invalid path (regex used for validation is '[A-Za-z0-9/\\\\-._~%!$&'()*+,;=:]+')")
        )
    if len(manager) > _LONGEST_MANAGER:
        errors.append(too_long(path, _LONGEST_MANAGER))
    return errors


def _replacement_errors(spec: JobSpec) -> list[FieldError]:
    allowed = _REPLACEMENTS if spec.pod_failure_policy is None else ("Failed",)
    policy = spec.pod_replacement_policy
    return [] if policy is None or policy in allowed else [not_supported("spec.podReplacementPolicy", policy, allowed)]


def _template_errors(template: PodTemplateSpec, *, has_failure_policy: bool) -> list[FieldError]:
    metadata, spec = template.metadata or ObjectMeta(), template.spec or PodSpec()
    errors = label_errors("spec.template.labels", metadata.labels)
    errors += pod_spec_errors("spec.template.spec", spec)
    path, policy = "spec.template.spec.restartPolicy", spec.restart_policy
    if policy in ("Always", "", None):
        errors.append(required(path, f"valid values: {quote('OnFailure')}, {quote('Never')}"))
    elif policy not in ("OnFailure", "Never"):
        errors.append(not_supported(path, policy, ("OnFailure", "Never")))
    elif has_failure_policy and policy != "Never":
        detail = f"only {quote('Never')} is supported when podFailurePolicy is specified"
        errors.append(invalid(path, policy, detail))
    return errors


def _template_labels(spec: JobSpec) -> dict[str, str]:
    template = spec.template or PodTemplateSpec()
    return (template.metadata or ObjectMeta()).labels or {}


def _selects(selector: LabelSelector, labels: dict[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in (selector.match_labels or {}).items())


def _generated_selector_errors(metadata: ObjectMeta, spec: JobSpec) -> list[FieldError]:
    """A generated selector must select this Job's pods only."""
    if spec.manual_selector or spec.selector is None:
        return []
    labels, name, uid = _template_labels(spec), metadata.name or "", metadata.uid or ""
    wanted = {**dict.fromkeys(UID_LABELS, uid), **dict.fromkeys(NAME_LABELS, name)}
    errors = [required("metadata.uid")] if not uid else []
    for label, value in wanted.items():
        path = f"spec.template.metadata.labels[{label}]"
        if label not in labels:
            errors.append(required(path, f"must be '{value}'"))
        elif labels[label] != value:
            errors.append(invalid(path, labels, f"must be '{value}'"))
    if not _selects(spec.selector, {**wanted, CONTROLLER_UID: uid, JOB_NAME: name}):
        errors.append(invalid("spec.selector", spec.selector, "`selector` not auto-generated"))
    return errors


def _host_name_errors(metadata: ObjectMeta, spec: JobSpec) -> list[FieldError]:
    """The pod names of an indexed Job must be DNS labels."""
    if spec.completion_mode != "Indexed" or (spec.completions or 0) <= 0:
        return []
    last = f"{metadata.name}-{(spec.completions or 0) - 1}"
    detail = f"will not able to create pod with invalid DNS label: {last}"
    return [invalid("metadata.name", metadata.name, detail)] if dns_label_errors(last) else []


_IMMUTABLE = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")


def job_update_errors(new: Json, old: Json) -> list[FieldError]:
    job = typed(new, Job)
    errors = metadata_update_errors(new["metadata"], old["metadata"], job.metadata or ObjectMeta())
    if new["spec"] is old["spec"] or new["spec"] == old["spec"]:
        return errors
    return errors + job_errors(new) + _spec_update_errors(new["spec"], old)


def _spec_update_errors(new: Json, job: Json) -> list[FieldError]:
    """What is wrong with the new spec as an update of `job`, the old object."""
    old = job["spec"]
    errors = _completions_errors(new, old)
    errors += unchanged("spec.selector", new.get("selector"), old.get("selector"))
    errors += _template_update_errors(new, job)
    for name in _IMMUTABLE:
        errors += unchanged(f"spec.{name}", new.get(name), old.get(name))
    return errors


def _completions_errors(new: Json, old: Json) -> list[FieldError]:
    """completions is immutable, except that an elastic indexed Job changes it together with parallelism."""
    path, wanted = "spec.completions", new.get("completions")
    if new.get("completionMode") != "Indexed":
        return unchanged(path, wanted, old.get("completions"))
    if wanted is None or wanted in (old.get("completions"), new.get("parallelism")):
        return []
    return [invalid(path, wanted, "can only be modified in tandem with spec.parallelism")]


def _template_update_errors(new: Json, job: Json) -> list[FieldError]:
    template, old = new["template"], job["spec"]["template"]
    if not _is_suspended_without_pods(job):
        return unchanged("spec.template", template, old)
    allowed = _with_directives_of(template, old)
    if not same(template["spec"], allowed["spec"]):
        return [invalid("spec.template.spec", template["spec"], "field is immutable")]
    return []


def _is_suspended_without_pods(job: Json) -> bool:
    """Whether the Job is suspended and has no pods: only then may its scheduling directives change."""
    status = job.get("status") or {}
    suspended = bool(job["spec"].get("suspend"))
    came_to_rest = status.get("startTime") is None or is_true(status, "Suspended")
    return suspended and came_to_rest and not status.get("active")


def _with_directives_of(template: Json, old: Json) -> Json:
    """The old template with the new one's scheduling directives and container resources."""
    spec, new = dict(old["spec"]), template["spec"]
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        spec[name] = new.get(name)
    node_affinity = (new.get("affinity") or {}).get("nodeAffinity")
    spec["affinity"] = {**(spec.get("affinity") or {}), "nodeAffinity": node_affinity}
    for name in ("containers", "initContainers"):
        spec[name] = _with_resources_of(new.get(name) or [], spec.get(name) or [])
    return {**old, "spec": spec}


def _with_resources_of(new: list[Json], old: list[Json]) -> list[Json]:
    if [one.get("name") for one in new] != [one.get("name") for one in old]:
        return old
    return [{**before, "resources": one.get("resources")} for one, before in zip(new, old, strict=True)]


COMPLETE, FAILED = "Complete", "Failed"
SUCCESS, FAILURE = "SuccessCriteriaMet", "FailureTarget"
"""The conditions that decide a Job's outcome; the terminal one follows when its last pod is gone."""
_CONDITIONS = "status.conditions"


def job_status_errors(new: Json, old: Json) -> list[FieldError]:
    """The rules on a status and its update, in the order of a real server."""
    shape = typed(new, JobInStatus).status or JobStatus()
    status, was = new.get("status") or {}, old.get("status") or {}
    spec = old.get("spec") or {}
    errors = _status_count_errors(shape)
    errors += _conflicting_condition_errors(status, (COMPLETE, FAILED), (COMPLETE, FAILURE))
    errors += _completion_time_errors(status)
    errors += _missing_criteria_errors(status)
    if is_true(status, COMPLETE) or is_true(status, FAILED):
        errors += _finished_errors(status, shape)
    errors += _index_errors(status, spec)
    errors += _pod_errors(status, shape)
    errors += _conflicting_condition_errors(status, (SUCCESS, FAILED), (SUCCESS, FAILURE))
    return errors + _status_change_errors(status, was, spec)


def is_true(status: Json, kind: str) -> bool:
    return any(one.get("type") == kind and one.get("status") == "True" for one in status.get("conditions") or ())


def _status_count_errors(status: JobStatus) -> list[FieldError]:
    counts = (
        ("active", status.active),
        ("succeeded", status.succeeded),
        ("failed", status.failed),
        ("ready", status.ready),
        ("terminating", status.terminating),
    )
    return [error for name, count in counts for error in at_least_zero(f"status.{name}", count)]


def _conflicting_condition_errors(status: Json, *pairs: tuple[str, str]) -> list[FieldError]:
    return [
        invalid(_CONDITIONS, OMITTED, f"cannot set {one}=True and {other}=true conditions")
        for one, other in pairs
        if is_true(status, one) and is_true(status, other)
    ]


def _completion_time_errors(status: Json) -> list[FieldError]:
    path, time, started = "status.completionTime", status.get("completionTime"), status.get("startTime")
    if not is_true(status, COMPLETE):
        detail = "cannot set completionTime when there is no Complete=True condition"
        return [invalid(path, time, detail)] if time else []
    if not time:
        return [required(path, "completionTime is required for Complete jobs")]
    if started and seconds_of(time) < seconds_of(started):
        return [invalid(path, time, "must be equal to or after `startTime`")]
    return []


def _missing_criteria_errors(status: Json) -> list[FieldError]:
    """A terminal condition needs the condition that decides it."""
    return [
        invalid(_CONDITIONS, OMITTED, f"cannot set {end}=True condition without the {decision}=true condition")
        for end, decision in ((FAILED, FAILURE), (COMPLETE, SUCCESS))
        if is_true(status, end) and not is_true(status, decision)
    ]


def _finished_errors(status: Json, shape: JobStatus) -> list[FieldError]:
    errors: list[FieldError] = []
    if shape.active:
        errors.append(invalid("status.active", shape.active, "active>0 is invalid for finished job"))
    if not status.get("startTime"):
        errors.append(required("status.startTime", "startTime is required for finished job"))
    uncounted = status.get("uncountedTerminatedPods") or {}
    if uncounted.get("succeeded") or uncounted.get("failed"):
        errors.append(invalid("status.uncountedTerminatedPods", uncounted, "must be empty for finished job"))
    return errors


def _index_errors(status: Json, spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    completed, failed = status.get("completedIndexes"), status.get("failedIndexes")
    if completed and spec.get("completionMode") != "Indexed":
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(invalid("status.completedIndexes", completed, detail))
    if failed is not None and spec.get("backoffLimitPerIndex") is None:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(invalid("status.failedIndexes", failed, detail))
    return errors


def _pod_errors(status: Json, shape: JobStatus) -> list[FieldError]:
    errors: list[FieldError] = []
    ended = is_true(status, COMPLETE) or is_true(status, FAILED)
    if ended and shape.terminating:
        errors.append(invalid("status.terminating", shape.terminating, "terminating>0 is invalid for finished job"))
    if shape.ready is not None and shape.ready > (shape.active or 0):
        errors.append(invalid("status.ready", shape.ready, "cannot set more ready pods than active"))
    return errors


def _status_change_errors(status: Json, was: Json, spec: Json) -> list[FieldError]:
    errors = [
        invalid(_CONDITIONS, OMITTED, f"cannot disable the terminal {kind}=True condition")
        for kind in (FAILED, COMPLETE, FAILURE)
        if is_true(was, kind) and not is_true(status, kind)
    ]
    errors += _decrease_errors("failed", status, was)
    reindexed = status.get("completedIndexes") != was.get("completedIndexes")
    if spec.get("completionMode") != "Indexed" or not reindexed:
        errors += _decrease_errors("succeeded", status, was)
    if was.get("completionTime") and status.get("completionTime"):
        errors += unchanged("status.completionTime", status["completionTime"], was["completionTime"])
    if was.get("startTime") and not spec.get("suspend"):
        errors += unchanged("status.startTime", status.get("startTime"), was["startTime"])
    if is_true(was, SUCCESS) and not is_true(status, SUCCESS):
        errors.append(invalid(_CONDITIONS, OMITTED, f"cannot disable the {SUCCESS}=True condition"))
    return errors


def _decrease_errors(name: str, status: Json, was: Json) -> list[FieldError]:
    count = status.get(name) or 0
    fewer = count < (was.get(name) or 0)
    return [invalid(f"status.{name}", count, f"cannot decrease the {name} counter")] if fewer else []
