"""The explanation of a workload as a value, and its sentences: state, limiting quota, holders, minimal changes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import assert_never

from msgspec import Struct

from headgate.quota.messages import amount_text


class WorkloadState(StrEnum):
    """What is said first of a Workload, or of a job that has none."""

    FINISHED = "Finished"
    DELETED = "BeingDeleted"
    ADMITTED = "Admitted"
    NO_NODE = "WaitingForNodes"  # admitted, and some of its pods have no node
    NO_ROOM = "WaitingForRoom"  # admitted, and held for pods that are leaving
    CHECKS = "WaitingForAdmissionChecks"
    LEAVING = "Evicted"  # and still holding its quota
    DEACTIVATED = "Deactivated"
    GATED = "AdmissionGated"
    ON_HOLD = "OnHold"
    NO_LOCAL_QUEUE = "LocalQueueNotFound"
    LOCAL_STOPPED = "LocalQueueStopped"
    NO_QUEUE = "ClusterQueueNotFound"
    INACTIVE = "ClusterQueueInactive"
    WRONG_NAMESPACE = "NamespaceNotMatched"
    CHECKS_FAILED = "AdmissionChecksFailed"
    BACKOFF = "BackingOff"
    INVALID = "Misconfigured"  # its pods ask for what no server would let them have
    BEHIND = "BehindOthers"  # in a queue that goes strictly in order
    NO_FLAVOR = "NoMatchingFlavor"
    TOO_LARGE = "ExceedsMaxQuota"
    QUOTA = "WaitingForQuota"
    PREEMPTING = "WaitingForPreemptedWorkloads"
    PREEMPTION_GATED = "PreemptionGated"
    PREEMPTION_WITHHELD = "PreemptionWithheld"
    PODS_NOT_READY = "WaitingForPodsReady"
    NOTHING = "CouldBeAdmitted"
    PENDING = "Pending"  # and why cannot be read
    NOT_MANAGED = "NotManaged"  # a job without a Workload, which gets none
    INCOMPLETE = "GroupIncomplete"
    NO_CLASS = "PriorityClassNotFound"
    NO_WORKLOAD = "WorkloadNotCreated"


class LimitKind(StrEnum):
    NOMINAL = "nominalQuota"  # of a queue that shares with nobody
    BORROWING = "borrowingLimit"
    TOTAL = "total"  # of all that a cohort has


class QuotaField(StrEnum):
    """A field of a quota that can be raised."""

    NOMINAL = "nominalQuota"
    BORROWING = "borrowingLimit"
    LENDING = "lendingLimit"


class QuotaHolder(Struct, frozen=True):
    """A workload that holds the quota. `why` says why it can, or cannot, be preempted; `since` is None if unknown."""

    workload: str
    queue: str
    priority: int
    amount: int
    since: float | None
    preemptable: bool
    why: str


class UnlentQuota(Struct, frozen=True):
    """Unused quota that the lendingLimit of its owner keeps from others."""

    node: str
    amount: int


class LimitingQuota(Struct, frozen=True):
    """One resource of one flavor that is short, and the queue or cohort whose limit binds.

    That one may use `capacity` at most and uses `used`. Of what the workload asks for, `free` is there. `largest` is
    what a workload of its queue could get if nobody used anything.
    """

    flavor: str
    resource: str
    limit: LimitKind
    node: str
    is_cohort: bool
    capacity: int
    used: int
    requested: int
    free: int
    largest: int
    unlent: tuple[UnlentQuota, ...] = ()
    holders: tuple[QuotaHolder, ...] = ()

    @property
    def missing(self) -> int:
        return self.requested - self.free

    @property
    def is_for_ever(self) -> bool:
        """It would not fit if nobody used anything."""
        return self.requested > self.largest


class FlavorReport(Struct, frozen=True):
    """One flavor for one pod set: why its pods cannot use it, or the quota of it that is exceeded."""

    pod_set: str
    flavor: str
    refusal: str = ""
    limits: tuple[LimitingQuota, ...] = ()


class NewAmount(Struct, frozen=True):
    flavor: str
    resource: str
    by: int
    to: int


class RaiseQuota(Struct, frozen=True):
    """Raise a quota of a ClusterQueue or Cohort."""

    name: str
    is_cohort: bool
    field: QuotaField
    amounts: tuple[NewAmount, ...]


class FewerPods(Struct, frozen=True):
    pod_set: str
    before: int
    to: int


class SmallerPods(Struct, frozen=True):
    """Lower the requests of each pod; the amounts name no flavor."""

    pod_set: str
    amounts: tuple[NewAmount, ...]


class HigherPriority(Struct, frozen=True):
    before: int
    to: int


class SetPolicy(Struct, frozen=True):
    """Set a field of the preemption policy of its ClusterQueue."""

    queue: str
    field: str
    value: str


class FinishWorkloads(Struct, frozen=True):
    """These workloads finish and release their quota."""

    workloads: tuple[str, ...]


class DeactivateHead(Struct, frozen=True):
    """The head of its StrictFIFO queue is deleted or deactivated."""

    workload: str


class MatchFlavor(Struct, frozen=True):
    """The pods tolerate the taints of the flavor and select none but its labels."""

    flavor: str
    taints: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


class CoverResources(Struct, frozen=True):
    """The ClusterQueue covers these resources."""

    queue: str
    resources: tuple[str, ...]


class RequiredAction(Struct, frozen=True):
    """An action that is required whatever the quota; if there are several, all of them are."""

    text: str


ToQueues = RaiseQuota | SetPolicy | CoverResources
ToWorkload = FewerPods | SmallerPods | HigherPriority | MatchFlavor
ToOthers = FinishWorkloads | DeactivateHead
Change = ToQueues | ToWorkload | ToOthers | RequiredAction


class MinimalChange(Struct, frozen=True):
    """A change that admits the workload by itself, after `victims` were preempted; no smaller one of its kind does."""

    change: Change
    victims: tuple[str, ...] = ()


class WorkloadAhead(Struct, frozen=True):
    """A pending workload that is considered earlier."""

    workload: str
    priority: int


class QueuePosition(Struct, frozen=True):
    """Its position among the pending workloads of its ClusterQueue, counted from 1, and the first of those ahead."""

    position: int
    of: int
    ahead: tuple[WorkloadAhead, ...] = ()


class WorkerAnswer(Struct, frozen=True):
    """What a worker cluster says to a workload that was dispatched to it."""

    cluster: str
    answer: str
    why: str = ""


class Explanation(Struct, frozen=True, kw_only=True):
    """`about` is the workload whose requests `flavors` is about: this one, or the head it waits behind.

    `workload` is the name of a Workload or, as `kind` says, of a job that has none.
    """

    kind: str = "Workload"
    workload: str
    state: WorkloadState
    summary: str
    local_queue: str = ""
    cluster_queue: str = ""
    cohorts: tuple[str, ...] = ()  # the nearest first
    priority: int = 0
    position: QueuePosition | None = None
    about: str = ""
    flavors: tuple[FlavorReport, ...] = ()
    victims: tuple[str, ...] = ()
    minimal_changes: tuple[MinimalChange, ...] = ()
    notes: tuple[str, ...] = ()
    workers: tuple[WorkerAnswer, ...] = ()  # of a workload that runs on other clusters


def limit_sentence(short: LimitingQuota) -> str:
    """Continues a sentence about the workload."""
    asked = f"{amount_text(short.resource, short.requested)} {short.resource} of flavor {short.flavor}"
    if short.is_for_ever:
        largest = amount_text(short.resource, short.largest)
        return f"requests {asked}, more than its maximum of {largest}: {limit_text(short)}"
    free = amount_text(short.resource, short.free)
    return f"needs {asked} and {free} is free: {limit_text(short)}"


def limit_text(short: LimitingQuota) -> str:
    """The limiting ClusterQueue or Cohort, with its numbers."""
    capacity, used = (amount_text(short.resource, amount) for amount in (short.capacity, short.used))
    where = node_text(short.node, short.is_cohort)
    match short.limit:
        case LimitKind.NOMINAL:
            return f"nominalQuota of {where} is {capacity}, {used} in use"
        case LimitKind.BORROWING:
            return f"{where} may use {capacity} with its borrowingLimit, {used} in use"
        case LimitKind.TOTAL:
            return f"{where} has {capacity} in total, {used} in use{_withheld_text(short.resource, short.unlent)}"
        case _:
            assert_never(short.limit)


def _withheld_text(resource: str, unlent: Iterable[UnlentQuota]) -> str:
    kept = [f"{one.node} keeps {amount_text(resource, one.amount)}" for one in unlent]
    return f" ({', '.join(kept)} unused by its lendingLimit)" if kept else ""


def node_text(name: str, is_cohort: bool) -> str:
    return f"{'Cohort' if is_cohort else 'ClusterQueue'} {name}"


def change_sentence(minimal_change: MinimalChange) -> str:
    text = _change(minimal_change.change)
    return f"{text}; preempts {', '.join(minimal_change.victims)}" if minimal_change.victims else text


def _change(change: Change) -> str:
    match change:
        case RaiseQuota(name, is_cohort, field, amounts):
            return f"raise {field} of {node_text(name, is_cohort)}: {_amounts(amounts)}"
        case FewerPods(pod_set, before, to):
            return f"run {to} instead of {before} pods of {pod_set} (parallelism)"
        case SmallerPods(pod_set, amounts):
            asked = ", ".join(f"{amount_text(one.resource, one.to)} {one.resource}" for one in amounts)
            return f"lower the requests of each pod of {pod_set} to {asked}"
        case HigherPriority(before, to):
            return f"raise its priority from {before} to {to}"
        case SetPolicy(queue, field, value):
            return f"set preemption.{field} of ClusterQueue {queue} to {value}"
        case FinishWorkloads(workloads):
            return f"wait for, or end, {' and '.join(workloads)}"
        case DeactivateHead(workload):
            return f"take {workload} out of the queue (delete it, or set its spec.active to false)"
        case MatchFlavor(flavor, taints, labels):
            wants = [*(f"tolerate {taint}" for taint in taints), *(f"select {label}" for label in labels)]
            return f"make its pods {' and '.join(wants)} (flavor {flavor})"
        case CoverResources(queue, resources):
            return f"add {', '.join(resources)} to the quota of ClusterQueue {queue}, or request none"
        case RequiredAction(text):
            return text
        case _:
            assert_never(change)


def _amounts(amounts: Iterable[NewAmount]) -> str:
    return ", ".join(
        f"{one.resource} of flavor {one.flavor} by {amount_text(one.resource, one.by)}"
        f" (to {amount_text(one.resource, one.to)})"
        for one in amounts
    )
