"""What is said of a workload in every state it can be in, from its objects alone."""

from __future__ import annotations

import pytest
from builders import changed
from msgspec import structs
from quota_steps import check, cohort, flavor, local, namespace, pods, priority_class, queue, quota, work

from headgate.engine.explain.explanation import LimitKind, WorkloadState, change_sentence
from headgate.engine.explain.snapshot import ClusterSnapshot
from headgate.engine.explain.state import state_before_quota
from headgate.engine.explain.what_if import MOST_BEFORE
from headgate.engine.explain.workload import explain
from headgate.lifecycle.workload.queue_snapshot import inadmissible_reason
from headgate.model.keys import Condition, Key, Kind
from headgate.model.node import Taint, TaintEffect
from headgate.model.objects import Bounds, LimitRange
from headgate.model.queues import (
    Admission,
    CheckState,
    CheckStatus,
    GateStatus,
    PodSetAssignment,
    PriorityClassRef,
    QueueingStrategy,
    QueuePreemption,
    Quota,
    Reclaim,
    RequeueState,
    RequiredCheck,
    StopPolicy,
    WithinQueue,
)
from headgate.model.resources import ContainerNeeds, Resources, TemplateNeeds
from headgate.model.selectors import Operator, Requirement
from headgate.model.settings import QuotaSettings, UsageSharing
from headgate.quota import messages

NOW = 1000.0
AROUND = (namespace(), flavor(), local())
STRICT = QueueingStrategy.STRICT_FIFO
LOWER = QueuePreemption(WithinQueue.LOWER_PRIORITY)


def says(type_, status=True, reason="", message="", at=900.0):
    return Condition(type_, str(status), reason, message, at)


RESERVED, ADMITTED = says("QuotaReserved", reason="QuotaReserved"), says("Admitted", reason="Admitted")


def held(name="h", cpu=1, of="cq", conditions=(RESERVED, ADMITTED), **fields):
    """A workload that holds quota, as its status says."""
    given = PodSetAssignment("main", (("cpu", "default"),), Resources.of({"cpu": cpu * 1000}), 1)
    return changed(work(name, cpu, **fields), admission=Admission(of, (given,)), conditions=conditions)


def cluster(*objects, around=AROUND, settings=QuotaSettings(), now=NOW):  # noqa: B008
    return ClusterSnapshot((*around, *objects), settings, now)


def explained(*objects, name="a", **fields):
    there = cluster(*objects, **fields)
    return explain(there, next(one for one in there.workloads.values() if one.key.name == name))


def wants(*requirements):
    return tuple(Requirement(key, Operator.IN, values) for key, values in requirements)


EVICTED = says("Evicted", reason="Preempted", message="for another")


@pytest.mark.parametrize(
    "objects, state, summary",
    [
        pytest.param([queue(), held("a")], WorkloadState.ADMITTED,
                     "is admitted by ClusterQueue cq: 1 pod of main on default", id="it is admitted"),
        pytest.param([queue(), work("a", conditions=(says("Finished", reason="Succeeded", message="done"),))],
                     WorkloadState.FINISHED, "has finished: Succeeded: done", id="it has finished"),
        pytest.param([queue(), held("a", conditions=(RESERVED, EVICTED))], WorkloadState.LEAVING,
                     "is evicted and still holds its quota: Preempted: for another", id="it is on its way out"),
        pytest.param([queue(), work("a", deleted=999.0, finalizers=("x/y",))], WorkloadState.DELETED,
                     "is being deleted; kept by finalizers: x/y", id="it is being deleted"),
        pytest.param(
            [queue(checks=(RequiredCheck("budget"), RequiredCheck("net"))), check("budget"), check("net"),
             changed(held("a", conditions=(RESERVED,)), checks=(
                 CheckStatus("budget", CheckState.PENDING, "asking"), CheckStatus("net", CheckState.READY)))],
            WorkloadState.CHECKS, "has quota and waits for its admission checks: budget is Pending (asking)",
            id="one of its admission checks is not ready"),
        pytest.param([queue(), work("a", active=False)], WorkloadState.DEACTIVATED,
                     "is deactivated (spec.active is false)", id="it is not active"),
        pytest.param([queue(), work("a", gated_by=("x.io/one", "x.io/two"))], WorkloadState.GATED,
                     "is gated by x.io/one, x.io/two", id="other controllers hold it back"),
        pytest.param([queue(), work("a", conditions=(says("QuotaReserved", "False", "OnHold"),))],
                     WorkloadState.ON_HOLD,
                     "is on hold: OnHold", id="it is on hold"),
        pytest.param([queue(), work("a", queue="lp")], WorkloadState.NO_LOCAL_QUEUE,
                     "has no queue: LocalQueue lp does not exist (in namespace default there are: lq)",
                     id="its local queue does not exist, and the others are named"),
        pytest.param([queue(), local(stop_policy=StopPolicy.HOLD), work("a")], WorkloadState.LOCAL_STOPPED,
                     "cannot queue: LocalQueue lq is stopped (Hold)", id="its local queue is stopped"),
        pytest.param([work("a")], WorkloadState.NO_QUEUE,
                     "has no queue: ClusterQueue cq, which LocalQueue lq names, does not exist",
                     id="its cluster queue does not exist"),
        pytest.param([queue(stop_policy=StopPolicy.HOLD_AND_DRAIN), work("a")], WorkloadState.INACTIVE,
                     "is in an inactive ClusterQueue, cq: Can't admit new workloads: is stopped",
                     id="its cluster queue is stopped"),
        pytest.param([queue(groups=quota(gone=1), checks=(RequiredCheck("x"),)), work("a")], WorkloadState.INACTIVE,
                     "is in an inactive ClusterQueue, cq: Can't admit new workloads: references missing "
                     "ResourceFlavor(s): gone, references missing AdmissionCheck(s): x",
                     id="its cluster queue needs what is not there"),
        pytest.param([queue(cohort="x"), cohort("x", "y"), cohort("y", "x"), work("a")], WorkloadState.INACTIVE,
                     "cannot queue: ClusterQueue cq is inactive, because its cohorts form a cycle",
                     id="the cohorts above its queue form a ring"),
        pytest.param([queue(namespaces=wants(("team", ("blue", "red")))), work("a")], WorkloadState.WRONG_NAMESPACE,
                     "may not queue: ClusterQueue cq is only for namespaces with team In (blue, red)",
                     id="its namespace is not selected"),
        pytest.param([queue(namespaces=None), work("a")], WorkloadState.WRONG_NAMESPACE,
                     "may not queue: ClusterQueue cq selects no namespace", id="no namespace is selected"),
        pytest.param([queue(), work("a", checks=(CheckStatus("x", CheckState.RETRY, "later"),))],
                     WorkloadState.CHECKS_FAILED, "has failed admission checks: x is Retry (later)",
                     id="a check wants another try"),
        pytest.param(
            [queue(), work("a", requeue=RequeueState(3, NOW + 40), conditions=(
                says("Requeued", False, "PodsReadyTimeout", "too slow"),))],
            WorkloadState.BACKOFF,
            "backs off for another 40s after 3 tries (PodsReadyTimeout: too slow)",
            id="it backs off"),
        pytest.param([queue(cpu=4), held("h", 3), work("a", 2)], WorkloadState.QUOTA,
                     "needs 2 cpu of flavor default and 1 is free: nominalQuota of ClusterQueue cq is 4, 3 in use",
                     id="there is too little quota left"),
        pytest.param([queue(cpu=4), work("a", 5)], WorkloadState.TOO_LARGE,
                     "requests 5 cpu of flavor default, more than its maximum of 4: nominalQuota of ClusterQueue cq "
                     "is 4, 0 in use", id="it is larger than its queue"),
        pytest.param([queue(cpu=4, groups=quota(default=Quota(4000, 1000)), cohort="all"), queue("other", 9, "all"),
                      work("a", 6)], WorkloadState.TOO_LARGE,
                     "requests 6 cpu of flavor default, more than its maximum of 5: ClusterQueue cq may use 5 with "
                     "its borrowingLimit, 0 in use", id="it is larger than its queue could ever borrow"),
        pytest.param([queue(), flavor(node_taints=(Taint("spot", "x", TaintEffect.NO_SCHEDULE),)), work("a")],
                     WorkloadState.NO_FLAVOR,
                     "matches no flavor: untolerated taint {spot x NoSchedule <nil>} in flavor default",
                     id="it does not tolerate the only flavor"),
        pytest.param([queue(), work("a", pod_sets=(pods(amounts={"gpu": 1}),))], WorkloadState.NO_FLAVOR,
                     "requests gpu, which ClusterQueue cq does not cover", id="its queue has no such resource"),
        pytest.param([queue(cpu=4, strategy=STRICT), held("h", 2), work("big", 4), work("a", 1, created=5.0)],
                     WorkloadState.BEHIND,
                     "waits behind default/big: ClusterQueue cq is StrictFIFO, and default/big needs 4 cpu of flavor "
                     "default and 2 is free: nominalQuota of ClusterQueue cq is 4, 2 in use",
                     id="another stands before it in a strict queue"),
        pytest.param([queue(cpu=4), held("h", 3), work("big", 4), work("a", 1, created=5.0)], WorkloadState.NOTHING,
                     "could be admitted now: its controller has not decided yet, or does not run",
                     id="another before it does not matter otherwise, and nobody decides"),
        pytest.param([queue(cpu=2, preemption=LOWER), held("h", 2), work("a", 1, priority=1)], WorkloadState.PREEMPTING,
                     "is admitted once these are preempted: default/h", id="others have to leave for it"),
        pytest.param([queue(cpu=2, preemption=LOWER), held("h", 2, conditions=(RESERVED, ADMITTED, EVICTED)),
                      work("a", 1, priority=1)], WorkloadState.PREEMPTING,
                     "waits for preempted workloads to release their quota: default/h",
                     id="others are on their way out"),
    ],
)  # fmt: skip
def test_verdict(objects, state, summary):
    told = explained(*objects)
    assert (told.state, told.summary) == (state, summary)


def test_a_verdict_without_quota_agrees_with_what_the_engine_says_keeps_a_workload_out():
    worlds = [
        [queue(), work("a", gated_by=("x",))],
        [queue(), work("a", queue="other")],
        [queue(stop_policy=StopPolicy.HOLD), work("a")],
        [queue(namespaces=None), work("a")],
        [work("a")],
        [queue(), work("a")],
    ]
    for objects in worlds:
        there = cluster(*objects)
        (workload,) = there.workloads.values()
        kept_out = inadmissible_reason(workload, there.queue_snapshot(workload)) is not None
        assert (state_before_quota(workload, there) is not None) == kept_out


@pytest.mark.parametrize(
    "objects, actions, note",
    [
        pytest.param([queue(), work("a", queue="x")],
                     ["create LocalQueue x in namespace default, or name one that exists"], (), id="a missing queue"),
        pytest.param([queue(stop_policy=StopPolicy.HOLD), work("a")],
                     ["set spec.stopPolicy of ClusterQueue cq to None"],
                     ("After that it would be admitted",), id="a stopped queue with room"),
        pytest.param([queue(cpu=2), held("h", 2), work("a", active=False)], ["set spec.active to true"],
                     ("After that it needs 1 cpu of flavor default and 0 is free: nominalQuota of ClusterQueue "
                      "cq is 2, 2 in use",), id="a deactivated workload of a full queue"),
        pytest.param([queue(groups=quota(gone=1), checks=(RequiredCheck("x"),)), work("a")],
                     ["create ResourceFlavor gone", "create AdmissionCheck x"], (), id="what a queue lacks"),
        pytest.param([queue(namespaces=wants(("team", ("blue",)))), work("a")],
                     ["label namespace default so that team In (blue)"], (), id="a namespace that is not selected"),
        pytest.param([queue(), flavor(node_taints=(Taint("spot", "x", TaintEffect.NO_SCHEDULE),)), work("a")],
                     ["make its pods tolerate spot=x:NoSchedule (flavor default)"], (), id="a taint"),
        pytest.param([queue(), work("a", pod_sets=(pods(amounts={"gpu": 1}),))],
                     ["add gpu to the quota of ClusterQueue cq, or request none"], (), id="a resource without quota"),
    ],
)  # fmt: skip
def test_what_would_help_where_quota_is_not_the_matter(objects, actions, note):
    told = explained(*objects)
    assert ([change_sentence(one) for one in told.minimal_changes], told.notes) == (actions, note)


def limits(told):
    return [
        (short.limit, short.node, short.capacity, short.used, short.requested, short.free, short.missing)
        for report in told.flavors
        for short in report.limits
    ]


LENDS_TWO = quota(default=Quota(9000, None, 2000))


@pytest.mark.parametrize(
    "objects, expected",
    [
        pytest.param([queue(cpu=4), held("h", 3), work("a", 2)],
                     (LimitKind.NOMINAL, "cq", 4000, 3000, 2000, 1000, 1000), id="its queue's own quota"),
        pytest.param([queue(cohort="all", groups=quota(default=Quota(4000, 1000))), queue("o", 9, "all"), held("h", 4),
                      work("a", 2)],
                     (LimitKind.BORROWING, "cq", 5000, 4000, 2000, 1000, 1000), id="its queue's borrowing limit"),
        pytest.param([queue(cpu=4, cohort="all"), queue("o", 2, "all"), held("h", 3), held("g", 2, "o"), work("a", 2)],
                     (LimitKind.TOTAL, "all", 6000, 5000, 2000, 1000, 1000), id="all that the cohort has"),
        pytest.param([queue(cpu=1, cohort="team"), cohort("team", "all", groups=quota(default=Quota(1000, 1000))),
                      queue("o", 9, "all"), work("a", 4)],
                     (LimitKind.BORROWING, "team", 3000, 0, 4000, 3000, 1000), id="a cohort's borrowing limit"),
    ],
)  # fmt: skip
def test_the_limit_that_binds_and_its_numbers(objects, expected):
    assert limits(explained(*objects)) == [expected]


def test_a_lender_that_keeps_unused_quota_to_itself_is_named():
    lender = queue("o", cohort="all", groups=LENDS_TWO)
    told = explained(queue(cpu=1, cohort="all"), lender, held("g", 3, "o"), held("h"), work("a", 3))
    (short,) = told.flavors[0].limits
    assert (short.limit, short.capacity, short.used) == (LimitKind.TOTAL, 3000, 1000)
    assert [(one.node, one.amount) for one in short.unlent] == [("o", 4000)]
    holders = [one.workload for one in short.holders]
    assert holders == ["default/h"], "what a queue uses of the part it keeps is taken from nobody"


def test_every_flavor_is_told_with_its_own_limit():
    spot = flavor("spot", node_taints=(Taint("spot", "x", TaintEffect.NO_SCHEDULE),))
    told = explained(queue(groups=quota(default=1, big=2, spot=9)), flavor("big"), spot, work("a", 3))
    assert [(one.flavor, one.refusal) for one in told.flavors] == [
        ("default", ""),
        ("big", ""),
        ("spot", "untolerated taint {spot x NoSchedule <nil>} in flavor spot"),
    ]
    assert "needs" not in told.summary and "of flavor big" in told.summary, "the nearest to fitting is told first"


RECLAIMS = QueuePreemption(WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY, Reclaim.LOWER_PRIORITY)


@pytest.mark.parametrize(
    "policy, other, preemptable, why",
    [
        pytest.param(
            QueuePreemption(), held("h", 2), False, "withinClusterQueue is Never", id="never in its own queue"
        ),
        pytest.param(LOWER, held("h", 2, priority=5), False, "priority 5 is not below 5", id="as important as it is"),
        pytest.param(RECLAIMS, held("h", 2, priority=5), False, "priority 5 is the same, and it is older", id="older"),
        pytest.param(QueuePreemption(), held("h", 2, "o"), False, "reclaimWithinCohort is Never", id="never in others"),
        pytest.param(RECLAIMS, held("h", 2, "o", priority=6), False, "priority 6 is not below 5", id="more important"),
        pytest.param(
            RECLAIMS, held("h", 2, "o"), False, "its queue is within its nominal quota", id="within its quota"
        ),
        pytest.param(
            LOWER, held("h", 2, conditions=(RESERVED, EVICTED)), True, "is being preempted for it", id="leaving"
        ),
        pytest.param(LOWER, held("h", 2), True, "would be preempted for it", id="a victim"),
    ],
)
def test_a_holder_is_told_with_why_it_can_or_cannot_be_preempted(policy, other, preemptable, why):
    first = queue(cpu=2, cohort="all", preemption=policy)
    told = explained(
        first, queue("o", 2, "all"), held("filler", 2, priority=9), other, work("a", 2, priority=5, created=9.0)
    )
    (line,) = [one for report in told.flavors for short in report.limits for one in short.holders
               if one.workload == "default/h"]  # fmt: skip
    assert (line.preemptable, line.why, line.amount, line.since) == (preemptable, why, 2000, 900.0)


def test_those_who_hold_most_are_named_first_and_only_those_who_hold_some():
    told = explained(
        queue(cpu=6), held("one"), held("three", 3), held("two", 2), work("a"), held("other", 9, "elsewhere")
    )
    (short,) = told.flavors[0].limits
    assert [one.workload for one in short.holders] == ["default/three", "default/two", "default/one"]


def test_finished_workloads_hold_nothing_though_their_admission_is_still_there():
    done = held("done", 2, conditions=(RESERVED, ADMITTED, says("Finished", reason="Succeeded")))
    assert explained(queue(cpu=2), done, work("a", 2)).state is WorkloadState.NOTHING


def test_pods_that_are_done_for_good_hold_nothing():
    given = PodSetAssignment("main", (("cpu", "default"),), Resources.of({"cpu": 3000}), 3)
    half = changed(
        work("h", pod_sets=(pods(count=3),)), admission=Admission("cq", (given,)), reclaimable=(("main", 2),)
    )
    told = explained(queue(cpu=3), half, work("a", 3))
    assert limits(told) == [(LimitKind.NOMINAL, "cq", 3000, 1000, 3000, 2000, 1000)]


def test_its_place_is_counted_among_those_who_wait_in_the_same_queue():
    waiting = [work("first", 9, priority=5), work("second", 9), work("last", 9, created=7.0)]
    resting = work("resting", 9, requeue=RequeueState(1, NOW + 5))
    told = explained(queue(), *waiting, resting, work("a", 9, created=3.0))
    assert told.position is not None and (told.position.position, told.position.of) == (3, 4)


def test_an_earlier_eviction_is_mentioned():
    told = explained(queue(cpu=1), held("h"), work("a", conditions=(EVICTED,)))
    assert told.notes == ("It was evicted before: Preempted: for another",)


def test_a_queue_that_somebody_else_says_is_inactive_is_mentioned():
    shown = says("Active", False, "TopologyNotFound", "there is no Topology default")
    told = explained(queue(cpu=1, conditions=(shown,)), work("a"))
    assert told.notes == (
        "The status of ClusterQueue cq says that it is inactive: TopologyNotFound: there is no Topology default",
    )


def test_pods_must_be_ready_before_others_are_admitted_where_that_is_configured():
    slow = changed(held("slow"), conditions=(RESERVED, ADMITTED, says("PodsReady", False)))
    told = explained(queue(cpu=4), slow, work("a"), settings=QuotaSettings(block_admission=True))
    assert told.state is WorkloadState.PODS_NOT_READY


def test_work_that_is_held_says_for_which_pods_on_which_nodes_and_until_when():
    why = "waiting for 2 cpu of leaving pods default/old on n-1; starts by 2026-01-01T00:01:40Z"
    said = structs.replace(says("WaitingForRoom", True), message=why)
    mine = changed(held("a"), conditions=(RESERVED, ADMITTED, said))
    told = explained(queue(cpu=2), mine)
    assert told.state is WorkloadState.NO_ROOM
    assert told.summary == f"is admitted and held: {why}"
    over = changed(mine, conditions=(RESERVED, ADMITTED, says("WaitingForRoom", False)))
    assert explained(queue(cpu=2), over).state is WorkloadState.ADMITTED, "its hold has ended"


def test_room_that_is_kept_for_another_queue_is_told_with_whom_it_is_kept_for():
    """One that cannot take its own quota back holds on to what is left of it."""
    strict = queue("o", 4, "all", strategy=STRICT, preemption=QueuePreemption(reclaim=Reclaim.LOWER_PRIORITY))
    lends = queue("third", 2, "all")
    borrower = held("h", 3, "third", priority=9)
    told = explained(
        queue(cpu=0, cohort="all"), strict, lends, local("ol", "o"), borrower, work("first", 4, "ol"), work("a")
    )
    assert (told.state, told.summary) == (
        WorkloadState.QUOTA,
        "no longer fits after default/first, considered first",
    )
    assert "raise nominalQuota of ClusterQueue cq: cpu of flavor default by 1 (to 1)" in [
        change_sentence(one) for one in told.minimal_changes
    ]


def test_a_closed_preemption_gate_is_named():
    opened = (GateStatus("other", True),)
    gated = work("a", 2, priority=5, preemption_gates=("other", "fleet"), gate_statuses=opened)
    settings = QuotaSettings(preemption_gates=True)
    told = explained(queue(cpu=2, preemption=LOWER), held("h", 2), gated, settings=settings)
    assert (told.state, told.summary) == (
        WorkloadState.PREEMPTION_GATED,
        "may not preempt while a preemption gate is closed: fleet",
    )


def test_a_preemption_that_is_withheld_is_told_so():
    said = Condition("QuotaReserved", "False", "WaitingForQuota", messages.preemption_withheld("too little", 1), 0.0)
    unlent = work("a", 2, priority=5, conditions=(said,))
    told = explained(queue(cpu=2, preemption=LOWER), held("h", 2), unlent)
    assert (told.state, told.summary) == (
        WorkloadState.PREEMPTION_WITHHELD,
        "may not preempt default/h: it would lead back to an earlier allocation of quota, so workloads would preempt "
        "each other in circles",
    )


def test_pods_that_no_server_would_take_are_told_so():
    bounds = LimitRange(
        Key(Kind.LIMIT_RANGE, "default", "small"),
        "uid-small",
        "1",
        containers=(Bounds(max=Resources.of({"cpu": 500})),),
    )
    needs = TemplateNeeds(containers=(ContainerNeeds(Resources.of({"cpu": 1000})),))
    large = work("a", pod_sets=(structs.replace(pods(), needs=needs),))
    told = explained(queue(cpu=4), bounds, large)
    assert told.state is WorkloadState.INVALID
    assert "requests must not be above the limitRange max" in told.summary


def test_the_class_that_is_worth_more_by_now_decides():
    ref = PriorityClassRef("kueue.x-k8s.io", "WorkloadPriorityClass", "high")
    told = explained(
        queue(cpu=2, preemption=LOWER),
        held("h", 2, priority=5),
        priority_class("high", 9),
        work("a", priority_class=ref),
    )
    assert (told.state, told.priority) == (WorkloadState.PREEMPTING, 9)


def test_where_hundreds_of_others_would_go_first_that_is_said():
    crowd = [work(f"w{index}", 1, priority=1) for index in range(MOST_BEFORE + 1)]
    told = explained(queue(cpu=1), held("h"), *crowd, work("a"))
    assert told.notes == (f"More quota would first admit over {MOST_BEFORE} other workloads",)
    assert told.position is not None and told.position.position == MOST_BEFORE + 2


def test_where_past_use_counts_the_local_queue_that_used_less_is_nearer():
    shares = queue(cpu=1, usage_based=True)
    greedy = structs.replace(local(), consumed=Resources.of({"cpu": 10**9}), consumed_at=NOW - 1)
    settings = QuotaSettings(usage_sharing=UsageSharing(half_life=600.0))
    told = explained(
        shares,
        greedy,
        local("modest"),
        held("h"),
        work("other", queue="modest", created=9.0),
        work("a"),
        settings=settings,
    )
    assert told.position is not None and (told.position.position, told.position.of) == (2, 2)
