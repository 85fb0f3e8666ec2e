"""Who made which jobs: what work that waits has made waits in that work's name."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.model.keys import Key
from headgate.model.kueue_names import QUEUE_NAME
from headgate.model.objects import Job
from headgate.model.owners import StatefulSet

MOST_ANCESTORS = 10
Maker = Job | StatefulSet


class Lineage:
    """Holds jobs and stateful sets by who made them. `all_wait`: also those that name no queue."""

    def __init__(self, *, all_wait: bool) -> None:
        self._all_wait = all_wait
        self._known: dict[Key, Maker] = {}
        self._made: dict[Key, dict[Key, None]] = {}

    def put(self, found: Maker) -> None:
        self._known[found.key] = found
        if found.owner is not None:
            self._made.setdefault(found.owner.key, {})[found.key] = None

    def drop(self, found: Maker) -> None:
        self._known.pop(found.key, None)
        if found.owner is not None:
            self._made.get(found.owner.key, {}).pop(found.key, None)

    def waits(self, found: Maker) -> bool:
        """Whether it waits for quota, as far as it has a say in it."""
        return bool(found.labels.get(QUEUE_NAME)) or self._all_wait

    def managed_ancestor(self, found: Maker) -> Maker | None:
        """The topmost of those that made it that waits in its own name."""
        top: Maker | None = None
        for _ in range(MOST_ANCESTORS):
            owner = found.owner
            parent = None if owner is None else self._known.get(owner.key)
            if owner is None or parent is None or parent.uid != owner.uid:
                break
            top, found = parent if self.waits(parent) else top, parent
        return top

    def descendants(self, maker: Key, depth: int = MOST_ANCESTORS) -> Iterator[Key]:
        """All that it made, or that these made."""
        for key in self._made.get(maker, ()) if depth else ():
            yield key
            yield from self.descendants(key, depth - 1)
