"""What a search asks of the cluster: would the preemptor have its seats if these were gone, and can this one stay?"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from headgate.model.pod import Pod
from headgate.preemption.loads import Units
from headgate.preemption.units import Flags

Seats = tuple[tuple[int, int], ...]
"""Which of the preemptor's pods, by its place in line, on which row."""


class Domain(Struct, frozen=True):
    """A part of the cluster that could take the whole preemptor.

    `pods` are pinned to it by their own demands. With `seats` there is nothing left to choose but who leaves.
    """

    name: str
    pods: tuple[Pod, ...]
    needed: int
    reach: Flags  # rows whose units may be asked to leave
    seats: Seats | None = None
    draw: int = 0  # settles ties between domains


class World(Protocol):
    """A cluster in which one domain is tried out; nothing of it is left behind."""

    def enough(self, gone: Flags) -> bool:
        """Whether the preemptor would have its seats with these units gone, and all pods being deleted."""

    def place(self, gone: Flags) -> Seats | None:
        """Where it would sit then; None when it would not."""

    def sit(self, gone: Flags, seats: Seats) -> None:
        """These are gone and the preemptor has these seats: units can be asked to come back."""

    def doubtful(self, units: Units) -> Units:
        """Those of the units that must be asked one by one; all others are back in place and harm no seat."""

    def cannot_stay(self, units: Units) -> Units:
        """Asked in this order, who cannot be in its place beside the seats and all who stayed before; others are."""
