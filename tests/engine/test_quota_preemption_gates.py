"""Workloads with closed preemption gates: what they say, what it would cost, and when that is withdrawn."""

import pytest
from msgspec import structs
from quota_steps import OWNER, QuotaSteps, check, cohort, local, pods, queue, work

from headgate.lifecycle.workload.eviction import released
from headgate.model.effects import EventType
from headgate.model.events import Outcome
from headgate.model.keys import Condition
from headgate.model.queues import (
    CheckState,
    CheckStatus,
    GateStatus,
    PreemptionProposal,
    QueuedWorkloadStatus,
    QueueingStrategy,
    QueuePreemption,
    Reclaim,
    RequiredCheck,
    WithinQueue,
)
from headgate.model.settings import QuotaSettings

GATES = QuotaSettings(preemption_gates=True)
LOWER = QueuePreemption(within_queue=WithinQueue.LOWER_PRIORITY)
NEWER = QueuePreemption(within_queue=WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY)
STRICT = QueueingStrategy.STRICT_FIFO
SIGNALS = ("BlockedOnPreemptionGates", "PreemptionBlocked")
CLOSED, OPEN = GateStatus("g", False, 0.0), GateStatus("g", True, 0.0)
INFEASIBLE = PreemptionProposal(False)


def gated(name="high", cpu=1, **fields):
    return work(name, cpu, **{"priority": 5, "preemption_gates": ("g",), **fields})


def blocked(*objects, preemption=LOWER, cpu=1, **fields):
    """A workload that needs preemption, which a closed gate forbids."""
    home = queue(cpu=cpu, preemption=preemption, **fields)
    steps = QuotaSteps(home, work("low", cpu), *objects, settings=GATES)
    steps.see(gated(cpu=cpu))
    assert signals(steps, "high") == [("True", "PreemptionGated")] * 2
    return steps


def signals(steps, name):
    return [steps.reason(name, one) for one in SIGNALS]


def proposal(steps, name):
    return steps[name].status.proposal


def writes(steps):
    """How many statuses of workloads were written."""
    return sum(len(steps.statuses_written(one.key.name)) for one in steps.workloads)


def gone(steps, name):
    """What an integration does once the pods are gone."""
    return steps.edit(name, **structs.asdict(released(steps[name], steps.now)))


def test_both_conditions_and_the_price_are_written_at_once():
    steps = blocked()
    (status,) = [one for one in steps.statuses_written("high") if one.proposal is not None]
    assert [one.status for one in status.conditions if one.type in SIGNALS] == ["True", "True"]
    assert status.gate_statuses == (CLOSED,)
    message = "Workload requires preemption, but it's gated"
    assert [steps.condition("high", one) for one in SIGNALS] == [("True", "PreemptionGated", message)] * 2
    assert steps.condition("high", "QuotaReserved") == ("False", "AdmissionGated", message)


def test_a_gate_without_a_state_is_closed():
    steps = blocked()
    steps.edit("high", gate_statuses=())
    assert steps.admitted == ["low"]
    assert steps["high"].status.gate_statuses == (CLOSED,)


def test_states_follow_the_gates_of_the_spec():
    steps = blocked()
    steps.now = 7.0
    steps.edit("high", preemption_gates=("h", "g"), gate_statuses=(OPEN, GateStatus("old", True, 0.0)))
    assert steps["high"].status.gate_statuses == (GateStatus("h", False, 7.0), OPEN)


def test_without_the_feature_gates_hold_nothing_back_and_nothing_is_said_of_them():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low"))
    steps.see(gated())
    assert steps.admitted == ["high"]
    assert (steps["high"].status.gate_statuses, signals(steps, "high"), proposal(steps, "high")) == (
        (),
        [None] * 2,
        None,
    )


# the signal is true, or it is withdrawn


def test_a_preemption_gate_is_not_taken_for_an_admission_gate():
    steps = blocked()
    steps.restart().later(60.0)
    assert steps.reason("high") == ("False", "AdmissionGated")
    steps.finish("low")
    assert steps.admitted == ["high"]
    assert ("high", "AdmissionGateCleared") not in steps.told


def test_what_else_changes_is_written_while_the_signal_stays():
    steps = blocked(cpu=2)
    steps.edit("high", pod_sets=(pods(1, count=2),), generation=2)
    assert dict(steps["high"].status.resource_requests)["main"]["cpu"] == 2000
    steps.edit("high", reclaimable=(("main", 1),), generation=3)
    assert dict(steps["high"].status.resource_requests)["main"]["cpu"] == 1000
    assert signals(steps, "high") == [("True", "PreemptionGated")] * 2


def test_the_signal_is_withdrawn_once_the_gate_is_open_though_victims_are_still_leaving():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low", owner=OWNER), settings=GATES)
    steps.see(gated())
    steps.edit("high", gate_statuses=(OPEN,))
    assert steps.reason("low", "Evicted") == ("True", "Preempted")
    assert signals(steps, "high") == [("False", "PendingEvaluation")] * 2
    assert proposal(steps, "high") is None
    gone(steps, "low")
    assert steps.admitted == ["high"]


def test_the_signal_is_withdrawn_once_the_gate_is_open_though_it_is_not_evaluated_yet():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low", owner=OWNER), settings=GATES)
    steps.see(gated())
    steps.see(work("top", priority=9, created=1.0))
    assert steps.reason("top") == ("False", "WaitingForPreemptedWorkloads"), "it stays the head until that one is gone"
    steps.edit("high", gate_statuses=(OPEN,))
    assert signals(steps, "high") == [("False", "PendingEvaluation")] * 2
    assert (steps.reason("high"), proposal(steps, "high")) == (("False", "PendingEvaluation"), None)
    assert ("high", "AdmissionGateCleared") not in steps.told


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize(
    "change, reason, cost",
    [
        pytest.param({"priority": 0}, "WaitingForQuota", INFEASIBLE, id="no candidates any more"),
        pytest.param({"pod_sets": (pods(9),)}, "ExceedsMaxQuota", INFEASIBLE, id="it fits nowhere"),
        pytest.param({"queue": "gone"}, "Misconfigured", None, id="its queue is none"),
        pytest.param({"active": False}, "Deactivated", None, id="it is not active"),
        pytest.param({"preemption_gates": ()}, "QuotaReserved", None, id="its gates are gone"),
    ],
)
def test_signal_and_price_are_withdrawn_when_it_is_no_longer_so(change, reason, cost, restarts):
    steps = blocked()
    if restarts:
        steps.put(structs.replace(steps["high"], **change))
        steps.restart()
    else:
        steps.edit("high", **change)
    assert [status for status, _ in signals(steps, "high")] == ["False"] * 2
    assert steps.reason("high")[1] == reason
    assert proposal(steps, "high") == cost


def test_a_workload_that_is_put_on_hold_says_nothing_of_gates():
    steps = blocked()
    steps.says("high", "QuotaReserved", False, "OnHold", "wait")
    assert steps.condition("high", "QuotaReserved") == ("False", "OnHold", "wait")
    assert [status for status, _ in signals(steps, "high")] == ["False"] * 2
    assert proposal(steps, "high") is None


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarted"])
def test_candidates_that_vanish_withdraw_the_signals_of_all_equal_workloads(restarts):
    steps = blocked(work("mid", cpu=2, priority=3, created=1.0), cpu=2)
    steps.see(gated("equal", 2, created=1.0), work("top", 2, priority=9, created=2.0))
    assert steps.admitted == ["top"]
    assert signals(steps, "equal") == [("False", "WaitingForQuota")] * 2
    steps.edit("top", priority=0)
    assert [signals(steps, one) for one in ("high", "equal")] == [[("True", "PreemptionGated")] * 2] * 2
    if restarts:
        steps.put(structs.replace(steps["top"], priority=9))
        steps.restart()
    else:
        steps.edit("top", priority=9)
    for name in ("high", "equal"):
        assert [status for status, _ in signals(steps, name)] == ["False"] * 2
        assert (steps.reason(name)[1], proposal(steps, name)) == ("WaitingForQuota", INFEASIBLE)


def test_the_signal_of_a_predecessor_that_knew_one_condition_is_withdrawn_too():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("top", priority=9), settings=GATES)
    shown = Condition("BlockedOnPreemptionGates", "True", "PreemptionGated", "", 0.0)
    refused = Condition("QuotaReserved", "False", "AdmissionGated", "", 0.0)
    steps.see(gated(conditions=(shown, refused)))
    assert signals(steps, "high") == [("False", "WaitingForQuota"), None]


def test_quota_resets_the_signal():
    steps = blocked()
    steps.finish("low")
    message = "Previously: Workload requires preemption, but it's gated"
    assert [steps.condition("high", one) for one in SIGNALS] == [("False", "QuotaReserved", message)] * 2
    assert (steps["high"].status.gate_statuses, proposal(steps, "high")) == ((CLOSED,), None), "it needed no preemption"


# gates open and close


def test_an_eviction_closes_the_gates_in_the_same_write():
    steps = blocked()
    steps.edit("high", gate_statuses=(OPEN,))
    assert steps.admitted == ["high"]
    steps.now = 9.0
    before = len(steps.statuses_written("high"))
    steps.see(work("top", priority=9, created=9.0))
    evicted = steps.statuses_written("high")[before]
    assert [one.status for one in evicted.conditions if one.type == "Evicted"] == ["True"]
    assert evicted.gate_statuses == (GateStatus("g", False, 9.0),)
    steps.finish("top")
    steps.see(work("small", priority=3, created=10.0))
    assert steps["high"].status.gate_statuses == (GateStatus("g", False, 9.0),)


def test_no_stale_write_closes_a_gate_that_was_opened_meanwhile():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low"), settings=GATES)
    steps.held = True
    steps.see(gated())
    assert steps.writes, "a write made of the closed gate is on its way"
    steps.put(structs.replace(steps["high"], status=structs.replace(steps["high"].status, gate_statuses=(OPEN,))))
    steps.release()
    assert steps.conflicts == 1
    assert steps["high"].status.gate_statuses == (OPEN,)
    steps.see(steps["high"])
    assert steps["high"].status.gate_statuses == (OPEN,)
    assert steps.admitted == ["high"]


def test_a_gate_opened_in_the_second_before_a_signal_was_written_is_heeded():
    steps = blocked()
    steps.held = True
    steps.edit("high", pod_sets=(pods(1),), generation=2, boost=1)
    steps.edit("high", gate_statuses=(OPEN,))
    steps.release()
    assert steps.admitted == ["high"]


# the queue goes on, and nothing spins


@pytest.mark.parametrize("strategy, passes", [(STRICT, False), (QueueingStrategy.BEST_EFFORT_FIFO, True)])
def test_others_pass_a_gated_head_only_in_a_best_effort_queue(strategy, passes):
    steps = QuotaSteps(queue(cpu=3, preemption=LOWER, strategy=strategy), work("low", 2), settings=GATES)
    steps.see(gated(cpu=2))
    steps.see(work("small", created=1.0))
    assert steps.admitted == (["low", "small"] if passes else ["low"])


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarted"])
def test_behind_another_head_of_a_strict_queue_a_gate_keeps_nobody_from_preempting(restarts):
    steps = blocked(strategy=STRICT)
    large = work("large", 9, priority=9, created=1.0)
    if restarts:
        steps.put(large)
        steps.restart()
    else:
        steps.see(large)
    message = "Workload waits behind another one of its StrictFIFO ClusterQueue"
    assert steps.condition("high", "QuotaReserved") == ("False", "WaitingForQuota", message)
    assert signals(steps, "high") == [("False", "WaitingForQuota")] * 2
    assert proposal(steps, "high") is None
    steps.lose(steps["large"])
    assert signals(steps, "high") == [("True", "PreemptionGated")] * 2


def test_signals_of_many_are_written_sooner_than_other_refusals():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low"), settings=GATES)
    steps.see(*(gated(f"high-{number:03}", created=float(number)) for number in range(300)))
    for _ in range(10):
        steps.later(0.1)
    told = [one for one in steps.workloads if one.gated_since is not None]
    assert len(told) == 300
    assert steps.number("kueue_admission_attempts_total", result="inadmissible") <= 3, "one is evaluated for all"


@pytest.mark.parametrize("strategy", QueueingStrategy)
def test_a_gated_workload_is_evaluated_when_something_changes_and_never_else(strategy):
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER, strategy=strategy), work("low"), settings=GATES)
    steps.see(gated())
    attempts, written = steps.number("kueue_admission_attempts_total", result="inadmissible"), writes(steps)
    told = steps.told
    assert told.count(("high", "AdmissionGated")) == 1
    for _ in range(20):
        steps.later(1.0)
    assert steps.number("kueue_admission_attempts_total", result="inadmissible") == attempts
    assert (writes(steps), steps.told) == (written, told)


def test_a_gated_workload_takes_nothing_from_its_cohort():
    others = queue("other", 0, "team"), local("lq2", "other"), cohort("team")
    steps = QuotaSteps(queue(cpu=3, cohort="team", preemption=LOWER), *others, work("low", 2), settings=GATES)
    steps.see(gated(cpu=3))
    steps.see(work("borrows", queue="lq2", created=1.0))
    assert steps.admitted == ["borrows", "low"]
    assert signals(steps, "high") == [("False", "WaitingForQuota")] * 2, "what is lent to others it may not take back"


# the price


def test_the_price_counts_victims_priorities_and_work_and_names_nobody():
    steps = QuotaSteps(queue(cpu=5, preemption=LOWER), settings=GATES)
    for at, (name, priority, count) in enumerate([("a", -1, 1), ("b", 2, 3), ("top", 9, 1)]):
        steps.now = 10.0 * at
        steps.see(work(name, priority=priority, pod_sets=(pods(count=count),), created=steps.now))
    steps.see(gated(cpu=4))
    assert proposal(steps, "high") == PreemptionProposal(True, 2, 2, 1, 4, 7.0)
    assert proposal(steps, "high").work_lost(100.0) == 4 * 93
    (entry,) = steps.journal.about(steps["high"].key)
    assert entry.numbers == {"queue": "cq", "victims": 2, "highest_priority": 2, "pods": 4}


def test_time_alone_changes_no_price():
    steps = blocked()
    written = writes(steps)
    for _ in range(5):
        steps.later(100.0)
        steps.see(steps["low"])
    steps.restart()
    assert writes(steps) == written


@pytest.mark.parametrize("rule", [LOWER, NEWER], ids=["LowerPriority", "LowerOrNewerEqualPriority"])
def test_another_victim_is_another_price_for_all_and_no_news_otherwise(rule):
    steps = QuotaSteps(queue(cpu=2, preemption=rule), work("low"), settings=GATES)
    for name in ("a", "b"):
        steps.see(gated(name, 2))
    assert [proposal(steps, one).victims for one in ("a", "b")] == [1, 1]
    events = len(steps.events)
    steps.now = 3.0
    steps.see(work("low2", priority=1, created=3.0))
    assert steps.admitted == ["low", "low2"]
    assert [proposal(steps, one) for one in ("a", "b")] == [PreemptionProposal(True, 2, 1, 1, 2, 1.0)] * 2
    assert [one for one in steps.events[events:] if one.type is EventType.WARNING] == []
    written = writes(steps)
    steps.restart()
    assert writes(steps) == written, "a fresh process has nothing to add"


def test_a_victim_that_is_leaving_already_costs_nothing_more():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low", owner=OWNER), settings=GATES)
    steps.see(gated())
    assert proposal(steps, "high") == PreemptionProposal(True, 1, 0, 0, 1, 0.0)
    steps.says("low", "Evicted", True, "PodsReadyTimeout")
    assert proposal(steps, "high") == PreemptionProposal(True)


def test_who_fits_once_the_victims_of_others_are_gone_needs_no_gate_opened():
    home = queue(cpu=1, cohort="team", preemption=QueuePreemption(reclaim=Reclaim.ANY))
    other = queue("other", 1, "team", preemption=LOWER), local("lq2", "other"), cohort("team")
    steps = QuotaSteps(home, *other, work("borrows", 2, queue="lq2", owner=OWNER), settings=GATES)
    steps.see(gated())
    assert proposal(steps, "high").victims == 1
    steps.see(work("urgent", queue="lq2", priority=9, created=1.0))
    assert steps.reason("borrows", "Evicted") == ("True", "Preempted")
    assert signals(steps, "high") == [("False", "WaitingForPreemptedWorkloads")] * 2, "it fits once that one is gone"
    assert proposal(steps, "high") is None


def test_a_victim_that_does_not_run_yet_loses_no_work_until_it_does():
    home = queue(cpu=1, preemption=LOWER, checks=(RequiredCheck("ready"),))
    steps = QuotaSteps(check("ready"), home, work("low"), settings=GATES)
    steps.see(gated())
    assert proposal(steps, "high") == PreemptionProposal(True, 1)
    steps.now = 50.0
    steps.edit("low", checks=(CheckStatus("ready", CheckState.READY, at=50.0),))
    assert steps.admitted == ["low"]
    assert proposal(steps, "high") == PreemptionProposal(True, 1, 0, 0, 1, 50.0)


def test_pods_that_are_done_for_good_lose_no_work():
    steps = QuotaSteps(queue(cpu=2, preemption=LOWER), work("low", pod_sets=(pods(count=2),)), settings=GATES)
    steps.see(gated(cpu=2))
    assert proposal(steps, "high").pods == 2
    steps.edit("low", reclaimable=(("main", 1),))
    assert proposal(steps, "high").pods == 1


class WithoutProposals(QuotaSteps):
    """The installed CRD does not have the field. A write that changes nothing makes no version."""

    needless = 0

    def perform(self, write):
        found, change = self.objects.get(write.target.key), getattr(write, "change", None)
        if not isinstance(change, QueuedWorkloadStatus):
            return super().perform(write)
        stored = structs.replace(change, proposal=None)
        if write.target.version == found.version and stored == found.status:
            self.needless += 1
            return [Outcome(write)]
        first, *rest = super().perform(structs.replace(write, change=stored))
        return [structs.replace(first, effect=write), *rest]


@pytest.mark.parametrize("strategy", QueueingStrategy)
def test_where_a_price_cannot_be_stored_gates_work_without(strategy):
    steps = WithoutProposals(queue(cpu=1, preemption=LOWER, strategy=strategy), work("low"), settings=GATES)
    steps.see(gated(), gated("equal", created=1.0))
    for _ in range(5):
        steps.later(100.0)
    assert signals(steps, "high") == [("True", "PreemptionGated")] * 2
    assert steps.needless == 0
    steps.see(work("large", 9, priority=9, created=2.0))
    expected = ("False", "WaitingForQuota") if strategy is STRICT else ("True", "PreemptionGated")
    assert signals(steps, "high") == [expected] * 2
    steps.lose(steps["large"])
    steps.edit("high", gate_statuses=(OPEN,))
    assert steps.admitted == ["high"]
    assert proposal(steps, "equal") is None


def test_a_price_that_somebody_else_dropped_is_written_again():
    steps = blocked(preemption=NEWER, strategy=STRICT)
    price = proposal(steps, "high")
    steps.edit("high", proposal=None)
    assert proposal(steps, "high") == price


def test_gated_workloads_are_counted():
    steps = blocked()
    assert steps.number("headgate_preemption_gated_workloads", cluster_queue="cq") == 1
    assert steps.number("headgate_gated_preemptions_total", cluster_queue="cq") == 1
    steps.edit("high", gate_statuses=(OPEN,))
    assert steps.number("headgate_preemption_gated_workloads", cluster_queue="cq") == 0
    assert steps.number("headgate_gated_preemptions_total", cluster_queue="cq") == 1
