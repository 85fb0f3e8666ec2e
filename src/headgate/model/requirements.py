"""One demand on a set of labels: the atom of selectors and of node affinity."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct


class Operator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class Requirement(Struct, frozen=True, gc=False):
    """One demand on a set of labels; `values` are sorted."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        found = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return found is not None and found in self.values
            case Operator.NOT_IN:
                return found is None or found not in self.values
            case Operator.EXISTS:
                return found is not None
            case Operator.DOES_NOT_EXIST:
                return found is None
            case Operator.GREATER:
                return _compares(found, self.values, 1)
            case Operator.LESS:
                return _compares(found, self.values, -1)


def _compares(found: str | None, values: tuple[str, ...], sign: int) -> bool:
    """Both sides must be whole numbers; anything else never matches, as on a real cluster."""
    if found is None or len(values) != 1:
        return False
    try:
        return (int(found) - int(values[0])) * sign > 0
    except ValueError:
        return False
