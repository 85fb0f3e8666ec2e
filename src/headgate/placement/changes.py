"""Which rows changed since someone last looked, so that nobody looks at all of them."""

from __future__ import annotations

KEPT_CHANGES = 1 << 16


class ChangeLog:
    """An endless list of changed rows of which the newest part is kept; readers hold a cursor into it."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._dropped = 0

    @property
    def end(self) -> int:
        return self._dropped + len(self._rows)

    def append(self, row: int) -> None:
        self._rows.append(row)
        if len(self._rows) > KEPT_CHANGES:
            half = KEPT_CHANGES // 2
            del self._rows[:half]
            self._dropped += half

    def since(self, cursor: int) -> list[int] | None:
        """The rows changed from `cursor` on, in order; None when that is too long ago to tell."""
        return None if cursor < self._dropped else self._rows[cursor - self._dropped :]
