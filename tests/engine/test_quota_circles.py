"""Preemption comes to rest: workloads that would preempt each other in circles do not."""

from itertools import permutations

import pytest
import quota_rest_laws
from msgspec import structs
from quota_steps import OWNER, QuotaSteps, cohort, local, pods, queue, quota, work

from headgate.lifecycle.workload.eviction import released
from headgate.model.keys import Key, Kind
from headgate.model.queues import (
    BorrowWithinCohort,
    QueueingStrategy,
    QueuePreemption,
    Quota,
    Reclaim,
    WithinQueue,
)
from headgate.model.settings import DEFAULT_FAIR, FairStrategy, QuotaSettings

BOTH_WAYS = QueuePreemption(within_queue=WithinQueue.LOWER_PRIORITY, reclaim=Reclaim.ANY)
LOW, MID, HIGH = 10, 100, 1000
MOST_WRITES = 2000
EIGHT = {
    "j0": ("a", LOW, 1),
    "j1": ("b", MID, 2),
    "j2": ("a", HIGH, 4),
    "j3": ("b", LOW, 1),
    "j4": ("a", MID, 2),
    "j5": ("b", HIGH, 4),
    "j6": ("a", LOW, 1),
    "j7": ("b", MID, 2),
}
WITHHELD = (
    "The preemption of 1 workload(s) is withheld: it would lead back to an earlier allocation of quota, so workloads "
    "would preempt each other in circles. It is tried again when something else changes"
)


class Bounded(QuotaSteps):
    """Fails where it would write for ever."""

    def perform(self, write):
        assert len(self.written) < MOST_WRITES, "preemption goes on for ever"
        return super().perform(write)

    def arrive(self, name, **fields):
        home, priority, cpu = EIGHT[name]
        self.now += 1.5
        return self.see(work(name, cpu, home, priority=priority, created=self.now, **fields))

    def preemptions(self):
        return {one.key.name: sum(each.count for each in one.status.evictions) for one in self.workloads}


def two_queues(**fields):
    fields.setdefault("preemption", BOTH_WAYS)
    return [queue(name, 5, "c", **fields) for name in ("a", "b")] + [local("a", "a"), local("b", "b")]


def one_by_one(*names, **fields):
    """The first is done before the last but one comes."""
    steps = Bounded(*two_queues())
    for name in names:
        if name == names[-2]:
            steps.finish(names[0])
        steps.arrive(name, **fields)
    return steps


def test_eight_workloads_of_two_queues_come_to_rest():
    steps = one_by_one(*EIGHT)
    assert steps.admitted == ["j2", "j3", "j5", "j6"]
    assert steps.preemptions() == {"j0": 0, "j1": 2, "j2": 0, "j3": 1, "j4": 1, "j5": 0, "j6": 0, "j7": 0}


@pytest.mark.parametrize("last", list(permutations(("j3", "j4", "j6", "j7"))), ids="-".join)
def test_they_come_to_rest_in_whatever_order_they_arrive(last):
    steps = one_by_one("j0", "j1", "j2", "j5", *last)
    assert max(steps.preemptions().values()) <= 3
    for name in list(EIGHT):
        if name != "j0" and name in steps.admitted:
            steps.finish(name)
    for _ in EIGHT:
        for name in steps.admitted:
            steps.finish(name)
    assert all(one.is_true("Finished") for one in steps.workloads), "each gets its turn"


def rounds_of_release(steps):
    """Owners stop what was evicted, all at once, until nothing is evicted any more."""
    for _ in range(40):
        leaving = [one for one in steps.workloads if one.status.admission is not None and one.is_true("Evicted")]
        if not leaving:
            return steps
        for one in leaving:
            steps.edit(one.key.name, **structs.asdict(released(one, steps.now)))
    raise AssertionError("preemption goes on for ever")


def in_a_circle():
    """j6 takes back what j1 borrows; then j4, j3 and j1 would follow, and j6 again."""
    steps = Bounded(*two_queues())
    for name in ("j2", "j5", "j1", "j3", "j4", "j6"):
        rounds_of_release(steps.arrive(name, owner=OWNER))
    return steps


def test_workloads_with_owners_come_to_rest_too():
    steps = in_a_circle()
    assert steps.admitted == ["j2", "j3", "j5", "j6"]
    assert max(steps.preemptions().values()) <= 2


def test_who_is_held_back_is_told_why_in_journal_condition_and_metric():
    steps = in_a_circle()
    status, reason, message = steps.condition("j1", "QuotaReserved")
    assert (status, reason) == ("False", "WaitingForQuota")
    assert message.endswith(WITHHELD)
    told = steps.journal.about(Key(Kind.KUEUE_WORKLOAD, "default", "j1"))[-1]
    assert (told.decision, told.reason, told.message) == ("wait", "WaitingForQuota", message)
    assert steps.number("headgate_withheld_preemptions_total", cluster_queue="b") >= 1
    assert steps.number("headgate_withheld_preemptions_total", cluster_queue="a") == 0, "it asks for its own quota"


def test_a_restart_costs_one_more_turn_at_most():
    steps = in_a_circle()
    before = steps.preemptions()
    rounds_of_release(steps.restart())
    assert all(count - before[name] <= 2 for name, count in steps.preemptions().items())
    assert sorted(steps.admitted) == ["j2", "j3", "j5", "j6"]


def test_restarts_in_the_middle_of_a_turn_cost_one_more_turn_each_at_most():
    steps = Bounded(*two_queues())
    for name in ("j2", "j5", "j1", "j3", "j4"):
        rounds_of_release(steps.arrive(name, owner=OWNER))
    steps.arrive("j6", owner=OWNER)
    for _ in range(5):
        leaving = [one for one in steps.workloads if one.status.admission is not None and one.is_true("Evicted")]
        for one in leaving[:1]:
            steps.edit(one.key.name, **structs.asdict(released(one, steps.now)))
        steps.restart()
    rounds_of_release(steps)
    assert max(steps.preemptions().values()) <= 2 + 5


def test_who_was_held_back_goes_when_something_changes_from_outside():
    """Without j6 nobody takes back what j1 borrows."""
    steps = in_a_circle()
    steps.finish("j6")
    rounds_of_release(steps)
    assert steps.admitted == ["j1", "j2", "j5"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda steps: steps.lose(steps["j6"]), id="j6 is deleted"),
        pytest.param(lambda steps: steps.edit("j6", active=False), id="j6 is deactivated"),
        pytest.param(lambda steps: steps.see(queue("b", 6, "c", preemption=BOTH_WAYS)), id="its queue has more quota"),
    ],
)
def test_it_also_goes_when(change):
    steps = in_a_circle()
    change(steps)
    rounds_of_release(steps)
    assert "j1" in steps.admitted


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda steps: steps.says("j2", "PodsReady", True, "Started"), id="pods are ready"),
        pytest.param(lambda steps: steps.see(steps["j2"]), id="the same is seen again"),
        pytest.param(lambda steps: steps.lose(steps["j0"]), id="what is finished is deleted"),
    ],
)
def test_it_does_not_go_when(change):
    steps = Bounded(*two_queues()).arrive("j0").finish("j0")
    for name in ("j2", "j5", "j1", "j3", "j4", "j6"):
        rounds_of_release(steps.arrive(name, owner=OWNER))
    before = steps.preemptions()
    change(steps)
    assert steps.admitted == ["j2", "j3", "j5", "j6"]
    assert steps.preemptions().items() <= before.items()


def test_an_eviction_that_failed_is_decided_again_though_the_allocation_is_the_same():
    steps = Bounded(queue(cpu=1, preemption=BOTH_WAYS), work("low", owner=OWNER))
    steps.held = True
    steps.see(work("high", priority=1))
    for _ in range(3):
        steps.put(steps["low"])  # somebody else wrote something in between
        steps.release()
        assert steps.reason("low", "Evicted") is None
        steps.held = True
        steps.see(steps["low"])
    steps.release()
    assert steps.reason("low", "Evicted") == ("True", "Preempted")


def test_a_preemptor_waits_for_its_victims_however_often_it_is_asked():
    steps = Bounded(queue(cpu=1, preemption=BOTH_WAYS), work("low", owner=OWNER))
    steps.see(work("high", priority=1))
    for moment in range(5):
        steps.see(work(f"other-{moment}", created=float(moment))).later(1.0)
        assert steps.reason("high") == ("False", "WaitingForPreemptedWorkloads")
    rounds_of_release(steps)
    assert steps.admitted == ["high"]


# --- circles that are known of Kueue


def test_a_borrower_and_the_less_important_victim_of_its_cohort():
    """There, ordered by age alone, the victim comes back before its preemptor again and again."""
    borrows = QueuePreemption(
        within_queue=WithinQueue.LOWER_PRIORITY,
        reclaim=Reclaim.LOWER_PRIORITY,
        borrow=BorrowWithinCohort.LOWER_PRIORITY,
        borrow_threshold=LOW,
    )
    queues = queue("a", 0, "c"), queue("b", 2, "c", preemption=borrows), queue("spare", 2, "c")
    steps = Bounded(*queues, local("a", "a"), local("b", "b"))
    steps.see(work("old", 2, "a", priority=LOW), work("b1", 2, "b", priority=HIGH, created=1.0))
    steps.see(work("b2", 2, "b", priority=HIGH, created=2.0))
    assert steps.admitted == ["b1", "b2"]
    assert steps.preemptions()["old"] == 1


def test_guaranteed_quota_of_a_cohort_and_victims_that_are_created_anew():
    """There the replacement of a victim is admitted in place of the preemptor."""
    fair = QuotaSettings(fair=DEFAULT_FAIR)
    own = cohort("guaranteed", "root", groups=quota(default=Quota(300)))
    policy = QueuePreemption(within_queue=WithinQueue.LOWER_PRIORITY, reclaim=Reclaim.ANY)
    names = {"g": "guaranteed", "t1": "root", "t2": "root"}
    queues = [queue(name, 0, above, preemption=policy) for name, above in names.items()]
    steps = Bounded(own, *queues, *(local(name, name) for name in names), settings=fair)

    def ask(name, home, milli, **fields):
        sets = (pods(0, amounts={"cpu": milli}),)
        steps.now += 1.0
        steps.see(work(name, queue=home, pod_sets=sets, created=steps.now, **fields))

    for name, home, milli in (("a1", "t1", 100), ("a2", "t1", 100), ("b1", "t2", 50), ("b2", "t2", 50)):
        ask(name, home, milli)
    replaced = 0
    for name, milli in (("g1", 50), ("g2", 100)):
        ask(name, "g", milli, priority=HIGH)
        for victim in [one for one in steps.workloads if one.is_true("Evicted")]:
            steps.lose(victim)
            replaced += 1
            ask(f"again-{replaced}", victim.queue, victim.pod_sets[0].shape.requests["cpu"])
    assert {"g1", "g2"} <= set(steps.admitted)
    assert replaced <= 4


@pytest.mark.parametrize("strategy", FairStrategy)
def test_fair_shares_and_ever_smaller_workloads(strategy):
    """There the fourth preempts over and over."""
    policy = QueuePreemption(within_queue=WithinQueue.LOWER_PRIORITY, reclaim=Reclaim.ANY)
    queues = [queue(name, 0, "root", preemption=policy) for name in ("p1", "p2")]
    own = cohort("root", groups=quota(default=8))
    settings = QuotaSettings(fair=(strategy,))
    steps = Bounded(own, *queues, local("p1", "p1"), local("p2", "p2"), settings=settings)
    for index in range(4):
        steps.see(work(f"one-{index}", 2, "p1", created=float(index)))
    for index, size in enumerate((6, 5, 4, 3)):
        steps.see(work(f"two-{index}", size, "p2", created=10.0 + index))
    assert max(steps.preemptions().values()) <= 2
    assert any(name.startswith("two") for name in steps.admitted)


def test_a_check_that_always_retries_does_not_make_its_workload_preempt_for_ever():
    """Its owner would see the other workload evicted as often as the check can answer."""
    steps = Bounded(queue(cpu=1, preemption=BOTH_WAYS, strategy=QueueingStrategy.BEST_EFFORT_FIFO), work("low"))
    steps.see(work("high", priority=1))
    for _ in range(5):
        if steps["high"].status.admission is not None:
            steps.says("high", "Evicted", True, "AdmissionCheck")
    assert steps.preemptions()["low"] <= 2


# --- laws


@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("law", quota_rest_laws.LAWS.values(), ids=quota_rest_laws.LAWS)
def test_law_holds(law, block):
    for seed in range(block * 10, block * 10 + 10):
        law(seed)


def test_a_gated_workload_that_is_tried_again_goes_on_to_the_flavor_for_which_it_is_gated():
    """The first flavor fits but for what another head keeps in that cycle; only the first round went on from there."""
    quota_rest_laws.LAWS["what_is_said_of_closed_gates_is_what_a_fresh_process_says"](27584)
