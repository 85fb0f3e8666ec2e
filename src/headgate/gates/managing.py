"""Is this work to wait for quota? Where its namespace, its queue and whoever made it say so."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TypeVar

from headgate.gates.wire_values import labels_of
from headgate.model.admission import Json, Question, Rules, Wanted
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import DEFAULT_CLASS, DEFAULT_QUEUE, PRIORITY_CLASS, QUEUE_NAME
from headgate.model.objects import Job, Namespace, Object
from headgate.model.quota_settings import JOBS
from headgate.model.selectors import selects

T = TypeVar("T")
Asking = Generator[Wanted, tuple[Object, ...], T]


def labels_to_add(question: Question, rules: Rules) -> Asking[Mapping[str, str] | None]:
    """What managed work must be labelled with besides; None where it is not managed."""
    queue = yield from _default_queue(question)
    if not (queue or labels_of(question.new).get(QUEUE_NAME) or rules.quota.manages_all):
        return None
    if not (yield from _namespace_is_chosen(question.namespace, rules)):
        return None
    if (yield from _is_of_managed_job(question, rules)):
        return None
    return {**queue, **(yield from _default_class(question))}


def _default_queue(question: Question) -> Asking[Mapping[str, str]]:
    if labels_of(question.new).get(QUEUE_NAME):
        return {}
    found = yield Key(Kind.LOCAL_QUEUE, question.namespace, DEFAULT_QUEUE)
    return {QUEUE_NAME: DEFAULT_QUEUE} if found else {}


def _default_class(question: Question) -> Asking[Mapping[str, str]]:
    if labels_of(question.new).get(PRIORITY_CLASS):
        return {}
    found = yield Key(Kind.WORKLOAD_PRIORITY_CLASS, "", DEFAULT_CLASS)
    return {PRIORITY_CLASS: DEFAULT_CLASS} if found else {}


def _namespace_is_chosen(name: str, rules: Rules) -> Asking[bool]:
    found = yield Key(Kind.NAMESPACE, "", name)
    return any(isinstance(one, Namespace) and selects(rules.quota.namespaces, one.labels) for one in found)


def _is_of_managed_job(question: Question, rules: Rules) -> Asking[bool]:
    """Pods of a job wait in the job's name, not in their own."""
    owner = _controller(question.new)
    if JOBS not in rules.quota.frameworks or owner is None or not _is_job(owner):
        return False
    found = yield Key(Kind.JOB, question.namespace, owner["name"])
    return any(isinstance(job, Job) and _is_managed(job, rules) for job in found)


def _controller(value: Json) -> Json | None:
    owners = (value.get("metadata") or {}).get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def _is_job(owner: Json) -> bool:
    return owner.get("kind") == "Job" and str(owner.get("apiVersion")).startswith("batch/")


def _is_managed(job: Job, rules: Rules) -> bool:
    return rules.quota.manages_all or bool(job.labels.get(QUEUE_NAME))
