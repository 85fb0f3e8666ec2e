"""What work is measured by: flavors, and the classes that give it its priority."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.lifecycle.ranking import QueueRank, queue_rank
from headgate.lifecycle.work import Work
from headgate.model.keys import Key, Kind
from headgate.model.objects import PriorityClass
from headgate.model.queues import ResourceFlavor, WorkloadPriorityClass

Measure = ResourceFlavor | WorkloadPriorityClass | PriorityClass


class Measures:
    """Holds them by name. Decides nothing."""

    reads = (Kind.PRIORITY_CLASS, Kind.WORKLOAD_PRIORITY_CLASS, Kind.RESOURCE_FLAVOR)

    def __init__(self) -> None:
        self._flavors: dict[str, ResourceFlavor] = {}
        self._workload_classes: dict[str, WorkloadPriorityClass] = {}
        self._pod_classes: dict[str, PriorityClass] = {}
        self._versions: dict[Key, tuple[str, str]] = {}

    def put(self, found: Measure) -> bool:
        """Whether that was news."""
        match found:
            case ResourceFlavor():
                self._flavors[found.key.name] = found
            case WorkloadPriorityClass():
                self._workload_classes[found.key.name] = found
            case PriorityClass():
                self._pod_classes[found.key.name] = found
        seen, self._versions[found.key] = self._versions.get(found.key), (found.uid, found.version)
        return seen != (found.uid, found.version)

    def drop(self, key: Key, uid: str) -> None:
        known = self._versions.get(key)
        if known is None or known[0] != uid:
            return
        del self._versions[key]
        by_kind: Mapping[Kind, dict[str, ResourceFlavor] | dict[str, WorkloadPriorityClass] | dict[str, PriorityClass]]
        by_kind = dict(zip(self.reads, (self._pod_classes, self._workload_classes, self._flavors), strict=True))
        by_kind[key.kind].pop(key.name, None)

    @property
    def flavors(self) -> Mapping[str, ResourceFlavor]:
        return self._flavors

    def rank(self, work: Work) -> QueueRank | str:
        """Its priority, or what has to be there first."""
        return queue_rank(work, self._workload_classes, self._pod_classes)
