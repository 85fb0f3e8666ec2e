"""The fields of whole objects, `spec` and `status` above all: much work is alike, so what is said there is too."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.apiserver.defaults_schema import compile_defaults, compile_pruning
from headgate.apiserver.known_values import KnownValues, Memory
from headgate.apiserver.messages import Json
from headgate.apiserver.quick_schema import compile_quick


class Part:
    """One field: of values that read the same, one is completed and checked, and stands for all."""

    def __init__(self, schema: Json) -> None:
        self._default, self._prune = compile_defaults(schema), compile_pruning(schema)
        self.rewrites = self._default is not None or self._prune is not None
        self._passes = compile_quick(schema)
        self._complete, self._right = KnownValues(), KnownValues()
        self._by_text: Memory[bytes, Any] = Memory()

    def completed(self, value: Any) -> Any:
        """With what is missing filled in and without what is unknown; the very same for values that read the same."""
        if not self.rewrites or value in self._complete:
            return value
        text = msgspec.json.encode(value)
        known = self._by_text.of(text)
        if known is None:
            known = value if self.is_right(value) else self._rewritten(value)
            self._by_text.put(text, known)
            self._complete.add(known)
        return known

    def is_right(self, value: Any) -> bool:
        """It is complete and nothing is wrong with it; no may mean perhaps."""
        if value in self._right:
            return True
        if not self._passes(value):
            return False
        if isinstance(value, dict | list):
            self._right.add(value)
        return True

    def _rewritten(self, value: Any) -> Any:
        value = value if self._default is None else self._default(value)
        return value if self._prune is None else self._prune(value)
