"""A structural OpenAPI v3 schema at work: what it completes, what it drops, what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import structs

from headgate.apiserver.defaults_schema import compile_defaults, compile_pruning
from headgate.apiserver.errors import FieldError
from headgate.apiserver.messages import Json
from headgate.apiserver.validate_rules import RuleTree
from headgate.apiserver.validate_schema import compile_validation

_IDENTITY: Json = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
_METADATA: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Schema:
    """A schema compiled once and used for every object. Values are never changed, new ones share what they can."""

    def __init__(self, document: Json) -> None:
        self._defaults = compile_defaults(document, root=True)
        self._pruning = compile_pruning(document, root=True)
        self._validation = compile_validation(document)
        self._status = compile_validation((document.get("properties") or {}).get("status") or {})
        self._rules = RuleTree(document, root=True)

    def default(self, value: Any) -> Any:
        """Missing fields filled in, nulls that may not be taken out."""
        return value if self._defaults is None else self._defaults(value)

    def prune(self, value: Any) -> Any:
        """Without the fields the schema does not know."""
        return value if self._pruning is None else self._pruning(value)

    def complete(self, value: Any) -> Any:
        """Pruned and defaulted; doing it again changes nothing."""
        return self.prune(self.default(value))

    def errors(self, value: Any, path: str = "") -> list[FieldError]:
        """What is wrong with the value, in a real server's words."""
        errors: list[FieldError] = []
        self._validation(value, path, errors)
        return errors

    def status_errors(self, value: Json) -> list[FieldError]:
        """What is wrong with the status alone; a real server's words then name fields as if there were no more."""
        errors: list[FieldError] = []
        if "status" in value:
            self._status(value["status"], "", errors)
        return [structs.replace(error, path=f"status.{error.path}" if error.path else "status") for error in errors]

    def rule_errors(self, new: Any, old: Any, found: Sequence[FieldError]) -> list[FieldError]:
        """What the rules in CEL refuse; `old` is None for a new object, `found` the errors found before."""
        return self._rules.errors(new, old, found)


def resource_schema(document: Json) -> Schema:
    """The schema of a custom resource, which has an identity beside what the schema says; metadata is the server's."""
    return _compiled(msgspec.json.encode(document))


@lru_cache(maxsize=64)  # many servers serve the same kinds, and compiling a schema is slow
def _compiled(encoded: bytes) -> Schema:
    document: Json = msgspec.json.decode(encoded)
    properties = {**_IDENTITY, **(document.get("properties") or {}), "metadata": _METADATA}
    return Schema({**document, "properties": properties})
