"""Running pods that mean nothing to a preemptor but for the room they take: that is most of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headgate.model.affinity import PodTerm, Spread
from headgate.model.pod import Pod, PodShape
from headgate.model.selectors import selects
from headgate.placement.neighbours import Neighbours


class Bystanders:
    """Tells who is one: no term of theirs or of the preemptor's speaks of the other, and they share no ports.

    In doubt nobody is. Pods with volumes are none for a preemptor with volumes.
    """

    def __init__(self, neighbours: Neighbours, pods: Sequence[Pod]) -> None:
        shapes = list(dict.fromkeys(pod.shape for pod in pods))
        self._neighbours = neighbours
        self._namespaces = {pod.key.namespace for pod in pods}
        self._terms = [term for shape in shapes for term in _terms(shape)]
        self._spreads = [spread for shape in shapes for spread in _spreads(shape)]
        self._ports = [port for shape in shapes for port in shape.ports]
        self._claims = any(shape.claims or shape.bound_to is not None for shape in shapes)

    def has(self, pod: Pod) -> bool:
        shape = pod.shape
        if any(True for _ in _terms(shape)) or (self._claims and (shape.claims or shape.bound_to is not None)):
            return False
        if any(port.clashes_with(other) for port in shape.ports for other in self._ports):
            return False
        return not self._is_spoken_of(pod)

    def _is_spoken_of(self, pod: Pod) -> bool:
        if any(self._neighbours.speaks_of(term, pod) for term in self._terms):
            return True
        near = self._spreads if pod.key.namespace in self._namespaces else ()
        return any(spread.selector is not None and selects(spread.selector, pod.labels) for spread in near)


def _terms(shape: PodShape) -> Iterator[PodTerm]:
    """The terms that can keep a pod off a node."""
    if shape.peers is not None:
        yield from shape.peers.affinity
        yield from shape.peers.anti_affinity


def _spreads(shape: PodShape) -> Iterator[Spread]:
    if shape.peers is not None:
        yield from shape.peers.hard_spread
