"""`headgate explain pod` in scenarios: what holds a pod, its queue at every level, who reserves ahead."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.ui.cli import main

FOLDER = Path(__file__).parent / "volcano"


def explain(pod, scenario, *arguments):
    return CliRunner().invoke(main, ["explain", "pod", pod, "--scenario", str(FOLDER / f"{scenario}.yaml"), *arguments])


def told(pod, scenario, *arguments):
    result = explain(pod, scenario, "--output", "json", *arguments)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    "pod, at, reason",
    [
        pytest.param("pod-1", "5s", "Scheduled", id="it runs"),
        pytest.param("pod-2", "5s", "SchedulingGated", id="its queue is full"),
        pytest.param("pod-2", "50s", "Unschedulable", id="its queue has capacity and no node fits"),
        pytest.param("pod-3", "50s", "SchedulingGated", id="another one reserves"),
    ],
)
def test_what_holds_a_pod(pod, at, reason):
    assert told(pod, "three-pods", "--at", at)["reason"] == reason


def test_every_level_is_shown_with_who_reserves_ahead():
    found = told("second", "every-level")
    assert [(each["queue"], each["capability"], each["reserved"]) for each in found["levels"]] == [
        ("two", "", "0"),
        ("org", "1", "1"),
        ("root", "", "1"),
    ]
    assert [(each["pod"], each["queue"], each["requests"]) for each in found["ahead"]] == [
        ("default/first", "one", "cpu 1")
    ]


def test_a_gate_of_somebody_else_is_named():
    found = told("held", "foreign-gate", "--at", "20s")
    assert found["message"] == "Scheduling is blocked due to non-empty scheduling gates"
    assert found["ahead"] == []


def test_the_text_has_the_numbers():
    text = explain("pod-3", "three-pods", "--at", "50s").stdout
    assert "queue team has cpu 1, and cpu 1 is in use or reserved; requested cpu 1" in text
    assert "default/pod-2  team   cpu 1" in text


def test_a_pod_that_is_not_there_is_said_so():
    result = explain("nobody", "three-pods")
    assert result.exit_code == 1
    assert "pod default/nobody not found" in result.stderr
