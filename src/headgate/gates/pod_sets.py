"""May a queued workload have these pod sets? They are looked at as the manifest has them: `spec.podSets`, verbatim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from headgate.gates.field_errors import NEGATIVE, FieldError, immutable, invalid
from headgate.model.quantity import InvalidQuantity, parse_quantity

Json = Mapping[str, Any]

PATH = "spec.podSets"
REMEMBERED = 4_096
"""How many different pod sets are known; the ones not asked about for longest go first."""
PODS = "pods"
"""The resource under which quota counts the pods themselves."""


def template_errors(pod_sets: Sequence[Json]) -> tuple[FieldError, ...]:
    """Amounts no pod can ask for. Much work is alike and looked at once."""
    return _errors_in(msgspec.json.encode(pod_sets))


@lru_cache(maxsize=REMEMBERED)
def _errors_in(text: bytes) -> tuple[FieldError, ...]:
    pod_sets: list[Json] = msgspec.json.decode(text)
    return tuple(
        error for index, pod_set in enumerate(pod_sets) for error in _template_errors(pod_set, f"{PATH}[{index}]")
    )


def pod_set_change_errors(new: Sequence[Json], old: Sequence[Json], *, may_shrink: bool = False) -> list[FieldError]:
    """What may not change while quota is reserved: everything, but an elastic workload `may_shrink`."""
    if new is old:
        return []
    if len(new) != len(old):
        return [immutable(PATH)]
    return [
        immutable(f"{PATH}[{index}]")
        for index, (now, before) in enumerate(zip(new, old, strict=True))
        if not _same(now, before, may_shrink)
    ]


def _same(new: Json, old: Json, may_shrink: bool) -> bool:
    if may_shrink and new.get("count", 1) < old.get("count", 1):
        new = {**new, "count": old.get("count", 1)}
    return new == old


def _template_errors(pod_set: Json, path: str) -> Iterator[FieldError]:
    spec = (pod_set.get("template") or {}).get("spec") or {}
    here = f"{path}.template.spec"
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield from _needs_errors(container.get("resources") or {}, f"{here}.{field}[{index}].resources")
    yield from _needs_errors(spec.get("resources") or {}, f"{here}.resources")
    yield from _amounts_errors(spec.get("overhead") or {}, f"{here}.overhead")


def _needs_errors(needs: Json, path: str) -> Iterator[FieldError]:
    for field in ("requests", "limits"):
        yield from _amounts_errors(needs.get(field) or {}, f"{path}.{field}")


def _amounts_errors(amounts: Json, path: str) -> Iterator[FieldError]:
    for name, amount in amounts.items():
        if name == PODS:
            yield invalid(f"{path}[{name}]", name, "the key is reserved for internal kueue use")
        try:
            if parse_quantity(str(amount)).nanos < 0:
                yield invalid(f"{path}[{name}]", str(amount), NEGATIVE)
        except InvalidQuantity as wrong:
            yield invalid(f"{path}[{name}]", str(amount), wrong.reason)
