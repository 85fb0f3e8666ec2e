"""Dispatch: the worker clusters a workload is nominated to, its replicas there, and what is to be read off them.

The all-at-once dispatcher nominates every connected cluster. The incremental one nominates them in rounds. Any other
dispatcher is another controller, whose nominations are taken as they are. The replicas are the clones of the workload.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from msgspec import Struct

from headgate.model.keys import Condition
from headgate.model.kueue_names import MULTIKUEUE, ORIGIN_UID
from headgate.model.queues import GateStatus, PodSet, PreemptionProposal, QueuedWorkload
from headgate.model.settings import ALL_AT_ONCE, INCREMENTAL, MultiKueueSettings

ROUND_SECONDS = 300.0
"""How long the clusters of one round of the incremental dispatcher have before the next ones are added."""
MOST_CLUSTERS = 20  # that a Workload can name

_NOT_CONSIDERED_YET = "PendingEvaluation"


class Workers(Struct, frozen=True):
    """The worker clusters of a MultiKueueConfig, in order, and those of them that are connected."""

    clusters: tuple[str, ...]
    connected: frozenset[str]


class Nominated(Struct, frozen=True):
    """The clusters to dispatch to, since when, and when the next round starts, if there is one."""

    clusters: tuple[str, ...]
    at: float
    next_round: float | None = None


def nominate(settings: MultiKueueSettings, workers: Workers, last: Nominated, now: float) -> Nominated:
    """The nominations now, after the `last` ones.

    A cluster that was nominated stays so while its connection is lost; one that the config does not have any more is
    dropped.
    """
    if settings.dispatcher not in (ALL_AT_ONCE, INCREMENTAL):
        return last
    kept = tuple(name for name in workers.clusters if name in last.clusters)
    left = [name for name in workers.clusters if name in workers.connected and name not in kept]
    over = last.at + ROUND_SECONDS
    if settings.dispatcher == INCREMENTAL and kept and last.at <= now < over:
        return Nominated(kept, last.at, over if left else None)
    added = left[: settings.step_size] if settings.dispatcher == INCREMENTAL else left
    clusters = tuple(name for name in workers.clusters if name in kept or name in added)[:MOST_CLUSTERS]
    at = now if added else last.at
    return Nominated(clusters, at, at + ROUND_SECONDS if len(left) > len(added) else None)


class Answer(Enum):
    """What a worker cluster says to a workload that was dispatched to it."""

    NONE = auto()  # it was not considered yet
    REFUSED = auto()  # there is no quota for it, nor would preemption help
    BLOCKED = auto()  # it needs preemption that a closed gate forbids
    RESERVED = auto()  # it has quota
    ADMITTED = auto()


class Replica(Struct, frozen=True, gc=False):
    """A remote Workload as it was last observed; `connected`: its cluster can be asked now."""

    cluster: str
    workload: QueuedWorkload
    connected: bool = True

    @property
    def admitted_at(self) -> float | None:
        return _since(self.workload.condition("Admitted"))

    @property
    def reserved_at(self) -> float | None:
        return _since(self.workload.condition("QuotaReserved"))

    @property
    def gate(self) -> GateStatus | None:
        """The preemption gate that we open; None where it is closed by having no state."""
        return next((gate for gate in self.workload.status.gate_statuses if gate.name == MULTIKUEUE), None)

    @property
    def opened_at(self) -> float | None:
        gate = self.gate
        return gate.at if gate is not None and gate.open else None

    @property
    def blocked_since(self) -> float | None:
        """Since when it needs preemption that our gate forbids."""
        if self.opened_at is not None or MULTIKUEUE not in self.workload.preemption_gates:
            return None
        return self.workload.gated_since

    @property
    def proposal(self) -> PreemptionProposal | None:
        return self.workload.status.proposal

    @property
    def answer(self) -> Answer:
        if self.admitted_at is not None:
            return Answer.ADMITTED
        if self.reserved_at is not None:
            return Answer.RESERVED
        if self.blocked_since is not None:
            return Answer.BLOCKED
        shown = self.workload.condition("QuotaReserved")
        considered = shown is not None and shown.reason != _NOT_CONSIDERED_YET
        return Answer.REFUSED if considered and self.opened_at is None else Answer.NONE

    @property
    def refusal(self) -> str:
        """Why it has no quota there, by the reason of its condition."""
        shown = self.workload.condition("QuotaReserved")
        return shown.reason if shown is not None and shown.status != "True" else ""


def winner(replicas: Iterable[Replica]) -> Replica | None:
    """The connected cluster that admitted it first; of several in the same second the first of these."""
    admitted = [(replica.admitted_at, place, replica) for place, replica in enumerate(replicas) if replica.connected]
    found = [(at, place, replica) for at, place, replica in admitted if at is not None]
    return min(found, key=lambda each: each[:2])[2] if found else None


class Drift(Enum):
    """How a replica differs from the workload at home."""

    NONE = auto()
    PRIORITY = auto()  # only in its priority, which can be changed
    SPEC = auto()


def drift(home: QueuedWorkload, replica: QueuedWorkload) -> Drift:
    """Preemption gates are the replica's own, and the priority class is resolved at home.

    A replica of a workload that had the same name before is no replica of this one.
    """
    is_other = replica.annotations.get(ORIGIN_UID, home.uid) != home.uid
    if is_other or replica_spec(home) != replica_spec(replica):
        return Drift.SPEC
    return Drift.NONE if home.priority == replica.priority else Drift.PRIORITY


class ReplicaSpec(Struct, frozen=True, rename="camel"):
    """The fields of a replica that must be those of the workload at home."""

    pod_sets: tuple[PodSet, ...]
    queue_name: str
    maximum_execution_time_seconds: int | None
    active: bool


def replica_spec(workload: QueuedWorkload) -> ReplicaSpec:
    return ReplicaSpec(workload.pod_sets, workload.queue, workload.max_execution_seconds, workload.active)


def drifted_fields(home: QueuedWorkload, replica: QueuedWorkload) -> str:
    """The fields in which a replica of this workload differs; none of a replica of another of the same name."""
    if replica.annotations.get(ORIGIN_UID, home.uid) != home.uid:
        return ""
    wanted, found = replica_spec(home), replica_spec(replica)
    names = zip(ReplicaSpec.__struct_fields__, ReplicaSpec.__struct_encode_fields__, strict=True)
    return ", ".join(f"spec.{name}" for field, name in names if getattr(wanted, field) != getattr(found, field))


def _since(condition: Condition | None) -> float | None:
    return condition.at if condition is not None and condition.status == "True" else None
