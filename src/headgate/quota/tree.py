"""The tree of queues and cohorts: how much quota each has, uses, lends and may still get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from headgate.model.queues import WHOLE_WEIGHT, ClusterQueue, Cohort, Quota, ResourceGroup

NO_QUOTA = Quota()


class FlavorResource(NamedTuple):
    flavor: str
    resource: str


Usage = tuple[tuple[FlavorResource, int], ...]
"""Amounts by flavor and resource, sorted."""


def usage_of(amounts: Mapping[FlavorResource, int]) -> Usage:
    return tuple(sorted(amounts.items()))


class BorrowLevel(NamedTuple):
    """How far up the tree a request must reach: 0 stays in its queue, else the height of the cohort that has room.

    With `may_reclaim`, that is not yet the whole tree, so what others borrow from outside may be reclaimed.
    """

    height: int
    may_reclaim: bool


class QuotaNode:
    """A queue or a cohort. `kept` is the part of its quota its parent never sees.

    `borrowers` are the children that use more than they have, by what they use.
    """

    __slots__ = (
        "borrowers",
        "children",
        "height",
        "kept",
        "name",
        "parent",
        "potentials",
        "queue",
        "quotas",
        "root",
        "subtree",
        "usage",
        "weight",
    )

    def __init__(
        self, name: str, quotas: Mapping[FlavorResource, Quota], weight: int, queue: ClusterQueue | None = None
    ):
        self.name = name
        self.quotas = quotas
        self.weight = weight
        self.queue = queue
        self.parent: QuotaNode | None = None
        self.root = self
        self.children: list[QuotaNode] = []
        self.borrowers: dict[FlavorResource, dict[QuotaNode, None]] = {}
        self.potentials: dict[FlavorResource, int] = {}  # found out so far
        self.height = 0
        self.subtree: dict[FlavorResource, int] = {}
        self.kept: dict[FlavorResource, int] = {}
        self.usage: dict[FlavorResource, int] = {}

    def __repr__(self) -> str:
        return f"QuotaNode({self.name})"

    @property
    def cohorts(self) -> Iterator[QuotaNode]:
        return (child for child in self.children if child.queue is None)

    @property
    def queues(self) -> Iterator[QuotaNode]:
        return (child for child in self.children if child.queue is not None)

    def ancestors(self) -> Iterator[QuotaNode]:
        """Its parent first, the root last."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def leaves(self) -> Iterator[QuotaNode]:
        """The queues below it, or itself."""
        if self.queue is not None:
            yield self
        for child in self.children:
            yield from child.leaves()

    def used(self, of: FlavorResource) -> int:
        return self.usage.get(of, 0)

    def quota(self, of: FlavorResource) -> Quota:
        return self.quotas.get(of, NO_QUOTA)

    def use(self, of: FlavorResource, amount: int) -> None:
        """It uses so much, no more and no less."""
        self.usage[of] = amount
        if self.parent is None:
            return
        borrowers = self.parent.borrowers.setdefault(of, {})
        if amount > self.subtree.get(of, 0):
            borrowers[self] = None
        else:
            borrowers.pop(self, None)

    def fill_in(self, root: QuotaNode) -> None:
        """Children first: what each node has with all below it, what it keeps to itself, and how high it stands."""
        self.root = root
        subtree = {of: quota.nominal for of, quota in self.quotas.items()}
        for child in self.children:
            child.fill_in(root)
            self.height = max(self.height, child.height + 1)
            for of, amount in child.subtree.items():
                subtree[of] = subtree.get(of, 0) + amount - child.kept.get(of, 0)
        self.subtree = subtree
        self.kept = {
            of: max(0, subtree[of] - quota.lending_limit)
            for of, quota in self.quotas.items()
            if quota.lending_limit is not None
        }


def local_available(node: QuotaNode, of: FlavorResource) -> int:
    """What is left of the part its parent never sees."""
    kept = node.kept.get(of, 0)
    return max(0, kept - node.usage.get(of, 0)) if kept else 0


def available(node: QuotaNode, of: FlavorResource) -> int:
    """Room left: its own first, then the parent's up to the borrowing limit. Negative when quota was taken away."""
    used = node.usage.get(of, 0)
    if node.parent is None:
        return node.subtree.get(of, 0) - used
    room = available(node.parent, of)
    kept = node.kept.get(of, 0)
    limit = node.quotas.get(of, NO_QUOTA).borrowing_limit
    if limit is not None:
        room = min(room, node.subtree.get(of, 0) - kept - max(0, used - kept) + limit)
    return max(0, kept - used) + room


def potential(node: QuotaNode, of: FlavorResource) -> int:
    """Room there would be if nothing was used: no request may ever be larger."""
    known = node.potentials.get(of)
    if known is None:
        known = node.potentials[of] = _potential(node, of)
    return known


def _potential(node: QuotaNode, of: FlavorResource) -> int:
    own = node.subtree.get(of, 0)
    if node.parent is None:
        return own
    room = node.kept.get(of, 0) + potential(node.parent, of)
    limit = node.quotas.get(of, NO_QUOTA).borrowing_limit
    return room if limit is None else min(room, own + limit)


def borrows_with(node: QuotaNode, of: FlavorResource, amount: int) -> bool:
    """Whether it uses more than its own quota once this comes on top."""
    return node.subtree.get(of, 0) < node.usage.get(of, 0) + amount


def within_nominal(node: QuotaNode, needed: Sequence[FlavorResource]) -> bool:
    """It borrows none of these."""
    return not any(borrows_with(node, of, 0) for of in needed)


def borrow_level(queue: QuotaNode, of: FlavorResource, amount: int) -> BorrowLevel:
    if queue.parent is None or not borrows_with(queue, of, amount):
        return BorrowLevel(0, queue.parent is not None)
    remaining = amount - local_available(queue, of)
    for cohort in queue.ancestors():
        if cohort.parent is None or not borrows_with(cohort, of, remaining):
            return BorrowLevel(cohort.height, cohort.parent is not None)
        remaining -= local_available(cohort, of)
    raise AssertionError("a tree has a root")


class Forest:
    """All trees there are. A cohort that is only named exists without quota; below a ring of parents nothing is active.

    Names are looked up as given; children stand in the order of their names.
    """

    def __init__(self, queues: Sequence[ClusterQueue], cohorts: Sequence[Cohort]) -> None:
        self._cohorts = {
            cohort.name: QuotaNode(cohort.name, _quotas(cohort.groups), cohort.fair_weight) for cohort in cohorts
        }
        parents = {cohort.name: cohort.parent for cohort in cohorts}
        for cohort in sorted(cohorts, key=lambda cohort: cohort.name):
            self._hang(self._cohorts[cohort.name], cohort.parent)
        in_ring = _in_ring(parents)
        self.queues: dict[str, QuotaNode] = {}
        self.cyclic: frozenset[str] = frozenset(queue.name for queue in queues if queue.cohort in in_ring)
        for queue in sorted(queues, key=lambda queue: queue.name):
            if queue.name not in self.cyclic:
                node = QuotaNode(queue.name, _quotas(queue.groups), queue.fair_weight, queue)
                self.queues[queue.name] = node
                self._hang(node, queue.cohort)
        self.roots: tuple[QuotaNode, ...] = tuple(
            node for node in (*self._cohorts.values(), *self.queues.values()) if node.parent is None
        )
        for root in self.roots:
            root.fill_in(root)

    def cohort(self, name: str) -> QuotaNode | None:
        return self._cohorts.get(name)

    def tree_of(self, queue: str) -> tuple[str, ...]:
        """The queues that share quota with this one, itself among them; none when its parents form a ring."""
        node = self.queues.get(queue)
        return tuple(leaf.name for leaf in node.root.leaves()) if node else ()

    def path_of(self, queue: str) -> str:
        """Its place from the root down, as in /root/cohort/queue."""
        node = self.queues[queue]
        return "/" + "/".join([*reversed([above.name for above in node.ancestors()]), node.name])

    def _hang(self, node: QuotaNode, parent: str) -> None:
        if parent:
            node.parent = self._cohorts.setdefault(parent, QuotaNode(parent, {}, WHOLE_WEIGHT))
            node.parent.children.append(node)


def _quotas(groups: Sequence[ResourceGroup]) -> dict[FlavorResource, Quota]:
    return {
        FlavorResource(flavor.flavor, resource): quota
        for group in groups
        for flavor in group.flavors
        for resource, quota in flavor.quotas
    }


def _in_ring(parents: Mapping[str, str]) -> frozenset[str]:
    """The cohorts whose way up never ends."""
    endless = set()
    for name in parents:
        seen: set[str] = set()
        at = name
        while at and at not in seen:
            seen.add(at)
            at = parents.get(at, "")
        if at:
            endless.add(name)
    return frozenset(endless)
