"""The rules of a schema at work: each value is asked for, with the value it replaces where the two can be matched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.apiserver.cel_answers import Answers
from headgate.apiserver.cel_paths import field_path
from headgate.apiserver.cel_rules import Failed, Rule, compile_rule
from headgate.apiserver.defaults_schema import EMBEDDED
from headgate.apiserver.errors import Complaint, FieldError
from headgate.apiserver.fields import OMITTED, invalid
from headgate.apiserver.known_values import Memory, Remembered
from headgate.apiserver.messages import Json

RULES = "x-kubernetes-validations"
UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_OF_ITS_OWN = frozenset({"metadata", "apiVersion", "kind"})
_ABSENT = object()
NOWHERE = "<nil>"  # the path a real server shows for the whole object
_BLOCKING = frozenset({Complaint.NOT_SUPPORTED, Complaint.REQUIRED, Complaint.TOO_LONG, Complaint.TOO_MANY})
_COMPLAINTS = {
    "FieldValueForbidden": Complaint.FORBIDDEN,
    "FieldValueRequired": Complaint.REQUIRED,
    "FieldValueDuplicate": Complaint.DUPLICATE,
}


_Pair = tuple[Any, Any]
"""A value and the one it replaces, None where there is none."""
_Parts = tuple[Any, ...]
"""What the rules look at of an object, and of the one it replaces if there is one."""


class RuleTree:
    """The rules of one schema and of all below it."""

    def __init__(self, schema: Json, *, root: bool = False) -> None:
        """The schema is one whose rules are known to compile.

        What lies right below the root outlives many changes beside it and is asked about once.
        """
        self._type: str = schema.get("type") or ""
        self._rules = _compiled(schema)
        self._answers = Answers(schema, self._rules, root=root or bool(schema.get(EMBEDDED)))
        self._properties = {name: RuleTree(part) for name, part in (schema.get("properties") or {}).items()}
        self._properties = {name: tree for name, tree in self._properties.items() if tree}
        self._others = _tree(schema.get("additionalProperties"))
        self._items = _tree(schema.get("items"))
        below = [*self._properties.values(), *(tree for tree in (self._others, self._items) if tree is not None)]
        self._exists = bool(self._rules or below)
        by_key = schema.get("x-kubernetes-list-type") == "map"
        self._keys: Sequence[str] = (schema.get("x-kubernetes-list-map-keys") or ()) if by_key else ()
        self._timeless: bool = not any(rule.uses_old for rule in self._rules) and all(tree._timeless for tree in below)
        self._seen = self._parts_seen(frozenset(schema.get("properties") or ()))
        self._absent = (_ABSENT,) * len(self._seen)
        self._held: Memory[tuple[int, ...], _Parts] = Memory()  # parts by their identities for which all rules hold
        self._known: Remembered[bool] | None = None  # all rules hold for them, whatever they replace
        for tree in self._properties.values() if root else ():
            tree._known = Remembered() if tree._timeless else None

    def __bool__(self) -> bool:
        """Whether there is any rule."""
        return self._exists

    def errors(self, new: Any, old: Any, found: Sequence[FieldError]) -> list[FieldError]:
        """What the rules refuse; nothing more is asked of an object whose errors `found` so far are too bad."""
        if not self._exists:
            return []
        if found and any(error.complaint in _BLOCKING or error.wrong_type for error in found):
            return [invalid(NOWHERE, None, UNCHECKED)]
        parts = self._parts_of(new, old)
        identities = tuple(map(id, parts))
        if self._held.of(identities) is not None:
            return []
        errors: list[FieldError] = []
        if self._check((new, old), (new, None), "", errors) and parts:
            self._held.put(identities, parts)
        return errors

    def _parts_seen(self, known: frozenset[str]) -> tuple[str, ...]:
        """The fields that all rules together look at; none where they may look at what each object has of its own."""
        read = self._answers.fields_read
        if (
            self._others is not None
            or read is None
            or not read <= known - _OF_ITS_OWN
            or any("__" in name for name in read)
        ):  # a name spelled anew
            return ()
        return tuple(sorted(read | self._properties.keys()))

    def _parts_of(self, new: Any, old: Any) -> _Parts:
        """What the rules look at; nothing where that is not known."""
        if not self._seen or not isinstance(new, dict):
            return ()
        parts = tuple(map(new.get, self._seen, self._absent))
        if old is None:
            return parts
        return (*parts, *map(old.get, self._seen, self._absent)) if isinstance(old, dict) else ()

    def _check(self, pair: _Pair, above: _Pair, path: str, errors: list[FieldError]) -> bool:
        """Whether all rules hold, also those that are not asked to; `above` is the nearest pair that was matched."""
        new, old = pair
        if new is None or (self._known is not None and self._known.of(new)):
            return True
        nearest = above if old is None else pair
        holds = not self._rules or self._ask(pair, nearest, path, errors)
        if isinstance(new, dict):
            holds &= self._check_fields(pair, nearest, path, errors)
        elif isinstance(new, list) and self._items is not None:
            holds &= self._check_items(self._items, pair, nearest, path, errors)
        if holds and self._known is not None:
            self._known.put(new, True)
        return holds

    def _check_fields(self, pair: _Pair, nearest: _Pair, path: str, errors: list[FieldError]) -> bool:
        new, old = pair
        before = old if isinstance(old, dict) else {}
        holds = True
        for name, part in new.items():
            if name in self._properties:
                where = f"{path}.{name}" if path else name
                holds &= self._properties[name]._check((part, before.get(name)), nearest, where, errors)
            elif self._others is not None:
                holds &= self._others._check((part, before.get(name)), nearest, f"{path}[{name}]", errors)
        return holds

    def _check_items(self, items: RuleTree, pair: _Pair, nearest: _Pair, path: str, errors: list[FieldError]) -> bool:
        new, old = pair
        known = {self._identity(item): item for item in old} if self._keys and isinstance(old, list) else {}
        holds = True
        for index, item in enumerate(new):
            before = known.get(self._identity(item)) if known else None
            holds &= items._check((item, before), nearest, f"{path}[{index}]", errors)
        return holds

    def _identity(self, item: Any) -> tuple[Any, ...]:
        return tuple(item.get(key) for key in self._keys) if isinstance(item, dict) else ()

    def _ask(self, pair: _Pair, nearest: _Pair, path: str, errors: list[FieldError]) -> bool:
        objections = self._answers.about(*pair)
        for rule, said in objections:
            if isinstance(said, Failed):
                errors.append(invalid(path or NOWHERE, self._type, _unanswered(rule, said)))
            elif rule.test.uses_old or not _unchanged(nearest):
                shown = OMITTED if self._type in ("object", "array") else pair[0]
                errors.append(_refusal(rule, path, shown, said))
        return not objections


def _unchanged(pair: _Pair) -> bool:
    new, old = pair
    return old is not None and bool(new == old)


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
