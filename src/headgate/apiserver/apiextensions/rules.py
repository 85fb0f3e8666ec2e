"""The CEL rules of a schema, evaluated for each value and the old value it is correlated with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from headgate.apiserver.caches import SATISFIED_RULES, Cache
from headgate.apiserver.cel import (
    EMBEDDED,
    VALIDATIONS,
    EvaluationError,
    ObjectView,
    Reads,
    ReducedObject,
    ValidationRule,
    compile_rule,
    compile_view,
    field_path,
    has_rules,
    note_reads,
)
from headgate.apiserver.field_errors import OMITTED, Complaint, FieldError, invalid
from headgate.apiserver.messages import Json

UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
NIL_PATH = "<nil>"  # the path a real server shows for the whole object
_BLOCKING = frozenset({Complaint.NOT_SUPPORTED, Complaint.REQUIRED, Complaint.TOO_LONG, Complaint.TOO_MANY})
_COMPLAINTS = {
    "FieldValueForbidden": Complaint.FORBIDDEN,
    "FieldValueRequired": Complaint.REQUIRED,
    "FieldValueDuplicate": Complaint.DUPLICATE,
}


_Pair = tuple[Any, Any]
"""A value and its correlated old value, None where there is none."""


class SchemaRules:
    """All CEL rules of a schema. Objects that agree in what the rules read are evaluated once."""

    def __init__(self, schema: Json) -> None:
        """The rules of the schema must compile."""
        self._tree = _tree(schema, root=True)
        self._view = ObjectView(schema)
        self.read_spec_and_status_only = self._view.lies_in(frozenset({"spec", "status"}))
        self._satisfied: Cache[tuple[ReducedObject, ReducedObject], bool] = Cache(SATISFIED_RULES)

    def errors(self, new: Any, old: Any, found: Sequence[FieldError]) -> list[FieldError]:
        """What the rules refuse. They are not evaluated if an error in `found` makes the object too broken, as on a
        real server.
        """
        if self._tree is None:
            return []
        if found and any(error.complaint in _BLOCKING or error.wrong_type for error in found):
            return [invalid(NIL_PATH, None, UNCHECKED)]
        now, before = self._view.of(new), self._view.of(old)
        if (now, before) in self._satisfied:
            return []
        errors: list[FieldError] = []
        if self._tree.check((new, old), (new, None), "", errors) and now is not None and before is not None:
            self._satisfied.put((now, before), True)
        return errors


class _RuleTree:
    """The rules of one schema node and of all nodes below it."""

    def __init__(self, schema: Json, *, root: bool) -> None:
        self._type: str = schema.get("type") or ""
        self._rules = _compiled(schema)
        self._rule_set = NodeRules(schema, self._rules, root=root or bool(schema.get(EMBEDDED)))
        properties = {name: _tree(part) for name, part in (schema.get("properties") or {}).items()}
        self._properties = {name: tree for name, tree in properties.items() if tree is not None}
        self._others = _tree(schema.get("additionalProperties"))
        self._items = _tree(schema.get("items"))
        by_key = schema.get("x-kubernetes-list-type") == "map"
        self._keys: Sequence[str] = (schema.get("x-kubernetes-list-map-keys") or ()) if by_key else ()

    def check(self, pair: _Pair, above: _Pair, path: str, errors: list[FieldError]) -> bool:
        """Adds the errors of violated rules and returns whether there was no violation at all. `above` is the nearest
        correlated pair: unless a rule uses oldSelf, its violation counts only if that pair differs.
        """
        new, old = pair
        if new is None:
            return True
        nearest = above if old is None else pair
        holds = not self._rules or self._evaluate(pair, nearest, path, errors)
        if isinstance(new, dict):
            holds &= self._check_fields(pair, nearest, path, errors)
        elif isinstance(new, list) and self._items is not None:
            holds &= self._check_items(self._items, pair, nearest, path, errors)
        return holds

    def _check_fields(self, pair: _Pair, nearest: _Pair, path: str, errors: list[FieldError]) -> bool:
        new, old = pair
        before = old if isinstance(old, dict) else {}
        holds = True
        for name, part in new.items():
            if name in self._properties:
                where = f"{path}.{name}" if path else name
                holds &= self._properties[name].check((part, before.get(name)), nearest, where, errors)
            elif self._others is not None:
                holds &= self._others.check((part, before.get(name)), nearest, f"{path}[{name}]", errors)
        return holds

    def _check_items(self, items: _RuleTree, pair: _Pair, nearest: _Pair, path: str, errors: list[FieldError]) -> bool:
        new, old = pair
        known = {self._identity(item): item for item in old} if self._keys and isinstance(old, list) else {}
        holds = True
        for index, item in enumerate(new):
            before = known.get(self._identity(item)) if known else None
            holds &= items.check((item, before), nearest, f"{path}[{index}]", errors)
        return holds

    def _identity(self, item: Any) -> tuple[Any, ...]:
        return tuple(item.get(key) for key in self._keys) if isinstance(item, dict) else ()

    def _evaluate(self, pair: _Pair, nearest: _Pair, path: str, errors: list[FieldError]) -> bool:
        violations = self._rule_set.violations(*pair)
        for rule, said in violations:
            if isinstance(said, EvaluationError):
                errors.append(invalid(path or NIL_PATH, self._type, _evaluation_failure(rule, said)))
            elif rule.expression.uses_old or not _unchanged(nearest):
                shown = OMITTED if self._type in ("object", "array") else pair[0]
                errors.append(_rule_error(rule, path, shown, said))
        return not violations


def _unchanged(pair: _Pair) -> bool:
    new, old = pair
    return old is not None and bool(new == old)


def _compiled(schema: Json) -> tuple[ValidationRule, ...]:
    given = schema.get(VALIDATIONS) or ()
    return tuple(compile_rule(rule, field_path(schema, rule.get("fieldPath") or "")) for rule in given)


def _tree(schema: Any, *, root: bool = False) -> _RuleTree | None:
    """The rule tree of a schema node; None if it has no rules."""
    return _RuleTree(schema, root=root) if has_rules(schema) else None


def _evaluation_failure(rule: ValidationRule, failed: EvaluationError) -> str:
    if failed.why.startswith("no such overload"):
        detail = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{failed.why}': {detail}: {rule.name}"
    if failed.why.startswith("operation cancelled"):
        detail = "no further validation rules will be run due to call cost exceeds limit for rule"
        return f"'{failed.why}': {detail}: {rule.name}"
    return f"{failed.why} evaluating rule: {rule.name}"


def _rule_error(rule: ValidationRule, path: str, value: Any, detail: str) -> FieldError:
    where = ".".join(part for part in (path, rule.path) if part) or NIL_PATH
    complaint = _COMPLAINTS.get(rule.reason, Complaint.INVALID)
    return FieldError(where, complaint, "" if complaint is Complaint.DUPLICATE else detail, value)


class Violation(NamedTuple):
    """A violated rule with its message, or the error of its evaluation."""

    rule: ValidationRule
    said: str | EvaluationError


class NodeRules:
    """The rules of one schema node, evaluated together, on what they read of a value."""

    def __init__(self, schema: Json, rules: Sequence[ValidationRule], *, root: bool) -> None:
        reads = Reads()
        for rule in rules:
            for expression in rule.expressions:
                note_reads(expression.text, {"self": reads, "oldSelf": reads})
        self._rules, self._see = rules, compile_view(schema, reads, root=root)
        self._uses_old = any(rule.uses_old for rule in rules)

    def violations(self, new: Any, old: Any) -> tuple[Violation, ...]:
        """The violated rules, in order; `old` is None where there is none."""
        now, before = self._see(new), self._see(old) if old is not None and self._uses_old else None
        evaluated = [(rule, rule.expression.evaluate(now, before)) for rule in self._rules if rule.applies_to(before)]
        return tuple(_violation(rule, held, now, before) for rule, held in evaluated if held is not True)


def _violation(rule: ValidationRule, held: Any, new: Any, old: Any) -> Violation:
    return Violation(rule, held if isinstance(held, EvaluationError) else rule.message_for(new, old))
