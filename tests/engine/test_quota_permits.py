"""What only informs waits for permits, is told as it is by then, and never holds back what decides."""

from __future__ import annotations

from builders import bound, node
from hypothesis import given, settings
from hypothesis import strategies as st
from quota_steps import BASICS, QuotaSteps, queue, work
from volcano_scenes import queue as volcano_queue
from volcano_scenes import queued

from headgate.engine.loop import Engine
from headgate.model.effects import PatchStatus
from headgate.model.events import Observed, TimerFired, WritePermits
from headgate.model.keys import Key, Kind
from headgate.model.settings import Role, Settings
from headgate.model.volcano import QueueState


class Permitted(QuotaSteps):
    """A plane that is told how many informative writes it may send, once it is limited."""

    is_limited = False

    def permit(self, writes):
        if self.is_limited:
            self.plane.permits.give(writes)
        return self.step(TimerFired("quota"))

    @property
    def told(self):
        """The informative writes that were performed, by object."""
        return [write.target.key.name for write in self.written if getattr(write, "permitted", False)]


def steps_of(*objects):
    made = Permitted()
    made.is_limited = True
    made.permit(0)
    made.written.clear()
    return made.see(*objects)


def test_workloads_are_admitted_while_nothing_that_informs_may_be_sent():
    steps = steps_of(queue(cpu=1), work("a"), work("b", created=1.0))
    assert (steps.admitted, steps.told) == (["a"], [])
    assert steps.reason("b") is None, "why it waits is not told yet"
    awaited = steps.plane.awaited_permits
    assert awaited is not None and awaited.writes >= 2, "the refusal and the statuses of the queues"


def test_a_permit_lets_one_of_them_be_sent_the_oldest_first():
    steps = steps_of(queue(cpu=1), work("a"), work("b", created=1.0))
    steps.permit(1)
    assert (steps.told, steps.reason("b")) == (["b"], ("False", "WaitingForQuota"))


def test_with_permits_for_all_none_is_awaited():
    steps = steps_of(queue(cpu=1), work("a"), work("b", created=1.0)).permit(100).later(1.0)
    assert steps.plane.awaited_permits is None
    assert sorted(set(steps.told)) == ["b", "cq", "lq"]


def test_who_is_admitted_before_the_refusal_was_sent_is_never_told_it():
    steps = steps_of(queue(cpu=1), work("a"), work("b", created=1.0))
    steps.finish("a").permit(100)
    assert steps.admitted == ["b"]
    assert "b" not in steps.told


def test_who_finishes_before_the_refusal_was_sent_is_left_alone():
    steps = steps_of(queue(cpu=1), work("a"), work("b", created=1.0))
    steps.finish("b").permit(100)
    assert "b" not in steps.told


def test_the_text_is_the_latest_and_its_age_that_of_the_first():
    steps = steps_of(queue(cpu=4), work("a", cpu=2), work("b", cpu=3, created=1.0))
    steps.now = 10.0
    steps.see(queue(cpu=2))
    assert steps.plane.awaited_permits.since == 0.0
    steps.permit(100)
    assert steps.told.count("b") == 1
    assert steps.reason("b") == ("False", "ExceedsMaxQuota"), "with 4 it waited for quota"


def test_who_is_kept_out_by_its_queue_is_told_so_when_there_is_a_permit():
    steps = steps_of(work("a"), work("b"))
    assert (steps.reason("a"), steps.told) == (None, []), "there is no ClusterQueue, and no permit"
    steps.permit(1)
    assert [steps.reason(name) is None for name in "ab"] == [False, True]
    steps.permit(10)
    assert steps.reason("b") == steps.reason("a")


def test_who_was_kept_out_and_is_admitted_before_that_was_told_never_hears_of_it():
    steps = steps_of(work("a"))
    steps.see(queue())
    assert steps.admitted == ["a"]
    steps.permit(10)
    assert "a" not in steps.told and steps.plane.awaited_permits is None


def test_who_is_changed_by_others_before_it_was_told_is_told_how_things_stand_then():
    steps = steps_of(work("a"))
    steps.edit("a", priority=7)
    steps.permit(10)
    assert (steps["a"].priority, steps.reason("a")[0], steps.conflicts) == (7, "False", 0)


def test_of_two_planes_the_one_that_has_waited_longest_gets_the_permits():
    engine = Engine(Settings(roles=frozenset({Role.QUOTA, Role.SCHEDULER})))
    engine.step([WritePermits(0)], 0.0)
    counts = volcano_queue("team", 2000, state=QueueState.OPEN)
    engine.step([Observed(one) for one in (node("n"), counts, bound(queued("p", 300, gates=()), "n"))], 5.0)
    engine.step([Observed(one) for one in (*BASICS, queue(cpu=1), work("a", cpu=2))], 6.0)
    assert engine.awaited_permits.since == 5.0

    def told(effects):
        return [one.target.key.name for one in effects if isinstance(one, PatchStatus) and one.permitted]

    assert told(engine.step([WritePermits(1)], 7.0)) == ["team"]
    assert told(engine.step([WritePermits(1)], 7.0)) == ["a"]


CLUSTER_QUEUE, LOCAL_QUEUE = Key(Kind.CLUSTER_QUEUE, "", "cq"), Key(Kind.LOCAL_QUEUE, "default", "lq")
NAMES = "abcdef"
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.sampled_from(NAMES), st.integers(1, 4)),
        st.tuples(st.just("finish"), st.sampled_from(NAMES), st.just(0)),
        st.tuples(st.just("quota"), st.just(""), st.integers(0, 6)),
        st.tuples(st.just("permit"), st.just(""), st.integers(1, 3)),
        st.tuples(st.just("later"), st.just(""), st.integers(1, 3)),
    ),
    max_size=20,
)


def after(steps, moves):
    """All of it has happened, and is told."""
    created = 0.0
    for move, name, number in moves:
        match move:
            case "come":
                created += 1.0
                if all(one.key.name != name for one in steps.workloads):
                    steps.see(work(name, cpu=number, created=created))
            case "finish":
                if name in steps.admitted:
                    steps.finish(name)
            case "quota":
                steps.see(queue(cpu=number))
            case "permit":
                steps.permit(number)
            case "later":
                steps.later(float(number))
    for _ in range(5):
        steps.permit(1000).later(2.0)
    return steps


def shown(steps):
    """What everybody sees, but for when it came to be."""
    conditions = {
        (one.key.name, condition.type): (condition.status, condition.reason, condition.message)
        for one in steps.workloads
        for condition in one.status.conditions
    }
    counts = [steps.status(key) for key in (CLUSTER_QUEUE, LOCAL_QUEUE)]
    return conditions, [(one.pending, one.reserving, one.admitted, one.usage) for one in counts]


@settings(max_examples=60, deadline=None)
@given(MOVES)
def test_whatever_happened_once_there_are_permits_all_is_told_that_is_told_with_no_limit(moves):
    limited, unlimited = after(steps_of(queue(cpu=3)), moves), after(Permitted(queue(cpu=3)), moves)
    assert limited.plane.awaited_permits is None
    assert shown(limited) == shown(unlimited)
    assert limited.conflicts == 0
