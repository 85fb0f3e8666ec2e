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
    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr

    def decisions(self, name: str) -> list[tuple[float, str, str]]:
        journal: list[dict[str, Any]] = json.loads(self.out)["journal"]
        return [(e["at"], e["decision"], e["message"]) for e in journal if e["object"]["name"] == name]


@pytest.fixture
def headgate(installed: Path, tmp_path: Path) -> Callable[..., Done]:
    """The command, in an environment with the plugins installed; JSON is YAML."""

    def call(command: str, document: dict[str, Any], *options: str) -> Done:
        file = tmp_path / "input.yaml"
        file.write_text(json.dumps(document))
        arguments = [command, *(str(file) if option == "FILE" else option for option in options)]
        environment = {**os.environ, "PYTHONPATH": str(installed), "HOME": str(tmp_path)}
        environment.pop("KUBECONFIG", None)
        return Done(
            subprocess.run(
                [*HEADGATE, *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
            )
        )

    return call
