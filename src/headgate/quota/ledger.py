"""The ledger of reservations: usage of every queue and cohort, with trials that are taken back in full.

It is kept on the quota tree of ClusterQueues and Cohorts, with the flavors each queue offers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct, structs

from headgate.model.keys import Key
from headgate.model.queues import ClusterQueue, Cohort, Quota, ResourceGroup
from headgate.quota.allocations import Allocations
from headgate.quota.tree import Account, Before, FlavorResource, Forest, QuotaNode, Usage, take_back


class FlavorOption(NamedTuple):
    """One flavor of a resource group of a queue, with the accounts of all resources of the group."""

    flavor: str
    accounts: Mapping[str, Account]


FlavorOptions = Mapping[str, tuple[FlavorOption, ...]]
"""The flavors a queue has for each resource, in the order they are tried."""


class ClusterQueueNode(QuotaNode):
    __slots__ = ("flavor_options", "queue")

    def __init__(self, queue: ClusterQueue) -> None:
        super().__init__(queue.name, queue.cohort, quotas_of(queue.groups), queue.fair_weight, is_queue=True)
        self.queue = queue
        self.flavor_options: FlavorOptions = {}  # the flavors of the first group that covers a resource

    def open_flavors(self) -> None:
        """To be called once the node has its place in the tree."""
        options: dict[str, tuple[FlavorOption, ...]] = {}
        for group in self.queue.groups:
            of_group = tuple(self._flavor_option(one.flavor, group.resources) for one in group.flavors)
            options = dict.fromkeys(group.resources, of_group) | options
        self.flavor_options = options

    def _flavor_option(self, flavor: str, resources: Sequence[str]) -> FlavorOption:
        return FlavorOption(
            flavor, {resource: self.accounts[FlavorResource(flavor, resource)] for resource in resources}
        )


def cohort_forest(queues: Sequence[ClusterQueue], cohorts: Sequence[Cohort]) -> Forest[ClusterQueueNode]:
    nodes = [QuotaNode(cohort.name, cohort.parent, quotas_of(cohort.groups), cohort.fair_weight) for cohort in cohorts]
    forest = Forest([ClusterQueueNode(queue) for queue in queues], nodes)
    for node in forest.queues.values():
        node.open_flavors()
    return forest


def quotas_of(groups: Sequence[ResourceGroup]) -> dict[FlavorResource, Quota]:
    return {
        FlavorResource(flavor.flavor, resource): quota
        for group in groups
        for flavor in group.flavors
        for resource, quota in flavor.quotas
    }


class Reservation(Struct, frozen=True, gc=False):
    """The quota one workload holds, with what decides whether and when it is a victim."""

    key: Key
    uid: str
    queue: str  # the cluster queue
    usage: Usage
    priority: int = 0
    ordered: float = 0.0  # its place in the order of queues
    reserved: float = 0.0  # when it got its quota
    evicted: bool = False
    local: str = ""  # its local queue

    def uses_any(self, needed: Sequence[FlavorResource]) -> bool:
        for of, _ in self.usage:  # noqa: SIM110 - a loop takes half the time, and this is asked of every candidate
            if of in needed:
                return True
        return False


T = TypeVar("T")

MOST_REMEMBERED = 8  # questions: each may be about thousands of reservations


class LedgerTrial:
    """A context after which the ledger is as before."""

    __slots__ = ("_ledger", "_mark")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __enter__(self) -> None:
        self._mark = self._ledger.begin()

    def __exit__(self, *_: object) -> None:
        self._ledger.take_back(*self._mark)


LocalUse = int | float
"""The weighted usage of a LocalQueue; infinite when its weight is zero."""


class Ledger:
    """Usage of every queue and cohort, and the workloads it comes from.

    `local_use` says what a holder's local queue used lately; None: that never matters.
    """

    def __init__(
        self,
        queues: Sequence[ClusterQueue] = (),
        cohorts: Sequence[Cohort] = (),
        local_use: Callable[[Reservation], LocalUse] | None = None,
    ) -> None:
        self.local_use = local_use
        self.forest = cohort_forest(queues, cohorts)
        self._reservations: dict[str, dict[str, Reservation]] = {}
        self._trials = 0
        self._uses: list[Before] = []  # what trials changed
        self._reservation_changes: list[
            tuple[dict[str, Reservation], str, Reservation | None]
        ] = []  # and who held it before
        self._generation = 0
        self.allocations = Allocations()
        self.work = 0  # done by all cycles so far: to look at one reservation is 1
        self.gone: Mapping[str, Reservation] = {}  # by uid, in a trial `without` these
        self._found: dict[Hashable, Any] = {}  # by question, since reservations changed for good

    def rebuilt(self, queues: Sequence[ClusterQueue], cohorts: Sequence[Cohort]) -> Ledger:
        """The same reservations under other queues and cohorts. Flavor search progress made before is void."""
        fresh = Ledger(queues, cohorts, self.local_use)
        fresh._generation = self._generation + 1
        for root in fresh.forest.roots:
            root.generation = fresh._generation
        for reservations in self._reservations.values():
            for reservation in reservations.values():
                fresh.reserve(reservation)
        return fresh

    def node(self, queue: str) -> ClusterQueueNode | None:
        return self.forest.queues.get(queue)

    def generation(self, queue: str) -> int:
        """Grows whenever quota or usage in the queue's tree changed for good."""
        node = self.forest.queues.get(queue)
        return node.root.generation if node is not None else 0

    def reservations(self, queue: str) -> Iterator[Reservation]:
        """The reservations of this queue, in no particular order."""
        held = self._reservations.get(queue, {})
        self.work += len(held)
        return iter(held.values())

    def remembered(self, question: Hashable, find: Callable[[], T]) -> T:
        """What `find` finds in the reservations alone, which is remembered until these change."""
        if self._reservation_changes:
            return find()
        if question not in self._found:
            if len(self._found) == MOST_REMEMBERED:
                self._found.clear()
            self._found[question] = find()
        found: T = self._found[question]
        return found

    def reservation(self, queue: str, uid: str) -> Reservation | None:
        return self._reservations.get(queue, {}).get(uid)

    def reserve(self, reservation: Reservation) -> None:
        """The workload holds this much quota, in place of whatever it held of the same queue."""
        queue, uid = reservation.queue, reservation.uid
        held = self._reservations.setdefault(queue, {})
        before = held.pop(uid, None)
        if self._trials:
            self._reservation_changes.append((held, uid, before))
        else:
            self._found.clear()
        held[uid] = reservation
        node = self.forest.queues.get(queue)
        if node is not None:  # who holds quota of a queue that is gone, or below a ring, is only on record
            if before is None:
                self.charge(queue, reservation.usage)
            elif before.usage != reservation.usage:
                self.credit(queue, before.usage)
                self.charge(queue, reservation.usage)
            if not self._trials:
                self._generation += 1
                node.root.generation = self._generation
                if self.allocations.histories:
                    self.allocations.replace(node.root, before, reservation)

    def release(self, queue: str, uid: str) -> Reservation | None:
        """The workload gives back what it holds of this queue."""
        held = self._reservations.get(queue, {})
        reservation = held.pop(uid, None)
        if reservation is None:
            return None
        if self._trials:
            self._reservation_changes.append((held, uid, reservation))
        else:
            self._found.clear()
            if not held:
                del self._reservations[queue]
        node = self.forest.queues.get(queue)
        if node is not None:
            self.credit(queue, reservation.usage)
            if not self._trials:
                self._generation += 1
                node.root.generation = self._generation
                if self.allocations.histories:
                    self.allocations.replace(node.root, reservation, None)
        return reservation

    def mark_evicted(self, reservation: Reservation) -> None:
        """The workload is evicted, and holds its quota until it is released."""
        if not reservation.evicted:
            held = self._reservations.setdefault(reservation.queue, {})
            if self._trials:
                self._reservation_changes.append((held, reservation.uid, held.get(reservation.uid)))
            else:
                self._found.clear()
            held[reservation.uid] = evicted = structs.replace(reservation, evicted=True)
            node = self.forest.queues.get(reservation.queue)
            if self.allocations.histories and not self._trials and node is not None:
                self.allocations.replace(node.root, reservation, evicted)

    def preempt(self, preemptor: Reservation, victims: Sequence[Reservation]) -> None:
        """Marks victims as evicted for one that will hold what `preemptor` says; some may have been evicted before."""
        new, root = [one for one in victims if not one.evicted], self.forest.queues[preemptor.queue].root
        if new:
            self.allocations.track(root)
        for one in new:
            self.mark_evicted(one)
        self.allocations.reserve(root, preemptor, new)

    def refuse(self, queue: str, uid: str) -> None:
        """The workload gets nothing, and nothing will be freed for it."""
        node = self.forest.queues.get(queue)
        if self.allocations.histories and node is not None:
            self.allocations.drop_reservation(node.root, uid)

    def forget_allocations(self, queue: str) -> bool:
        """Something changed in the tree of this queue that preemption did not cause.

        True when a preemption had been withheld, which may go ahead now.
        """
        if not self.allocations.histories:
            return False
        node = self.forest.queues.get(queue)
        return node is not None and self.allocations.forget(node.root)

    @contextmanager
    def without(
        self, gone: Mapping[str, Reservation], usage: Mapping[str, Mapping[FlavorResource, int]]
    ) -> Iterator[None]:
        """A trial in which these, by uid, are gone; `usage` is what they hold together, by queue."""
        self.gone = gone
        try:
            with self.trial():
                for queue, amounts in usage.items():
                    self.credit(queue, tuple(amounts.items()))
                yield
        finally:
            self.gone = {}

    def charge(self, queue: str, usage: Usage) -> None:
        """The queue uses this much more, whoever it is for."""
        accounts, noted = self.forest.queues[queue].accounts, self._uses if self._trials else None
        for of, amount in usage:
            accounts[of].add(amount, noted)

    def credit(self, queue: str, usage: Usage) -> None:
        """The queue uses this much less."""
        accounts, noted = self.forest.queues[queue].accounts, self._uses if self._trials else None
        for of, amount in usage:
            accounts[of].remove(amount, noted)

    def fits(self, queue: str, usage: Usage) -> bool:
        """Whether there is room for all of it. Nothing always fits."""
        node = self.forest.queues[queue]
        for of, amount in usage:
            room = node.accounts[of].available()
            if amount > room and amount > 0:
                return False
        return True

    def trial(self) -> LedgerTrial:
        """All that happens inside is taken back on exit, also when the body raises. Trials nest."""
        return LedgerTrial(self)

    def begin(self) -> tuple[int, int]:
        self._trials += 1
        return len(self._uses), len(self._reservation_changes)

    def take_back(self, uses: int, holds: int) -> None:
        self._trials -= 1
        take_back(self._uses, uses)
        while len(self._reservation_changes) > holds:
            held, uid, reservation = self._reservation_changes.pop()
            if reservation is None:
                held.pop(uid, None)
            else:
                held[uid] = reservation
