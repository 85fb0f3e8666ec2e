"""Admission webhooks: the request an API server sends before it stores an object, and the response.

A handler is a function of the request and the settings. One that needs other objects is a generator: it yields what it
looks up and is sent what the cluster holds at that moment, so that it runs without I/O and never on a stale cache.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from headgate.model.keys import Key, Kind
from headgate.model.objects import Object
from headgate.model.pod import PodShape
from headgate.model.settings import QuotaSettings

Json = dict[str, Any]
P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")


class AdmissionWebhook(StrEnum):
    """The webhooks we serve, by the path they are served under: a mutating one fills in defaults, others validate."""

    DEFAULT_WORKLOAD = "default-workload"
    VALIDATE_WORKLOAD = "validate-workload"
    DEFAULT_CLUSTER_QUEUE = "default-cluster-queue"
    VALIDATE_CLUSTER_QUEUE = "validate-cluster-queue"
    VALIDATE_COHORT = "validate-cohort"
    DEFAULT_RESOURCE_FLAVOR = "default-resource-flavor"
    VALIDATE_RESOURCE_FLAVOR = "validate-resource-flavor"
    DEFAULT_QUEUED_WORKLOAD = "default-queued-workload"
    VALIDATE_QUEUED_WORKLOAD = "validate-queued-workload"
    DEFAULT_JOB = "default-job"
    VALIDATE_JOB = "validate-job"
    DEFAULT_POD = "default-pod"
    VALIDATE_POD = "validate-pod"
    DEFAULT_DEPLOYMENT = "default-deployment"
    VALIDATE_DEPLOYMENT = "validate-deployment"
    DEFAULT_STATEFUL_SET = "default-stateful-set"
    VALIDATE_STATEFUL_SET = "validate-stateful-set"
    DEFAULT_QUEUE_GATE = "default-queue-gate"
    DEFAULT_VOLCANO_QUEUE = "default-volcano-queue"
    VALIDATE_VOLCANO_QUEUE = "validate-volcano-queue"
    DEFAULT_VOLCANO_POD_GROUP = "default-volcano-pod-group"
    VALIDATE_VOLCANO_POD_GROUP = "validate-volcano-pod-group"

    @property
    def is_mutating(self) -> bool:
        return self.startswith("default-")


class Memoize(Protocol):
    """Calls `make(of)`, whose result depends on nothing but `parts`; may return the result of an earlier call with the
    identical parts.
    """

    def __call__(self, make: Callable[[P], R], of: P, /, *parts: object) -> R: ...


def unmemoized(make: Callable[[P], R], of: P, /, *_parts: object) -> R:
    """The `Memoize` that remembers nothing."""
    return make(of)


class AdmissionRequest(Struct, frozen=True):
    """An object about to be stored, as it is on the wire; `old` is None for a new one.

    `new` is empty for one that is about to be deleted.
    """

    namespace: str
    new: Json
    old: Json | None = None
    reads: Callable[[Json], Object | None] = lambda _: None
    memoize: Memoize = unmemoized

    @property
    def decoded(self) -> Object | None:
        """The new object as a value of the model; None when it cannot be decoded."""
        return self.reads(self.new)

    @property
    def decoded_old(self) -> Object | None:
        """The old object as a value of the model; None when there is none or it cannot be decoded."""
        return None if self.old is None else self.reads(self.old)


class AdmissionAllowed(Struct, frozen=True):
    """The object may be stored; as `changed`, if that is given."""

    changed: Json | None = None


class AdmissionDenied(Struct, frozen=True):
    """The object may not be stored, and why."""

    message: str


AdmissionResponse = AdmissionAllowed | AdmissionDenied

Lookup = Key | Kind
"""What a handler looks up: one object, or all of a kind."""
WithLookups = Generator[Lookup, tuple[Object, ...], T]
"""A computation of T that yields each lookup and is sent the objects found."""
DeferredResponse = WithLookups[AdmissionResponse]


class WebhookSettings(Struct, frozen=True):
    """What handlers depend on besides the request."""

    quota: QuotaSettings
    role_hash: Callable[[PodShape, int], str]
    """Pods of a group with equal hashes are one pod set."""
    gated_schedulers: frozenset[str] = frozenset()
    """The schedulerNames whose pods get the queue-allocation gate they ask for."""
    dispatches: bool = False
    """Whether workloads run on worker clusters."""


HandlerResult = AdmissionResponse | DeferredResponse
"""The response, or the computation of it that needs lookups."""
AdmissionHandler = Callable[[AdmissionRequest, WebhookSettings], HandlerResult]
