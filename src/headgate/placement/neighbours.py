"""Which pods are where, as far as terms speak of them: counted row by row, kept up to date pod by pod."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from enum import StrEnum, auto
from typing import Any, Generic, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from headgate.model.node import PodTerm, Selector
from headgate.model.pod import Pod
from headgate.model.selectors import Operator
from headgate.placement.domains import Domains
from headgate.placement.nominations import Nominations
from headgate.placement.table import Amounts, NodeTable, padded

T = TypeVar("T", bound=Hashable)
Pair = tuple[str, str]


class LabelCounts(Generic[T]):
    """By what looks for pods, how much it found on each row. `selector_of` says which labels these pods must have."""

    def __init__(self, selector_of: Callable[[T], Selector]) -> None:
        self._selector_of = selector_of
        self._amounts: dict[T, Amounts] = {}
        self._by_pair: dict[Pair, dict[T, None]] = {}  # those that look for a label with certain values only
        self._others: dict[T, None] = {}

    def __len__(self) -> int:
        return len(self._amounts)

    def __iter__(self) -> Iterator[T]:
        return iter(self._amounts)

    def get(self, seeker: T) -> Amounts | None:
        return self._amounts.get(seeker)

    def put(self, seeker: T, amounts: Amounts) -> Amounts:
        self._amounts[seeker] = amounts
        for looking in self._places_of(seeker):
            looking[seeker] = None
        return amounts

    def drop(self, seeker: T) -> None:
        del self._amounts[seeker]
        for looking in self._places_of(seeker):
            del looking[seeker]
        for pair in _wanted(self._selector_of(seeker)):
            if not self._by_pair[pair]:
                del self._by_pair[pair]

    def seeking(self, labels: Mapping[str, str]) -> Iterator[tuple[T, Amounts]]:
        """Those who may look for a pod with these labels, each once: for all others one of the labels is wrong."""
        for seeker in self._others:
            yield seeker, self._amounts[seeker]
        for pair in labels.items():
            for seeker in self._by_pair.get(pair, ()):
                yield seeker, self._amounts[seeker]

    def clear(self, row: int) -> None:
        for amounts in self._amounts.values():
            amounts[row] = 0

    def grow(self, rows: int) -> None:
        self._amounts = {seeker: padded(amounts, rows) for seeker, amounts in self._amounts.items()}

    def _places_of(self, seeker: T) -> Iterable[dict[T, None]]:
        pairs = _wanted(self._selector_of(seeker))
        return [self._by_pair.setdefault(pair, {}) for pair in pairs] if pairs else [self._others]


def _wanted(selector: Selector) -> list[Pair]:
    """Labels of which a pod must have one; none where the selector does not say so plainly."""
    for part in selector or ():
        if part.operator is Operator.IN:
            return [(part.key, value) for value in dict.fromkeys(part.values)]
    return []


KEPT_QUESTIONS = 512


class PodQuery(Struct, frozen=True, gc=False, cache_hash=True):
    """Pods that match every one of the terms."""

    terms: tuple[PodTerm, ...]
    living: bool = False  # pods that are being deleted do not count


class TermRole(StrEnum):
    """How an existing pod holds a term."""

    REQUIRED = auto()
    FORBIDDEN = auto()
    PREFERRED = auto()


Held = tuple[TermRole, PodTerm]


class Neighbours:
    """Counts of pods that match a question, and of pods that hold a term, by row."""

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        self.domains = Domains(nodes)
        self.nominations = Nominations(nodes)
        self._answers: LabelCounts[PodQuery] = LabelCounts(lambda question: question.terms[0].selector)
        self._held: dict[TermRole, LabelCounts[PodTerm]] = {
            role: LabelCounts(lambda term: term.selector) for role in TermRole
        }
        self._tallies: tuple[LabelCounts[Any], ...] = (self._answers, *self._held.values())
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self.news = 0  # grows when a term is held for the first time or no longer, or speaks of other pods than before
        nodes.follow(self)

    def answer(self, question: PodQuery) -> Amounts:
        """How many pods on each row the question picks out."""
        counts = self._answers.get(question)
        if counts is None:
            counts = self._answers.put(question, self._count_all(question))
            if len(self._answers) > KEPT_QUESTIONS:
                self._answers.drop(next(iter(self._answers)))
        return counts

    def holding(self, role: TermRole, pod: Pod) -> Iterator[tuple[PodTerm, Amounts]]:
        """The terms held in that role by pods anywhere that speak of this pod, with how many (or how much) by row."""
        for term, counts in self._held[role].seeking(pod.labels):
            if self.speaks_of(term, pod):
                yield term, counts

    @property
    def matter(self) -> bool:
        """Whether any pod anywhere holds a term about others."""
        return any(self._held.values())

    @property
    def rows(self) -> int:
        return len(self.nodes.nodes)

    @property
    def alive(self) -> NDArray[np.bool_]:
        return self.nodes.alive

    def speaks_of(self, term: PodTerm, pod: Pod) -> bool:
        namespace = pod.key.namespace
        return term.matches(namespace, self._namespaces.get(namespace, {}), pod.labels)

    def relabel(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """The namespace has these labels now; True when that is news. Answers that looked at them are counted anew."""
        if self._namespaces.get(namespace, {}) == labels:
            return False
        if labels:
            self._namespaces[namespace] = labels
        else:
            del self._namespaces[namespace]
        self.news += 1
        for question in list(self._answers):
            if any(term.namespace_selector is not None for term in question.terms):
                self._answers.drop(question)
        return True

    # as the table's census

    def count(self, pod: Pod, row: int, sign: int) -> None:
        for question, counts in self._answers.seeking(pod.labels):
            if self._picks(question, pod):
                counts[row] += sign
        if pod.shape.peers is not None:
            self._hold(pod, row, sign)

    def _hold(self, pod: Pod, row: int, sign: int) -> None:
        for (role, term), weight in terms_of(pod):
            counts = self._held[role].get(term)
            if counts is None:
                counts = self._held[role].put(term, np.zeros(len(self.nodes.nodes), dtype=np.int64))
                self.news += 1
            counts[row] += sign * weight
            if sign < 0 and not counts.any():
                self._held[role].drop(term)
                self.news += 1

    def clear(self, row: int) -> None:
        for tallies in self._tallies:
            tallies.clear(row)

    def grow(self, rows: int) -> None:
        for tallies in self._tallies:
            tallies.grow(rows)

    def _count_all(self, question: PodQuery) -> Amounts:
        counts = np.zeros(len(self.nodes.nodes), dtype=np.int64)
        for row, pod in self.nodes.placed():
            if self._picks(question, pod):
                counts[row] += 1
        return counts

    def _picks(self, question: PodQuery, pod: Pod) -> bool:
        if question.living and pod.deleted is not None:
            return False
        return all(self.speaks_of(term, pod) for term in question.terms)


def terms_of(pod: Pod) -> Iterator[tuple[Held, int]]:
    """Every term the pod holds against or for others, with its weight."""
    demands = pod.shape.peers
    if demands is None:
        return
    for term in demands.affinity:
        yield (TermRole.REQUIRED, term), 1
    for term in demands.anti_affinity:
        yield (TermRole.FORBIDDEN, term), 1
    for preference in demands.preferences:
        yield (TermRole.PREFERRED, preference.term), preference.weight
