"""What our own cycle makes of a world, in the form in which the oracle answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec
from builders import changed
from kueue_worlds import Manifest

from headgate.api.decode import decode
from headgate.engine.quota.admission_cycle import (
    Admitted,
    Deferred,
    Gated,
    Outcome,
    Preempting,
    QuotaSnapshot,
    Waits,
    cycle,
    settle,
)
from headgate.model.keys import Condition, Key, Kind
from headgate.model.queues import QueuedWorkload
from headgate.model.settings import FairStrategy, QuotaSettings
from headgate.quota.flavors import Assignment
from headgate.quota.ledger import Ledger, Reservation
from headgate.quota.pending_queue import Unreserved
from headgate.quota.pending_queues import PendingQueues
from headgate.quota.pending_workload import ordered_at, pending_workload
from headgate.quota.requests import reservation_of

FIRST_TIME, ROUND_TIME = 1_000_000.0, 1_000.0  # seconds, as the oracle counts

Told = dict[str, Any]


def decoded(kind: Kind, manifests: Sequence[Manifest]) -> list[Any]:
    return [decode(kind, msgspec.json.encode(each)) for each in manifests]


def without_overcommitment(world: Manifest) -> Manifest:
    """The world less the holders there is no quota for."""
    ledger = _ledger(world)
    kept = []
    for manifest in world["workloads"]:
        (workload,) = decoded(Kind.KUEUE_WORKLOAD, [manifest])
        holder = _holder(workload)
        if holder is None or ledger.fits(holder.queue, holder.usage):
            kept.append(manifest)
            if holder is not None:
                ledger.reserve(holder)
    return {**world, "workloads": kept}


def _ledger(world: Manifest) -> Ledger:
    return Ledger(decoded(Kind.CLUSTER_QUEUE, world["queues"]), decoded(Kind.COHORT, world["cohorts"]))


def _holder(workload: QueuedWorkload) -> Reservation | None:
    return reservation_of(workload, ordered_at(workload, QuotaSettings()))


class OurWorld:
    """Queues, cohorts and workloads, cycle after cycle."""

    def __init__(self, world: Manifest) -> None:
        fair = tuple(FairStrategy(each) for each in world["fair"] or ())
        self.settings = QuotaSettings(fair=fair, preemption_gates=True)
        self.ledger = _ledger(world)
        self.now = FIRST_TIME
        self._restarts = world["restarts"]
        self._flavors = {each.name: each for each in decoded(Kind.RESOURCE_FLAVOR, world["flavors"])}
        self._waiting: dict[Key, QueuedWorkload] = {}
        self._workloads: dict[Key, QueuedWorkload] = {}
        for workload in decoded(Kind.KUEUE_WORKLOAD, world["workloads"]):
            holder = _holder(workload)
            self._workloads[workload.key] = workload
            if holder is None:
                self._waiting[workload.key] = workload
            else:
                self.ledger.reserve(holder)
        self._line_up()

    def _line_up(self) -> None:
        self._pending = PendingQueues()
        nodes = self.ledger.forest.queues
        self._pending.configure(
            [node.queue for node in nodes.values() if node.queue],
            {name: self.ledger.forest.tree_of(name) for name in nodes},
        )
        for workload in self._waiting.values():
            self._pending.add(pending_workload(workload, workload.queue, self.settings), self.now)

    def tree_of(self, queue: str) -> str:
        """One name for all queues that share quota with this one."""
        return self.ledger.forest.tree_of(queue)[0]

    def cycle(self) -> dict[str, Told]:
        """What becomes of each head, by name; settled as if all of it had happened. Nothing when all is quiet."""
        heads = self._pending.heads()
        outcomes = cycle(self._snapshot(), heads, self.settings)
        told = {one.head.key.name: _told(one) for one in outcomes}
        for outcome in outcomes:
            settle(outcome, self._pending, self.ledger, self.now)
            if isinstance(outcome, Admitted):
                del self._waiting[outcome.head.key]
        return told

    def _snapshot(self) -> QuotaSnapshot:
        return QuotaSnapshot(self.ledger, self._flavors, lambda queue, namespace: True, number=self._pending.cycle)

    def next_round(self) -> None:
        """The evicted are gone and queue up again."""
        self.now += ROUND_TIME
        for name in self.ledger.forest.queues:
            for holder in sorted(self.ledger.reservations(name), key=lambda one: one.uid):
                if holder.evicted:
                    self._send_away(holder)
        if self._restarts:
            self._line_up()

    def _send_away(self, holder: Reservation) -> None:
        conditions = (Condition("Evicted", "True", "Preempted", "", self.now),)
        workload = changed(self._workloads[holder.key], admission=None, conditions=conditions)
        self._waiting[holder.key] = workload
        self.ledger.release(holder.queue, holder.uid)
        self._pending.wake(holder.queue, self.now)
        self._pending.add(pending_workload(workload, holder.queue, self.settings), self.now)


def _told(outcome: Outcome) -> Told:
    match outcome:
        case Admitted(_, assignment):
            return {"admitted": True, **_assigned(assignment)}
        case Preempting(_, _, victims, message):
            new = {one.reservation.key.name: one.reason.value for one in victims if not one.reservation.evicted}
            return _waits(Unreserved.PREEMPTING, message, new)
        case Deferred(_, _, message):
            return _waits(Unreserved.PREEMPTING, message)
        case Gated(_, _, message):
            return _waits(Unreserved.GATED, message)
        case Waits(_, reason, _, message):
            return _waits(reason, message)
        case _:
            assert_never(outcome)


def _assigned(assignment: Assignment) -> Told:
    flavors: dict[str, dict[str, str]] = {each.name: {} for each in assignment.pod_sets}
    for (pod_set, resource), flavor in assignment.flavors.items():
        flavors[pod_set][resource] = flavor
    return {"flavors": flavors, "counts": {each.name: each.count for each in assignment.pod_sets}}


def _waits(reason: Unreserved, message: str, victims: dict[str, str] | None = None) -> Told:
    return {"admitted": False, "reason": reason.value, "message": message, "victims": victims or {}}
