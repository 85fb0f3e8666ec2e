"""Who was refused in vain is tried and searched for again when anything that decided it has changed."""

import pytest
from builders import amounts, bound, gang, member, node, pod, priority_class, shape, workload
from msgspec.structs import replace
from steps import Steps
from test_preempting import evictions, gone, nominations, preempted, recorded

from headgate.model.effects import PatchStatus, PodCondition
from headgate.model.events import Observed, Outcome, WriteError
from headgate.model.keys import Key, Kind
from headgate.model.node import PeerDemands, PodTerm
from headgate.model.objects import DisruptionBudget, Namespace
from headgate.model.pod import GroupKey, PodGroup, PodShape, ScheduledCondition
from headgate.model.selectors import Operator, Requirement

FULL = node("n", cpu=100)
LOW, SHIELD = priority_class("low", 1), priority_class("shield", 50)
HIGH = pod("high", priority=10)
SHIELDED = workload("train", gang(1), priority_class="low", preemption_priority_class="shield")
BLACK = (Requirement("app", Operator.IN, ("black",)),)
RUNS = bound(member("w0"), "n")


def in_vain(*objects):
    """An engine that has searched in vain."""
    steps = Steps(*objects)
    assert (nominations(steps), steps.binds) == ({}, {})
    return steps.later(30)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param([gone(SHIELDED)], id="its workload, which shielded it, is gone"),
        pytest.param(
            [gone(SHIELDED), Observed(replace(SHIELDED, uid="new", preemption_priority_class=""))],
            id="its workload was made anew without a shield",
        ),
        pytest.param(
            [gone(SHIELD), Observed(replace(SHIELD, uid="new", value=5))], id="the class that shielded it is worth less"
        ),
        pytest.param([Observed(replace(RUNS, group=None))], id="it left the workload that shielded it"),
    ],
)
def test_a_candidate_that_may_leave_now_is_preempted_at_once(change):
    steps = in_vain(FULL, LOW, SHIELD, SHIELDED, RUNS, HIGH)
    assert nominations(steps.step(*change)) == {"high": "n"}
    assert evictions(recorded(steps)) == ["w0"]


@pytest.mark.parametrize(
    "before, after",
    [
        pytest.param({"cpu": 200}, {"cpu": 100}, id="smaller pods"),
        pytest.param({"priority": 1}, {"priority": 10}, id="of a higher priority"),
        pytest.param({"preempts": False}, {"preempts": True}, id="that may preempt"),
    ],
)
@pytest.mark.parametrize("together", [False, True], ids=["by themselves", "as a gang"])
def test_pods_made_anew_by_the_same_name_are_searched_for_anew(before, after, together):
    make = member if together else pod
    old = make("w0", **{"priority": 10, **before}), make("w1", **{"priority": 10, **before})
    new = [make(each.key.name, uid=f"new-{each.key.name}", **{"priority": 10, **after}) for each in old]
    train = workload("train", gang(2), priority=after.get("priority", 10), preempts=after.get("preempts", True))
    was = replace(train, priority=before.get("priority", 10), preempts=before.get("preempts", True))
    low = [bound(pod(f"low-{name}", priority=1), name) for name in ("n", "m")]
    steps = in_vain(FULL, node("m", cpu=100), was, *low, *old)
    steps.step(*(gone(each) for each in (was, *old)))
    steps.see(replace(train, uid="new"), *new)
    assert sorted(nominations(steps)) == ["w0", "w1"]


def test_a_gang_that_needs_fewer_is_searched_for_anew():
    train = workload("train", gang(3), priority=10)
    low = [bound(pod(f"low-{name}", priority=1), name) for name in ("n", "m")]
    members = [member(f"w{number}") for number in range(3)]
    steps = in_vain(FULL, node("m", cpu=100), train, *low, *members)
    steps.see(replace(train, groups=(gang(2),)))
    assert len(nominations(steps)) == 2


def test_a_waiting_pod_whose_class_lets_it_preempt_now_does():
    never = priority_class("polite", 10, preempts=False)
    train = workload("train", gang(1), priority_class="polite")
    running = bound(pod("low", priority=1), "n")
    steps = in_vain(FULL, never, train, running, member("w0"))
    steps.step(gone(never), Observed(replace(never, uid="new", preempts=True)))
    assert nominations(steps) == {"w0": "n"}


def test_a_waiting_pod_that_is_relabelled_is_tried_again():
    """Someone that runs keeps black pods away; the pod is none any more."""
    apart = PeerDemands(anti_affinity=(PodTerm("kubernetes.io/hostname", BLACK, ("default",)),))
    guard = bound(pod("guard", shape=PodShape(requests=amounts(10), peers=apart), priority=99), "n")
    labelled = node("n", cpu=100, labels={"kubernetes.io/hostname": "n"})
    black = pod("p", cpu=50, labels={"app": "black"})
    steps = in_vain(labelled, guard, black)
    assert steps.see(replace(black, labels={"app": "white"})).binds == {"p": "n"}


def test_a_neighbour_that_changes_may_make_preemption_help():
    """Refused for room, and preemption would not help while somebody better keeps black pods away."""
    space = Namespace(Key(Kind.NAMESPACE, "", "default"), "", "1", {"team": "x"})
    team = (Requirement("team", Operator.IN, ("x",)),)
    apart = PeerDemands(anti_affinity=(PodTerm("kubernetes.io/hostname", BLACK, (), team),))
    guard = bound(pod("guard", shape=PodShape(requests=amounts(10), peers=apart), priority=99), "n")
    labelled = node("n", cpu=100, labels={"kubernetes.io/hostname": "n"})
    low = bound(pod("low", cpu=90, priority=1), "n")
    steps = in_vain(space, labelled, guard, low, pod("high", cpu=50, priority=10, labels={"app": "black"}))
    assert nominations(steps.see(replace(space, labels={"team": "y"}))) == {"high": "n"}


def test_room_that_was_promised_to_one_who_found_other_room_wakes_those_it_kept_off():
    blocker = bound(pod("blocker", cpu=200, priority=99), "n")
    first = pod("first", cpu=900, priority=10, nominated="n", preempts=False)
    second = pod("second", cpu=300, priority=5, preempts=False)
    steps = in_vain(node("n"), blocker, first, second)
    assert steps.later(20, Observed(bound(first, "late"))).binds == {"second": "n"}


def test_a_nomination_that_someone_else_takes_back_wakes_those_it_kept_off():
    first = pod("first", cpu=900, priority=10, nominated="n", preempts=False)
    blocker = bound(pod("blocker", cpu=200, priority=99), "n")
    second = pod("second", cpu=300, priority=5, preempts=False)
    steps = in_vain(node("n"), blocker, first, second)
    assert steps.see(replace(first, nominated="")).binds == {"second": "n"}


def test_who_has_no_victims_waits_for_those_of_another():
    """A fresh process sees a pod that stops, and capacity for both."""
    small = pod("small", cpu=50, priority=1)
    steps = Steps(node("n", cpu=300), bound(pod("low", cpu=300, priority=1), "n"), pod("mid", priority=5), small)
    assert nominations(steps) == {"mid": "n"}
    assert evictions(recorded(steps)) == ["low"]
    assert nominations(steps.later(20)) == {"small": "n"}


def test_a_node_that_is_gone_may_make_room_elsewhere():
    """A late member is kept to the zone of its gang for as long as that zone has a node of it."""
    zones = [node(name, cpu=100, labels={"zone": name}) for name in "ab"]
    train = workload("train", gang(1, topology="zone"), priority=1)
    steps = in_vain(*zones, train, bound(member("w0"), "a"), member("w1"))
    assert steps.step(gone(zones[0])).binds == {"w1": "b"}


def test_budgets_are_no_veto_so_nobody_waits_for_them():
    budget = DisruptionBudget(Key(Kind.DISRUPTION_BUDGET, "default", "none"), "uid", "1", BLACK, 0)
    low = bound(pod("low", priority=1, labels={"app": "black"}), "n")
    assert nominations(Steps(FULL, budget, low, HIGH)) == {"high": "n"}


def test_equal_pods_are_searched_for_once_while_nothing_happens():
    others = [pod(f"p{number}", cpu=200, priority=10) for number in range(20)]
    steps = Steps(FULL, bound(pod("low", priority=1), "n"), *others)
    assert _searches(steps) == 1
    steps.see(pod("late", cpu=200, priority=10))
    assert _searches(steps) == 1
    said = [each.change.message for each in steps.effects if isinstance(each, PatchStatus)]
    assert said == [
        "0/1 nodes are available: 1 Insufficient cpu. Preemption would not help: it does not fit even "
        "without the only pod of lower priority."
    ]


def _searches(steps):
    found = steps.engine.gauges().items()
    return sum(value for (name, _), value in found if name == "scheduler_preemption_attempts_total")


# a promise while it is being recorded


def test_nobody_is_evicted_for_one_who_has_changed_while_its_promise_was_recorded():
    low = bound(pod("low", priority=5), "n")
    train = workload("train", gang(1), priority=10)
    steps = Steps(FULL, low, train, member("w0"))
    promised = [each for each in steps.effects if isinstance(each, PatchStatus)]
    assert nominations(steps) == {"w0": "n"}
    steps.step(Observed(replace(train, priority=1)), *(Outcome(each) for each in promised))
    assert evictions(steps) == []


def test_nobody_is_evicted_who_was_shielded_while_the_promise_was_recorded():
    train = workload("train", gang(1), priority=1)
    steps = Steps(FULL, train, RUNS, HIGH)
    promised = [each for each in steps.effects if isinstance(each, PatchStatus)]
    steps.step(Observed(replace(train, preemption_priority=50)), *(Outcome(each) for each in promised))
    assert evictions(steps) == []
    assert nominations(steps) == {"high": ""}


def test_the_victims_are_those_of_the_gang_as_it_is_when_they_leave():
    """One of two that were to leave whole has left the gang; its room is not needed."""
    train = workload("train", gang(2, whole=True), priority=1)
    both = [bound(member("w0"), "n"), bound(member("w1"), "m")]
    steps = preempted(FULL, node("m", cpu=100), train, *both, HIGH)
    marked = [each for each in steps.effects if isinstance(each, PatchStatus)]
    elsewhere = replace(both[1], group=None, priority=99)
    steps.step(Observed(elsewhere), *(Outcome(each) for each in marked))
    assert "w1" not in evictions(steps)
    assert "w1" not in evictions(recorded(steps))


# what is said


def test_a_lost_text_is_not_written_again_after_a_newer_one():
    waits = member("w0")
    steps = Steps(node("n"), waits)
    (older,) = _conditions(steps)
    steps.see(workload("train", gang(2)))
    (newer,) = _conditions(steps)
    assert older.change.message != newer.change.message
    steps.step(Outcome(older, WriteError.UNKNOWN), Outcome(newer))
    assert _conditions(steps.later(60)) == []


def test_what_an_object_still_shows_does_not_count_when_something_else_was_said_since():
    waits = member("w0")
    steps = Steps(node("n"), waits)
    (first,) = _conditions(steps)
    train = workload("train", gang(2))
    steps.see(replace(waits, scheduled=_shown(first)), train)
    steps.step(gone(train))
    assert [each.change.message for each in _conditions(steps)] == [first.change.message]


def _conditions(steps):
    changes = [each for each in steps.effects if isinstance(each, PatchStatus)]
    return [each for each in changes if isinstance(each.change, PodCondition)]


def _shown(patch):
    return ScheduledCondition(patch.change.status, patch.change.reason, patch.change.message)


def test_a_group_named_by_no_label_is_left_like_any_other():
    """PodGroups are named in the spec or in annotations: nothing that selectors see changes."""
    green = GroupKey(Key(Kind.POD_GROUP, "default", "green"))
    described = replace(workload("green", gang(1, name="")), key=green.workload, priority=50)
    runs = bound(pod("w0", group=green), "n")
    steps = in_vain(FULL, described, runs, HIGH)
    assert nominations(steps.see(replace(runs, group=None))) == {"high": "n"}
    assert evictions(recorded(steps)) == ["w0"]
    assert steps.step(gone(runs)).binds == {"high": "n"}


@pytest.mark.parametrize(
    "comes",
    [
        pytest.param(pod("boss", priority=20), id="a more important pod is placed there"),
        pytest.param(
            bound(pod("other", scheduler_name="other", priority=30), "n"), id="another scheduler bound a pod there"
        ),
    ],
)
def test_a_preemptor_whose_nominated_node_was_taken_looks_elsewhere_while_its_victims_still_stop(comes):
    small, low = bound(pod("small", cpu=60, priority=1), "n"), bound(pod("low-m", priority=1), "m")
    steps = preempted(FULL, small, HIGH)
    assert evictions(steps) == ["small"]
    steps.see(replace(HIGH, nominated="n"), replace(small, deleted=30.0), node("m", cpu=100), low)
    assert nominations(steps.see(replace(comes, shape=shape(40)))) == {"high": "m"}


def test_the_nomination_of_a_member_that_goes_by_itself_is_withdrawn_when_its_node_is_taken():
    """It was observed with the nomination, in a group without a gang, before somebody else came to the node."""
    train = workload("train", PodGroup("workers"), priority=10)
    low = bound(pod("low", cpu=100, priority=1), "n")
    steps = Steps(FULL, train, low, member("w0", cpu=100))
    assert nominations(steps) == {"w0": "n"}
    steps.step(*(Outcome(effect) for effect in steps.effects if isinstance(effect, PatchStatus)))
    steps.see(member("w0", cpu=100, nominated="n"), replace(low, deleted=30.0))
    steps.step(gone(low), Observed(bound(pod("guard", cpu=100, priority=99), "n")))
    assert nominations(steps) == {"w0": ""}
