from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headgate.ui.cli import main

PACKAGE = Path(__file__).parent / "annotation_gate"
HEADGATE = (sys.executable, "-c", "from headgate.ui.cli import main; main()")


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package of plugins is installed, as any other package would be."""
    source, target = tmp_path_factory.mktemp("source") / "package", tmp_path_factory.mktemp("installed")
    shutil.copytree(PACKAGE, source)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", target, source], check=True)
    return target


class Done:
    """How a command ended: its exit status, what it printed and what it said on standard error."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    def decisions(self, name: str) -> list[tuple[float, str, str]]:
        journal: list[dict[str, Any]] = json.loads(self.out)["journal"]
        return [(e["at"], e["decision"], e["message"]) for e in journal if e["object"]["name"] == name]


@pytest.fixture
def simulate(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], Done]:
    """`headgate simulate`, where the plugins are installed; JSON is YAML."""
    monkeypatch.syspath_prepend(installed)

    def call(document: dict[str, Any]) -> Done:
        file = tmp_path / "input.yaml"
        file.write_text(json.dumps(document))
        done = CliRunner().invoke(main, ["simulate", str(file), "--output", "json"])
        return Done(done.exit_code, done.stdout, done.stderr)

    return call


@pytest.fixture
def headgate(installed: Path, tmp_path: Path) -> Callable[..., Done]:
    """The command as a process of its own, in an environment with the plugins installed."""

    def call(*arguments: str) -> Done:
        environment = {**os.environ, "PYTHONPATH": str(installed), "HOME": str(tmp_path)}
        environment.pop("KUBECONFIG", None)
        done = subprocess.run(
            [*HEADGATE, *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return call
