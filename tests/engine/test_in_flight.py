"""In-flight writes: what answers, observations and deadlines mean for a write, in every order they can come."""

import math

import pytest

from headgate.engine.in_flight import InFlightWrites, WritePolicy, WriteResult
from headgate.model.effects import Nomination, PatchStatus
from headgate.model.events import WriteError
from headgate.model.keys import Key, Kind, Target
from headgate.queueing.backoff import Backoff

POD = Key(Kind.POD, "default", "p")
CONFIRMED, FORGOTTEN, PENDING, REFUSED = (
    WriteResult.CONFIRMED,
    WriteResult.FORGOTTEN,
    WriteResult.PENDING,
    WriteResult.REFUSED,
)
PATIENT = WritePolicy(Backoff(1.0, 8.0), patience=60.0)


def a_write(node="n-1"):
    return PatchStatus(Target(POD, "uid", "5"), Nomination(node))


def in_flight(policy=PATIENT):
    writes = InFlightWrites(policy)
    writes.send(POD, a_write(), "5")
    return writes


def play(writes, history):
    """Plays (what, argument) pairs one second apart; what the last of them means."""
    verdict = None
    observed = "5"
    for now, (what, argument) in enumerate(history, start=1):
        if what == "answer":
            verdict = writes.answer(POD, a_write(), argument, observed, float(now))
        else:
            observed = argument
            verdict = writes.observe(POD, argument)
    return verdict


YES = ("answer", None)
CONFLICT, LOST = ("answer", WriteError.CONFLICT), ("answer", WriteError.UNKNOWN)
NEVER, GONE, DOWN = ("answer", WriteError.REFUSED), ("answer", WriteError.GONE), ("answer", WriteError.UNAVAILABLE)
SAME, NEWER = ("observe", "5"), ("observe", "6")


@pytest.mark.parametrize(
    ("history", "verdict"),
    [
        pytest.param([YES], PENDING, id="accepted: the observation is awaited"),
        pytest.param([YES, NEWER], CONFIRMED, id="accepted and observed"),
        pytest.param([NEWER, YES], CONFIRMED, id="observed before the answer came"),
        pytest.param([NEWER], PENDING, id="a newer version before the answer may be older or later than the write"),
        pytest.param([SAME], PENDING, id="the version it was made from says nothing"),
        pytest.param([CONFLICT], PENDING, id="a conflict: a newer version is awaited"),
        pytest.param([CONFLICT, NEWER], FORGOTTEN, id="a conflict and the newer version"),
        pytest.param([NEWER, CONFLICT], FORGOTTEN, id="the newer version and the conflict it made"),
        pytest.param([LOST], PENDING, id="a lost answer: it may have taken effect"),
        pytest.param([LOST, NEWER], FORGOTTEN, id="a lost answer and a newer version: it was done and is seen, or not"),
        pytest.param([NEWER, LOST], FORGOTTEN, id="a newer version and a lost answer"),
        pytest.param([DOWN, SAME], PENDING, id="the server was down and nothing changed"),
        pytest.param([NEVER], REFUSED, id="refused for good"),
        pytest.param([GONE], REFUSED, id="the object is gone"),
        pytest.param([YES, NEWER, YES], None, id="an answer to a write that is settled is nobody's"),
    ],
)
def test_what_a_history_means_for_a_write(history, verdict):
    writes = in_flight()
    assert play(writes, history) is verdict
    assert (POD in writes) is (verdict is PENDING)


def test_an_answer_to_an_earlier_write_of_the_slot_is_passed_over():
    writes = in_flight()
    writes.send(POD, a_write("n-2"), "5")
    assert writes.answer(POD, a_write("n-1"), None, "5", 1.0) is None
    assert writes.get(POD).write == a_write("n-2")


def test_where_acceptance_settles_a_write_no_observation_is_awaited():
    writes = in_flight(WritePolicy(Backoff(1.0, 8.0)))
    assert play(writes, [YES]) is CONFIRMED
    assert len(writes) == 0


def test_a_write_that_may_not_have_arrived_is_sent_again_after_growing_back_offs():
    writes, now, gaps = in_flight(), 0.0, []
    for _ in range(5):
        writes.answer(POD, a_write(), WriteError.UNAVAILABLE, "5", now)
        gaps.append(writes.deadlines.next_deadline() - now)
        now = writes.deadlines.next_deadline()
        assert list(writes.due(now)) == [(POD, a_write(), PENDING)]
    assert gaps == [1.0, 2.0, 4.0, 8.0, 8.0]


def test_a_write_that_may_not_have_arrived_is_decided_anew_where_the_policy_says_so():
    writes = in_flight(WritePolicy(Backoff(1.0, 8.0), resends=False))
    play(writes, [DOWN])
    assert list(writes.due(2.0)) == [(POD, a_write(), FORGOTTEN)]
    assert POD not in writes


@pytest.mark.parametrize(
    ("history", "until"),
    [
        pytest.param([YES], 61.0, id="accepted and never observed"),
        pytest.param([CONFLICT], 2.0, id="a conflict with a version that never came"),
    ],
)
def test_what_is_awaited_in_vain_is_decided_anew(history, until):
    writes = in_flight()
    play(writes, history)
    assert writes.deadlines.next_deadline() == until
    assert list(writes.due(until - 0.5)) == []
    assert list(writes.due(until)) == [(POD, a_write(), FORGOTTEN)]
    assert writes.deadlines.next_deadline() is None


def test_back_offs_go_on_growing_while_the_same_version_is_written_in_vain():
    writes = in_flight()
    play(writes, [CONFLICT])
    list(writes.due(2.0))
    writes.send(POD, a_write(), "5")
    writes.answer(POD, a_write(), WriteError.CONFLICT, "5", 2.0)
    assert writes.deadlines.next_deadline() == 4.0


def test_back_offs_begin_anew_with_a_version_that_came_while_nothing_was_in_flight():
    writes = in_flight()
    play(writes, [CONFLICT])
    list(writes.due(2.0))
    writes.send(POD, a_write(), "6")
    writes.answer(POD, a_write(), WriteError.CONFLICT, "6", 2.0)
    assert writes.deadlines.next_deadline() == 3.0


def test_an_object_that_is_gone_leaves_nothing_behind():
    writes = in_flight()
    play(writes, [DOWN])
    writes.forget(POD)
    assert len(writes) == 0
    assert writes.deadlines.next_deadline() is None
    assert list(writes.due(99.0)) == []


EAGER = WritePolicy(
    Backoff(1.0, 8.0), patience=60.0, resends=False, refusal_rest=30.0, settles_unanswered=True, idle_nets=True
)


@pytest.mark.parametrize(
    ("history", "verdict"),
    [
        pytest.param([NEWER], CONFIRMED, id="a newer version settles it before its answer"),
        pytest.param([SAME], PENDING, id="the version it was made from says nothing"),
        pytest.param([NEVER], PENDING, id="a refused write rests"),
        pytest.param([NEVER, NEWER], FORGOTTEN, id="a refused write is decided anew on a newer version"),
        pytest.param([GONE], REFUSED, id="the object is gone"),
    ],
)
def test_what_a_history_means_where_any_newer_version_is_decided_anew(history, verdict):
    writes = in_flight(EAGER)
    assert play(writes, history) is verdict
    assert (POD in writes) is (verdict is PENDING)


@pytest.mark.parametrize(
    ("history", "deadline", "idle"),
    [
        pytest.param([YES], None, 61.0, id="accepted and never observed: a safety net"),
        pytest.param([NEVER], None, 31.0, id="refused: a safety net"),
        pytest.param([DOWN], 2.0, None, id="not reached: soon"),
        pytest.param([NEVER, DOWN], 4.0, None, id="the later answer counts"),
    ],
)
def test_safety_nets_are_kept_apart_where_the_policy_says_so(history, deadline, idle):
    writes = in_flight(EAGER)
    play(writes, history)
    assert (writes.deadlines.next_deadline(), writes.idle_deadlines.next_deadline()) == (deadline, idle)
    assert list(writes.due(deadline or idle)) == [(POD, a_write(), FORGOTTEN)]
    assert (writes.deadlines.next_deadline(), writes.idle_deadlines.next_deadline()) == (None, None)


def test_further_writes_of_one_decision_are_in_flight_together_and_one_failure_is_enough():
    writes = in_flight(EAGER)
    writes.join(POD, a_write("n-2"))
    assert writes.answer(POD, a_write("n-3"), None, "5", 1.0) is None
    assert writes.answer(POD, a_write("n-1"), WriteError.UNAVAILABLE, "5", 1.0) is PENDING
    assert writes.answer(POD, a_write("n-2"), None, "5", 1.0) is PENDING
    assert writes.deadlines.next_deadline() == 2.0, "that the other was accepted does not make up for it"
    assert writes.observe(POD, "6") is FORGOTTEN


def test_a_write_the_caller_wants_sent_again_is_due_after_a_back_off_that_grows():
    writes = InFlightWrites(PATIENT)
    waited = []
    now = 0.0
    for _ in range(4):
        writes.retry(POD, a_write(), now)
        waited.append(writes.deadlines.next_deadline() - now)
        now = writes.deadlines.next_deadline()
        assert [(slot, write) for slot, write, _ in writes.due(now)] == [(POD, a_write())]
    assert waited == [1.0, 2.0, 4.0, 8.0]


def test_another_write_to_be_sent_again_starts_with_the_shortest_back_off():
    writes = InFlightWrites(PATIENT)
    for now in (0.0, 0.0, 0.0):
        writes.retry(POD, a_write("n-1"), now)
    writes.retry(POD, a_write("n-2"), 0.0)
    assert writes.deadlines.next_deadline() == 1.0
    assert [write for _, write, _ in writes.due(1.0)] == [a_write("n-2")]


@pytest.mark.parametrize(
    ("act", "left"),
    [
        pytest.param(lambda writes: None, 1, id="a write that was sent is unanswered"),
        pytest.param(lambda writes: writes.answer(POD, a_write(), None, "5", 1.0), 0, id="accepted, not observed"),
        pytest.param(lambda writes: writes.answer(POD, a_write(), WriteError.UNKNOWN, "5", 1.0), 0, id="waits"),
        pytest.param(lambda writes: writes.retry(POD, a_write(), 1.0), 0, id="the caller wants it resent"),
        pytest.param(lambda writes: writes.answer(POD, a_write(), WriteError.GONE, "5", 1.0), 0, id="refused"),
        pytest.param(lambda writes: writes.forget(POD), 0, id="forgotten"),
        pytest.param(lambda writes: writes.confirm(POD), 0, id="observed before its answer"),
        pytest.param(lambda writes: (writes.retry(POD, a_write(), 1.0), list(writes.due(9.0))), 1, id="resent"),
    ],
)
def test_unanswered_writes_are_those_sent_and_not_answered(act, left):
    writes = in_flight()
    act(writes)
    assert writes.unanswered == left


UNTIL_OBSERVED = WritePolicy(Backoff(1.0, 8.0), patience=math.inf)


@pytest.mark.parametrize(
    "events, left",
    [
        pytest.param(["yes"], True, id="accepted: assumed until it is observed, however long that takes"),
        pytest.param(["yes", "see"], False, id="accepted and seen"),
        pytest.param(["see"], True, id="seen before the answer, which may be an older state that looks the same"),
        pytest.param(["see", "yes"], False, id="seen and accepted"),
        pytest.param(["lost", "see"], True, id="seen after a lost answer: it is sent again"),
    ],
)
def test_a_write_that_is_assumed_until_it_is_seen(events, left):
    writes = InFlightWrites(UNTIL_OBSERVED)
    writes.send(POD, a_write())
    for event in events:
        match event:
            case "yes":
                writes.answer(POD, a_write(), None, "", 1.0)
            case "lost":
                writes.retry(POD, a_write(), 1.0)
            case "see":
                writes.see(POD)
    assert (POD in writes) == left
    again = [write for _, write, _ in writes.due(1e9)]
    assert again == ([a_write()] if "lost" in events else [])


def test_a_write_that_does_not_matter_any_more_leaves_those_beside_it_in_flight() -> None:
    writes = in_flight()
    writes.join(POD, a_write("n-2"))
    writes.leave(POD, a_write())
    assert writes.answer(POD, a_write(), None, "5", 1.0) is None
    assert writes.answer(POD, a_write("n-2"), None, "5", 1.0) is PENDING
    writes.leave(POD, a_write("n-2"))
    assert POD not in writes
    assert list(writes.due(100.0)) == []
