"""The choice of flavors: the first that will do, or the best there is, for every pod set in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from headgate.model.queues import BorrowWithinCohort, ClusterQueue, Reclaim, ResourceFlavor
from headgate.model.resources import Resources
from headgate.quota import wording
from headgate.quota.assignment import Assignment, FlavorChoice, PodSetFlavors
from headgate.quota.eligibility import refusal
from headgate.quota.modes import BEST, WORST, Fitness, Granular, Mode, NoFit, fits_at, is_preferred, stops_search
from headgate.quota.progress import FROM_THE_START, Progress
from headgate.quota.requests import Ask
from headgate.quota.tree import Account, FlavorResource, Offer, QuotaNode, usage_of

PODS = "pods"
_FIT, _NO_FIT, _HOPELESS = Mode.FIT, Mode.NO_FIT, Granular.NO_FIT  # found sooner than members of enums

Oracle = Callable[[FlavorResource, int], Fitness]
"""How it would go if so much had to be made free by preemption: who would go, and what would be borrowed then."""


class FlavorSearch(Struct, frozen=True, gc=False):
    """All that the choice depends on. `pinned`, by pod set and resource, leaves no other flavor to choose."""

    node: QuotaNode
    flavors: Mapping[str, ResourceFlavor]
    oracle: Oracle
    is_fair: bool = False
    ignore_undeclared: bool = False
    progress: Progress | None = None
    pinned: Mapping[tuple[str, str], str] | None = None

    @property
    def queue(self) -> ClusterQueue:
        assert self.node.queue is not None
        return self.node.queue


class _Wanted(Struct, frozen=True, gc=False):
    """One pod set's turn: its place, what all its pods want, and what the pod sets before it were assigned."""

    index: int
    ask: Ask
    requests: Resources
    assumed: Mapping[FlavorResource, int]


class _Attempt(Struct, gc=False):
    """One flavor for all resources of a group: how it does, for each of them and as a whole, and why not better."""

    fitness: Fitness
    parts: list[tuple[FlavorResource, Fitness]]
    reasons: list[str]
    no_fit: NoFit | None = None


class _Found(Struct, gc=False):
    """The best flavors of the groups so far, by resource; with `no_fit`, one of the groups has none that will do."""

    choices: dict[str, FlavorChoice]
    reasons: list[str]
    no_fit: NoFit | None = None
    began_midway: bool = False


def assign(search: FlavorSearch, asks: Sequence[Ask], counts: Sequence[int] | None = None) -> Assignment:
    """Flavors for all pod sets, or up to the first that fits nowhere; `counts` are the pods of each, if not all."""
    assumed: dict[FlavorResource, int] = {}
    pod_sets: list[PodSetFlavors] = []
    mode, borrow, midway = _FIT if asks else _NO_FIT, 0, False
    for index, ask in enumerate(asks):
        count = ask.count if counts is None else counts[index]
        wanted = _Wanted(index, ask, _requests(search.node, ask, count), assumed)
        found = _find_flavors(search, wanted)
        choices = tuple(sorted(found.choices.items()))
        pod_set = PodSetFlavors(ask.name, count, wanted.requests, choices, tuple(found.reasons), found.no_fit)
        pod_sets.append(pod_set)
        if found.reasons:
            mode = min(mode, pod_set.mode)
        midway = midway or found.began_midway
        if found.no_fit is not None:
            break
        for resource, choice in choices:
            assumed[choice.of] = assumed.get(choice.of, 0) + wanted.requests[resource]
            borrow = max(borrow, choice.borrow)
    return Assignment(tuple(pod_sets), usage_of(assumed), mode, borrow, midway)


def _find_flavors(search: FlavorSearch, wanted: _Wanted) -> _Found:
    """A flavor for each resource group the pod set wants something of; one group that has none spoils all."""
    found, groups = _Found({}, []), search.node.offers
    for resource, amount in wanted.requests.items:
        offers = groups.get(resource)
        if resource in found.choices or (offers is None and (amount == 0 or search.ignore_undeclared)):
            continue
        if offers is None:
            found.choices, found.reasons, found.no_fit = {}, [wording.unavailable(resource)], NoFit.NO_FLAVOR
            break
        _find_flavor(search, wanted, resource, offers, found)
        if found.no_fit is not None:
            break
    return found


def _requests(node: QuotaNode, ask: Ask, count: int) -> Resources:
    total = ask.each if count == 1 else ask.scaled(count)
    return Resources.of({**dict(total), PODS: count}) if PODS in node.offers else total


def _find_flavor(search: FlavorSearch, wanted: _Wanted, resource: str, offers: Sequence[Offer], found: _Found) -> None:
    """Flavors in order, from where the last attempt left off, to the first that stops the search."""
    first = search.progress.next_flavor(wanted.index, resource) if search.progress is not None else 0
    best: _Attempt | None = None
    attempts: list[_Attempt] = []
    fungibility = search.queue.fungibility
    for offer in offers[first:]:
        attempt = _attempt(search, wanted, offer, resource)
        attempts.append(attempt)
        if stops_search(attempt.fitness, fungibility):
            best = attempt
            break
        if is_preferred(attempt.fitness, WORST if best is None else best.fitness, fungibility.preference):
            best = attempt
    found.began_midway = found.began_midway or first > 0
    if best is not None:
        last = first + len(attempts) - 1
        _take(found, best, attempts, FROM_THE_START if last == len(offers) - 1 else last)
    else:
        found.choices, found.reasons, found.no_fit = {}, _reasons(attempts), _mildest(attempts)


def _take(found: _Found, best: _Attempt, attempts: Sequence[_Attempt], tried: int) -> None:
    """The group has this flavor; `tried` is the index of the last one looked at."""
    fits = True
    for of, fitness in best.parts:
        choice = found.choices[of.resource] = FlavorChoice(of, fitness.granular.mode, fitness.borrow, tried)
        fits = fits and choice.mode is _FIT
    if not fits:
        found.reasons += _reasons(attempts)


def _reasons(attempts: Sequence[_Attempt]) -> list[str]:
    return [reason for attempt in attempts for reason in attempt.reasons]


def _mildest(attempts: Sequence[_Attempt]) -> NoFit:
    """Flavors are alternatives: the one that is nearest to fitting says what the group waits for."""
    blockers = [attempt.no_fit for attempt in attempts if attempt.no_fit is not None]
    return min(blockers, key=lambda reason: reason.severity, default=NoFit.NO_FLAVOR)


def _attempt(search: FlavorSearch, wanted: _Wanted, offer: Offer, resource: str) -> _Attempt:
    why_not = _unsuitable(search, wanted.ask, offer.flavor, resource)
    if why_not:
        return _Attempt(WORST, [], [why_not], NoFit.NO_FLAVOR)
    whole, accounts = _Attempt(BEST, [], []), offer.accounts
    for name, amount in wanted.requests.items:
        account = accounts.get(name)
        if account is not None:
            _fit_resource(search, account, wanted.assumed.get(account.of, 0), amount, whole)
    return whole


def _unsuitable(search: FlavorSearch, ask: Ask, flavor: str, resource: str) -> str:
    """Why pods of this shape cannot have the flavor, however much quota there is."""
    if search.pinned is not None and search.pinned.get((ask.name, resource)) != flavor:
        return wording.not_nominated(flavor, resource)
    known = search.flavors.get(flavor)
    return wording.flavor_missing(flavor) if known is None else refusal(ask.shape, known)


def _fit_resource(search: FlavorSearch, account: Account, assumed: int, asked: int, whole: _Attempt) -> None:
    """One resource more; the attempt is as good as the worst of its resources."""
    of, value = account.of, assumed + asked
    if value > account.potential:
        _spoil(whole, wording.too_large(of, assumed, asked, account.potential), NoFit.TOO_LARGE)
        return
    room, level = max(0, account.available()), account.level(value)
    if value <= room:
        _worsen(search, whole, of, fits_at(level.height))
        return
    missing = wording.more_needed(of, value - room)
    entitled = account.nominal >= value or level.may_reclaim
    if not entitled and not _may_preempt_while_borrowing(search):
        _spoil(whole, missing, NoFit.WAITING)
        return
    whole.reasons.append(missing)
    if whole.fitness.granular is not _HOPELESS:
        _worsen(search, whole, of, search.oracle(of, value))


def _spoil(whole: _Attempt, reason: str, no_fit: NoFit) -> None:
    whole.reasons.append(reason)
    whole.fitness = WORST
    whole.parts = []
    if whole.no_fit is None or no_fit.severity > whole.no_fit.severity:
        whole.no_fit = no_fit


def _worsen(search: FlavorSearch, whole: _Attempt, of: FlavorResource, fitness: Fitness) -> None:
    best_so_far = whole.fitness
    if best_so_far is not fitness and is_preferred(best_so_far, fitness, search.queue.fungibility.preference):
        whole.fitness = fitness
    if whole.fitness.granular is not _HOPELESS:
        whole.parts.append((of, fitness))


def _may_preempt_while_borrowing(search: FlavorSearch) -> bool:
    policy = search.queue.preemption
    return policy.borrow is not BorrowWithinCohort.NEVER or (search.is_fair and policy.reclaim is not Reclaim.NEVER)
