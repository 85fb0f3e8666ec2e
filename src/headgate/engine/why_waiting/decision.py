"""Whether one workload gets quota now, decided as the engine decides it, beside all who share quota with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct, structs

from headgate.engine.quota.admission_cycle import (
    Admitted,
    Deferred,
    Gated,
    Outcome,
    Preempting,
    QuotaSnapshot,
    Waits,
    admit_all,
)
from headgate.engine.why_waiting.cluster import Cluster
from headgate.engine.why_waiting.rivals import Line, Rivals, line_of
from headgate.model.needs import TemplateNeeds
from headgate.model.queues import ClusterQueue, Cohort, QueuedWorkload, QueueingStrategy, ResourceFlavor
from headgate.model.quota_settings import QuotaSettings
from headgate.preemption.quota.search import Victim
from headgate.quota.ledger import Ledger, LocalUse, Reservation
from headgate.quota.pending_queue import SPEAKS_FOR_CLASS, LocalUsage, Requeue
from headgate.quota.pending_queues import MayEnter, PendingQueues
from headgate.quota.pending_workload import PendingWorkload, pending_workload
from headgate.quota.requests import problem_of, requests_of

MOST_BEFORE = 300  # other workloads that may be admitted before it


class Question(Struct, frozen=True):
    """All that the answer depends on: one tree of queues, who holds its quota, and who wants it."""

    head: PendingWorkload
    rivals: Rivals
    holders: tuple[Reservation, ...]
    queues: tuple[ClusterQueue, ...]
    cohorts: tuple[Cohort, ...]
    flavors: Mapping[str, ResourceFlavor]
    may_enter: MayEnter
    settings: QuotaSettings
    now: float
    inactive: frozenset[str] = frozenset()
    all_ready: bool = True
    used_by: LocalUsage | None = None  # what local queues used lately, where that matters
    used_by_reservation: Callable[[Reservation], LocalUse] | None = None

    def about(self, workload: QueuedWorkload) -> Question:
        """The same question if the workload was like this."""
        made = pending_workload(workload, self.head.queue, self.settings)
        return structs.replace(self, head=structs.replace(made, problem=self.head.problem))

    def ledger(self) -> Ledger:
        made = Ledger(self.queues, self.cohorts, self.used_by_reservation)
        for holder in self.holders:
            made.hold(holder)
        return made


class Decision(Struct, frozen=True):
    """`outcome` is None where its turn never came: its queue goes no further than its head, which got `head`.

    `before` are those without quota whose turn came earlier in the same cycle. The ledger is as all this left it.
    Where it `gave_up`, so many others got quota first that nobody would wait for the answer.
    """

    outcome: Outcome | None
    head: Outcome | None
    before: tuple[Outcome, ...]
    ledger: Ledger
    gave_up: bool = False

    @property
    def admits(self) -> bool:
        return isinstance(self.outcome, Admitted)

    @property
    def is_enough(self) -> bool | None:
        """Whether it is admitted; None where that was not found out."""
        return None if self.gave_up and not self.admits else self.admits

    @property
    def victims(self) -> tuple[Victim, ...]:
        """Who would have to go first."""
        return self.outcome.victims if isinstance(self.outcome, Preempting | Gated) else ()

    @property
    def considers_preemption(self) -> bool:
        """Victims were looked for, found or not."""
        found_none = isinstance(self.outcome, Waits) and self.outcome.requeue is Requeue.NO_CANDIDATES
        return found_none or bool(self.victims)


def question_about(cluster: Cluster, workload: QueuedWorkload, queue: str) -> Question:
    """`workload` as it asks for quota of `queue`, which is in no ring of cohorts."""
    forest = cluster.forest
    root, names = forest.queues[queue].root, frozenset(forest.tree_of(queue))
    around, used = cluster.around, cluster.consumptions
    cohorts = [one for name, one in around.cohorts.items() if (node := forest.cohort(name)) and node.root is root]
    return Question(
        head=_settled(workload, queue, cluster),
        rivals=Rivals(one for one in cluster.applicants(names) if one.key != workload.key),
        holders=tuple(one for one in cluster.holders(names) if one.key != workload.key),
        queues=tuple(around.queues[name] for name in sorted(names)),
        cohorts=tuple(cohorts),
        flavors=around.flavors,
        may_enter=around.may_enter,
        settings=cluster.settings,
        now=cluster.now,
        inactive=around.inactive & names,
        all_ready=cluster.all_ready if cluster.settings.block_admission else True,
        used_by=used.used_by if used is not None else None,
        used_by_reservation=used.used_by_reservation if used is not None else None,
    )


def _settled(workload: QueuedWorkload, queue: str, cluster: Cluster) -> PendingWorkload:
    """Its pods ask for what limit ranges and runtime classes make of their templates; nothing is to be added later."""
    adjustments = cluster.around.adjustments(workload)
    sets = [
        structs.replace(
            one, shape=structs.replace(one.shape, requests=requests_of(one, adjustments)), needs=TemplateNeeds()
        )
        for one in workload.pod_sets
    ]
    settled = pending_workload(structs.replace(workload, pod_sets=tuple(sets)), queue, cluster.settings)
    return structs.replace(settled, problem=problem_of(workload.pod_sets, adjustments))


def decide(question: Question) -> Decision:
    """As a controller that knows nothing but these objects would, until it comes to an answer for this workload."""
    mine, ledger = question.head, question.ledger()
    course = _Course(mine, is_strict=_strategy(question) is QueueingStrategy.STRICT_FIFO)
    lines = question.rivals.lines(lambda one: _is_relevant(one, question))
    pending = _pending(question, ledger, lines)
    snapshot = QuotaSnapshot(ledger, question.flavors, question.may_enter, question.inactive, question.all_ready)
    for outcomes in admit_all(pending, snapshot, question.settings, question.now):
        course.take(outcomes)
        if course.is_over:
            break
        for one in outcomes:
            if isinstance(one, Admitted | Waits):  # others keep their place, in front of all who are alike
                _step_up(pending, lines, line_of(one.head), question.now)
    return Decision(course.outcome, course.head, course.before, ledger, course.admitted > MOST_BEFORE)


class _Course:
    """What has been decided so far, as far as it concerns one workload."""

    def __init__(self, mine: PendingWorkload, *, is_strict: bool) -> None:
        self._mine = mine
        self._is_strict = is_strict
        self.outcome: Outcome | None = None
        self.head: Outcome | None = None
        self.before: tuple[Outcome, ...] = ()
        self.admitted = 0

    @property
    def is_over(self) -> bool:
        return isinstance(self.outcome, Admitted | Preempting | Deferred | Gated) or self.admitted > MOST_BEFORE

    def take(self, outcomes: Sequence[Outcome]) -> None:
        self.admitted += sum(isinstance(one, Admitted) for one in outcomes)
        for index, one in enumerate(outcomes):
            if one.head.queue == self._mine.queue:
                self.head = one
                if self._speaks_for_mine(one):
                    self.outcome = structs.replace(one, head=self._mine)
                    self.before = tuple(each for each in outcomes[:index] if not isinstance(each, Admitted))

    def _speaks_for_mine(self, one: Outcome) -> bool:
        """It is about this workload, or refuses all of its class at once, as queues do that are not strict."""
        if one.head.key == self._mine.key or self._is_strict:
            return one.head.key == self._mine.key
        for_all = isinstance(one, Waits) and one.requeue in SPEAKS_FOR_CLASS
        return for_all and one.head.kind == self._mine.kind


def _strategy(question: Question) -> QueueingStrategy:
    return next(one.strategy for one in question.queues if one.name == question.head.queue)


def _is_relevant(one: PendingWorkload, question: Question) -> bool:
    """In its own queue, if that is strict, those behind it come only after it: unless more than their order counts."""
    mine = question.head
    if one.queue != mine.queue or one.rank < mine.rank:
        return True
    return _strategy(question) is not QueueingStrategy.STRICT_FIFO or question.used_by is not None


def _pending(question: Question, ledger: Ledger, lines: Mapping[Line, Iterator[PendingWorkload]]) -> PendingQueues:
    """The workload, and the first two of each line of the others: who would follow counts as well."""
    pending = PendingQueues(question.may_enter, question.used_by)
    tree = ledger.forest.tree_of(question.head.queue)
    pending.configure(question.queues, dict.fromkeys(tree, tree), question.inactive, question.now)
    pending.add(question.head, question.now)
    for line in lines.values():
        for one in islice(line, 2):
            pending.add(one, question.now)
    return pending


def _step_up(pending: PendingQueues, lines: Mapping[Line, Iterator[PendingWorkload]], line: Line, now: float) -> None:
    """The next of the line stands there, if there is one, as if it had all along."""
    following = next(lines.get(line, iter(())), None)
    if following is not None:
        pending.push(following, now)
