"""The controllers of simulated clusters on the whole stack: Deployments, ReplicaSets, Indexed Jobs and CronJobs."""

from pathlib import Path

import pytest

from headgate.simulator.faults import Faults, parse_faults
from headgate.simulator.scenario import load_scenario
from headgate.simulator.virtual_time import run

FOLDER = Path(__file__).parent / "world"
SCENARIOS = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(Faults(), id="when all goes well"),
        pytest.param(parse_faults("crash=0.05,lost=0.1,conflict=0.1,coalesced=0.3,restart=100ms"), id="in trouble"),
    ],
)
def test_a_scenario_holds_what_it_expects(name, faults):
    given = load_scenario(str(FOLDER / f"{name}.yaml"))
    assert given.expectations, "a scenario that expects nothing shows nothing"
    report = run(given, faults=faults)
    assert [str(failure) for failure in report.failures] == []
    assert report.refused == []
