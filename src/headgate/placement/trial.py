"""What if these pods left and those came? Tried on the table itself, and taken back."""

from __future__ import annotations

from types import TracebackType

from msgspec import Struct

from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.placement.table import NodeTable


class Came(Struct, frozen=True, gc=False):
    pod: Key


class Left(Struct, frozen=True, gc=False):
    pod: Pod
    node: str


class Trial:
    """Pods leave and come for as long as the block lasts; then every charge, port and census is as it was before.

    Trials nest; an inner one must end before anything more happens in the outer one.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._done: list[Came | Left] = []

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, trouble: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.back_to(0)

    def leave(self, pod: Key) -> bool:
        """The pod gives back what it was charged; False when it was charged nothing."""
        charge = self._nodes.charge_of(pod)
        if charge is None:
            return False
        node, charged = charge
        self._nodes.release(pod)
        self._done.append(Left(charged, node))
        return True

    def take(self, pod: Pod, node: str) -> None:
        """The pod takes its requests on that node, and on no other."""
        self.leave(pod.key)
        self._nodes.charge(pod, node)
        self._done.append(Came(pod.key))

    def mark(self) -> int:
        """How things stand now, to come back to."""
        return len(self._done)

    def back_to(self, mark: int) -> None:
        """Undo all that was done since the mark, the latest first."""
        while len(self._done) > mark:
            match self._done.pop():
                case Came(pod=key):
                    self._nodes.release(key)
                case Left(pod=pod, node=node):
                    self._nodes.charge(pod, node)
