"""Preemption gates in the admission cycle: they hold back evictions, and change nothing else."""

import pytest
from quota_builders import applies, flavor, group, holds, ledger, pending, policy, queue, snapshot

from headgate.engine.quota.admission_cycle import Admitted, Gated, Preempting, Waits, admit_all, cycle
from headgate.model.queues import (
    FlavorSearch,
    Fungibility,
    GateStatus,
    PreemptionProposal,
    QueueingStrategy,
    WithinQueue,
)
from headgate.model.settings import QuotaSettings
from headgate.quota.pending_queue import Requeue, Unreserved

GATES = QuotaSettings(preemption_gates=True)
LOWER = policy(within_queue=WithinQueue.LOWER_PRIORITY)
NEWER = policy(within_queue=WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY)
STOP, NEXT = FlavorSearch.MAY_STOP_SEARCH, FlavorSearch.TRY_NEXT_FLAVOR
STRICT, BEST = QueueingStrategy.STRICT_FIFO, QueueingStrategy.BEST_EFFORT_FIFO
COST = PreemptionProposal(True, 1, 0, 0, 2, 5.0)


def gated(name="gated", cpu=2, to="q", **fields):
    fields = {"priority": 1, "preemption_gates": ("g",), **fields}
    return applies(name, to, cpu, settings=GATES, **fields)


def opened(name="gated", cpu=2, to="q", **fields):
    return gated(name, cpu, to, gate_statuses=(GateStatus("g", True),), **fields)


FIT, PREEMPT, CANNOT = "can fit", "can preempt", "can't fit"
TRIGGERED, NOT = True, False
TABLE = [
    (FIT, FIT, ("a", NOT), ("a", NOT)),
    (FIT, CANNOT, ("a", NOT), ("a", NOT)),
    (FIT, PREEMPT, ("a", NOT), ("a", NOT)),
    (PREEMPT, FIT, ("a", TRIGGERED), ("b", NOT)),
    (PREEMPT, CANNOT, ("a", TRIGGERED), ("a", TRIGGERED)),
    (PREEMPT, PREEMPT, ("a", TRIGGERED), ("a", TRIGGERED)),
    (CANNOT, FIT, ("b", NOT), ("b", NOT)),
    (CANNOT, CANNOT, ("", NOT), ("", NOT)),
    (CANNOT, PREEMPT, ("b", TRIGGERED), ("b", TRIGGERED)),
]
"""How two flavors stand, and which is chosen and whether the gate is triggered: MayStopSearch, then TryNextFlavor."""


def stands(name, how, too_small):
    """A quota for the flavor, and who holds it."""
    if how is CANNOT and too_small:
        return {name: 1}, []
    priority = {PREEMPT: 0, CANNOT: 9}.get(how)
    return {name: 2}, [] if priority is None else [holds(f"in-{name}", "q", 2, priority, flavor=name)]


def chosen(outcome):
    """The flavor that the head got or would get."""
    if isinstance(outcome, Admitted | Preempting):
        return outcome.assignment.flavors["main", "cpu"]
    return {of.flavor for victim in outcome.victims for of, _ in victim.reservation.usage}.pop()


@pytest.mark.parametrize("too_small", [False, True], ids=["others keep it", "it is too small"])
@pytest.mark.parametrize("search", [STOP, NEXT], ids=["MayStopSearch", "TryNextFlavor"])
@pytest.mark.parametrize("a, b, stop, next_", TABLE, ids=[f"A {a} and B {b}" for a, b, *_ in TABLE])
def test_the_gate_is_triggered_after_flavors_were_chosen_as_without_it(a, b, stop, next_, search, too_small):
    (quota_a, in_a), (quota_b, in_b) = stands("a", a, too_small), stands("b", b, too_small)
    fungibility = Fungibility(when_can_preempt=search)
    home = queue("q", groups=(group(**quota_a, **quota_b),), preemption=LOWER, fungibility=fungibility)
    shot = snapshot(ledger(home, *in_a, *in_b), flavor("a"), flavor("b"))
    (closed,) = cycle(shot, [gated()], GATES)
    (open_,) = cycle(shot, [opened()], GATES)
    expected, triggered = stop if search is STOP else next_
    assert isinstance(closed, Gated) is triggered
    assert isinstance(open_, Preempting) is triggered
    if expected:
        assert (chosen(closed), chosen(open_)) == (expected, expected)
    else:
        assert isinstance(closed, Waits) and isinstance(open_, Waits)


@pytest.mark.parametrize(
    "states, is_gated",
    [
        pytest.param((), True, id="no gate has a state"),
        pytest.param((GateStatus("g", True),), True, id="one of two is open"),
        pytest.param((GateStatus("g", True), GateStatus("h", True)), False, id="both are open"),
        pytest.param(
            (GateStatus("g", True), GateStatus("x", False), GateStatus("h", True)), False, id="and a strange one"
        ),
    ],
)
def test_all_gates_must_be_open(states, is_gated):
    shot = snapshot(ledger(queue("q", 2, preemption=LOWER), holds("low", "q", 2)))
    (outcome,) = cycle(shot, [gated(preemption_gates=("g", "h"), gate_statuses=states)], GATES)
    assert isinstance(outcome, Gated if is_gated else Preempting)


@pytest.mark.parametrize("make, borrower", [(gated, Admitted), (opened, Waits)], ids=["closed", "open"])
def test_a_gated_head_uses_nothing_so_others_of_its_cohort_take_what_is_free(make, borrower):
    parts = queue("q", 4, "c", preemption=LOWER), queue("r", 0, "c"), holds("low", "q", 3)
    outcomes = cycle(snapshot(ledger(*parts)), [make(cpu=4), applies("other", "r", 1, settings=GATES)], GATES)
    found = {one.head.key.name: one for one in outcomes}
    assert isinstance(found["gated"], Gated if make is gated else Preempting)
    assert isinstance(found["other"], borrower)


def decided(waiting, books):
    """Who was decided on and how, cycle by cycle."""
    rounds = admit_all(waiting, snapshot(books), GATES, 1.0)
    return [[(one.head.key.name, type(one)) for one in outcomes] for outcomes in rounds]


def test_in_a_best_effort_queue_others_pass_a_gated_head_and_nothing_spins():
    books = ledger(queue("q", 3, preemption=LOWER, strategy=BEST), holds("low", "q", 2))
    waiting = pending(books, gated(), applies("small", "q", 1, settings=GATES))
    first, second, *more = decided(waiting, books)
    assert (first, second) == ([("gated", Gated)], [("small", Admitted)])
    assert more == [[("gated", Gated)]], "what it would preempt is another now"
    assert decided(waiting, books) == []


def test_in_a_strict_queue_a_gated_head_keeps_others_back_and_nothing_spins():
    books = ledger(queue("q", 3, preemption=LOWER, strategy=STRICT), holds("low", "q", 2))
    waiting = pending(books, gated(), applies("small", "q", 1, settings=GATES))
    assert decided(waiting, books) == [[("gated", Gated)]]
    assert decided(waiting, books) == []
    waiting.add(opened(), 2.0)
    assert decided(waiting, books)[0] == [("gated", Preempting)]


@pytest.mark.parametrize(
    "rule, holder, found",
    [
        pytest.param(LOWER, {}, {"a": Gated}, id="one for all"),
        pytest.param(NEWER, {}, {"a": Gated}, id="one for all where nobody of equal priority holds quota"),
        pytest.param(
            NEWER, {"priority": 1, "ordered": 0.5}, {"a": Gated, "b": Waits}, id="where age matters, each for itself"
        ),
    ],
)
def test_equal_workloads_with_closed_gates_get_one_answer(rule, holder, found):
    books = ledger(queue("q", 2, preemption=rule), holds("holder", "q", 2, **holder))
    waiting = pending(books, gated("a"), gated("b", created=1.0))
    assert {name: how for outcomes in decided(waiting, books) for name, how in outcomes} == found


def test_an_equal_workload_without_gates_is_not_held_back_with_them():
    books = ledger(queue("q", 2, preemption=LOWER), holds("low", "q", 2))
    waiting = pending(books, gated("a"), applies("b", "q", 2, settings=GATES, priority=1, created=1.0))
    assert decided(waiting, books)[:2] == [[("a", Gated)], [("b", Preempting)]]


def refuse(waiting, proposal, why=Requeue.CLASS_GATED):
    (head,) = waiting.heads()
    waiting.refused(head, why, None, Unreserved.GATED, proposal)
    return [one.key.name for one in waiting.untold(head)]


def test_what_a_class_was_refused_is_told_to_all_of_it_once():
    waiting = pending(ledger(queue("q", 2, preemption=LOWER)), gated("a"), gated("b", created=1.0))
    assert refuse(waiting, COST) == ["a", "b"]
    waiting.wake("q", 1.0)
    assert refuse(waiting, COST) == []
    waiting.wake("q", 2.0)
    assert refuse(waiting, PreemptionProposal(True, 2)) == ["a", "b"]
    waiting.add(gated("c", created=2.0), 3.0)
    waiting.wake("q", 3.0)
    assert refuse(waiting, PreemptionProposal(True, 2)) == ["a", "b", "c"], "one of them does not know it"


@pytest.mark.parametrize("why", [Requeue.CLASS_GATED, Requeue.PREEMPTION_GATED], ids=["with its class", "by itself"])
def test_who_waits_for_a_gate_is_evaluated_again_when_quota_was_given_or_taken(why):
    waiting = pending(ledger(queue("q", 2, "c", preemption=LOWER), queue("r", 2, "c"), queue("s", 2)), gated())
    waiting.reprice("q", 1.0)
    refuse(waiting, COST, why)
    assert waiting.heads() == []
    waiting.reprice("s", 2.0)
    assert waiting.heads() == [], "that was in another tree"
    waiting.reprice("r", 3.0)
    refuse(waiting, COST, why)
    assert waiting.heads() == []


def test_who_was_refused_for_other_reasons_is_not_evaluated_again_with_them():
    waiting = pending(ledger(queue("q", 2, preemption=LOWER)), gated(), applies("other", "q", 9, settings=GATES))
    refuse(waiting, COST)
    (other,) = waiting.heads()
    waiting.refused(other, Requeue.NO_FIT)
    waiting.reprice("q", 1.0)
    assert [one.key.name for one in waiting.heads()] == ["gated"]
