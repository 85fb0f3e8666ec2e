"""What each ClusterQueue shows of its debt. Whoever knows the pods writes it, and nothing else of that status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headgate.engine.integrations.quota_trees import Amounts
from headgate.engine.journal import Entry, Journal
from headgate.model.effects import ClusterQueueDebt, Effect, EmitEvent, EventType, PatchStatus
from headgate.model.events import Outcome, Trouble
from headgate.model.keys import Key, Kind
from headgate.model.queues import ClusterQueue, FlavorDebt
from headgate.model.resources import Resources
from headgate.queueing.backoff import Backoff

PACE = 1.0  # seconds from a change until it is told; what is over by then is not told at all
UNSEEN_AFTER = 10.0  # seconds after which a debt that was written and cannot be seen was not kept
_BACKOFF = Backoff(PACE, 60.0)
NOT_KEPT = (
    "the server does not keep status.flavorsDebt, which the definitions of `headgate install` have; "
    "debt is not shown in the status of ClusterQueues until Headgate is started again"
)
Owed = tuple[FlavorDebt, ...]


class DebtStatuses:
    """Compares with what was last written, not with what is seen: a server may drop a field that it does not know."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._queues: dict[str, ClusterQueue] = {}
        self._told: dict[str, Owed] = {}
        self._due: dict[str, float] = {}  # when to tell of a change
        self._tries: dict[str, int] = {}
        self._unseen: dict[str, float] = {}  # since when something is written that was never seen
        self._changed: dict[str, None] = {}
        self._is_kept = True
        self._has_said_so = False

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

    def drop_queue(self, key: Key, uid: str) -> None:
        known = self._queues.get(key.name)
        if key.kind is Kind.CLUSTER_QUEUE and known is not None and known.uid == uid:
            for table in (self._queues, self._told, self._due, self._tries, self._unseen, self._changed):
                table.pop(key.name, None)

    def answered(self, outcome: Outcome, now: float) -> None:
        """What did not take hold is told again later; what the server will never have is not."""
        match outcome.effect:
            case PatchStatus(target, ClusterQueueDebt(debt)) if self._told.get(target.key.name) == debt:
                self._note(target.key.name, outcome.trouble, now)

    def settle(self, debt_of: Callable[[str], Amounts], changed: Iterable[str], now: float) -> Iterator[Effect]:
        """What is to be told now of queues, given what each owes and whose debt has changed."""
        self._changed.update(dict.fromkeys(changed))
        for name in self._changed:
            if name in self._queues and self._is_news(name, by_flavor(debt_of(name))):
                self._due.setdefault(name, now + PACE)
        self._changed = {}
        for name in [name for name, at in self._due.items() if at <= now]:
            del self._due[name]
            yield from self._tell(self._queues[name], by_flavor(debt_of(name)), now)

    def next_looks(self) -> list[float]:
        return [min(self._due.values())] if self._due else []

    def _is_news(self, name: str, owed: Owed) -> bool:
        return owed != self._told.get(name, self._queues[name].debt)

    def _tell(self, queue: ClusterQueue, owed: Owed, now: float) -> Iterator[Effect]:
        if not self._is_news(queue.name, owed):
            return
        if self._is_kept and any(now >= since + UNSEEN_AFTER for since in self._unseen.values()):
            self._is_kept = False
            yield from self._say(queue, now)
        if self._is_kept:
            self._told[queue.name] = owed
            yield PatchStatus(queue.target, ClusterQueueDebt(owed))

    def _say(self, queue: ClusterQueue, now: float) -> Iterator[Effect]:
        """Once in the life of a process."""
        if not self._has_said_so:
            self._has_said_so = True
            self._journal.write(Entry(now, queue.key, "note", "DebtNotShown", NOT_KEPT))
            yield EmitEvent(queue.target, EventType.WARNING, "DebtNotShown", "Telling", NOT_KEPT, now)

    def _note(self, name: str, trouble: Trouble | None, now: float) -> None:
        if trouble is None:
            self._tries.pop(name, None)
            if self._told[name] and name in self._queues and not self._queues[name].debt:
                self._unseen.setdefault(name, now)
        elif trouble not in (Trouble.REFUSED, Trouble.GONE):
            del self._told[name]
            self._tries[name] = self._tries.get(name, 0) + 1
            self._due[name] = now + _BACKOFF.after(self._tries[name])


def by_flavor(debt: Amounts) -> Owed:
    """In the order of names."""
    flavors: dict[str, dict[str, int]] = {}
    for (flavor, resource), amount in sorted(debt.items()):
        flavors.setdefault(flavor, {})[resource] = amount
    return tuple(FlavorDebt(flavor, Resources.of(owed)) for flavor, owed in flavors.items())
