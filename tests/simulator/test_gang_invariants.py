"""The simulator's watch over gangs and evictions: each law holds for what is right and breaks on what is wrong."""

from __future__ import annotations

import pytest
import small_scenarios as small
from builders import bound, gang, member, pod, priority_class, workload
from crash_everywhere import crashes
from msgspec.structs import replace

from headgate.engine.journal import Entry
from headgate.model.effects import Bind, Evict, Nomination, PatchStatus
from headgate.model.events import Gone, Observed, Outcome, WriteError
from headgate.simulator.invariants import BrokenInvariant, SchedulingInvariants, WholeGangPreemption
from headgate.simulator.virtual_time import run

LOW, BOSS = bound(pod("low", priority=1), "n"), pod("boss", priority=10)
PROMISED = replace(BOSS, nominated="n")
TRAIN = workload("train", gang(2))


def law(*seen):
    fair = SchedulingInvariants(frozenset({"headgate"}))
    fair.known.observe([Observed(each) for each in seen])
    return fair


def evict(victim):
    return Evict(victim.target, "PreemptionByScheduler", "", 0.0)


def entry(victim, preemptor="pod default/boss"):
    return Entry(0.0, victim.key, "evict", "Preempted", "", {"for": preemptor})


def leave(fair, victim, preemptor="pod default/boss"):
    fair.check([evict(victim)], [entry(victim, preemptor)], None)


def start(fair, *pods):
    fair.check([Bind(each.target, "n") for each in pods], [], None)


# a gang starts with enough pods or not at all


@pytest.mark.parametrize(
    ("seen", "starting"),
    [
        pytest.param([TRAIN], ["w0", "w1"], id="enough start at once"),
        pytest.param([TRAIN, bound(member("w9"), "n")], ["w0"], id="with one that runs there are enough"),
        pytest.param([workload("train")], ["w0"], id="a group that is no gang"),
        pytest.param([], ["w0"], id="a group nobody has described yet"),
    ],
)
def test_a_gang_may_start(seen, starting):
    members = [member(name) for name in starting]
    start(law(*seen, *members), *members)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(member("w1"), id="the other one waits"),
        pytest.param(bound(member("w1"), "n", deleted=9.0), id="the other one is leaving"),
    ],
)
def test_a_gang_that_starts_with_too_few_breaks(other):
    with pytest.raises(BrokenInvariant, match="with 1 of the 2 pods its gang needs"):
        start(law(TRAIN, member("w0"), other), member("w0"))


@pytest.mark.parametrize(
    ("troubles", "counts"),
    [
        pytest.param([None], True, id="an accepted binding counts before it is seen"),
        pytest.param([WriteError.UNKNOWN], True, id="one that may have taken hold counts"),
        pytest.param(
            [WriteError.UNKNOWN, WriteError.CONFLICT], True, id="a conflict after a lost answer may be our own"
        ),
        pytest.param([WriteError.CONFLICT], False, id="a refused one does not"),
        pytest.param([WriteError.UNKNOWN, WriteError.GONE], False, id="nor that of a pod that is gone"),
    ],
)
def test_a_binding_counts_as_long_as_it_may_have_taken_hold(troubles, counts):
    first, second = member("w0"), member("w1")
    fair = law(TRAIN, first, second)
    start(fair, first, second)
    for trouble in troubles:
        fair.known.observe_outcome(Outcome(Bind(first.target, "n"), trouble))
    fair.known.observe_outcome(Outcome(Bind(second.target, "n"), WriteError.CONFLICT))
    if counts:
        start(fair, second)
    else:
        with pytest.raises(BrokenInvariant):
            start(fair, second)


def test_a_profile_without_gangs_may_start_them_pod_by_pod():
    fair = SchedulingInvariants(frozenset())
    fair.known.observe([Observed(TRAIN), Observed(member("w0"))])
    start(fair, member("w0"))


# whoever leaves, leaves once, for a better one with a promise


@pytest.mark.parametrize(
    ("seen", "breaks"),
    [
        pytest.param([LOW, PROMISED], None, id="for one that has the promise and is worth more"),
        pytest.param([LOW, BOSS], "0 pods are nominated", id="the promise is not on record"),
        pytest.param([LOW], "0 pods are nominated", id="whoever it is for is not there"),
        pytest.param([LOW, replace(PROMISED, priority=1)], "has priority 1 against its own 1", id="for an equal"),
        pytest.param([replace(LOW, deleted=9.0), PROMISED], "it is terminating", id="it is leaving already"),
    ],
)
def test_an_eviction(seen, breaks):
    fair = law(*seen)
    if breaks is None:
        leave(fair, LOW)
    else:
        with pytest.raises(BrokenInvariant, match=breaks):
            leave(fair, LOW)


def test_a_promise_is_on_record_when_the_server_has_accepted_it():
    fair = law(LOW, BOSS)
    nomination = PatchStatus(BOSS.target, Nomination("n"))
    fair.known.observe_outcome(Outcome(nomination, WriteError.UNKNOWN))
    with pytest.raises(BrokenInvariant):
        leave(fair, LOW)
    fair = law(LOW, BOSS)
    fair.known.observe_outcome(Outcome(nomination))
    leave(fair, LOW)


@pytest.mark.parametrize(("promises", "enough"), [(1, False), (2, True)])
def test_a_gang_needs_a_promise_for_each_pod_it_lacks(promises, enough):
    high = priority_class("high", 10), workload("train", gang(2), priority_class="high")
    members = [member(f"w{i}", nominated="n" if i < promises else "") for i in range(2)]
    fair = law(LOW, *high, *members)
    if enough:
        leave(fair, LOW, "pod group default/train/workers")
    else:
        with pytest.raises(BrokenInvariant, match="of which 1 pods are nominated"):
            leave(fair, LOW, "pod group default/train/workers")


def test_a_shield_counts_and_not_the_priority():
    classes = priority_class("weak", 1), priority_class("shield", 50)
    train = workload("train", priority_class="weak", preemption_priority_class="shield")
    with pytest.raises(BrokenInvariant, match="has priority 10 against its own 50"):
        leave(law(*classes, train, PROMISED, bound(member("w0"), "n")), bound(member("w0"), "n"))


def test_nobody_is_evicted_twice_unless_the_write_failed():
    fair = law(LOW, PROMISED)
    leave(fair, LOW)
    fair.known.observe_outcome(Outcome(evict(LOW), WriteError.UNAVAILABLE))
    fair.check([evict(LOW)], [], None)
    fair.known.observe_outcome(Outcome(evict(LOW)))
    with pytest.raises(BrokenInvariant, match="evicted twice"):
        leave(fair, LOW)


def test_another_pod_of_that_name_may_be_evicted_too():
    fair = law(LOW, PROMISED)
    leave(fair, LOW)
    fair.known.observe([Gone(LOW.key, LOW.uid), Observed(replace(LOW, uid="another"))])
    leave(fair, replace(LOW, uid="another"))


def test_every_eviction_is_told():
    with pytest.raises(BrokenInvariant, match="without a journal entry"):
        law(LOW, PROMISED).check([evict(LOW)], [], None)


# whole gangs


@pytest.mark.parametrize(
    ("whole", "rest", "breaks"),
    [
        pytest.param(True, {"node": "m"}, True, id="one of a gang that leaves whole stays"),
        pytest.param(True, {"node": "m", "deleted": 9.0}, False, id="the other one is leaving too"),
        pytest.param(False, {"node": "m"}, False, id="a gang in Pod mode loses what is needed"),
        pytest.param(True, {"node": "m", "uid": "came-later"}, False, id="one that came later may stay"),
    ],
)
def test_a_whole_gang_leaves_nobody_behind(whole, rest, breaks):
    running = bound(member("w0"), "n"), bound(member("w1"), "m")
    objects = {each.key: each for each in (workload("train", gang(2, whole=whole)), *running)}
    gangs = WholeGangPreemption()
    gangs.evicted(evict(running[0]), objects)
    left = [replace(running[1], **rest)]
    if breaks:
        with pytest.raises(BrokenInvariant, match="is running although the rest of its gang was evicted"):
            gangs.check_settled(left, None)
    else:
        gangs.check_settled(left, None)


def test_a_gang_larger_than_it_needs_leaves_whole_whenever_we_crash():
    """Its pods are gone at once, so that only their marks tell a successor how many there were."""
    low = [small.member(f"low-{i}", "low") for i in range(3)]
    start = [small.priority_class("high", 10), small.workload("low", 1, "PodGroup"), *low]
    urgent = {"at": "5s", "apply": [small.pod("urgent", priorityClassName="high")]}
    story = small.scenario(*start, machines=[small.nodes(3, cpu="1")], timeline=[urgent])
    assert sum(entry["decision"] == "evict" for entry in run(story, 1).journal) == 3
    for number, fault, report in crashes(story, seed=1):
        assert small.where(report, "urgent"), f"{fault} write {number}"
        assert [name for name in ("low-0", "low-1", "low-2") if small.where(report, name)] == [], f"{fault} {number}"
