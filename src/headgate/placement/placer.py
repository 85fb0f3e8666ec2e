"""Where would this pod run? One answer with its reason: a node, or why none will do."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial, reduce

import numpy as np
from msgspec import Struct

from headgate.model.cluster_events import ClusterEvent
from headgate.model.pod import Pod, PodShape
from headgate.placement.neighbours import Neighbours
from headgate.placement.plugins import MANY, FieldScore, Foresight, Mask, PeerFilter, Refuser
from headgate.placement.ranking import (
    NO_PLACE,
    UNFIT,
    Ranking,
    RowRules,
    SampledNodes,
    foremost,
    only,
    raised,
    score_of,
)
from headgate.placement.table import Amounts

SHOWN_REASONS = 12  # a message that lists hundreds of taints helps nobody


class NoPlacement(Struct, frozen=True):
    """No node will do: how many there are, how many fell to each reason, and what could change that."""

    nodes: int
    reasons: tuple[tuple[str, int], ...]
    filters: tuple[str, ...]
    wake_on: frozenset[ClusterEvent]
    everywhere: str = ""  # what keeps the pod off all nodes alike, so that none was asked
    curable: int = 0  # nodes that might do if pods left them
    whom: str = ""  # which of several pods was refused, where they were asked for together

    def __str__(self) -> str:
        if not self.nodes:
            return "no nodes available to schedule pods"
        if self.everywhere:
            return f"0/{self.nodes} nodes are available{self._for_whom}: {self.everywhere}."
        often = sorted(self.reasons, key=lambda each: -each[1])
        counted = sorted(f"{count} {reason}" for reason, count in often[:SHOWN_REASONS])
        more = len(often) - SHOWN_REASONS
        counted += [f"and {more} other reasons"] if more > 0 else []
        return f"0/{self.nodes} nodes are available{self._for_whom}: {', '.join(counted)}."

    @property
    def _for_whom(self) -> str:
        return f" for {self.whom}" if self.whom else ""


Questioned = tuple[Refuser, Iterable[tuple[str, Mask]], Callable[[], Mask | bool]]
"""A rule, where its demands are met, and where nobody's leaving would help."""
Refused = tuple[Refuser, Mask, Callable[[], Mask | bool]]
"""A rule, the rows it refuses, and where nobody's leaving would help."""


class RefusalCounts:
    """What the rules of one profile say against a pod."""

    def __init__(self, rules: RowRules) -> None:
        self._rules = rules
        self._nodes = rules.nodes

    def curable(self, pod: Pod, filters: list[PeerFilter]) -> Mask:
        """The rows that refuse the pod now and might not if pods left: what the first rule to refuse says of it."""
        found: Mask = np.zeros(len(self._nodes.nodes), dtype=np.bool_)
        for _, refused, hopeless in self._refused(pod, filters, None, {}):
            found |= refused & np.logical_not(hopeless())
        return found

    def why(self, pod: Pod, filters: list[PeerFilter], within: Mask | None) -> NoPlacement:
        """Each node counts for the first rule that refuses it, with all of that rule's reasons."""
        counts: dict[str, int] = {}
        refusing: list[str] = []
        wake_on: set[ClusterEvent] = {ClusterEvent.NODE_ADDED}
        curable = 0
        for rule, refused, hopeless in self._refused(pod, filters, within, counts):
            refusing.append(rule.name)
            wake_on |= rule.wake_on
            curable += int(np.count_nonzero(refused & np.logical_not(hopeless())))
        asked = len(self._nodes) if within is None else int(np.count_nonzero(within & self._nodes.alive))
        return NoPlacement(asked, tuple(sorted(counts.items())), tuple(refusing), frozenset(wake_on), curable=curable)

    def _refused(
        self, pod: Pod, filters: list[PeerFilter], within: Mask | None, counts: dict[str, int]
    ) -> Iterator[Refused]:
        """Rule by rule, the rows it is the first to refuse; the reasons are added to `counts`."""
        left: Mask = self._nodes.alive.copy() if within is None else self._nodes.alive & within
        for rule, demands, hopeless in self._questions(pod, filters):
            refused = _count(demands, left, counts)
            if refused.any():
                left &= ~refused
                yield rule, refused, hopeless

    def _questions(self, pod: Pod, filters: list[PeerFilter]) -> Iterator[Questioned]:
        everything = slice(0, len(self._nodes.nodes))
        for verdicts in self._rules.node_filters:
            yield verdicts.rule, verdicts.demands(pod.shape, everything), lambda: True
        for rule in self._rules.load_filters:
            demands = rule.demands(pod.shape, self._nodes, everything, 0)
            yield rule, demands, partial(rule.hopeless, pod.shape, self._nodes)
        for peer in filters:
            yield peer, peer.demands(pod), partial(peer.hopeless, pod)


def _count(demands: Iterable[tuple[str, Mask]], left: Mask, counts: dict[str, int]) -> Mask:
    """Add to `counts` the rows still left where a demand is not met; returns all rows refused."""
    refused: Mask = np.zeros(len(left), dtype=np.bool_)
    for reason, met in demands:
        hit = left & ~met
        if hit.any():
            counts[reason] = counts.get(reason, 0) + int(hit.sum())
            refused |= hit
    return refused


KEPT_LOOKS = 512

Say = tuple[list[PeerFilter], list[tuple[FieldScore, int]]]
NOBODY: Say = ([], [])


class ApplicablePlugins:
    """Of the rules that look at neighbours, promises and other nodes, those that matter to a pod."""

    def __init__(
        self,
        neighbours: Neighbours,
        peer_filters: tuple[PeerFilter, ...],
        field_scores: tuple[tuple[FieldScore, int], ...],
    ) -> None:
        self._neighbours = neighbours
        self._promises = neighbours.nominations
        self._filters = tuple(rule for rule in peer_filters if rule is not self._promises)
        self._scores = field_scores
        self._known: dict[Hashable, tuple[Say, int, int]] = {}  # with what was news then of nodes and of held terms

    def about(self, pod: Pod) -> Say:
        filters, scores = self._lasting(pod)
        return ([*filters, self._promises], scores) if self._promises.concerns(pod) else (filters, scores)

    def none_but_promises(self, pod: Pod) -> bool:
        """Each node judges by itself, beside what is promised there."""
        return not any(self._lasting(pod))

    @property
    def labels_matter(self) -> bool:
        """Whether pods of one shape and priority may differ in who has a say about them."""
        return self._neighbours.matter

    def equivalence_class(self, pod: Pod) -> Hashable:
        """Pods of one equivalence class get equal verdicts. Labels matter only where some rule looks at neighbours."""
        filters = self.about(pod)[0]
        if not filters:
            return pod.scheduler_name, pod.shape
        level = pod.priority if filters[-1] is self._promises else None
        return pod.scheduler_name, pod.shape, level, pod.key.namespace, tuple(sorted(pod.labels.items()))

    def _lasting(self, pod: Pod) -> Say:
        """All but promises, which come and go."""
        looks = self._looks(pod) if self._neighbours.matter else pod.shape
        known, nodes, terms = self._known.get(looks, (NOBODY, -1, -1))
        if nodes != self._neighbours.nodes.node_changes.end or terms != self._neighbours.news:
            known = self._ask(pod)
            self._known[looks] = (known, self._neighbours.nodes.node_changes.end, self._neighbours.news)
            if len(self._known) > KEPT_LOOKS:
                del self._known[next(iter(self._known))]
        return known

    def _looks(self, pod: Pod) -> Hashable:
        """All that others may see of a pod; while nobody holds terms about others, its shape is enough."""
        return pod.shape, pod.key.namespace, frozenset(pod.labels.items())

    def _ask(self, pod: Pod) -> Say:
        return (
            [rule for rule in self._filters if rule.concerns(pod)],
            [(rule, weight) for rule, weight in self._scores if rule.compares(pod)],
        )


__all__ = ["NoPlacement", "Placement", "Placer", "Rules"]

KEPT_SHAPES = 512
ROWS_A_POD = 100  # how many rows a plan within limits looks at in the time it takes to ask for one pod by itself


class Placement(Struct, frozen=True, gc=False):
    """This node, for it has the best score."""

    node: str
    score: int


class Rules(Struct, frozen=True):
    """All placement rules of one profile."""

    rows: RowRules
    neighbours: Neighbours
    peer_filters: tuple[PeerFilter, ...] = ()
    field_scores: tuple[tuple[FieldScore, int], ...] = ()
    percentage: int = 0  # of the nodes that will do, how many are compared; 0: as many as pay


class Placer:
    """Answers for one profile. Equal shapes share one ranking, so the second of a kind costs next to nothing."""

    def __init__(self, rules: Rules) -> None:
        self._nodes = rules.rows.nodes
        self.rules = rules
        self.nominations = rules.neighbours.nominations
        self.domains = rules.neighbours.domains
        self._rankings: dict[PodShape, Ranking] = {}
        self._glances = SampledNodes(rules.rows, rules.percentage)
        self._applicable = ApplicablePlugins(rules.neighbours, rules.peer_filters, rules.field_scores)
        self._refusals = RefusalCounts(rules.rows)

    def place(self, pod: Pod, within: Mask | None = None) -> Placement | NoPlacement:
        """Among all nodes, or only among those within."""
        filters, scores = self._applicable.about(pod)
        if pod.nominated and (kept := self._kept(pod, filters, within)) is not None:
            return kept
        if filters or scores or within is not None:
            best = self._compared(pod, filters, scores, within)
        else:
            best = self._best(pod.shape)
        if best is None:
            return self._refusals.why(pod, filters, within)
        row, score = best
        return Placement(self._nodes.name_at(row), score)

    def fits(self, pod: Pod, row: int) -> bool:
        """Whether this one row would take the pod as things stand."""
        if not self.rules.rows.fit(pod.shape, row, 0):
            return False
        return all(rule.admits(pod, row) for rule in self._applicable.about(pod)[0])

    def curable(self, pod: Pod) -> Mask:
        """The rows that refuse the pod now and might not if pods left."""
        return self._refusals.curable(pod, self._applicable.about(pod)[0])

    def nowhere(self, rule: str, why: str, wake_on: frozenset[ClusterEvent]) -> NoPlacement:
        """The refusal of a pod that something keeps off all nodes alike."""
        return NoPlacement(len(self._nodes), (), (rule,), wake_on, why)

    def plan(self, pod: Pod, count: int, within: Mask | None = None) -> list[Placement]:
        """Where so many pods like this one would go, one after the other; fewer when capacity runs out.

        Empty as well for a pod that must be asked for by itself, and where asking for each is cheaper.
        """
        foreseen = None if pod.nominated else self._foresee(pod)
        if foreseen is None:
            return []
        limits = [limit for foresight in foreseen for limit in foresight.limits]
        if limits and count * ROWS_A_POD < len(self._nodes):
            return []
        picks = self._ranking(pod.shape).plan(count, _most_each(foreseen, within), limits)
        return [Placement(self._nodes.name_at(row), score) for row, score in picks]

    def stands_alone(self, pod: Pod) -> bool:
        """No neighbour and no comparison of nodes has a say about the pod."""
        return self._applicable.none_but_promises(pod)

    def plan_serves(self, first: Pod, others: Iterable[Pod]) -> int:
        """For how many of the others, up to the first it does not serve, a plan for this pod is as good."""
        if self._foresee(first) is None:
            return 0
        alone = self.stands_alone(first)
        labels_matter = self._applicable.labels_matter or not alone
        served = 0
        for pod in others:
            if pod.shape != first.shape or pod.priority != first.priority:
                break
            if labels_matter and not _same_to_neighbours(first, pod) and not (alone and self.stands_alone(pod)):
                break
            served += 1
        return served

    def capacity(self, shape: PodShape, most: int) -> Amounts:
        """How many pods of the shape each row can take by itself, counted up to `most`."""
        return self.rules.rows.capacity(shape, most)

    def plan_each(self, pods: Sequence[Pod]) -> list[Placement]:
        """Where these different pods would go, in order, up to the first that must be asked for by itself.

        They may differ in nothing but amounts; no more than `most_together` of them.
        """
        picks = self._glances.best_of_each([pod.shape for pod in pods])
        found = itertools.takewhile(lambda pick: pick is not None, picks)
        return [Placement(self._nodes.name_at(pick[0]), pick[1]) for pick in found if pick is not None]

    def most_together(self, pod: Pod) -> int:
        """How many pods that differ from this one in amounts can be planned at once; 1 where it stands alone."""
        if self._applicable.labels_matter or self.nominations or any(self._applicable.about(pod)):
            return 1
        return self._glances.most_together()

    def unknown(self, pod: Pod) -> bool:
        """True for a pod of a shape not placed lately, for which a glance will do."""
        return not pod.nominated and pod.shape not in self._rankings

    def equivalence_class(self, pod: Pod) -> Hashable:
        """Pods of one equivalence class get equal verdicts."""
        return self._applicable.equivalence_class(pod)

    def keep(self, pod: Pod, within: Mask | None = None) -> Placement | None:
        """The node nominated to the pod, if it will do."""
        return self._kept(pod, self._applicable.about(pod)[0], within)

    def keep_each(self, pods: Sequence[Pod], within: Mask | None = None) -> list[Placement | None]:
        """As `keep` for pods that can be planned with the first, each beside those before it."""
        rows = [self._nodes.row_of(pod.nominated) for pod in pods]
        known = np.array([-1 if row is None else row for row in rows], dtype=np.intp)
        before = _earlier_equals(rows)
        scores = self.rules.rows.rate(pods[0].shape, known, before)
        fit = (scores > UNFIT) & (known >= 0)
        most = _most_each(self._foresee(pods[0]) or [], within)
        if most is not None:
            fit &= before < most[known]
        judged = zip(pods, fit.tolist(), scores.tolist(), strict=True)
        return [Placement(pod.nominated, score) if fits else None for pod, fits, score in judged]

    def _kept(self, pod: Pod, filters: list[PeerFilter], within: Mask | None) -> Placement | None:
        """The nominated node is taken without looking further."""
        row = self._nodes.row_of(pod.nominated)
        if row is None or (within is not None and not within[row]):
            return None
        score = int(self.rules.rows.rate(pod.shape, row))
        if score == UNFIT or not all(rule.admits(pod, row) for rule in filters):
            return None
        return Placement(pod.nominated, score)

    def _foresee(self, pod: Pod) -> list[Foresight] | None:
        """What all who have a say about the pod will say of those like it; None if one of them must be asked anew."""
        filters, scores = self._applicable.about(pod)
        foreseen: list[Foresight] = []
        for rule in filters if not scores else ():
            foresight = rule.foresee(pod)
            if foresight is None:
                return None
            foreseen.append(foresight)
        return None if scores else foreseen

    def _best(self, shape: PodShape) -> tuple[int, int] | None:
        if shape not in self._rankings and self._glances.will_do(shape):
            return self._glances.best(shape)
        return self._ranking(shape).best()

    def _ranking(self, shape: PodShape) -> Ranking:
        ranking = self._rankings.get(shape)
        if ranking is None:
            ranking = self._rankings[shape] = Ranking(shape, self.rules.rows)
            if len(self._rankings) > KEPT_SHAPES:
                del self._rankings[next(iter(self._rankings))]
        return ranking

    def _compared(
        self, pod: Pod, filters: list[PeerFilter], scores: list[tuple[FieldScore, int]], within: Mask | None
    ) -> tuple[int, int] | None:
        """The best row when neighbours or the other nodes have a say, or not all nodes are asked."""
        allowed = within
        for rule in filters:
            for _, met in rule.demands(pod):
                allowed = met if allowed is None else allowed & met
        ranking = self._ranking(pod.shape)
        ranking.refresh(allowed)
        places = ranking.places if allowed is None else only(ranking.places, allowed)
        if scores:
            places = self._with_comparisons(pod, places, scores)
        row = foremost(places, self._nodes.draws)
        return None if row is None else (row, score_of(places.item(row)))

    def _with_comparisons(self, pod: Pod, places: Amounts, scores: list[tuple[FieldScore, int]]) -> Amounts:
        """With what the rules say that look at the other nodes that will do."""
        fit = np.flatnonzero(places > NO_PLACE)
        if not len(fit):
            return places
        places = places.copy()
        for rule, weight in scores:
            points = rule.scores(pod, fit)
            if points is not None:
                places[fit] = raised(places[fit], weight * points)
        return places


def _most_each(foreseen: Sequence[Foresight], within: Mask | None) -> Amounts | None:
    """How many pods alike each row may be given, where anything but its own capacity limits that."""
    most = [foresight.most for foresight in foreseen]
    if within is not None:
        most.append(within * MANY)
    return reduce(np.minimum, most) if most else None


def _same_to_neighbours(one: Pod, other: Pod) -> bool:
    """Whoever looks at neighbours sees no difference."""
    return one.labels == other.labels and one.key.namespace == other.key.namespace


def _earlier_equals(rows: Sequence[int | None]) -> Amounts:
    """For each, how many equal ones come before it."""
    seen: Counter[int | None] = Counter()
    before = np.zeros(len(rows), dtype=np.int64)
    for index, row in enumerate(rows):
        before[index] = seen[row]
        seen[row] += 1
    return before
