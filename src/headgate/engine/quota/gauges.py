"""Gauges of queues, cohorts and workloads, by Kueue's names, computed at scrape time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from headgate.engine.metrics import Labels, Number
from headgate.engine.quota.cache import QuotaCache
from headgate.engine.quota.consumption import WHOLE_USE
from headgate.engine.quota.object_cache import QuotaObjectCache
from headgate.engine.quota.queue_usage import QueueUsage
from headgate.engine.quota.workload_records import WorkloadRecords
from headgate.lifecycle.workload.conditions import (
    ADMITTED,
    FINISHED,
    NO_RESERVATION,
    PENDING_EVALUATION,
    QUOTA_RESERVED,
)
from headgate.model.keys import Key, Kind
from headgate.model.queues import GATE_SIGNALS, ClusterQueue, LocalQueue, QueuedWorkload, Quota
from headgate.model.resources import CPU
from headgate.model.settings import QuotaSettings
from headgate.quota.fair_sharing import Share, share_of
from headgate.quota.pending_queue import Census
from headgate.quota.tree import FlavorResource, QuotaNode

STATUSES = ("active", "pending", "terminating")


class Measured(Struct, frozen=True):
    """The sources of all gauges."""

    objects: QuotaObjectCache
    cache: QuotaCache
    settings: QuotaSettings

    def reported_locals(self) -> list[Key]:
        return [key for key in self.objects.locals if self.objects.reports_on(key)]


def queue_gauges(of: Measured) -> Iterator[Number]:
    for queue in of.objects.queues.values():
        labels, count = (("cluster_queue", queue.name),), of.cache.usage.queue(queue.name)
        yield from _pending(of, queue, labels)
        yield "kueue_reserving_active_workloads", labels, count.reserving
        yield "kueue_admitted_active_workloads", labels, count.admitted
        shown = _status(of.objects.activity(queue).reason)
        for status in STATUSES:
            yield "kueue_cluster_queue_status", (*labels, ("status", status)), int(status == shown)
        node = of.cache.ledger.node(queue.name)
        if node is not None:
            yield from _place(node, queue, of.settings.is_fair)
        if of.settings.metrics.cluster_queue_resources:
            yield from _resources(queue, count)


def _pending(of: Measured, queue: ClusterQueue, labels: Labels) -> Iterator[Number]:
    """Pending workloads; in an inactive queue all of them are inadmissible."""
    waiting = of.cache.pending.of(queue.name)
    if waiting is None:
        return
    tried, others = waiting.census()
    if queue.name in of.objects.inactive:
        tried, others = {}, {kind: tried.get(kind, 0) + others.get(kind, 0) for kind in (*tried, *others)}
    for status, kinds in (("active", tried), ("inadmissible", others)):
        yield "kueue_pending_workloads", (*labels, ("status", status)), sum(kinds.values())
        yield "kueue_pending_scheduling_hashes", (*labels, ("status", status)), len(kinds)
    if of.settings.metrics.cluster_queue_resources:
        yield from _pending_requests(queue, (tried, others), labels)


def _pending_requests(queue: ClusterQueue, waiting: Sequence[Census], labels: Labels) -> Iterator[Number]:
    """Requests of all pending workloads, zero included where the queue has quota."""
    requested_total = {name: 0 for group in queue.groups for name in group.resources}
    for kinds in waiting:
        for kind, size in kinds.items():
            for requested in kind.pod_set_requests:
                for name, amount in requested.each:
                    requested_total[name] = requested_total.get(name, 0) + size * requested.count * amount
    for name, amount in sorted(requested_total.items()):
        yield "kueue_cluster_queue_resource_pending", (*labels, ("resource", name)), units(name, amount)


def _place(node: QuotaNode, queue: ClusterQueue, is_fair: bool) -> Iterator[Number]:
    root = node.root.name if node.parent is not None else ""
    labels = (("cluster_queue", queue.name), ("parent_cohort", queue.cohort), ("root_cohort", root))
    yield "kueue_cluster_queue_info", labels, 1
    if is_fair:
        by_cohort = (("cluster_queue", queue.name), ("cohort", queue.cohort))
        yield "kueue_cluster_queue_weighted_share", by_cohort, _weighted(share_of(node))


def _resources(queue: ClusterQueue, count: QueueUsage) -> Iterator[Number]:
    named, reservation = (("cluster_queue", queue.name), ("cohort", queue.cohort)), count.reservation
    for of, quota in quotas_of(queue):
        labels = (*named, ("flavor", of.flavor), ("resource", of.resource))
        yield "kueue_cluster_queue_resource_reservation", labels, units(of.resource, reservation[of])
        yield "kueue_cluster_queue_resource_usage", labels, units(of.resource, count.usage[of])
        yield "kueue_cluster_queue_nominal_quota", labels, units(of.resource, quota.nominal)
        yield "kueue_cluster_queue_borrowing_limit", labels, _limit(of, quota.borrowing_limit)
        yield "kueue_cluster_queue_lending_limit", labels, _limit(of, quota.lending_limit)


def cohort_gauges(of: Measured) -> Iterator[Number]:
    for root in of.cache.ledger.forest.roots:
        if not root.is_queue:
            yield from _cohort(of, root, root, _reserved(of, root))


def _cohort(of: Measured, node: QuotaNode, root: QuotaNode, reserved: Counter[FlavorResource]) -> Iterator[Number]:
    labels = (("cohort", node.name),)
    parent = node.parent.name if node.parent is not None else ""
    yield "kueue_cohort_info", (*labels, ("parent_cohort", parent), ("root_cohort", root.name)), 1
    if of.settings.is_fair:
        yield "kueue_cohort_weighted_share", labels, _weighted(share_of(node))
    admitted = sum(of.cache.usage.queue(leaf.name).admitted for leaf in node.leaves())
    yield "kueue_cohort_subtree_admitted_active_workloads", labels, admitted
    yield from _by_flavor("kueue_cohort_subtree_quota", labels, node.subtree)
    yield from _by_flavor("kueue_cohort_subtree_resource_reservations", labels, reserved)
    for child in node.cohorts:
        yield from _cohort(of, child, root, _reserved(of, child))


def _reserved(of: Measured, node: QuotaNode) -> Counter[FlavorResource]:
    """Reservations of all ClusterQueues below the node."""
    reserved: Counter[FlavorResource] = Counter()
    for leaf in node.leaves():
        reserved.update(of.cache.usage.queue(leaf.name).reservation)
    return reserved


def _by_flavor(name: str, labels: Labels, amounts: dict[FlavorResource, int]) -> Iterator[Number]:
    for of, amount in sorted(amounts.items()):
        if amount > 0:
            yield name, (*labels, ("flavor", of.flavor), ("resource", of.resource)), units(of.resource, amount)


def quotas_of(queue: ClusterQueue) -> Iterator[tuple[FlavorResource, Quota]]:
    for group in queue.groups:
        for flavor in group.flavors:
            yield from ((FlavorResource(flavor.flavor, name), quota) for name, quota in flavor.quotas)


def units(resource: str, amount: int) -> float:
    """Whole units: cores, bytes, devices."""
    return amount / 1000 if resource == CPU else amount


def _limit(of: FlavorResource, amount: int | None) -> float:
    return math.inf if amount is None else units(of.resource, amount)


def _weighted(share: Share) -> float:
    """The weighted share; NaN where it is unbounded."""
    return math.nan if share.is_boundless else float(share.order[1])


def _status(reason: str) -> str:
    return {"Ready": "active", "Terminating": "terminating"}.get(reason, "pending")


def local_gauges(of: Measured) -> Iterator[Number]:
    aside = _waiting_for_change(of)
    for key in of.reported_locals():
        labels, count = _named(key), of.cache.usage.local(key)
        later = aside.get(key, 0)
        for status, waiting in (("active", count.pending - later), ("inadmissible", later)):
            yield "kueue_local_queue_pending_workloads", (*labels, ("status", status)), waiting
        yield "kueue_local_queue_reserving_active_workloads", labels, count.reserving
        yield "kueue_local_queue_admitted_active_workloads", labels, count.admitted
        local = of.objects.locals[key]
        shown = str(of.objects.local_activity(local).active)
        for active in ("True", "False", "Unknown"):
            yield "kueue_local_queue_status", (("active", active), *labels), int(active == shown)
        yield from _local_resources(of, local, labels)


def _local_resources(of: Measured, local: LocalQueue, labels: Labels) -> Iterator[Number]:
    queue, count = of.objects.queues.get(local.cluster_queue), of.cache.usage.local(local.key)
    reservation = count.reservation
    for each, _ in quotas_of(queue) if queue is not None else ():
        named = (("flavor", each.flavor), *labels, ("resource", each.resource))
        yield "kueue_local_queue_resource_reservation", named, units(each.resource, reservation[each])
        yield "kueue_local_queue_resource_usage", named, units(each.resource, count.usage[each])


def _waiting_for_change(of: Measured) -> dict[Key, int]:
    """Inadmissible workloads by LocalQueue."""
    found: dict[Key, int] = {}
    by_queue = _by_queue(of)
    for waiting in of.cache.pending:
        locals_ = by_queue.get(waiting.queue.name, ())
        if waiting.queue.name in of.objects.inactive or not waiting.active:
            found.update((key, of.cache.usage.local(key).pending) for key in locals_)
        elif waiting.inadmissible:
            metrics = Counter((one.key.namespace, one.workload.queue) for one in waiting.waiting_for_change())
            found.update((key, metrics[key.namespace, key.name]) for key in locals_)
    return found


def _by_queue(of: Measured) -> dict[str, list[Key]]:
    found: dict[str, list[Key]] = {}
    for key, local in of.objects.locals.items():
        found.setdefault(local.cluster_queue, []).append(key)
    return found


def usage_gauges(of: Measured) -> Iterator[Number]:
    """Usage of LocalQueues, with usage-based fair sharing."""
    if of.cache.consumptions is None:
        return
    for key in of.reported_locals():
        labels = (("cluster_queue", of.objects.locals[key].cluster_queue), *_named(key))
        used = of.cache.consumptions.used(key) / WHOLE_USE
        yield "kueue_local_queue_admission_fair_sharing_usage", labels, used


def _named(local: Key) -> Labels:
    return ("name", local.name), ("namespace", local.namespace)


UNSATISFIED_CHECKS = "UnsatisfiedAdmissionChecks"
NOTHING = ""  # what keeps a workload from its quota when it has it

_Placement = tuple[str, str, str]
"""A namespace, the name of a local queue in it, and the cluster queue it has quota of; empty: it has none."""

Unadmitted = Counter[tuple[_Placement, str]]
"""Counts by queues and the reason there is no quota."""


def workload_gauges(of: Measured, records: WorkloadRecords) -> Iterator[Number]:
    """Finished workloads that still exist, unadmitted ones by reason, and those that wait for a preemption gate."""
    finished: Counter[_Placement] = Counter()
    unadmitted: Unadmitted = Counter()
    gated: Counter[str] = Counter()
    for workload in records.observed():
        true = {one.type for one in workload.status.conditions if one.status == "True"}
        if FINISHED in true:
            finished[_placement(workload)] += 1
        elif ADMITTED not in true and workload.deleted is None:
            unadmitted[_placement(workload), _underlying_cause(workload)] += 1
            if not true.isdisjoint(GATE_SIGNALS) and workload.gated_since is not None:
                gated[_queues_of(of, _placement(workload))[1]] += 1
    _count_pending_refusals(unadmitted, records)
    yield from _finished_gauges(of, finished)
    yield from (("headgate_preemption_gated_workloads", (("cluster_queue", one),), gated[one]) for one in gated if one)
    yield from _unadmitted_gauges(of, unadmitted)


def _count_pending_refusals(unadmitted: Unadmitted, records: WorkloadRecords) -> None:
    """Refusals that are not written yet count as if they were."""
    for record in records.refused.values():
        refusal = record.refusal
        if refusal is not None and unadmitted[_placement(record.observed), _underlying_cause(record.observed)] > 0:
            unadmitted[_placement(record.observed), _underlying_cause(record.observed)] -= 1
            unadmitted[_placement(record.observed), refusal.reason] += 1


def _placement(workload: QueuedWorkload) -> _Placement:
    given = workload.status.admission
    return workload.key.namespace, workload.queue, given.cluster_queue if given is not None else ""


def _underlying_cause(workload: QueuedWorkload) -> str:
    reserved = workload.condition(QUOTA_RESERVED)
    if reserved is None:
        return PENDING_EVALUATION
    return NOTHING if reserved.status == "True" else reserved.reason


def _finished_gauges(of: Measured, metrics: Counter[_Placement]) -> Iterator[Number]:
    by_queue: Counter[str] = Counter()
    by_local: Counter[Key] = Counter()
    for placement, count in metrics.items():
        local, queue = _queues_of(of, placement)
        by_queue[queue] += count
        by_local[local] += count
    for queue in of.objects.queues:
        yield "kueue_finished_workloads", (("cluster_queue", queue),), by_queue[queue]
    for local in of.reported_locals():
        labels = (("name", local.name), ("namespace", local.namespace))
        yield "kueue_local_queue_finished_workloads", labels, by_local[local]


def _unadmitted_gauges(of: Measured, metrics: Unadmitted) -> Iterator[Number]:
    by_queue: Counter[tuple[str, Labels]] = Counter()
    by_local: Counter[tuple[str, Key, Labels]] = Counter()
    for (placement, cause), count in metrics.items():
        local, queue = _queues_of(of, placement)
        reason = UNSATISFIED_CHECKS if cause == NOTHING else NO_RESERVATION
        why = (("reason", reason), ("underlying_cause", cause))
        if queue and count:
            by_queue[queue, why] += count
            by_local[queue, local, why] += count
    for (queue, because), count in by_queue.items():
        yield "kueue_unadmitted_workloads", (("cluster_queue", queue), *because), count
    for (queue, local, because), count in by_local.items():
        if of.objects.reports_on(local):
            labels = (("cluster_queue", queue), ("name", local.name), ("namespace", local.namespace), *because)
            yield "kueue_local_queue_unadmitted_workloads", labels, count


def _queues_of(of: Measured, placement: _Placement) -> tuple[Key, str]:
    """The LocalQueue, and the ClusterQueue it has quota of or would get it from."""
    namespace, name, queue = placement
    local = Key(Kind.LOCAL_QUEUE, namespace, name)
    found = of.objects.locals.get(local)
    return local, queue or (found.cluster_queue if found is not None else "")
