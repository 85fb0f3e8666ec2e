"""YAML as Kubernetes reads it, from files nobody has checked: bounded in size, depth and what its aliases stand for.

Values are built from the events of the parser. PyYAML's own graph of nodes takes a hundred times the size of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import yaml
from msgspec import Struct

LARGEST_TEXT = 64 * 2**20  # bytes
DEEPEST = 100  # levels of nesting
MOST_VALUES = 2_000_000  # an alias counts as many as the value it stands for
LEAST_INTEGER, LARGEST_INTEGER = -(2**63), 2**64 - 1
MOST_SHOWN = 40  # characters of a name in an error

_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser where PyYAML has it
_QUOTES = "put text in quotes"  # values are not shown: they may be secret
_CORE = "tag:yaml.org,2002:"
_MERGE = "<<"
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {
    written: word in ("yes", "true", "on")
    for word in ("yes", "no", "true", "false", "on", "off")
    for written in (word, word.capitalize(), word.upper())
}
_INTEGER = re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


class InvalidYaml(Exception):
    """Names the line and column, and what was expected there."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}" if place else problem)
        self.place, self.problem = place, problem


def read_yaml(source: str | bytes | BinaryIO) -> object:
    """The one document of a text or an open file; None if there is none. Raises InvalidYaml and OSError."""
    return next(_documents(source, single=True), None)


def read_yaml_documents(source: str | bytes | BinaryIO) -> list[Any]:
    """Raises InvalidYaml and OSError."""
    return list(_documents(source, single=False))


def _documents(source: str | bytes | BinaryIO, *, single: bool) -> Iterator[object]:
    text = source if isinstance(source, str | bytes) else source.read(LARGEST_TEXT + 1)
    if len(text) > LARGEST_TEXT:
        raise InvalidYaml("", f"expected at most {LARGEST_TEXT >> 20} MiB")
    try:
        documents = _DocumentReader(_PARSER(text)).documents(single=single)
    except yaml.MarkedYAMLError as error:
        expected = error.context if (error.context or "").startswith("expected") else None
        problem = " ".join(filter(None, (expected, error.problem)))
        raise InvalidYaml(_place(error.problem_mark or error.context_mark), problem) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise InvalidYaml("", f"expected YAML in UTF-8: {str(error).splitlines()[0]}") from None
    yield from documents


def _place(mark: yaml.Mark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""


class _Value(Struct, frozen=True):
    """A value, how many values it holds with itself, and its levels of nesting."""

    value: Any
    size: int = 1
    depth: int = 0


class _DocumentReader:
    """Reads the events of one parser."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser
        self._values = 0
        self._anchors: dict[str, _Value | None] = {}  # None while the value is being read

    def documents(self, *, single: bool) -> list[object]:
        found: list[object] = []
        while not isinstance(event := self._parser.get_event(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                if found and single:
                    raise _invalid(event, "expected a single document in the stream but found another document")
                self._anchors = {}
                found.append(self._value(self._parser.get_event(), 0).value)
        return found

    def _value(self, event: Any, above: int) -> _Value:
        """The value that begins with the event, `above` levels of nesting below the top."""
        if isinstance(event, yaml.AliasEvent):
            return self._counted(event, self._meant(event), above)
        if event.anchor:
            self._anchors[event.anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            found = self._counted(event, _Value(_scalar(event)), above)
        else:
            found = self._collection(event, above)
        if event.anchor:
            self._anchors[event.anchor] = found
        return found

    def _meant(self, event: Any) -> _Value:
        meant = self._anchors.get(event.anchor)
        if meant is None:
            problem = "is part of the value it stands for" if event.anchor in self._anchors else "is not defined"
            raise _invalid(event, f"the alias *{event.anchor[:MOST_SHOWN]} {problem}")
        return meant

    def _counted(self, event: Any, found: _Value, above: int) -> _Value:
        self._values += found.size
        if self._values > MOST_VALUES:
            raise _invalid(event, f"expected at most {MOST_VALUES} values, counting what aliases stand for")
        if above + found.depth > DEEPEST:
            raise _invalid(event, f"expected at most {DEEPEST} levels of nesting")
        return found

    def _collection(self, event: Any, above: int) -> _Value:
        before, is_list = self._values, isinstance(event, yaml.SequenceStartEvent)
        if event.tag not in (None, "!", f"{_CORE}{'seq' if is_list else 'map'}"):
            raise _invalid(event, f"the tag {_tag(event.tag)} is not supported")
        self._counted(event, _Value(None, depth=1), above)
        value, depth = (self._list if is_list else self._mapping)(above + 1)
        return _Value(value, self._values - before, depth + 1)

    def _list(self, above: int) -> tuple[list[object], int]:
        """The elements, and the levels of nesting of the deepest one."""
        elements, depth = [], 0
        while not isinstance(event := self._parser.get_event(), yaml.SequenceEndEvent):
            found = self._value(event, above)
            elements.append(found.value)
            depth = max(depth, found.depth)
        return elements, depth

    def _mapping(self, above: int) -> tuple[dict[str, object], int]:
        """The entries, and the levels of nesting of the deepest one. Those of the key `<<` come first."""
        entries: dict[str, object] = {}
        merged: Mapping[str, object] | None = None
        depth = 0
        while not isinstance(event := self._parser.get_event(), yaml.MappingEndEvent):
            merges = _is_merge(event)
            key = self._key(event, above)
            if key in entries or (merges and merged is not None):
                raise _invalid(event, f'duplicate key "{key[:MOST_SHOWN]}"')
            after = self._parser.get_event()
            found = self._value(after, above)
            depth = max(depth, found.depth)
            if merges:
                merged = _merged(after, found.value)
            else:
                entries[key] = found.value
        return {**merged, **entries} if merged else entries, depth

    def _key(self, event: Any, above: int) -> str:
        """Keys become text as in Kubernetes, because JSON has no others."""
        if isinstance(event, yaml.CollectionStartEvent):
            raise _invalid(event, "expected text as key, got a list or a mapping")
        key = self._value(event, above).value
        if isinstance(key, dict | list):
            raise _invalid(event, "expected text as key, got a list or a mapping")
        if isinstance(key, bool):
            return "true" if key else "false"
        return "null" if key is None else str(key)


def _is_merge(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.value == _MERGE and event.implicit[0]


def _merged(event: Any, value: object) -> Mapping[str, object]:
    """The entries of one mapping, or of several where the first has precedence."""
    merged: dict[str, object] = {}
    for one in value if isinstance(value, list) else [value]:
        if not isinstance(one, dict):
            raise _invalid(event, "expected a mapping or a list of mappings to merge")
        merged = {**one, **merged}
    return merged


def _scalar(event: Any) -> object:
    """Untagged plain text may be null, true, false or a number; timestamps stay text."""
    if event.tag is None:
        return _plain(event, event.value) if event.implicit[0] else event.value
    kind, text = event.tag.removeprefix(_CORE), event.value
    found = text if event.tag == "!" or kind in ("str", "timestamp") else _plain(event, text)
    if event.tag != "!" and not isinstance(found, _TAGGED.get(kind, ())):
        raise _invalid(event, f"expected a value of the tag {_tag(event.tag)}")
    return float(found) if kind == "float" and isinstance(found, int) else found


_TAGGED: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "timestamp": (str,),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "null": (type(None),),
}


def _plain(event: Any, text: str) -> object:
    first = text[:1]
    if first in "0123456789+-.":
        return _number(event, text)
    if first in "yntfoYNTFO":
        text = _BOOLEANS.get(text, text)  # type: ignore[assignment]
    return None if text in _NULLS else text


def _number(event: Any, text: str) -> object:
    if _INTEGER.fullmatch(text):
        number = _integer(text) if len(text) < 100 else LARGEST_INTEGER + 1
        if not LEAST_INTEGER <= number <= LARGEST_INTEGER:
            raise _invalid(event, f"expected a number of at most 64 bits; {_QUOTES}")
        return number
    if _FLOAT.fullmatch(text):
        found = float(text.replace("_", ""))
        if found not in (float("inf"), float("-inf")):
            return found
    elif not _NO_NUMBER.fullmatch(text):
        return None if text in _NULLS else text
    raise _invalid(event, f"expected a number that JSON can hold; {_QUOTES}")


def _integer(text: str) -> int:
    digits = text.replace("_", "").lower()
    sign, digits = (-1, digits[1:]) if digits[0] == "-" else (1, digits.lstrip("+"))
    base = {"0b": 2, "0x": 16, "0o": 8}.get(digits[:2])
    if base is not None:
        return sign * int(digits[2:] or "0", base)
    return sign * int(digits, 8 if digits.startswith("0") else 10)


def _tag(tag: str) -> str:
    return tag.replace(_CORE, "!!")[:MOST_SHOWN]


def _invalid(event: Any, problem: str) -> InvalidYaml:
    return InvalidYaml(_place(event.start_mark), problem)
