"""What is counted about quota, by Kueue's names: whatever only grows, and how long things took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from headgate.engine.distributions import Distributions, Labels, Spread
from headgate.engine.planes import Number
from headgate.engine.quota.waits import (
    BOUNDS,
    EVICTION_LATENCY,
    READY_TO_EVICTED,
    Came,
    came_true,
    evicted_until_released,
    ready_until_evicted,
    waits_over,
)
from headgate.lifecycle.quota_conditions import ADMITTED, EVICTED, FINISHED, PREEMPTED, QUOTA_RESERVED, reason_of
from headgate.model.keys import Key, Kind
from headgate.model.queues import EvictionCount, QueuedWorkload

SUCCESS: Labels = (("result", "success"),)
FAILURE: Labels = (("result", "inadmissible"),)
TURNS = {QUOTA_RESERVED: "quota_reserved", ADMITTED: "admitted", FINISHED: "finished"}
"""Conditions that are counted when they turn true, and under what name."""


class _Account:
    """What has come about for the workloads of one priority class in one queue, cluster or local, or one cohort."""

    __slots__ = ("_labels", "_prefix", "_turns", "_waits")

    def __init__(self, prefix: str, labels: Labels) -> None:
        self._prefix = prefix  # how the names of its metrics begin
        self._labels = labels
        self._turns: dict[str, int] = {}
        self._waits: dict[str, Spread] = {}

    def admit(self) -> None:
        self._turns[ADMITTED] = self._turns.get(ADMITTED, 0) + 1

    def add(self, came: Came, waits: Iterable[tuple[str, float]]) -> None:
        turns, spreads = self._turns, self._waits
        for type_ in came:
            if type_ in TURNS:
                turns[type_] = turns.get(type_, 0) + 1
        for name, seconds in waits:
            spread = spreads.get(name)
            if spread is None:
                spread = spreads[name] = Spread(BOUNDS[f"{self._prefix}{name}"])
            spread.add(seconds)

    def numbers(self) -> Iterator[Number]:
        for type_, count in self._turns.items():
            yield f"{self._prefix}{TURNS[type_]}_workloads_total", self._labels, count
        for name, spread in self._waits.items():
            yield f"{self._prefix}{name}", self._labels, spread.so_far


class _Tellers(Struct, frozen=True):
    """Who tells of a workload: its cluster queue, its local queue if it is told of, and the cohorts above."""

    queues: tuple[_Account, ...]
    cohorts: tuple[_Account, ...]


class QuotaCounts:
    """Counted is what has come about, whoever wrote it, once for each time it did.

    `tells_of` says whether a local queue is told of; `cohorts_above` names the cohorts of a cluster queue.
    """

    def __init__(self, tells_of: Callable[[Key], bool], cohorts_above: Callable[[str], Iterable[str]]) -> None:
        self._tells_of = tells_of
        self._cohorts_above = cohorts_above
        self._counted: Counter[tuple[str, Labels]] = Counter()
        self._waits = Distributions(BOUNDS)
        self._accounts: dict[tuple[str, Labels], _Account] = {}
        self._tellers: dict[tuple[str, str, str, str], _Tellers] = {}  # by queue, class and local queue
        self._skips: dict[str, int] = {}  # of preemption, in the last cycle the queue was in
        self._preemptors: dict[Key, str] = {}  # for which queue a workload must go, until it shows that it must

    # what is decided

    def attempt(self, queues: Iterable[str], *, success: bool) -> None:
        """One cycle, with the heads of these queues."""
        self._counted["kueue_admission_attempts_total", SUCCESS if success else FAILURE] += 1
        if self._skips:
            self._skips.update((queue, 0) for queue in queues if queue in self._skips)

    def skipped_preemption(self, queue: str) -> None:
        self._skips[queue] = self._skips.get(queue, 0) + 1

    def recomputed(self, queue: str, result: str) -> None:
        """A workload's victims had to go for another one already, so it was decided about once more."""
        self._add("kueue_preemption_target_recomputations_total", cluster_queue=queue, result=result)

    def preempts(self, victim: Key, by_queue: str) -> None:
        self._preemptors[victim] = by_queue

    # what is seen

    def seen(self, before: QueuedWorkload, after: QueuedWorkload, queue: str, now: float) -> None:
        """The workload has changed; `queue` is the one it has quota of, or had before, or would get it from."""
        if before.conditions != after.conditions:
            came = came_true(before, after)
            if came:
                self._came(after, queue, came, now)
            released = evicted_until_released(before, after, now)
            if released is not None:
                labels = (("cluster_queue", queue), ("reason", reason_of(after, EVICTED)))
                self._waits.observe(EVICTION_LATENCY, labels, released)
        if before.evictions != after.evictions and before.admission is not None:
            self._evicted(before, after, queue)

    def lose(self, workload: Key) -> None:
        self._preemptors.pop(workload, None)

    def forget(self, key: Key) -> None:
        """A queue or cohort is gone, and with it whatever was counted of it."""
        for labels in _naming(key):
            for at in [at for at in self._counted if labels.items() <= dict(at[1]).items()]:
                del self._counted[at]
            for of in [of for of in self._accounts if labels.items() <= dict(of[1]).items()]:
                del self._accounts[of]
            self._waits.forget(labels)
        self._tellers.clear()
        if key.kind is Kind.CLUSTER_QUEUE:
            self._skips.pop(key.name, None)

    def reshape(self) -> None:
        """Other local queues may be told of, and other cohorts be above, from now on."""
        self._tellers.clear()

    def numbers(self) -> Iterator[Number]:
        yield from ((name, labels, count) for (name, labels), count in self._counted.items())
        yield from self._waits
        for account in self._accounts.values():
            yield from account.numbers()
        for queue, count in self._skips.items():
            yield "kueue_admission_cycle_preemption_skips", (("cluster_queue", queue),), count

    def _came(self, workload: QueuedWorkload, queue: str, came: Came, now: float) -> None:
        tellers, waits = self._tellers_of(workload, queue), waits_over(workload, came, now)
        for account in tellers.queues:
            account.add(came, waits)
        if ADMITTED in came:
            for account in tellers.cohorts:
                account.admit()
        by_queue = self._preemptors.pop(workload.key, None) if PREEMPTED in came else None
        if by_queue is not None:
            reason = came[PREEMPTED].reason
            self._add("kueue_preempted_workloads_total", preempting_cluster_queue=by_queue, reason=reason)

    def _evicted(self, before: QueuedWorkload, after: QueuedWorkload, queue: str) -> None:
        times = {(one.reason, one.cause): one.count for one in before.evictions}
        for one in after.evictions:
            known = times.get((one.reason, one.cause), 0)
            if one.count > known:
                self._count_eviction(after, queue, one)
                ready = ready_until_evicted(before, after)
                if ready is not None:
                    self._waits.observe(READY_TO_EVICTED, (("cluster_queue", queue), *_why(one)), ready)

    def _count_eviction(self, workload: QueuedWorkload, queue: str, one: EvictionCount) -> None:
        class_, space, local = _class(workload), workload.key.namespace, workload.queue
        why = (*_of_queue(queue, class_), *_why(one))
        self._counted["kueue_evicted_workloads_total", why] += 1
        if one.count == 1:
            self._counted["kueue_evicted_workloads_once_total", why] += 1
        if self._tells_of(Key(Kind.LOCAL_QUEUE, space, local)):
            why = (*_of_local(space, local, class_), *_why(one))
            self._counted["kueue_local_queue_evicted_workloads_total", why] += 1

    def _tellers_of(self, workload: QueuedWorkload, queue: str) -> _Tellers:
        space, local, class_ = workload.key.namespace, workload.queue, _class(workload)
        known = self._tellers.get((queue, class_, space, local))
        if known is not None:
            return known
        queues = [self._account("kueue_", _of_queue(queue, class_))]
        if self._tells_of(Key(Kind.LOCAL_QUEUE, space, local)):
            queues.append(self._account("kueue_local_queue_", _of_local(space, local, class_)))
        cohorts = [
            self._account("kueue_cohort_subtree_", _of_cohort(name, class_)) for name in self._cohorts_above(queue)
        ]
        found = self._tellers[queue, class_, space, local] = _Tellers(tuple(queues), tuple(cohorts))
        return found

    def _account(self, prefix: str, labels: Labels) -> _Account:
        return self._accounts.setdefault((prefix, labels), _Account(prefix, labels))

    def _add(self, metric: str, **labels: str) -> None:
        self._counted[metric, tuple(sorted(labels.items()))] += 1


def _naming(key: Key) -> Iterator[Mapping[str, str]]:
    """The labels by which metrics name a queue or cohort."""
    match key.kind:
        case Kind.CLUSTER_QUEUE:
            yield from ({"cluster_queue": key.name}, {"preempting_cluster_queue": key.name})
        case Kind.COHORT:
            yield {"cohort": key.name}
        case Kind.LOCAL_QUEUE:
            yield {"name": key.name, "namespace": key.namespace}


def _of_queue(name: str, class_: str) -> Labels:
    return (("cluster_queue", name), ("priority_class", class_))


def _of_local(namespace: str, name: str, class_: str) -> Labels:
    return (("name", name), ("namespace", namespace), ("priority_class", class_))


def _of_cohort(name: str, class_: str) -> Labels:
    return (("cohort", name), ("priority_class", class_))


def _why(one: EvictionCount) -> Labels:
    return (("reason", one.reason), ("underlying_cause", one.cause))


def _class(workload: QueuedWorkload) -> str:
    return workload.priority_class.name if workload.priority_class is not None else ""
