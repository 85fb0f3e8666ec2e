"""Pods on their way: started, and without a node yet, or about to be made by a Job that was let go."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, structs

from headgate.lifecycle.debt import Standing, places_of
from headgate.lifecycle.injecting import CannotStart, injections
from headgate.lifecycle.work import Injected
from headgate.model.keys import Key
from headgate.model.pod import PodShape
from headgate.model.queues import QueuedWorkload, ResourceFlavor

Shapes = Mapping[str, PodShape]
"""By pod set."""


class _Expected(Struct):
    workload: QueuedWorkload
    counts: dict[str, int]  # pods still to come, by pod set
    shapes: Shapes | None = None  # once somebody asked


class Transit:
    """What work that runs still expects of nodes: the places it has quota for and no pod on a node."""

    def __init__(self, flavors: Mapping[str, ResourceFlavor]) -> None:
        self._flavors = flavors
        self._expected: dict[Key, _Expected] = {}
        self._all: dict[PodShape, int] | None = None  # until something changes
        self.version = 0

    def put(self, work: Key, workload: QueuedWorkload | None, standing: Standing) -> None:
        """The work runs by this Workload; None: it does not."""
        counts = missing(workload, standing) if workload is not None else {}
        known = self._expected.pop(work, None)
        if workload is not None and counts:
            self._expected[work] = _Expected(workload, counts)
        if counts != (known.counts if known is not None else {}):
            self._all = None
            self.version += 1

    def all(self) -> Mapping[PodShape, int]:
        """How many pods of each shape are on their way."""
        if self._all is None:
            self._all = {}
            for expected in self._expected.values():
                for shape, count in self._of(expected):
                    self._all[shape] = self._all.get(shape, 0) + count
        return self._all

    def _of(self, expected: _Expected) -> list[tuple[PodShape, int]]:
        shapes = self._shapes(expected)
        return [(shapes[name], count) for name, count in expected.counts.items() if name in shapes]

    def _shapes(self, expected: _Expected) -> Shapes:
        if expected.shapes is None:
            expected.shapes = started_shapes(expected.workload, self._flavors) or {}
        return expected.shapes


def started_shapes(workload: QueuedWorkload, flavors: Mapping[str, ResourceFlavor]) -> Shapes | None:
    """What its pods look like once they are started; None when they cannot be."""
    try:
        given = injections(workload, flavors)
    except CannotStart:
        return None
    if given is None:
        return None
    return {
        wanted.name: _with(wanted.shape, given[wanted.name]) for wanted in workload.pod_sets if wanted.name in given
    }


def _with(shape: PodShape, given: Injected) -> PodShape:
    selector = {**given.node_selector, **dict(shape.node_selector)}
    return structs.replace(
        shape,
        node_selector=tuple(sorted(selector.items())),
        tolerations=tuple(dict.fromkeys((*shape.tolerations, *given.tolerations))),
    )


def missing(workload: QueuedWorkload, standing: Standing) -> dict[str, int]:
    """Pods that it has quota for and that are on no node, by pod set. Pods that are done for good never come again."""
    done = dict(workload.reclaimable)
    each = {
        name: count - done.get(name, 0) - standing.on_nodes.get(name, 0) for name, count in places_of(workload).items()
    }
    return {name: count for name, count in each.items() if count > 0}
