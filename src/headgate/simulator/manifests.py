"""Manifests of a scenario: YAML as Kubernetes reads it, checks before any server sees them, shorthand for nodes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import yaml
from msgspec import Struct

from headgate.world.nodes import InvalidBehaviour, behaviour_of

Manifest = dict[str, Any]

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C loader where PyYAML has it
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_MERGE = "tag:yaml.org,2002:merge"


class InvalidYaml(Exception):
    """Names the line and column, and what was expected there."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place, self.problem = place, problem


class _Loader(_Base):  # type: ignore[misc]  # which base depends on how PyYAML was built
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        merges = any(key.tag == _MERGE for key, _ in node.value)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        if not merges and len(mapping) != len(node.value):
            raise _duplicate_key(node)
        return {key if isinstance(key, str) else _as_text(key): value for key, value in mapping.items()}


def _duplicate_key(node: yaml.MappingNode) -> yaml.MarkedYAMLError:
    seen: dict[str, None] = {}
    for key, _ in node.value:
        if key.value in seen:
            return yaml.MarkedYAMLError(problem=f'duplicate key "{key.value}"', problem_mark=key.start_mark)
        seen[key.value] = None
    return yaml.MarkedYAMLError(problem="duplicate key", problem_mark=node.start_mark)


def _as_text(key: Hashable) -> str:
    """Keys become strings as in Kubernetes, because JSON has no others."""
    return str(key).lower() if isinstance(key, bool) else str(key)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}


def read_yaml(text: str | bytes) -> object:
    """The one document in the text; raises InvalidYaml."""
    try:
        document: object = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        expected = error.context if (error.context or "").startswith("expected") else None
        raise InvalidYaml(place, " ".join(filter(None, (expected, error.problem)))) from None
    except yaml.YAMLError as error:
        raise InvalidYaml("", f"expected YAML: {str(error).splitlines()[0]}") from None
    return document


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
            yield path, f"expected {expected}, got {found!r}"
    yield from _check_behaviour(manifest)


_SHAPES: tuple[tuple[str, type, str], ...] = (
    ("metadata.name", str, "text"),
    ("metadata.namespace", str, "text"),
    ("metadata.labels", Mapping, "a mapping"),
    ("status", Mapping, "a mapping"),
    ("status.capacity", Mapping, "a mapping"),
    ("status.allocatable", Mapping, "a mapping"),
)
"""Types of the fields that are read before a server has checked them."""


def _check_behaviour(manifest: Manifest) -> Iterator[tuple[str, str]]:
    path = {"Pod": "metadata.annotations", "Job": "spec.template.metadata.annotations"}.get(str(manifest.get("kind")))
    annotations = _at(manifest, path) if path else None
    if not isinstance(annotations, Mapping):
        return
    try:
        behaviour_of({name: str(value) for name, value in annotations.items()})
    except InvalidBehaviour as error:
        yield f"{path}[{error.annotation}]", str(error)


def _at(manifest: Any, path: str) -> Any:
    for part in path.split("."):
        manifest = manifest.get(part) if isinstance(manifest, Mapping) else None
    return manifest
