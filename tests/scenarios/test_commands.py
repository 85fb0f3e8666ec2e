"""What holds for every command: help with examples, formats, suggestions, colours, and output that goes nowhere."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from headgate.model.keys import Kind
from headgate.ui import output
from headgate.ui.cli import main

ROOT = Path(__file__).parents[2]
FIRST = str(ROOT / "examples" / "01-first-pod" / "scenario.yaml")
GANGS = str(ROOT / "examples" / "08-whole-gangs" / "scenario.yaml")
QUEUES = str(ROOT / "examples" / "11-queues" / "scenario.yaml")


def commands(group=main, path=()):
    """Every command, with the words that call it."""
    yield path, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            yield from commands(group.get_command(context, name), (*path, name))


def call(*arguments, **given):
    return CliRunner().invoke(main, arguments, **given)


@pytest.mark.parametrize("path", [pytest.param(path, id=" ".join(path) or "headgate") for path, _ in commands()])
def test_help_has_examples_and_is_free_of_holes(path):
    for flag in ("--help", "-h"):
        done = call(*path, flag)
        assert done.exit_code == 0
        assert "Examples:" in done.stdout and f"headgate {' '.join(path)}".strip() in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["simulate", FIRST], id="simulate"),
        pytest.param(
            ["explain", "workload", "job/newsletter", "--scenario", QUEUES, "--at", "20s"], id="explain workload"
        ),
        pytest.param(["explain", "preemption", "--scenario", GANGS], id="explain preemption"),
        pytest.param(["install", "--dry-run"], id="install"),
        pytest.param(["version"], id="version"),
    ],
)
def test_json_and_yaml_say_the_same(arguments):
    as_json, as_yaml = call(*arguments, "-o", "json"), call(*arguments, "--output", "yaml")
    assert (as_json.exit_code, as_yaml.exit_code) == (0, 0)
    documents = list(yaml.safe_load_all(as_yaml.stdout))
    found = json.loads(as_json.stdout)
    assert found == (documents[0] if len(documents) == 1 else {**found, "items": documents})


@pytest.mark.parametrize("arguments", [["simulate", FIRST], ["explain", "preemption", "--scenario", GANGS]])
def test_text_is_another_word_for_table(arguments):
    assert call(*arguments, "-o", "text").stdout == call(*arguments, "-o", "table").stdout == call(*arguments).stdout


@pytest.mark.parametrize(
    "arguments, said",
    [
        pytest.param(["simulte"], "No such command 'simulte'. Did you mean simulate?", id="a command"),
        pytest.param(
            ["xyz"], "Commands: apiserver, explain, install, run, simulate, up, version.", id="nothing like a command"
        ),
        pytest.param(["explain", "wrkload"], "No such command 'wrkload'. Did you mean workload?", id="a subcommand"),
        pytest.param(["simulate", "--ouput", "json", "x"], "Did you mean '--output'?", id="an option"),
    ],
)
def test_what_was_misspelt_is_suggested(arguments, said):
    done = call(*arguments)
    assert done.exit_code == 2 and said in done.stderr


def test_the_version_is_told_in_two_ways():
    assert call("version").stdout.startswith(call("--version").stdout.strip())
    assert json.loads(call("version", "-o", "json").stdout)["headgate"] == call("--version").stdout.split()[1]


def headgate(*arguments, **given):
    command = [sys.executable, "-m", "headgate", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **given)


def test_it_runs_as_a_module_from_standard_input():
    done = headgate("simulate", "-", input=Path(FIRST).read_text())
    assert done.returncode == 0 and done.stdout == call("simulate", FIRST).stdout


def test_a_configuration_may_come_from_standard_input(tmp_path):
    done = headgate("explain", "workload", "x", "--config", "-", input="nobodyKnows: 1")
    assert done.returncode == 2 and done.stderr.startswith("Error: /dev/stdin: ")


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_a_reader_that_has_seen_enough_ends_the_command_quietly(output):
    """The pipe is closed before anything is written."""
    command = [sys.executable, "-m", "headgate", "simulate", QUEUES, "-o", output]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        said = process.stderr.read()
        process.wait(60)
    assert said == ""
    assert process.returncode == 1


@pytest.mark.parametrize("arguments", [["simulate", FIRST], ["version"], ["--help"], ["install", "--dry-run"]])
def test_a_full_disk_gets_one_line(arguments):
    command = [sys.executable, "-m", "headgate", *arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "Error: cannot write the output: No space left on device\n")


def on_a_terminal(*arguments, **environment):
    """What the command writes to a terminal, but for its progress, which goes to standard error and takes its time."""
    ours, theirs = pty.openpty()
    settings = {**os.environ, "TERM": "xterm", **environment}
    command = [sys.executable, "-m", "headgate", *arguments]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, stdin=theirs, env=settings) as process:
        os.close(theirs)
        written = b""
        while chunk := _read(ours):
            written += chunk
        assert process.wait(60) == 0
    os.close(ours)
    return written.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


def test_a_terminal_gets_colours_unless_it_says_no():
    plain = call("simulate", FIRST).stdout
    coloured = on_a_terminal("simulate", FIRST)
    assert "\x1b[" in coloured and click.unstyle(coloured).replace("\r\n", "\n") == plain
    assert on_a_terminal("simulate", FIRST, NO_COLOR="1").replace("\r\n", "\n") == plain


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    "end, shown",
    [
        pytest.param(200.0, "simulating [###############               ]  50%", id="a share, where the end is known"),
        pytest.param(None, "simulating 100s", id="the time, where it is not"),
    ],
)
def test_a_long_run_shows_its_progress_on_a_terminal_and_cleans_up(monkeypatch, end, shown):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(output, "PATIENCE", 0.0)
    with output.progress_bar() as show:
        show(100.0, end)
    written = terminal.getvalue()
    assert written.startswith(f"\r{shown}") and written.endswith(f"\r{' ' * len(shown)}\r")


def test_while_a_cluster_is_read_a_terminal_shows_kinds_and_counts_below_what_is_logged(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(output, "PATIENCE", 0.0)
    monkeypatch.setattr(output, "REDRAW", 0.0)
    with output.cluster_reading() as reading:
        reading.read(Kind.NODE, 20)
        reading.read(Kind.POD, 1500)
        reading.write("a line of the log\n")
    first, second = "reading the cluster: 20 nodes", "reading the cluster: 1,500 pods, 20 nodes"
    assert terminal.getvalue() == f"\r{first}\r{second}\r{' ' * len(second)}\ra line of the log\n"


def test_the_line_is_no_longer_than_the_terminal_is_wide_and_does_not_come_back(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(output, "PATIENCE", 0.0)
    monkeypatch.setenv("COLUMNS", "21")
    reading = output.ClusterReading()
    reading.read(Kind.POD, 1)
    reading.done()
    shown = terminal.getvalue()
    assert shown == f"\rreading the cluster:\r{' ' * 20}\r"
    reading.read(Kind.POD, 1)
    assert terminal.getvalue() == shown


def test_where_standard_error_is_no_terminal_nothing_is_shown_of_what_is_read(monkeypatch):
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(output, "PATIENCE", 0.0)
    with output.cluster_reading() as reading:
        reading.read(Kind.POD, 1)
        reading.write("a line\n")
    assert written.getvalue() == "a line\n"


def test_a_short_run_shows_none(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with output.progress_bar() as show:
        show(100.0, 200.0)
    assert terminal.getvalue() == ""
