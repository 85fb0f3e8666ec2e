from __future__ import annotations

import io
import time

import pytest
from throwaway_ca import ThrowawayCa

from headgate.live.logs import Log, LogLevel, text_line


class MemoryLog(Log):
    """A log whose lines a test can read."""

    def __init__(self) -> None:
        self.out = io.StringIO()
        super().__init__(self.out, text_line, LogLevel.DEBUG, time.time)

    @property
    def lines(self) -> list[str]:
        """Without the time in front."""
        return [line.split(" ", 1)[1].strip() for line in self.out.getvalue().splitlines()]


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture(scope="session")
def ca(tmp_path_factory: pytest.TempPathFactory) -> ThrowawayCa:
    return ThrowawayCa(tmp_path_factory.mktemp("ca"))
