"""Selectors: label selectors as text and as objects, field selectors as text; each becomes requirements.

What is wrong with a text is said in the words of a real API server, for the small one answers with them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from headgate.model.names import label_value_errors, qualified_name_errors

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,63}")  # a label value has no more characters


class Operator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class Requirement(Struct, frozen=True, gc=False):
    """One demand on a set of labels; `values` are sorted."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        found = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return found is not None and found in self.values
            case Operator.NOT_IN:
                return found is None or found not in self.values
            case Operator.EXISTS:
                return found is not None
            case Operator.DOES_NOT_EXIST:
                return found is None
            case Operator.GREATER:
                return _compares(found, self.values, 1)
            case Operator.LESS:
                return _compares(found, self.values, -1)


def _compares(found: str | None, values: tuple[str, ...], sign: int) -> bool:
    """Both sides must be whole numbers of 64 bits; anything else never matches, as on a real cluster."""
    if found is None or len(values) != 1:
        return False
    here, there = whole_number(found), whole_number(values[0])
    return here is not None and there is not None and (here - there) * sign > 0


def whole_number(text: str) -> int | None:
    """Stricter than `int`, which would also take blanks, underscores and other digits than 0 to 9."""
    if not _WHOLE_NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


_TOKEN = re.compile(r"==|!=|[=!<>(),]|[^ \t\r\n=!<>(),]+")
_SYMBOLS = frozenset({"=", "==", "!=", "!", "<", ">", "(", ")", ","})
_OPERATORS = {
    "=": Operator.IN,
    "==": Operator.IN,
    "!=": Operator.NOT_IN,
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}
_IN_OBJECTS = (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
_FIELD_OPERATOR = re.compile(r"!=|==|=")
_FIELD_SPECIAL = re.compile(r"\\.?|[,=]", re.DOTALL)
_FIELD_TERMS = re.compile(r"(?:[^\\,]|\\.|\\$)+", re.DOTALL)


class InvalidSelector(ValueError):
    """The selector is none; the message says where and what was expected."""


def parse_label_selector(text: str) -> tuple[Requirement, ...]:
    """`a=b,c!=d,e in (x,y),!f,g` as requirements in order of their keys; empty text selects everything."""
    parser = _Parser(_TOKEN.findall(text))
    return tuple(sorted(parser.requirements(), key=lambda requirement: requirement.key))


def label_selector(selector: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """A LabelSelector object (matchLabels, matchExpressions) as requirements; an empty one selects everything."""
    labels = _typed(selector.get("matchLabels") or {}, dict, "matchLabels", "an object")
    expressions = _typed(selector.get("matchExpressions") or [], list, "matchExpressions", "a list")
    return (
        *(_from_label(key, value) for key, value in sorted(labels.items())),
        *(_from_expression(f"matchExpressions[{index}]", entry) for index, entry in enumerate(expressions)),
    )


def parse_field_selector(text: str) -> tuple[Requirement, ...]:
    """`metadata.name=x,spec.nodeName!=` as requirements in the order of their texts.

    They are to be asked of all fields an object can be selected by, with empty text for one that is not set.
    """
    found = [_field_term(term, text) for term in sorted(_FIELD_TERMS.findall(text))]
    return tuple(requirement for requirement in found if requirement.key or requirement.values != ("",))


def selects(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    return all(requirement.holds(labels) for requirement in requirements)


class _Parser:
    """Reads requirements off a list of tokens; the end reads as empty text."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._next = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while self._peek():
            self._must_begin("!, identifier, or 'end of string'")
            found.append(self._requirement_or_refusal())
            if not self._peek():
                break
            self._expect(",", "',' or 'end of string'")
            self._must_begin("identifier after ','")
        return found

    def _requirement_or_refusal(self) -> Requirement:
        try:
            return self._requirement()
        except InvalidSelector as error:
            raise InvalidSelector(f"unable to parse requirement: {error}") from None

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return Requirement(self._key(), Operator.DOES_NOT_EXIST)
        key = self._key()
        return Requirement(key, Operator.EXISTS) if self._peek() in {"", ","} else self._comparison(key)

    def _key(self) -> str:
        key = self._word("identifier")
        _raise_any(_invalid("<nil>", key, qualified_name_errors(key)))
        return key

    def _comparison(self, key: str) -> Requirement:
        symbol = self._take()
        operator = _OPERATORS.get(symbol)
        if operator is None:
            raise InvalidSelector(f"found '{symbol}', expected: in, notin, =, ==, !=, gt, lt")
        listed = self._values() if symbol in {"in", "notin"} else (self._value(),)
        values = tuple(sorted(set(listed)))
        _check_values(key, operator, values)
        return Requirement(key, operator, values)

    def _value(self) -> str:
        return "" if self._peek() in {"", ","} else self._word("identifier")

    def _values(self) -> tuple[str, ...]:
        """`(x,y)`; a place with nothing in it stands for the empty value."""
        if (found := self._take()) != "(":
            raise InvalidSelector(f"found '{found}' expected: '('")
        values = [self._listed("',', ')' or identifier")]
        while self._peek() == ",":
            self._take()
            values.append(self._listed("',', or identifier"))
        self._expect(")", "',' or ')'")
        return tuple(values)

    def _listed(self, expected: str) -> str:
        return "" if self._peek() in {",", ")"} else self._word(expected)

    def _word(self, expected: str) -> str:
        word = self._take()
        self._must_be_word(word, expected)
        return word

    def _expect(self, symbol: str, expected: str) -> None:
        found = self._take()
        if found != symbol:
            raise InvalidSelector(f"found '{found}', expected: {expected}")

    def _must_begin(self, expected: str) -> None:
        if self._peek() != "!":
            self._must_be_word(self._peek(), expected)

    def _must_be_word(self, found: str, expected: str) -> None:
        if not found or found in _SYMBOLS:
            raise InvalidSelector(f"found '{found}', expected: {expected}")

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token


def _check_values(key: str, operator: Operator, values: Iterable[str]) -> None:
    errors: list[str] = []
    for index, value in enumerate(values):
        if operator in {Operator.GREATER, Operator.LESS} and whole_number(value) is None:
            errors += _invalid(f"values[{index}]", value, ("for 'Gt', 'Lt' operators, the value must be an integer",))
        errors += _invalid(f"values[{index}][{key}]", value, label_value_errors(value))
    _raise_any(errors)


def _invalid(path: str, value: str, errors: tuple[str, ...]) -> list[str]:
    """All that is wrong with one value, as one error."""
    return [f"{path}: Invalid value: {json.dumps(value, ensure_ascii=False)}: {'; '.join(errors)}"] if errors else []


def _raise_any(errors: list[str]) -> None:
    if errors:
        raise InvalidSelector(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")


def _from_label(key: str, value: Any) -> Requirement:
    _typed(value, str, f"matchLabels[{key}]", "text")
    _named(qualified_name_errors(key), f"matchLabels[{key}]")
    _named(label_value_errors(value), f"matchLabels[{key}]")
    return Requirement(key, Operator.IN, (value,))


def _from_expression(path: str, entry: Any) -> Requirement:
    _typed(entry, dict, path, "an object with key, operator and values")
    key = _typed(entry.get("key"), str, f"{path}.key", "text")
    _named(qualified_name_errors(key), f"{path}.key")
    operator = next((known for known in _IN_OBJECTS if known.value == entry.get("operator")), None)
    if operator is None:
        raise InvalidSelector(f"{path}.operator: expected {', '.join(_IN_OBJECTS)}, found {entry.get('operator')!r}")
    values = _typed(entry.get("values") or [], list, f"{path}.values", "a list of texts")
    _check_count(operator, values, f"{path}.values")
    for index, value in enumerate(values):
        _typed(value, str, f"{path}.values[{index}]", "text")
        _named(label_value_errors(value), f"{path}.values[{index}]")
    return Requirement(key, operator, tuple(sorted(values)))


def _check_count(operator: Operator, values: Sequence[Any], path: str) -> None:
    wants_values = operator in {Operator.IN, Operator.NOT_IN}
    if wants_values and not values:
        raise InvalidSelector(f"{path}: must be specified when `operator` is 'In' or 'NotIn'")
    if values and not wants_values:
        raise InvalidSelector(f"{path}: may not be specified when `operator` is 'Exists' or 'DoesNotExist'")


def _typed(value: Any, type_: type, path: str, expected: str) -> Any:
    if not isinstance(value, type_):
        raise InvalidSelector(f"{path}: expected {expected}, found {value!r}")
    return value


def _named(errors: tuple[str, ...], path: str) -> None:
    if errors:
        raise InvalidSelector(f"{path}: {'; '.join(errors)}")


def _field_term(term: str, text: str) -> Requirement:
    r"""The first operator ends the field; what follows is the value, in which `\\`, `\,` and `\=` are escapes."""
    symbol = _FIELD_OPERATOR.search(term)
    if symbol is None:
        raise InvalidSelector(f"invalid selector: '{text}'; can't understand '{term}'")
    operator = Operator.NOT_IN if symbol[0] == "!=" else Operator.IN
    value = _FIELD_SPECIAL.sub(_unescaped, term[symbol.end() :])
    return Requirement(term[: symbol.start()], operator, (value,))


def _unescaped(special: re.Match[str]) -> str:
    found = special[0]
    if found in {"\\\\", "\\,", "\\="}:
        return found[1]
    if found.startswith("\\"):
        raise InvalidSelector(f"invalid field selector: invalid escape sequence: {found}")
    raise InvalidSelector(f"invalid field selector: unescaped character in value: {ord(found)}")
