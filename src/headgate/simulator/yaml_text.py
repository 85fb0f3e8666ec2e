"""YAML as Kubernetes reads it: dates stay text, a key may stand only once, the whole is one document."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one written in C where it was built
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_MERGE = "tag:yaml.org,2002:merge"


class InvalidYaml(Exception):
    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place, self.problem = place, problem


class _Loader(_Base):  # type: ignore[misc]  # which base depends on how PyYAML was built
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        merges = any(key.tag == _MERGE for key, _ in node.value)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        if not merges and len(mapping) != len(node.value):
            raise _stands_twice(node)
        return {key if isinstance(key, str) else _as_text(key): value for key, value in mapping.items()}


def _stands_twice(node: yaml.MappingNode) -> yaml.MarkedYAMLError:
    seen: dict[str, None] = {}
    for key, _ in node.value:
        if key.value in seen:
            return yaml.MarkedYAMLError(problem=f'"{key.value}" stands here twice', problem_mark=key.start_mark)
        seen[key.value] = None
    return yaml.MarkedYAMLError(problem="a key stands here twice", problem_mark=node.start_mark)


def _as_text(key: Hashable) -> str:
    """JSON knows only text as keys; YAML's other keys become what Kubernetes makes of them."""
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
