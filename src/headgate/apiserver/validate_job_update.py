"""What may change about a Job, and what may be reported about one."""

from __future__ import annotations

from headgate.apiserver.errors import FieldError
from headgate.apiserver.fields import OMITTED, at_least_zero, invalid, same, unchanged
from headgate.apiserver.messages import Json
from headgate.apiserver.validate_job import job_errors
from headgate.apiserver.validate_metadata import metadata_update_errors
from headgate.apiserver.validate_shapes import Job, JobInStatus, JobStatus, Metadata, demand_shape

_FIXED = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_TERMINAL = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")


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
    came_to_rest = status.get("startTime") is None or _is_true(status, "Suspended")
    return suspended and came_to_rest and not status.get("active")


def _is_true(status: Json, kind: str) -> bool:
    return any(one.get("type") == kind and one.get("status") == "True" for one in status.get("conditions") or ())


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


def job_status_errors(new: Json, old: Json) -> list[FieldError]:
    status = demand_shape(new, JobInStatus).status or JobStatus()
    was = old.get("status") or {}
    counts = (
        ("active", status.active),
        ("succeeded", status.succeeded),
        ("failed", status.failed),
        ("ready", status.ready),
        ("terminating", status.terminating),
    )
    errors = [error for name, count in counts for error in at_least_zero(f"status.{name}", count)]
    if status.ready is not None and status.ready > (status.active or 0):
        errors.append(invalid("status.ready", status.ready, "cannot set more ready pods than active"))
    errors += _decrease_errors("failed", status.failed, was)
    if (old.get("spec") or {}).get("completionMode") != "Indexed":
        errors += _decrease_errors("succeeded", status.succeeded, was)
    return errors + _condition_errors(new.get("status") or {}, was)


def _decrease_errors(name: str, count: int | None, was: Json) -> list[FieldError]:
    fewer = (count or 0) < (was.get(name) or 0)
    return [invalid(f"status.{name}", count or 0, f"cannot decrease the {name} counter")] if fewer else []


def _condition_errors(status: Json, was: Json) -> list[FieldError]:
    path = "status.conditions"
    errors = [
        invalid(path, OMITTED, f"cannot disable the terminal {kind}=True condition")
        for kind in _TERMINAL
        if _is_true(was, kind) and not _is_true(status, kind)
    ]
    if _is_true(status, "Complete") and _is_true(status, "Failed"):
        errors.append(invalid(path, OMITTED, "cannot set Complete=True and Failed=true conditions"))
    ended = any(_is_true(status, kind) and not _is_true(was, kind) for kind in ("Complete", "Failed"))
    if ended and status.get("active"):
        errors.append(invalid("status.active", status["active"], "active>0 is invalid for finished job"))
    return errors
