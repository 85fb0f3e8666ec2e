"""Who waits where: order, what steps aside, and what brings it back."""

import pytest
from msgspec import structs
from quota_builders import PLAIN, applies, condition, ledger, pending, queue, work

from headgate.engine.deadlines import Deadlines
from headgate.model.queues import PodSet, QueueingStrategy, RequeueState
from headgate.model.settings import QuotaSettings, RequeueTime
from headgate.quota.pending_queue import Requeue, Unreserved, comes_back_at_once
from headgate.quota.pending_queues import PendingQueues
from headgate.quota.pending_workload import Progress, differs, has_rested, may_queue, ordered_at, pending_workload

STRICT, BEST_EFFORT = QueueingStrategy
MORE = Progress(((("cpu", 0),),), 0, 0, None)
ALL_TRIED = Progress(((("cpu", -1),),), 0, 0, None)
MISSED = Progress((), 0, 0, None, missed=True)


def names(heads):
    return [one.key.name for one in heads]


def one_queue(*waiting, backoffs=None, **fields):
    return pending(ledger(queue("q", 9, **fields)), *waiting, backoffs=backoffs)


def drained(queues):
    """Everybody in the order they are tried, each admitted at once."""
    order = []
    while heads := queues.heads():
        order += names(heads)
        for head in heads:
            queues.delete(head.key)
    return order


@pytest.mark.parametrize(
    "fields, allowed",
    [
        pytest.param({}, True, id="a new workload queues"),
        pytest.param({"active": False}, False, id="one that is not active does not"),
        pytest.param({"gated_by": ("example.com/gate",)}, False, id="nor one that a controller holds back"),
        pytest.param({"conditions": (condition("Finished", True),)}, False, id="nor a finished one"),
        pytest.param({"conditions": (condition("QuotaReserved", True),)}, False, id="nor one that has quota"),
        pytest.param({"conditions": (condition("QuotaReserved", False),)}, True, id="but one that lost it does"),
        pytest.param({"conditions": (condition("QuotaReserved", False, "OnHold"),)}, False, id="nor one on hold"),
        pytest.param(
            {"conditions": (condition("WaitingForReplacementPods", True),)}, False, id="nor one that lacks pods"
        ),
    ],
)
def test_who_may_queue(fields, allowed):
    assert may_queue(work(**fields)) is allowed


TIMEOUT = condition("Evicted", True, "PodsReadyTimeout", 50.0)
BY_CREATION = QuotaSettings(requeue_time=RequeueTime.CREATION)


@pytest.mark.parametrize(
    "conditions, settings, time",
    [
        pytest.param((), PLAIN, 7.0, id="by its creation"),
        pytest.param((TIMEOUT,), PLAIN, 50.0, id="by its eviction, when its pods were not ready in time"),
        pytest.param((TIMEOUT,), BY_CREATION, 7.0, id="unless creation counts even then"),
        pytest.param(
            (condition("Evicted", True, "AdmissionCheck", 60.0),), BY_CREATION, 60.0, id="by its eviction by a check"
        ),
        pytest.param((condition("Evicted", True, "Preempted", 6.0),), PLAIN, 7.0, id="preempted ones keep their place"),
        pytest.param(
            (condition("Evicted", False, "PodsReadyTimeout", 50.0),), PLAIN, 7.0, id="an eviction that is over is over"
        ),
    ],
)
def test_the_time_that_orders(conditions, settings, time):
    assert ordered_at(work(created=7.0, conditions=conditions), settings) == time


@pytest.mark.parametrize(
    "fields, rested",
    [
        pytest.param({}, True, id="who never rested has rested"),
        pytest.param({"requeue": RequeueState(1, 100.0)}, True, id="when its time has come"),
        pytest.param({"requeue": RequeueState(1, 101.0)}, False, id="not before"),
        pytest.param({"conditions": (condition("Requeued", False),)}, False, id="not while told to stay out"),
        pytest.param({"conditions": (condition("Requeued", True),)}, True, id="but when told to come back"),
    ],
)
def test_rest(fields, rested):
    assert has_rested(work(**fields), 100.0) is rested


def test_order_is_by_priority_then_time_then_uid():
    late = applies("late", "q", created=2.0)
    queues = one_queue(
        late, applies("z", "q", created=1.0), applies("y", "q", created=1.0), applies("top", "q", priority=1)
    )
    assert drained(queues) == ["top", "y", "z", "late"]


def test_a_boost_counts_as_priority():
    assert drained(one_queue(applies("plain", "q", priority=1), applies("boosted", "q", boost=2))) == [
        "boosted",
        "plain",
    ]


def test_local_queues_that_used_less_go_first_where_usage_decides():
    used = {"busy": 10, "idle": 1}
    queues = PendingQueues(local_usage=lambda applicant: used[applicant.workload.queue])
    queues.configure([queue("q", 9, usage_based=True)], {"q": ("q",)})
    for name in ("busy-1", "idle-1", "busy-2", "idle-2"):
        queues.add(applies(name, "q", queue=name.split("-")[0], priority=9 if "busy" in name else 0), 0.0)
    assert drained(queues) == ["idle-1", "idle-2", "busy-1", "busy-2"]


@pytest.mark.parametrize(
    "why, more, strict, best_effort",
    [
        pytest.param(Requeue.GENERIC, False, True, False, id="skipped"),
        pytest.param(Requeue.GENERIC, True, True, True, id="skipped with flavors left to try"),
        pytest.param(Requeue.NO_FIT, False, True, False, id="no fit"),
        pytest.param(Requeue.NO_CANDIDATES, False, True, False, id="nobody to preempt"),
        pytest.param(Requeue.PREEMPTION_GATED, False, True, False, id="gated"),
        pytest.param(Requeue.NAMESPACE_MISMATCH, False, False, False, id="the wrong namespace"),
        pytest.param(Requeue.PENDING_PREEMPTION, False, True, True, id="its victims are on their way out"),
        pytest.param(Requeue.PREEMPTION_FAILED, False, True, True, id="evictions failed"),
        pytest.param(Requeue.FAILED_AFTER_NOMINATION, False, True, True, id="the write failed"),
    ],
)
def test_who_comes_back_at_once(why, more, strict, best_effort):
    assert comes_back_at_once(STRICT, why, more) is strict
    assert comes_back_at_once(BEST_EFFORT, why, more) is best_effort


def test_a_strict_queue_stays_at_its_head():
    queues = one_queue(applies("head", "q", 5, priority=1), applies("next", "q"), strategy=STRICT)
    (head,) = queues.heads()
    queues.refused(head, Requeue.NO_FIT, ALL_TRIED)
    assert queues.heads() == [], "and is left alone until something changes"
    queues.wake("q", 1.0)
    assert names(queues.heads()) == ["head"]


def test_a_best_effort_queue_goes_on_behind_a_head_that_does_not_fit():
    queues = one_queue(applies("head", "q", 5, priority=1), applies("next", "q"))
    (head,) = queues.heads()
    queues.refused(head, Requeue.NO_FIT, ALL_TRIED)
    assert names(queues.heads()) == ["next"]


def test_a_head_with_flavors_left_is_tried_again_at_once():
    queues = one_queue(applies("head", "q"))
    (head,) = queues.heads()
    queues.refused(head, Requeue.NO_FIT, MORE)
    (again,) = queues.heads()
    assert again.progress == MORE


def test_who_waits_for_its_victims_begins_anew_but_does_not_go_in_circles():
    queues = one_queue(applies("head", "q"))
    (head,) = queues.heads()
    queues.refused(head, Requeue.NO_FIT, MORE)
    (again,) = queues.heads()
    queues.refused(again, Requeue.PENDING_PREEMPTION)
    queues.wake("q", 1.0)
    (anew,) = queues.heads()
    assert anew.progress.next_flavor(0, "cpu") == 0
    assert MORE.tried in anew.progress.earlier


def test_one_that_is_refused_speaks_for_all_of_its_class():
    queues = one_queue(*(applies(f"same-{index}", "q", 5) for index in range(3)), applies("other", "q", 1, created=9.0))
    (head,) = queues.heads()
    queues.refused(head, Requeue.NO_FIT, ALL_TRIED, Unreserved.TOO_LARGE)
    assert (queues.of("q").active, queues.of("q").inadmissible) == (1, 3)
    assert drained(queues) == ["other"]
    queues.add(applies("same-9", "q", 5), 0.0)
    assert queues.heads() == [], "also for those that come later"
    assert queues.passed_over(applies("same-9", "q").key)[1].reason is Unreserved.TOO_LARGE
    assert queues.passed_over(applies("other", "q").key) is None
    queues.wake("q", 1.0)
    assert drained(queues) == ["same-0", "same-1", "same-2", "same-9"]


def test_who_left_out_a_flavor_that_may_do_by_now_is_tried_again_when_all_others_had_their_turn():
    books = ledger(queue("q", 9, "c"), queue("r", 9, "c"))
    queues = pending(books, applies("head", "q", 5, priority=1), applies("next", "q"), applies("other", "r"))
    head, other = queues.heads()
    queues.refused(head, Requeue.NO_FIT, MISSED)
    queues.refused(other, Requeue.NO_FIT, ALL_TRIED)
    (next_,) = queues.heads()
    queues.refused(next_, Requeue.NO_FIT, ALL_TRIED)
    assert names(queues.heads()) == ["head"]


def test_all_of_a_class_are_tried_again_with_who_left_out_a_flavor():
    queues = one_queue(*(applies(f"same-{index}", "q", 5) for index in range(2)))
    (head,) = queues.heads()
    queues.refused(head, Requeue.NO_FIT, MISSED)
    assert queues.of("q").inadmissible == 2
    assert drained(queues) == ["same-0", "same-1"]


def test_a_strict_head_that_left_out_a_flavor_tries_it_at_once():
    queues = one_queue(applies("head", "q", 5, priority=1), applies("next", "q"), strategy=STRICT)
    (head,) = queues.heads()
    queues.refused(head, Requeue.NO_FIT, MISSED)
    assert names(queues.heads()) == ["head"]


def test_in_a_strict_queue_nobody_speaks_for_others():
    queues = one_queue(applies("a", "q", 5), applies("b", "q", 5), strategy=STRICT)
    (head,) = queues.heads()
    queues.refused(head, Requeue.NO_FIT, ALL_TRIED)
    assert queues.of("q").active == 2


def test_who_is_merely_skipped_speaks_for_nobody():
    queues = one_queue(applies("a", "q", 5), applies("b", "q", 5))
    (head,) = queues.heads()
    queues.refused(head, Requeue.GENERIC, ALL_TRIED)
    assert names(queues.heads()) == ["b"]


def test_who_is_skipped_stays_in_front_as_long_as_anything_goes_on_in_the_tree():
    books = ledger(queue("q", 9, "c"), queue("r", 9, "c"))
    queues = pending(books, applies("head", "q", priority=1), applies("next", "q"), applies("other", "r"))
    head, other = queues.heads()
    queues.refused(head, Requeue.GENERIC, ALL_TRIED)
    queues.refused(other, Requeue.NO_FIT, MORE)
    again, other = queues.heads()
    assert names([again, other]) == ["head", "other"]
    queues.refused(again, Requeue.GENERIC, ALL_TRIED)
    queues.refused(other, Requeue.NO_FIT, ALL_TRIED)
    assert names(queues.heads()) == ["next"]


def test_a_change_wakes_the_whole_tree_and_no_other():
    books = ledger(queue("q", 1, "c"), queue("r", 1, "c"), queue("s", 1))
    queues = pending(books, *(applies(f"w-{name}", name, 5) for name in "qrs"))
    for head in queues.heads():
        queues.refused(head, Requeue.NO_FIT, ALL_TRIED)
    assert queues.heads() == []
    queues.wake("r", 1.0)
    assert names(queues.heads()) == ["w-q", "w-r"]


def test_a_change_during_the_cycle_brings_back_who_is_refused():
    queues = one_queue(applies("a", "q"))
    (head,) = queues.heads()
    queues.wake("q", 1.0)
    queues.refused(head, Requeue.NO_FIT, ALL_TRIED)
    assert names(queues.heads()) == ["a"]


def test_waking_leaves_out_who_may_not_enter():
    allowed = []
    queues = PendingQueues(may_enter=lambda queue, namespace: namespace in allowed)
    queues.configure([queue("q", 9)], {"q": ("q",)})
    queues.add(applies("a", "q"), 0.0)
    (head,) = queues.heads()
    queues.refused(head, Requeue.NAMESPACE_MISMATCH)
    queues.wake("q", 1.0)
    assert queues.heads() == []
    allowed.append("default")
    queues.wake("q", 2.0)
    assert names(queues.heads()) == ["a"]


def test_a_preemptor_stays_in_front_until_it_leaves():
    queues = one_queue(applies("preemptor", "q"))
    (head,) = queues.heads()
    queues.refused(head, Requeue.PENDING_PREEMPTION)
    queues.add(applies("more-important", "q", priority=9), 1.0)
    (head,) = queues.heads()
    assert head.key.name == "preemptor"
    queues.delete(head.key)
    assert names(queues.heads()) == ["more-important"]


def test_a_preemptor_that_was_changed_is_like_any_other():
    queues = one_queue(applies("preemptor", "q"))
    (head,) = queues.heads()
    queues.refused(head, Requeue.PENDING_PREEMPTION)
    queues.add(applies("preemptor", "q", generation=2), 1.0)
    queues.add(applies("more-important", "q", priority=9), 1.0)
    assert names(queues.heads()) == ["more-important"]


def test_in_a_strict_queue_a_preemptor_is_like_any_other():
    queues = one_queue(applies("preemptor", "q"), strategy=STRICT)
    (head,) = queues.heads()
    queues.refused(head, Requeue.PENDING_PREEMPTION)
    queues.add(applies("more-important", "q", priority=9), 1.0)
    assert names(queues.heads()) == ["more-important"]


def test_who_rests_is_tried_when_the_rest_is_over():
    backoffs = Deadlines()
    queues = one_queue(applies("a", "q", requeue=RequeueState(1, 10.0)), backoffs=backoffs)
    assert (queues.heads(), backoffs.next_deadline()) == ([], 10.0)
    queues.wake("q", 5.0)
    assert queues.heads() == []
    assert queues.flush_backoff(backoffs.due(10.0), 10.0) == ["q"]
    assert names(queues.heads()) == ["a"]
    assert backoffs.next_deadline() is None


def test_the_back_off_of_who_waits_no_longer_is_not_watched():
    backoffs = Deadlines()
    resting = applies("a", "q", requeue=RequeueState(1, 10.0))
    queues = one_queue(resting, backoffs=backoffs)
    queues.delete(resting.key)
    assert backoffs.next_deadline() is None


def refused_once():
    queues = one_queue(applies("a", "q", 5), applies("b", "q", 1, created=5.0))
    (head,) = queues.heads()
    queues.refused(head, Requeue.GENERIC, ALL_TRIED)
    (head,) = queues.heads()
    queues.delete(head.key)
    assert queues.heads() == []
    return queues


@pytest.mark.parametrize(
    "fields, tried",
    [
        pytest.param({"labels": {"x": "y"}}, [], id="a label does not matter"),
        pytest.param({"priority": 3}, ["a"], id="another priority does"),
        pytest.param({"reclaimable": (("main", 1),)}, ["a"], id="so do pods that are done"),
        pytest.param({"conditions": (condition("Evicted", True, "Preempted"),)}, ["a"], id="and an eviction"),
        pytest.param({"preemption_gates": ("g",)}, ["a"], id="and a gate"),
    ],
)
def test_what_brings_back_a_workload_that_was_set_aside(fields, tried):
    queues = refused_once()
    queues.add(applies("a", "q", 5, **fields), 2.0)
    assert names(queues.heads()) == tried


def test_a_workload_that_changes_while_it_is_tried_comes_back_as_it_is_now():
    queues = one_queue(applies("a", "q"))
    (head,) = queues.heads()
    queues.add(applies("a", "q", 3), 1.0)
    queues.refused(head, Requeue.PENDING_PREEMPTION)
    queues.wake("q", 1.0)
    assert [one.pod_set_requests[0].each["cpu"] for one in queues.heads()] == [3000]


def test_a_workload_moves_with_its_queue():
    books = ledger(queue("q", 9), queue("r", 9))
    queues = pending(books, applies("a", "q"))
    queues.add(applies("a", "r"), 1.0)
    assert [head.queue for head in queues.heads()] == ["r"]


def test_inactive_queues_keep_their_workloads_and_hand_out_none():
    spec = queue("q", 9)
    queues = PendingQueues()
    queues.configure([spec], {"q": ("q",)}, inactive=frozenset({"q"}))
    queues.add(applies("a", "q"), 0.0)
    assert (queues.heads(), queues.of("q").active) == ([], 1)
    queues.configure([spec], {"q": ("q",)})
    assert names(queues.heads()) == ["a"]


def test_with_its_queue_a_workload_is_forgotten():
    queues = one_queue(applies("a", "q"))
    queues.configure([], {})
    assert applies("a", "q").key not in queues
    assert queues.heads() == []


def test_equal_demands_of_equal_priority_are_one_class_whatever_their_names():
    one, other = applies("a", "q"), applies("b", "q", created=9.0)
    assert one.kind == other.kind
    assert one.kind != applies("c", "q", priority=1).kind
    assert one.kind != applies("d", "q", 2).kind


def test_only_what_matters_is_a_difference():
    old = work("a")
    assert not differs(old, structs.replace(old, version="2", labels={"x": "y"}))
    assert differs(old, structs.replace(old, pod_sets=(PodSet("main", old.pod_sets[0].shape, 2),)))
    assert pending_workload(old, "q", PLAIN).rank == (0, 0.0, "uid-a")


@pytest.mark.parametrize(
    "strategy, tried",
    [
        pytest.param(STRICT, ["waits"], id="a strict queue kept room for it, which others may have now"),
        pytest.param(BEST_EFFORT, [], id="another queue kept nothing for it"),
    ],
)
def test_one_that_gives_up_waiting_lets_others_have_what_was_kept_for_it(strategy, tried):
    books = ledger(queue("first", 9, "all", strategy=strategy), queue("second", 9, "all"))
    queues = pending(books, applies("gives-up", "first"), applies("waits", "second"))
    for head in queues.heads():
        queues.refused(head, Requeue.GENERIC)
    while heads := queues.heads():
        for head in heads:
            queues.refused(head, Requeue.GENERIC)
    queues.give_up(applies("gives-up", "first").key, 1.0)
    assert names(queues.heads()) == tried
