"""What the containers of a pod ask for together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.model.quantity import parse_quantity

Nanos = dict[str, int]
"""Amounts by resource name."""


def nanos_of(amounts: Mapping[str, str | int | float]) -> Nanos:
    return {name: parse_quantity(str(amount)).nanos for name, amount in amounts.items()}


def together(containers: Iterable[Nanos], init_containers: Iterable[tuple[Nanos, bool]]) -> Nanos:
    """What containers and sidecars ask for at once, or an init container beside the sidecars before it.

    Init containers come with whether they are sidecars.
    """
    running = total(containers)
    most, sidecars = running, Nanos()
    for asked, is_sidecar in init_containers:
        if is_sidecar:
            sidecars = total((sidecars, asked))
            most = _largest(most, sidecars)
        else:
            most = _largest(most, total((sidecars, asked)))
    return _largest(most, total((running, sidecars)))


def total(parts: Iterable[Nanos]) -> Nanos:
    sums: Nanos = {}
    for part in parts:
        for name, nanos in part.items():
            sums[name] = sums.get(name, 0) + nanos
    return sums


def _largest(one: Nanos, other: Nanos) -> Nanos:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
