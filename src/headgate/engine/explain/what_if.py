"""What-if decisions: whether one workload is admitted, decided as the engine does, now or after a change.

`QuotaWhatIf` holds all inputs of the decision, `decide` runs real admission cycles on them, and the `with_…` and
`without_…` functions return the changed inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar, assert_never

from msgspec import Struct, structs

from headgate.engine.explain.explanation import QuotaField
from headgate.engine.explain.snapshot import ClusterSnapshot
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
from headgate.model.keys import Key
from headgate.model.node import Taint, Toleration
from headgate.model.pod import PodShape
from headgate.model.queues import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    PodSet,
    QueuedWorkload,
    QueueingStrategy,
    Quota,
    ResourceFlavor,
    ResourceGroup,
)
from headgate.model.resources import Resources, TemplateNeeds
from headgate.model.settings import QuotaSettings
from headgate.preemption.quota.search import Victim
from headgate.quota.ledger import Ledger, LocalUse, Reservation
from headgate.quota.pending_queue import SPEAKS_FOR_CLASS, LocalUsage, Requeue
from headgate.quota.pending_queues import MayEnter, PendingQueues
from headgate.quota.pending_workload import EquivalenceClass, PendingWorkload, pending_workload
from headgate.quota.requests import problem_of, requests_of
from headgate.quota.tree import FlavorResource

ClassKey = tuple[str, str, str, EquivalenceClass]
"""The cluster queue, the local queue by namespace and name, and the class."""


def class_key(one: PendingWorkload) -> ClassKey:
    return one.queue, one.key.namespace, one.workload.queue, one.kind


class OtherPending:
    """The other pending workloads of a cohort tree: immutable ordered lists by local queue and equivalence class.

    Only the first of each list has to be tried.
    """

    def __init__(self, pending: Iterable[PendingWorkload] = ()) -> None:
        self._lines: dict[ClassKey, list[PendingWorkload]] = {}
        for one in sorted(pending, key=lambda one: (one.rank, one.key)):
            self._lines.setdefault(class_key(one), []).append(one)

    def __iter__(self) -> Iterator[PendingWorkload]:
        return (one for line in self._lines.values() for one in line)

    def without(self, key: Key) -> OtherPending:
        return OtherPending(one for one in self if one.key != key)

    def of(self, queue: str) -> list[PendingWorkload]:
        return [one for line in self._lines.values() if line[0].queue == queue for one in line]

    @property
    def kinds(self) -> list[tuple[PendingWorkload, int]]:
        """The first of each class, and how many there are."""
        return [(line[0], len(line)) for line in self._lines.values()]

    def lines(self, is_relevant: Callable[[PendingWorkload], bool]) -> dict[ClassKey, Iterator[PendingWorkload]]:
        """The relevant ones of each class, in order."""
        return {name: filter(is_relevant, line) for name, line in self._lines.items()}


MOST_BEFORE = 300  # other workloads that may be admitted before it


class QuotaWhatIf(Struct, frozen=True):
    """All inputs of the decision about one workload: a cohort tree, its reservations, and its pending workloads."""

    head: PendingWorkload
    others: OtherPending
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

    def about(self, workload: QueuedWorkload) -> QuotaWhatIf:
        """The same with this workload in place of the pending one."""
        made = pending_workload(workload, self.head.queue, self.settings)
        return structs.replace(self, head=structs.replace(made, problem=self.head.problem))

    def ledger(self) -> Ledger:
        made = Ledger(self.queues, self.cohorts, self.used_by_reservation)
        for reservation in self.holders:
            made.reserve(reservation)
        return made


class Decision(Struct, frozen=True):
    """`outcome` is None if the workload was never considered: its StrictFIFO queue stops at its head, which got `head`.

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
        """Whether it is admitted; None if that was not found out."""
        return None if self.gave_up and not self.admits else self.admits

    @property
    def victims(self) -> tuple[Victim, ...]:
        """The workloads to preempt first."""
        return self.outcome.victims if isinstance(self.outcome, Preempting | Gated) else ()

    @property
    def considers_preemption(self) -> bool:
        """Whether victims were searched for."""
        found_none = isinstance(self.outcome, Waits) and self.outcome.requeue is Requeue.NO_CANDIDATES
        return found_none or bool(self.victims)


def what_if_for(cluster: ClusterSnapshot, workload: QueuedWorkload, queue: str) -> QuotaWhatIf:
    """The inputs of a decision on `workload` in `queue`, whose cohorts form no cycle."""
    forest = cluster.forest
    root, names = forest.queues[queue].root, frozenset(forest.tree_of(queue))
    objects, used = cluster.objects, cluster.consumptions
    cohorts = [one for name, one in objects.cohorts.items() if (node := forest.cohort(name)) and node.root is root]
    return QuotaWhatIf(
        head=_settled(workload, queue, cluster),
        others=OtherPending(one for one in cluster.pending(names) if one.key != workload.key),
        holders=tuple(one for one in cluster.holders(names) if one.key != workload.key),
        queues=tuple(objects.queues[name] for name in sorted(names)),
        cohorts=tuple(cohorts),
        flavors=objects.flavors,
        may_enter=objects.may_enter,
        settings=cluster.settings,
        now=cluster.now,
        inactive=objects.inactive & names,
        all_ready=cluster.all_ready if cluster.settings.block_admission else True,
        used_by=used.used_by if used is not None else None,
        used_by_reservation=used.used_by_reservation if used is not None else None,
    )


def _settled(workload: QueuedWorkload, queue: str, cluster: ClusterSnapshot) -> PendingWorkload:
    """The pending workload with limit ranges and runtime classes already applied to its requests."""
    adjustments = cluster.objects.adjustments(workload)
    sets = [
        structs.replace(
            one, shape=structs.replace(one.shape, requests=requests_of(one, adjustments)), needs=TemplateNeeds()
        )
        for one in workload.pod_sets
    ]
    settled = pending_workload(structs.replace(workload, pod_sets=tuple(sets)), queue, cluster.settings)
    return structs.replace(settled, problem=problem_of(workload.pod_sets, adjustments))


def decide(what_if: QuotaWhatIf) -> Decision:
    """Runs admission cycles until the workload is decided."""
    mine, ledger = what_if.head, what_if.ledger()
    progress = _DecisionProgress(mine, is_strict=_strategy(what_if) is QueueingStrategy.STRICT_FIFO)
    lines = what_if.others.lines(lambda one: _is_relevant(one, what_if))
    pending = _pending(what_if, ledger, lines)
    snapshot = QuotaSnapshot(ledger, what_if.flavors, what_if.may_enter, what_if.inactive, what_if.all_ready)
    for outcomes in admit_all(pending, snapshot, what_if.settings, what_if.now):
        progress.take(outcomes)
        if progress.is_over:
            break
        for one in outcomes:
            if isinstance(one, Admitted | Waits):  # others keep their place, in front of all who are alike
                _step_up(pending, lines, class_key(one.head), what_if.now)
    return Decision(progress.outcome, progress.head, progress.before, ledger, progress.admitted > MOST_BEFORE)


class _DecisionProgress:
    """The outcomes so far that concern one workload."""

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
        """Whether the outcome is about this workload, or about its whole class, as in BestEffortFIFO queues."""
        if one.head.key == self._mine.key or self._is_strict:
            return one.head.key == self._mine.key
        for_all = isinstance(one, Waits) and one.requeue in SPEAKS_FOR_CLASS
        return for_all and one.head.kind == self._mine.kind


def _strategy(what_if: QuotaWhatIf) -> QueueingStrategy:
    return next(one.strategy for one in what_if.queues if one.name == what_if.head.queue)


def _is_relevant(one: PendingWorkload, what_if: QuotaWhatIf) -> bool:
    """Workloads behind it in its own StrictFIFO queue are irrelevant, except with usage-based fair sharing."""
    mine = what_if.head
    if one.queue != mine.queue or one.rank < mine.rank:
        return True
    return _strategy(what_if) is not QueueingStrategy.STRICT_FIFO or what_if.used_by is not None


def _pending(
    what_if: QuotaWhatIf, ledger: Ledger, lines: Mapping[ClassKey, Iterator[PendingWorkload]]
) -> PendingQueues:
    """The workload and the first two of each class of others."""
    pending = PendingQueues(what_if.may_enter, what_if.used_by)
    tree = ledger.forest.tree_of(what_if.head.queue)
    pending.configure(what_if.queues, dict.fromkeys(tree, tree), what_if.inactive, what_if.now)
    pending.add(what_if.head, what_if.now)
    for line in lines.values():
        for one in islice(line, 2):
            pending.add(one, what_if.now)
    return pending


def _step_up(
    pending: PendingQueues, lines: Mapping[ClassKey, Iterator[PendingWorkload]], line: ClassKey, now: float
) -> None:
    """Adds the next of the class, if there is one."""
    following = next(lines.get(line, iter(())), None)
    if following is not None:
        pending.add(following, now, evaluated=False)


Owner = TypeVar("Owner", ClusterQueue, Cohort)


def with_quota_raised(
    what_if: QuotaWhatIf, node: str, is_cohort: bool, field: QuotaField, by: Mapping[FlavorResource, int]
) -> QuotaWhatIf:
    """With this field of the ClusterQueue or Cohort raised by these amounts."""
    if is_cohort:
        cohorts = tuple(_raised(one, field, by) if one.name == node else one for one in what_if.cohorts)
        return structs.replace(what_if, cohorts=cohorts)
    queues = tuple(_raised(one, field, by) if one.name == node else one for one in what_if.queues)
    return structs.replace(what_if, queues=queues)


def quota_amount(quota: Quota, field: QuotaField) -> int | None:
    """None if unlimited."""
    match field:
        case QuotaField.NOMINAL:
            return quota.nominal
        case QuotaField.BORROWING:
            return quota.borrowing_limit
        case QuotaField.LENDING:
            return quota.lending_limit
        case _:
            assert_never(field)


def with_count(what_if: QuotaWhatIf, pod_set: str, count: int) -> QuotaWhatIf:
    """With exactly so many pods in that pod set."""
    return _with_pod_set(what_if, pod_set, lambda one: structs.replace(one, count=count, min_count=None))


def with_less(what_if: QuotaWhatIf, pod_set: str, less: Mapping[str, int]) -> QuotaWhatIf:
    """With requests of each pod of that pod set lowered by these amounts."""

    def lower(one: PodSet) -> PodSet:
        amounts = {name: amount - less.get(name, 0) for name, amount in one.shape.requests}
        return structs.replace(one, shape=structs.replace(one.shape, requests=Resources.of(amounts)))

    return _with_pod_set(what_if, pod_set, lower)


def with_priority(what_if: QuotaWhatIf, priority: int) -> QuotaWhatIf:
    workload = what_if.head.workload
    return what_if.about(structs.replace(workload, priority=priority - workload.boost))


def without_holders(what_if: QuotaWhatIf, uids: Collection[str]) -> QuotaWhatIf:
    """Without the reservations of these workloads."""
    return structs.replace(what_if, holders=tuple(one for one in what_if.holders if one.uid not in uids))


def with_flavor_matched(what_if: QuotaWhatIf, taints: Sequence[Taint], *, anywhere: bool) -> QuotaWhatIf:
    """With pods that tolerate these taints; `anywhere`: without node selectors too."""
    extra = tuple(Toleration(key=taint.key, exists=True) for taint in taints)

    def suit(shape: PodShape) -> PodShape:
        tolerant = structs.replace(shape, tolerations=(*shape.tolerations, *extra))
        return structs.replace(tolerant, node_selector=(), required_terms=None) if anywhere else tolerant

    workload = what_if.head.workload
    sets = tuple(structs.replace(one, shape=suit(one.shape)) for one in workload.pod_sets)
    return what_if.about(structs.replace(workload, pod_sets=sets))


def _with_pod_set(what_if: QuotaWhatIf, name: str, change: Callable[[PodSet], PodSet]) -> QuotaWhatIf:
    workload = what_if.head.workload
    sets = tuple(change(one) if one.name == name else one for one in workload.pod_sets)
    return what_if.about(structs.replace(workload, pod_sets=sets))


def _raised(owner: Owner, field: QuotaField, by: Mapping[FlavorResource, int]) -> Owner:
    return structs.replace(owner, groups=tuple(_raised_group(group, field, by) for group in owner.groups))


def _raised_group(group: ResourceGroup, field: QuotaField, by: Mapping[FlavorResource, int]) -> ResourceGroup:
    flavors = tuple(
        FlavorQuotas(
            entry.flavor,
            tuple(
                (name, _raised_quota(quota, field, by.get(FlavorResource(entry.flavor, name), 0)))
                for name, quota in entry.quotas
            ),
        )
        for entry in group.flavors
    )
    return ResourceGroup(group.resources, flavors)


def _raised_quota(quota: Quota, field: QuotaField, by: int) -> Quota:
    before = quota_amount(quota, field)
    if not by or before is None:
        return quota
    match field:
        case QuotaField.NOMINAL:
            return structs.replace(quota, nominal=before + by)
        case QuotaField.BORROWING:
            return structs.replace(quota, borrowing_limit=before + by)
        case QuotaField.LENDING:
            return structs.replace(quota, lending_limit=before + by)
        case _:
            assert_never(field)
