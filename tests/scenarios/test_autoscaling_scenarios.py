"""The contract with autoscalers on the whole stack: what quota allows and no node takes becomes Unschedulable, and
nothing else does. So neither autoscaler orders a node for nothing, and none that is needed is missing."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from headgate.simulator.faults import Faults, WriteFault, parse_faults
from headgate.simulator.scenario import parse_scenario
from headgate.simulator.virtual_time import run

FOLDER = Path(__file__).parent / "autoscaling"
ORDERED = {"full-queue": 2, "gated-pods": 1, "gang": 2, "queue-allocation-gate": 2, "victims": 0}
AUTOSCALERS = ("karpenter", "clusterAutoscaler")
TROUBLE = parse_faults("crash=0.05,lost=0.1,conflict=0.1,coalesced=0.3,dropped=0.2,stale=200ms")


def scenario(name, autoscaler):
    text = (FOLDER / f"{name}.yaml").read_text()
    return parse_scenario(text.replace("kind: karpenter", f"kind: {autoscaler}"), f"{name}.yaml")


def test_every_scenario_is_run():
    assert sorted(ORDERED) == sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("autoscaler", AUTOSCALERS)
@pytest.mark.parametrize("name", sorted(ORDERED))
def test_no_scale_up_is_false_and_none_is_missed(name, autoscaler):
    report = run(scenario(name, autoscaler))
    assert [str(failure) for failure in report.failures] == []
    assert report.refused == []
    found = report.summary["autoscaler"]
    assert (found["falseScaleUps"], found["missedScaleUps"]) == (0, 0)
    assert found["nodesAdded"] == ORDERED[name]


@pytest.mark.parametrize("autoscaler", AUTOSCALERS)
def test_without_a_queue_nodes_are_ordered_for_all_at_once(autoscaler):
    text = (FOLDER / "full-queue.yaml").read_text()
    text = text.replace("kueue.x-k8s.io/queue-name: team", "example.com/team: team").replace("karpenter", autoscaler)
    report = run(parse_scenario(text.partition("expect:")[0], "without.yaml"))
    assert report.summary["autoscaler"]["nodesAdded"] == 4


def of_another_scheduler(**fields):
    """A cluster without nodes and one pod that no scheduler of ours looks at."""
    spec = {"schedulerName": "other", "containers": [{"name": "c", "image": "i"}], **fields.pop("spec", {})}
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": spec,
        **fields,
    }
    return {"kind": "Scenario", "timeline": [{"at": "5s", "apply": [made]}], "until": "10m"}


UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


@pytest.mark.parametrize(
    "given, reasons, missed",
    [
        pytest.param(
            of_another_scheduler(spec={"schedulingGates": [{"name": "example.com/quota"}]}, status=UNSCHEDULABLE),
            {"quota": 1, "victims": 0, "unused": 0},
            0,
            id="a gated pod that somebody calls Unschedulable",
        ),
        pytest.param(
            of_another_scheduler(),
            {"quota": 0, "victims": 0, "unused": 0},
            1,
            id="a pod that nobody calls Unschedulable",
        ),
        pytest.param(
            of_another_scheduler(status=UNSCHEDULABLE),
            {"quota": 0, "victims": 0, "unused": 1},
            0,
            id="a pod that does not use the node ordered for it",
        ),
    ],
)
@pytest.mark.parametrize("autoscaler", AUTOSCALERS)
def test_wrong_signals_are_counted(autoscaler, given, reasons, missed):
    group = {"name": "big", "max": 1, "delay": "60s", "node": {"capacity": {"cpu": "4"}}}
    cluster = {"name": "main", "autoscaler": {"kind": autoscaler, "groups": [group]}}
    found = run(parse_scenario(json.dumps(given | {"clusters": [cluster]}), "wrong.yaml")).summary["autoscaler"]
    assert (found["falseReasons"], found["missedScaleUps"]) == (reasons, missed)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("autoscaler", AUTOSCALERS)
@pytest.mark.parametrize("name", sorted(ORDERED))
def test_crashes_and_lost_answers_order_no_node_that_quota_does_not_allow(name, autoscaler, seed):
    found = run(scenario(name, autoscaler), seed, TROUBLE).summary["autoscaler"]
    assert (found["falseReasons"]["quota"], found["missedScaleUps"]) == (0, 0)


@pytest.mark.parametrize("fault", [WriteFault.CRASH_AFTER, WriteFault.CONFLICT, WriteFault.LOST])
@pytest.mark.parametrize("autoscaler", AUTOSCALERS)
def test_whatever_write_a_fault_concerns_no_node_is_ordered_for_a_pod_that_waits_for_its_victims(autoscaler, fault):
    given = replace(scenario("victims", autoscaler), expectations=())
    for number in range(run(given).summary["effects"]):
        report = run(given, faults=Faults(at={number: fault}, restart=20.0))
        assert report.summary["autoscaler"]["nodesAdded"] == 0, f"write {number}"


@pytest.mark.parametrize("autoscaler", AUTOSCALERS)
def test_a_run_with_an_autoscaler_is_the_same_each_time(autoscaler):
    given = scenario("gang", autoscaler)
    assert run(given, 3, TROUBLE).to_json() == run(given, 3, TROUBLE).to_json()
