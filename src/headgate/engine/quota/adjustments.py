"""Limit ranges and runtime classes as they are now, and what workloads of a namespace ask for on their account."""

from __future__ import annotations

from headgate.model.keys import Key, Kind
from headgate.model.limits import LimitRange, RuntimeClass
from headgate.model.queues import PodSet, QueuedWorkload
from headgate.model.quota_settings import QuotaSettings
from headgate.model.resources import Resources
from headgate.quota.adjusting import Adjustments, limits_of
from headgate.quota.order import Wish, wish_of

MOST_WISHES = 16_384
"""How many are kept: more than there are sorts of work in most clusters."""

_Look = tuple[str, tuple[PodSet, ...], tuple[tuple[str, int], ...], int]
"""Namespace, pod sets, pods that are done, priority: all that a wish depends on, besides what is around it."""


class NamespaceAdjustments:
    """Holds them and puts them together. Each change returns whether it means anything."""

    def __init__(self, settings: QuotaSettings) -> None:
        self._settings = settings
        self._ranges: dict[Key, LimitRange] = {}
        self._classes: dict[str, RuntimeClass] = {}
        self._elsewhere = Adjustments()  # what holds where there are no limit ranges
        self._by_namespace: dict[str, Adjustments] = {}
        self._wishes: dict[_Look, Wish] = {}

    def of(self, namespace: str) -> Adjustments:
        return self._by_namespace.get(namespace, self._elsewhere)

    def wish(self, workload: QueuedWorkload) -> Wish:
        """What it applies for: one and the same for all that look alike, worked out once."""
        namespace = workload.key.namespace
        look = namespace, workload.pod_sets, workload.reclaimable, workload.priority + workload.boost
        known = self._wishes.get(look)
        if known is None:
            if len(self._wishes) >= MOST_WISHES:
                self._wishes.clear()
            known = self._wishes[look] = wish_of(workload, self._settings, self.of(namespace))
        return known

    def put(self, found: LimitRange | RuntimeClass) -> bool:
        return self._put_range(found) if isinstance(found, LimitRange) else self._put_class(found)

    def drop(self, key: Key, uid: str) -> bool:
        """It is gone, unless another has its name by now."""
        if key.kind is Kind.LIMIT_RANGE and key in self._ranges and self._ranges[key].uid == uid:
            del self._ranges[key]
            self._put_together(key.namespace)
            return True
        if key.kind is Kind.RUNTIME_CLASS and key.name in self._classes and self._classes[key.name].uid == uid:
            del self._classes[key.name]
            self._weigh_anew()
            return True
        return False

    def _put_range(self, found: LimitRange) -> bool:
        known, self._ranges[found.key] = self._ranges.get(found.key), found
        if known is not None and (known.containers, known.pods) == (found.containers, found.pods):
            return False
        self._put_together(found.key.namespace)
        return True

    def _put_class(self, found: RuntimeClass) -> bool:
        known, self._classes[found.key.name] = self._classes.get(found.key.name), found
        if known is not None and known.overhead == found.overhead:
            return False
        self._weigh_anew()
        return True

    def _put_together(self, namespace: str) -> None:
        self._wishes.clear()
        ranges = [one for key, one in self._ranges.items() if key.namespace == namespace]
        if ranges:
            self._by_namespace[namespace] = Adjustments(limits_of(ranges), self._overheads)
        else:
            self._by_namespace.pop(namespace, None)

    def _weigh_anew(self) -> None:
        self._wishes.clear()
        self._elsewhere = Adjustments(overheads=self._overheads)
        for namespace in list(self._by_namespace):
            self._put_together(namespace)

    @property
    def _overheads(self) -> dict[str, Resources]:
        return {name: one.overhead for name, one in self._classes.items() if one.overhead.items}
