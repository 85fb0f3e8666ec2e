"""Messages about quota, in the words Kueue's users search for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from headgate.model.node import Taint
from headgate.model.quantity import LARGEST, NANOS, Notation, Quantity
from headgate.quota.tree import FlavorResource

NO_LONGER_FITS = "Workload no longer fits after processing another workload"
WAITS_FOR_THE_SAME = (
    "Workload has overlapping preemption targets with another workload, but will fit after these preemptions complete"
)
GATED = "Workload requires preemption, but it's gated"
CIRCLES = "it would lead back to an earlier allocation of quota, so workloads would preempt each other in circles"
WITHHELD = f"is withheld: {CIRCLES}"
NOT_READY = "waiting for all admitted workloads to be in PodsReady condition"
PASSED_OVER = "Bypassed scheduling evaluation because an equivalent workload recently failed"
BEHIND = "Workload waits behind another one of its StrictFIFO ClusterQueue"
FAILED_CHECKS = "The workload has failed admission checks"
WRONG_NAMESPACE = "workload namespace doesn't match ClusterQueue selector"


def amount_text(resource: str, amount: int) -> str:
    amount = max(-LARGEST, min(LARGEST, amount))
    if resource == "cpu":
        return str(Quantity(amount * (NANOS // 1000)))
    binary = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return str(Quantity(amount * NANOS, Notation.BINARY if binary else Notation.DECIMAL))


def too_large(of: FlavorResource, assumed: int, asked: int, most: int) -> str:
    before, now, capacity = (amount_text(of.resource, amount) for amount in (assumed, asked, most))
    return (
        f"insufficient quota for {of.resource} in flavor {of.flavor}, previously considered podsets requests "
        f"({before}) + current podset request ({now}) > maximum capacity ({capacity})"
    )


@lru_cache(maxsize=4096)  # many wait for the same; bench_quota takes 1.02 times as long without it
def more_needed(of: FlavorResource, missing: int) -> str:
    amount = amount_text(of.resource, missing)
    return f"insufficient unused quota for {of.resource} in flavor {of.flavor}, {amount} more needed"


def unavailable(resource: str) -> str:
    return f"resource {resource} unavailable in ClusterQueue"


def flavor_missing(flavor: str) -> str:
    return f"flavor {flavor} not found"


def untolerated(taint: Taint, flavor: str) -> str:
    return f"untolerated taint {{{taint.key} {taint.value} {taint.effect} <nil>}} in flavor {flavor}"


def wrong_affinity(flavor: str) -> str:
    return f"flavor {flavor} doesn't match node affinity"


def not_nominated(flavor: str, resource: str) -> str:
    return f"skipping flavor {flavor} as it is not found in the nomination mapping for resource {resource}"


def no_flavors(pod_set: str, reasons: Sequence[str]) -> str:
    return f"couldn't assign flavors to pod set {pod_set}: {', '.join(sorted(reasons))}"


def pending_preemption(message: str, victims: int) -> str:
    return f"{message}. Pending the preemption of {victims} workload(s)"


def preemption_withheld(message: str, victims: int) -> str:
    return (
        f"{message}. The preemption of {victims} workload(s) {WITHHELD}. It is tried again when something else changes"
    )


def queue_missing(queue: str) -> str:
    return f"ClusterQueue {queue} not found"


def queue_inactive(queue: str) -> str:
    return f"ClusterQueue {queue} is inactive"
