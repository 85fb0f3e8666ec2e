"""How well a flavor would do, and which of two does better."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from functools import lru_cache
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
        return _MODES[self]


_MODES = (Mode.NO_FIT, Mode.PREEMPT, Mode.PREEMPT, Mode.PREEMPT, Mode.FIT)


class Fitness(NamedTuple):
    granular: Granular
    borrow: int  # the level, 0 for none


@lru_cache(maxsize=64)  # more than cohorts stand above each other
def fits_at(borrow: int) -> Fitness:
    """There is room for it, borrowed at this level."""
    return Fitness(Granular.FIT, borrow)


BEST = fits_at(0)
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


# Members of enums by names of their own, which are found ten times sooner.
_NO_FIT, _NO_CANDIDATES, _FIT = Granular.NO_FIT, Granular.NO_CANDIDATES, Granular.FIT
_TRY_NEXT, _MAY_STOP = FlavorSearch.TRY_NEXT_FLAVOR, FlavorSearch.MAY_STOP_SEARCH
_SPARES_OTHERS = FlavorPreference.BORROWING_OVER_PREEMPTION


def is_preferred(one: Fitness, other: Fitness, preference: FlavorPreference) -> bool:
    """Whether the first is better. Nothing is better than what does not fit only if it does not fit itself."""
    this, that = one.granular, other.granular
    if this is _NO_FIT or that is _NO_FIT:
        return this is not _NO_FIT
    if this is not that and (this is _NO_CANDIDATES or that is _NO_CANDIDATES):
        return that is _NO_CANDIDATES
    if this is that or (preference is not _SPARES_OTHERS and one.borrow != other.borrow):
        return one.borrow < other.borrow
    return this > that


def stops_search(fitness: Fitness, fungibility: Fungibility) -> bool:
    """Whether the search ends at a flavor that does so well."""
    granular = fitness.granular
    if granular is not _FIT:
        hopeless = granular is _NO_FIT or granular is _NO_CANDIDATES
        if hopeless or fungibility.when_can_preempt is _TRY_NEXT:
            return False
    return fitness.borrow == 0 or fungibility.when_can_borrow is _MAY_STOP
