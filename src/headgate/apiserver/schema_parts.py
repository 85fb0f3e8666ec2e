"""The fields of whole objects, `spec` and `status` above all: much work is alike, so what is said there is too."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.apiserver.defaults_schema import compile_defaults, compile_pruning
from headgate.apiserver.known_values import Memory, Remembered
from headgate.apiserver.messages import Json
from headgate.apiserver.quick_schema import compile_quick

_HAS_PARTS = frozenset({"properties", "additionalProperties", "items"})


class Part:
    """One field: of values that read the same, one is completed and checked, and stands for all."""

    def __init__(self, schema: Json) -> None:
        self._default, self._prune = compile_defaults(schema), compile_pruning(schema)
        self.rewrites = self._default is not None or self._prune is not None
        self._passes = compile_quick(schema)
        self._completed: Remembered[Any] = Remembered()
        self._by_text: Memory[bytes, Any] = Memory()
        self._right = Remembered[bool]() if not _HAS_PARTS.isdisjoint(schema) else None  # else soon found out again

    def completed(self, value: Any) -> Any:
        """With what is missing filled in and without what is unknown; the very same for values that read the same."""
        known = self._completed.of(value)
        if known is None:
            known = self._of_text(value)
            self._completed.put(value, known)
        return known

    def is_right(self, value: Any) -> bool:
        """It is complete and nothing is wrong with it; no may mean perhaps."""
        if self._right is None:
            return self._passes(value)
        if self._right.of(value):
            return True
        if not self._passes(value):
            return False
        self._right.put(value, True)
        return True

    def _of_text(self, value: Any) -> Any:
        text = msgspec.json.encode(value)
        known = self._by_text.of(text)
        if known is None:
            known = value if self.is_right(value) else self._rewritten(value)
            self._by_text.put(text, known)
            self._completed.put(known, known)
        return known

    def _rewritten(self, value: Any) -> Any:
        value = value if self._default is None else self._default(value)
        return value if self._prune is None else self._prune(value)
