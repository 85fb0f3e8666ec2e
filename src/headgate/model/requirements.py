"""One demand on a set of labels: the atom of selectors and of node affinity."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,63}")  # a label value has no more characters


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
    """Both sides must be whole numbers of 64 bits; anything else never matches, as on a real cluster."""
    if found is None or len(values) != 1:
        return False
    here, there = whole_number(found), whole_number(values[0])
    return here is not None and there is not None and (here - there) * sign > 0


def whole_number(text: str) -> int | None:
    """Stricter than `int`, which would also take blanks, underscores and other digits than 0 to 9."""
    if not _WHOLE_NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
