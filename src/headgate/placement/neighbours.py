"""Which pods are where, as far as terms speak of them: counted row by row, kept up to date pod by pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum, auto

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from headgate.model.peers import PodTerm
from headgate.model.pod import Pod
from headgate.placement.columns import Amounts, padded
from headgate.placement.domains import Domains
from headgate.placement.nominations import Nominations
from headgate.placement.table import NodeTable

KEPT_QUESTIONS = 512


class Question(Struct, frozen=True, gc=False, cache_hash=True):
    """Pods that match every one of the terms."""

    terms: tuple[PodTerm, ...]
    living: bool = False  # pods that are being deleted do not count


class Role(StrEnum):
    """How an existing pod holds a term."""

    REQUIRED = auto()
    FORBIDDEN = auto()
    PREFERRED = auto()


Held = tuple[Role, PodTerm]


class Neighbours:
    """Counts of pods that match a question, and of pods that hold a term, by row."""

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        self.domains = Domains(nodes)
        self.nominations = Nominations(nodes)
        self._answers: dict[Question, Amounts] = {}
        self._held: dict[Role, dict[PodTerm, Amounts]] = {role: {} for role in Role}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        nodes.follow(self)

    def answer(self, question: Question) -> Amounts:
        """How many pods on each row the question picks out."""
        counts = self._answers.get(question)
        if counts is None:
            counts = self._answers[question] = self._count_all(question)
            if len(self._answers) > KEPT_QUESTIONS:
                del self._answers[next(iter(self._answers))]
        return counts

    def holding(self, role: Role, pod: Pod) -> Iterator[tuple[PodTerm, Amounts]]:
        """The terms held in that role by pods anywhere that speak of this pod, with how many (or how much) by row."""
        for term, counts in self._held[role].items():
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
        if self._namespaces.get(namespace) == labels:
            return False
        self._namespaces[namespace] = labels
        self._answers = {
            question: counts
            for question, counts in self._answers.items()
            if all(term.namespace_selector is None for term in question.terms)
        }
        return True

    # as the table's census

    def count(self, pod: Pod, row: int, sign: int) -> None:
        for question, counts in self._answers.items():
            if self._picks(question, pod):
                counts[row] += sign
        if pod.shape.peers is not None:
            self._hold(pod, row, sign)

    def _hold(self, pod: Pod, row: int, sign: int) -> None:
        for (role, term), weight in terms_of(pod):
            counts = self._held[role].get(term)
            if counts is None:
                counts = self._held[role][term] = np.zeros(len(self.nodes.nodes), dtype=np.int64)
            counts[row] += sign * weight
            if sign < 0 and not counts.any():
                del self._held[role][term]

    def clear(self, row: int) -> None:
        held = (counts for by_term in self._held.values() for counts in by_term.values())
        for counts in (*self._answers.values(), *held):
            counts[row] = 0

    def grow(self, rows: int) -> None:
        self._answers = {question: padded(counts, rows) for question, counts in self._answers.items()}
        for role, by_term in self._held.items():
            self._held[role] = {term: padded(counts, rows) for term, counts in by_term.items()}

    def _count_all(self, question: Question) -> Amounts:
        counts = np.zeros(len(self.nodes.nodes), dtype=np.int64)
        for row, pod in self.nodes.placed():
            if self._picks(question, pod):
                counts[row] += 1
        return counts

    def _picks(self, question: Question, pod: Pod) -> bool:
        if question.living and pod.deleted is not None:
            return False
        return all(self.speaks_of(term, pod) for term in question.terms)


def terms_of(pod: Pod) -> Iterator[tuple[Held, int]]:
    """Every term the pod holds against or for others, with its weight."""
    demands = pod.shape.peers
    if demands is None:
        return
    for term in demands.affinity:
        yield (Role.REQUIRED, term), 1
    for term in demands.anti_affinity:
        yield (Role.FORBIDDEN, term), 1
    for preference in demands.preferences:
        yield (Role.PREFERRED, preference.term), preference.weight
