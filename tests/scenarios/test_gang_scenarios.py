"""Gangs and preemption on the whole stack in virtual time: user stories, the four cases, all that goes with them."""

from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from headgate.model.settings import PreemptionSettings
from headgate.simulator.faults import Faults, WriteFault, parse_faults
from headgate.simulator.scenario import load_scenario
from headgate.simulator.virtual_time import run

FOLDER = Path(__file__).parent / "gangs"
SCENARIOS = sorted(path.stem for path in FOLDER.glob("*.yaml"))
TROUBLE = parse_faults("lost=0.1,conflict=0.1,coalesced=0.3,dropped=0.2,stale=200ms")


def scenario(name):
    return load_scenario(str(FOLDER / f"{name}.yaml"))


def evicted(report):
    """Who was asked to leave, by name, and how often."""
    return Counter(entry["object"]["name"] for entry in report.journal if entry["decision"] == "evict")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_holds_what_it_expects(name):
    told = scenario(name)
    assert told.expectations, "a scenario that expects nothing shows nothing"
    assert [str(failure) for failure in run(told).failures] == []


@pytest.mark.parametrize(
    "name, leave",
    [
        pytest.param("story-training", {"train-0", "train-1", "train-2"}, id="a training job leaves whole"),
        pytest.param(
            "story-inference",
            {"leader-second", "worker-a-second", "worker-b-second"},
            id="one replica leaves whole, and no pod of the other",
        ),
        pytest.param("story-degraded", {"worker-b"}, id="in Pod mode one worker leaves"),
        pytest.param("story-cost", {"old-0", "old-1"}, id="who saved its work leaves"),
        pytest.param("story-cost-unsaved", {"young-0", "young-1"}, id="where nobody did, who worked less"),
        pytest.param("case-pod-over-pod", {"lesser"}, id="a pod over a pod"),
        pytest.param("case-pod-over-groups", {"train-0", "train-1", "lone"}, id="a pod over a group and a pod"),
        pytest.param("case-group-over-pods", {"low-a", "low-b"}, id="a group over pods"),
        pytest.param("case-group-over-groups", {"train-0", "train-1", "lone"}, id="a group over a group and a pod"),
        pytest.param("delayed-until-it-fits", {"low-a", "low-b"}, id="nobody before the whole group fits"),
        pytest.param("delayed-promise-lost", {"low-a", "better"}, id="another only when the promise is lost"),
        pytest.param("priority-never", set(), id="nobody for a workload that never preempts"),
        pytest.param("priority-never-kept", set(), id="nobody when that workload's class is gone or another one"),
        pytest.param("any-of-its-pods", {"web-0", "web-1"}, id="those whose room does for any two of three"),
        pytest.param("delayed-surplus-gated", {"web-0", "web-1"}, id="nobody again when a surplus member comes gated"),
        pytest.param("legacy-lone-members", {"web-0", "web-1"}, id="those of lone members when their gang fits"),
        pytest.param("legacy-pod-by-pod", {"web-0"}, id="pod by pod, the one whose room does for both"),
        pytest.param("budgets-group", {"plain-a", "plain-b"}, id="no pod that a budget protects"),
        pytest.param("order-budget-first", {"plain"}, id="for a group a budget comes before the priority"),
        pytest.param("order-domain-budget", {"plain"}, id="also where it chooses between zones"),
        pytest.param("cascade-avoided", {"bare"}, id="for a group the one that displaces nobody when it is recreated"),
        pytest.param("plain-pod", {"plain"}, id="for a pod as kube-scheduler chooses"),
        pytest.param("plain-pod-beside-gang", {"plain"}, id="whoever else runs"),
        pytest.param("topology-domain", {"in-b-0", "in-b-1"}, id="those in the cheaper zone"),
        pytest.param("topology-too-small", set(), id="nobody where no zone is large enough"),
        pytest.param("two-gangs", set(), id="nobody for a gang of the same priority"),
        pytest.param("again-higher-class", {"web-0", "web-1"}, id="those below a gang made anew with a higher class"),
        pytest.param("again-smaller-pods", {"web-0", "web-1"}, id="those whose room does for pods made anew smaller"),
        pytest.param("again-shield-gone", {"train-0"}, id="a pod whose shield is gone"),
        pytest.param("moved-member-runs-elsewhere", set(), id="nobody for a gang whose member left and runs elsewhere"),
    ],
)
def test_exactly_these_are_asked_to_leave(name, leave):
    assert evicted(run(scenario(name))) == dict.fromkeys(leave, 1)


@pytest.mark.parametrize("name", ["order-budget-first", "order-domain-budget", "cascade-avoided", "story-cost"])
def test_the_same_are_preempted_with_the_solver_and_without(name):
    told = scenario(name)
    (cluster,) = told.clusters
    settings = replace(cluster.settings, preemption=PreemptionSettings(certify=False))
    without = replace(told, clusters=(replace(cluster, settings=settings),))
    assert evicted(run(told)) == evicted(run(without))


@pytest.mark.parametrize(
    "name, count",
    [
        pytest.param("delayed-other-room", 1, id="other room that turns up costs nobody"),
        pytest.param("delayed-no-second-victim", 1, id="nobody else while the promise holds"),
        pytest.param("crash-in-the-middle", 3, id="a successor goes on with the same victims"),
        pytest.param("two-urgent-gangs", 2, id="the second gang evicts nobody in vain"),
        pytest.param("basic-group", 1, id="of a basic group one pod is enough"),
    ],
)
def test_so_many_are_asked_to_leave_and_each_once(name, count):
    asked = evicted(run(scenario(name)))
    assert (len(asked), set(asked.values())) == (count, {1})


def test_what_must_not_be_is_refused_with_the_reason():
    refused = [(each["at"], each["message"]) for each in run(scenario("priority-no-cycle")).refused]
    assert [at for at, _ in refused] == [1, 2, 3, 4]
    endless, unknown, changed, set_later = (message for _, message in refused)
    assert endless.endswith(
        "the value of preemptionPriorityClassName low (10) is below the value of priorityClassName high (100): "
        "workloads like this one would preempt each other without end"
    )
    assert unknown.endswith("no PriorityClass with name nobody-made-it was found")
    assert "spec.priorityClassName" in changed
    assert "spec.preemptionPriorityClassName" in set_later


CRASHED = ("story-training", "delayed-until-it-fits")


@pytest.mark.parametrize("name", CRASHED)
def test_a_crash_before_or_after_any_write_evicts_nobody_twice_and_nobody_in_vain(name):
    told = scenario(name)
    undisturbed = run(told)
    for number in range(undisturbed.summary["effects"]):
        for fault in (WriteFault.CRASH_BEFORE, WriteFault.CRASH_AFTER):
            report = run(told, faults=Faults(at={number: fault}, restart=0.0))
            assert [str(failure) for failure in report.failures] == [], f"{fault} write {number}"
            assert set(evicted(report)) <= set(evicted(undisturbed)), f"{fault} write {number}"


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name.startswith(("story", "case", "topology"))])
def test_lost_answers_conflicts_and_stale_sights_change_nothing_in_the_end(name):
    told = scenario(name)
    last = tuple(each for each in told.expectations if each.at == told.until)
    for seed in range(5):
        report = run(replace(told, expectations=last), seed=seed, faults=TROUBLE)
        assert [str(failure) for failure in report.failures] == [], f"seed {seed}"
