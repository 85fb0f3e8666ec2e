"""What may change about a Job."""

from __future__ import annotations

from headgate.apiserver.field_errors import FieldError, invalid, same, unchanged
from headgate.apiserver.messages import Json
from headgate.apiserver.validate_job import job_errors
from headgate.apiserver.validate_job_status import is_true
from headgate.apiserver.validate_metadata import metadata_update_errors
from headgate.apiserver.validate_shapes import Job, Metadata, demand_shape

_FIXED = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")


def job_update_errors(new: Json, old: Json) -> list[FieldError]:
    job = demand_shape(new, Job)
    errors = metadata_update_errors(new["metadata"], old["metadata"], job.metadata or Metadata())
    if new["spec"] is old["spec"] or new["spec"] == old["spec"]:
        return errors
    return errors + job_errors(new) + _spec_errors(new["spec"], old)


def _spec_errors(new: Json, job: Json) -> list[FieldError]:
    """`job` is the old one, with its status."""
    old = job["spec"]
    errors = _completions_errors(new, old)
    errors += unchanged("spec.selector", new.get("selector"), old.get("selector"))
    errors += _template_errors(new, job)
    for name in _FIXED:
        errors += unchanged(f"spec.{name}", new.get(name), old.get(name))
    return errors


def _completions_errors(new: Json, old: Json) -> list[FieldError]:
    """An indexed Job may be scaled, with as many at once as there are to do."""
    path, wanted = "spec.completions", new.get("completions")
    if new.get("completionMode") != "Indexed":
        return unchanged(path, wanted, old.get("completions"))
    if wanted is None or wanted in (old.get("completions"), new.get("parallelism")):
        return []
    return [invalid(path, wanted, "can only be modified in tandem with spec.parallelism")]


def _template_errors(new: Json, job: Json) -> list[FieldError]:
    template, old = new["template"], job["spec"]["template"]
    if not _is_at_rest(job):
        return unchanged("spec.template", template, old)
    allowed = _with_directives_of(template, old)
    if not same(template["spec"], allowed["spec"]):
        return [invalid("spec.template.spec", template["spec"], "field is immutable")]
    return []


def _is_at_rest(job: Json) -> bool:
    """Suspended, with no pod left from before: only then may its template change, and only where pods go."""
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
