"""How a run ends that does not end by itself, or not yet: things that go round, Ctrl-C, and kinds that nobody runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from headgate.simulator import virtual_time
from headgate.ui import simulate_command
from headgate.ui.cli import main

RESTLESS = """
kind: Scenario
clusters:
- nodes: [{name: n-0, capacity: {cpu: "8"}}]
  objects:
  - apiVersion: apps/v1
    kind: StatefulSet
    metadata: {name: restless, namespace: default}
    spec:
      replicas: 1
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}, annotations: {headgate.dev/run-seconds: "0"}}
        spec: {schedulerName: headgate, containers: [{name: c, image: i}]}
"""
EVERY_MINUTE = """
kind: Scenario
until: 2000h
clusters:
- nodes: [{name: n-0, capacity: {cpu: "8"}}]
  objects:
  - apiVersion: batch/v1
    kind: CronJob
    metadata: {name: tick, namespace: default}
    spec:
      schedule: "* * * * *"
      jobTemplate:
        spec:
          template:
            metadata: {annotations: {headgate.dev/run-seconds: "1"}}
            spec: {schedulerName: headgate, restartPolicy: Never, containers: [{name: c, image: i}]}
  - {apiVersion: v1, kind: ReplicationController, metadata: {name: old, namespace: default}, spec: {replicas: 1}}
"""


@pytest.fixture
def file(tmp_path):
    def write(text: str) -> str:
        (tmp_path / "scenario.yaml").write_text(text)
        return str(tmp_path / "scenario.yaml")

    return write


def test_things_that_go_round_end_with_the_story_of_those_that_do(file, monkeypatch):
    monkeypatch.setattr(virtual_time, "MOST_ROUNDS", 300)
    done = CliRunner().invoke(main, ["simulate", file(RESTLESS)])
    assert (done.exit_code, done.stdout) == (1, "")
    first, *story = done.stderr.splitlines()
    assert "at 0s things go round: 300 rounds and time does not go on" in first
    assert story[0].startswith("  Pod default/restless-0 (") and story[1].startswith("    bind Scheduled: ")
    assert len(story) <= 15


def test_a_run_that_is_interrupted_prints_what_is_known_so_far(file, monkeypatch):
    """Interrupted when the clock shows three minutes, as Ctrl-C would."""

    def interrupt(now, end):
        if now >= 180.0:
            raise KeyboardInterrupt

    @contextmanager
    def bar():
        yield interrupt

    monkeypatch.setattr(simulate_command, "progress_bar", bar)
    done = CliRunner().invoke(main, ["simulate", file(EVERY_MINUTE)])
    assert done.exit_code == 130
    assert "interrupted at 3m of the scenario" in done.stderr
    assert "after 3m, pods: 2 created, 2 bound, 2 succeeded" in done.stdout
    as_json = CliRunner().invoke(main, ["simulate", file(EVERY_MINUTE), "--output", "json"])
    assert as_json.exit_code == 130 and json.loads(as_json.stdout)["until"] == 180


def test_ctrl_c_ends_a_run_with_130_and_without_a_traceback(file):
    """The warning is the sign that the run is about to begin."""
    command = [sys.executable, "-m", "headgate", "simulate", file(EVERY_MINUTE), "--output", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        warning = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=60)
    assert "ReplicationController" in warning
    assert process.returncode == 130
    assert "interrupted" in said and "Traceback" not in said
    assert not printed or "journal" in json.loads(printed)


def test_kinds_that_nobody_runs_are_named_once(file):
    widgets = """
  - apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: widgets.example.com}
    spec:
      group: example.com
      scope: Namespaced
      names: {kind: Widget, plural: widgets, singular: widget}
      versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
"""
    widget = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, namespace: default}}"
    timeline = f"timeline: [{{at: 1s, apply: [{widget}, {widget}]}}]\n"
    done = CliRunner().invoke(
        main, ["simulate", file(EVERY_MINUTE.replace("2000h", "10s").rstrip() + widgets + timeline)]
    )
    assert done.exit_code == 0
    assert done.stderr == (
        "Warning: no controller of a simulated cluster acts on ReplicationController, Widget: objects of these kinds "
        "are stored and nothing more happens to them\n"
    )


def test_what_is_run_is_not_warned_about(file):
    assert CliRunner().invoke(main, ["simulate", file(RESTLESS.replace('"0"', '"5"') + "until: 2s")]).stderr == ""
