"""One cycle: in which order heads are decided, and what becomes of each."""

import pytest
from msgspec import structs
from quota_builders import (
    CPU,
    PLAIN,
    applies,
    cohort,
    condition,
    flavor,
    group,
    holds,
    ledger,
    pending,
    pods,
    policy,
    queue,
    snapshot,
)

from headgate.engine.quota.admission_cycle import Admitted, Deferred, Gated, Preempting, Waits, admit_all, cycle
from headgate.lifecycle.workload.admission import reserved
from headgate.lifecycle.workload.conditions import with_status
from headgate.model.queues import CheckState, CheckStatus, GateStatus, QueueingStrategy, Quota, Reclaim, WithinQueue
from headgate.model.settings import DEFAULT_FAIR, QuotaSettings
from headgate.quota.flavors import admission
from headgate.quota.pending_workload import ordered_at
from headgate.quota.requests import reservation_of

LOWER = policy(within_queue=WithinQueue.LOWER_PRIORITY)
FAIR = QuotaSettings(fair=DEFAULT_FAIR)
GATES = QuotaSettings(preemption_gates=True)


def told(outcomes):
    return {outcome.head.key.name: type(outcome).__name__ for outcome in outcomes}


def outcome_of(head, *parts, settings=PLAIN, **fields):
    (outcome,) = cycle(snapshot(ledger(*parts), **fields), [head], settings)
    return outcome


@pytest.mark.parametrize(
    "head, fields, reason, requeue, message",
    [
        pytest.param(
            applies("w", "q", checks=(CheckStatus("check", CheckState.RETRY),)),
            {},
            "PendingEvaluation",
            "",
            "The workload has failed admission checks",
            id="a check that failed",
        ),
        pytest.param(
            applies("w", "q"),
            {"inactive": frozenset({"q"})},
            "Suspended",
            "",
            "ClusterQueue q is inactive",
            id="a queue that is not active",
        ),
        pytest.param(
            applies("w", "ring"), {}, "Suspended", "", "ClusterQueue ring is inactive", id="a queue below a ring"
        ),
        pytest.param(
            applies("w", "lost"), {}, "Misconfigured", "", "ClusterQueue lost not found", id="a queue that is missing"
        ),
        pytest.param(
            applies("w", "closed"),
            {},
            "Misconfigured",
            "NamespaceMismatch",
            "workload namespace doesn't match ClusterQueue selector",
            id="a namespace that is not selected",
        ),
        pytest.param(
            structs.replace(applies("w", "q"), problem="requests exceed limits"),
            {},
            "Misconfigured",
            "",
            "requests exceed limits",
            id="a workload that is not valid",
        ),
        pytest.param(
            applies("w", "q", 5),
            {},
            "ExceedsMaxQuota",
            "NoFit",
            "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously "
            "considered podsets requests (0) + current podset request (5) > maximum capacity (4)",
            id="a demand that never fits",
        ),
    ],
)
def test_who_is_not_admitted_is_told_why(head, fields, reason, requeue, message):
    parts = queue("q", 4), queue("closed", 4, namespaces=None), queue("ring", 4, "c"), cohort("c", "c")
    found = outcome_of(head, *parts, **fields)
    assert (found.reason, found.requeue, found.message) == (reason, requeue, message)


def test_who_fits_is_admitted_with_what_it_was_assigned():
    found = outcome_of(applies("w", "q", pod_sets=(pods(count=3),)), queue("q", 4))
    (given,) = admission("q", found.assignment.pod_sets).pod_sets
    assert isinstance(found, Admitted)
    assert (given.flavors, given.usage["cpu"], given.count) == ((("cpu", "default"),), 3000, 3)


def test_who_must_preempt_is_told_how_many_have_to_go():
    found = outcome_of(applies("w", "q", 2, priority=1), queue("q", 4, preemption=LOWER), holds("low", "q", 4))
    assert isinstance(found, Preempting)
    assert found.message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed. "
        "Pending the preemption of 1 workload(s)"
    )


def test_a_closed_gate_holds_back_evictions_and_nothing_else():
    gated = applies("w", "q", 2, priority=1, preemption_gates=("g",))
    full = queue("q", 4, preemption=LOWER), holds("low", "q", 4)
    assert isinstance(outcome_of(gated, *full), Preempting), "as long as gates are not heeded"
    assert isinstance(outcome_of(gated, *full, settings=GATES), Gated)
    assert isinstance(outcome_of(gated, queue("q", 4), settings=GATES), Admitted)
    opened = applies("w", "q", 2, priority=1, preemption_gates=("g",), gate_statuses=(GateStatus("g", True),))
    assert isinstance(outcome_of(opened, *full, settings=GATES), Preempting)


def test_fewer_pods_are_admitted_where_fewer_will_do():
    found = outcome_of(applies("w", "q", pod_sets=(pods(count=9, min_count=2),)), queue("q", 4))
    assert [pod_set.count for pod_set in found.assignment.pod_sets] == [4]


def test_whoever_borrows_less_goes_first_then_the_more_important_then_the_older():
    books = ledger(*(queue(f"q{index}", nominal, "c") for index, nominal in enumerate((0, 4, 4, 4))))
    heads = [
        applies("borrows", "q0", 2, priority=9),
        applies("late", "q1", 2, created=2.0),
        applies("early", "q2", 2, created=1.0),
        applies("important", "q3", 2, priority=1, created=3.0),
    ]
    assert list(told(cycle(snapshot(books), heads, PLAIN))) == ["important", "early", "late", "borrows"]


def test_with_fair_sharing_whoever_would_have_less_goes_first():
    books = ledger(queue("q", 0, "c"), queue("r", 0, "c"), queue("s", 9, "c"), holds("a", "q", 3), holds("b", "r", 1))
    heads = [applies("more", "q", 1, priority=9), applies("less", "r", 1), applies("none", "s", 1, created=5.0)]
    assert list(told(cycle(snapshot(books), heads, FAIR))) == ["none", "less", "more"]


def test_with_fair_sharing_cohorts_compete_before_their_queues_do():
    books = ledger(
        *(queue(name, 0, above) for name, above in (("p", "left"), ("q", "left"), ("r", "right"))),
        cohort("left", "top"),
        cohort("right", "top"),
        cohort("top", nominal=9),
        holds("a", "p", 4),
        holds("b", "r", 1),
    )
    heads = [applies("rich-cohort", "q", 1, priority=9), applies("poor-cohort", "r", 1)]
    assert list(told(cycle(snapshot(books), heads, FAIR))) == ["poor-cohort", "rich-cohort"]


def test_who_comes_too_late_is_skipped():
    books = ledger(queue("q", 2, "c"), queue("r", 2, "c"))
    heads = [applies("first", "q", 4, priority=1), applies("second", "r", 4)]
    first, second = cycle(snapshot(books), heads, PLAIN)
    assert isinstance(first, Admitted)
    assert (second.reason, second.requeue) == ("WaitingForQuota", "")
    assert second.message == "Workload no longer fits after processing another workload"
    assert not second.skipped_preemption


def test_room_promised_to_a_preemptor_is_not_given_away():
    reclaims = queue("q", 4, "c", preemption=policy(reclaim=Reclaim.ANY))
    books = ledger(reclaims, queue("r", 4, "c"), holds("v", "r", 4, priority=5), holds("w", "r", 2))
    heads = [applies("preemptor", "q", 4), applies("borrower", "r", 2, priority=9)]
    assert told(cycle(snapshot(books), heads, PLAIN)) == {"preemptor": "Preempting", "borrower": "Waits"}


def reclaimers(*names):
    return [queue(name, 2, "c", preemption=policy(reclaim=Reclaim.ANY)) for name in names]


def test_who_needs_the_same_victims_waits_for_them_too_when_they_are_enough_for_both():
    books = ledger(*reclaimers("p", "q"), queue("r", 0, "c"), holds("w", "r", 4))
    heads = [applies("first", "p", 2, priority=1), applies("second", "q", 2)]
    first, second = cycle(snapshot(books), heads, PLAIN)
    assert (type(first), type(second)) == (Preempting, Deferred)
    assert second.message.endswith("will fit after these preemptions complete")


def test_who_needs_the_same_victims_finds_others_when_they_are_not():
    books = ledger(*reclaimers("p", "q"), queue("r", 0, "c"), holds("a", "r", 2), holds("b", "r", 2))
    heads = [applies("first", "p", 2, priority=1), applies("second", "q", 2)]
    victims = [
        [one.reservation.key.name for one in outcome.victims] for outcome in cycle(snapshot(books), heads, PLAIN)
    ]
    assert victims == [["a"], ["b"]]


@pytest.mark.parametrize(
    "reclaim, second",
    [
        pytest.param(Reclaim.NEVER, "Waits", id="who cannot take its quota back keeps what is left of it"),
        pytest.param(Reclaim.ANY, "Admitted", id="who can has no need to"),
    ],
)
def test_what_is_left_of_its_own_quota_is_kept_for_who_waits(reclaim, second):
    """Nobody can be preempted: the one who holds the rest of the quota does not borrow."""
    books = ledger(
        queue("q", 4, "c", preemption=policy(reclaim=reclaim)), queue("r", 0, "c"), holds("own", "q", 2, priority=9)
    )
    heads = [applies("waits", "q", 4, priority=1), applies("borrower", "r", 2)]
    assert told(cycle(snapshot(books), heads, PLAIN)) == {"waits": "Waits", "borrower": second}


@pytest.mark.parametrize(
    "strategy, rounds",
    [
        pytest.param(
            QueueingStrategy.BEST_EFFORT_FIFO,
            [{"waits": "Waits", "borrower": "Waits"}, {"borrower": "Admitted"}],
            id="for no longer than one cycle where it steps aside",
        ),
        pytest.param(
            QueueingStrategy.STRICT_FIFO,
            [{"waits": "Waits", "borrower": "Waits"}],
            id="as long as it waits where it stays in front",
        ),
    ],
)
def test_how_long_quota_is_kept_for_who_waits(strategy, rounds):
    books = ledger(queue("q", 4, "c", strategy=strategy), queue("r", 0, "c"), holds("own", "q", 2, priority=9))
    queues = pending(books, applies("waits", "q", 4, priority=1), applies("borrower", "r", 2))
    assert [told(outcomes) for outcomes in admit_all(queues, snapshot(books), PLAIN, 0.0)] == rounds


def test_nothing_more_is_admitted_until_all_pods_are_ready_where_that_is_wished():
    one_by_one = QuotaSettings(block_admission=True)
    books = ledger(queue("q", 4), queue("r", 4))
    queues = pending(books, applies("a", "q"), applies("b", "q", created=1.0), applies("c", "r"))
    rounds = [told(outcomes) for outcomes in admit_all(queues, snapshot(books), one_by_one, 0.0)]
    assert rounds == [{"a": "Admitted", "c": "Waits"}, {"b": "Waits"}]
    queues.wake("q", 1.0)
    (outcomes,) = admit_all(queues, snapshot(books, all_ready=False), one_by_one, 1.0)
    assert [outcome.reason for outcome in outcomes] == ["WaitingForPodsReady"]


def test_a_cycle_leaves_the_ledger_as_it_was():
    books = ledger(queue("q", 4, "c", preemption=policy(reclaim=Reclaim.ANY)), queue("r", 4, "c"), holds("w", "r", 6))
    before = {name: node.used(CPU) for name, node in books.forest.queues.items()}
    cycle(snapshot(books), [applies("a", "q", 4), applies("b", "r", 2)], PLAIN)
    assert {name: node.used(CPU) for name, node in books.forest.queues.items()} == before
    assert [one.uid for one in books.reservations("r")] == ["uid-w"]


def test_who_was_skipped_at_one_flavor_goes_on_with_the_next():
    borrower, owner = (
        queue("q", groups=(group(one=0, two=2),), cohort="c"),
        queue("r", groups=(group(one=2),), cohort="c"),
    )
    books = ledger(borrower, owner)
    queues = pending(books, applies("owner", "r", 2), applies("borrower", "q", 2))
    shot = snapshot(books, flavor("one"), flavor("two"))
    rounds = [told(outcomes) for outcomes in admit_all(queues, shot, PLAIN, 0.0)]
    assert rounds == [{"owner": "Admitted", "borrower": "Waits"}, {"borrower": "Admitted"}]


def test_who_went_on_with_the_next_flavor_in_vain_tries_the_first_once_more():
    """The first flavor was taken when it was skipped there, but is free again by the time the second is full."""
    both = queue("q", groups=(group(one=0, two=2),), cohort="c")
    books = ledger(both, queue("r", groups=(group(one=2),), cohort="c"), holds("v", "q", 2, flavor="two"))
    queues = pending(books, applies("owner", "r", 2), applies("borrower", "q", 2))
    shot = snapshot(books, flavor("one"), flavor("two"))
    cycles = admit_all(queues, shot, PLAIN, 0.0)
    assert told(next(cycles)) == {"owner": "Admitted", "borrower": "Waits"}
    books.release("r", "uid-owner")
    assert [told(outcomes) for outcomes in cycles] == [{"borrower": "Waits"}, {"borrower": "Admitted"}]


def test_several_of_one_queue_are_admitted_at_one_go():
    books = ledger(queue("q", 4))
    queues = pending(books, *(applies(f"w{index}", "q", created=float(index)) for index in range(6)))
    rounds = [told(outcomes) for outcomes in admit_all(queues, snapshot(books), PLAIN, 0.0)]
    assert rounds == [{f"w{index}": "Admitted"} for index in range(4)] + [{"w4": "Waits"}]


RECLAIMS = policy(reclaim=Reclaim.ANY)


def cohort_of_three(settings):
    """Each queue may have 4 and take it back; `full` has them, and so has `other`."""
    books = ledger(
        *(queue(name, 4, "c", preemption=RECLAIMS) for name in ("full", "other", "owner")),
        holds("f", "full", 4),
        holds("o", "other", 4),
    )

    def decided(*heads):
        rounds = [told(outcomes) for outcomes in admit_all(pending(books, *heads), snapshot(books), settings, 1.0)]
        return [{name for name, what in one.items() if what == "Admitted"} for one in rounds], rounds

    return decided


SETTINGS = pytest.mark.parametrize(
    "settings", [pytest.param(PLAIN, id="by priority"), pytest.param(FAIR, id="by fair sharing")]
)


@SETTINGS
def test_nobody_borrows_what_the_owner_would_take_back_at_once(settings):
    urgent = [applies(f"urgent-{index}", "full", priority=9) for index in range(4)]
    owners = [applies(f"own-{index}", "owner", created=float(index)) for index in range(4)]
    admitted, rounds = cohort_of_three(settings)(*urgent, *owners)
    assert [one for one in admitted if one] == [{"own-0"}, {"own-1"}, {"own-2"}, {"own-3"}]
    assert not any("Preempting" in one.values() for one in rounds)


@SETTINGS
def test_what_the_owner_does_not_want_is_borrowed_in_the_same_step(settings):
    borrowers = [applies(f"borrows-{index}", "full", created=float(index)) for index in range(4)]
    admitted, rounds = cohort_of_three(settings)(*borrowers, applies("own-0", "owner"), applies("own-1", "owner"))
    assert [one for one in admitted if one] == [{"own-0"}, {"own-1"}, {"borrows-0"}, {"borrows-1"}]
    assert rounds[-1]["borrows-2"] == "Waits"


@SETTINGS
def test_who_came_after_a_borrower_that_waits_its_turn_is_decided_with_it(settings):
    early, late = applies("early", "full", 3, created=1.0), applies("late", "other", 3, created=2.0)
    _, rounds = cohort_of_three(settings)(early, late, applies("own", "owner"))
    assert rounds[0] == {"own": "Admitted"}, "nothing is said to others in this cycle"
    assert rounds[1] == {"early": "Admitted", "late": "Waits"}


def test_queues_that_share_no_quota_do_not_wait_for_each_other():
    books = ledger(queue("borrows", 0, "c"), queue("lends", 4, "c"), queue("alone", 4))
    heads = pending(books, applies("b", "borrows"), applies("a", "alone"))
    first, *_ = admit_all(heads, snapshot(books), PLAIN, 1.0)
    assert told(first) == {"a": "Admitted", "b": "Admitted"}


def test_whoever_borrows_within_its_cohort_goes_before_who_borrows_beyond_it():
    books = ledger(
        queue("near", 0, "left"),
        queue("lends", 4, "left"),
        queue("far", 0, "right"),
        cohort("left", "root"),
        cohort("right", "root"),
    )
    heads = [applies(f"near-{index}", "near", 2, created=9.0) for index in range(2)]
    first, second, *_ = admit_all(pending(books, applies("far", "far"), *heads), snapshot(books), PLAIN, 1.0)
    assert (told(first), told(second)) == ({"near-0": "Admitted"}, {"near-1": "Admitted", "far": "Waits"})


def test_a_waiting_preemptor_is_not_asked_again_before_something_changes():
    books = ledger(queue("q", 4, preemption=LOWER), holds("low", "q", 4))
    queues = pending(books, applies("w", "q", 2, priority=1))
    first = list(admit_all(queues, snapshot(books), PLAIN, 0.0))
    assert [told(outcomes) for outcomes in first] == [{"w": "Preempting"}]
    assert list(admit_all(queues, snapshot(books), PLAIN, 1.0)) == []
    books.release("q", "uid-low")
    queues.wake("q", 2.0)
    assert [told(outcomes) for outcomes in admit_all(queues, snapshot(books), PLAIN, 2.0)] == [{"w": "Admitted"}]


def test_quota_that_was_taken_away_admits_nobody():
    found = outcome_of(applies("w", "q"), queue("q", Quota(2)), holds("a", "q", 2), holds("b", "q", 2))
    assert isinstance(found, Waits)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(applies("w", "q", created=1.0, boost=3), id="one with a boost"),
        pytest.param(
            applies("w", "q", created=1.0, conditions=(condition("Evicted", True, "AdmissionCheck", at=5.0),)),
            id="one a check had sent back",
        ),
        pytest.param(applies("w", "q", pod_sets=(pods(count=3),), reclaimable=(("main", 1),)), id="one partly done"),
        pytest.param(applies("w", "q", pod_sets=(pods(count=9, min_count=2),)), id="one that does with fewer pods"),
    ],
)
def test_what_is_held_at_once_is_what_will_be_read_of_the_workload(head):
    books = ledger(queue("q", 4))
    ((outcome,),) = admit_all(pending(books, head), snapshot(books), PLAIN, 7.5)
    given = admission("q", outcome.assignment.pod_sets)
    shown = with_status(head.workload, reserved(head.workload, given, (), 7.5))
    assert books.reservation("q", head.workload.uid) == reservation_of(shown, ordered_at(shown, PLAIN))
