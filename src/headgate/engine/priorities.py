"""What a workload's priority classes are worth, and which it is therefore before and safe from."""

from __future__ import annotations

from msgspec import Struct

from headgate.model.groups import Workload
from headgate.model.objects import Classes, PriorityClass


class Rank(Struct, frozen=True):
    """A workload's priority for getting nodes, and the one it has against losing them: never below the former."""

    priority: int
    preemption_priority: int
    preempts: bool = True


class UnknownClass(Struct, frozen=True):
    name: str

    def __str__(self) -> str:
        return f"no PriorityClass with name {self.name} was found"


class Priorities:
    def __init__(self) -> None:
        self._found: dict[str, PriorityClass] = {}
        self._classes = Classes.of(())

    def put(self, found: PriorityClass) -> None:
        self._found[found.key.name] = found
        self._classes = Classes.of(self._found.values())

    def drop(self, name: str, uid: str) -> None:
        known = self._found.get(name)
        if known is not None and known.uid == uid:
            del self._found[name]
            self._classes = Classes.of(self._found.values())

    def rank(self, workload: Workload) -> Rank | UnknownClass:
        """What the object says as numbers goes before what its classes are worth now: a class may be gone by then.

        Where nobody kept a preemption priority below the priority, as without our webhook, the priority counts.
        """
        chosen = workload.priority_class or self._classes.default
        priority = self._worth(workload.priority, chosen, 0)
        if priority is None:
            return UnknownClass(chosen)
        shield = self._worth(workload.preemption_priority, workload.preemption_priority_class, priority)
        if shield is None:
            return UnknownClass(workload.preemption_priority_class)
        allowed = chosen not in self._classes.never_preempt
        return Rank(priority, max(shield, priority), allowed if workload.preempts is None else workload.preempts)

    def _worth(self, said: int | None, name: str, otherwise: int) -> int | None:
        """As said, else of the class, else of one without a class; None when there is no such class."""
        if said is not None or not name:
            return otherwise if said is None else said
        return self._classes.values.get(name)
