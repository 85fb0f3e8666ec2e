"""What all rules of a schema together see of whole objects: of many objects, few differ in that."""

from __future__ import annotations

from typing import Any

from headgate.apiserver.cel_reads import Reads, note_reads
from headgate.apiserver.cel_reduced import Reduction, compile_reduction, fields_read
from headgate.apiserver.cel_view import escaped, visible_fields
from headgate.apiserver.known_values import Memory
from headgate.apiserver.messages import Json

RULES = "x-kubernetes-validations"

Sight = tuple[bytes | None, ...]
"""The text of what is seen of each part, None for one that is not there."""


class _Part:
    """A field of whole objects. It outlives many changes beside it, first as what is new and then as what was."""

    def __init__(self, name: str, reduced: Reduction) -> None:
        self.name, self._reduced = name, reduced
        self._known: Memory[int, tuple[Any, bytes]] = Memory()  # by identity, kept with the value

    def text(self, value: Any) -> bytes:
        known = self._known.get(id(value))
        if known is None:
            known = (value, self._reduced(value))
            self._known.put(id(value), known)
        return known[1]


class Seen:
    """Objects that are seen alike are answered alike, in place of others that are seen alike."""

    def __init__(self, schema: Json) -> None:
        reads = Reads()
        _note_tree(schema, reads)
        self._is_clear = not (reads.whole or reads.size or reads.items)
        fields = visible_fields(schema, root=True)
        read = fields_read(fields, reads)
        self._parts = [_Part(name, compile_reduction(fields[name], of_field)) for name, of_field in read.items()]

    def lies_in(self, names: frozenset[str]) -> bool:
        """Whether nothing is seen but fields of these names."""
        return self._is_clear and names.issuperset(part.name for part in self._parts)

    def of(self, value: Any) -> Sight | None:
        """Nothing of one that is not there. None where it is not known what is seen."""
        if value is None:
            return ()
        if not self._is_clear or type(value) is not dict:
            return None
        return tuple([part.text(value[part.name]) if part.name in value else None for part in self._parts])


def has_rules(schema: Any) -> bool:
    """Whether there is any rule, here or below."""
    if not isinstance(schema, dict):
        return False
    below = (*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties"))
    return bool(schema.get(RULES)) or any(map(has_rules, below))


def _note_tree(schema: Json, reads: Reads) -> None:
    """Add what the rules of a schema and of all below it read, of new values and of old ones."""
    for rule in schema.get(RULES) or ():
        note_reads(rule["rule"], {"self": reads, "oldSelf": reads})
    for name, part in (schema.get("properties") or {}).items():
        if has_rules(part):
            _note_tree(part, _field(name, reads))
    if has_rules(schema.get("items")):
        of_items = reads.each_item()
        for key in schema.get("x-kubernetes-list-map-keys") or ():
            _field(key, of_items).whole = True  # by it an item is found among the old ones
        _note_tree(schema["items"], of_items)
    if has_rules(schema.get("additionalProperties")):
        reads.whole = True


def _field(name: str, reads: Reads) -> Reads:
    spelled = escaped(name)
    if spelled is None:
        reads.whole = True
        return Reads()
    return reads.field(spelled)
