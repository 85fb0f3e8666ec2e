"""Our own process as its users start it."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from children import Child, eventually, free_port

HEADGATE = Path(sys.executable).parent / "headgate"


class OurProcess(Child):
    """`headgate run` for pod scheduling, on a free port."""

    def __init__(self, kubeconfig: Path, log: Path, *flags: str) -> None:
        self.port = free_port()
        common: list[str | Path] = [
            "--kubeconfig",
            kubeconfig,
            "--roles",
            "scheduler",
            "--listen",
            f"127.0.0.1:{self.port}",
        ]
        super().__init__([HEADGATE, "run", *common, *flags], log)

    def answers(self, path: str) -> bool:
        """Whether it says 200 to that path, such as /readyz; fails if the process has ended."""
        assert self.running, f"our process ended:\n{self.written()[-2000:]}"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def our_apiserver(folder: Path, *flags: str) -> Iterator[Path]:
    """The kubeconfig of a `headgate apiserver` that runs while the context lasts, and ends cleanly."""
    file = folder / "kubeconfig"
    server = Child([HEADGATE, "apiserver", *flags, "--kubeconfig", file], folder / "apiserver.log")
    try:
        eventually("our API server is up", lambda: file.exists() or not server.running)
        assert server.running, server.written()
        yield file
        server.terminate()
        assert server.wait() == 0, server.written()
    finally:
        server.stop()
