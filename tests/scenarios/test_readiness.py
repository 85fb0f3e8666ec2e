"""Pod scheduling readiness on the whole stack in virtual time: the user stories and every cell of the table."""

from pathlib import Path

import pytest
from simulator.small_scenarios import pod, scenario

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
    assert story == [(0, "gate"), (30, "ungate"), (30, "bind")]


def test_gates_cost_no_events(matrix):
    (objects,) = matrix.final.values()
    assert [each["reason"] for each in objects if each["kind"] == "Event"] == ["Scheduled"]


def test_gates_cost_no_writes_at_all():
    """Two gates that go one after the other: what we write is the binding and its event, as without gates."""
    gates = [{"name": "example.com/a"}, {"name": "example.com/b"}]
    steps = [
        {"at": f"{at}s", "patch": {"kind": "Pod", "namespace": "default", "name": "a", "merge": merge}}
        for at, merge in ((10, {"spec": {"schedulingGates": gates[1:]}}), (20, {"spec": {"schedulingGates": None}}))
    ]
    gated, plain = run(scenario(pod("a", schedulingGates=gates), timeline=steps)), run(scenario(pod("a")))
    assert [entry["decision"] for entry in gated.journal] == ["gate", "ungate", "bind"]
    assert gated.summary["effects"] == plain.summary["effects"] == 2
