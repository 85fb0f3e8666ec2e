"""Runs an admission handler against a cluster made of a few objects and returns its response."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from headgate.model.admission import AdmissionResponse, HandlerResult, Json, Lookup, WebhookSettings
from headgate.model.keys import Key, Kind
from headgate.model.objects import Job, Namespace, Object, PriorityClass
from headgate.model.queues import LocalQueue, WorkloadPriorityClass
from headgate.model.settings import FRAMEWORKS, QuotaSettings

QUEUE_NAME, PRIORITY_CLASS = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"


def webhook_settings(**settings: Any) -> WebhookSettings:
    return WebhookSettings(
        QuotaSettings(**{"frameworks": FRAMEWORKS, **settings}), lambda shape, priority: f"role-{priority}"
    )


def namespace(name: str = "team", **labels: str) -> Namespace:
    return Namespace(Key(Kind.NAMESPACE, "", name), "u", "1", {"kubernetes.io/metadata.name": name, **labels})


def local_queue(name: str = "default", where: str = "team") -> LocalQueue:
    return LocalQueue(Key(Kind.LOCAL_QUEUE, where, name), "u", "1", "cq")


def workload_class(name: str = "default", value: int = 7) -> WorkloadPriorityClass:
    return WorkloadPriorityClass(Key(Kind.WORKLOAD_PRIORITY_CLASS, "", name), "u", "1", value)


def priority_class(name: str, value: int) -> PriorityClass:
    return PriorityClass(Key(Kind.PRIORITY_CLASS, "", name), "u", "1", value)


def job_of(name: str, **labels: str) -> Job:
    return Job(Key(Kind.JOB, "team", name), "u", "1", labels, {}, template=None, created=0.0)  # type: ignore[arg-type]


def response_of(handling: HandlerResult, world: Iterable[Object] = ()) -> AdmissionResponse:
    """What it comes to in a cluster of these objects."""
    if isinstance(handling, AdmissionResponse):
        return handling
    known = tuple(world)
    look: Callable[[Lookup], tuple[Object, ...]] = lambda wanted: tuple(  # noqa: E731
        one for one in known if wanted in (one.key, one.key.kind)
    )
    try:
        wanted = next(handling)
        while True:
            wanted = handling.send(look(wanted))
    except StopIteration as done:
        found: AdmissionResponse = done.value
        return found


def labelled(kind: str, spec: Json, labels: dict[str, str], annotations: dict[str, str] | None = None) -> Json:
    metadata = {"name": "train", "namespace": "team", "labels": labels, "annotations": annotations or {}}
    return {"kind": kind, "metadata": metadata, "spec": spec}
