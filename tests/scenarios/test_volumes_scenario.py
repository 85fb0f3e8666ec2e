"""Claims from end to end in virtual time, with and without trouble on the way."""

from pathlib import Path

import pytest

from headgate.simulator.faults import Faults, parse_faults
from headgate.simulator.scenario import load_scenario
from headgate.simulator.virtual_time import run

SCENARIO = str(Path(__file__).parent / "volumes" / "scenario.yaml")


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(Faults(), id="when all goes well"),
        pytest.param(
            parse_faults("crash=0.2,lost=0.2,conflict=0.2,coalesced=0.5,dropped=0.3,stale=1s"), id="in trouble"
        ),
    ],
)
def test_a_pod_runs_where_its_claims_are_bound_to(faults):
    report = run(load_scenario(SCENARIO), seed=3, faults=faults)
    assert [str(failure) for failure in report.failures] == []
    assert report.refused == []
