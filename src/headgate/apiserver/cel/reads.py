"""What a CEL expression can read of its variables, derived from its text; in doubt, everything.

A result depends on nothing else, so values that agree in what is read have the same result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*)
    |(?P<raw>(?:[rR][bB]?|[bB][rR])(?:\'{3}.*?\'{3}|"{3}.*?"{3}|'[^'\n]*'|"[^"\n]*"))
    |(?P<text>[bB]?(?:\'{3}(?:[^\\]|\\.)*?\'{3}|"{3}(?:[^\\]|\\.)*?"{3}|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))
    |(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)
    |(?P<number>[0-9][0-9a-zA-Z]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    |(?P<sign>\.\?|\[\?|&&|\|\||[<>=!]=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
_QUANTIFIERS = ("all", "exists", "exists_one")
"""Macros with a boolean result: of each item, only what the condition reads matters."""


class Reads:
    """What is read of one value: all of it, its size, some of its fields, something of each item.

    If none of these, only whether it is present.
    """

    __slots__ = ("fields", "items", "size", "whole")

    def __init__(self, *, whole: bool = False) -> None:
        self.whole, self.size = whole, False
        self.fields: dict[str, Reads] = {}
        self.items: Reads | None = None

    @property
    def nothing(self) -> bool:
        return not (self.whole or self.size or self.fields or self.items)

    def field(self, name: str) -> Reads:
        return self.fields.setdefault(name, Reads())

    def each_item(self) -> Reads:
        self.items = self.items or Reads()
        return self.items


EVERYTHING = Reads(whole=True)


class _Token(NamedTuple):
    sort: str
    text: str


class _NotUnderstood(Exception):
    """The text is beyond this scanner."""


def note_reads(text: str, variables: Mapping[str, Reads]) -> None:
    """Adds what the expression, which is known to compile, reads of each variable."""
    try:
        _Scanner(_tokens(text)).note(0, None, dict(variables))
    except _NotUnderstood:
        for reads in variables.values():
            reads.whole = True


def _tokens(text: str) -> list[_Token]:
    found, place = [], 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise _NotUnderstood
        place = match.end()
        if match.lastgroup != "blank":
            found.append(_Token(str(match.lastgroup), match.group()))
    return found


class _Scanner:
    """Scans the tokens once and follows each variable through field selections."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens

    def note(self, place: int, end: int | None, scope: dict[str, Reads]) -> None:
        """Scans the tokens from `place` to `end` with these names in scope."""
        stop = len(self._tokens) if end is None else end
        while place < stop:
            token = self._tokens[place]
            if token.text in (".", ".?") and self._begins_name(place):
                raise _NotUnderstood  # the name is looked up from the root
            if token.sort == "name" and token.text in scope and self._text(place - 1) not in (".", ".?"):
                place = self._follow(place, scope)
            else:
                place += 1

    def _begins_name(self, place: int) -> bool:
        before = self._tokens[place - 1] if place else _Token("sign", "(")
        return before.sort == "sign" and before.text not in (")", "]", "}")

    def _follow(self, place: int, scope: dict[str, Reads]) -> int:
        """Notes what is read of the variable at `place`; returns the place after it."""
        reads, first = scope[self._tokens[place].text], place
        place += 1
        while self._text(place) == "." and self._sort(place + 1) == "name":
            if self._text(place + 2) != "(":
                reads, place = reads.field(self._text(place + 1)), place + 2
            elif self._text(place + 1) in _QUANTIFIERS:
                return self._quantified(reads, place + 2, scope)
            else:
                break
        self._note_use(reads, first, place)
        return place

    def _note_use(self, reads: Reads, first: int, after: int) -> None:
        match self._function_of(first, after):
            case "size":
                reads.size = True
            case "has":
                pass
            case _:
                reads.whole = True

    def _function_of(self, first: int, after: int) -> str:
        """The function whose only argument lies between these places, in either call style; empty if there is none."""
        if [self._text(after + step) for step in range(4)] == [".", "size", "(", ")"]:
            return "size"
        is_argument = self._text(first - 1) == "(" and self._text(after) == ")"
        return self._text(first - 2) if is_argument and self._text(first - 3) not in (".", ".?") else ""

    def _quantified(self, reads: Reads, opening: int, scope: dict[str, Reads]) -> int:
        """Scans the arguments of a quantifier, a name and a condition, from its opening parenthesis."""
        closing = self._closing(opening)
        if self._sort(opening + 1) != "name" or self._commas(opening, closing) != 1:
            raise _NotUnderstood
        self.note(opening + 3, closing, {**scope, self._text(opening + 1): reads.each_item()})
        return closing + 1

    def _closing(self, opening: int) -> int:
        depth = 0
        for place in range(opening, len(self._tokens)):
            depth += (self._text(place) in ("(", "[", "{", "[?")) - (self._text(place) in (")", "]", "}"))
            if depth == 0:
                return place
        raise _NotUnderstood

    def _commas(self, opening: int, closing: int) -> int:
        """The number of commas between these parentheses, outside of nested ones."""
        depth, commas = 0, 0
        for place in range(opening + 1, closing):
            depth += (self._text(place) in ("(", "[", "{", "[?")) - (self._text(place) in (")", "]", "}"))
            commas += depth == 0 and self._text(place) == ","
        return commas

    def _text(self, place: int) -> str:
        """The token's text; empty beyond the ends and for string literals."""
        if not 0 <= place < len(self._tokens) or self._tokens[place].sort in ("raw", "text"):
            return ""
        return self._tokens[place].text

    def _sort(self, place: int) -> str:
        return self._tokens[place].sort if 0 <= place < len(self._tokens) else ""
