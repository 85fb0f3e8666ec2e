"""Whether the room that released quota stands for is really there, or still taken by pods that leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from headgate.engine.integrations.asking import (
    Amounts,
    Ask,
    FlavorResource,
    Question,
    amounts,
    in_words,
    nodes_in_words,
)
from headgate.engine.integrations.debts import Debts
from headgate.engine.integrations.leavers import Leavers
from headgate.engine.integrations.node_room import NodeRoom, Seats, as_staying
from headgate.engine.integrations.quota_book import QuotaBook
from headgate.engine.integrations.transit import Transit, started_shapes
from headgate.engine.integrations.waiting_line import WaitingLines
from headgate.model.keys import Key
from headgate.model.node import Node
from headgate.model.pod import Pod, PodShape
from headgate.model.queues import Admission, ClusterQueue, Cohort, QueuedWorkload, ResourceFlavor


class Room:
    """Keeps what queues own in all, what started work uses, what pods that leave still take, and what nodes have."""

    def __init__(
        self,
        workload_for: Callable[[Pod], QueuedWorkload | None],
        flavors: Mapping[str, ResourceFlavor],
        debt_percent: int | None = None,
    ) -> None:
        self._flavors = flavors
        self._debt_percent = debt_percent
        self._promised: dict[Key, Amounts] = {}  # quota about to be released, by the work
        self._quota = QuotaBook()
        self._running: dict[Key, QueuedWorkload] = {}
        self._pushing: dict[Key, Question] = {}  # starts that are under way and leave a debt
        self._debts = Debts(workload_for)
        self._nodes = NodeRoom()
        self._transit = Transit(flavors)
        self._leavers = Leavers()
        self._lines = WaitingLines()
        self._newly_held: dict[Key, str] = {}  # what it waits for, until that was told
        self._kept: dict[Key, None] = {}  # work that keeps its quota, as enough is owed already
        self._woken: dict[Key, None] = {}

    # what is now true

    def look_anew(self, works: Iterable[Key]) -> None:
        """A step begins: since the last one, something happened to this work."""
        self._debts.look_anew(works)

    def put_queue(self, queue: ClusterQueue | Cohort) -> None:
        if self._quota.put_queue(queue):
            self._wake()

    def drop_queue(self, key: Key) -> None:
        self._quota.drop_queue(key)

    def put_node(self, node: Node) -> None:
        if self._nodes.put_node(node):
            self._wake()

    def drop_node(self, key: Key, uid: str) -> None:
        self._nodes.drop_node(key, uid)

    def put_pod(self, pod: Pod) -> None:
        self._debts.put(pod)
        left = self._leavers.put(pod)
        freed = self._nodes.put_pod(as_staying(pod) if pod.key in self._leavers.stuck else pod)
        if left or freed:
            self._wake()

    def drop_pod(self, key: Key, uid: str) -> None:
        """The pod is gone, unless another has its name by now."""
        if self._debts.is_another(key, uid) or self._nodes.is_another(key, uid):
            return
        self._debts.drop(key)
        left, freed = self._leavers.drop(key), self._nodes.drop_pod(key)
        if left or freed:
            self._wake()

    def uses(self, work: Key, workload: QueuedWorkload | None) -> None:
        """By which Workload some of the work may run; None: nothing of it does."""
        admission = workload.admission if workload is not None else None
        if workload is None or admission is None:
            self._running.pop(work, None)
        else:
            self._running[work] = workload
        gave_back = self._quota.uses(work, {} if admission is None else amounts(admission))
        self._expect(work)
        if gave_back:
            self._wake()

    def forget(self, work: Key) -> None:
        """The work is gone."""
        self.owes(work)
        self.waits_no_more(work)
        self.comes_to_rest(work)
        self.uses(work, None)

    def comes_to_rest(self, work: Key) -> None:
        """Nothing that was decided about the work is under way: what it leaves as a debt can be seen, if it does."""
        if self._pushing.pop(work, None) is not None:
            self._expect(work)
            self._wake()

    # what that means

    def is_there(self, ask: Ask) -> bool:
        """Whether the work can start beside all that runs and all that leaves; if not, it is held until some left.

        Work that no debt concerns starts at once. Where there is debt, nodes decide if they can be seen; pods for which
        they will never have room are no matter of debt, and start if there is quota beside it.
        """
        owed, standing = self._owed(ask.work), self._debts.standing(ask.work)
        if not owed and not standing.started:
            self.waits_no_more(ask.work)
            return True
        question = Question.of(ask, standing)
        concerns = any(owed.get(name) or question.extra.get(name) for name in question.amounts)
        waits_for = "" if question.is_settled or not concerns else self._waits_for(question, owed)
        if not waits_for:
            self.waits_no_more(ask.work)
            if any(question.extra.values()):
                self._pushing[ask.work] = question
        elif self._lines.put(ask.work, question.likeness):
            self._newly_held[ask.work] = waits_for
        return not waits_for

    def waits_no_more(self, work: Key) -> None:
        """Those who ask for the same have their turn."""
        self._newly_held.pop(work, None)
        following = self._lines.drop(work)
        if following is not None:
            self._woken[following] = None

    def newly_held(self, work: Key) -> str:
        """What the work has begun to wait for; empty when that was told, or it does not wait."""
        return self._newly_held.pop(work, "")

    def take_woken(self) -> Iterable[Key]:
        """Work that may not have to wait any more."""
        woken, self._woken = self._woken, {}
        return woken

    def keeps_places(self, work: Key) -> bool:
        """Whether pods of it leave that still have their quota."""
        return self._debts.standing(work).leaves_places

    def may_owe(self, work: Key, admission: Admission) -> bool:
        """Whether the work may give its quota back before its pods are gone; if not, it asks again when some are."""
        if self._debt_percent is None:
            return True
        wanted = amounts(admission)
        if self._over_the_bound(wanted, work):
            self._kept[work] = None
            return False
        self._kept.pop(work, None)
        self._promised[work] = wanted
        return True

    def owes(self, work: Key) -> None:
        """It has given back what it held: its pods that still leave are counted by themselves."""
        self._promised.pop(work, None)
        self._kept.pop(work, None)

    def debts(self) -> Iterator[tuple[str, Amounts]]:
        """What is owed, by cluster queue."""
        return self._debts.by_queue()

    def debt_of(self, queue: str) -> Amounts:
        return self._debts.of_queue(queue)

    def changed_debts(self) -> Iterable[str]:
        """The queues whose debt is another than when this was last asked."""
        return self._debts.take_changed_queues()

    @property
    def held(self) -> int:
        """How much work waits for room that it has the quota for."""
        return len(self._lines)

    @property
    def stuck(self) -> int:
        """How many pods should be gone and are not."""
        return len(self._leavers.stuck)

    def newly_stuck(self, now: float) -> Iterator[Pod]:
        """Pods that should be gone and are not; each once. Nobody is made to wait for them any more than for others."""
        for pod in self._leavers.newly_stuck(now):
            self._nodes.put_pod(as_staying(pod))
            self._wake()
            yield pod

    def next_looks(self) -> list[float]:
        return self._leavers.next_looks()

    def _wake(self) -> None:
        self._woken.update(dict.fromkeys((*self._lines.firsts(), *self._kept)))

    # the question

    def _waits_for(self, question: Question, owed: Amounts) -> str:
        """What is missing; empty when there is room."""
        if self._debt_percent is not None and (over := self._over_the_bound(question.extra, question.ask.work)):
            return in_words(over)
        short = self._quota.short(question, owed)
        seats = self._seats(question)
        if seats is Seats.THERE or (seats is not Seats.SOON and not short):
            return ""
        return in_words(short) if short else nodes_in_words(question.amounts)

    def _seats(self, question: Question) -> Seats:
        ask = question.ask
        shapes = started_shapes(ask.workload, self._flavors)
        if shapes is None:
            return Seats.UNKNOWN
        wanted: dict[PodShape, int] = {}
        for name, shape in shapes.items():
            wanted[shape] = wanted.get(shape, 0) + question.starting.get(name, 0)
        sorts = [self._labels(assigned.flavors) for assigned in ask.admission.pod_sets]
        self._refresh_transit()
        before = self._transit.before(ask.work, question.starting, self._newly_pushed_out(question))
        return self._nodes.seats(wanted, before, sorts)

    def _newly_pushed_out(self, question: Question) -> Mapping[str, int]:
        """How many more than a start of the same work that is under way."""
        pushing = self._pushing.get(question.ask.work)
        known = pushing.pushed_out if pushing is not None else {}
        return {name: count - known.get(name, 0) for name, count in question.pushed_out.items()}

    def _refresh_transit(self) -> None:
        for work in self._debts.take_changed_works():
            self._expect(work)

    def _expect(self, work: Key) -> None:
        pushing = self._pushing.get(work)
        more = pushing.pushed_out if pushing is not None else None
        self._transit.put(work, self._running.get(work), self._debts.standing(work), more)

    def _owed(self, asking: Key) -> Counter[FlavorResource]:
        """With what others owe as soon as starts that are under way can be seen."""
        owed = Counter(self._debts.by_flavor())
        for work, question in self._pushing.items():
            owed.update(question.extra if work != asking else {})
        return owed

    def _labels(self, flavors: Iterable[tuple[str, str]]) -> Mapping[str, str]:
        """What nodes have that are of all these flavors."""
        labels: dict[str, str] = {}
        for _, flavor in flavors:
            labels.update(self._flavors[flavor].node_labels)
        return labels

    def _over_the_bound(self, more: Amounts, work: Key) -> Amounts:
        """By how much more would be owed than may be, with what others are about to owe."""
        owed = self._owed(work)
        for other, promised in self._promised.items():
            owed.update(promised if other != work else {})
        percent = 100 if self._debt_percent is None else self._debt_percent
        most = {name: self._quota.owned(name) * percent // 100 for name in more}
        over = {name: owed[name] + amount - most[name] for name, amount in more.items() if amount}
        return {name: amount for name, amount in over.items() if amount > 0}
