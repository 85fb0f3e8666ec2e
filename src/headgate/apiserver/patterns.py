"""Regular expressions as Go reads them (RE2), translated to Python's: what schemas and CEL rules mean by a pattern.

Different in Python are flags inside a pattern, `$`, `\\z`, classes that are ASCII only, `[[:alpha:]]`, `\\Q…\\E` and
`\\x{…}`. What only Python can do, such as looking ahead, is refused as Go refuses it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_NAMED = re.compile(r"\(\?P?<([A-Za-z_]\w*)>")
_POSIX = re.compile(r"\[:(\^?)([a-z]+):\]")
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_WIDE = re.compile(r"\\x\{([0-9A-Fa-f]{1,6})\}")
_ESCAPES = frozenset("AbBdDwWsSaftnrvx")
_MOST_REPEATED = 1000
_REPEATED = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_ASCII = "(?a)"


class InvalidPattern(ValueError):
    """Go cannot read the pattern; the text says why, in Go's words where it is about what only Python has."""


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern as a Python regular expression, without flags beside it. Raises InvalidPattern."""
    try:
        return re.compile(_Translation(pattern).text())
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidPattern(f"error parsing regexp: {error}") from None


class _Group(NamedTuple):
    """An open group: how many parentheses of ours it has, and the flags that hold from here to its end."""

    opened: int
    flags: str  # among i, m and s, in this order
    set_here: str  # the flags that our innermost parenthesis sets, which each alternative sets anew


class _Translation:
    def __init__(self, pattern: str) -> None:
        self._pattern, self._place = pattern, 0
        self._out: list[str] = []
        self._groups = [_Group(0, "", "")]

    def text(self) -> str:
        while self._place < len(self._pattern):
            self._next()
        if len(self._groups) > 1:
            raise re.error(f"missing closing ): `{self._pattern}`")
        self._close()
        return _ASCII + "".join(self._out)

    def _next(self) -> None:
        match self._pattern[self._place]:
            case "\\":
                self._out.append(self._escape(in_class=False))
            case "[":
                self._class()
            case "(":
                self._open()
            case ")":
                self._close()
                self._groups.pop()
                if not self._groups:
                    raise re.error(f"unexpected ): `{self._pattern}`")
                self._take(")")
            case "|":
                self._alternative()
            case "$":
                self._take("$", r"\Z" if "m" not in self._groups[-1].flags else "$")
            case "*" | "+" | "?" | "{":
                self._quantifier()
            case letter:
                self._take(letter)

    def _take(self, read: str, written: str | None = None) -> None:
        self._place += len(read)
        self._out.append(read if written is None else written)

    def _open(self) -> None:
        flags, named = (each.match(self._pattern, self._place) for each in (_FLAGS, _NAMED))
        group = self._groups[-1]
        if not self._pattern.startswith("(?", self._place):
            self._take("(")
            self._groups.append(_Group(0, group.flags, ""))
        elif named:
            self._take(named[0], f"(?P<{named[1]}>")
            self._groups.append(_Group(0, group.flags, ""))
        elif flags and flags[0] != "(?)":
            self._flagged(flags)
        else:
            rest = self._pattern[self._place :]
            if rest.startswith(("(?<", "(?P<")):
                raise re.error(f"invalid named capture: `{rest[: rest.find('>') + 1] or rest}`")
            raise re.error(f"invalid or unsupported Perl syntax: `{rest[:3]}`")

    def _flagged(self, found: re.Match[str]) -> None:
        """`(?i)` holds to the end of the group around it, `(?i:…)` in its own."""
        group = self._groups[-1]
        switched_on, off = found[1], found[2] or ""
        flags = "".join(flag for flag in "ims" if (flag in switched_on or flag in group.flags) and flag not in off)
        gone = "".join(flag for flag in group.flags if flag not in flags)
        opening = f"(?{flags}{'-' + gone if gone else ''}:"
        if found[3] == ":":
            self._take(found[0], opening)
            self._groups.append(_Group(0, flags, ""))
        else:
            self._take(found[0], opening)
            self._groups[-1] = _Group(group.opened + 1, flags, group.set_here + opening)

    def _alternative(self) -> None:
        """Our parentheses end before it and begin anew behind it."""
        group = self._groups[-1]
        self._take("|", ")" * group.opened + "|" + group.set_here)

    def _close(self) -> None:
        self._out.append(")" * self._groups[-1].opened)

    def _quantifier(self) -> None:
        """`**` and `a*+` are refused: Python reads the second as possessive."""
        repeated = _REPEATED.match(self._pattern, self._place)
        if repeated is None and self._pattern[self._place] == "{":
            self._take("{", r"\{")
            return
        taken = repeated[0] if repeated else self._pattern[self._place]
        if repeated and max(int(repeated[1]), int(repeated[2] or 0)) > _MOST_REPEATED:
            raise re.error(f"invalid repeat count: `{taken}`")
        following = self._pattern[self._place + len(taken) : self._place + len(taken) + 1]
        if following in ("*", "+"):
            raise re.error(f"invalid nested repetition operator: `{taken}{following}`")
        self._take(taken + following if following == "?" else taken)

    def _class(self) -> None:
        start = self._place
        negated = self._pattern.startswith("^", start + 1)
        self._take("[^" if negated else "[")
        first = True
        while first or not self._pattern.startswith("]", self._place):
            if self._place >= len(self._pattern):
                raise re.error(f"missing closing ]: `{self._pattern[start:]}`")
            first = False
            letter, posix = self._pattern[self._place], _POSIX.match(self._pattern, self._place)
            if letter == "\\":
                self._out.append(self._escape(in_class=True))
            elif posix:
                if posix[2] not in _CLASSES or posix[1]:
                    raise re.error(f"invalid character class range: `{posix[0]}`")
                self._take(posix[0], _CLASSES[posix[2]])
            else:  # what Python may read as an operation on sets one day
                self._take(letter, "\\" + letter if letter in "[]&~|" else letter)
        self._take("]")

    def _escape(self, *, in_class: bool) -> str:
        rest = self._pattern[self._place : self._place + 2]
        if len(rest) == 1:
            raise re.error("trailing backslash at end of expression: ``")
        wide = _WIDE.match(self._pattern, self._place)
        if wide:
            self._place += len(wide[0])
            return re.escape(chr(int(wide[1], 16)))
        if rest == r"\Q" and not in_class:
            end = self._pattern.find(r"\E", self._place)
            quoted = self._pattern[self._place + 2 : end if end >= 0 else None]
            self._place = end + 2 if end >= 0 else len(self._pattern)
            return re.escape(quoted)
        self._place += 2
        if rest == r"\z":
            return r"\Z"
        if rest == r"\0" or (rest[1].isascii() and rest[1].isalnum() and rest[1] not in _ESCAPES):
            raise re.error(f"invalid escape sequence: `{rest}`")
        return rest if rest[1] in _ESCAPES else re.escape(rest[1])
