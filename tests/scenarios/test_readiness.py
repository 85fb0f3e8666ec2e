"""Pod scheduling readiness on the whole stack in virtual time: the user stories and every cell of the table."""

from pathlib import Path

import pytest

from headgate.simulator.scenario import load_scenario
from headgate.simulator.virtual_time import run

FOLDER = Path(__file__).parent / "readiness"
SCENARIOS = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_holds_what_it_expects(path):
    report = run(load_scenario(str(path)))
    assert [str(failure) for failure in report.failures] == []


@pytest.fixture(scope="module")
def matrix():
    return run(load_scenario(str(FOLDER / "matrix.yaml")))


@pytest.mark.parametrize(
    "at, name, code, says",
    [
        pytest.param(10, "plain", 422, "only deletion is allowed", id="an unscheduled pod gets no gates by update"),
        pytest.param(11, "gated", 422, "found new scheduling gate 'example.com/c'", id="nor does one that has some"),
        pytest.param(13, "both", 422, "cannot be set until all schedulingGates", id="no pod is born placed and gated"),
        pytest.param(14, "placed", 422, "only deletion is allowed", id="a scheduled pod gets no gates by update"),
        pytest.param(25, "gated", 422, "found new scheduling gate 'example.com/a'", id="a gate does not come back"),
        pytest.param(35, "gated", 422, "only deletion is allowed", id="nor after the last one went"),
    ],
)
def test_what_the_table_forbids_is_refused(matrix, at, name, code, says):
    (refused,) = [each for each in matrix.refused if each["at"] == at]
    assert refused["object"]["name"] == name
    assert refused["code"] == code
    assert says in refused["message"]


def test_what_the_table_allows_is_done(matrix):
    assert sorted(each["at"] for each in matrix.refused) == [10, 11, 13, 14, 25, 35]


def test_the_journal_tells_the_story_of_the_gates(matrix):
    story = [(entry["at"], entry["decision"]) for entry in matrix.journal if entry["object"]["name"] == "gated"]
    assert story == [(0, "gate"), (20, "gate"), (30, "ungate"), (30, "bind")]


def test_one_event_when_it_is_gated_and_one_when_it_is_released(matrix):
    (objects,) = matrix.final.values()
    reasons = [each["reason"] for each in objects if each["kind"] == "Event"]
    assert sorted(reasons) == ["Scheduled", "SchedulingGated", "SchedulingGatesRemoved"]
