"""Debt: what terminating pods owe, which of them are stuck, what debt is measured against, and where it is shown.

It is measured against the quota of queues that share it: how much of each flavor all of them have. It is shown in the
status of each ClusterQueue. Who knows the pods writes it, and nothing else of that status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from headgate.engine.deadlines import Deadlines
from headgate.engine.in_flight import InFlightWrites, WritePolicy, WriteResult, WriteState
from headgate.engine.integrations.job_index import job_of
from headgate.engine.journal import Entry, Journal
from headgate.lifecycle.terminating import (
    STUCK_AFTER,
    DebtKey,
    PodOccupancy,
    is_started,
    is_stuck,
    is_terminating,
    occupancy,
    taken_by,
)
from headgate.model.effects import ClusterQueueDebt, Effect, EmitEvent, EventType, PatchStatus
from headgate.model.events import Outcome
from headgate.model.keys import Key, Kind
from headgate.model.pod import Pod
from headgate.model.queues import Admission, ClusterQueue, Cohort, FlavorDebt, QueuedWorkload
from headgate.model.resources import Resources
from headgate.queueing.backoff import Backoff

FlavorResource = tuple[str, str]
Amounts = Mapping[FlavorResource, int]

_NO_PODS = PodOccupancy()
PACE = 1.0  # seconds from a change until it is written; what is over by then is not written at all
UNSEEN_AFTER = 10.0  # seconds after which a debt that was written and cannot be seen was not kept
POLICY = WritePolicy(Backoff(PACE, 60.0), resends=False)
NOT_KEPT = (
    "the server does not keep status.flavorsDebt, which the definitions of `headgate install` have; "
    "debt is not shown in the status of ClusterQueues until Headgate is started again"
)
Owed = tuple[FlavorDebt, ...]


class QuotaTrees:
    """ClusterQueues and Cohorts as observed. `version` changes with whatever is asked of them here."""

    def __init__(self) -> None:
        self._above: dict[Key, str] = {}  # the cohort above each
        self._quotas: dict[Key, Amounts] = {}
        self._nominal: Counter[FlavorResource] = Counter()
        self.version = 0

    def put(self, queue: ClusterQueue | Cohort) -> bool:
        """Whether quota or structure is another than before."""
        above = queue.cohort if isinstance(queue, ClusterQueue) else queue.parent
        nominal = {
            (flavor.flavor, resource): quota.nominal
            for group in queue.groups
            for flavor in group.flavors
            for resource, quota in flavor.quotas
        }
        if self._quotas.get(queue.key) == nominal and self._above[queue.key] == above:
            return False
        self.drop(queue.key)
        self._above[queue.key], self._quotas[queue.key] = above, nominal
        self._nominal.update(nominal)
        return True

    def drop(self, key: Key) -> None:
        self._above.pop(key, None)
        for name, amount in self._quotas.pop(key, {}).items():
            self._nominal[name] -= amount
            if not self._nominal[name]:
                del self._nominal[name]
        self.version += 1

    def nominal(self, name: FlavorResource) -> int:
        """The nominal quota of all queues together."""
        return self._nominal[name]

    def root(self, queue: str) -> Key:
        """What all queues have in common that can borrow of each other: the topmost cohort, or the queue alone.

        Cohorts that form a ring lend nothing; such a queue shares with nobody.
        """
        at = own = Key(Kind.CLUSTER_QUEUE, "", queue)
        passed = {own}
        while above := self._above.get(at, ""):
            at = Key(Kind.COHORT, "", above)
            if at in passed:
                return own
            passed.add(at)
        return at


def granted_quota(admission: Admission) -> Amounts:
    """What was given, by flavor and resource."""
    total: Counter[FlavorResource] = Counter()
    for assigned in admission.pod_sets:
        for resource, flavor in assigned.flavors:
            total[flavor, resource] += assigned.usage[resource]
    return dict(total)


class TerminatingPods:
    """Pods that are being deleted and still hold capacity that we gave them."""

    def __init__(self) -> None:
        self.pods: dict[Key, Pod] = {}
        self.stuck: dict[Key, None] = {}
        self.deadlines = Deadlines[Key]()  # when to see whether a pod is stuck

    def put(self, pod: Pod) -> bool:
        """Whether the pod was terminating, and is not any more."""
        if not is_terminating(pod):
            return self.drop(pod.key)
        if pod.key not in self.pods:
            self._look_later(pod)
        self.pods[pod.key] = pod
        return False

    def drop(self, key: Key) -> bool:
        """Whether the pod was terminating."""
        if self.pods.pop(key, None) is None:
            return False
        self.stuck.pop(key, None)
        self.deadlines.drop(key)
        return True

    def newly_stuck(self, now: float) -> Iterator[Pod]:
        """Pods that should be gone and are not; each once."""
        for key in self.deadlines.due(now):
            pod = self.pods[key]
            if is_stuck(pod, now):
                self.stuck[key] = None
                yield pod
            else:
                self._look_later(pod)

    def _look_later(self, pod: Pod) -> None:
        assert pod.deleted is not None, f"{pod.key} is not being deleted"
        self.deadlines.set(pod.key, pod.deleted + STUCK_AFTER)


class Debts:
    """The occupancy of every job with started pods, and the sum of what the terminating ones of these owe.

    All is as of the last `refresh`, which computes anew only what changed.
    """

    def __init__(self, workload_for: Callable[[Pod], QueuedWorkload | None]) -> None:
        self._workload_for = workload_for
        self._pods: dict[Key, dict[Key, Pod]] = {}  # started pods by job
        self._job_of: dict[Key, Key] = {}  # by pod
        self._occupancy: dict[Key, PodOccupancy] = {}
        self._by_queue: dict[str, Counter[FlavorResource]] = {}
        self._dirty: dict[Key, None] = {}
        self.by_job: dict[Key, Counter[DebtKey]] = {}  # without those that owe nothing
        self.by_flavor: Counter[FlavorResource] = Counter()
        self.changed_queues: dict[str, None] = {}  # whose debt is another than when somebody last took these
        self.version = 0  # another one whenever pods may have come to owe, or no longer do

    def put(self, pod: Pod) -> None:
        self.drop(pod.key)
        if is_started(pod):
            job = job_of(pod)
            self._pods.setdefault(job, {})[pod.key] = pod
            self._job_of[pod.key] = job
            self._dirty[job] = None

    def is_another(self, pod: Key, uid: str) -> bool:
        """Whether a pod of that name was started, and not this one."""
        job = self._job_of.get(pod)
        return job is not None and self._pods[job][pod].uid != uid

    def drop(self, pod: Key) -> None:
        job = self._job_of.pop(pod, None)
        if job is None:
            return
        pods = self._pods[job]
        del pods[pod]
        if not pods:
            del self._pods[job]
        self._dirty[job] = None

    def refresh(self, jobs: Iterable[Key]) -> Iterable[Key]:
        """Computes anew what jobs owe whose pods changed, and these jobs, whose Workloads may have; returns both."""
        for job in jobs:
            if job in self._pods:
                self._dirty[job] = None
        dirty, self._dirty = self._dirty, {}
        self.version += bool(dirty)
        for job in dirty:
            self._refresh(job)
        return dirty

    def occupancy(self, job: Key) -> PodOccupancy:
        return self._occupancy.get(job, _NO_PODS)

    def of_queue(self, queue: str) -> Mapping[FlavorResource, int]:
        """What is owed by pods that had their quota of this ClusterQueue."""
        return self._by_queue.get(queue, {})

    def by_queue(self) -> Iterator[tuple[str, Mapping[FlavorResource, int]]]:
        return iter(sorted(self._by_queue.items()))

    def owing(self) -> Iterator[Pod]:
        """All pods that are terminating and whose quota was released."""
        return (pod for job in self.by_job for pod in self._occupancy[job].owing)

    def take_changed_queues(self) -> Iterable[str]:
        changed, self.changed_queues = self.changed_queues, {}
        return changed

    def _refresh(self, job: Key) -> None:
        pods = self._pods.get(job)
        if pods is None:
            self._occupancy.pop(job, None)
            self._owe(job, Counter())
            return
        now = self._occupancy[job] = occupancy(list(pods.values()), self._workload_for(next(iter(pods.values()))))
        debt: Counter[DebtKey] = Counter()
        for pod in now.owing:
            debt.update(taken_by(pod))
        self._owe(job, debt)

    def _owe(self, job: Key, debt: Counter[DebtKey]) -> None:
        before = self.by_job.pop(job, Counter[DebtKey]())
        if debt:
            self.by_job[job] = debt
        if debt == before:
            return
        for sign, amounts in ((1, debt), (-1, before)):
            for (queue, flavor, resource), amount in amounts.items():
                _add(self._by_queue.setdefault(queue, Counter()), (flavor, resource), sign * amount)
                _add(self.by_flavor, (flavor, resource), sign * amount)
                self.changed_queues[queue] = None
        for queue in {name: None for name, _, _ in before}:
            if not self._by_queue[queue]:
                del self._by_queue[queue]


def _add(total: Counter[FlavorResource], name: FlavorResource, amount: int) -> None:
    """Adds the amount; a sum of zero is not kept."""
    total[name] += amount
    if not total[name]:
        del total[name]


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
