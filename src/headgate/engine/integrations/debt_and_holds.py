"""What early given-back quota leaves behind: the debt of pods that are leaving, and workloads held for their room."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from headgate.engine.integrations.hold_plan import HoldCandidates, HoldPlan, TerminatingPod
from headgate.engine.integrations.node_capacity import NodeCapacity
from headgate.engine.integrations.quota_trees import Amounts, QuotaTrees, granted_quota
from headgate.engine.integrations.terminating_pods import Debts, TerminatingPods
from headgate.lifecycle.terminating.debt import STUCK_AFTER
from headgate.lifecycle.terminating.holds import Hold
from headgate.model.keys import Key
from headgate.model.node import Node
from headgate.model.pod import Pod
from headgate.model.queues import Admission, ClusterQueue, Cohort, QueuedWorkload, ResourceFlavor


class DebtAndHolds:
    """Keeps nodes, the pods on them and those on their way, what is owed, and who is held."""

    def __init__(
        self,
        workload_for: Callable[[Pod], QueuedWorkload | None],
        flavors: Mapping[str, ResourceFlavor],
        max_hold: float,
        debt_percent: int | None = None,
    ) -> None:
        self._max_hold = max_hold
        self._debt_percent = debt_percent
        self._promised: dict[Key, Amounts] = {}  # quota about to be released, by the work
        self._kept: dict[Key, None] = {}  # work that keeps its quota, as enough is owed already
        self._unblocked: dict[Key, None] = {}
        self._trees = QuotaTrees()
        self._running: dict[Key, QueuedWorkload] = {}
        self._debts = Debts(workload_for)
        self._nodes = NodeCapacity()
        self._candidates = HoldCandidates(flavors, max_hold)
        self._terminating = TerminatingPods()
        self._holds: dict[Key, Hold] = {}
        self._derived_from: tuple[object, ...] = ()  # the versions of all that the holds were derived from
        self._holds_until = math.inf  # when time alone makes them others

    # what is now true

    def mark_dirty(self, jobs: Iterable[Key]) -> None:
        """A step begins: since the last one, something happened to this work."""
        self._debts.mark_dirty(jobs)

    def put_queue(self, queue: ClusterQueue | Cohort) -> None:
        if self._trees.put(queue):
            self._unblock()

    def drop_queue(self, key: Key) -> None:
        self._trees.drop(key)

    def put_node(self, node: Node) -> None:
        self._nodes.put_node(node)

    def drop_node(self, key: Key, uid: str) -> None:
        self._nodes.drop_node(key, uid)

    def put_pod(self, pod: Pod) -> None:
        self._debts.put(pod)
        self._nodes.put_pod(pod)
        if self._terminating.put(pod):
            self._unblock()

    def drop_pod(self, key: Key, uid: str) -> None:
        """The pod is gone, unless another has its name by now."""
        if self._debts.is_another(key, uid) or self._nodes.is_another(key, uid):
            return
        self._debts.drop(key)
        self._nodes.drop_pod(key)
        if self._terminating.drop(key):
            self._unblock()

    def set_running(self, job: Key, workload: QueuedWorkload | None) -> None:
        """By which Workload some of the work may run; None: nothing of it does."""
        if workload is None or workload.admission is None:
            self._running.pop(job, None)
        else:
            self._running[job] = workload
        self._expect(job)

    def forget(self, job: Key) -> None:
        """The work is gone."""
        self.released(job)
        self.drop_candidate(job)
        self.set_running(job, None)

    # who is held

    @property
    def may_hold(self) -> bool:
        """Whether any pod is leaving that someone could be held for."""
        return self._max_hold > 0 and next(self._debts.owing(), None) is not None

    def add_candidate(self, job: Key, workload: QueuedWorkload) -> None:
        """The work is admitted and nothing of it has started."""
        self._candidates.put_waiting(job, workload, self._debts.occupancy(job))

    def drop_candidate(self, job: Key) -> None:
        """The work has started, or is not about to."""
        self._candidates.drop_waiting(job)

    def update_holds(self, now: float) -> list[Key]:
        """Derives anew who is held, where that may be another; returns the work whose hold is another."""
        if not self.may_hold:
            self._candidates.clear_waiting()
        for job in self._debts.take_changed_jobs() if self._candidates.waiting else ():
            self._expect(job)
        derived_from = (self._nodes.version, self._debts.version, self._candidates.version, self._trees.version)
        if derived_from == self._derived_from and now < self._holds_until:
            return []
        before, self._holds = self._holds, self._plan(now) if self._candidates.waiting else {}
        self._derived_from = derived_from
        return [job for job in {**before, **self._holds} if before.get(job) != self._holds.get(job)]

    def _plan(self, now: float) -> dict[Key, Hold]:
        terminating = [TerminatingPod(pod) for pod in self._debts.owing()]
        dues, limits = [each.due for each in terminating], [each.until for each in self._candidates.waiting.values()]
        times = (*dues, *(due + STUCK_AFTER for due in dues), *limits)
        self._holds_until = min((at for at in times if at > now), default=math.inf)
        return HoldPlan(self._nodes, self._trees).holds(terminating, self._candidates.all(), now)

    def hold_of(self, job: Key) -> Hold | None:
        return self._holds.get(job) if job in self._candidates.waiting else None

    @property
    def held(self) -> int:
        """How much work is held."""
        return len(self._holds)

    def holds_end(self) -> list[float]:
        """When time alone may end a hold."""
        return [self._holds_until] if self._holds else []

    def _expect(self, job: Key) -> None:
        self._candidates.put_started(job, self._running.get(job), self._debts.occupancy(job))

    # what is owed

    def terminates_with_quota(self, job: Key) -> bool:
        """Whether pods of it leave that still have their quota."""
        return self._debts.occupancy(job).terminates_with_quota

    def may_release(self, job: Key, admission: Admission) -> bool:
        """Whether the work may give its quota back before its pods are gone; if not, it asks again when some are."""
        if self._debt_percent is None:
            return True
        wanted = granted_quota(admission)
        if not self._is_within_bound(wanted, job):
            self._kept[job] = None
            return False
        self._kept.pop(job, None)
        self._promised[job] = wanted
        return True

    def released(self, job: Key) -> None:
        """It has given back what it held: its pods that still leave are counted by themselves."""
        self._promised.pop(job, None)
        self._kept.pop(job, None)

    def take_unblocked(self) -> Iterable[Key]:
        """Work that may give its quota back by now."""
        unblocked, self._unblocked = self._unblocked, {}
        return unblocked

    def debts(self) -> Iterator[tuple[str, Amounts]]:
        """What is owed, by cluster queue."""
        return self._debts.by_queue()

    def debt_of(self, queue: str) -> Amounts:
        return self._debts.of_queue(queue)

    def changed_debts(self) -> Iterable[str]:
        """The queues whose debt is another than when this was last asked."""
        return self._debts.take_changed_queues()

    @property
    def stuck(self) -> int:
        """How many pods should be gone and are not."""
        return len(self._terminating.stuck)

    def newly_stuck(self, now: float) -> Iterator[Pod]:
        """Pods that should have been gone for a while and are not; each once."""
        return self._terminating.newly_stuck(now)

    def next_looks(self) -> list[float]:
        return self._terminating.next_looks()

    def _unblock(self) -> None:
        self._unblocked.update(self._kept)

    def _is_within_bound(self, more: Amounts, job: Key) -> bool:
        """Whether so much more may be owed, with what others are about to owe."""
        owed = Counter(self._debts.by_flavor())
        for other, promised in self._promised.items():
            owed.update(promised if other != job else {})
        percent = 100 if self._debt_percent is None else self._debt_percent
        bounds = {name: self._trees.nominal(name) * percent // 100 for name in more}
        return all(owed[name] + amount <= bounds[name] for name, amount in more.items() if amount)
