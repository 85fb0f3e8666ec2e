"""How far the search for flavors got, so that the next attempt goes on from there."""

from __future__ import annotations

from collections.abc import Hashable

from msgspec import Struct

FROM_THE_START = -1
"""The index that says all flavors were tried."""


Tried = tuple[tuple[tuple[str, int], ...], ...]
"""For each pod set, the last flavor tried by resource."""


class Progress(Struct, frozen=True, gc=False):
    """The flavors tried, and what this was found out under. `earlier`: how far it had got before, in the same state.

    With `missed`, flavors that were left out because they had been tried may do by now.
    """

    tried: Tried
    generation: int
    cycle: int
    kind: Hashable
    earlier: tuple[Tried, ...] = ()
    missed: bool = False

    @property
    def has_more(self) -> bool:
        """Some flavor was not tried yet; but nobody goes in circles."""
        for pod_set in self.tried:
            for _, index in pod_set:
                if index != FROM_THE_START:
                    return self.tried not in self.earlier
        return False

    @property
    def forgotten(self) -> Progress:
        """For a search from the start, which still does not go in circles."""
        return Progress((), self.generation, self.cycle, self.kind, (*self.earlier, self.tried))

    def next_flavor(self, pod_set: int, resource: str) -> int:
        if pod_set >= len(self.tried):
            return 0
        return dict(self.tried[pod_set]).get(resource, FROM_THE_START) + 1

    def holds(self, generation: int, cycle: int, kind: Hashable) -> bool:
        """What was found out still counts: nothing changed since, or it was just now and for the same demand."""
        return generation <= self.generation or (self.cycle >= cycle - 1 and self.kind == kind)
