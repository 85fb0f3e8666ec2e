"""Files nobody should feed to us, through every option that takes a file: one line, exit status 2, bounded memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.ui.cli import main

DEEP = "kind: Scenario\nclusters: [{objects: [{spec: " + "[" * 3000 + "]" * 3000 + "}]}]\n"
BOMB = "kind: Scenario\nx0: &x0 [a, a, a, a, a, a, a, a, a, a]\n" + "".join(
    f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
HOSTILE = {
    "3,000 levels": DEEP.encode(),
    "an alias bomb": BOMB.encode(),
    "a value in itself": b"kind: Scenario\nclusters: &a [*a]\n",
    "a NUL byte": b"kind: Scenario\nuntil: 1\0s\n",
    "no UTF-8": b"kind: \xff\xfe\xfa\n",
    "a tab": b"kind: Scenario\nclusters:\n\t- {}\n",
    "a key twice": b"kind: Scenario\nkind: Scenario\n",
    "a list as key": b"{[a]: b}\n",
    "a number too large": b"kind: " + b"9" * 5000 + b"\n",
}
COMMANDS = {
    "simulate": ["simulate", "FILE"],
    "simulate, of what explains a workload": ["explain", "workload", "w", "--scenario", "FILE"],
    "simulate, of what explains preemptions": ["explain", "preemption", "--scenario", "FILE"],
    "a configuration that explains": ["explain", "workload", "w", "--config", "FILE"],
    "a kubeconfig to run with": ["run", "--kubeconfig", "FILE"],
    "a kubeconfig to install with": ["install", "--kubeconfig", "FILE"],
    "a kubeconfig to explain with": ["explain", "workload", "w", "--kubeconfig", "FILE"],
}


@pytest.mark.parametrize("content", [pytest.param(content, id=name) for name, content in HOSTILE.items()])
@pytest.mark.parametrize("command", [pytest.param(command, id=name) for name, command in COMMANDS.items()])
def test_a_hostile_file_gets_one_line_and_exit_status_2(tmp_path, command, content):
    file = tmp_path / "hostile.yaml"
    file.write_bytes(content)
    done = CliRunner().invoke(main, [str(file) if word == "FILE" else word for word in command])
    assert (done.exit_code, done.stdout) == (2, "")
    assert len(done.stderr.strip().splitlines()) == 1 and "hostile.yaml" in done.stderr


@pytest.mark.parametrize("content", [pytest.param(content, id=name) for name, content in HOSTILE.items()])
def test_hostile_standard_input_gets_one_line_and_exit_status_2(content):
    done = CliRunner().invoke(main, ["simulate", "-"], input=content)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("standard input: ") and len(done.stderr.strip().splitlines()) == 1


def test_a_file_of_100_mb_is_refused_within_little_memory(tmp_path):
    file = tmp_path / "large.yaml"
    with file.open("wb") as out:
        out.truncate(100 * 2**20)  # a sparse file of NUL bytes
    _, status, said = _limited(["simulate", str(file)])
    assert (status, said) == (2, f"{file}: expected at most 64 MiB\n")


def test_endless_input_is_refused_within_little_memory():
    with Path("/dev/zero").open("rb") as endless:
        _, status, said = _limited(["simulate", "-"], endless)
    assert (status, said) == (2, "standard input: expected at most 64 MiB\n")


def _limited(arguments, given=subprocess.DEVNULL):
    """Runs the command with an address space of 1.5 GiB."""
    limit = 3 * 2**29
    done = subprocess.run(
        [sys.executable, "-m", "headgate", *arguments],
        stdin=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    return done.stdout, done.returncode, done.stderr
