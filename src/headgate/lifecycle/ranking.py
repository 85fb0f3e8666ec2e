"""Which priority work has in its queue: by its own class, by that of its pods, or by the cluster's default."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from headgate.lifecycle.work import Work
from headgate.model.kueue_names import PRIORITY_CLASS
from headgate.model.objects import PriorityClass
from headgate.model.queues import PriorityClassRef, WorkloadPriorityClass


class QueueRank(Struct, frozen=True, gc=False):
    value: int = 0
    ref: PriorityClassRef | None = None


def queue_rank(
    work: Work, workload_classes: Mapping[str, WorkloadPriorityClass], pod_classes: Mapping[str, PriorityClass]
) -> QueueRank | str:
    """The rank, or what has to be created first."""
    if name := work.labels.get(PRIORITY_CLASS, ""):
        known = workload_classes.get(name)
        if known is None:
            return f"WorkloadPriorityClass {name} does not exist"
        return QueueRank(known.value, PriorityClassRef("kueue.x-k8s.io", "WorkloadPriorityClass", name))
    return _of_pods(work.pod_priority_class, pod_classes)


def _of_pods(name: str, classes: Mapping[str, PriorityClass]) -> QueueRank | str:
    found = classes.get(name) if name else _default(classes)
    if found is None:
        return f"PriorityClass {name} does not exist" if name else QueueRank()
    return QueueRank(found.value, PriorityClassRef("scheduling.k8s.io", "PriorityClass", found.key.name))


def _default(classes: Mapping[str, PriorityClass]) -> PriorityClass | None:
    """Of several that say they are the default, the lowest is, as Kubernetes has it."""
    defaults = [each for each in classes.values() if each.is_default]
    return min(defaults, key=lambda each: (each.value, each.key), default=None)
