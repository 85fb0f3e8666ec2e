"""What is said of a workload: a verdict, the limits that bind, who holds the quota, and changes that would help."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    FINISHED = "Finished"
    DELETED = "BeingDeleted"
    ADMITTED = "Admitted"
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


class LimitKind(StrEnum):
    NOMINAL = "nominalQuota"  # of a queue that shares with nobody
    BORROWING = "borrowingLimit"
    TOTAL = "total"  # of all that a cohort has


class Field(StrEnum):
    """What of a quota can be raised."""

    NOMINAL = "nominalQuota"
    BORROWING = "borrowingLimit"
    LENDING = "lendingLimit"


class HolderLine(Struct, frozen=True):
    """`since` is None where that is not told. `why` says why it can, or cannot, be preempted for this workload."""

    workload: str
    queue: str
    priority: int
    amount: int
    since: float | None
    may_go: bool
    why: str


class Withheld(Struct, frozen=True):
    """Quota that nobody uses and that its owner's lending limit keeps from others."""

    node: str
    amount: int


class Shortage(Struct, frozen=True):
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
    withheld: tuple[Withheld, ...] = ()
    holders: tuple[HolderLine, ...] = ()

    @property
    def missing(self) -> int:
        return self.requested - self.free

    @property
    def is_for_ever(self) -> bool:
        """It would not fit if nobody used anything."""
        return self.requested > self.largest


class FlavorReport(Struct, frozen=True):
    """How one flavor does for one pod set: why its pods cannot have it at all, or what of it is short."""

    pod_set: str
    flavor: str
    refusal: str = ""
    shortages: tuple[Shortage, ...] = ()


class NewAmount(Struct, frozen=True):
    flavor: str
    resource: str
    by: int
    to: int


class RaiseQuota(Struct, frozen=True):
    """Of a queue, or of a cohort."""

    name: str
    is_cohort: bool
    field: Field
    amounts: tuple[NewAmount, ...]


class FewerPods(Struct, frozen=True):
    pod_set: str
    before: int
    to: int


class SmallerPods(Struct, frozen=True):
    """Each pod asks for so much less; the amounts name no flavor."""

    pod_set: str
    amounts: tuple[NewAmount, ...]


class HigherPriority(Struct, frozen=True):
    before: int
    to: int


class SetPolicy(Struct, frozen=True):
    """A part of the preemption policy of its queue."""

    queue: str
    field: str
    value: str


class Finish(Struct, frozen=True):
    """These give their quota back."""

    workloads: tuple[str, ...]


class Withdraw(Struct, frozen=True):
    """The one at the head of its queue makes way."""

    workload: str


class SuitFlavor(Struct, frozen=True):
    """The pods must suit the flavor: tolerate what taints its nodes have, and want no other labels."""

    flavor: str
    taints: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


class CoverResources(Struct, frozen=True):
    """The queue must have quota for these."""

    queue: str
    resources: tuple[str, ...]


class Act(Struct, frozen=True):
    """Something that has to be done whatever the quota; where there are several, all of them."""

    text: str


ToQueues = RaiseQuota | SetPolicy | CoverResources
ToWorkload = FewerPods | SmallerPods | HigherPriority | SuitFlavor
ToOthers = Finish | Withdraw
Change = ToQueues | ToWorkload | ToOthers | Act


class Remedy(Struct, frozen=True):
    """One change that alone is enough, acts aside. `victims` then have to leave first."""

    change: Change
    victims: tuple[str, ...] = ()


class Place(Struct, frozen=True):
    """Its turn among those who wait in its cluster queue, counted from 1."""

    position: int
    of: int


class Explanation(Struct, frozen=True, kw_only=True):
    """`about` is whose demand the flavors are judged by: the workload's, or that of the one it waits behind."""

    workload: str
    verdict: Verdict
    summary: str
    local_queue: str = ""
    cluster_queue: str = ""
    cohorts: tuple[str, ...] = ()  # the nearest first
    priority: int = 0
    place: Place | None = None
    about: str = ""
    flavors: tuple[FlavorReport, ...] = ()
    victims: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    notes: tuple[str, ...] = ()
