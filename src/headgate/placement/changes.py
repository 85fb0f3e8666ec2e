"""Which rows changed since someone last looked, so that nobody looks at all of them."""

from __future__ import annotations

KEPT_CHANGES = 1 << 16


class ChangeLog:
    """An endless list of changed rows of which the newest part is kept; readers hold a cursor into it."""

    def __init__(self) -> None:
        self.end = 0  # where the next change will stand
        self._rows: list[int] = []

    def append(self, row: int) -> None:
        self.end += 1
        self._rows.append(row)
        if len(self._rows) > KEPT_CHANGES:
            del self._rows[: KEPT_CHANGES // 2]

    def since(self, cursor: int) -> list[int] | None:
        """The rows changed from `cursor` on, in order; None when that is too long ago to tell."""
        first = self.end - len(self._rows)
        return None if cursor < first else self._rows[cursor - first :]
