"""Whether the room that released quota stands for is really there, or still taken by pods that leave."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from headgate.lifecycle.debt import STUCK_AFTER, DebtKey, debt_of, is_stuck
from headgate.model.keys import Key
from headgate.model.kueue_names import FLAVORS
from headgate.model.pod import Pod
from headgate.model.queues import Admission, ClusterQueue, Cohort
from headgate.quota.wording import amount_text

FlavorResource = tuple[str, str]


class Room:
    """Keeps what queues own in all, what started work uses, and what pods that leave still take."""

    def __init__(self, reserved_since: Callable[[Pod], float | None], debt_percent: int | None = None) -> None:
        self._reserved_since = reserved_since
        self._debt_percent = debt_percent
        self._promised: dict[Key, Mapping[FlavorResource, int]] = {}  # quota about to be released, by the work
        self._quotas: dict[Key, Mapping[FlavorResource, int]] = {}
        self._owned: Counter[FlavorResource] = Counter()
        self._uses: dict[Key, Mapping[FlavorResource, int]] = {}
        self._used: Counter[FlavorResource] = Counter()
        self._leaving: dict[Key, Pod] = {}
        self._held: dict[Key, None] = {}  # work that waits for room
        self._newly_held: dict[Key, str] = {}  # what it waits for, until that was told
        self._kept: dict[Key, None] = {}  # work that keeps its quota, as enough is owed already
        self._overdue: list[tuple[float, Key]] = []  # when to see whether a pod that leaves is stuck
        self.stuck: dict[Key, None] = {}
        self._debt: Counter[DebtKey] | None = None  # as of this step, once someone asked

    def look_anew(self) -> None:
        """A step begins: since the last one, pods may have left and quota may have been given back."""
        self._debt = None

    def put_queue(self, queue: ClusterQueue | Cohort) -> list[Key]:
        """Returns the work that waits for room, since there may be more of it."""
        nominal = {
            (flavor.flavor, resource): quota.nominal
            for group in queue.groups
            for flavor in group.flavors
            for resource, quota in flavor.quotas
        }
        _replace(self._quotas, self._owned, queue.key, nominal)
        return self._woken()

    def drop_queue(self, key: Key) -> None:
        _replace(self._quotas, self._owned, key, {})

    def put_pod(self, pod: Pod) -> list[Key]:
        """Returns the work that waits for room, when this pod leaves some."""
        if pod.deleted is not None and pod.holds_room and FLAVORS in pod.annotations:
            self._leave(pod, pod.deleted + STUCK_AFTER)
            return []
        return self.drop_pod(pod.key)

    def _leave(self, pod: Pod, overdue: float) -> None:
        if pod.key not in self._leaving:
            heapq.heappush(self._overdue, (overdue, pod.key))
        self._leaving[pod.key] = pod

    def drop_pod(self, key: Key) -> list[Key]:
        self.stuck.pop(key, None)
        return self._woken() if self._leaving.pop(key, None) is not None else []

    def uses(self, work: Key, admission: Admission | None) -> list[Key]:
        """What the work uses, once some of it may run. Returns the work that waits for room, when it uses no more."""
        used_some = work in self._uses
        _replace(self._uses, self._used, work, {} if admission is None else amounts(admission))
        return list(self._held) if used_some and work not in self._uses else []

    def is_there(self, work: Key, admission: Admission) -> bool:
        """Whether the work can start beside all that runs and all that leaves; if not, it is held until some left."""
        owed = self._owed() if self._leaving else Counter[FlavorResource]()
        missing = {
            name: self._used[name] + owed[name] + amount - self._owned[name]
            for name, amount in amounts(admission).items()
            if owed[name]
        }
        short = {name: amount for name, amount in missing.items() if amount > 0}
        if not short:
            self.waits_no_more(work)
        elif work not in self._held:
            self._held[work] = None
            self._newly_held[work] = _in_words(short)
        return not short

    def waits_no_more(self, work: Key) -> None:
        self._held.pop(work, None)
        self._newly_held.pop(work, None)

    def newly_held(self, work: Key) -> str:
        """What the work has begun to wait for; empty when that was told, or it does not wait."""
        return self._newly_held.pop(work, "")

    def may_owe(self, work: Key, admission: Admission) -> bool:
        """Whether the work may give its quota back before its pods are gone; if not, it asks again when some are."""
        if self._debt_percent is None:
            return True
        owed = self._owed()
        for other, promised in self._promised.items():
            owed.update(promised if other != work else {})
        wanted = amounts(admission)
        most = {name: self._owned[name] * self._debt_percent // 100 for name in wanted}
        if any(owed[name] + amount > most[name] for name, amount in wanted.items()):
            self._kept[work] = None
            return False
        self._kept.pop(work, None)
        self._promised[work] = wanted
        return True

    def owes(self, work: Key) -> None:
        """It has given back what it held: its pods that still leave are counted by themselves."""
        self._promised.pop(work, None)
        self._kept.pop(work, None)

    def debt(self) -> Counter[DebtKey]:
        """By cluster queue, flavor and resource."""
        if self._debt is None:
            self._debt = Counter()
            for pod in self._leaving.values():
                self._debt.update(debt_of(pod, self._reserved_since(pod)))
        return self._debt

    @property
    def held(self) -> int:
        """How much work waits for room that it has the quota for."""
        return len(self._held)

    def newly_stuck(self, now: float) -> Iterator[Pod]:
        """Pods that should be gone and are not; each once."""
        while self._overdue and self._overdue[0][0] <= now:
            key = heapq.heappop(self._overdue)[1]
            pod = self._leaving.get(key)
            if pod is not None and is_stuck(pod, now) and key not in self.stuck:
                self.stuck[key] = None
                yield pod

    def next_looks(self) -> list[float]:
        return [at for at, _ in self._overdue[:1]]

    def forget(self, work: Key) -> list[Key]:
        """The work is gone. Returns the work that waits for room, when it leaves some."""
        self.owes(work)
        self.waits_no_more(work)
        return self.uses(work, None)

    def _owed(self) -> Counter[FlavorResource]:
        owed: Counter[FlavorResource] = Counter()
        for (_, flavor, resource), amount in self.debt().items():
            owed[flavor, resource] += amount
        return owed

    def _woken(self) -> list[Key]:
        return [*self._held, *self._kept]


def amounts(admission: Admission) -> dict[FlavorResource, int]:
    """What was given, by flavor and resource."""
    total: Counter[FlavorResource] = Counter()
    for assigned in admission.pod_sets:
        for resource, flavor in assigned.flavors:
            total[flavor, resource] += assigned.usage[resource]
    return dict(total)


def _in_words(short: Mapping[FlavorResource, int]) -> str:
    return ", ".join(
        f"{amount_text(resource, amount)} {resource} of flavor {flavor}"
        for (flavor, resource), amount in sorted(short.items())
    )


def _replace(
    known: dict[Key, Mapping[FlavorResource, int]],
    total: Counter[FlavorResource],
    key: Key,
    now: Mapping[FlavorResource, int],
) -> None:
    """Keep the total of what each key stands for."""
    total.subtract(known.pop(key, {}))
    total.update(now)
    if now:
        known[key] = now
