"""What a pod demands of nodes: selector requirements, affinity terms, tolerations."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from headgate.model.node import Taint, TaintEffect
from headgate.model.requirements import Operator, Requirement

__all__ = ["NodeTerm", "Operator", "PreferredTerm", "Requirement", "Toleration"]


class NodeTerm(Struct, frozen=True, gc=False):
    """All expressions (on labels) and fields (on metadata.name) must hold; an empty term matches nothing."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if not self.expressions and not self.fields:
            return False
        return all(part.holds(labels) for part in self.expressions) and all(
            part.holds({"metadata.name": name}) for part in self.fields
        )


class PreferredTerm(Struct, frozen=True, gc=False):
    weight: int
    term: NodeTerm


class Toleration(Struct, frozen=True, gc=False):
    """Empty key with `exists` tolerates every taint; an empty effect tolerates all effects."""

    key: str = ""
    exists: bool = False
    value: str = ""
    effect: TaintEffect | None = None
    seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        if self.effect is not None and self.effect is not taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.exists or self.value == taint.value
