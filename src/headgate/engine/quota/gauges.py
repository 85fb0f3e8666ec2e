"""What can be measured of cluster queues and cohorts, by Kueue's names: worked out when somebody asks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from headgate.engine.distributions import Labels
from headgate.engine.planes import Number
from headgate.engine.quota.books import Books
from headgate.engine.quota.surroundings import QuotaSurroundings
from headgate.engine.quota.tally import QueueCount
from headgate.model.keys import Key
from headgate.model.queues import ClusterQueue, Quota
from headgate.model.quota_settings import QuotaSettings
from headgate.model.resources import CPU
from headgate.quota.pending import Census
from headgate.quota.shares import Share, share_of
from headgate.quota.tree import FlavorResource, QuotaNode

STATUSES = ("active", "pending", "terminating")


class Measured(Struct, frozen=True):
    """What is measured."""

    surroundings: QuotaSurroundings
    books: Books
    settings: QuotaSettings

    def locals_told_of(self) -> list[Key]:
        return [key for key in self.surroundings.locals if self.surroundings.tells_of(key)]


def queue_gauges(of: Measured) -> Iterator[Number]:
    for queue in of.surroundings.queues.values():
        labels, count = (("cluster_queue", queue.name),), of.books.tally.queue(queue.name)
        yield from _pending(of, queue, labels)
        yield "kueue_reserving_active_workloads", labels, count.reserving
        yield "kueue_admitted_active_workloads", labels, count.admitted
        shown = _status(of.surroundings.activity(queue).reason)
        for status in STATUSES:
            yield "kueue_cluster_queue_status", (*labels, ("status", status)), int(status == shown)
        node = of.books.ledger.node(queue.name)
        if node is not None:
            yield from _place(node, queue, of.settings.is_fair)
        if of.settings.metrics.cluster_queue_resources:
            yield from _resources(queue, count)


def _pending(of: Measured, queue: ClusterQueue, labels: Labels) -> Iterator[Number]:
    """In a queue that admits nothing, everybody waits for a change."""
    waiting = of.books.pending.of(queue.name)
    if waiting is None:
        return
    tried, others = waiting.census()
    if queue.name in of.surroundings.inactive:
        tried, others = {}, {kind: tried.get(kind, 0) + others.get(kind, 0) for kind in (*tried, *others)}
    for status, kinds in (("active", tried), ("inadmissible", others)):
        yield "kueue_pending_workloads", (*labels, ("status", status)), sum(kinds.values())
        yield "kueue_pending_scheduling_hashes", (*labels, ("status", status)), len(kinds)
    if of.settings.metrics.cluster_queue_resources:
        yield from _asked(queue, (tried, others), labels)


def _asked(queue: ClusterQueue, waiting: Sequence[Census], labels: Labels) -> Iterator[Number]:
    """What all who wait ask for, and nothing for what nobody asks for though there is quota."""
    asked = {name: 0 for group in queue.groups for name in group.resources}
    for kinds in waiting:
        for kind, size in kinds.items():
            for ask in kind.asks:
                for name, amount in ask.each:
                    asked[name] = asked.get(name, 0) + size * ask.count * amount
    for name, amount in sorted(asked.items()):
        yield "kueue_cluster_queue_resource_pending", (*labels, ("resource", name)), units(name, amount)


def _place(node: QuotaNode, queue: ClusterQueue, is_fair: bool) -> Iterator[Number]:
    root = node.root.name if node.parent is not None else ""
    labels = (("cluster_queue", queue.name), ("parent_cohort", queue.cohort), ("root_cohort", root))
    yield "kueue_cluster_queue_info", labels, 1
    if is_fair:
        by_cohort = (("cluster_queue", queue.name), ("cohort", queue.cohort))
        yield "kueue_cluster_queue_weighted_share", by_cohort, _weighted(share_of(node))


def _resources(queue: ClusterQueue, count: QueueCount) -> Iterator[Number]:
    named, reservation = (("cluster_queue", queue.name), ("cohort", queue.cohort)), count.reservation
    for of, quota in quotas_of(queue):
        labels = (*named, ("flavor", of.flavor), ("resource", of.resource))
        yield "kueue_cluster_queue_resource_reservation", labels, units(of.resource, reservation[of])
        yield "kueue_cluster_queue_resource_usage", labels, units(of.resource, count.usage[of])
        yield "kueue_cluster_queue_nominal_quota", labels, units(of.resource, quota.nominal)
        yield "kueue_cluster_queue_borrowing_limit", labels, _limit(of, quota.borrowing_limit)
        yield "kueue_cluster_queue_lending_limit", labels, _limit(of, quota.lending_limit)


def cohort_gauges(of: Measured) -> Iterator[Number]:
    for root in of.books.ledger.forest.roots:
        if not root.is_queue:
            yield from _cohort(of, root, root, _reserved(of, root))


def _cohort(of: Measured, node: QuotaNode, root: QuotaNode, reserved: Counter[FlavorResource]) -> Iterator[Number]:
    labels = (("cohort", node.name),)
    parent = node.parent.name if node.parent is not None else ""
    yield "kueue_cohort_info", (*labels, ("parent_cohort", parent), ("root_cohort", root.name)), 1
    if of.settings.is_fair:
        yield "kueue_cohort_weighted_share", labels, _weighted(share_of(node))
    admitted = sum(of.books.tally.queue(leaf.name).admitted for leaf in node.leaves())
    yield "kueue_cohort_subtree_admitted_active_workloads", labels, admitted
    yield from _by_flavor("kueue_cohort_subtree_quota", labels, node.subtree)
    yield from _by_flavor("kueue_cohort_subtree_resource_reservations", labels, reserved)
    for child in node.cohorts:
        yield from _cohort(of, child, root, _reserved(of, child))


def _reserved(of: Measured, node: QuotaNode) -> Counter[FlavorResource]:
    """By all queues below."""
    reserved: Counter[FlavorResource] = Counter()
    for leaf in node.leaves():
        reserved.update(of.books.tally.queue(leaf.name).reservation)
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
    """Not a number where there is no bound to it."""
    return math.nan if share.is_boundless else float(share.order[1])


def _status(reason: str) -> str:
    return {"Ready": "active", "Terminating": "terminating"}.get(reason, "pending")
