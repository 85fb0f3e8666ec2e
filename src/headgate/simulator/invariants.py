"""What must hold after every step of a run. Only what the step touched is looked at."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.engine.journal import Journal
from headgate.model.effects import Bind, Effect, RemoveGate
from headgate.model.events import Gone, Observed, Outcome, Trouble
from headgate.model.keys import Key, Kind
from headgate.model.node import Node
from headgate.model.objects import Object
from headgate.model.pod import Pod, PodShape
from headgate.simulator.observing import Sight

PODS = "pods"
ROOM_KINDS = frozenset({Kind.POD, Kind.NODE})
"""What RoomKept must see."""
OUR_GATES = frozenset({"scheduling.volcano.sh/queue-allocation-gate"})


class BrokenInvariant(AssertionError):
    """Our mistake, with the story of the object it happened to."""

    def __init__(self, what: str, key: Key, journal: Journal | None) -> None:
        entries = journal.about(key) if journal is not None else ()
        story = [f"  {entry.decision} {entry.reason}: {entry.message}" for entry in entries]
        super().__init__("\n".join([f"{key}: {what}", *story]))


class BoundOnce:
    """No pod is ever on two nodes. Checked on what is true, whatever our process has seen of it."""

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}

    def check(self, sights: Iterable[Sight], journal: Journal | None) -> None:
        for sight in sights:
            match sight:
                case Observed(Pod() as pod) if pod.node:
                    before = self._node_of.setdefault(pod.uid, pod.node)
                    if before != pod.node:
                        raise BrokenInvariant(f"bound to {before}, then to {pod.node}", pod.key, journal)
                case Gone(key, uid) if key.kind is Kind.POD:
                    self._node_of.pop(uid, None)


class RoomKept:
    """No binding of ours puts more on a node than it can take, by what our process could know when it decided.

    Kept apart from the engine's own books on purpose: it counts what was shown to the engine and what took hold.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._charged: dict[str, tuple[str, PodShape]] = {}  # by pod uid
        self._used: dict[str, dict[str, int]] = {}  # by node

    def saw(self, sights: Iterable[Sight]) -> None:
        for sight in sights:
            match sight:
                case Observed(Pod() as pod):
                    self._see(pod)
                case Observed(Node() as node):
                    self._nodes[node.name] = node
                case Gone(key, uid):
                    self._release(uid)
                    if key.kind is Kind.NODE:
                        self._nodes.pop(key.name, None)

    def heard(self, outcome: Outcome) -> None:
        """A pod that is not there any more takes no room, seen to go or not."""
        if isinstance(outcome.effect, Bind) and outcome.trouble is Trouble.GONE:
            self._release(outcome.effect.target.uid)

    def bound(self, bind: Bind, pod: Pod, journal: Journal | None) -> None:
        """The binding took hold."""
        self._release(pod.uid)
        self._charge(pod.uid, bind.node, pod.shape)
        node = self._nodes.get(bind.node)
        if node is None:
            return  # the node went before the binding came; whoever looks after nodes removes the pod
        for name, _ in (*pod.shape.requests.items, (PODS, 1)):
            used, room = self._used[bind.node][name], node.allocatable[name]
            if used > room:
                raise BrokenInvariant(f"{node.name} has {room} {name}, its pods take {used}", pod.key, journal)

    def _see(self, pod: Pod) -> None:
        if pod.holds_room:
            self._release(pod.uid)
            self._charge(pod.uid, pod.node, pod.shape)
        elif pod.node:
            self._release(pod.uid)

    def _charge(self, uid: str, node: str, shape: PodShape) -> None:
        self._charged[uid] = (node, shape)
        self._add(node, shape, 1)

    def _release(self, uid: str) -> None:
        charged = self._charged.pop(uid, None)
        if charged is not None:
            self._add(*charged, -1)

    def _add(self, node: str, shape: PodShape, sign: int) -> None:
        used = self._used.setdefault(node, {})
        used[PODS] = used.get(PODS, 0) + sign
        for name, amount in shape.requests.items:
            used[name] = used.get(name, 0) + sign * amount


def check_gates(effect: Effect, journal: Journal | None) -> None:
    """Foreign gates are never touched."""
    if isinstance(effect, RemoveGate) and effect.gate not in OUR_GATES:
        raise BrokenInvariant(f"was to lose the foreign gate {effect.gate}", effect.target.key, journal)


def check_nothing_lost(objects: Iterable[Object], served: frozenset[str], journal: Journal) -> None:
    """Every pod that wants a node from us has a story: at least why it waits."""
    for found in objects:
        if (
            isinstance(found, Pod)
            and found.wants_node
            and found.scheduler_name in served
            and not journal.about(found.key)
        ):
            raise BrokenInvariant("waits and nobody can say why", found.key, journal)
