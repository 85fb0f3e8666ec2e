"""What early given-back quota leaves behind: the debt of pods that are leaving, and workloads held for their room."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from headgate.engine.integrations.hold_plan import Claimants, HoldPlan, Leaver
from headgate.engine.integrations.node_capacity import NodeRoom
from headgate.engine.integrations.quota_trees import Amounts, QuotaTrees, granted_quota
from headgate.engine.integrations.terminating_pods import Debts, Leavers
from headgate.lifecycle.terminating.debt import STUCK_AFTER
from headgate.lifecycle.terminating.holds import Hold
from headgate.model.keys import Key
from headgate.model.node import Node
from headgate.model.pod import Pod
from headgate.model.queues import Admission, ClusterQueue, Cohort, QueuedWorkload, ResourceFlavor


class Room:
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
        self._woken: dict[Key, None] = {}
        self._trees = QuotaTrees()
        self._running: dict[Key, QueuedWorkload] = {}
        self._debts = Debts(workload_for)
        self._nodes = NodeRoom()
        self._claimants = Claimants(flavors, max_hold)
        self._leavers = Leavers()
        self._holds: dict[Key, Hold] = {}
        self._derived_from: tuple[object, ...] = ()  # the versions of all that the holds were derived from
        self._holds_until = math.inf  # when time alone makes them others

    # what is now true

    def look_anew(self, works: Iterable[Key]) -> None:
        """A step begins: since the last one, something happened to this work."""
        self._debts.look_anew(works)

    def put_queue(self, queue: ClusterQueue | Cohort) -> None:
        if self._trees.put(queue):
            self._wake()

    def drop_queue(self, key: Key) -> None:
        self._trees.drop(key)

    def put_node(self, node: Node) -> None:
        self._nodes.put_node(node)

    def drop_node(self, key: Key, uid: str) -> None:
        self._nodes.drop_node(key, uid)

    def put_pod(self, pod: Pod) -> None:
        self._debts.put(pod)
        self._nodes.put_pod(pod)
        if self._leavers.put(pod):
            self._wake()

    def drop_pod(self, key: Key, uid: str) -> None:
        """The pod is gone, unless another has its name by now."""
        if self._debts.is_another(key, uid) or self._nodes.is_another(key, uid):
            return
        self._debts.drop(key)
        self._nodes.drop_pod(key)
        if self._leavers.drop(key):
            self._wake()

    def uses(self, work: Key, workload: QueuedWorkload | None) -> None:
        """By which Workload some of the work may run; None: nothing of it does."""
        if workload is None or workload.admission is None:
            self._running.pop(work, None)
        else:
            self._running[work] = workload
        self._expect(work)

    def forget(self, work: Key) -> None:
        """The work is gone."""
        self.owes(work)
        self.starts(work)
        self.uses(work, None)

    # who is held

    @property
    def may_hold(self) -> bool:
        """Whether any pod is leaving that someone could be held for."""
        return self._max_hold > 0 and next(self._debts.owing(), None) is not None

    def awaits(self, work: Key, workload: QueuedWorkload) -> None:
        """The work is admitted and nothing of it has started."""
        self._claimants.put_waiting(work, workload, self._debts.standing(work))

    def starts(self, work: Key) -> None:
        """The work has started, or is not about to."""
        self._claimants.drop_waiting(work)

    def settle_holds(self, now: float) -> list[Key]:
        """Derives anew who is held, where that may be another; returns the work whose hold is another."""
        if not self.may_hold:
            self._claimants.clear_waiting()
        for work in self._debts.take_changed_works() if self._claimants.waiting else ():
            self._expect(work)
        derived_from = (self._nodes.version, self._debts.version, self._claimants.version, self._trees.version)
        if derived_from == self._derived_from and now < self._holds_until:
            return []
        before, self._holds = self._holds, self._plan(now) if self._claimants.waiting else {}
        self._derived_from = derived_from
        return [work for work in {**before, **self._holds} if before.get(work) != self._holds.get(work)]

    def _plan(self, now: float) -> dict[Key, Hold]:
        leavers = [Leaver(pod) for pod in self._debts.owing()]
        dues, limits = [each.due for each in leavers], [each.until for each in self._claimants.waiting.values()]
        times = (*dues, *(due + STUCK_AFTER for due in dues), *limits)
        self._holds_until = min((at for at in times if at > now), default=math.inf)
        return HoldPlan(self._nodes, self._trees).holds(leavers, self._claimants.all(), now)

    def hold_of(self, work: Key) -> Hold | None:
        return self._holds.get(work) if work in self._claimants.waiting else None

    @property
    def held(self) -> int:
        """How much work is held."""
        return len(self._holds)

    def holds_end(self) -> list[float]:
        """When time alone may end a hold."""
        return [self._holds_until] if self._holds else []

    def _expect(self, work: Key) -> None:
        self._claimants.put_started(work, self._running.get(work), self._debts.standing(work))

    # what is owed

    def keeps_places(self, work: Key) -> bool:
        """Whether pods of it leave that still have their quota."""
        return self._debts.standing(work).leaves_places

    def may_owe(self, work: Key, admission: Admission) -> bool:
        """Whether the work may give its quota back before its pods are gone; if not, it asks again when some are."""
        if self._debt_percent is None:
            return True
        wanted = granted_quota(admission)
        if not self._is_within_bound(wanted, work):
            self._kept[work] = None
            return False
        self._kept.pop(work, None)
        self._promised[work] = wanted
        return True

    def owes(self, work: Key) -> None:
        """It has given back what it held: its pods that still leave are counted by themselves."""
        self._promised.pop(work, None)
        self._kept.pop(work, None)

    def take_woken(self) -> Iterable[Key]:
        """Work that may give its quota back by now."""
        woken, self._woken = self._woken, {}
        return woken

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
        return len(self._leavers.stuck)

    def newly_stuck(self, now: float) -> Iterator[Pod]:
        """Pods that should have been gone for a while and are not; each once."""
        return self._leavers.newly_stuck(now)

    def next_looks(self) -> list[float]:
        return self._leavers.next_looks()

    def _wake(self) -> None:
        self._woken.update(self._kept)

    def _is_within_bound(self, more: Amounts, work: Key) -> bool:
        """Whether so much more may be owed, with what others are about to owe."""
        owed = Counter(self._debts.by_flavor())
        for other, promised in self._promised.items():
            owed.update(promised if other != work else {})
        percent = 100 if self._debt_percent is None else self._debt_percent
        bounds = {name: self._trees.nominal(name) * percent // 100 for name in more}
        return all(owed[name] + amount <= bounds[name] for name, amount in more.items() if amount)
