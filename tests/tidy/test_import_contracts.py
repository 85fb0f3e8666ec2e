"""The import contracts are not decoration: each deliberately wrong import is caught."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    place = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", place / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", place / "pyproject.toml")
    return place


def lint(place):
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    environment = {"PYTHONPATH": str(place / "src"), "PATH": ""}
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "module, wrong, contract",
    [
        pytest.param("engine/loop.py", "import asyncio", "rolls no dice", id="the engine imports asyncio"),
        pytest.param("model/keys.py", "import time", "rolls no dice", id="the model reads a clock"),
        pytest.param("apiserver/storage.py", "import random", "rolls no dice", id="the small Kubernetes rolls dice"),
        pytest.param("placement/table.py", "import headgate.quota", "siblings", id="placement imports quota"),
        pytest.param(
            "model/keys.py", "import headgate.engine.loop", "Imports point down", id="the model imports the engine"
        ),
        pytest.param("engine/loop.py", "import headgate.api.decode", "never see", id="the engine imports api"),
        pytest.param(
            "apiserver/storage.py",
            "import headgate.model.pod",
            "none of our kinds",
            id="the small Kubernetes knows our pods",
        ),
        pytest.param("live/loop.py", "import headgate.simulator", "siblings", id="live imports the simulator"),
    ],
)
def test_a_wrong_import_is_caught(copy, module, wrong, contract):
    path = copy / "src" / "headgate" / module
    right = path.read_text()
    path.write_text(f"{right}\n{wrong}\n")
    try:
        result = lint(copy)
    finally:
        path.write_text(right)
    assert result.returncode != 0
    assert any(contract in line and "BROKEN" in line for line in result.stdout.splitlines()), result.stdout


def test_the_tree_as_it_is_keeps_them_all(copy):
    result = lint(copy)
    assert result.returncode == 0, result.stdout
