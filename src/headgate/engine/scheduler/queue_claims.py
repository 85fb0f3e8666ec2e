"""Capacity that is kept for pods that wait: nobody starts whom one of them would have evicted at once.

Without this, a pod that was evicted comes back, takes its place before the pod it left for, and is evicted again, for
ever. Who waits is what the scheduling queue holds, so a fresh process keeps the same capacity for the same pods.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from headgate.engine.scheduler.queue_reservations import reserved_in
from headgate.model.keys import Key, Kind
from headgate.model.pod import Pod
from headgate.model.resources import Resources, amount_text
from headgate.model.volcano import DequeueStrategy
from headgate.preemption.volcano import Use, add, beyond_deserved, fit, may_give, may_reclaim, remove
from headgate.queueing.queue import QueuedPodInfo, QueueOrder
from headgate.quota.volcano import QueueTree, VolcanoQueueNode


class QueueClaim(Struct, frozen=True):
    """What entries of the scheduling queue want of a Volcano queue that differ in nothing a queue looks at."""

    queue: str
    requests: Resources
    priority: int
    devices: bool  # whether resource claims name devices
    gang: Key | None = None  # the oldest pod of a gang, which shares its claim with nobody


class KeptCapacity(Struct, frozen=True):
    """Who keeps a pod from starting, and what for."""

    pods: tuple[Pod, ...]  # the first of each entry
    wanted: tuple[Use, ...]

    def says(self, queue: str, theirs: str) -> tuple[str, dict[str, int | str]]:
        """Words and numbers for a pod of `queue`; the first of those it waits for is in `theirs`."""
        total: dict[str, int] = {}
        for name, amount in (each for _, requests in self.wanted for each in requests.items):
            total[name] = total.get(name, 0) + amount
        amounts = ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in total.items())
        whom = f"{self.pods[0].key.namespace}/{self.pods[0].key.name}"
        why = f": queue {theirs} stays within what it deserves, and queue {queue} would use more than that"
        if queue == theirs:
            why = f", of more priority in queue {queue}"
        message = f"waiting for queue capacity: {amounts} is kept for {whom}{why}"
        return message, {"queue": queue, "kept": amounts, "keptFor": whom}


class QueueClaims:
    """The entries that wait, by queue and claim, with those that have started, left or changed since taken out."""

    def __init__(
        self,
        enabled: frozenset[str],
        waiting: Callable[[Pod], Sequence[Pod]],
        wanted: Callable[[Sequence[Pod]], Sequence[Use] | None],
        *,
        reserves: Callable[[Pod], bool],
        within: Callable[[Sequence[Pod], VolcanoQueueNode], bool],
        before: Callable[[Pod, VolcanoQueueNode], Resources],
        keeps: Callable[[Sequence[Pod]], bool],
    ) -> None:
        self._enabled = enabled  # the schedulerNames whose profile has preemption on
        self._waiting = waiting  # the pods that start together with the first of an entry; none if there is no entry
        self._wanted = wanted  # what they want, if nothing but capacity keeps them
        self._reserves = reserves  # whether a pod has its capacity already, or had it in vain and rests
        self._within = within  # whether their queue stays within what it deserves: then they may have others evicted
        self._before = before  # what is reserved of a queue before a pod
        self._keeps = keeps  # whether pods reserve what they may have, if no node fits
        self._entries: dict[str, dict[QueueClaim, dict[Key, Pod]]] = {}
        self._claim_of: dict[Key, QueueClaim] = {}
        self._ordered: tuple[QueueTree, list[QueueClaim]] | None = None  # while there are the same claims
        self._lines: dict[str, list[tuple[QueueOrder, Key]]] = {}  # the entries of fifo queues, in order
        self._first: dict[str, list[QueueClaim]] = {}  # of fifo queues, until an entry or what is reserved changes

    def __contains__(self, pod: Key) -> bool:
        return pod in self._claim_of

    def queue_of(self, pod: Key) -> str:
        """The queue that the entry of this pod waits for; empty if it does not wait."""
        claim = self._claim_of.get(pod)
        return claim.queue if claim is not None else ""

    def enter(self, info: QueuedPodInfo, queue: str) -> bool:
        """The entry waits. Whether that is a claim nobody had."""
        pod = info.pod
        if not self.may_evict(pod):
            return self.leave(pod.key)
        devices = any(claim.kind is Kind.DEVICE_CLAIM for claim in pod.shape.claims)
        gang = pod.key if info.group is not None else None
        claim = QueueClaim(queue, pod.shape.requests, pod.priority, devices, gang)
        before = self._claim_of.get(pod.key)
        if before is not None and before != claim:
            self.leave(pod.key)
        self._claim_of[pod.key] = claim
        entries = self._entries.setdefault(queue, {}).setdefault(claim, {})
        if not entries:
            self._ordered = None
        line = self._lines.get(queue)
        if line is not None:
            if pod.key in entries:
                self._leave_line(entries[pod.key], queue)
            insort(line, (QueuedPodInfo(pod).order, pod.key))
            self._first.pop(queue, None)
        entries[pod.key] = pod
        return len(entries) == 1 and before != claim

    def leave(self, pod: Key) -> bool:
        """The pod waits no longer, or has another claim. Whether nobody has the one it had."""
        claim = self._claim_of.pop(pod, None)
        if claim is None:
            return False
        entries = self._entries[claim.queue]
        left = entries[claim].pop(pod)
        if claim.queue in self._lines:
            self._leave_line(left, claim.queue)
        if entries[claim]:
            return False
        self._ordered = None
        del entries[claim]
        if not entries:
            del self._entries[claim.queue]
            self._lines.pop(claim.queue, None)
        return True

    def _leave_line(self, pod: Pod, queue: str) -> None:
        line, place = self._lines[queue], (QueuedPodInfo(pod).order, pod.key)
        del line[bisect_left(line, place)]
        self._first.pop(queue, None)

    def reservations_changed(self) -> None:
        """Others than before may have their capacity, or have had it."""
        self._first.clear()

    def may_evict(self, pod: Pod) -> bool:
        return pod.preempts and pod.scheduler_name in self._enabled

    def kept_from(
        self,
        pod: Pod,
        use: Use,
        tree: QueueTree,
        going: Callable[[], Iterable[Use]],
        among: Container[Key] | None = None,
    ) -> KeptCapacity | None:
        """What is kept from the pod, whose use is counted in the tree already; None if it may have it.

        Those for whom it would be evicted, all of them or `among` these, count first, as far as they fit once the pods
        that are leaving are gone. One that would reserve nothing may find no node, and then evict nobody: what others
        keep if it does is kept too.
        """
        kept, unsure = self._kept_from(pod, use, tree, going, among)
        if kept is None and unsure:
            kept, _ = self._kept_from(pod, use, tree, going, among, apart=True)
        return kept

    def _kept_from(
        self,
        pod: Pod,
        use: Use,
        tree: QueueTree,
        going: Callable[[], Iterable[Use]],
        among: Container[Key] | None,
        *,
        apart: bool = False,
    ) -> tuple[KeptCapacity | None, bool]:
        """And whether pods that may find no node count; each of these `apart`, beside those that reserve."""
        rivals = self._rivals(pod, use, tree)
        first, kept, keeps, unsure = list[Pod](), list[Use](), False, False
        claim = next(rivals, None)
        if claim is None:
            return None, False
        left = list(going())
        remove([use, *left])
        while claim is not None and not keeps:
            for pods in self._waiting_with(claim, among):
                wanted = self._wanted(pods) if pod.group is None or pods[0].group != pod.group else None
                if not wanted or not all(self.may_evict(each) for each in pods):
                    continue
                if claim.queue != use[0].name and not self._within(pods, wanted[0][0]):
                    if any(each.gates for each in pods):
                        break  # nor are others with this claim that never reserved anything
                    continue
                if not fit(wanted):
                    break
                add(wanted)
                keeps, stays = not fit([use]), self._keeps(pods)
                unsure |= not stays
                if keeps or stays or not apart:
                    first.append(pods[0])
                    kept += wanted
                else:
                    remove(wanted)
                if keeps:
                    break
            claim = next(rivals, None)
        remove(kept)
        add([use, *left])
        return (KeptCapacity(tuple(first), tuple(kept)) if keeps else None), unsure

    def _rivals(self, pod: Pod, use: Use, tree: QueueTree) -> Iterator[QueueClaim]:
        """Those of its queue with more priority, then those of others that may take back what it has too much."""
        node = use[0]
        own = [claim for claim in self._next_of(node.name, tree) if claim.priority > pod.priority]
        reserved = self._before(pod, node) if node.queue.reclaimable else Resources()
        over = beyond_deserved(node, reserved) if node.queue.reclaimable else set[str]()
        gives = bool(over) and may_give(use, over, reserved)
        yield from sorted(own, key=_order)
        for claim in self._in_order(tree) if gives else ():
            level = tree.get(claim.queue)
            if level is None or level is node:
                continue
            alone = may_reclaim([(level, claim.requests)], (), reserved_in(level))
            if claim.gang is not None or (_names(claim) & over and alone):
                yield claim

    def _in_order(self, tree: QueueTree) -> list[QueueClaim]:
        """The claims on queues that deserve something, in an order that is the same in a fresh process."""
        if self._ordered is None or self._ordered[0] is not tree:
            levels = [level for level in map(tree.get, self._entries) if level is not None and level.queue.is_open]
            names = [level.name for level in levels if level.queue.deserved.items]
            self._ordered = tree, sorted((claim for name in names for claim in self._entries[name]), key=_order)
        fifo = {name: self._next_of(name, tree) for name in self._entries if _is_fifo(tree.get(name))}
        return [claim for claim in self._ordered[1] if claim.queue not in fifo or claim in fifo[claim.queue]]

    def _next_of(self, queue: str, tree: QueueTree) -> list[QueueClaim]:
        """The claims on this queue: of a fifo queue that of the first entry alone."""
        entries, level = self._entries.get(queue), tree.get(queue)
        if not entries or level is None:
            return []
        if not _is_fifo(level):
            return list(entries)
        if queue not in self._lines:
            pods = (pod for each in entries.values() for pod in each.values())
            self._lines[queue] = sorted((QueuedPodInfo(pod).order, pod.key) for pod in pods)
        if queue not in self._first:
            claims = ((self._claim_of[key], key) for _, key in self._lines[queue])
            self._first[queue] = list(islice((claim for claim, key in claims if self._waits(claim, key)), 1))
        return self._first[queue]

    def _waits(self, claim: QueueClaim, pod: Key) -> bool:
        return not self._reserves(self._entries[claim.queue][claim][pod])

    def _waiting_with(self, claim: QueueClaim, among: Container[Key] | None) -> Iterator[Sequence[Pod]]:
        """The pods of each entry that waits with this claim."""
        for key, pod in list(self._entries.get(claim.queue, {}).get(claim, {}).items()):
            if among is not None and key not in among:
                continue
            pods = self._waiting(pod)
            if pods and not any(self._reserves(each) for each in pods):
                yield pods
            else:
                self.leave(key)


def _is_fifo(level: VolcanoQueueNode | None) -> bool:
    return level is not None and level.queue.dequeue is DequeueStrategy.FIFO


def _names(claim: QueueClaim) -> set[str]:
    return {name for name, _ in claim.requests.items}


def _order(claim: QueueClaim) -> tuple[int, str, tuple[tuple[str, int], ...], bool, str]:
    """The same order in a fresh process."""
    gang = str(claim.gang) if claim.gang is not None else ""
    return -claim.priority, claim.queue, claim.requests.items, claim.devices, gang
