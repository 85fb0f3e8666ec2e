"""Admitted workloads with pods on no node yet: those that are about to start, and those that have."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct, structs

from headgate.engine.integrations.hold_plan import Claimant
from headgate.engine.integrations.quota_trees import amounts
from headgate.lifecycle.debt import Standing, places_of
from headgate.lifecycle.holds import hold_limit
from headgate.lifecycle.injecting import CannotStart, injections
from headgate.lifecycle.quota_conditions import ADMITTED, true_since
from headgate.lifecycle.work import Injected
from headgate.model.keys import Key
from headgate.model.pod import PodShape
from headgate.model.queues import QueuedWorkload, ResourceFlavor

Counts = Mapping[str, int]
"""Pods by pod set."""


class _Started(Struct):
    workload: QueuedWorkload
    counts: Counts  # pods still to come
    claimant: Claimant | None = None  # once somebody asked


class Claimants:
    """Keeps one claimant for each. `version` changes with any of them."""

    def __init__(self, flavors: Mapping[str, ResourceFlavor], max_hold: float) -> None:
        self._flavors = flavors
        self._max_hold = max_hold
        self._started: dict[Key, _Started] = {}
        self._waiting: dict[Key, Claimant] = {}
        self.version = 0

    def put_started(self, work: Key, workload: QueuedWorkload | None, standing: Standing) -> None:
        """The work runs by this Workload, with these pods on nodes; None: it does not run."""
        counts = _missing(workload, standing) if workload is not None else {}
        known = self._started.get(work)
        if workload is None or not counts:
            self.version += self._started.pop(work, None) is not None
        elif known is None or known.counts != counts or known.workload.version != workload.version:
            self._started[work] = _Started(workload, counts)
            self.version += 1

    def put_waiting(self, work: Key, workload: QueuedWorkload, standing: Standing) -> None:
        """The work is about to start, all of it, though its pods may come one after another."""
        counts = _missing(workload, standing)
        until = hold_limit(workload, self._max_hold)
        found = None if until is None else self._claimant(work, workload, counts, until)
        if found is None:
            self.drop_waiting(work)
        elif self._waiting.get(work) != found:
            self._waiting[work] = found
            self.version += 1

    def drop_waiting(self, work: Key) -> None:
        self.version += self._waiting.pop(work, None) is not None

    def clear_waiting(self) -> None:
        self.version += bool(self._waiting)
        self._waiting = {}

    @property
    def waiting(self) -> Mapping[Key, Claimant]:
        return self._waiting

    def all(self) -> list[Claimant]:
        return [*self._waiting.values(), *filter(None, map(self._of_started, self._started))]

    def _of_started(self, work: Key) -> Claimant | None:
        each = self._started[work]
        if each.claimant is None:
            found = self._claimant(work, each.workload, each.counts, -math.inf)
            each.claimant = None if found is None else structs.replace(found, started=True)
        return each.claimant

    def _claimant(self, work: Key, workload: QueuedWorkload, counts: Counts, until: float) -> Claimant | None:
        """None when its pods cannot start as they are."""
        shapes = _started_shapes(workload, self._flavors)
        if shapes is None or workload.admission is None:
            return None
        wanted: dict[PodShape, int] = {}
        for name, shape in shapes.items():
            wanted[shape] = wanted.get(shape, 0) + counts.get(name, 0)
        since = true_since(workload, ADMITTED)
        since = math.inf if since is None else since
        return Claimant(
            work=work,
            rank=(-workload.effective_priority, since, workload.created, workload.key),
            wanted={shape: count for shape, count in wanted.items() if count},
            queue=workload.admission.cluster_queue,
            quota=frozenset(name for name, amount in amounts(workload.admission).items() if amount),
            since=since,
            until=until,
        )


def _started_shapes(workload: QueuedWorkload, flavors: Mapping[str, ResourceFlavor]) -> Mapping[str, PodShape] | None:
    """What its pods look like once they are started, by pod set; None when they cannot be."""
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


def _missing(workload: QueuedWorkload, standing: Standing) -> dict[str, int]:
    """Pods that it has quota for and that are on no node, by pod set. Pods that are done for good never come again."""
    done = dict(workload.reclaimable)
    each = {
        name: count - done.get(name, 0) - standing.on_nodes.get(name, 0) for name, count in places_of(workload).items()
    }
    return {name: count for name, count in each.items() if count > 0}
