"""A structural OpenAPI v3 schema at work: what it completes, what it drops, what it refuses.

Rules written in CEL (`x-kubernetes-validations`) are left alone here.
"""

from __future__ import annotations

from typing import Any

from headgate.apiserver.defaults_schema import compile_defaults, compile_pruning
from headgate.apiserver.errors import FieldError
from headgate.apiserver.messages import Json
from headgate.apiserver.validate_schema import compile_validation

_IDENTITY: Json = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
_METADATA: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Schema:
    """A schema compiled once and used for every object. Values are never changed, new ones share what they can."""

    def __init__(self, document: Json) -> None:
        self._defaults = compile_defaults(document)
        self._pruning = compile_pruning(document)
        self._validation = compile_validation(document)

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


def resource_schema(document: Json) -> Schema:
    """The schema of a custom resource, which has an identity beside what the schema says; metadata is the server's."""
    properties = {**_IDENTITY, **(document.get("properties") or {}), "metadata": _METADATA}
    return Schema({**document, "properties": properties})
