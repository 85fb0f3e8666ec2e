"""What a Job leaves unsaid: its counts, and the labels by which it finds its pods."""

from __future__ import annotations

from headgate.apiserver.defaults_known import JOB_SPEC, known
from headgate.apiserver.defaults_pod import default_pod_spec
from headgate.apiserver.messages import Json

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
NAME_LABELS = ("job-name", JOB_NAME)
UID_LABELS = ("controller-uid", CONTROLLER_UID)
GENERATED_LABELS = (*NAME_LABELS, *UID_LABELS)
_UNLIMITED = 2**31 - 1


def default_job(job: Json) -> Json:
    """The Job with its counts and its template completed; applied to its own result it changes nothing."""
    spec = _with_counts(known(job.get("spec") or {}, JOB_SPEC))
    template = spec.get("template") or {}
    spec["template"] = {**template, "spec": default_pod_spec(template.get("spec") or {})}
    return {**job, "spec": spec}


def new_job(job: Json) -> Json:
    """A Job as it is created: completed, with its selector, without status."""
    return {**_labelled(_with_selector(default_job(job))), "status": {}}


def _with_counts(spec: Json) -> Json:
    whole = dict(spec)
    if spec.get("parallelism") is None:
        whole["parallelism"] = 1
        if spec.get("completions") is None:
            whole["completions"] = 1
    unlimited = spec.get("backoffLimitPerIndex") is not None
    replacement = "Failed" if spec.get("podFailurePolicy") is not None else "TerminatingOrFailed"
    defaults = {
        "backoffLimit": _UNLIMITED if unlimited else 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "manualSelector": False,
        "podReplacementPolicy": replacement,
    }
    whole.update({name: value for name, value in defaults.items() if spec.get(name) is None})
    return whole


def _labelled(job: Json) -> Json:
    """A Job without labels of its own takes those of its template."""
    labels = (job["spec"]["template"].get("metadata") or {}).get("labels")
    if not labels or job["metadata"].get("labels"):
        return job
    return {**job, "metadata": {**job["metadata"], "labels": labels}}


def _with_selector(job: Json) -> Json:
    """Unless the Job selects by hand, its pods are labelled with its name and uid and selected by the uid.

    Labels that are there already stay; validation refuses those that contradict.
    """
    spec, metadata = job["spec"], job["metadata"]
    if spec["manualSelector"]:
        return job
    template, selector = spec["template"], spec.get("selector") or {}
    of_template = template.get("metadata") or {}
    generated = dict.fromkeys(NAME_LABELS, metadata.get("name")) | dict.fromkeys(UID_LABELS, metadata.get("uid"))
    labels = generated | (of_template.get("labels") or {})
    wanted = {CONTROLLER_UID: metadata.get("uid")} | (selector.get("matchLabels") or {})
    selecting = {
        "selector": {**selector, "matchLabels": wanted},
        "template": {**template, "metadata": {**of_template, "labels": labels}},
    }
    return {**job, "spec": spec | selecting}
