"""Queues, quota and its fast release on the whole stack in virtual time: every policy, both positions of the gate."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from headgate.simulator.faults import Faults, WriteFault, parse_faults
from headgate.simulator.scenario import load_scenario
from headgate.simulator.virtual_time import run

FOLDER = Path(__file__).parent / "quota"
EXAMPLES = Path(__file__).parents[2] / "examples"
SCENARIOS = sorted(path.stem for path in FOLDER.glob("*.yaml"))
TROUBLE = parse_faults("lost=0.1,coalesced=0.3,dropped=0.2,stale=200ms")
LONG = 900.0  # seconds after which every scenario here has come to rest
STORY_1 = str(EXAMPLES / "12-fast-quota-release" / "scenario.yaml")
STORY_2 = str(EXAMPLES / "13-reclaim" / "scenario.yaml")


def scenario(name):
    return load_scenario(str(FOLDER / f"{name}.yaml"))


def of_kind(report, kind):
    return {found["metadata"]["name"]: found for found in report.final["main"] if found["kind"] == kind}


def work_of(name):
    """What a Workload was made for: its name without the hash."""
    return name.rsplit("-", 1)[0] if name.startswith(("job-", "pod-")) else name


def told(report, *decisions):
    """Who was decided about so, in order, with the time and the reason."""
    entries = [entry for entry in report.journal if entry["decision"] in decisions]
    return [(entry["at"], work_of(entry["object"]["name"]), entry["reason"]) for entry in entries]


def conditions(workload):
    return {each["type"]: (each["status"], each["reason"]) for each in workload["status"]["conditions"]}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_holds_what_it_expects(name):
    given = scenario(name)
    assert given.expectations, "a scenario that expects nothing shows nothing"
    report = run(given)
    assert [str(failure) for failure in report.failures] == []
    assert report.refused == []


@pytest.mark.parametrize(
    "name, leave",
    [
        pytest.param("preempt-never", [], id="nobody where the policy is Never"),
        pytest.param(
            "preempt-lower",
            [("least", "InClusterQueue"), ("young", "InClusterQueue")],
            id="the least important, then the younger of equals",
        ),
        pytest.param("preempt-newer-equal", [("younger", "InClusterQueue")], id="the younger of equals"),
        pytest.param("reclaim-any", [("borrows-last", "InCohortReclamation")], id="the last who borrowed"),
        pytest.param("reclaim-lower", [("lesser", "InCohortReclamation")], id="only the less important borrower"),
        pytest.param("reclaim-only-borrowers", [], id="nobody who borrows nothing"),
        pytest.param(
            "borrow-within-cohort",
            [("third-borrows", "InCohortReclaimWhileBorrowing")],
            id="a less important borrower, for one who borrows",
        ),
        pytest.param(
            "borrow-threshold",
            [("third-borrows", "InCohortReclamation")],
            id="above the threshold only for one who takes its own back",
        ),
        pytest.param("fungible-next", [("lesser", "InClusterQueue")], id="nobody while the next flavor has room"),
        pytest.param("fungible-stop", [("lesser", "InClusterQueue")], id="in the first flavor, if that is preferred"),
        pytest.param("release-mixed-group-on", [], id="nobody for a group that is not evicted"),
    ],
)
def test_exactly_these_are_preempted_and_for_this_reason(name, leave):
    assert [(who, why) for _, who, why in told(run(scenario(name)), "preempt")] == leave


@pytest.mark.parametrize(
    "name, workload, kind, status, reason",
    [
        pytest.param("preempt-lower", "least", "Evicted", "True", "Preempted", id="a victim says it was evicted"),
        pytest.param("preempt-lower", "least", "Requeued", "True", "Preempted", id="and waits again"),
        pytest.param("borrowing-limit", "too-much", "QuotaReserved", "False", "WaitingForQuota", id="too little quota"),
        pytest.param("flavor-labels", "nowhere", "QuotaReserved", "False", "NoMatchingFlavor", id="no flavor suits it"),
        pytest.param("check-retry", "waits", "Requeued", "True", "BackoffFinished", id="its rest is over"),
        pytest.param("check-rejected", "waits", "Requeued", "True", "Reactivated", id="it was switched on again"),
        pytest.param("stop-drain", "job-runs", "Requeued", "True", "ClusterQueueRestarted", id="its queue goes on"),
        pytest.param("workload-alone", "alone", "Preempted", "False", "QuotaReserved", id="what was is told as past"),
        pytest.param(
            "pods-ready",
            "job-too-large",
            "Evicted",
            "True",
            "DeactivatedDueToRequeuingLimitExceeded",
            id="its pods were never ready",
        ),
        pytest.param(
            "maximum-execution-time",
            "job-endless",
            "Evicted",
            "True",
            "DeactivatedDueToMaximumExecutionTimeExceeded",
            id="it ran too long",
        ),
        pytest.param(
            "release-group-on", "duo", "WaitingForReplacementPods", "True", "Preempted", id="it needs new pods"
        ),
        pytest.param("job-life", "job-life", "Finished", "True", "Succeeded", id="a job that ended"),
    ],
)
def test_a_workload_says_how_it_stands(name, workload, kind, status, reason):
    found = {work_of(each): value for each, value in of_kind(run(scenario(name)), "Workload").items()}
    assert conditions(found[workload])[kind] == (status, reason)


def test_workloads_that_would_preempt_each_other_in_circles_come_to_rest():
    report = run(scenario("preemption-circle"))
    times = [who for _, who, _ in told(report, "preempt")]
    assert {who: times.count(who) for who in times} == {
        "job-grows": 2,
        "job-wants-more": 2,
        "job-small-right": 1,
        "job-small-left": 1,
    }
    assert [entry["object"]["name"] for entry in report.journal if "withheld" in entry["message"]]


def reservations(report, prefix):
    """When each of them first got quota."""
    first = {}
    for at, who, _ in told(report, "reserve", "admit"):
        first.setdefault(who, at)
    return [at for who, at in first.items() if who.startswith(prefix)]


def test_urgent_pods_get_quota_as_they_come_and_not_one_in_each_grace_period():
    assert reservations(run(load_scenario(STORY_1)), "pod-urgent") == [10, 12, 14, 16]
    assert reservations(run(scenario("story-1-off")), "pod-urgent") == [70, 130, 190, 250]


def test_a_queue_gets_its_own_back_at_once_and_not_pod_by_pod_as_they_end():
    assert reservations(run(load_scenario(STORY_2)), "pod-second") == [60, 60]
    assert reservations(run(scenario("story-2-off")), "pod-second") == [90, 120]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(STORY_1, id="story 1"),
        pytest.param(STORY_2, id="story 2"),
        *(pytest.param(str(FOLDER / f"{name}.yaml"), id=name) for name in SCENARIOS if name.startswith("debt")),
    ],
)
def test_no_pod_ever_waits_for_a_node_that_pods_which_leave_still_take(path):
    """An autoscaler looks at such pods: it would add a node for demand that is about to vanish."""
    report = run(load_scenario(path))
    assert [entry for entry in report.journal if entry["object"]["kind"] == "Pod" and entry["decision"] == "wait"] == []


def outcome(report):
    """Who holds quota, whose gates are open and who runs; pods of a Job are all alike."""
    workloads = {
        work_of(name): (bool(found.get("status", {}).get("admission")), found["spec"]["active"], gates(found))
        for name, found in of_kind(report, "Workload").items()
    }
    jobs = {
        name: (found["spec"]["suspend"], found["status"].get("active"), found["status"].get("succeeded"))
        for name, found in of_kind(report, "Job").items()
    }
    alone = {name: pod for name, pod in of_kind(report, "Pod").items() if "ownerReferences" not in pod["metadata"]}
    return workloads, jobs, {name: pod["status"]["phase"] for name, pod in alone.items()}


def gates(workload):
    return [(each["name"], each["state"]) for each in workload.get("status", {}).get("preemptionGates", ())]


def at_rest(path):
    return replace(load_scenario(path), expectations=(), until=LONG)


TROUBLED = (
    "gate-life",
    "job-life",
    "limit-range",
    "maximum-execution-time",
    "pod-group",
    "preempt-lower",
    "reclaim-any",
    "retention-deactivated",
    "statefulset",
    "stop-drain",
    "workload-alone",
)
TROUBLED += tuple(name for name in SCENARIOS if name.startswith(("debt", "release")))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(STORY_1, id="story 1"),
        pytest.param(STORY_2, id="story 2"),
        *(pytest.param(str(FOLDER / f"{name}.yaml"), id=name) for name in TROUBLED),
    ],
)
def test_lost_answers_and_stale_sights_change_nothing_in_the_end(path):
    given = at_rest(path)
    assert outcome(run(given, seed=1, faults=TROUBLE)) == outcome(run(given, seed=1))


@pytest.mark.parametrize("name", ["gate-life", "release-preemption-on"])
def test_a_crash_before_or_after_any_write_changes_nothing_in_the_end(name):
    given = replace(scenario(name), expectations=(), until=100.0)
    undisturbed = run(given)
    for number in range(undisturbed.summary["effects"]):
        fault = (WriteFault.CRASH_BEFORE, WriteFault.CRASH_AFTER)[number % 2]  # after one write is before the next
        report = run(given, faults=Faults(at={number: fault}, restart=0.0))
        assert outcome(report) == outcome(undisturbed), f"{fault} write {number}"


def test_a_pod_stuck_past_its_grace_is_reported_and_holds_nobody_back():
    report = run(scenario("release-stuck"), faults=Faults(stuck=frozenset({"default/leaves"})))
    assert [str(failure) for failure in report.failures] == []
    assert told(report, "note") == [(70, "leaves", "StuckTerminating")]
    assert told(report, "hold", "start") == [
        (1, "leaves", "Started"),
        (10, "urgent", "WaitingForRoom"),
        (40, "urgent", "Started"),
    ]
    assert of_kind(report, "Pod")["urgent"]["status"]["conditions"][0]["reason"] == "Unschedulable", "demand is shown"


def test_who_is_held_says_for_what_where_and_until_when():
    report = run(scenario("debt-event"))
    (said,) = [entry["message"] for entry in report.journal if entry["reason"] == "WaitingForRoom"]
    assert said == "waiting for 4 cpu of leaving pods default/leaves on n-0; starts by 2026-01-01T00:01:10Z"


@pytest.mark.parametrize(
    "name, at",
    [
        pytest.param("release-preemption-on", [10], id="gate on: at once, though the pod never ends"),
        pytest.param("release-preemption-off", [130], id="gate off: a grace period after it was to be gone"),
        pytest.param("release-on-terminal", [], id="OnTerminal: never, as long as it does not end"),
    ],
)
def test_when_a_pod_that_never_ends_gives_its_quota_back(name, at):
    given = replace(scenario(name), expectations=(), until=200.0)
    report = run(given, faults=Faults(stuck=frozenset({"default/leaves"})))
    assert reservations(report, "pod-important") == at


def test_what_the_document_says_is_tried_is_tried():
    table = (EXAMPLES.parent / "docs" / "queues.md").read_text().partition("## What works")[2].partition("\n## ")[0]
    rows = [line.rstrip("| ").rpartition("|")[2] for line in table.splitlines() if line.startswith("| ")][1:]
    named = [re.findall(r"`([^`]+)`", row) for row in rows]
    assert all(named)
    for pattern in (name for row in named for name in row):
        found = [EXAMPLES.parent / pattern] if "/" in pattern else list(FOLDER.glob(f"{pattern}.yaml"))
        assert found and all(path.exists() for path in found), pattern
    tried = {path.stem for row in named for pattern in row for path in FOLDER.glob(f"{pattern}.yaml")}
    assert [name for name in SCENARIOS if name not in tried and not name.startswith(("release", "debt", "story"))] == []


def test_an_admission_and_a_preemption_are_told_by_the_events_of_kueue():
    report = run(scenario("preempt-lower"))
    events = [found for found in report.final["main"] if found["kind"] == "Event"]
    told = {(work_of(each["regarding"]["name"]), each["reason"]) for each in events}
    assert {("least", "QuotaReserved"), ("least", "Admitted"), ("least", "EvictedDueToPreempted")} <= told
    assert ("least", "Preempted") in told
    preemptors = {name for name, reason in told if reason == "PreemptedWorkload"}
    assert preemptors and not preemptors & {"least", "young"}
