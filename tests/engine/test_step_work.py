"""A step does so much work and no more: the rest of the queue is decided in the steps that follow at once."""

import pytest
from builders import bound, gang, member, node, pod, workload
from quota_steps import OWNER, QuotaSteps, local, queue, work
from steps import Steps

from headgate.engine.quota.admission_cycle import HEAD_WORK
from headgate.engine.quota.admission_loop import MOST_WORK
from headgate.model.effects import Bind, Nomination, PatchStatus, PodCondition
from headgate.model.events import Observed, TimerFired
from headgate.model.queues import QueuePreemption, Reclaim, WithinQueue

NODES = 200
HEADS = MOST_WORK // HEAD_WORK  # of workloads that wait for quota, in one step
FULL = [node(f"n{i}", cpu=1000) for i in range(NODES)]
LOW = [bound(pod(f"low{i}", cpu=1000, priority=-1), f"n{i}", started=0.0) for i in range(NODES)]
LARGE = [pod(f"large{i}", cpu=2000 + i) for i in range(600)]
HIGH = [pod(f"high{i}", cpu=500, priority=10) for i in range(NODES)]
DIFFERENT = [pod(f"high{i}", cpu=500 + i, priority=10) for i in range(NODES)]


class Course(Steps):
    """Steps with what each of them decided, by name."""

    def __init__(self, *objects):
        self.decided = []
        super().__init__(*objects)

    def step(self, *events):
        super().step(*events)
        self.decided.append(
            {
                effect.target.key.name
                for effect in self.effects
                if isinstance(effect, Bind)
                or (isinstance(effect, PatchStatus) and isinstance(effect.change, Nomination | PodCondition))
            }
        )
        return self


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param(LARGE, id="that fit nowhere"),
        pytest.param(HIGH, id="that preempt and are equal"),
        pytest.param(DIFFERENT, id="that preempt and differ"),
        pytest.param([*LARGE[:300], *DIFFERENT], id="of both kinds"),
    ],
)
def test_many_pods_are_decided_in_several_steps_and_each_once(pods):
    course = Course(*FULL, *LOW)
    course.see(*pods)
    assert course.goes_on
    course.to_the_end()
    first, *rest = course.decided[1:]
    assert 0 < len(first) < len(pods)
    assert set().union(first, *rest) >= {each.key.name for each in pods}
    assert sum(map(len, course.decided)) <= 2 * len(pods), "victims are marked as well, and nobody is tried twice"
    assert course.pending.get("active", 0) == 0


def test_they_are_decided_as_in_one_step():
    """What a pod gets does not depend on the step that it comes in."""

    def nominated(course):
        nodes = {}
        while True:
            changes = [each for each in course.effects if isinstance(each, PatchStatus)]
            nodes |= {each.target.key.name: each.change.node for each in changes if isinstance(each.change, Nomination)}
            if not course.goes_on:
                return nodes
            course.step(TimerFired("scheduling"))

    together = Course(*FULL, *LOW)
    together.see(*DIFFERENT)
    one_by_one, nodes = Course(*FULL, *LOW), {}
    for each in sorted(DIFFERENT, key=lambda one: one.key.name):
        one_by_one.see(each)
        nodes |= nominated(one_by_one)
    assert nominated(together) == nodes
    assert len(nodes) == NODES


def test_whoever_is_more_important_does_not_wait_for_the_rest():
    course = Course(*FULL, *LOW)
    course.see(*LARGE)
    assert course.goes_on
    course.see(pod("urgent", cpu=500, priority=1000))
    assert "urgent" in course.decided[-1]


def test_nothing_goes_on_where_everything_was_decided():
    course = Course(*FULL, *LOW)
    course.see(*LARGE[:50])
    assert not course.goes_on


def test_many_pods_that_fit_are_placed_in_one_step():
    course = Course(*[node(f"n{i}", cpu=100_000) for i in range(10)])
    course.see(*[pod(f"p{i}", cpu=10 + i % 7) for i in range(1000)])
    assert len(course.binds) == 1000


def test_a_gang_comes_whole_and_the_next_one_in_a_later_step():
    size = 100
    course = Course(*FULL, *LOW, *(workload(name, gang(size)) for name in ("a", "b")))
    members = [member(f"{name}{i}", name, cpu=900, priority=10) for name in ("a", "b") for i in range(size)]
    course.step(*map(Observed, members))
    assert course.goes_on
    assert {name[0] for name in course.decided[-1] if name[0] in "ab"} == {"a"}
    course.to_the_end()
    nominated = set().union(*course.decided)
    assert nominated >= {each.key.name for each in members}


# workloads that wait for quota


def test_many_workloads_are_decided_in_several_steps_and_each_is_told():
    steps = QuotaSteps(queue(cpu=2), work("first", cpu=2))
    steps.held = True
    works = [work(f"w{i}", cpu=3 + i, created=float(i)) for i in range(2 * HEADS)]
    steps.see(*works)
    assert len(waiting(steps, works)) == HEADS
    assert steps.alarm == steps.now, "the next step is to begin at once"
    steps.later(0.0)
    assert len(waiting(steps, works)) == len(works)
    steps.later(0.0)
    assert steps.alarm is None or steps.alarm > steps.now


def waiting(steps, works):
    return {each.key.name for each in works if "wait" in steps.decisions(each.key.name)}


def test_a_workload_that_fits_is_admitted_however_many_do_not():
    steps = QuotaSteps(queue(cpu=2), work("first", cpu=2))
    steps.held = True
    steps.see(*(work(f"w{i}", cpu=3 + i, priority=1) for i in range(HEADS)), work("small", cpu=1))
    steps.release()
    steps.finish("first").later(0.0)
    assert steps.admitted == ["small"]


LOWER = QueuePreemption(within_queue=WithinQueue.LOWER_PRIORITY, reclaim=Reclaim.ANY)


def steps_to_the_end(steps):
    """How many steps follow at once, one after the other."""
    count = 0
    while steps.alarm == steps.now:
        steps.alarm = None
        steps.later(0.0)
        count += 1
    return count


def test_workloads_that_look_for_victims_in_vain_are_decided_in_several_steps():
    """Half of those that hold quota are too important, and the other half is not enough."""
    held = [work(f"v{i}", priority=9 * (i % 2)) for i in range(1000)]
    steps = QuotaSteps(queue(cpu=1000, preemption=LOWER), *held)
    steps_to_the_end(steps)
    assert len(steps.admitted) == 1000
    steps.held = True
    works = [work(f"w{i:03}", cpu=501 + i, priority=5) for i in range(300)]
    steps.see(*works)
    assert 0 < len(waiting(steps, works)) < len(works)
    assert steps.alarm == steps.now, "the next step is to begin at once"
    steps_to_the_end(steps)
    assert len(waiting(steps, works)) == len(works)


def test_the_victims_of_preemptors_are_searched_for_once_however_many_wait_beside_them():
    preemptors, victims = 20, 400
    borrower = queue("borrower", cpu=0, cohort="c"), local("lb", "borrower")
    owners = [queue(f"q{i}", cpu=victims // preemptors, cohort="c", preemption=LOWER) for i in range(preemptors)]
    queues = [*owners, *(local(f"l{i}", f"q{i}") for i in range(preemptors)), queue("z", 0, "c"), local("lz", "z")]
    steps = QuotaSteps(*borrower, *queues, *(work(f"v{i}", queue="lb", owner=OWNER) for i in range(victims)))
    steps_to_the_end(steps)
    steps.see(*(work(f"p{i}", cpu=victims // preemptors, queue=f"l{i}") for i in range(preemptors)))
    steps_to_the_end(steps)
    assert all(steps.reason(f"v{i}", "Evicted") == ("True", "Preempted") for i in range(victims))
    steps.held = True
    works = [work(f"z{i}", cpu=1 + i, queue="lz") for i in range(300)]
    steps.see(*works)
    assert steps_to_the_end(steps) <= 5, "searches for each of the 20 in each of 300 cycles take more"
    assert len(waiting(steps, works)) == len(works)
