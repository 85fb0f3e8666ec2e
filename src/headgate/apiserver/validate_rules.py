"""The rules of a schema at work: each value is asked for, with the value it replaces where the two can be matched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from headgate.apiserver.cel_paths import field_path
from headgate.apiserver.cel_rules import Failed, Rule, compile_rule
from headgate.apiserver.cel_view import View, compile_view
from headgate.apiserver.defaults_schema import EMBEDDED
from headgate.apiserver.errors import Complaint, FieldError
from headgate.apiserver.fields import OMITTED, invalid
from headgate.apiserver.messages import Json

RULES = "x-kubernetes-validations"
UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
NOWHERE = "<nil>"  # the path a real server shows for the whole object
_BLOCKING = frozenset({Complaint.NOT_SUPPORTED, Complaint.REQUIRED, Complaint.TOO_LONG, Complaint.TOO_MANY})
_COMPLAINTS = {
    "FieldValueForbidden": Complaint.FORBIDDEN,
    "FieldValueRequired": Complaint.REQUIRED,
    "FieldValueDuplicate": Complaint.DUPLICATE,
}


class _Pair(NamedTuple):
    """A value and the one it replaces, None where there is none."""

    new: Any
    old: Any

    @property
    def unchanged(self) -> bool:
        return self.old is not None and bool(self.new == self.old)


class RuleTree:
    """The rules of one schema and of all below it."""

    def __init__(self, schema: Json, *, root: bool = False) -> None:
        """The schema is one whose rules are known to compile."""
        self._type: str = schema.get("type") or ""
        self._rules = _compiled(schema)
        self._view: View = compile_view(schema, root=root or bool(schema.get(EMBEDDED)))
        self._properties = {name: RuleTree(part) for name, part in (schema.get("properties") or {}).items()}
        self._properties = {name: tree for name, tree in self._properties.items() if tree}
        self._others = _tree(schema.get("additionalProperties"))
        self._items = _tree(schema.get("items"))
        by_key = schema.get("x-kubernetes-list-type") == "map"
        self._keys: Sequence[str] = (schema.get("x-kubernetes-list-map-keys") or ()) if by_key else ()

    def __bool__(self) -> bool:
        """Whether there is any rule."""
        return bool(self._rules or self._properties or self._others or self._items)

    def errors(self, new: Any, old: Any, found: Sequence[FieldError]) -> list[FieldError]:
        """What the rules refuse; nothing more is asked of an object whose errors `found` so far are too bad."""
        if not self:
            return []
        if any(error.complaint in _BLOCKING or error.wrong_type for error in found):
            return [invalid(NOWHERE, None, UNCHECKED)]
        errors: list[FieldError] = []
        self._check(_Pair(new, old), _Pair(new, None), "", errors)
        return errors

    def _check(self, pair: _Pair, above: _Pair, path: str, errors: list[FieldError]) -> None:
        """`above` is the nearest pair around this one that was matched."""
        if pair.new is None:
            return
        nearest = above if pair.old is None else pair
        if self._rules:
            self._ask(pair, nearest, path, errors)
        if isinstance(pair.new, dict):
            self._check_fields(pair, nearest, path, errors)
        elif isinstance(pair.new, list) and self._items is not None:
            self._check_items(self._items, pair, nearest, path, errors)

    def _check_fields(self, pair: _Pair, nearest: _Pair, path: str, errors: list[FieldError]) -> None:
        before = pair.old if isinstance(pair.old, dict) else {}
        for name, part in pair.new.items():
            if name in self._properties:
                where = f"{path}.{name}" if path else name
                self._properties[name]._check(_Pair(part, before.get(name)), nearest, where, errors)
            elif self._others is not None:
                self._others._check(_Pair(part, before.get(name)), nearest, f"{path}[{name}]", errors)

    def _check_items(self, items: RuleTree, pair: _Pair, nearest: _Pair, path: str, errors: list[FieldError]) -> None:
        before = pair.old if isinstance(pair.old, list) else []
        known = {self._identity(item): item for item in before} if self._keys else {}
        for index, item in enumerate(pair.new):
            old = known.get(self._identity(item)) if known else None
            items._check(_Pair(item, old), nearest, f"{path}[{index}]", errors)

    def _identity(self, item: Any) -> tuple[Any, ...]:
        return tuple(item.get(key) for key in self._keys) if isinstance(item, dict) else ()

    def _ask(self, pair: _Pair, nearest: _Pair, path: str, errors: list[FieldError]) -> None:
        new = self._view(pair.new)
        old = None if pair.old is None else self._view(pair.old)
        for rule in self._rules:
            if not rule.concerns(old):
                continue
            held = rule.test.evaluate(new, old)
            if isinstance(held, Failed):
                errors.append(invalid(path or NOWHERE, self._type, _unanswered(rule, held)))
            elif held is not True and (rule.test.uses_old or not nearest.unchanged):
                shown = OMITTED if self._type in ("object", "array") else pair.new
                errors.append(_refusal(rule, path, shown, rule.complaint(new, old)))


def _compiled(schema: Json) -> tuple[Rule, ...]:
    given = schema.get(RULES) or ()
    return tuple(compile_rule(rule, field_path(schema, rule.get("fieldPath") or "")) for rule in given)


def _tree(schema: Any) -> RuleTree | None:
    tree = RuleTree(schema) if isinstance(schema, dict) else None
    return tree or None


def _unanswered(rule: Rule, failed: Failed) -> str:
    if failed.why.startswith("no such overload"):
        detail = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{failed.why}': {detail}: {rule.name}"
    return f"{failed.why} evaluating rule: {rule.name}"


def _refusal(rule: Rule, path: str, value: Any, detail: str) -> FieldError:
    where = ".".join(part for part in (path, rule.path) if part) or NOWHERE
    complaint = _COMPLAINTS.get(rule.reason, Complaint.INVALID)
    return FieldError(where, complaint, "" if complaint is Complaint.DUPLICATE else detail, value)
