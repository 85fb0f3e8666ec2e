"""Volcano's queues and the queue-allocation gate on the whole stack in virtual time, also in trouble."""

from pathlib import Path

import pytest

from headgate.simulator.faults import parse_faults
from headgate.simulator.scenario import load_scenario, parse_scenario
from headgate.simulator.virtual_time import run

FOLDER = Path(__file__).parent / "volcano"
SCENARIOS = sorted(path.stem for path in FOLDER.glob("*.yaml"))
TROUBLE = parse_faults("crash=0.03,lost=0.1,conflict=0.05,coalesced=0.3,dropped=0.2,stale=500ms")


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


def verdicts(report):
    """Which pods have a node and which are gated; of equal nodes it may be either."""
    return {name: ("nodeName" in pod["spec"], "schedulingGates" in pod["spec"]) for name, pod in pods(report).items()}


@pytest.mark.parametrize("name", ["three-pods", "gang", "every-level", "scale-from-zero", "reclaim", "reclaim-nodes"])
@pytest.mark.parametrize("seed", range(3))
def test_it_comes_to_the_same_with_crashes_lost_answers_conflicts_and_late_observations(name, seed):
    assert verdicts(run(scenario(name), seed, TROUBLE)) == verdicts(run(scenario(name)))


@pytest.mark.parametrize("autoscaler", ["karpenter", "clusterAutoscaler"])
def test_autoscalers_buy_only_what_the_queue_allows(autoscaler):
    text = (FOLDER / "autoscaled.yaml").read_text().replace("karpenter", autoscaler)
    found = run(parse_scenario(text, "autoscaled.yaml")).summary["autoscaler"]
    assert (found["nodesAdded"], found["falseScaleUps"], found["missedScaleUps"]) == (2, 0, 0)


@pytest.mark.parametrize("autoscaler", ["karpenter", "clusterAutoscaler"])
def test_without_the_gate_autoscalers_buy_what_the_queue_does_not_allow(autoscaler):
    text = (FOLDER / "autoscaled.yaml").read_text().replace("karpenter", autoscaler).partition("expect:")[0]
    without = text.replace('scheduling.volcano.sh/queue-allocation-gate: "true"', 'example.com/gate: "no"')
    assert run(parse_scenario(without, "without.yaml")).summary["autoscaler"]["nodesAdded"] == 4
