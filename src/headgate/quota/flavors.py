"""Flavor assignment: for every pod set and resource group the first flavor that will do, or the best there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import NamedTuple, TypeVar

from msgspec import Struct

from headgate.model.node import NodeTerm, Taint, TaintEffect, Toleration
from headgate.model.pod import PodShape
from headgate.model.queues import (
    Admission,
    BorrowWithinCohort,
    FlavorPreference,
    FlavorSearch,
    Fungibility,
    PodSetAssignment,
    Reclaim,
    ResourceFlavor,
)
from headgate.model.resources import Resources
from headgate.model.selectors import Requirement
from headgate.quota import messages
from headgate.quota.ledger import ClusterQueueNode, FlavorOption, FlavorOptions
from headgate.quota.pending_workload import FROM_THE_START, Progress
from headgate.quota.requests import PodSetRequests
from headgate.quota.tree import Account, FlavorResource, Usage, usage_of


def refusal(shape: PodShape, flavor: ResourceFlavor) -> str:
    """Why pods of this shape cannot run on nodes of this flavor; empty when they could."""
    taint = _untolerated(flavor.node_taints, (*shape.tolerations, *flavor.tolerations))
    if taint is not None:
        return messages.untolerated(taint, flavor.name)
    return "" if _is_wanted(shape, flavor.node_labels) else messages.wrong_affinity(flavor.name)


def _untolerated(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    for taint in taints:
        binds = taint.effect is not TaintEffect.PREFER_NO_SCHEDULE
        if binds and not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None


def _is_wanted(shape: PodShape, labels: Mapping[str, str]) -> bool:
    """Only what is said about the keys of this flavor's own labels counts; nodes may well have other labels too."""
    if any(labels[key] != value for key, value in shape.node_selector if key in labels):
        return False
    terms = [_about(term, labels) for term in shape.required_terms or ()]
    if not all(terms):
        return True  # one of the alternatives says nothing about this flavor
    return not terms or any(all(part.holds(labels) for part in term) for term in terms)


def _about(term: NodeTerm, labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    return tuple(part for part in term.expressions if part.key in labels)


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


@lru_cache(maxsize=64)  # more than cohorts stand above each other; bench_quota takes 1.02 times as long without it
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
_FITS_NOWHERE, _NO_CANDIDATES, _FITS = Granular.NO_FIT, Granular.NO_CANDIDATES, Granular.FIT
_TRY_NEXT, _MAY_STOP = FlavorSearch.TRY_NEXT_FLAVOR, FlavorSearch.MAY_STOP_SEARCH
_SPARES_OTHERS = FlavorPreference.BORROWING_OVER_PREEMPTION


def is_preferred(one: Fitness, other: Fitness, preference: FlavorPreference) -> bool:
    """Whether the first is better. Nothing is better than what does not fit only if it does not fit itself."""
    this, that = one.granular, other.granular
    if this is _FITS_NOWHERE or that is _FITS_NOWHERE:
        return this is not _FITS_NOWHERE
    if this is not that and (this is _NO_CANDIDATES or that is _NO_CANDIDATES):
        return that is _NO_CANDIDATES
    if this is that or (preference is not _SPARES_OTHERS and one.borrow != other.borrow):
        return one.borrow < other.borrow
    return this > that


def stops_search(fitness: Fitness, fungibility: Fungibility) -> bool:
    """Whether the search ends at a flavor that does so well."""
    granular = fitness.granular
    if granular is not _FITS:
        hopeless = granular is _FITS_NOWHERE or granular is _NO_CANDIDATES
        if hopeless or fungibility.when_can_preempt is _TRY_NEXT:
            return False
    return fitness.borrow == 0 or fungibility.when_can_borrow is _MAY_STOP


_FIT, _PREEMPT, _NO_FIT = Mode.FIT, Mode.PREEMPT, Mode.NO_FIT  # found sooner than members of enums


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
        return min([choice.mode for _, choice in self.choices], default=_NO_FIT)


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
        return "; ".join([messages.no_flavors(each.name, each.reasons) for each in self.pod_sets if each.reasons])

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


@lru_cache(maxsize=16_384)  # what one gets others like it get; bench_quota takes 1.02 times as long without it
def fitting_as_a_whole(pod_sets: tuple[PodSetFlavors, ...], began_midway: bool) -> Assignment:
    return as_a_whole(pod_sets, _FIT, began_midway)


def chosen(of: FlavorResource, fitness: Fitness, tried: int) -> FlavorChoice:
    return FlavorChoice(of, fitness.granular.mode, fitness.borrow, tried)


@lru_cache(maxsize=16_384)  # likewise; bench_queues takes 1.01 times as long without it
def admission(queue: str, pod_sets: tuple[PodSetFlavors, ...]) -> Admission:
    """The assignment as it is written down once the workload is admitted, and reads back: by name of resource."""
    return Admission(queue, tuple([_given(pod_set) for pod_set in pod_sets]))


def _given(pod_set: PodSetFlavors) -> PodSetAssignment:
    flavors = tuple(sorted([(resource, choice.flavor) for resource, choice in pod_set.choices]))
    usage = Resources(tuple([(resource, pod_set.requests[resource]) for resource, _ in flavors]))
    return PodSetAssignment(pod_set.name, flavors, usage, pod_set.count)


PODS = "pods"
_HOPELESS = Granular.NO_FIT

Oracle = Callable[[FlavorResource, int], Fitness]
"""How it would go if so much had to be made free by preemption: who would go, and what would be borrowed then."""


class FlavorAssigner(Struct, frozen=True, gc=False):
    """All that the choice depends on. `pinned`, by pod set and resource, leaves no other flavor to choose."""

    node: ClusterQueueNode
    flavors: Mapping[str, ResourceFlavor]
    oracle: Oracle
    is_fair: bool = False
    ignore_undeclared: bool = False
    progress: Progress | None = None
    pinned: Mapping[tuple[str, str], str] | None = None


class _Attempt(Struct, gc=False):
    """One flavor for all resources of a group: how it does, for each of them and as a whole, and why not better."""

    fitness: Fitness
    parts: list[tuple[FlavorResource, Fitness]]
    reasons: list[str]
    no_fit: NoFit | None = None


class _Turn(Struct, gc=False):
    """One pod set's turn: its place, what all its pods want, and what the pod sets before it were assigned.

    `choices` are the best flavors of the groups so far; with `no_fit`, one of the groups has none that will do.
    """

    index: int
    requested: PodSetRequests
    count: int
    requests: Resources
    assumed: Mapping[FlavorResource, int]
    choices: dict[str, FlavorChoice] = {}
    reasons: list[str] = []
    no_fit: NoFit | None = None
    began_midway: bool = False

    def assigned(self) -> PodSetFlavors:
        choices = tuple(sorted(self.choices.items()) if len(self.choices) > 1 else self.choices.items())
        return PodSetFlavors(self.requested.name, self.count, self.requests, choices, tuple(self.reasons), self.no_fit)


def assign(
    search: FlavorAssigner, pod_set_requests: Sequence[PodSetRequests], counts: Sequence[int] | None = None
) -> Assignment:
    """Flavors for all pod sets, or up to the first that fits nowhere; `counts` are the pods of each, if not all."""
    assumed: dict[FlavorResource, int] = {}
    pod_sets: list[PodSetFlavors] = []
    mode, midway, flavor_options = _FIT if pod_set_requests else _NO_FIT, False, search.node.flavor_options
    for index, requested in enumerate(pod_set_requests):
        count = requested.count if counts is None else counts[index]
        turn = _Turn(index, requested, count, _requests(flavor_options, requested, count), assumed)
        _find_flavors(search, turn, flavor_options)
        pod_set = turn.assigned()
        pod_sets.append(pod_set)
        if turn.reasons:
            mode = min(mode, pod_set.mode)
        midway = midway or turn.began_midway
        if turn.no_fit is not None:
            break
        for resource, choice in pod_set.choices if len(pod_set_requests) > 1 else ():
            assumed[choice.of] = assumed.get(choice.of, 0) + turn.requests[resource]
    if mode is _FIT:
        return fitting_as_a_whole(tuple(pod_sets), midway)
    return as_a_whole(tuple(pod_sets), mode, midway)


def _find_flavors(search: FlavorAssigner, turn: _Turn, groups: FlavorOptions) -> None:
    """A flavor for each resource group the pod set wants something of; one group that has none spoils all."""
    for resource, amount in turn.requests.items:
        flavor_options = groups.get(resource)
        if resource in turn.choices or (flavor_options is None and (amount == 0 or search.ignore_undeclared)):
            continue
        if flavor_options is None:
            turn.choices, turn.reasons, turn.no_fit = {}, [messages.unavailable(resource)], NoFit.NO_FLAVOR
            return
        _find_flavor(search, turn, resource, flavor_options)
        if turn.no_fit is not None:
            return


def _requests(flavor_options: FlavorOptions, requested: PodSetRequests, count: int) -> Resources:
    total = requested.each if count == 1 else requested.scaled(count)
    return Resources.of({**dict(total), PODS: count}) if PODS in flavor_options else total


def _find_flavor(search: FlavorAssigner, turn: _Turn, resource: str, flavor_options: Sequence[FlavorOption]) -> None:
    """Flavors in order, from where the last attempt left off, to the first that stops the search."""
    first = search.progress.next_flavor(turn.index, resource) if search.progress is not None else 0
    best: _Attempt | None = None
    attempts: list[_Attempt] = []
    fungibility = search.node.queue.fungibility
    for option in flavor_options[first:] if first else flavor_options:
        attempt = _attempt(search, turn, option, resource)
        attempts.append(attempt)
        if stops_search(attempt.fitness, fungibility):
            best = attempt
            break
        if is_preferred(attempt.fitness, WORST if best is None else best.fitness, fungibility.preference):
            best = attempt
    if first:
        turn.began_midway = True
    if best is not None:
        last = first + len(attempts) - 1
        _take(turn, best, attempts, FROM_THE_START if last == len(flavor_options) - 1 else last)
    else:
        turn.choices, turn.reasons, turn.no_fit = {}, _reasons(attempts), _mildest(attempts)


def _take(turn: _Turn, best: _Attempt, attempts: Sequence[_Attempt], tried: int) -> None:
    """The group has this flavor; `tried` is the index of the last one looked at."""
    fits = True
    for of, fitness in best.parts:
        choice = turn.choices[of.resource] = chosen(of, fitness, tried)
        fits = fits and choice.mode is _FIT
    if not fits:
        turn.reasons += _reasons(attempts)


def _reasons(attempts: Sequence[_Attempt]) -> list[str]:
    return [reason for attempt in attempts for reason in attempt.reasons]


def _mildest(attempts: Sequence[_Attempt]) -> NoFit:
    """Flavors are alternatives: the one that is nearest to fitting says what the group waits for."""
    blockers = [attempt.no_fit for attempt in attempts if attempt.no_fit is not None]
    return min(blockers, key=lambda reason: reason.severity, default=NoFit.NO_FLAVOR)


def _attempt(search: FlavorAssigner, turn: _Turn, option: FlavorOption, resource: str) -> _Attempt:
    """As good as the worst of its resources."""
    why_not = _unsuitable(search, turn.requested, option.flavor, resource)
    if why_not:
        return _Attempt(WORST, [], [why_not], NoFit.NO_FLAVOR)
    whole, accounts = _Attempt(BEST, [], []), option.accounts
    for name, amount in turn.requests.items:
        account = accounts.get(name)
        if account is None:
            continue
        assumed = turn.assumed.get(account.of, 0) if turn.assumed else 0
        fitness = _fitness(search, account, assumed, amount, whole)
        if fitness is None:
            continue
        so_far = whole.fitness
        if so_far is not fitness and is_preferred(so_far, fitness, search.node.queue.fungibility.preference):
            whole.fitness = fitness
        if whole.fitness.granular is not _HOPELESS:
            whole.parts.append((account.of, fitness))
    return whole


def _unsuitable(search: FlavorAssigner, requested: PodSetRequests, flavor: str, resource: str) -> str:
    """Why pods of this shape cannot have the flavor, however much quota there is."""
    if search.pinned is not None and search.pinned.get((requested.name, resource)) != flavor:
        return messages.not_nominated(flavor, resource)
    known = search.flavors.get(flavor)
    if known is None:
        return messages.flavor_missing(flavor)
    return refusal(requested.shape, known) if known.node_taints or known.node_labels else ""


def _fitness(search: FlavorAssigner, account: Account, assumed: int, asked: int, whole: _Attempt) -> Fitness | None:
    """How one resource more would do; None where the attempt is spoiled by it, or was before."""
    of, value = account.of, assumed + asked
    if value > account.potential:
        _spoil(whole, messages.too_large(of, assumed, asked, account.potential), NoFit.TOO_LARGE)
        return None
    room, level = max(0, account.available()), account.level(value)
    if value <= room:
        return fits_at(level.height)
    missing = messages.more_needed(of, value - room)
    entitled = account.nominal >= value or level.may_reclaim
    if not entitled and not _may_preempt_while_borrowing(search):
        _spoil(whole, missing, NoFit.WAITING)
        return None
    whole.reasons.append(missing)
    return None if whole.fitness.granular is _HOPELESS else search.oracle(of, value)


def _spoil(whole: _Attempt, reason: str, no_fit: NoFit) -> None:
    whole.reasons.append(reason)
    whole.fitness = WORST
    whole.parts = []
    if whole.no_fit is None or no_fit.severity > whole.no_fit.severity:
        whole.no_fit = no_fit


def _may_preempt_while_borrowing(search: FlavorAssigner) -> bool:
    policy = search.node.queue.preemption
    return policy.borrow is not BorrowWithinCohort.NEVER or (search.is_fair and policy.reclaim is not Reclaim.NEVER)


R = TypeVar("R")


def most_pods(pod_set_requests: Sequence[PodSetRequests], attempt: Callable[[Sequence[int]], R | None]) -> R | None:
    """The outcome with the fewest pods left out, each pod set giving in proportion to what it can spare.

    `attempt` answers for the counts of all pod sets, with None when these are still too many.
    """
    total = sum(requested.spare for requested in pod_set_requests)
    best: R | None = None
    low, high = 0, total + 1  # with `high` fewer it can be done, or it cannot be done at all
    while total and low < high:
        middle = (low + high) // 2
        found = attempt(_reduced(pod_set_requests, middle, total))
        if found is None:
            low = middle + 1
        else:
            best, high = found, middle
    return best


def _reduced(pod_set_requests: Sequence[PodSetRequests], fewer: int, total: int) -> list[int]:
    return [requested.count - requested.spare * fewer // total for requested in pod_set_requests]
