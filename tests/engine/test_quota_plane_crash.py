"""Nothing depends on memory: another engine goes on from the objects, and no delay or lost answer gives quota twice."""

import pytest
from builders import changed
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace
from quota_steps import OWNER, QuotaSteps, cohort, local, queue, work

from headgate.lifecycle.workload.eviction import released
from headgate.model.effects import PatchStatus
from headgate.model.events import Observed, Outcome, WriteError
from headgate.model.keys import Condition
from headgate.model.queues import QueuedWorkloadStatus, QueuePreemption, Reclaim, WithinQueue

LOWER = QueuePreemption(within_queue=WithinQueue.LOWER_PRIORITY, reclaim=Reclaim.ANY)


def about_workloads(steps):
    return [w for w in steps.writes if isinstance(w, PatchStatus) and isinstance(w.change, QueuedWorkloadStatus)]


def held(*objects):
    """Nothing that is written about the last object takes hold yet."""
    steps = QuotaSteps(*objects[:-1])
    steps.held = True
    return steps.see(objects[-1])


def test_a_second_engine_keeps_what_the_first_gave():
    steps = QuotaSteps(queue(cpu=1), work("a"), work("b", created=1.0))
    steps.restart()
    assert steps.admitted == ["a"]
    steps.finish("a")
    assert steps.admitted == ["b"]


def test_a_second_engine_has_nothing_to_say_about_workloads_when_nothing_changed():
    steps = QuotaSteps(queue(cpu=1), work("a"), work("b", created=1.0), work("c", created=2.0, active=False))
    before = len(steps.written)
    steps.restart()
    assert [w for w in steps.written[before:] if isinstance(w.change, QueuedWorkloadStatus)] == []


def test_a_second_engine_does_not_evict_twice_and_still_knows_for_whom():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low", owner=OWNER), work("high", priority=1))
    steps.see(work("late", priority=1, created=5.0))
    evictions = steps["low"].status.evictions
    steps.restart()
    assert steps["low"].status.evictions == evictions
    steps.lose(steps["low"])
    assert steps.admitted == ["high"]


def test_a_write_that_was_lost_in_the_crash_is_decided_again():
    steps = held(queue(cpu=1), work("a"))
    assert len(about_workloads(steps)) == 1
    steps.held = False
    steps.restart()
    assert steps.admitted == ["a"]


def test_a_stale_observation_does_not_undo_what_was_decided():
    steps = held(queue(cpu=1), work("a"))
    stale = steps["a"]
    steps.step(Observed(stale))
    steps.see(work("b", created=1.0))
    gets = [w.target.key.name for w in about_workloads(steps) if w.change.admission is not None]
    assert gets == ["a"]


def test_an_answer_without_the_observation_is_enough_to_go_on():
    steps = held(queue(cpu=1), work("a"))
    (write,) = about_workloads(steps)
    steps.writes = []
    steps.step(Outcome(write), Observed(steps["a"]))
    assert about_workloads(steps) == []
    assert steps.told == [("a", "QuotaReserved"), ("a", "Admitted")]


@pytest.mark.parametrize("trouble", [WriteError.UNAVAILABLE, WriteError.UNKNOWN])
def test_a_write_without_an_answer_is_tried_again_as_it_was(trouble):
    steps = held(queue(cpu=1), work("a"))
    (write,) = about_workloads(steps)
    steps.writes = []
    steps.step(Outcome(write, trouble))
    assert about_workloads(steps) == []
    steps.later(1.0)
    assert about_workloads(steps) == [write]
    steps.release()
    assert steps.admitted == ["a"]


def test_a_write_that_waits_to_be_tried_again_gives_way_to_what_is_newer():
    steps = held(queue(cpu=1), work("a"))
    (write,) = about_workloads(steps)
    steps.writes, steps.held = [], False
    steps.step(Outcome(write, WriteError.UNAVAILABLE)).edit("a", labels={"changed": "yes"})
    assert steps.admitted == ["a"]
    assert steps["a"].labels == {"changed": "yes"}


def test_a_lost_answer_of_a_write_that_took_hold_is_no_trouble():
    steps = held(queue(cpu=1), work("a"))
    (write,) = about_workloads(steps)
    steps.perform(write)
    steps.writes = []
    steps.step(Outcome(write, WriteError.UNKNOWN), Observed(steps["a"])).later(5.0)
    assert about_workloads(steps) == []
    assert steps.number("kueue_admitted_active_workloads", cluster_queue="cq") == 1


def test_a_conflict_waits_for_what_is_newer_and_then_decides_anew():
    steps = held(queue(cpu=1), work("a"))
    steps.put(steps["a"])
    steps.release()
    assert steps.admitted == []
    steps.see(work("b", created=1.0))
    assert steps.admitted == [], "the quota stays promised until the truth is seen"
    steps.see(steps["a"])
    assert steps.admitted == ["a"]


def test_a_conflict_that_nothing_newer_follows_is_decided_anew_after_a_rest_that_grows():
    steps = held(queue(cpu=1), work("a"))
    for rest in (1.0, 2.0, 4.0):
        (write,) = about_workloads(steps)
        steps.writes = []
        steps.step(Outcome(write, WriteError.CONFLICT))
        assert steps.alarm == steps.now + rest
        steps.later(rest - 0.5).step(Observed(steps["a"]))
        assert about_workloads(steps) == []
        steps.later(0.5)
    steps.release()
    assert steps.admitted == ["a"]


def test_a_conflict_that_something_newer_follows_is_not_decided_twice():
    steps = held(queue(cpu=1), work("a"))
    (write,) = about_workloads(steps)
    steps.writes = []
    steps.step(Outcome(write, WriteError.CONFLICT), Observed(steps.put(steps["a"]))).later(1.0)
    assert [again.target.version for again in about_workloads(steps)] == [steps["a"].version]


def test_what_follows_a_conflict_is_made_from_what_is_known_by_then():
    steps = held(queue(cpu=1), work("a"))
    (write,) = about_workloads(steps)
    steps.writes, steps.held = [], False
    steps.step(Outcome(write, WriteError.CONFLICT)).see(work("b", priority=1)).later(1.0)
    assert steps.admitted == ["b"]


def test_what_the_server_will_never_accept_is_left_alone_until_it_changes():
    steps = held(queue(cpu=1), work("a"))
    (write,) = about_workloads(steps)
    steps.writes, steps.held = [], False
    steps.step(Outcome(write, WriteError.REFUSED, "no")).see(work("b", created=1.0))
    assert steps.admitted == ["b"]
    steps.finish("b")
    assert steps.admitted == []
    steps.edit("a", labels={"fixed": "yes"})
    assert steps.admitted == ["a"]


def test_what_was_changed_by_another_while_a_write_was_under_way_is_kept():
    steps = QuotaSteps(queue(cpu=1), work("a", owner=OWNER))
    steps.held = True
    steps.edit("a", active=False)
    steps.put(with_ready_pods(steps["a"]))
    steps.release()
    steps.see(steps["a"])
    assert steps["a"].is_true("PodsReady")
    assert steps.reason("a", "Evicted") == ("True", "Deactivated")


def test_a_workload_that_finished_while_it_was_sent_away_never_comes_back():
    steps = QuotaSteps(queue(cpu=1), work("a"))
    steps.held = True
    steps.edit("a", active=False)
    steps.put(replace(steps["a"], active=True))
    steps.finish("a").see(work("b", created=1.0))
    gets = [w.target.key.name for w in about_workloads(steps) if w.change.admission is not None]
    assert gets == ["b"]
    steps.release()
    assert steps.admitted == ["b"]
    assert steps["a"].condition("Evicted") is None


def with_ready_pods(workload):
    return changed(
        workload, conditions=(*workload.status.conditions, Condition("PodsReady", "True", "Started", "", 0.0))
    )


def test_a_name_that_is_used_again_is_another_workload():
    steps = QuotaSteps(queue(cpu=1), work("a"), work("b", created=1.0))
    steps.see(replace(work("a", created=2.0), uid="another"))
    assert steps.admitted == ["b"]


moves = st.lists(
    st.tuples(
        st.sampled_from(["submit", "finish", "leave", "crash", "lose", "time", "delay", "deliver"]), st.integers(0, 5)
    ),
    max_size=25,
)


@given(moves)
@example([*[("submit", 0)] * 4, ("delay", 0), ("submit", 1), ("finish", 0), ("finish", 0)])
@example([*[("submit", 0)] * 4, ("time", 1), ("delay", 0), *[("submit", 1)] * 2, *[("finish", 0)] * 2, ("crash", 0)])
def test_quota_is_never_exceeded_whatever_happens(history):
    """With writes that wait, arrive late or are lost with the process; `check` is asked at every step as well."""
    queues = queue("cq", 2, "team", preemption=LOWER), queue("other", 1, "team", preemption=LOWER)
    steps = QuotaSteps(*queues, cohort("team"), local("lq2", "other"))
    for number, (move, which) in enumerate(history):
        live(steps, move, which, number)
        held_now = sum(w.status.admission is not None and not w.is_true("Finished") for w in steps.workloads)
        assert held_now <= 3
    steps.release().later(100.0)
    while leave(steps):
        steps.later(1.0)
    waiting = [w for w in steps.workloads if w.status.admission is None and not w.is_true("Finished")]
    holding = [w for w in steps.workloads if w.status.admission is not None and not w.is_true("Finished")]
    assert len(holding) == 3 or not waiting, "no admissible workload is left waiting"


def leave(steps):
    """The pods of all evicted workloads that somebody owns are gone; their owners give the quota back."""
    evicted = [w.key.name for w in steps.workloads if w.owner and w.status.admission and w.is_true("Evicted")]
    for name in evicted:
        steps.edit(name, **asdict(released(steps[name], steps.now)))
    return evicted


def live(steps, move, which, number):
    names = [w.key.name for w in steps.workloads if not w.is_true("Finished")]
    match move:
        case "submit":
            lines, owner = ("lq", "lq2")[which % 2], OWNER if which > 3 else None
            steps.see(work(f"w{number}", queue=lines, priority=which % 3, created=float(number), owner=owner))
        case "leave":
            leave(steps)
        case "finish" if names:
            steps.finish(names[which % len(names)])
        case "lose" if names:
            steps.lose(steps[names[which % len(names)]])
        case "crash":
            steps.restart()
        case "time":
            steps.later(float(which))
        case "delay":
            steps.held = True
        case "deliver":
            steps.release()
