"""What an API server asks before it stores an object, and what is answered."""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from headgate.model.keys import Key, Kind
from headgate.model.objects import Object
from headgate.model.pod import PodShape
from headgate.model.quota_settings import QuotaSettings

Json = dict[str, Any]
P = TypeVar("P")
R = TypeVar("R")


class Matter(StrEnum):
    """What can be asked: to fill in what an object leaves open, or whether it may be as it is."""

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

    @property
    def fills_in(self) -> bool:
        return self.startswith("default-")


class Once(Protocol):
    """What is made of something, where that depends on nothing but these parts of objects; whoever knows parts again,
    the very same ones, may remember it.
    """

    def __call__(self, make: Callable[[P], R], of: P, /, *parts: object) -> R: ...


def each_time(make: Callable[[P], R], of: P, /, *_parts: object) -> R:
    """Remembers nothing."""
    return make(of)


class Question(Struct, frozen=True):
    """An object about to be stored, as it is on the wire; `old` is None for a new one."""

    namespace: str
    new: Json
    old: Json | None = None
    reads: Callable[[Json], Object | None] = lambda _: None
    once: Once = each_time

    @property
    def thing(self) -> Object | None:
        """The object as we read it; None where we cannot."""
        return self.reads(self.new)

    @property
    def was(self) -> Object | None:
        return None if self.old is None else self.reads(self.old)


class Admit(Struct, frozen=True):
    """It may; with `changed`, once it has become that."""

    changed: Json | None = None


class Refuse(Struct, frozen=True):
    """It may not, and why."""

    message: str


Verdict = Admit | Refuse

Wanted = Key | Kind
"""What a judge must know besides: one object, or all of a kind."""
Inquiry = Generator[Wanted, tuple[Object, ...], Verdict]
"""Names what it wants to know, is sent what there is of it at that moment, and returns its verdict."""


class Rules(Struct, frozen=True):
    """What judges go by."""

    quota: QuotaSettings
    role_hash: Callable[[PodShape, int], str]
    """Pods of a group with equal hashes are one pod set."""


Said = Verdict | Inquiry
"""The verdict, or how it is come to."""
Judge = Callable[[Question, Rules], Said]
