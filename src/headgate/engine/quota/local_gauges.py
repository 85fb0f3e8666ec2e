"""What can be measured of local queues, by Kueue's names: worked out when somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headgate.engine.distributions import Labels
from headgate.engine.planes import Number
from headgate.engine.quota.consumption import WHOLE_USE
from headgate.engine.quota.gauges import Measured, quotas_of, units
from headgate.model.keys import Key
from headgate.model.queues import LocalQueue


def local_gauges(of: Measured) -> Iterator[Number]:
    aside = _waiting_for_change(of)
    for key in of.locals_told_of():
        labels, count = _named(key), of.books.tally.local(key)
        later = aside.get(key, 0)
        for status, waiting in (("active", count.pending - later), ("inadmissible", later)):
            yield "kueue_local_queue_pending_workloads", (*labels, ("status", status)), waiting
        yield "kueue_local_queue_reserving_active_workloads", labels, count.reserving
        yield "kueue_local_queue_admitted_active_workloads", labels, count.admitted
        local = of.surroundings.locals[key]
        shown = str(of.surroundings.local_activity(local).active)
        for active in ("True", "False", "Unknown"):
            yield "kueue_local_queue_status", (("active", active), *labels), int(active == shown)
        yield from _resources(of, local, labels)


def _resources(of: Measured, local: LocalQueue, labels: Labels) -> Iterator[Number]:
    queue, count = of.surroundings.queues.get(local.cluster_queue), of.books.tally.local(local.key)
    reservation = count.reservation
    for each, _ in quotas_of(queue) if queue is not None else ():
        named = (("flavor", each.flavor), *labels, ("resource", each.resource))
        yield "kueue_local_queue_resource_reservation", named, units(each.resource, reservation[each])
        yield "kueue_local_queue_resource_usage", named, units(each.resource, count.usage[each])


def _waiting_for_change(of: Measured) -> dict[Key, int]:
    """By local queue. Where nobody will be tried as things are, that is all who wait."""
    found: dict[Key, int] = {}
    by_queue = _by_queue(of)
    for waiting in of.books.pending:
        locals_ = by_queue.get(waiting.queue.name, ())
        if waiting.queue.name in of.surroundings.inactive or not waiting.active:
            found.update((key, of.books.tally.local(key).pending) for key in locals_)
        elif waiting.inadmissible:
            counts = Counter((one.key.namespace, one.workload.queue) for one in waiting.waiting_for_change())
            found.update((key, counts[key.namespace, key.name]) for key in locals_)
    return found


def _by_queue(of: Measured) -> dict[str, list[Key]]:
    found: dict[str, list[Key]] = {}
    for key, local in of.surroundings.locals.items():
        found.setdefault(local.cluster_queue, []).append(key)
    return found


def usage_gauges(of: Measured) -> Iterator[Number]:
    """What local queues used lately, where that matters to anybody."""
    if of.books.consumptions is None:
        return
    for key in of.locals_told_of():
        labels = (("cluster_queue", of.surroundings.locals[key].cluster_queue), *_named(key))
        used = of.books.consumptions.used(key) / WHOLE_USE
        yield "kueue_local_queue_admission_fair_sharing_usage", labels, used


def _named(local: Key) -> Labels:
    return ("name", local.name), ("namespace", local.namespace)
