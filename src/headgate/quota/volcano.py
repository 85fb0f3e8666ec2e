"""Volcano's queues as a quota tree: how much each queue may still take, at every level.

A queue keeps its guarantee to itself and takes the rest from the queue above, up to its capability. So a guarantee is
its nominal quota, of which it lends nothing, and its capability less its guarantee is its borrowing limit. The root has
whatever it is capable of, or no limit; how large the cluster is now does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from headgate.model.keys import Key, Kind
from headgate.model.pod import Pod
from headgate.model.queues import Quota
from headgate.model.resources import Resources, amount_text
from headgate.model.volcano import DEEPEST_QUEUE, DEFAULT_QUEUE, DEVICE_CLASS, ROOT, VolcanoQueue
from headgate.quota.tree import FlavorResource, Forest, QuotaNode

UNLIMITED = 2**127
"""More than any number of pods can request: what one tenant requests never is all of a root without a limit."""


WHOLE_SHARE = 2**32
NO_SHARE = (WHOLE_SHARE, 1)


class Shortage(Struct, frozen=True):
    """What a queue, or one above it, has too little of."""

    queue: str
    level: str  # the queue whose limit it is
    resource: str
    requested: int
    used: int  # at that level, with reservations
    limit: int
    kept: int = 0  # of the limit, guaranteed to other queues below that level

    @property
    def numbers(self) -> dict[str, int | str]:
        """For the journal."""
        amounts = {"requested": self.requested, "used": self.used, "limit": self.limit}
        return {"level": self.level, **{name: self._text(amount) for name, amount in amounts.items()}}

    def _text(self, amount: int) -> str:
        return f"{self.resource} {amount_text(self.resource, amount)}"

    def __str__(self) -> str:
        text = self._text
        where = f"queue {self.level}" if self.level == self.queue else f"queue {self.level} above queue {self.queue}"
        kept = f", of which {text(self.kept)} is guaranteed to other queues" if self.kept else ""
        used, requested = text(self.used), text(self.requested)
        return f"{where} has {text(self.limit)}{kept}, and {used} is in use or reserved; requested {requested}"


class VolcanoQueueNode(QuotaNode):
    """A queue with what it and all queues below it use, reservations among it."""

    __slots__ = ("device_limit", "queue", "reserved", "totals")

    def __init__(self, queue: VolcanoQueue, quotas: Mapping[FlavorResource, Quota]) -> None:
        super().__init__(queue.name, queue.parent, quotas)
        self.queue = queue
        self.device_limit = next((name for name, _ in queue.capability if DEVICE_CLASS in name), "")
        self.totals: dict[str, int] = {}
        self.reserved: dict[str, int] = {}  # of the totals, by pods without a node

    def path(self) -> Iterator[VolcanoQueueNode]:
        """Itself and the queues above it, the root last."""
        yield self
        for node in self.ancestors():
            assert isinstance(node, VolcanoQueueNode)
            yield node

    def shares(self) -> tuple[int, ...]:
        """What it and the queues above use of what they deserve, the topmost first, for an order among queues.

        The share of a queue is that of the resource it has most of. One that deserves nothing has a whole share, and
        comes after those that have one of what they deserve.
        """
        found: list[int] = []
        for node in reversed([node for node in self.path() if node.parent is not None]):
            parts = [_part(node.totals.get(name, 0), amount) for name, amount in node.queue.deserved]
            found += [max(parts), 0] if parts else NO_SHARE
        return tuple(found)

    def refuses_devices(self, pod: Pod) -> str:
        """Why the pod may not use devices: a queue limits them, and which ones a claim takes is not counted here."""
        if not any(claim.kind is Kind.DEVICE_CLAIM for claim in pod.shape.claims):
            return ""
        level = next((each for each in self.path() if each.device_limit), None)
        if level is None:
            return ""
        return f"queue {level.name} limits {level.device_limit}, and devices of resource claims are not counted"

    def add(self, amounts: Resources) -> None:
        for resource, amount in amounts.items:
            of = FlavorResource("", resource)
            if of in self.root.quotas:
                self.accounts[of].add(amount, None)
            for node in self.path():
                node.totals[resource] = node.totals.get(resource, 0) + amount

    def remove(self, amounts: Resources) -> None:
        for resource, amount in amounts.items:
            of = FlavorResource("", resource)
            if of in self.root.quotas:
                self.accounts[of].remove(amount, None)
            for node in self.path():
                node.totals[resource] -= amount

    def reserve(self, amounts: Resources) -> None:
        self.add(amounts)
        self._count_reserved(amounts, 1)

    def unreserve(self, amounts: Resources) -> None:
        self.remove(amounts)
        self._count_reserved(amounts, -1)

    def _count_reserved(self, amounts: Resources, sign: int) -> None:
        for resource, amount in amounts.items:
            for node in self.path():
                node.reserved[resource] = node.reserved.get(resource, 0) + sign * amount

    def fits(self, amounts: Resources) -> bool:
        """Whether this much more is allowed at every level; a resource that no queue limits always is."""
        limited = self.root.quotas
        for resource, amount in amounts.items:
            of = FlavorResource("", resource)
            if of not in limited or amount <= 0 or self.accounts[of].available() >= amount:
                continue
            if not self._is_guaranteed(of, amount):
                return False
        return True

    def _is_guaranteed(self, of: FlavorResource, amount: int) -> bool:
        """Whether this much more is within a guarantee of the queue, or of one above it, and exceeds no capability.

        Then it is allowed, even where less is left than is guaranteed: others use more than they may, because their
        queue was moved, a guarantee was raised, or another scheduler placed them.
        """
        account, left = self.accounts[of], amount
        while left and account.parent is not None:
            if account.carried_most is not None and account.used - account.kept + left > account.carried_most:
                return False
            left, account = max(0, left - account.own_room), account.parent
        return not left and all(_is_capable(node, of.resource, amount) for node in self.path())

    def shortage(self, amounts: Resources) -> Shortage | None:
        """The first resource of which this much more is not allowed, and the lowest level that forbids it."""
        for resource, amount in amounts.items:
            of = FlavorResource("", resource)
            if self.fits(Resources(((resource, amount),))):
                continue
            for node in self.path():
                if not _is_capable(node, resource, amount):
                    used, limit = node.totals.get(resource, 0), node.queue.capability[resource]
                    return Shortage(self.name, node.name, resource, amount, used, limit)
            return self._shortage_by_guarantees(of, amount)
        return None

    def _shortage_by_guarantees(self, of: FlavorResource, amount: int) -> Shortage:
        """No capability forbids it, so what is guaranteed to the queues beside it, or beside one above it, does."""
        nodes = [node for node in self.path() if dict(node.queue.capability.items).get(of.resource) is not None]
        level = nodes[-1] if nodes else next(iter(self.path()))
        limit, used = level.queue.capability[of.resource], level.totals.get(of.resource, 0)
        room = max(0, self.accounts[of].available())
        return Shortage(self.name, level.name, of.resource, amount, used, limit, max(0, limit - used - room))


def _is_capable(node: VolcanoQueueNode, resource: str, amount: int) -> bool:
    limit = dict(node.queue.capability.items).get(resource)
    return limit is None or node.totals.get(resource, 0) + amount <= limit


class QueueTree:
    """Every queue that has a place in the tree; the others, and why they have none, are in `misplaced`.

    The root and the default queue are there with or without an object.
    """

    def __init__(self, queues: Iterable[VolcanoQueue]) -> None:
        known = {ROOT: _implied(ROOT, ""), DEFAULT_QUEUE: _implied(DEFAULT_QUEUE, ROOT)}
        known |= {queue.name: queue for queue in queues}
        self.misplaced: dict[str, str] = {}
        for name in known:
            problem = _problem(name, known)
            if problem:
                self.misplaced[name] = problem
        placed = {name: queue for name, queue in known.items() if name not in self.misplaced}
        self._nodes = _tree(placed)

    def get(self, name: str) -> VolcanoQueueNode | None:
        return self._nodes.get(name)

    def __iter__(self) -> Iterator[VolcanoQueueNode]:
        return iter(self._nodes.values())


def _part(used: int, deserved: int) -> int:
    if deserved > 0:
        return used * WHOLE_SHARE // deserved
    return WHOLE_SHARE if used else 0


def _implied(name: str, parent: str) -> VolcanoQueue:
    return VolcanoQueue(Key(Kind.VOLCANO_QUEUE, "", name), "", "", parent)


def _problem(name: str, known: Mapping[str, VolcanoQueue]) -> str:
    """Why the queue has no place in the tree; empty if it has one."""
    seen: set[str] = set()
    at = name
    while at != ROOT:
        if at in seen:
            return f"queue {at} is below itself"
        if at not in known:
            return f"queue {at} does not exist"
        if len(seen) >= DEEPEST_QUEUE - 1:
            return f"more than {DEEPEST_QUEUE} queues are above one another"
        seen.add(at)
        at = known[at].parent
    return ""


def _tree(queues: Mapping[str, VolcanoQueue]) -> dict[str, VolcanoQueueNode]:
    resources = sorted(
        {name for one in queues.values() for part in (one.capability, one.guarantee) for name, _ in part}
    )
    children: dict[str, list[str]] = {}
    for name, queue in sorted(queues.items()):
        children.setdefault(queue.parent, []).append(name)
    quotas: dict[str, dict[FlavorResource, Quota]] = {name: {} for name in queues}
    for resource in resources:
        guarantees = _guarantees(ROOT, resource, queues, children)
        for name, queue in queues.items():
            below = sum(guarantees[child] for child in children.get(name, ()))
            quotas[name][FlavorResource("", resource)] = _quota(queue, resource, guarantees[name], below)
    nodes = {name: VolcanoQueueNode(queue, quotas[name]) for name, queue in queues.items()}
    Forest[QuotaNode]((), tuple(nodes.values()))
    return nodes


def _quota(queue: VolcanoQueue, resource: str, guarantee: int, below: int) -> Quota:
    """`below` is guaranteed to the queues right below it, which keep that themselves."""
    limit = dict(queue.capability.items).get(resource)
    if not queue.parent:
        return Quota(max(0, (UNLIMITED if limit is None else limit) - below))
    return Quota(guarantee - below, None if limit is None else max(0, limit - guarantee), 0)


def _guarantees(
    top: str, resource: str, queues: Mapping[str, VolcanoQueue], children: Mapping[str, list[str]]
) -> dict[str, int]:
    """What each queue keeps to itself: what it is guaranteed, or the queues below it are together.

    Guarantees below a queue that are more than its capability do not count, so that no level is ever exceeded.
    """
    order, at = [top], 0
    while at < len(order):
        order += children.get(order[at], ())
        at += 1
    kept: dict[str, int] = {}
    for name in reversed(order):
        queue = queues[name]
        limit = dict(queue.capability.items).get(resource)
        below = sum(kept[child] for child in children.get(name, ()))
        if limit is not None and below > limit:
            _forget_below(name, children, kept)
            below = 0
        own = max(0, queue.guarantee[resource], below)
        kept[name] = own if limit is None else min(own, max(limit, 0))
    return kept


def _forget_below(name: str, children: Mapping[str, list[str]], kept: dict[str, int]) -> None:
    for child in children.get(name, ()):
        kept[child] = 0
        _forget_below(child, children, kept)
