"""Volcano's queues and the queue-allocation gate on the whole stack in virtual time, also in trouble."""

from pathlib import Path

import pytest

from headgate.simulator.faults import parse_faults
from headgate.simulator.scenario import load_scenario
from headgate.simulator.virtual_time import run

FOLDER = Path(__file__).parent / "volcano"
SCENARIOS = sorted(path.stem for path in FOLDER.glob("*.yaml"))
TROUBLE = parse_faults("lost=0.1,coalesced=0.3,dropped=0.2,stale=200ms")


def scenario(name):
    return load_scenario(str(FOLDER / f"{name}.yaml"))


def pods(report):
    return {found["metadata"]["name"]: found for found in report.final["main"] if found["kind"] == "Pod"}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_holds_what_it_expects(name):
    given = scenario(name)
    assert given.expectations, "a scenario that expects nothing shows nothing"
    report = run(given)
    assert [str(failure) for failure in report.failures] == []
    assert report.refused == []


@pytest.mark.parametrize("name", ["three-pods", "gang", "every-level"])
@pytest.mark.parametrize("seed", range(3))
def test_it_comes_to_the_same_with_lost_answers_and_late_observations(name, seed):
    expected, found = run(scenario(name)), run(scenario(name), seed, TROUBLE)
    places = [
        {key: (pod["spec"].get("nodeName"), pod["spec"].get("schedulingGates")) for key, pod in pods(each).items()}
        for each in (expected, found)
    ]
    assert places[0] == places[1]
