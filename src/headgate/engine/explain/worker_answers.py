"""What each worker cluster answers to a workload that was dispatched: by its clone there, or by what home knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from headgate.engine.explain.explanation import WorkerAnswer
from headgate.fleet.orchestrator import Promise
from headgate.fleet.replicas import Answer, Replica
from headgate.model.keys import Condition
from headgate.model.kueue_names import OPENED_GATE
from headgate.model.quantity import duration_text
from headgate.model.queues import MultiKueueCluster, QueuedWorkload


def concerned_clusters(home: QueuedWorkload) -> tuple[str, ...]:
    """The worker clusters that a workload was dispatched to, and the one it runs on."""
    named = (*home.status.nominated_clusters, *((home.status.cluster,) if home.status.cluster else ()))
    return tuple(dict.fromkeys(named))


def worker_answers(
    home: QueuedWorkload,
    clusters: Mapping[str, MultiKueueCluster],
    clones: Mapping[str, QueuedWorkload],
    now: float,
) -> tuple[WorkerAnswer, ...]:
    """In the order of nomination. `clusters` and `clones` have what could be read."""
    promise = Promise.read(home.annotations.get(OPENED_GATE, ""), 0.0)
    answers = []
    for name in concerned_clusters(home):
        answer, why = _answer(home, name, clusters.get(name), clones.get(name), now)
        if promise is not None and promise.cluster == name and home.status.cluster != name:
            why = "; ".join(
                filter(None, (f"allowed to preempt {duration_text(max(0, int(now - promise.at)))} ago", why))
            )
        answers.append(WorkerAnswer(name, answer, why))
    return tuple(answers)


def is_connected(cluster: MultiKueueCluster) -> bool:
    """As its status says."""
    shown = _active(cluster)
    return shown is not None and shown.status == "True"


def _active(cluster: MultiKueueCluster) -> Condition | None:
    return next((one for one in cluster.conditions if one.type == "Active"), None)


def _answer(
    home: QueuedWorkload, name: str, cluster: MultiKueueCluster | None, clone: QueuedWorkload | None, now: float
) -> tuple[str, str]:
    shown = _active(cluster) if cluster is not None else None
    if clone is not None:
        return _of_clone(Replica(name, clone), now)
    if shown is not None and shown.status != "True":
        return "not connected", f"{shown.reason}: {shown.message}"
    if home.status.cluster == name:
        return "admitted", ""
    return "dispatched", "its answer cannot be read from here"


def _of_clone(replica: Replica, now: float) -> tuple[str, str]:
    quota = replica.workload.condition("QuotaReserved")
    why = quota.message if quota is not None else ""
    match replica.answer:
        case Answer.ADMITTED:
            return "admitted", ""
        case Answer.RESERVED:
            return "has quota", "waits for its admission checks"
        case Answer.BLOCKED:
            return "needs preemption", _price(replica, now)
        case Answer.REFUSED:
            return "no quota", why
        case Answer.NONE if replica.opened_at is not None:
            return "preempting", why
        case Answer.NONE:
            return "not considered yet", why
        case _:
            assert_never(replica.answer)


def _price(replica: Replica, now: float) -> str:
    offer = replica.proposal
    if offer is None:
        return "its gate is closed"
    victims = "1 workload" if offer.victims == 1 else f"{offer.victims} workloads"
    lost = duration_text(offer.work_lost(now))
    return f"its gate is closed; would evict {victims} of priority up to {offer.highest_priority}, {lost} of pod work"
