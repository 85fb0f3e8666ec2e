"""Worker clusters that are cut off: what waits for them, for how long, and what becomes of what they still have."""

import pytest
from fleet_scenes import CLUSTERS, JOBS, WORKLOADS, Fleet

from headgate.api.wire import parse_time


def lost_at(fleet, name):
    (found,) = [each for each in fleet.home.list(CLUSTERS) if each["metadata"]["name"] == name]
    (shown,) = found["status"]["conditions"]
    return parse_time(shown["lastTransitionTime"]) if shown["status"] == "False" else None


def everything(fleet):
    return [cluster.names(JOBS) + cluster.names(WORKLOADS) for cluster in fleet.workers.values()]


def test_a_workload_waits_for_the_cluster_it_runs_on():
    fleet = Fleet({"a": 4, "b": 4}).submit().settle().cut("a").later(899.0)
    assert (fleet.check()[0], fleet.running()) == ("Ready", ["a"])
    fleet.heal("a").later(10.0)
    assert (fleet.check()[0], fleet.running(), fleet.replicas()) == ("Ready", ["a"], ["a"])


def test_then_it_is_dispatched_anew_and_what_comes_back_is_removed():
    fleet = Fleet({"a": 4, "b": 4}).submit().settle().cut("a").later(905.0)
    assert fleet.check() == ("Ready", 'The workload was admitted on "b"')
    assert fleet.workers["b"].runs()
    fleet.heal("a").settle()
    assert (fleet.running(), fleet.replicas()) == (["b"], ["b"])


def test_the_time_counts_from_the_first_lost_contact_also_across_restarts():
    fleet = Fleet({"a": 4, "b": 4}).submit().settle().cut("a").settle()
    since = lost_at(fleet, "a")
    fleet.later(400.0).restart().later(400.0).restart().later(95.0)
    assert (lost_at(fleet, "a"), fleet.workers["b"].runs()) == (since, False)
    fleet.later(10.0)
    assert fleet.workers["b"].runs()


def test_a_cluster_that_is_lost_while_our_process_is_down_counts_from_when_we_learn_of_it():
    fleet = Fleet({"a": 4, "b": 4}).submit().settle()
    fleet.cut_off.add("a")
    fleet.restart().later(890.0)
    assert not fleet.workers["b"].runs()
    fleet.later(20.0)
    assert fleet.workers["b"].runs()


def test_a_cluster_that_is_no_longer_a_worker_is_lost_at_once():
    fleet = Fleet({"a": 4, "b": 4}).submit().settle()
    fleet.home.delete(f"{CLUSTERS}/a")
    fleet.later(5.0)
    assert fleet.check() == ("Ready", 'The workload was admitted on "b"')


def test_one_dead_cluster_delays_nobody_nor_our_start():
    fleet = Fleet({"a": 4, "b": 4})
    fleet.cut("a")
    assert fleet.submit().settle().running() == ["b"]
    fleet.restart().submit("next").settle()
    assert fleet.running("next") == ["b"]


def test_what_ended_while_its_cluster_was_cut_off_is_shown_when_that_is_back():
    fleet = Fleet({"a": 4}).submit().settle().cut("a")
    fleet.workers["a"].end()
    fleet.later(60.0).heal("a").settle()
    assert fleet.home.conditions()["Finished"] == "True"
    assert everything(fleet) == [[]]


def test_what_was_deleted_at_home_while_a_cluster_was_cut_off_is_removed_when_that_is_back():
    fleet = Fleet({"a": 4}).submit().settle().cut("a").settle()
    fleet.home.delete(f"{JOBS}/job")
    fleet.later(5.0)
    assert fleet.home.names(WORKLOADS) == []
    assert fleet.running() == ["a"]
    assert everything(fleet.heal("a").settle()) == [[]]


def test_what_was_deleted_at_home_while_our_process_was_down_is_collected():
    fleet = Fleet({"a": 4}, gc_interval=60.0).submit().settle()
    name = fleet.home.workload()["metadata"]["name"]
    fleet.home.delete(f"{JOBS}/job")
    if fleet.home.workload() is not None:
        fleet.home.patch(f"{WORKLOADS}/{name}", metadata={"finalizers": None})
    assert fleet.home.names(WORKLOADS) == []
    fleet.restart().later(59.0)
    assert fleet.running() == ["a"]
    assert everything(fleet.later(2.0)) == [[]]


def test_without_an_interval_orphans_stay():
    fleet = Fleet({"a": 4}, gc_interval=0.0).submit().settle()
    name = fleet.home.workload()["metadata"]["name"]
    fleet.home.delete(f"{JOBS}/job")
    if fleet.home.workload() is not None:
        fleet.home.patch(f"{WORKLOADS}/{name}", metadata={"finalizers": None})
    fleet.restart().later(600.0)
    assert fleet.running() == ["a"]


def test_an_eviction_at_home_waits_for_a_cluster_that_is_cut_off():
    fleet = Fleet({"a": 4, "b": 4}).submit().settle().cut("a").settle()
    name = fleet.home.workload()["metadata"]["name"]
    fleet.home.patch(f"{WORKLOADS}/{name}", spec={"active": False})
    fleet.later(300.0)
    assert fleet.home.conditions()["QuotaReserved"] == "True"
    fleet.heal("a").later(5.0)
    assert (fleet.home.conditions()["QuotaReserved"], fleet.running(), fleet.replicas()) == ("False", [], [])


def test_a_workload_deleted_at_home_is_not_started_elsewhere_while_a_cluster_that_is_cut_off_may_run_it():
    fleet = Fleet({"a": 4, "b": 4}).submit().settle().cut("a").settle()
    fleet.home.delete(f"{WORKLOADS}/{fleet.home.names(WORKLOADS)[0]}")
    fleet.later(300.0)
    assert (fleet.running(), fleet.workers["b"].runs()) == (["a"], False)
    fleet.heal("a").later(60.0)
    assert len(fleet.running()) == 1


class OneFault:
    """Something goes wrong with one of the manager's writes, by its number."""

    def __init__(self, number, moment):
        self._number, self._moment, self.count = number, moment, 0

    def __call__(self, cluster, write):
        self.count += 1
        return self._moment if self.count == self._number else ""


@pytest.mark.parametrize("moment", ["before", "after", "lost", "conflict"])
def test_a_fault_at_any_write_of_a_whole_life_changes_nothing_in_the_end(moment):
    for number in range(1, 40):
        fleet = Fleet({"a": 1, "b": 4})
        fleet.fault = fault = OneFault(number, moment)
        fleet.submit(cpu=2).later(40.0)
        assert (fleet.running(), fleet.check()[0]) == (["b"], "Ready"), f"write {number}"
        fleet.workers["b"].end()
        fleet.later(40.0)
        assert fleet.home.conditions()["Finished"] == "True", f"write {number}"
        fleet.home.delete(f"{JOBS}/job")
        fleet.later(100.0)
        assert everything(fleet) == [[], []], f"write {number}"
        if fault.count < number:
            return
    raise AssertionError("a life has more writes than were tried")
