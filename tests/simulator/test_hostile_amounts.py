"""Two pods, or two containers, whose requests come to more than 64 bits hold: the others are scheduled."""

import pytest
from small_scenarios import found, nodes, pod, scenario, where

from headgate.simulator.virtual_time import run


def asking(name, *memories, **spec):
    made = pod(name, **spec)
    made["spec"]["containers"] = [
        {"name": f"c{n}", "image": "i", "resources": {"requests": {"cpu": "1", "memory": memory}}}
        for n, memory in enumerate(memories)
    ]
    return made


def condition(report, name):
    (said,) = [c for c in found(report, "Pod", name)["status"]["conditions"] if c["type"] == "PodScheduled"]
    return said["status"], said["reason"], said["message"]


def reasons(report, name):
    return [entry["reason"] for entry in report.journal if entry["object"]["name"] == name]


def test_two_containers_of_8e_leave_the_pod_waiting_with_a_condition_and_the_others_scheduled():
    report = run(scenario(asking("huge", "8E", "8E"), pod("a"), pod("b"), machines=[nodes(2)]))
    assert all(where(report, name) for name in "ab")
    assert where(report, "huge") is None
    assert condition(report, "huge") == ("False", "Unschedulable", "0/2 nodes are available: 2 Insufficient memory.")
    assert reasons(report, "huge") == ["RequestsTooLarge", "Unschedulable"]


@pytest.mark.parametrize("count", [2, 300])
def test_pods_of_8e_that_name_one_node_keep_only_that_node_from_the_others(count):
    placed = [asking(f"huge-{n}", "8E", nodeName="n-0") for n in range(count)]
    report = run(scenario(*placed, asking("a", "1Gi"), asking("b", "1Gi"), machines=[nodes(2)]))
    assert (where(report, "a"), where(report, "b")) == ("n-1", "n-1")
    assert reasons(report, "huge-0") == ["RequestsTooLarge"]


def test_it_is_so_after_every_restart():
    crash = [{"at": f"{at}s", "crash": "1s"} for at in (1, 5)]
    late = {"at": "8s", "apply": [asking("late", "1Gi")]}
    placed = [asking(f"huge-{n}", "8E", nodeName="n-0") for n in range(2)]
    report = run(scenario(*placed, asking("huge", "8E", "8E"), pod("a"), machines=[nodes(2)], timeline=[*crash, late]))
    assert where(report, "late") == "n-1"
    assert condition(report, "huge")[:2] == ("False", "Unschedulable")


def test_what_an_enormous_pod_took_is_there_again_when_it_is_gone():
    gone = {"at": "5s", "delete": {"kind": "Pod", "name": "huge"}}
    placed = asking("huge", "8E", nodeName="n-0")
    report = run(scenario(placed, asking("a", "8Gi"), machines=[nodes(1)], timeline=[gone]))
    assert where(report, "a") == "n-0"
