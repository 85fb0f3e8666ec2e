"""Which flavors a workload gets, in full or with the reasons why not yet."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from headgate.model.queues import Admission, PodSetAssignment
from headgate.model.resources import Resources
from headgate.quota import wording
from headgate.quota.modes import Fitness, Mode, NoFit
from headgate.quota.requests import Ask
from headgate.quota.tree import FlavorResource, Usage, usage_of

_FIT, _PREEMPT = Mode.FIT, Mode.PREEMPT  # found sooner than members of enums


class FlavorChoice(Struct, frozen=True, gc=False, cache_hash=True):
    """The flavor of one resource; `tried` is the index of the last flavor looked at, -1 when all were."""

    of: FlavorResource
    mode: Mode
    borrow: int = 0
    tried: int = -1

    @property
    def flavor(self) -> str:
        return self.of.flavor


class PodSetFlavors(Struct, frozen=True, gc=False, cache_hash=True):
    """What one pod set is assigned. Without reasons it fits as it is; with reasons and no flavor, it fits nowhere."""

    name: str
    count: int
    requests: Resources
    choices: tuple[tuple[str, FlavorChoice], ...] = ()
    reasons: tuple[str, ...] = ()
    no_fit: NoFit | None = None

    @property
    def mode(self) -> Mode:
        if not self.reasons:
            return _FIT
        return min([choice.mode for _, choice in self.choices], default=Mode.NO_FIT)


class Assignment(Struct, frozen=True, gc=False):
    """`mode` is that of its worst pod set, `borrow` the highest level it borrows at.

    `began_midway`: some flavors were left out as they had been tried before.
    """

    pod_sets: tuple[PodSetFlavors, ...]
    usage: Usage
    mode: Mode
    borrow: int = 0
    began_midway: bool = False

    @property
    def no_fit(self) -> NoFit:
        """The most severe of what keeps its pod sets out."""
        found = [pod_set.no_fit for pod_set in self.pod_sets if pod_set.no_fit is not None]
        return max(found, key=lambda reason: reason.severity, default=NoFit.NO_FLAVOR)

    @property
    def message(self) -> str:
        return "; ".join([wording.no_flavors(each.name, each.reasons) for each in self.pod_sets if each.reasons])

    @property
    def needing_preemption(self) -> tuple[FlavorResource, ...]:
        """What is short, in order."""
        short = {choice.of for pod_set in self.pod_sets for _, choice in pod_set.choices if choice.mode is _PREEMPT}
        return tuple(sorted(short))

    @property
    def tried(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        return tuple([tuple([(resource, choice.tried) for resource, choice in one.choices]) for one in self.pod_sets])

    @property
    def flavors(self) -> dict[tuple[str, str], str]:
        """The flavor by pod set and resource."""
        return {
            (pod_set.name, resource): choice.flavor for pod_set in self.pod_sets for resource, choice in pod_set.choices
        }


def as_a_whole(pod_sets: tuple[PodSetFlavors, ...], mode: Mode, began_midway: bool) -> Assignment:
    """What all of them use together, in the mode of the worst."""
    usage: dict[FlavorResource, int] = {}
    borrow = 0
    for pod_set in pod_sets:
        for resource, choice in pod_set.choices:
            usage[choice.of] = usage.get(choice.of, 0) + pod_set.requests[resource]
            borrow = max(borrow, choice.borrow)
    return Assignment(pod_sets, usage_of(usage), mode, borrow, began_midway)


# What is given to one is given to others like it: all of these are one and the same for all of them.


@lru_cache(maxsize=16_384)
def fitting_as_a_whole(pod_sets: tuple[PodSetFlavors, ...], began_midway: bool) -> Assignment:
    return as_a_whole(pod_sets, _FIT, began_midway)


@lru_cache(maxsize=4096)
def chosen(of: FlavorResource, fitness: Fitness, tried: int) -> FlavorChoice:
    return FlavorChoice(of, fitness.granular.mode, fitness.borrow, tried)


@lru_cache(maxsize=16_384)
def fitting(ask: Ask, count: int, requests: Resources, choices: tuple[tuple[str, FlavorChoice], ...]) -> PodSetFlavors:
    """A pod set that can have these flavors as they are."""
    return PodSetFlavors(ask.name, count, requests, choices)


@lru_cache(maxsize=16_384)
def admission(queue: str, pod_sets: tuple[PodSetFlavors, ...]) -> Admission:
    """The assignment as it is written down once the workload is admitted, and reads back: by name of resource."""
    return Admission(queue, tuple([_given(pod_set) for pod_set in pod_sets]))


def _given(pod_set: PodSetFlavors) -> PodSetAssignment:
    flavors = tuple(sorted([(resource, choice.flavor) for resource, choice in pod_set.choices]))
    usage = Resources(tuple([(resource, pod_set.requests[resource]) for resource, _ in flavors]))
    return PodSetAssignment(pod_set.name, flavors, usage, pod_set.count)
