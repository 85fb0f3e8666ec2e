"""Quota trees: how much quota each node has, uses, lends and may still get.

A node is a name, a parent, quotas (nominal, borrowing and lending limit) by flavor and resource, and a weight. Which
kind of queue a leaf stands for is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from headgate.model.queues import WHOLE_WEIGHT, Quota

NO_QUOTA = Quota()


class FlavorResource(NamedTuple):
    flavor: str
    resource: str


Usage = tuple[tuple[FlavorResource, int], ...]
"""Amounts by flavor and resource, sorted."""


def usage_of(amounts: Mapping[FlavorResource, int]) -> Usage:
    return tuple(sorted(amounts.items())) if len(amounts) > 1 else tuple(amounts.items())


class BorrowLevel(NamedTuple):
    """How far up the tree a request must reach: 0 stays in its queue, else the height of the cohort that has room.

    With `may_reclaim`, that is not yet the whole tree, so what others borrow from outside may be reclaimed.
    """

    height: int
    may_reclaim: bool


_ALONE = BorrowLevel(0, may_reclaim=False)
_WITHIN_ITS_OWN = BorrowLevel(0, may_reclaim=True)


class Account:
    """What a queue or cohort has and uses of one resource of one flavor; its parent's is that of the cohort above.

    `kept` is the part of its quota its parent never sees. `borrowers` are the children that use more than they have.
    `potential` is the room there would be if nothing was used: no request may ever be larger.
    """

    __slots__ = (
        "borrowers",
        "borrows",
        "carried_most",
        "kept",
        "node",
        "nominal",
        "of",
        "parent",
        "potential",
        "subtree",
        "used",
    )

    def __init__(self, node: QuotaNode, of: FlavorResource) -> None:
        quota = node.quota(of)
        self.node = node
        self.of = of
        self.parent: Account | None = node.parent.accounts[of] if node.parent is not None else None
        self.nominal = quota.nominal
        self.subtree = node.subtree.get(of, 0)
        self.kept = node.kept.get(of, 0)
        limit = quota.borrowing_limit
        self.carried_most = None if limit is None else self.subtree - self.kept + limit  # by its parent, for it
        self.potential = self.subtree
        if self.parent is not None:
            room = self.kept + self.parent.potential
            self.potential = room if limit is None else min(room, self.subtree + limit)
        self.used = 0
        self.borrows = False
        self.borrowers: dict[QuotaNode, None] = {}

    def add(self, amount: int, noted: list[Before] | None) -> None:
        """It uses more. What does not fit into the part the parent never sees is the parent's to carry."""
        account: Account | None = self
        while account is not None and amount > 0:
            used = account.used
            if noted is not None:
                noted.append((account, used))
            more = account.used = used + amount
            if more > account.subtree and not account.borrows:
                account.turn()
            if used < account.kept:
                amount -= account.kept - used
            account = account.parent

    def remove(self, amount: int, noted: list[Before] | None) -> None:
        """It uses less. The parent is relieved first."""
        account: Account | None = self
        while account is not None and amount > 0:
            used = account.used
            if noted is not None:
                noted.append((account, used))
            less = account.used = used - amount
            if account.borrows and less <= account.subtree:
                account.turn()
            carried = used - account.kept
            amount = carried if carried < amount else amount
            account = account.parent

    def turn(self) -> None:
        """It begins to borrow, or borrows no longer."""
        self.borrows = not self.borrows
        if self.parent is not None:
            if self.borrows:
                self.parent.borrowers[self.node] = None
            else:
                del self.parent.borrowers[self.node]

    def available(self) -> int:
        """Room left: its own first, then the parent's up to the borrowing limit. Negative when quota was taken away."""
        parent, most = self.parent, self.carried_most
        if parent is None:
            return self.subtree - self.used
        room = parent.subtree - parent.used if parent.parent is None else parent.available()
        carried = self.used - self.kept
        if carried < 0:  # it has room of its own
            return (room if most is None or room < most else most) - carried
        return room if most is None or room < most - carried else most - carried

    @property
    def own_room(self) -> int:
        """What is left of the part its parent never sees."""
        return max(0, self.kept - self.used)

    def level(self, amount: int) -> BorrowLevel:
        """How far up the tree this much more would reach."""
        account = self
        if account.parent is None:
            return _ALONE
        if account.used + amount <= account.subtree:
            return _WITHIN_ITS_OWN
        while account.parent is not None:
            if account.used < account.kept:
                amount -= account.kept - account.used
            account = account.parent
            if account.used + amount <= account.subtree:
                break
        return account.node.reach


class Accounts(dict[FlavorResource, Account]):
    """Opened when first asked for: what a node has no quota for may still be used, and carried by its parent."""

    def __init__(self, node: QuotaNode) -> None:
        self._node = node

    def __missing__(self, of: FlavorResource) -> Account:
        opened = self[of] = Account(self._node, of)
        return opened


Before = tuple[Account, int]
"""What was used before a change."""


def take_back(noted: list[Before], mark: int) -> None:
    """All that was noted since then is used as before."""
    for account, used in reversed(noted[mark:]):
        account.used = used
        if (used > account.subtree) is not account.borrows:
            account.turn()
    del noted[mark:]


class QuotaNode:
    """A queue (a leaf) or a cohort. `subtree` is its quota with all below it, `kept` the part its parent never sees.

    The `generation` of a root grows whenever quota or usage in its tree changed for good.
    """

    __slots__ = (
        "_lendable",
        "accounts",
        "children",
        "generation",
        "height",
        "is_queue",
        "kept",
        "name",
        "parent",
        "parent_name",
        "quotas",
        "reach",
        "root",
        "subtree",
        "weight",
    )

    def __init__(
        self,
        name: str,
        parent_name: str = "",
        quotas: Mapping[FlavorResource, Quota] | None = None,
        weight: int = WHOLE_WEIGHT,
        *,
        is_queue: bool = False,
    ):
        self.name = name
        self.parent_name = parent_name  # empty at a root
        self.quotas = quotas or {}
        self.weight = weight
        self.is_queue = is_queue
        self.parent: QuotaNode | None = None
        self.root = self
        self.children: list[QuotaNode] = []
        self.height = 0
        self.reach = _ALONE  # of who borrows all it has
        self.subtree: dict[FlavorResource, int] = {}
        self.kept: dict[FlavorResource, int] = {}
        self.accounts = Accounts(self)
        self._lendable: dict[str, int] | None = None
        self.generation = 0

    def __repr__(self) -> str:
        return f"QuotaNode({self.name})"

    @property
    def cohorts(self) -> Iterator[QuotaNode]:
        return (child for child in self.children if not child.is_queue)

    @property
    def queues(self) -> Iterator[QuotaNode]:
        return (child for child in self.children if child.is_queue)

    def ancestors(self) -> Iterator[QuotaNode]:
        """Its parent first, the root last."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def leaves(self) -> Iterator[QuotaNode]:
        """The queues below it, or itself."""
        if self.is_queue:
            yield self
        for child in self.children:
            yield from child.leaves()

    def used(self, of: FlavorResource) -> int:
        return self.accounts[of].used

    def quota(self, of: FlavorResource) -> Quota:
        return self.quotas.get(of, NO_QUOTA)

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
        self.reach = BorrowLevel(self.height, self.parent is not None)

    @property
    def lendable(self) -> Mapping[str, int]:
        """All it could ever have, by resource, over every flavor of its tree."""
        if self._lendable is None:
            self._lendable = {}
            for of in self.root.subtree:
                self._lendable[of.resource] = self._lendable.get(of.resource, 0) + self.accounts[of].potential
        return self._lendable


def within_nominal(node: QuotaNode, needed: Sequence[FlavorResource]) -> bool:
    """It borrows none of these."""
    return not any(node.accounts[of].borrows for of in needed)


L = TypeVar("L", bound=QuotaNode)


class Forest(Generic[L]):
    """All trees there are. A cohort that is only named exists without quota; below a ring of parents nothing is active.

    Names are looked up as given; children stand in the order of their names.
    """

    def __init__(self, queues: Sequence[L], cohorts: Sequence[QuotaNode]) -> None:
        self._cohorts = {cohort.name: cohort for cohort in cohorts}
        for cohort in sorted(cohorts, key=lambda cohort: cohort.name):
            self._hang(cohort)
        in_ring = _in_ring({cohort.name: cohort.parent_name for cohort in cohorts})
        self.queues: dict[str, L] = {}
        self._paths: dict[str, str] = {}
        self.cyclic: frozenset[str] = frozenset(queue.name for queue in queues if queue.parent_name in in_ring)
        for queue in sorted(queues, key=lambda queue: queue.name):
            if queue.name not in self.cyclic:
                self.queues[queue.name] = queue
                self._hang(queue)
        nodes: list[QuotaNode] = [*self._cohorts.values(), *self.queues.values()]
        self.roots: tuple[QuotaNode, ...] = tuple(node for node in nodes if node.parent is None)
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
        path = self._paths.get(queue)
        if path is None:
            node = self.queues[queue]
            path = "/" + "/".join([*reversed([above.name for above in node.ancestors()]), node.name])
            self._paths[queue] = path
        return path

    def _hang(self, node: QuotaNode) -> None:
        if node.parent_name:
            node.parent = self._cohorts.setdefault(node.parent_name, QuotaNode(node.parent_name))
            node.parent.children.append(node)


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
