"""`headgate up` as a process: with real kubectl, with a real kube-apiserver, and until a signal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from assets import program
from children import Child, eventually
from cluster import START_PATIENCE

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "20-up" / "scenario.yaml"
MAKES = re.search(r"--scenario \S+", (ROOT / "Makefile").read_text())
README = (ROOT / "README.md").read_text()
COMMAND = (sys.executable, "-m", "headgate", "up", "--scenario", EXAMPLE)


@contextmanager
def started(folder: Path, *arguments: object) -> Iterator[Child]:
    """It says that it is up."""
    child = Child([*COMMAND, "--kubeconfig", folder / "headgate.kubeconfig", *map(str, arguments)], folder / "up.log")
    try:
        eventually("it is up", lambda: "export KUBECONFIG=" in child.written() or not child.running, START_PATIENCE)
        assert "export KUBECONFIG=" in child.written(), child.written()
        yield child
    finally:
        child.stop()


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Child]:
    with started(tmp_path) as child:
        yield child


def kubectl_lines() -> list[str]:
    (block,) = re.findall(r"```\n(export KUBECONFIG=.*?)```", README, flags=re.DOTALL)
    return block.strip().splitlines()


def test_the_lines_of_the_readme_work_as_printed(up: Child, tmp_path: Path):
    assert MAKES is not None and ROOT / MAKES[0].split()[1] == EXAMPLE, "what make run starts"
    export, *lines = kubectl_lines()
    assert export == "export KUBECONFIG=$PWD/headgate.kubeconfig"
    path = f"{program('kubectl').parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(tmp_path / "headgate.kubeconfig")}
    said = ""
    for line in lines:
        done = subprocess.run(line, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        said += done.stdout
    assert "job.batch/evaluate condition met" in said
    assert len(re.findall(r"^pod/\S+ +\S+ +Completed ", said, flags=re.MULTILINE)) == 9


def test_a_signal_ends_it_cleanly(up: Child):
    up.terminate()
    assert up.wait() == 0, up.written()
    assert "Traceback" not in up.written()


def test_a_job_runs_to_its_end_on_a_real_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).symlink_to(program(name))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with started(tmp_path, "--kube-apiserver", "--exit-when-idle") as child:
        eventually("the job is done", lambda: not child.running, START_PATIENCE)
        assert child.wait() == 0, child.written()
    assert "4 nodes, pods: 4 Succeeded" in child.written()
