"""KEP-8303 on the whole stack in virtual time: its story, its sequence diagram and its table, with several clusters."""

import pytest
from fleet_scenarios import (
    QUEUE_NAME,
    crashed,
    dispatched,
    fleet,
    job,
    kueue,
    manager,
    of_kind,
    opened,
    preemptions,
    quota,
    scenario,
    shared,
    told,
    worker,
    writes_of_the_manager,
)
from msgspec.structs import replace

from headgate.simulator.faults import WriteFault
from headgate.simulator.virtual_time import run


@pytest.mark.parametrize(
    "name, journal",
    [
        pytest.param(
            "story",
            [
                (10, "home", "urgent", "PreemptionGateOpened"),
                (10, "home", "urgent", "Admitted"),
                (10, "east", "daily-east", "InClusterQueue"),
            ],
            id="of three full clusters exactly one preempts",
        ),
        pytest.param(
            "sequence",
            [
                (10, "home", "urgent", "PreemptionGateOpened"),
                (10, "east", "stuck", "InClusterQueue"),
                (70, "home", "urgent", "PreemptionGateOpened"),
                (70, "home", "urgent", "Admitted"),
                (70, "north", "daily-north", "InClusterQueue"),
            ],
            id="when the timeout has elapsed the next cluster preempts",
        ),
        pytest.param("fits", [(10, "home", "urgent", "Admitted")], id="with a cluster that fits none preempts"),
        pytest.param(
            "priced",
            [
                (130, "home", "urgent", "PreemptionGateOpened"),
                (130, "home", "urgent", "Admitted"),
                (130, "far", "daily-far", "InClusterQueue"),
            ],
            id="the cheapest cluster preempts",
        ),
        pytest.param(
            "cut-off",
            [
                (10, "home", "urgent", "PreemptionGateOpened"),
                (10, "east", "slow", "InClusterQueue"),
                (310, "home", "urgent", "PreemptionGateOpened"),
                (310, "home", "urgent", "Admitted"),
                (310, "north", "daily-north", "InClusterQueue"),
            ],
            id="a cluster that is cut off counts until the timeout",
        ),
        pytest.param(
            "lost",
            [
                (10, "home", "urgent", "Admitted"),
                (10, "home", "patient", "Admitted"),
                (920, "home", "urgent", "Admitted"),
            ],
            id="what ran on a lost cluster runs elsewhere",
        ),
    ],
)
def test_a_scenario_holds_what_it_expects_and_who_may_preempt_and_does(name, journal):
    report = run(scenario(name))
    assert told(report, "ungate", "dispatch", "preempt") == journal
    assert [str(failure) for failure in report.failures] == []
    assert report.refused == []


def test_a_crash_of_the_manager_before_or_after_any_write_changes_nothing_of_the_story():
    numbers = writes_of_the_manager("story")
    assert len(numbers) > 25
    for number in numbers:
        for fault in (WriteFault.CRASH_BEFORE, WriteFault.CRASH_AFTER):
            crashed("story", number, fault)


def test_first_come_first_served_takes_the_first_signal_whatever_it_costs():
    plans = scenario("priced").clusters
    at_once = replace(plans[0].settings.multikueue, proposal_window=0.0)
    first = replace(plans[0], settings=replace(plans[0].settings, multikueue=at_once))
    report = run(replace(scenario("priced"), clusters=(first, *plans[1:]), expectations=()))
    assert (opened(report), preemptions(report)) == ({"east": 1}, {"east": 1})


def test_without_gates_every_cluster_preempts():
    without = {"featureGates": {"MultiKueueOrchestratedPreemption": False}}
    clusters = [manager("a", "b", "c"), *(worker(name, job(f"low-{name}", "low", run=5000)) for name in "abc")]
    report = run(fleet(clusters, [{"at": "10s", "apply": [dispatched("urgent")]}], config=without, until="1m"))
    assert preemptions(report) == {"a": 1, "b": 1, "c": 1}


# the table

FIT, NO_FIT, PREEMPT = "can fit", "cannot fit", "can preempt"
STOP, NEXT = "MayStopSearch", "TryNextFlavor"
ROWS = [
    (FIT, FIT, ("a", False), ("a", False)),
    (FIT, NO_FIT, ("a", False), ("a", False)),
    (FIT, PREEMPT, ("a", False), ("a", False)),
    (PREEMPT, FIT, ("a", True), ("b", False)),
    (PREEMPT, NO_FIT, ("a", True), ("a", True)),
    (PREEMPT, PREEMPT, ("a", True), ("a", True)),
    (NO_FIT, FIT, ("b", False), ("b", False)),
    (NO_FIT, NO_FIT, (None, False), (None, False)),
    (NO_FIT, PREEMPT, ("b", True), ("b", True)),
]
"""What flavor A and flavor B can do; the flavor and whether the gate is triggered, in either mode."""


def row_name(first, second):
    return f"{first}-{second}".replace(" ", "-")


def row_queue(first, second, mode):
    """A queue whose flavors can do that at 10 s, for a job of 4 CPUs and high priority."""
    name = row_name(first, second)
    spec = {
        "namespaceSelector": {},
        "resourceGroups": quota(a=0 if first == NO_FIT else 4, b=0 if second == NO_FIT else 4),
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "flavorFungibility": {"whenCanPreempt": mode},
    }
    yield kueue("ClusterQueue", name, spec=spec)
    yield kueue("LocalQueue", name, namespaced=True, spec={"clusterQueue": name})
    if first == PREEMPT:
        yield of_queue(job(f"a-of-{name}", "low", run=5000), name)
    elif first == FIT and second == PREEMPT:
        yield of_queue(job(f"soon-done-{name}", "low", run=5), name)
    if second == PREEMPT:
        yield of_queue(job(f"b-of-{name}", "low", run=5000), name)


def of_queue(made, name):
    made["metadata"]["labels"][QUEUE_NAME] = name
    return made


def table_fleet(mode):
    """Nine jobs for nine queues, of which each of three workers has the three with one state of flavor A."""
    states = {"fits": FIT, "cannot": NO_FIT, "preempts": PREEMPT}
    locals_at_home = [
        kueue("LocalQueue", row_name(*row[:2]), namespaced=True, spec={"clusterQueue": "team"}) for row in ROWS
    ]
    workers = [
        {
            "name": name,
            "nodes": [{"name": "n-%d", "count": 6, "capacity": {"cpu": "4", "memory": "64Gi", "pods": "110"}}],
            "objects": [
                *shared("a", "b"),
                *(found for row in ROWS if row[0] == state for found in row_queue(*row[:2], mode)),
            ],
        }
        for name, state in states.items()
    ]
    jobs = [of_queue(dispatched(row_name(*row[:2]), run=5000), row_name(*row[:2])) for row in ROWS]
    clusters = [manager(*states, objects=locals_at_home), *workers]
    return fleet(clusters, [{"at": "10s", "apply": jobs}], until="20s")


@pytest.mark.parametrize("mode, column", [pytest.param(STOP, 2, id=STOP), pytest.param(NEXT, 3, id=NEXT)])
def test_the_table_of_flavors_and_gates(mode, column):
    report = run(table_fleet(mode))
    gated = {name for _, _, name, reason in told(report, "wait") if reason == "AdmissionGated"}
    flavors = {
        name: found["status"]["admission"]["podSetAssignments"][0]["flavors"]["cpu"]
        for cluster in ("fits", "cannot", "preempts")
        for name, found in of_kind(report, cluster, "Workload").items()
        if found["status"].get("admission")
    }
    shown = {row[:2]: (flavors.get(row_name(*row[:2])), row_name(*row[:2]) in gated) for row in ROWS}
    assert shown == {row[:2]: row[column] for row in ROWS}
