"""What priority classes are worth, by the rules Kubernetes has for pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from headgate.model.objects import PriorityClass

SYSTEM_CLASSES: Mapping[str, int] = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""There is no cluster without these."""


class Classes(Struct, frozen=True):
    """Every priority class by its value, and the one that work without a class gets; empty where there is none."""

    values: Mapping[str, int]
    default: str = ""
    never_preempt: frozenset[str] = frozenset()

    @classmethod
    def of(cls, found: Iterable[PriorityClass]) -> Classes:
        """Of several default classes the lowest counts."""
        classes = sorted(found, key=lambda one: (one.value, one.key.name))
        default = next((one.key.name for one in classes if one.is_default), "")
        polite = frozenset(one.key.name for one in classes if not one.preempts)
        return cls({**SYSTEM_CLASSES, **{one.key.name: one.value for one in classes}}, default, polite)
