"""What must be counted workload by workload, when somebody asks: one look at each, with nothing but plain names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headgate.engine.distributions import Labels
from headgate.engine.planes import Number
from headgate.engine.quota.desk import Desk
from headgate.engine.quota.gauges import Measured
from headgate.engine.quota.refusals import Refusals
from headgate.lifecycle.workload.conditions import (
    ADMITTED,
    FINISHED,
    NO_RESERVATION,
    PENDING_EVALUATION,
    QUOTA_RESERVED,
)
from headgate.model.keys import Key, Kind
from headgate.model.queues import QueuedWorkload

UNSATISFIED_CHECKS = "UnsatisfiedAdmissionChecks"
NOTHING = ""  # what keeps a workload from its quota when it has it

Standing = tuple[str, str, str]
"""A namespace, the name of a local queue in it, and the cluster queue it has quota of; empty: it has none."""

Unadmitted = Counter[tuple[Standing, str]]
"""With what keeps them from their quota."""


def workload_gauges(of: Measured, desk: Desk, refusals: Refusals) -> Iterator[Number]:
    """How many are finished and still there, and how many are not admitted, and why."""
    finished: Counter[Standing] = Counter()
    unadmitted: Unadmitted = Counter()
    for workload in desk.seen():
        true = {one.type for one in workload.conditions if one.status == "True"}
        if FINISHED in true:
            finished[_standing(workload)] += 1
        elif ADMITTED not in true and workload.deleted is None:
            unadmitted[_standing(workload), _cause(workload)] += 1
    _correct(unadmitted, desk, refusals)
    yield from _finished(of, finished)
    yield from _unadmitted(of, unadmitted)


def _correct(unadmitted: Unadmitted, desk: Desk, refusals: Refusals) -> None:
    """Those who are not told yet why they wait count as if they were."""
    for key, refusal in refusals.untold.items():
        sheet = desk.get(key)
        if sheet is not None and unadmitted[_standing(sheet.seen), _cause(sheet.seen)] > 0:
            unadmitted[_standing(sheet.seen), _cause(sheet.seen)] -= 1
            unadmitted[_standing(sheet.seen), refusal.reason] += 1


def _standing(workload: QueuedWorkload) -> Standing:
    given = workload.admission
    return workload.key.namespace, workload.queue, given.cluster_queue if given is not None else ""


def _cause(workload: QueuedWorkload) -> str:
    reserved = workload.condition(QUOTA_RESERVED)
    if reserved is None:
        return PENDING_EVALUATION
    return NOTHING if reserved.status == "True" else reserved.reason


def _finished(of: Measured, counts: Counter[Standing]) -> Iterator[Number]:
    by_queue: Counter[str] = Counter()
    by_local: Counter[Key] = Counter()
    for standing, count in counts.items():
        local, queue = _meant(of, standing)
        by_queue[queue] += count
        by_local[local] += count
    for queue in of.surroundings.queues:
        yield "kueue_finished_workloads", (("cluster_queue", queue),), by_queue[queue]
    for local in of.locals_told_of():
        labels = (("name", local.name), ("namespace", local.namespace))
        yield "kueue_local_queue_finished_workloads", labels, by_local[local]


def _unadmitted(of: Measured, counts: Unadmitted) -> Iterator[Number]:
    by_queue: Counter[tuple[str, Labels]] = Counter()
    by_local: Counter[tuple[str, Key, Labels]] = Counter()
    for (standing, cause), count in counts.items():
        local, queue = _meant(of, standing)
        reason = UNSATISFIED_CHECKS if cause == NOTHING else NO_RESERVATION
        why = (("reason", reason), ("underlying_cause", cause))
        if queue and count:
            by_queue[queue, why] += count
            by_local[queue, local, why] += count
    for (queue, because), count in by_queue.items():
        yield "kueue_unadmitted_workloads", (("cluster_queue", queue), *because), count
    for (queue, local, because), count in by_local.items():
        if of.surroundings.tells_of(local):
            labels = (("cluster_queue", queue), ("name", local.name), ("namespace", local.namespace), *because)
            yield "kueue_local_queue_unadmitted_workloads", labels, count


def _meant(of: Measured, standing: Standing) -> tuple[Key, str]:
    """The local queue, and the cluster queue: the one it has quota of, or would get it from."""
    namespace, name, queue = standing
    local = Key(Kind.LOCAL_QUEUE, namespace, name)
    found = of.surroundings.locals.get(local)
    return local, queue or (found.cluster_queue if found is not None else "")
