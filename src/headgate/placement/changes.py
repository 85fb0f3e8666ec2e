"""Which rows changed since someone last looked, and by what, so that nobody looks at all of them."""

from __future__ import annotations

from headgate.model.pod import PodShape

Change = tuple[int, PodShape | None]
"""A row, and the shape of the pod that was put there if that is all that happened."""

KEPT_CHANGES = 1 << 16


class ChangeLog:
    """An endless list of changes of which the newest part is kept; readers hold a cursor into it."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._dropped = 0

    @property
    def end(self) -> int:
        return self._dropped + len(self._changes)

    def append(self, row: int, cause: PodShape | None = None) -> None:
        self._changes.append((row, cause))
        if len(self._changes) > KEPT_CHANGES:
            half = KEPT_CHANGES // 2
            del self._changes[:half]
            self._dropped += half

    def since(self, cursor: int) -> list[Change] | None:
        """The changes from `cursor` on; None when that is too long ago to tell."""
        return None if cursor < self._dropped else self._changes[cursor - self._dropped :]
