"""A rule with a bug in a whole simulated cluster: one pod waits, everything else goes on, also after a crash."""

import pytest
from small_scenarios import decisions, nodes, pod, scenario, where

from headgate.placement.filters import NodeResourcesFit
from headgate.simulator.faults import NO_FAULTS, Faults
from headgate.simulator.virtual_time import run


@pytest.fixture(autouse=True)
def broken_rule(monkeypatch):
    """It cannot judge pods that ask for 666 millicores."""
    judged = NodeResourcesFit.demands

    def demands(self, shape, nodes, rows, already):
        if shape.requests["cpu"] == 666:
            raise ZeroDivisionError("the rule has a bug")
        return judged(self, shape, nodes, rows, already)

    monkeypatch.setattr(NodeResourcesFit, "demands", demands)


FAULTS = Faults(crash=0.05, lost=0.1, conflict=0.1, coalesced=0.3, dropped=0.2, stale=1.5)


@pytest.mark.parametrize("faults", [pytest.param(NO_FAULTS, id="calm"), pytest.param(FAULTS, id="with faults")])
@pytest.mark.parametrize("seed", range(4))
def test_one_pod_waits_and_the_others_run_exactly_once(faults, seed):
    others = [pod(f"p{n}", run="20") for n in range(6)]
    late = {"at": "8s", "apply": [pod("late"), pod("worse", cpu="666m")]}
    crash = {"at": "5s", "crash": "2s"}
    given = scenario(*others, pod("bad", cpu="666m"), machines=[nodes(2)], timeline=[crash, late])
    report = run(given, seed, faults)
    assert all(where(report, f"p{n}") for n in range(6))
    assert where(report, "late")
    assert (where(report, "bad"), where(report, "worse")) == (None, None)
    assert "quarantine" in [decision for _, decision in decisions(report, "bad")]


def test_it_is_bound_when_its_rule_can_judge_it():
    """Its annotations change, which is a new version; the bug is about what it asks for, so it is replaced."""
    again = [
        {"at": "5s", "delete": {"kind": "Pod", "name": "bad"}},
        {"at": "6s", "apply": [pod("bad", cpu="600m")]},
    ]
    report = run(scenario(pod("bad", cpu="666m"), pod("a"), timeline=again))
    assert where(report, "bad") == where(report, "a") == "n-0"
