"""Regular expressions as Go reads them: RE2, whose time is proportional to the text, whatever a tenant's pattern is."""

from __future__ import annotations

import re2  # type: ignore[import-untyped]

_OPTIONS = re2.Options()
_OPTIONS.never_capture, _OPTIONS.log_errors = True, False

_IN_GO = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}
"""What Go calls the errors of RE2 that it calls otherwise."""
_LOOKING_BACK = ("(?<=", "(?<!")  # which Go takes for names of groups


class InvalidPattern(ValueError):
    """Go cannot read the pattern; the text says why, in its words."""


class GoPattern:
    """A compiled pattern."""

    __slots__ = ("_compiled", "_search")

    def __init__(self, compiled: re2._Regexp) -> None:
        self._compiled, self._search = compiled, compiled.search

    def matches(self, text: str) -> bool:
        """Whether it is found anywhere in the text."""
        return self._search(text.encode(errors="replace")) is not None

    def found(self, text: str) -> list[str]:
        """All that it finds, one after the other."""
        return [each.group(0) for each in self._compiled.finditer(text)]


def compile_pattern(pattern: str) -> GoPattern:
    """Raises InvalidPattern."""
    try:
        return GoPattern(re2.compile(pattern, _OPTIONS))
    except re2.error as error:
        raise InvalidPattern(
            f"error parsing regexp: {_told(pattern, error.args[0].decode(errors='replace'))}"
        ) from None


def _told(pattern: str, why: str) -> str:
    called, _, part = why.partition(": ")
    if part in _LOOKING_BACK:
        rest = pattern[pattern.index(part) :]
        return f"invalid named capture: `{rest[: rest.find('>') + 1] or rest}`"
    return f"{_IN_GO.get(called, called)}: `{part}`"
