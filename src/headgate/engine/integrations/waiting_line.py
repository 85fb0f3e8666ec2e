"""Work that waits for room, in lines of those alike: what the first of a line is refused, the others would be too."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from headgate.model.keys import Key


class WaitingLines:
    """First come, first asked. Work that asks for the same stands in one line."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, dict[Key, None]] = {}
        self._line_of: dict[Key, Hashable] = {}

    def __len__(self) -> int:
        return len(self._line_of)

    def put(self, work: Key, likeness: Hashable) -> bool:
        """Whether the work did not wait before."""
        known = work in self._line_of
        if known and self._line_of[work] == likeness:
            return False
        self.drop(work)
        self._line_of[work] = likeness
        self._lines.setdefault(likeness, {})[work] = None
        return not known

    def drop(self, work: Key) -> Key | None:
        """Who is first in its line now; None when nobody is, or the work was in none."""
        if work not in self._line_of:
            return None
        likeness = self._line_of.pop(work)
        line = self._lines[likeness]
        del line[work]
        if not line:
            del self._lines[likeness]
        return next(iter(line), None)

    def firsts(self) -> Iterator[Key]:
        """The first of every line."""
        return (next(iter(line)) for line in self._lines.values())
