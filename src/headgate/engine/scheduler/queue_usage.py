"""What pods on nodes use of Volcano's queues: of each pod, and the account of every queue in their tree.

What is reserved is in the same accounts (`queue_reservations`); when it is, `queue_capacity` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from headgate.model.keys import Key
from headgate.model.resources import Resources
from headgate.model.volcano import VolcanoQueue
from headgate.preemption.volcano import Use
from headgate.quota.volcano import QueueTree, VolcanoQueueNode


class PodUse(Struct, frozen=True):
    """What a pod on a node uses of its queue."""

    queue: str
    requests: Resources


class VolcanoUsage:
    """Once the queues have changed, `is_stale`, there are no accounts until they are built anew."""

    def __init__(self, queues: Mapping[str, VolcanoQueue], outdated: Callable[[], None]) -> None:
        self._queues = queues
        self._outdated = outdated  # called when an account changes: what was answered may be different now
        self.tree = QueueTree(())
        self.is_stale = True
        self.of_pods: dict[Key, PodUse] = {}  # on nodes, bound or assumed
        self._pods: dict[str, dict[Key, None]] = {}  # of these, by queue
        self._leaving: dict[Key, PodUse] = {}  # of these, those being deleted
        self.changes = 0  # how often the use or the limits of a queue changed
        self.touched: dict[str, None] = {}  # queues whose accounts have changed

    # the tree

    def queues_changed(self) -> None:
        """A queue has another limit, place or state, or is new or gone."""
        self.is_stale = True
        self.changes += 1

    def rebuild(self) -> None:
        """Builds the accounts of the queues as they are now, with what pods use and nothing reserved."""
        self.tree = QueueTree(self._queues.values())
        self.is_stale = False
        self._outdated()
        for use in self.of_pods.values():
            if (node := self.changing(use.queue)) is not None:
                node.add(use.requests)
        self.touched |= dict.fromkeys(self._queues)  # another place in the tree is another state, and other totals

    def node(self, queue: str) -> VolcanoQueueNode | None:
        return self.tree.get(queue)

    def changing(self, queue: str) -> VolcanoQueueNode | None:
        """The account of a queue of which other amounts are used or reserved from now on; None if there is none."""
        self._outdated()
        self.touched[queue] = None
        return None if self.is_stale else self.tree.get(queue)

    # pods

    def put(self, pod: Key, use: PodUse) -> None:
        """A pod that used nothing uses this from now on."""
        self.of_pods[pod] = use
        self._pods.setdefault(use.queue, {})[pod] = None
        self.changes += 1
        if (node := self.changing(use.queue)) is not None:
            node.add(use.requests)

    def drop(self, pod: Key) -> PodUse | None:
        """What the pod used; it uses nothing from now on."""
        use = self.of_pods.pop(pod, None)
        self._leaving.pop(pod, None)
        if use is None:
            return None
        self.changes += 1
        self._pods[use.queue].pop(pod)
        if not self._pods[use.queue]:
            del self._pods[use.queue]
        if (node := self.changing(use.queue)) is not None:
            node.remove(use.requests)
        return use

    def has_pods(self, queue: str) -> bool:
        return queue in self._pods

    def pods_of(self, queue: str) -> tuple[Key, ...]:
        return tuple(self._pods.get(queue, ()))

    # pods that are being deleted

    def leaves(self, pod: Key) -> bool:
        """Whether it is news that what the pod uses will be free."""
        use = self.of_pods.get(pod)
        if use is None or self._leaving.get(pod) == use:
            return False
        self._leaving[pod] = use
        return True

    def stays(self, pod: Key) -> bool:
        """Whether it is news that the pod is not being deleted."""
        return self._leaving.pop(pod, None) is not None

    def going(self) -> Iterator[Use]:
        """What will be free when the pods that are being deleted are gone."""
        found = [(self.tree.get(use.queue), use.requests) for use in self._leaving.values()]
        return ((node, requests) for node, requests in found if node is not None)
