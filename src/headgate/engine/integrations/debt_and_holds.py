"""Quota that is released before its pods are gone: the debt this leaves, its bound, and who is held until they are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from headgate.engine.integrations.debt import Amounts, Debts, QuotaTrees, TerminatingPods, granted_quota
from headgate.engine.integrations.hold_plan import HoldCandidates, HoldPlan, TerminatingPod
from headgate.engine.integrations.node_capacity import NodeCapacity
from headgate.lifecycle.terminating import STUCK_AFTER, Hold
from headgate.model.keys import Key
from headgate.model.node import Node
from headgate.model.pod import Pod
from headgate.model.queues import Admission, ClusterQueue, Cohort, QueuedWorkload, ResourceFlavor


class DebtAndHolds:
    """Keeps nodes with the pods on them, what terminating pods owe, and which admitted jobs are held for them."""

    def __init__(
        self,
        workload_for: Callable[[Pod], QueuedWorkload | None],
        flavors: Mapping[str, ResourceFlavor],
        max_hold: float,
        debt_percent: int | None = None,
    ) -> None:
        self._max_hold = max_hold
        self._debt_percent = debt_percent
        self._promised: dict[Key, Amounts] = {}  # quota about to be released, by job
        self._kept: dict[Key, None] = {}  # jobs that keep their quota, as enough is owed already
        self._trees = QuotaTrees()
        self._running: dict[Key, QueuedWorkload] = {}
        self._dirty_running: dict[Key, None] = {}  # running jobs whose missing pods are to be counted anew
        self._nodes = NodeCapacity()
        self._candidates = HoldCandidates(flavors, max_hold)
        self._derived_from: tuple[object, ...] = ()  # the versions of all that the holds were derived from
        self.holds_until = math.inf  # when time alone makes them others
        self.debts = Debts(workload_for)
        self.terminating = TerminatingPods()
        self.holds: dict[Key, Hold] = {}
        self.unblocked: dict[Key, None] = {}  # jobs that may release their quota by now
        self.may_hold = False  # whether any pod is terminating that a job could be held for

    # what is now true

    def begin_step(self, jobs: Iterable[Key]) -> None:
        """Brings debt up to date; something happened to these jobs since the last step."""
        for job in self.debts.refresh(jobs):
            if job in self._running:
                self._dirty_running[job] = None
        self.may_hold = self._max_hold > 0 and bool(self.debts.by_job)
        if not self.may_hold and self._candidates.waiting:
            self._candidates.clear_waiting()

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
        self.debts.put(pod)
        self._nodes.put_pod(pod)
        if self.terminating.put(pod):
            self._unblock()

    def drop_pod(self, key: Key, uid: str) -> None:
        """The pod is gone, unless another has its name by now."""
        if self.debts.is_another(key, uid) or self._nodes.is_another(key, uid):
            return
        self.debts.drop(key)
        self._nodes.drop_pod(key)
        if self.terminating.drop(key):
            self._unblock()

    def set_running(self, job: Key, workload: QueuedWorkload | None) -> None:
        """The job, or a part of it, may run by this Workload; None: nothing of it does."""
        if workload is not None and workload.status.admission is not None:
            self._running[job] = workload
            self._dirty_running[job] = None
        elif self._running.pop(job, None) is not None:
            self._dirty_running.pop(job, None)
            self._candidates.drop_started(job)

    def forget(self, job: Key) -> None:
        """The job is gone."""
        self.released(job)
        self.drop_candidate(job)
        self.set_running(job, None)

    # who is held

    def add_candidate(self, job: Key, workload: QueuedWorkload) -> None:
        """The job is admitted and nothing of it has started."""
        self._candidates.put_waiting(job, workload, self.debts.occupancy(job))

    def drop_candidate(self, job: Key) -> None:
        """The job has started, or is not about to."""
        if job in self._candidates.waiting:
            self._candidates.drop_waiting(job)

    def update_holds(self, now: float) -> list[Key]:
        """Derives anew who is held, where that may be another; returns the jobs whose hold is another."""
        if self._candidates.waiting:
            dirty, self._dirty_running = self._dirty_running, {}
            for job in dirty:
                self._candidates.put_started(job, self._running[job], self.debts.occupancy(job))
        derived_from = (self._nodes.version, self.debts.version, self._candidates.version, self._trees.version)
        if derived_from == self._derived_from and now < self.holds_until:
            return []
        before, self.holds = self.holds, self._plan(now) if self._candidates.waiting else {}
        self._derived_from = derived_from
        return [job for job in {**before, **self.holds} if before.get(job) != self.holds.get(job)]

    def _plan(self, now: float) -> dict[Key, Hold]:
        terminating = [TerminatingPod(pod) for pod in self.debts.owing()]
        dues, limits = [each.due for each in terminating], [each.until for each in self._candidates.waiting.values()]
        times = (*dues, *(due + STUCK_AFTER for due in dues), *limits)
        self.holds_until = min((at for at in times if at > now), default=math.inf)
        return HoldPlan(self._nodes, self._trees).holds(terminating, self._candidates.all(), now)

    def hold_of(self, job: Key) -> Hold | None:
        return self.holds.get(job) if job in self._candidates.waiting else None

    # what is owed

    def may_release(self, job: Key, admission: Admission) -> bool:
        """Whether the job may release its quota before its pods are gone; if not, it asks again when some are."""
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
        """The job has no quota to release: its pods that still terminate are counted by themselves."""
        self._promised.pop(job, None)
        self._kept.pop(job, None)

    def take_unblocked(self) -> Iterable[Key]:
        unblocked, self.unblocked = self.unblocked, {}
        return unblocked

    def _unblock(self) -> None:
        self.unblocked.update(self._kept)

    def _is_within_bound(self, more: Amounts, job: Key) -> bool:
        """Whether so much more may be owed, with what others are about to owe."""
        owed = Counter(self.debts.by_flavor)
        for other, promised in self._promised.items():
            owed.update(promised if other != job else {})
        percent = 100 if self._debt_percent is None else self._debt_percent
        bounds = {name: self._trees.nominal(name) * percent // 100 for name in more}
        return all(owed[name] + amount <= bounds[name] for name, amount in more.items() if amount)
