"""Local queues that used less go first: what they used is sampled, fades, and is known again after a restart."""

from __future__ import annotations

import math

import pytest
from quota_steps import OWNER, QuotaSteps, check, flavor, local, namespace, pods, queue, work

from headgate.model.events import Gone
from headgate.model.keys import Key, Kind
from headgate.model.queues import (
    CheckState,
    CheckStatus,
    FlavorQuotas,
    QueueingStrategy,
    QueuePreemption,
    Quota,
    RequiredCheck,
    ResourceGroup,
    WithinQueue,
)
from headgate.model.resources import Resources
from headgate.model.settings import QuotaSettings, UsageSharing

CORE, GPU = 10**9, "example.com/gpu"
HALVING = UsageSharing(half_life=100.0, interval=100.0)  # what is in use for one interval counts half
ON = QuotaSettings(usage_sharing=HALVING)


def at_work(*objects, settings=ON):
    """With local queues a and b, unless the objects have them."""
    named = {one.key.name for one in objects if one.key.kind is Kind.LOCAL_QUEUE}
    others = [local(name) for name in ("a", "b") if name not in named]
    return QuotaSteps(*objects, basics=(namespace(), flavor(), *others), settings=settings)


def fair(cpu=1, **fields):
    return queue(cpu=cpu, usage_based=True, **fields)


def ran(cores, name="a", at=0.0, **fields):
    """A local queue whose status says that it used so much."""
    return local(name, consumed=Resources.of({"cpu": round(cores * CORE)}), consumed_at=at, **fields)


def used(steps, name="a"):
    """What the local queue shows, in cores, and when that was so."""
    shown = steps.objects[Key(Kind.LOCAL_QUEUE, "default", name)]
    return shown.consumed["cpu"] / CORE, shown.consumed_at


def measured(steps, name="a"):
    named = {"name": name, "namespace": "default"}
    return steps.number("kueue_local_queue_admission_fair_sharing_usage", cluster_queue="cq", **named)


def first_of(*locals_, settings=ON, of=None):
    """Which local queue's workload is admitted where there is room for one, though b's is older and more important."""
    steps = at_work(of or fair(), *locals_, settings=settings)
    steps.see(work("of-b", queue="b", priority=9, created=-9.0), work("of-a", queue="a"))
    return steps.admitted


OFF, WEIGHED = QuotaSettings(), UsageSharing(100.0, 100.0, (("cpu", 0),))


@pytest.mark.parametrize(
    ("locals_", "settings", "of", "first"),
    [
        pytest.param([ran(1), ran(2, "b")], ON, None, "of-a", id="the one that used less"),
        pytest.param([ran(2), ran(2, "b")], ON, None, "of-b", id="of those that used the same the more important"),
        pytest.param([ran(3), ran(2, "b")], ON, None, "of-b", id="not the one that used more"),
        pytest.param([ran(3, fair_weight=2000), ran(2, "b")], ON, None, "of-a", id="use counts by weight"),
        pytest.param([ran(1), ran(0, "b", fair_weight=0)], ON, None, "of-a", id="one that weighs nothing comes last"),
        pytest.param([ran(1), ran(2, "b")], ON, queue(cpu=1), "of-b", id="use says nothing in other cluster queues"),
        pytest.param([ran(1), ran(2, "b")], OFF, None, "of-b", id="use says nothing where it is not configured"),
        pytest.param(
            [ran(1), ran(2, "b")],
            QuotaSettings(usage_sharing=WEIGHED),
            None,
            "of-b",
            id="a resource that weighs nothing does not count",
        ),
    ],
)
def test_whose_workload_goes_first(locals_, settings, of, first):
    assert first_of(*locals_, settings=settings, of=of) == [first]


def test_many_cannot_enter_before_the_first_counts():
    """Both have used nothing; each admission counts in advance, so they take turns."""
    steps = at_work(fair(cpu=4))
    steps.held = True
    steps.see(*(work(f"{name}{n}", queue=name, created=float(n)) for name in "ab" for n in range(4)))
    promised = [write.target.key.name for write in steps.writes if write.target.key.kind is Kind.KUEUE_WORKLOAD]
    assert sorted(promised[:4]) == ["a0", "a1", "b0", "b1"]


def test_what_counted_in_advance_is_settled_when_the_workload_is_admitted():
    steps = at_work(fair(), work("w", queue="a"))
    assert measured(steps) == 0.5
    assert steps.later(1.0) and used(steps) == (0.5, 0.0)


def test_what_counts_in_advance_while_checks_are_waited_for_is_settled_after_them():
    checked = fair(checks=(RequiredCheck("c"),))
    steps = at_work(check("c"), checked, work("w", queue="a"))
    assert (measured(steps), used(steps)[0]) == (0.5, 0.0)
    steps.edit("w", checks=(CheckStatus("c", CheckState.READY),)).later(1.0)
    assert (measured(steps), used(steps)[0]) == (0.5, 0.5)


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda steps: steps.lose(steps["w"]), id="it is gone"),
        pytest.param(lambda steps: steps.finish("w"), id="it is finished"),
        pytest.param(lambda steps: steps.edit("w", active=False), id="it is deactivated"),
    ],
)
def test_what_counted_in_advance_counts_no_longer_when(happens):
    steps = at_work(check("c"), fair(checks=(RequiredCheck("c"),)), work("w", queue="a"))
    assert measured(steps) == 0.5
    happens(steps)
    assert measured(steps) == 0.0


def test_quota_promised_and_taken_back_counts_for_nothing():
    steps = at_work(fair())
    steps.held = True
    steps.see(work("w", queue="a"))
    assert measured(steps) == 0.5
    steps.edit("w", active=False)
    steps.release()
    assert (measured(steps), steps.admitted) == (0.0, [])


def test_use_is_taken_up_and_fades_sample_by_sample():
    steps = at_work(fair(), work("w", queue="a"))
    assert steps.later(100.0) and used(steps) == (0.75, 100.0)
    steps.later(50.0)
    assert used(steps) == (0.75, 100.0), "nothing moves between two samples"
    steps.finish("w")
    assert steps.later(50.0) and used(steps) == (0.375, 200.0)
    assert steps.later(100.0) and used(steps) == (0.1875, 300.0)


def test_a_local_queue_that_used_nothing_is_not_written_about_again():
    steps = at_work(fair())
    before = len(steps.written)
    for _ in range(5):
        steps.later(100.0)
    assert len(steps.written) == before


def test_an_idle_time_before_the_first_workload_does_not_count():
    steps = at_work(fair())
    for _ in range(5):
        steps.later(100.0)
    steps.see(work("w", queue="a")).later(1.0)
    assert used(steps) == (0.5, 500.0)


def test_after_a_restart_it_goes_on_where_it_was():
    def life(steps, *, crashes):
        steps.later(100.0)
        if crashes:
            steps.restart()
        steps.later(30.0)
        if crashes:
            steps.restart()
        return used(steps.later(70.0)), used(steps, "b")

    one, other = (at_work(fair(), work("w", queue="a"), ran(3, "b")) for _ in range(2))
    assert life(one, crashes=False) == life(other, crashes=True) == ((0.875, 200.0), (0.75, 200.0))


def test_a_local_queue_made_anew_has_used_nothing():
    steps = at_work(fair(), ran(3))
    old = steps.objects[Key(Kind.LOCAL_QUEUE, "default", "a")]
    steps.lose(old)
    steps.see(local("a"))
    assert measured(steps) == 0.0
    steps.step(Gone(old.key, "some-other-uid"))
    steps.see(work("w", queue="a"))
    assert measured(steps) == 0.5


def test_workloads_that_wait_for_checks_count_in_advance_again_after_a_restart():
    steps = at_work(check("c"), fair(checks=(RequiredCheck("c"),)), work("w", queue="a"))
    steps.restart()
    assert measured(steps) == 0.5


def test_devices_are_counted_in_parts():
    one = Quota(1000)
    quotas = (FlavorQuotas("default", (("cpu", one), (GPU, one))),)
    steps = at_work(fair(groups=(ResourceGroup(("cpu", GPU), quotas),)))
    steps.see(work("w", queue="a", pod_sets=(pods(1, amounts={GPU: 1}),))).later(1.0)
    shown = steps.objects[Key(Kind.LOCAL_QUEUE, "default", "a")].consumed
    assert shown == Resources.of({"cpu": CORE // 2, GPU: CORE // 2})


def test_in_a_strict_queue_another_may_go_first_once_use_has_faded():
    """The first in line is too large for now, until its local queue has used more than the other."""
    strict = fair(cpu=2, strategy=QueueingStrategy.STRICT_FIFO)
    steps = at_work(strict, ran(1), ran(1.5, "b"))
    steps.see(work("runs", queue="a"))
    steps.see(work("large", queue="a", cpu=2), work("small", queue="b"))
    assert steps.admitted == ["runs"]
    steps.later(100.0)
    assert steps.admitted == ["runs", "small"]


def test_without_a_half_life_nothing_is_remembered():
    settings = QuotaSettings(usage_sharing=UsageSharing(half_life=0.0, interval=100.0))
    steps = at_work(fair(), ran(3), work("w", queue="a"), settings=settings)
    steps.later(100.0)
    assert (used(steps)[0], measured(steps)) == (0.0, 0.0)


LOWER = QueuePreemption(within_queue=WithinQueue.LOWER_PRIORITY)


def test_busier_local_queues_of_a_cluster_queue_are_preempted_first():
    steps = at_work(fair(cpu=2, preemption=LOWER), ran(9))
    steps.see(work("of-b", queue="b", owner=OWNER), work("of-a", queue="a", priority=1, owner=OWNER))
    steps.see(work("boss", queue="b", priority=5))
    assert steps.reason("of-a", "Evicted") == ("True", "Preempted")
    assert steps.reason("of-b", "Evicted") is None


@pytest.mark.parametrize("strategy", QueueingStrategy)
def test_a_victim_does_not_come_back_before_the_one_it_left_for(strategy):
    """Though its local queue has used less, and it would be preempted again, and so on."""
    steps = at_work(fair(preemption=LOWER, strategy=strategy), ran(9))
    steps.see(work("of-b", queue="b")).see(work("of-a", queue="a", priority=1))
    assert steps.admitted == ["of-a"]


def test_a_local_queue_that_weighs_nothing_has_used_beyond_all_bounds():
    steps = at_work(fair(), local("a", fair_weight=0))
    assert measured(steps) == math.inf
