"""What the rules of one schema answer, remembered by what they can see: of many objects alike, one is evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from headgate.apiserver.cel import EvaluationError, Reads, ValidationRule, compile_reduction, compile_view, note_reads
from headgate.apiserver.messages import Json

REMEMBERED = 8_192
"""How many answers are kept for the rules of one schema; the one not asked for longest goes first."""


class Objection(NamedTuple):
    """A rule that does not hold and what it says about that, or why it could not be evaluated."""

    rule: ValidationRule
    said: str | EvaluationError


class Answers:
    """Asks all rules about a value and the one it replaces."""

    def __init__(self, schema: Json, rules: Sequence[ValidationRule], *, root: bool) -> None:
        self._rules = rules
        new, old = Reads(), Reads()
        for rule in rules:
            for expression in rule.expressions:
                note_reads(expression.text, {"self": new, "oldSelf": old})
        self._new = compile_reduction(schema, new, root=root)
        self._old = compile_reduction(schema, old, root=root)
        self._see = compile_view(schema, root=root)
        self._uses_old = any(rule.uses_old for rule in rules)
        self._remembered = lru_cache(maxsize=REMEMBERED)(self._evaluated)

    def about(self, new: Any, old: Any) -> tuple[Objection, ...]:
        """The rules that do not hold, in order; `old` is None where there is none."""
        before = self._old(old) if old is not None and self._uses_old else None
        return self._remembered(self._new(new), before)

    def _evaluated(self, read: bytes, before: bytes | None) -> tuple[Objection, ...]:
        new = self._see(msgspec.json.decode(read))
        old = None if before is None else self._see(msgspec.json.decode(before))
        asked = [rule for rule in self._rules if rule.concerns(old)]
        answered = [(rule, rule.test.evaluate(new, old)) for rule in asked]
        return tuple(_objection(rule, held, new, old) for rule, held in answered if held is not True)


def _objection(rule: ValidationRule, held: Any, new: Any, old: Any) -> Objection:
    return Objection(rule, held if isinstance(held, EvaluationError) else rule.complaint(new, old))
