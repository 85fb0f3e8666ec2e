"""The choice of flavors: the first that will do, or the best there is, for every pod set in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, structs

from headgate.model.queues import BorrowWithinCohort, ClusterQueue, Reclaim, ResourceFlavor, ResourceGroup
from headgate.model.resources import Resources
from headgate.quota import wording
from headgate.quota.assignment import Assignment, FlavorChoice, PodSetFlavors
from headgate.quota.eligibility import refusal
from headgate.quota.modes import BEST, WORST, Fitness, Granular, Mode, NoFit, is_preferred, stops_search
from headgate.quota.progress import FROM_THE_START, Progress
from headgate.quota.requests import Ask
from headgate.quota.tree import FlavorResource, QuotaNode, available, borrow_level, potential, usage_of

PODS = "pods"

Oracle = Callable[[FlavorResource, int], Fitness]
"""How it would go if so much had to be made free by preemption: who would go, and what would be borrowed then."""


class FlavorSearch(Struct, frozen=True):
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


class _Wanted(Struct, frozen=True):
    """One pod set's turn: its place, what all its pods want, and what the pod sets before it were assigned."""

    index: int
    ask: Ask
    requests: Resources
    assumed: Mapping[FlavorResource, int]


class _Attempt(Struct):
    """One flavor for all resources of a group: how it does, and why not better."""

    fitness: Fitness
    choices: dict[str, FlavorChoice]
    reasons: list[str]
    no_fit: NoFit | None = None


class _Found(Struct):
    """The best flavor of a group; with `no_fit`, none will do."""

    choices: dict[str, FlavorChoice]
    reasons: list[str]
    no_fit: NoFit | None = None
    began_midway: bool = False


def assign(search: FlavorSearch, asks: Sequence[Ask], counts: Sequence[int] | None = None) -> Assignment:
    """Flavors for all pod sets, or up to the first that fits nowhere; `counts` are the pods of each, if not all."""
    assumed: dict[FlavorResource, int] = {}
    pod_sets: list[PodSetFlavors] = []
    midway = False
    for index, ask in enumerate(asks):
        count = ask.count if counts is None else counts[index]
        wanted = _Wanted(index, ask, _requests(search.queue, ask, count), assumed)
        found = _find_flavors(search, wanted)
        choices = tuple(sorted(found.choices.items()))
        pod_sets.append(PodSetFlavors(ask.name, count, wanted.requests, choices, tuple(found.reasons), found.no_fit))
        midway = midway or found.began_midway
        if found.no_fit is not None:
            break
        for resource, choice in choices:
            of = FlavorResource(choice.flavor, resource)
            assumed[of] = assumed.get(of, 0) + wanted.requests[resource]
    mode = min((pod_set.mode for pod_set in pod_sets), default=Mode.NO_FIT)
    return Assignment(tuple(pod_sets), usage_of(assumed), mode, midway)


def _find_flavors(search: FlavorSearch, wanted: _Wanted) -> _Found:
    """A flavor for each resource group the pod set wants something of; one group that has none spoils all."""
    whole = _Found({}, [])
    for resource, amount in wanted.requests:
        group = _group_of(search.queue, resource)
        if resource in whole.choices or (group is None and (amount == 0 or search.ignore_undeclared)):
            continue
        if group is None:
            return _Found({}, [wording.unavailable(resource)], NoFit.NO_FLAVOR, whole.began_midway)
        found = _find_flavor(search, wanted, group, resource)
        found.began_midway = found.began_midway or whole.began_midway
        if found.no_fit is not None:
            return found
        if whole.choices:
            found = _Found(whole.choices | found.choices, whole.reasons + found.reasons, None, found.began_midway)
        whole = found
    return whole


def _requests(queue: ClusterQueue, ask: Ask, count: int) -> Resources:
    total = ask.scaled(count)
    if _group_of(queue, PODS) is None:
        return total
    return Resources.of({**dict(total), PODS: count})


def _group_of(queue: ClusterQueue, resource: str) -> ResourceGroup | None:
    for group in queue.groups:
        if resource in group.resources:
            return group
    return None


def _find_flavor(search: FlavorSearch, wanted: _Wanted, group: ResourceGroup, resource: str) -> _Found:
    """Flavors in order, from where the last attempt left off, to the first that stops the search."""
    first = search.progress.next_flavor(wanted.index, resource) if search.progress else 0
    best, fungibility = _Attempt(WORST, {}, []), search.queue.fungibility
    attempts: list[_Attempt] = []
    for flavor in group.flavors[first:]:
        attempts.append(_attempt(search, wanted, group, flavor.flavor, resource))
        if stops_search(attempts[-1].fitness, fungibility):
            best = attempts[-1]
            break
        if is_preferred(attempts[-1].fitness, best.fitness, fungibility.preference):
            best = attempts[-1]
    reasons = [reason for attempt in attempts for reason in attempt.reasons]
    if not best.choices:
        return _Found({}, reasons, _mildest(attempts), began_midway=first > 0)
    last = first + len(attempts) - 1
    tried = FROM_THE_START if last == len(group.flavors) - 1 else last
    choices = best.choices
    if tried != FROM_THE_START:
        choices = {name: structs.replace(choice, tried=tried) for name, choice in choices.items()}
    fits = all(choice.mode is Mode.FIT for choice in choices.values())
    return _Found(choices, [] if fits else reasons, began_midway=first > 0)


def _mildest(attempts: Sequence[_Attempt]) -> NoFit:
    """Flavors are alternatives: the one that is nearest to fitting says what the group waits for."""
    blockers = [attempt.no_fit for attempt in attempts if attempt.no_fit is not None]
    return min(blockers, key=lambda reason: reason.severity, default=NoFit.NO_FLAVOR)


def _attempt(search: FlavorSearch, wanted: _Wanted, group: ResourceGroup, flavor: str, resource: str) -> _Attempt:
    why_not = _unsuitable(search, wanted.ask, flavor, resource)
    if why_not:
        return _Attempt(WORST, {}, [why_not], NoFit.NO_FLAVOR)
    whole = _Attempt(BEST, {}, [])
    for name, amount in wanted.requests:
        if name in group.resources:
            of = FlavorResource(flavor, name)
            _fit_resource(search, of, wanted.assumed.get(of, 0), amount, whole)
    return whole


def _unsuitable(search: FlavorSearch, ask: Ask, flavor: str, resource: str) -> str:
    """Why pods of this shape cannot have the flavor, however much quota there is."""
    if search.pinned is not None and search.pinned.get((ask.name, resource)) != flavor:
        return wording.not_nominated(flavor, resource)
    known = search.flavors.get(flavor)
    return wording.flavor_missing(flavor) if known is None else refusal(ask.shape, known)


def _fit_resource(search: FlavorSearch, of: FlavorResource, assumed: int, asked: int, whole: _Attempt) -> None:
    """One resource more; the attempt is as good as the worst of its resources."""
    value, most = assumed + asked, potential(search.node, of)
    if value > most:
        _spoil(whole, wording.too_large(of, assumed, asked, most), NoFit.TOO_LARGE)
        return
    room = max(0, available(search.node, of))
    level = borrow_level(search.node, of, value)
    if value <= room:
        _worsen(search, whole, of, Fitness(Granular.FIT, level.height))
        return
    missing = wording.more_needed(of, value - room)
    entitled = search.node.quota(of).nominal >= value or level.may_reclaim
    if not entitled and not _may_preempt_while_borrowing(search):
        _spoil(whole, missing, NoFit.WAITING)
        return
    whole.reasons.append(missing)
    if whole.fitness.granular is not Granular.NO_FIT:
        _worsen(search, whole, of, search.oracle(of, value))


def _spoil(whole: _Attempt, reason: str, no_fit: NoFit) -> None:
    whole.reasons.append(reason)
    whole.fitness = WORST
    whole.choices = {}
    if whole.no_fit is None or no_fit.severity > whole.no_fit.severity:
        whole.no_fit = no_fit


def _worsen(search: FlavorSearch, whole: _Attempt, of: FlavorResource, fitness: Fitness) -> None:
    if is_preferred(whole.fitness, fitness, search.queue.fungibility.preference):
        whole.fitness = fitness
    if whole.fitness.granular is not Granular.NO_FIT:
        whole.choices[of.resource] = FlavorChoice(of.flavor, fitness.granular.mode, fitness.borrow)


def _may_preempt_while_borrowing(search: FlavorSearch) -> bool:
    policy = search.queue.preemption
    return policy.borrow is not BorrowWithinCohort.NEVER or (search.is_fair and policy.reclaim is not Reclaim.NEVER)
