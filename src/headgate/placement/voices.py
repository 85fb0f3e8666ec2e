"""Who has a say about a pod beyond what each node by itself is and runs."""

from __future__ import annotations

from collections.abc import Hashable

from headgate.model.pod import Pod
from headgate.placement.neighbours import Neighbours
from headgate.placement.plugins import FieldScore, PeerFilter

KEPT_LOOKS = 512

Say = tuple[list[PeerFilter], list[tuple[FieldScore, int]]]
NOBODY: Say = ([], [])


class Voices:
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
    def hear_labels(self) -> bool:
        """Whether pods of one shape and priority may differ in who has a say about them."""
        return self._neighbours.matter

    def kin(self, pod: Pod) -> Hashable:
        """Pods with equal kin get equal verdicts. Labels matter only where some rule looks at neighbours."""
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
