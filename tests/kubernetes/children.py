"""Programs the tests start: each has a log file, and none outlives the test run."""

from __future__ import annotations

import asyncio
import ctypes
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

PATIENCE = 60.0  # seconds anything may take before a test gives up
STOP_PATIENCE = 60.0  # seconds a program may take to end after SIGTERM

Found = TypeVar("Found")


class Child:
    """A running program. `stop` is polite first and certain in the end; it may be called again."""

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        self.log, self.name = log, Path(command[0]).name
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  (the tests start no threads)
            )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def cpu_seconds(self) -> float:
        """User and system time so far, of a program that still runs."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    @property
    def exact_cpu_seconds(self) -> float:
        """The same of the threads that it has now, to the nanosecond."""
        threads = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9

    def written(self) -> str:
        return self.log.read_text(errors="replace")

    def terminate(self) -> None:
        """Ask it to end, and go on at once."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        return self._process.wait(STOP_PATIENCE)

    def stop(self) -> None:
        if not self.running:
            return
        self.terminate()
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            self.kill()


def _die_with_parent() -> None:
    """Have the system end this program when the test run is itself killed (Linux only)."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(what: str, look: Callable[[], Found | None], seconds: float = PATIENCE) -> Found:
    """The first answer that is neither None nor False; fails with `what` when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.05)
    return found


async def eventually_asked(what: str, look: Callable[[], Awaitable[Found | None]], seconds: float = PATIENCE) -> Found:
    """The same of what is asked without blocking others."""
    deadline = time.monotonic() + seconds
    while not (found := await look()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        await asyncio.sleep(0.05)
    return found


async def settled(
    ask: Callable[[], Awaitable[Found]], wanted: Found, again: Callable[[Found], bool] = lambda _found: True
) -> Found:
    """The first answer that is as wanted, or that may not be asked for `again`; in the end whatever is answered then.

    A real API server learns of much that its answers depend on from watches, a moment later.
    """
    deadline = time.monotonic() + PATIENCE
    while (found := await ask()) != wanted and again(found) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    return found
