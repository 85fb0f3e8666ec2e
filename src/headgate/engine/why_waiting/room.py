"""Work that has its quota and yet does not run, because pods that leave still take the room it stands for."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.engine.why_waiting.cluster import Cluster
from headgate.model.kueue_names import ADMISSION_GATE
from headgate.model.queues import QueuedWorkload
from headgate.quota.wording import amount_text


def waits_for_room(cluster: Cluster, workload: QueuedWorkload) -> str:
    """What is still taken; empty when it runs, or when no queue's status shows a debt in its flavors."""
    if workload.admission is None or not _is_held(cluster, workload):
        return ""
    flavors = {flavor for given in workload.admission.pod_sets for _, flavor in given.flavors}
    return "; ".join(_owed(cluster, flavors))


def _is_held(cluster: Cluster, workload: QueuedWorkload) -> bool:
    """The job it was made for is still suspended, or one of its pods still gated."""
    owners = [target.key for target in (workload.owner, *workload.owners) if target is not None]
    suspended = any(cluster.jobs[key].suspended for key in owners if key in cluster.jobs)
    return suspended or any(ADMISSION_GATE in cluster.pods[key].gates for key in owners if key in cluster.pods)


def _owed(cluster: Cluster, flavors: set[str]) -> Iterator[str]:
    for name, queue in sorted(cluster.around.queues.items()):
        for debt in queue.debt:
            amounts = [f"{amount_text(resource, amount)} {resource}" for resource, amount in debt.total if amount]
            if debt.flavor in flavors and amounts:
                yield f"pods that leave ClusterQueue {name} have {', '.join(amounts)} of flavor {debt.flavor}"
