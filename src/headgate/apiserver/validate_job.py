"""Jobs: their counts, their template, the labels by which they find their pods, and what is reported about them."""

from __future__ import annotations

import re

from msgspec import structs

from headgate.apiserver.defaulting import CONTROLLER_UID, GENERATED_LABELS, JOB_NAME, NAME_LABELS, UID_LABELS
from headgate.apiserver.field_errors import FieldError, at_least_zero, invalid, not_supported, quote, required, too_long
from headgate.apiserver.messages import Json
from headgate.apiserver.validate_affinity import selector_errors
from headgate.apiserver.validate_metadata import label_errors, metadata_errors
from headgate.apiserver.validate_names import dns_label_errors
from headgate.apiserver.validate_pod import pod_spec_errors
from headgate.apiserver.validate_shapes import Job, JobSpec, Metadata, PodSpec, Selector, Template, demand_shape
from headgate.model.names import dns_subdomain_errors

MOST_INDEXED_PARALLELISM = 100_000
_LONGEST_MANAGER = 63
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_MODES = ("NonIndexed", "Indexed")
_PATH_OF_DOMAIN = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+").fullmatch


def job_errors(new: Json) -> list[FieldError]:
    """What holds for a Job at any time."""
    job = demand_shape(new, Job)
    metadata, spec = job.metadata or Metadata(), job.spec or JobSpec()
    errors = metadata_errors(_own(metadata), dns_subdomain_errors, namespaced=True)
    errors += _generated_selector_errors(metadata, spec)
    errors += job_spec_errors(spec)
    return errors + _host_name_errors(metadata, spec)


def _own(metadata: Metadata) -> Metadata:
    """Without the labels that were generated for its pods: what is wrong with them is said once, of the template."""
    labels = {name: value for name, value in (metadata.labels or {}).items() if name not in GENERATED_LABELS}
    return structs.replace(metadata, labels=labels)


def job_spec_errors(spec: JobSpec) -> list[FieldError]:
    errors = _count_errors(spec)
    errors += _mode_errors(spec)
    errors += _manager_errors(spec.managed_by)
    errors += _replacement_errors(spec)
    errors += _template_errors(spec.template or Template(), has_failure_policy=spec.pod_failure_policy is not None)
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
    """A domain, a slash and a path, such as kueue.x-k8s.io/multikueue."""
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


def _template_errors(template: Template, *, has_failure_policy: bool) -> list[FieldError]:
    metadata, spec = template.metadata or Metadata(), template.spec or PodSpec()
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
    template = spec.template or Template()
    return (template.metadata or Metadata()).labels or {}


def _selects(selector: Selector, labels: dict[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in (selector.match_labels or {}).items())


def _generated_selector_errors(metadata: Metadata, spec: JobSpec) -> list[FieldError]:
    """A generated selector finds this Job's pods and no others."""
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


def _host_name_errors(metadata: Metadata, spec: JobSpec) -> list[FieldError]:
    """The pods of an indexed Job are called after it and their index."""
    if spec.completion_mode != "Indexed" or (spec.completions or 0) <= 0:
        return []
    last = f"{metadata.name}-{(spec.completions or 0) - 1}"
    detail = f"will not able to create pod with invalid DNS label: {last}"
    return [invalid("metadata.name", metadata.name, detail)] if dns_label_errors(last) else []
