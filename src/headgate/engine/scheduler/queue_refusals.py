"""What a Volcano queue says to a pod that it does not let start: the words, the numbers, and what may change it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from headgate.engine.scheduler.capacity import NotNow
from headgate.engine.scheduler.queue_claims import KeptCapacity
from headgate.model.cluster_events import ClusterEvent
from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.model.volcano import QUEUE_GATES, VolcanoQueue, asks_for_gate
from headgate.quota.volcano import Shortage

GATED, UNSCHEDULABLE = "SchedulingGated", "Unschedulable"
WAKE_ON = frozenset({ClusterEvent.QUEUE_CAPACITY_FREED})


class RefusedPod(Struct, frozen=True):
    """The pod that is refused, after so many `allowed` before it that start with it or are tried with it."""

    pod: Pod
    queue: str
    allowed: int
    alike: tuple[object, ...]  # what it shares with others that get the same answer

    def misplaced(self, why: str) -> NotNow:
        return self._not_now(f"waiting for its queue: {why or f'queue {self.queue} does not exist'}")

    def closed(self, queue: VolcanoQueue) -> NotNow:
        return self._not_now(f"waiting for queue {self.queue} to be open: it is {queue.state or 'Closing'}")

    def limited(self, devices: str) -> NotNow:
        refused = self._not_now(f"waiting for its queue: {devices}")
        return msgspec.structs.replace(refused, equivalence=(*self.alike, devices))

    def behind(self, head: Key) -> NotNow:
        return self._not_now(f"waiting behind {head.namespace}/{head.name}, the first in queue {self.queue}")

    def short(self, short: Shortage | None, *, reclaims: bool) -> NotNow:
        """A queue that `reclaims` may take back from one that comes to use more than it deserves."""
        numbers = short.numbers if short is not None else {}
        refused = self._not_now(f"waiting for queue capacity: {short}", numbers)
        if reclaims:
            return msgspec.structs.replace(refused, wake_on=WAKE_ON | {ClusterEvent.CANDIDATES_CHANGED})
        return refused

    def group_short(self, short: Shortage | None) -> NotNow:
        refused = self._not_now(f"waiting for queue capacity for the minResources of its group: {short}")
        return msgspec.structs.replace(refused, wake_on=WAKE_ON | {ClusterEvent.MEMBERS_CHANGED})

    def others_only(self, members: int) -> NotNow:
        """The queue has capacity for so many of the other members of its gang."""
        return self._not_now(
            f"waiting for queue capacity: queue {self.queue} has some for {members} pods of its group only"
        )

    def kept(self, kept: KeptCapacity, theirs: str) -> NotNow:
        """The first of those for whom it is kept is in the queue `theirs`."""
        return self._not_now(*kept.says(self.queue, theirs))

    def rests(self, why: str, timeout: float) -> NotNow:
        """No node came in time: the pod does not reserve capacity again yet."""
        return msgspec.structs.replace(self._not_now(why, {"timeout": str(timeout)}), reason=GATED)

    def _not_now(self, message: str, numbers: Mapping[str, int | str] | None = None) -> NotNow:
        said = {"queue": self.queue, **(numbers or {})}
        return NotNow(reason_for(self.pod), message, WAKE_ON, said, self.allowed, self.alike)


def of_whole_gang(refused: NotNow, pods: int, short: Shortage | None) -> NotNow:
    """The same with the numbers of all so many pods that start together."""
    if short is None:
        return refused
    message = f"waiting for queue capacity for {pods} pods of its gang: {short}"
    return msgspec.structs.replace(refused, message=message, numbers={**refused.numbers, **short.numbers})


def opted_in(pod: Pod) -> bool:
    """Whether the pod waits for its queue behind our gate, or did."""
    if asks_for_gate(pod.annotations) or pod.reserved_at is not None:
        return True
    return any(gate in QUEUE_GATES for gate in pod.gates)


def reason_for(pod: Pod) -> str:
    """The reason of a pod that its queue does not allow: without having asked for the gate, that of Volcano."""
    return GATED if opted_in(pod) else UNSCHEDULABLE
