"""Why no node will do: rule by rule, the nodes it is the first to refuse, and what could change that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
from msgspec import Struct

from headgate.model.happenings import Happening
from headgate.model.pod import Pod
from headgate.placement.plugins import Mask, PeerFilter, Refuser
from headgate.placement.ranking import RowRules

SHOWN_REASONS = 12  # a message that lists hundreds of taints helps nobody


class NoPlacement(Struct, frozen=True):
    """No node will do: how many there are, how many fell to each reason, and what could change that."""

    nodes: int
    reasons: tuple[tuple[str, int], ...]
    filters: tuple[str, ...]
    wake_on: frozenset[Happening]
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


class Refusals:
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
        wake_on: set[Happening] = {Happening.NODE_ADDED}
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
