"""Every example runs, holds what it expects, and is told byte for byte alike by two processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.simulator.scenario import load_scenario
from headgate.simulator.virtual_time import run
from headgate.ui.cli import main

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*/scenario.yaml"))
each_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)


def test_there_are_examples():
    assert len(EXAMPLES) >= 4


@each_example
def test_an_example_holds_what_it_expects(path):
    scenario = load_scenario(str(path))
    assert scenario.expectations, "an example that expects nothing shows nothing"
    report = run(scenario)
    assert [str(failure) for failure in report.failures] == []
    assert report.refused == []


@each_example
def test_an_example_is_explained(path):
    readme = path.with_name("README.md").read_text()
    assert f"headgate simulate {path.relative_to(ROOT)}" in readme


@each_example
def test_the_timeline_in_its_explanation_is_what_happens(path):
    readme = path.with_name("README.md").read_text()
    for block in re.findall(r"```\n(TIME .*?)```", readme, re.DOTALL):
        assert CliRunner().invoke(main, ["simulate", str(path)]).stdout.startswith(block)


TELL_ALL = """
import sys
from click.testing import CliRunner
from headgate.ui.cli import main
faults = "crash=0.05,lost=0.1,conflict=0.1,coalesced=0.3,dropped=0.2,stale=1s"
for path in sys.argv[1:]:
    done = CliRunner().invoke(main, ["simulate", path, "--seed", "7", "--output", "json", "--faults", faults])
    sys.stdout.write(done.stdout.strip() + "\\n")
"""


def _told(hash_seed: str) -> list[str]:
    """What a process of its own tells of each example, a line for each."""
    command = [sys.executable, "-c", TELL_ALL, *map(str, EXAMPLES)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_one_seed_gives_one_history_in_any_process():
    first, second = _told("1"), _told("4242")
    assert len(first) == len(EXAMPLES)
    for path, one, other in zip(EXAMPLES, first, second, strict=True):
        assert one.startswith('{"until":'), path
        assert one == other, path
