"""Queues, cohorts and workloads on one line: cpu in whole cores, only what matters said."""

from __future__ import annotations

from typing import Any

from builders import changed, kueue_workload

from headgate.engine.quota.admission_cycle import QuotaSnapshot
from headgate.model.keys import Condition, Key, Kind
from headgate.model.pod import PodShape
from headgate.model.queues import (
    Admission,
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    PodSet,
    PodSetAssignment,
    QueuedWorkload,
    QueuePreemption,
    Quota,
    ResourceFlavor,
    ResourceGroup,
)
from headgate.model.resources import Resources
from headgate.model.settings import QuotaSettings
from headgate.quota.ledger import Ledger, Reservation
from headgate.quota.pending_queue import BackoffDeadlines
from headgate.quota.pending_queues import PendingQueues
from headgate.quota.pending_workload import PendingWorkload, pending_workload
from headgate.quota.tree import FlavorResource, usage_of

CPU = FlavorResource("default", "cpu")
PLAIN = QuotaSettings()


def cpus(cores: int | Quota) -> Quota:
    """A quota in whole cores."""
    if isinstance(cores, Quota):
        limits = (cores.borrowing_limit, cores.lending_limit)
        borrowing, lending = (None if limit is None else limit * 1000 for limit in limits)
        return Quota(cores.nominal * 1000, borrowing, lending)
    return Quota(cores * 1000)


def group(**flavors: int | Quota) -> ResourceGroup:
    """cpu of these flavors, in order."""
    return ResourceGroup(
        ("cpu",),
        tuple(FlavorQuotas(name.replace("_", "-"), (("cpu", cpus(quota)),)) for name, quota in flavors.items()),
    )


def queue(name: str, nominal: int | Quota | None = None, cohort: str = "", **fields: Any) -> ClusterQueue:
    """A queue with cpu of the flavor `default`, or with the given groups."""
    groups = fields.pop("groups", None) or (() if nominal is None else (group(default=nominal),))
    fields.setdefault("namespaces", ())
    return ClusterQueue(Key(Kind.CLUSTER_QUEUE, "", name), f"uid-{name}", "1", groups, cohort, **fields)


def cohort(name: str, parent: str = "", nominal: int | Quota | None = None, **fields: Any) -> Cohort:
    groups = fields.pop("groups", None) or (() if nominal is None else (group(default=nominal),))
    return Cohort(Key(Kind.COHORT, "", name), f"uid-{name}", "1", parent, groups, **fields)


def flavor(name: str = "default", **fields: Any) -> ResourceFlavor:
    return ResourceFlavor(Key(Kind.RESOURCE_FLAVOR, "", name), f"uid-{name}", "1", **fields)


def policy(**fields: Any) -> QueuePreemption:
    return QueuePreemption(**fields)


def pods(name: str = "main", count: int = 1, cpu: int = 1, min_count: int | None = None, **fields: Any) -> PodSet:
    amounts = {"cpu": cpu * 1000, **fields.pop("amounts", {})}
    return PodSet(name, PodShape(requests=Resources.of(amounts), **fields), count, min_count)


def work(name: str = "a", cpu: int = 1, priority: int = 0, created: float = 0.0, **fields: Any) -> QueuedWorkload:
    """A workload of one pod, or with the given pod sets."""
    pod_sets = fields.pop("pod_sets", None) or (pods(cpu=cpu),)
    defaults: dict[str, Any] = {"queue": "local", "priority": priority}
    key = Key(Kind.KUEUE_WORKLOAD, fields.pop("namespace", "default"), name)
    return kueue_workload(key, f"uid-{name}", "1", created, pod_sets, **{**defaults, **fields})


def applies(name: str, to: str, cpu: int = 1, settings: QuotaSettings = PLAIN, **fields: Any) -> PendingWorkload:
    return pending_workload(work(name, cpu, **fields), to, settings)


def holds(name: str, of: str, cpu: int = 1, priority: int = 0, flavor: str = "default", **fields: Any) -> Reservation:
    key = Key(Kind.KUEUE_WORKLOAD, "default", name)
    usage = fields.pop("usage", None) or usage_of({FlavorResource(flavor, "cpu"): cpu * 1000})
    return Reservation(key, f"uid-{name}", of, usage, priority, **fields)


def ledger(*parts: ClusterQueue | Cohort | Reservation) -> Ledger:
    made = Ledger(
        [part for part in parts if isinstance(part, ClusterQueue)], [part for part in parts if isinstance(part, Cohort)]
    )
    for part in parts:
        if isinstance(part, Reservation):
            made.reserve(part)
    return made


def snapshot(books: Ledger, *flavors: ResourceFlavor, **fields: Any) -> QuotaSnapshot:
    fields.setdefault("may_enter", lambda queue, namespace: queue.namespaces is not None)
    return QuotaSnapshot(books, {one.name: one for one in flavors or (flavor(),)}, **fields)


def pending(
    books: Ledger, *waiting: PendingWorkload, now: float = 0.0, backoffs: BackoffDeadlines | None = None
) -> PendingQueues:
    queues = PendingQueues(backoffs=backoffs)
    nodes = books.forest.queues
    queues.configure([node.queue for node in nodes.values()], {name: books.forest.tree_of(name) for name in nodes})
    for one in waiting:
        queues.add(one, now)
    return queues


def condition(type_: str, status: bool, reason: str = "", at: float = 0.0) -> Condition:
    return Condition(type_, str(status), reason, "", at)


def reserved(workload: QueuedWorkload, in_queue: str, **flavors: str) -> QueuedWorkload:
    """The workload with quota for its first pod set."""
    first = workload.pod_sets[0]
    usage = Resources(tuple((name, amount * first.count) for name, amount in first.shape.requests))
    given = PodSetAssignment(first.name, tuple(sorted(flavors.items())), usage, first.count)
    return changed(workload, admission=Admission(in_queue, (given,)))
