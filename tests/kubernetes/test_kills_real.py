"""A server with a data directory that is killed again and again."""

from __future__ import annotations

from pathlib import Path

import pytest
from durable_server import killed_often


@pytest.mark.timeout(1200)  # twenty starts and ten thousand writes
async def test_nothing_acknowledged_is_missing_after_twenty_kills(tmp_path: Path):
    await killed_often(tmp_path, times=20, count=500)
