"""The choice of flavors: the first that will do, or the best there is, for every pod set in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from headgate.model.queues import BorrowWithinCohort, ClusterQueue, Reclaim, ResourceFlavor
from headgate.model.resources import Resources
from headgate.quota import wording
from headgate.quota.assignment import (
    Assignment,
    FlavorChoice,
    PodSetFlavors,
    as_a_whole,
    chosen,
    fitting,
    fitting_as_a_whole,
)
from headgate.quota.cohorts import ClusterQueueNode, Offer, Offers
from headgate.quota.eligibility import refusal
from headgate.quota.modes import BEST, WORST, Fitness, Granular, Mode, NoFit, fits_at, is_preferred, stops_search
from headgate.quota.progress import FROM_THE_START, Progress
from headgate.quota.requests import Ask
from headgate.quota.tree import Account, FlavorResource

PODS = "pods"
_FIT, _NO_FIT, _HOPELESS = Mode.FIT, Mode.NO_FIT, Granular.NO_FIT  # found sooner than members of enums

Oracle = Callable[[FlavorResource, int], Fitness]
"""How it would go if so much had to be made free by preemption: who would go, and what would be borrowed then."""


class FlavorSearch(Struct, frozen=True, gc=False):
    """All that the choice depends on. `pinned`, by pod set and resource, leaves no other flavor to choose."""

    node: ClusterQueueNode
    flavors: Mapping[str, ResourceFlavor]
    oracle: Oracle
    is_fair: bool = False
    ignore_undeclared: bool = False
    progress: Progress | None = None
    pinned: Mapping[tuple[str, str], str] | None = None

    @property
    def queue(self) -> ClusterQueue:
        return self.node.queue


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
    ask: Ask
    count: int
    requests: Resources
    assumed: Mapping[FlavorResource, int]
    choices: dict[str, FlavorChoice] = {}
    reasons: list[str] = []
    no_fit: NoFit | None = None
    began_midway: bool = False

    def assigned(self) -> PodSetFlavors:
        choices = tuple(sorted(self.choices.items()) if len(self.choices) > 1 else self.choices.items())
        if self.reasons or self.no_fit is not None:
            return PodSetFlavors(self.ask.name, self.count, self.requests, choices, tuple(self.reasons), self.no_fit)
        return fitting(self.ask, self.count, self.requests, choices)


def assign(search: FlavorSearch, asks: Sequence[Ask], counts: Sequence[int] | None = None) -> Assignment:
    """Flavors for all pod sets, or up to the first that fits nowhere; `counts` are the pods of each, if not all."""
    assumed: dict[FlavorResource, int] = {}
    pod_sets: list[PodSetFlavors] = []
    mode, midway, offers = _FIT if asks else _NO_FIT, False, search.node.offers
    for index, ask in enumerate(asks):
        count = ask.count if counts is None else counts[index]
        turn = _Turn(index, ask, count, _requests(offers, ask, count), assumed)
        _find_flavors(search, turn, offers)
        pod_set = turn.assigned()
        pod_sets.append(pod_set)
        if turn.reasons:
            mode = min(mode, pod_set.mode)
        midway = midway or turn.began_midway
        if turn.no_fit is not None:
            break
        for resource, choice in pod_set.choices if len(asks) > 1 else ():
            assumed[choice.of] = assumed.get(choice.of, 0) + turn.requests[resource]
    if mode is _FIT:
        return fitting_as_a_whole(tuple(pod_sets), midway)
    return as_a_whole(tuple(pod_sets), mode, midway)


def _find_flavors(search: FlavorSearch, turn: _Turn, groups: Offers) -> None:
    """A flavor for each resource group the pod set wants something of; one group that has none spoils all."""
    for resource, amount in turn.requests.items:
        offers = groups.get(resource)
        if resource in turn.choices or (offers is None and (amount == 0 or search.ignore_undeclared)):
            continue
        if offers is None:
            turn.choices, turn.reasons, turn.no_fit = {}, [wording.unavailable(resource)], NoFit.NO_FLAVOR
            return
        _find_flavor(search, turn, resource, offers)
        if turn.no_fit is not None:
            return


def _requests(offers: Offers, ask: Ask, count: int) -> Resources:
    total = ask.each if count == 1 else ask.scaled(count)
    return Resources.of({**dict(total), PODS: count}) if PODS in offers else total


def _find_flavor(search: FlavorSearch, turn: _Turn, resource: str, offers: Sequence[Offer]) -> None:
    """Flavors in order, from where the last attempt left off, to the first that stops the search."""
    first = search.progress.next_flavor(turn.index, resource) if search.progress is not None else 0
    best: _Attempt | None = None
    attempts: list[_Attempt] = []
    fungibility = search.queue.fungibility
    for offer in offers[first:] if first else offers:
        attempt = _attempt(search, turn, offer, resource)
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
        _take(turn, best, attempts, FROM_THE_START if last == len(offers) - 1 else last)
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


def _attempt(search: FlavorSearch, turn: _Turn, offer: Offer, resource: str) -> _Attempt:
    """As good as the worst of its resources."""
    why_not = _unsuitable(search, turn.ask, offer.flavor, resource)
    if why_not:
        return _Attempt(WORST, [], [why_not], NoFit.NO_FLAVOR)
    whole, accounts = _Attempt(BEST, [], []), offer.accounts
    for name, amount in turn.requests.items:
        account = accounts.get(name)
        if account is None:
            continue
        assumed = turn.assumed.get(account.of, 0) if turn.assumed else 0
        fitness = _fitness(search, account, assumed, amount, whole)
        if fitness is None:
            continue
        so_far = whole.fitness
        if so_far is not fitness and is_preferred(so_far, fitness, search.queue.fungibility.preference):
            whole.fitness = fitness
        if whole.fitness.granular is not _HOPELESS:
            whole.parts.append((account.of, fitness))
    return whole


def _unsuitable(search: FlavorSearch, ask: Ask, flavor: str, resource: str) -> str:
    """Why pods of this shape cannot have the flavor, however much quota there is."""
    if search.pinned is not None and search.pinned.get((ask.name, resource)) != flavor:
        return wording.not_nominated(flavor, resource)
    known = search.flavors.get(flavor)
    return wording.flavor_missing(flavor) if known is None else refusal(ask.shape, known)


def _fitness(search: FlavorSearch, account: Account, assumed: int, asked: int, whole: _Attempt) -> Fitness | None:
    """How one resource more would do; None where the attempt is spoiled by it, or was before."""
    of, value = account.of, assumed + asked
    if value > account.potential:
        _spoil(whole, wording.too_large(of, assumed, asked, account.potential), NoFit.TOO_LARGE)
        return None
    room, level = max(0, account.available()), account.level(value)
    if value <= room:
        return fits_at(level.height)
    missing = wording.more_needed(of, value - room)
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


def _may_preempt_while_borrowing(search: FlavorSearch) -> bool:
    policy = search.queue.preemption
    return policy.borrow is not BorrowWithinCohort.NEVER or (search.is_fair and policy.reclaim is not Reclaim.NEVER)
