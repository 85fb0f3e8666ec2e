"""Manifests of a scenario: checks before any server sees them, and shorthand for nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from headgate.model.quantity import InvalidQuantity, parse_quantity
from headgate.world.cron_jobs import UTC_NAMES, InvalidSchedule, parse_schedule
from headgate.world.nodes import InvalidBehaviour, behaviour_of

Manifest = dict[str, Any]


class Duration(float):
    """Seconds, written Go-style."""


class NodeBatch(Struct, frozen=True, forbid_unknown_fields=True):
    """`count` equal nodes; %d in the name is the number of each, from 0."""

    name: str
    count: int = 1
    capacity: dict[str, str | int | float] = {}
    labels: dict[str, str] = {}
    taints: tuple[Manifest, ...] = ()


def node_manifests(batch: NodeBatch) -> list[Manifest]:
    """Raises ValueError when the batch cannot be named."""
    if batch.count < 0:
        raise ValueError(f"expected a count of at least 0, got {batch.count}")
    if batch.count > 1 and "%d" not in batch.name:
        raise ValueError(f'expected a name with %d for {batch.count} nodes, got "{batch.name}"')
    names = [batch.name.replace("%d", str(number)) for number in range(batch.count)]
    return [node_manifest(name, batch.capacity, batch.labels, batch.taints) for name in names]


def node_manifest(
    name: str, capacity: Mapping[str, Any], labels: Mapping[str, str], taints: tuple[Manifest, ...]
) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"taints": list(taints)} if taints else {},
        "status": {"capacity": dict(capacity)},
    }


def check_manifest(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """What is wrong with the manifest: pairs of a path in it and what was expected there."""
    for field in ("apiVersion", "kind"):
        if not isinstance(manifest.get(field), str) or not manifest[field]:
            yield field, "expected text, got none"
    metadata = manifest.get("metadata")
    if not isinstance(metadata, Mapping) or not (metadata.get("name") or metadata.get("generateName")):
        yield "metadata.name", "expected a name, got none"
    for path, kind, expected in _SHAPES:
        found = _at(manifest, path)
        if found is not None and not isinstance(found, kind):
            yield path, f"expected {expected}, got {found!r:.60}"
    yield from _check_behaviour(manifest)
    yield from _check_schedule(manifest)


_SHAPES: tuple[tuple[str, type, str], ...] = (
    ("metadata.name", str, "text"),
    ("metadata.namespace", str, "text"),
    ("metadata.labels", Mapping, "a mapping"),
    ("status", Mapping, "a mapping"),
    ("status.capacity", Mapping, "a mapping"),
    ("status.allocatable", Mapping, "a mapping"),
)
"""Types of the fields that are read before a server has checked them."""


_POD_ANNOTATIONS = {
    "Pod": "metadata.annotations",
    "CronJob": "spec.jobTemplate.spec.template.metadata.annotations",
    **dict.fromkeys(("Job", "Deployment", "ReplicaSet", "StatefulSet"), "spec.template.metadata.annotations"),
}
"""Where each kind says how its pods behave."""


def _check_schedule(manifest: Manifest) -> Iterator[tuple[str, str]]:
    if manifest.get("kind") != "CronJob":
        return
    try:
        parse_schedule(str(_at(manifest, "spec.schedule") or ""))
    except InvalidSchedule as error:
        yield "spec.schedule", str(error)
    if (zone := _at(manifest, "spec.timeZone")) not in (None, *UTC_NAMES):
        yield "spec.timeZone", f"expected UTC, because other time zones are not simulated, got {zone!r:.60}"


def _check_behaviour(manifest: Manifest) -> Iterator[tuple[str, str]]:
    path = _POD_ANNOTATIONS.get(str(manifest.get("kind")))
    annotations = _at(manifest, path) if path else None
    if not isinstance(annotations, Mapping):
        return
    try:
        behaviour_of({name: str(value) for name, value in annotations.items()})
    except InvalidBehaviour as error:
        yield f"{path}[{error.annotation}]", str(error)


def unreadable_quantity(manifest: Manifest) -> tuple[str, str] | None:
    """The path of the first amount of a resource that is no quantity, and what was expected there."""
    for path, value in _amounts(manifest, ""):
        try:
            parse_quantity(str(value))
        except InvalidQuantity:
            shown = path.removeprefix("status.") if manifest.get("kind") == "Node" else path
            return shown, f"expected a quantity such as 500m or 2Gi, got {value!r:.60}"
    return None


_AMOUNTS = ("resources.requests", "resources.limits", "status.capacity", "status.allocatable", "spec.overhead")


def _amounts(part: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Paths and values of all amounts of resources."""
    if isinstance(part, list):
        for index, item in enumerate(part):
            yield from _amounts(item, f"{path}[{index}]")
    elif isinstance(part, Mapping):
        for name, value in part.items():
            inner = f"{path}.{name}" if path else name
            if path.endswith(_AMOUNTS):
                yield inner, value
            else:
                yield from _amounts(value, inner)


def _at(manifest: Any, path: str) -> Any:
    for part in path.split("."):
        manifest = manifest.get(part) if isinstance(manifest, Mapping) else None
    return manifest
