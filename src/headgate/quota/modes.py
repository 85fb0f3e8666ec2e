"""How well a flavor would do, and which of two does better."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple

from headgate.model.queues import FlavorPreference, FlavorSearch, Fungibility


class Mode(IntEnum):
    """What must happen before a workload can have what it was assigned."""

    NO_FIT = 0
    PREEMPT = 1
    FIT = 2


class Granular(IntEnum):
    """The same, as the choice of flavors sees it."""

    NO_FIT = 0
    NO_CANDIDATES = 1  # preempting would help, if there was anybody to preempt
    PREEMPT = 2  # somebody of its own queue has to go
    RECLAIM = 3  # only others have to go, who borrow
    FIT = 4

    @property
    def mode(self) -> Mode:
        if self is Granular.FIT:
            return Mode.FIT
        return Mode.NO_FIT if self is Granular.NO_FIT else Mode.PREEMPT


class Fitness(NamedTuple):
    granular: Granular
    borrow: int  # the level, 0 for none


BEST = Fitness(Granular.FIT, 0)
WORST = Fitness(Granular.NO_FIT, 0)


class NoFit(StrEnum):
    """Why a workload cannot have quota now; the values are the reasons of its condition."""

    TOPOLOGY = "TopologyPlacementFailed"
    WAITING = "WaitingForQuota"
    TOO_LARGE = "ExceedsMaxQuota"
    NO_FLAVOR = "NoMatchingFlavor"

    @property
    def severity(self) -> int:
        return _BY_SEVERITY.index(self)


_BY_SEVERITY = tuple(NoFit)


def is_preferred(one: Fitness, other: Fitness, preference: FlavorPreference) -> bool:
    """Whether the first is better. Nothing is better than what does not fit only if it does not fit itself."""
    if one.granular is Granular.NO_FIT or other.granular is Granular.NO_FIT:
        return one.granular is not Granular.NO_FIT
    if (one.granular is Granular.NO_CANDIDATES) != (other.granular is Granular.NO_CANDIDATES):
        return other.granular is Granular.NO_CANDIDATES
    if preference is FlavorPreference.PREEMPTION_OVER_BORROWING:
        return (-one.borrow, one.granular) > (-other.borrow, other.granular)
    return (one.granular, -one.borrow) > (other.granular, -other.borrow)


def stops_search(fitness: Fitness, fungibility: Fungibility) -> bool:
    """Whether the search ends at a flavor that does so well."""
    if fitness.granular in (Granular.NO_FIT, Granular.NO_CANDIDATES):
        return False
    preempts = fitness.granular in (Granular.PREEMPT, Granular.RECLAIM)
    if preempts and fungibility.when_can_preempt is FlavorSearch.TRY_NEXT_FLAVOR:
        return False
    return fitness.borrow == 0 or fungibility.when_can_borrow is FlavorSearch.MAY_STOP_SEARCH
