"""The fields of whole objects, `spec` and `status` above all: revisions share them, so each is looked at once."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from headgate.apiserver.defaults_schema import compile_defaults, compile_pruning
from headgate.apiserver.known_values import Memory
from headgate.apiserver.messages import Json
from headgate.apiserver.quick_schema import Test, compile_quick

_HAS_PARTS = frozenset({"properties", "additionalProperties", "items"})


class _Known(Struct, frozen=True, gc=False):
    """What was found out of one value, which is kept so that no other can take its identity."""

    value: Any
    completed: Any
    right: bool  # no may mean perhaps


class Part:
    """One field: of each value it is found out once how it is completed and whether that is right."""

    def __init__(self, schema: Json) -> None:
        self._default, self._prune = compile_defaults(schema), compile_pruning(schema)
        self.rewrites = self._default is not None or self._prune is not None
        self._passes = compile_quick(schema)
        self._known: Memory[int, _Known] = Memory()
        self.is_right: Test = self._is_known_right if not _HAS_PARTS.isdisjoint(schema) else self._passes
        """Whether a value is complete and nothing is wrong with it; no may mean perhaps. What has no parts is soon
        found out again.
        """

    def completed(self, value: Any) -> Any:
        """With what is missing filled in and without what is unknown; the very same at every time."""
        return (self._known.get(id(value)) or self._looked_at(value)).completed

    def _is_known_right(self, value: Any) -> bool:
        return (self._known.get(id(value)) or self._looked_at(value)).right

    def _looked_at(self, value: Any) -> _Known:
        right = self._passes(value)
        known = _Known(value, value if right else self._rewritten(value), right)
        self._known.put(id(value), known)
        return known

    def _rewritten(self, value: Any) -> Any:
        value = value if self._default is None else self._default(value)
        return value if self._prune is None else self._prune(value)
