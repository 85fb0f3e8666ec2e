"""One workload, many clusters, one preemption: which gate opens, when the next does; crashes change nothing of that."""

import pytest
from fleet_scenes import CLUSTER_QUEUES, PREEMPTS, START, WORKLOADS, Fleet
from integration_scenes import CLASSES

from headgate.model.effects import EmitEvent

HIGH = {"priorityClassName": "high"}


def full(clusters, cpu=4, **settings):
    """All these clusters are full of work that is worth nothing."""
    fleet = Fleet(dict.fromkeys(clusters, cpu), **settings)
    for cluster in (fleet.home, *fleet.workers.values()):
        for name, value in (("low", 0), ("middle", 10), ("high", 1000)):
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            cluster.create(CLASSES, {**kind, "metadata": {"name": name}, "value": value})
    for name in clusters:
        fleet.occupy(name, "low", cpu)
    return fleet.settle()


def victims(fleet):
    """The clusters that preempted, whatever became of their victims afterwards."""
    found = {name: cluster.workload("low")["status"].get("schedulingStats") for name, cluster in fleet.workers.items()}
    return [name for name, evictions in found.items() if evictions]


def stuck(fleet, name):
    """The victims of this cluster do not stop when they are told to."""
    fleet.workers[name].run_jobs = lambda: None


def test_exactly_one_cluster_preempts():
    fleet = full("abc").submit(cpu=4, template=HIGH).later(2.0)
    assert (fleet.running(), victims(fleet)) == (["a"], ["a"])
    assert fleet.check() == ("Ready", 'The workload was admitted on "a"')


def test_without_orchestration_all_of_them_do():
    fleet = full("abc", orchestrated=False).submit(cpu=4, template=HIGH).later(2.0)
    assert victims(fleet) == ["a", "b", "c"]


def test_with_a_cluster_that_has_room_none_does():
    fleet = full("ab")
    fleet.workers["b"].end("low")
    fleet.settle().submit(cpu=4, template=HIGH).later(2.0)
    assert fleet.running() == ["b"]
    assert fleet.workers["a"].runs("low")
    assert fleet.open_gates() == []


def test_the_cheapest_victims_are_preempted():
    fleet = Fleet({"a": 4, "b": 4})
    for cluster in (fleet.home, *fleet.workers.values()):
        for name, value in (("low", 0), ("middle", 10), ("high", 1000)):
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            cluster.create(CLASSES, {**kind, "metadata": {"name": name}, "value": value})
    fleet.occupy("a", "dear", 4, template={"priorityClassName": "middle"}).occupy("b", "cheap", 4).settle()
    fleet.submit(cpu=4, template=HIGH).later(2.0)
    assert fleet.running() == ["b"]
    assert fleet.workers["a"].runs("dear")


def test_with_no_window_the_first_signal_wins_whatever_it_costs():
    fleet = Fleet({"a": 4, "b": 4}, proposal_window=0.0)
    for cluster in (fleet.home, *fleet.workers.values()):
        for name, value in (("middle", 10), ("high", 1000)):
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            cluster.create(CLASSES, {**kind, "metadata": {"name": name}, "value": value})
    fleet.occupy("a", "dear", 4, template={"priorityClassName": "middle"}).occupy("b", "cheap", 4).settle()
    fleet.submit(cpu=4, template=HIGH).later(2.0)
    assert fleet.running() == ["a"]


def test_a_preemption_that_fails_lets_the_next_cluster_try_after_the_timeout():
    fleet = full("abc")
    stuck(fleet, "a")
    fleet.submit(cpu=4, template=HIGH).later(298.0)
    assert (fleet.open_gates(), fleet.running(), victims(fleet)) == (["a"], [], ["a"])
    fleet.later(10.0)
    assert fleet.running() == ["b"]
    assert fleet.replicas() == ["b"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_cluster_cut_off_right_after_its_gate_opened_lets_nobody_preempt_early(restarts):
    fleet = full("abc")
    stuck(fleet, "a")
    fleet.submit(cpu=4, template=HIGH).later(2.0)
    assert fleet.open_gates() == ["a"]
    fleet.cut("a")
    if restarts:
        fleet.restart()
    fleet.later(290.0)
    assert fleet.open_gates() == ["a"]
    assert fleet.workers["b"].runs("low")
    assert fleet.workers["c"].runs("low")
    assert fleet.later(20.0).running() == ["b"]


@pytest.mark.parametrize("moment", ["before", "after", "lost", "conflict"])
@pytest.mark.parametrize("number", range(12))
def test_a_fault_at_any_write_changes_nothing_of_that(moment, number):
    fleet = full("abc")
    count = iter(range(1000))
    fleet.fault = lambda cluster, write: moment if next(count) == number else ""
    fleet.submit(cpu=4, template=HIGH).later(120.0)
    assert len(fleet.running()) == 1
    assert fleet.running() == victims(fleet)


def test_what_was_promised_before_a_crash_is_opened_after_it():
    fleet = full("abc")
    fleet.fault = lambda cluster, write: "after" if "opened-preemption-gate" in str(write) else ""
    fleet.submit(cpu=4, template=HIGH).settle()
    assert fleet.home.workload()["metadata"]["annotations"]["scheduling.headgate.dev/opened-preemption-gate"]
    fleet.fault = lambda cluster, write: ""
    assert fleet.later(3.0).running() == ["a"]


def test_opening_a_gate_is_told_counted_and_journalled():
    fleet = full("ab").submit(cpu=4, template=HIGH).later(2.0)
    (event,) = [each for each in fleet.home.effects if isinstance(each, EmitEvent) and each.reason.startswith("Preem")]
    assert event.reason == "PreemptionGateOpened"
    assert event.message.startswith("Preemption is allowed on worker cluster a: 1 workload of priority up to 0")
    gauges = fleet.home.engine.gauges()
    assert gauges["headgate_preemption_gates_opened_total", (("cluster", "a"),)] == 1
    assert gauges["multikueue_workloads_admitted_total", (("cluster", "a"), ("cluster_queue", "cq"))] == 1
    assert gauges["multikueue_workloads_dispatched_total", (("cluster", "b"), ("cluster_queue", "cq"))] == 1


def test_after_an_eviction_the_process_starts_over():
    fleet = full("ab").submit(cpu=4, template=HIGH).later(2.0)
    assert fleet.running() == ["a"]
    fleet.workers["a"].patch(f"{CLUSTER_QUEUES}/cq", spec={"stopPolicy": "HoldAndDrain"})
    fleet.later(10.0)
    assert fleet.running() == ["b"]
    assert fleet.now - START < 60.0


def test_a_promise_that_somebody_forged_does_not_block_for_ever():
    fleet = full("ab")
    fleet.submit(cpu=4, template=HIGH)
    fleet.fault = lambda cluster, write: "conflict" if "opened-preemption-gate" in str(write) else ""
    fleet.settle()
    found = fleet.home.workload()["metadata"]
    forged = {"scheduling.headgate.dev/opened-preemption-gate": "nowhere@99999999999"}
    fleet.home.patch(f"{WORKLOADS}/{found['name']}", metadata={"annotations": forged})
    fleet.fault = lambda cluster, write: ""
    assert fleet.later(120.0).running() == ["a"]


def test_workers_preempt_by_their_own_policies():
    """A queue that may not preempt anybody never signals, however its gate stands."""
    fleet = full("ab")
    fleet.workers["a"].patch(f"{CLUSTER_QUEUES}/cq", spec={"preemption": {**PREEMPTS, "withinClusterQueue": "Never"}})
    fleet.settle().submit(cpu=4, template=HIGH).later(3.0)
    assert (fleet.running(), victims(fleet)) == (["b"], ["b"])
