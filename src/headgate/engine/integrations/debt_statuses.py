"""Writes the debt of each ClusterQueue to its status. Who knows the pods writes it, and nothing else of that status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headgate.engine.deadlines import Deadlines
from headgate.engine.in_flight import InFlightWrites, WritePolicy, WriteResult, WriteState
from headgate.engine.integrations.quota_trees import Amounts
from headgate.engine.journal import Entry, Journal
from headgate.model.effects import ClusterQueueDebt, Effect, EmitEvent, EventType, PatchStatus
from headgate.model.events import Outcome
from headgate.model.keys import Key, Kind
from headgate.model.queues import ClusterQueue, FlavorDebt
from headgate.model.resources import Resources
from headgate.queueing.backoff import Backoff

PACE = 1.0  # seconds from a change until it is written; what is over by then is not written at all
UNSEEN_AFTER = 10.0  # seconds after which a debt that was written and cannot be seen was not kept
POLICY = WritePolicy(Backoff(PACE, 60.0), resends=False)
NOT_KEPT = (
    "the server does not keep status.flavorsDebt, which the definitions of `headgate install` have; "
    "debt is not shown in the status of ClusterQueues until Headgate is started again"
)
Owed = tuple[FlavorDebt, ...]


class DebtStatuses:
    """Compares debt with what was written last, not with what is observed: a server drops fields it does not know."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._queues: dict[str, ClusterQueue] = {}
        self._written: dict[str, Owed] = {}
        self._writes = InFlightWrites[str, PatchStatus](POLICY)
        self._paced = Deadlines[str]()  # when to write a change
        self._unseen: dict[str, float] = {}  # since when something is written that was never observed
        self._changed: dict[str, None] = {}
        self._is_kept = True
        self._has_warned = False
        self.has_work = False  # whether `settle` may have something to do, now or at its next deadline

    def put_queue(self, queue: ClusterQueue) -> None:
        """What an earlier process wrote may be true no more."""
        known = self._queues.get(queue.name)
        if known is not None and known.uid != queue.uid:
            self.drop_queue(known.key, known.uid)
        self._queues[queue.name] = queue
        if queue.debt:
            self._unseen.pop(queue.name, None)
            self._is_kept = True
        if known is None or queue.debt != known.debt:
            self._changed[queue.name] = None
            self.has_work = True

    def drop_queue(self, key: Key, uid: str) -> None:
        known = self._queues.get(key.name)
        if key.kind is Kind.CLUSTER_QUEUE and known is not None and known.uid == uid:
            for table in (self._queues, self._written, self._unseen, self._changed):
                table.pop(key.name, None)
            self._writes.forget(key.name)
            self._paced.drop(key.name)

    def answer(self, outcome: Outcome, now: float) -> None:
        """A write that failed is decided anew later; one that the server will never accept is not repeated."""
        match outcome.effect:
            case PatchStatus(target, ClusterQueueDebt(debt)) as effect:
                name = target.key.name
                result = self._writes.answer(name, effect, outcome.trouble, "", now)
                if result is WriteResult.PENDING:
                    self._paced.drop(name)
                    self.has_work = True
                elif result is WriteResult.CONFIRMED and debt and not self._queues[name].debt:
                    self._unseen.setdefault(name, now)

    def settle(self, debt_of: Callable[[str], Amounts], changed: Iterable[str], now: float) -> Iterator[Effect]:
        """What is to be written now, given what each queue owes and whose debt has changed."""
        self._changed.update(dict.fromkeys(changed))
        for name in self._changed:
            if name in self._queues and name not in self._paced and self._is_news(name, by_flavor(debt_of(name))):
                self._paced.set(name, now + PACE)
        self._changed = {}
        failed = [name for name, _, _ in self._writes.due(now)]
        for name in failed:
            self._written.pop(name, None)
        for name in dict.fromkeys((*self._paced.due(now), *failed)):
            yield from self._write(self._queues[name], by_flavor(debt_of(name)), now)
        self.has_work = bool(len(self._paced) or len(self._writes.deadlines))

    @property
    def deadlines(self) -> tuple[Deadlines[str], ...]:
        """When to call `settle`."""
        return self._paced, self._writes.deadlines

    def _is_news(self, name: str, owed: Owed) -> bool:
        """Whether this is not what was written last. A write that waits for its back-off is decided anew then."""
        flight = self._writes.get(name)
        is_retrying = flight is not None and flight.state is not WriteState.SENT
        return not is_retrying and owed != self._written.get(name, self._queues[name].debt)

    def _write(self, queue: ClusterQueue, owed: Owed, now: float) -> Iterator[Effect]:
        if not self._is_news(queue.name, owed):
            return
        if self._is_kept and any(now >= since + UNSEEN_AFTER for since in self._unseen.values()):
            self._is_kept = False
            yield from self._warn(queue, now)
        if self._is_kept:
            self._written[queue.name] = owed
            yield self._writes.send(queue.name, PatchStatus(queue.target, ClusterQueueDebt(owed)))

    def _warn(self, queue: ClusterQueue, now: float) -> Iterator[Effect]:
        """Once in the life of a process."""
        if not self._has_warned:
            self._has_warned = True
            self._journal.write(Entry(now, queue.key, "note", "DebtNotShown", NOT_KEPT))
            yield EmitEvent(queue.target, EventType.WARNING, "DebtNotShown", "Telling", NOT_KEPT, now)


def by_flavor(debt: Amounts) -> Owed:
    """In the order of names."""
    flavors: dict[str, dict[str, int]] = {}
    for (flavor, resource), amount in sorted(debt.items()):
        flavors.setdefault(flavor, {})[resource] = amount
    return tuple(FlavorDebt(flavor, Resources.of(owed)) for flavor, owed in flavors.items())
