"""Who must leave is asked to leave once, after the promise of their room is on record, and never in vain."""

import pytest
from builders import bound, gang, member, node, pod, pod_key, priority_class, workload
from msgspec.structs import asdict, replace
from steps import Steps

from headgate.model.effects import Bind, Evict, Nomination, PatchStatus, PodCondition
from headgate.model.events import Gone, Observed, Outcome, WriteError
from headgate.model.keys import Key, Kind
from headgate.model.settings import Profile, Settings

FULL = node("n", cpu=100)
LOW = bound(pod("low", priority=1), "n", started=0.0)
HIGH = pod("high", priority=10)


def nominations(steps):
    """Who was promised which node, in this step."""
    changes = [effect for effect in steps.effects if isinstance(effect, PatchStatus)]
    return {each.target.key.name: each.change.node for each in changes if isinstance(each.change, Nomination)}


def evictions(steps):
    return [effect.target.key.name for effect in steps.effects if isinstance(effect, Evict)]


def marks(steps):
    changes = [effect for effect in steps.effects if isinstance(effect, PatchStatus)]
    marked = [each for each in changes if getattr(each.change, "type", "") == "DisruptionTarget"]
    return {each.target.key.name: each.change.status for each in marked}


def recorded(steps, trouble=None):
    """The server answers every nomination and every mark of the last step."""
    made = [
        each
        for each in steps.effects
        if isinstance(each, PatchStatus)
        and (isinstance(each.change, Nomination) or getattr(each.change, "type", "") == "DisruptionTarget")
    ]
    return steps.step(*(Outcome(each, trouble) for each in made))


def preempted(*objects, **fields):
    """An engine that has just asked someone to leave."""
    return recorded(Steps(*objects, **fields))


def gone(one):
    return Gone(one.key, one.uid)


def test_the_promise_comes_before_the_eviction():
    steps = Steps(FULL, LOW, HIGH)
    assert (nominations(steps), evictions(steps), steps.binds) == ({"high": "n"}, [], {})
    assert evictions(recorded(steps)) == ["low"]


@pytest.mark.parametrize(
    "objects, preemptors",
    [
        pytest.param([FULL, LOW, HIGH], 1, id="a pod"),
        pytest.param(
            [
                node("n", cpu=200),
                bound(pod("low", cpu=200, priority=1), "n"),
                workload("train", gang(2), priority_class="high"),
                priority_class("high", 10),
                *(member(f"m{number}", priority=10) for number in range(2)),
            ],
            2,
            id="every pod of a gang",
        ),
    ],
)
def test_nominated_before_it_is_called_unschedulable_so_that_no_autoscaler_orders_a_node_for_it(objects, preemptors):
    patches = [each for each in Steps(*objects).effects if isinstance(each, PatchStatus)]
    changes = [each for each in patches if each.target.key.kind is Kind.POD]
    nominated = [each.target.key for each in changes if isinstance(each.change, Nomination)]
    told = [each.target.key for each in changes if isinstance(each.change, PodCondition)]
    assert [isinstance(each.change, Nomination) for each in changes] == [True] * preemptors + [False] * preemptors
    assert sorted(nominated) == sorted(told)


def test_the_preemptor_is_bound_when_its_victim_has_left():
    steps = preempted(FULL, LOW, HIGH)
    assert steps.step(gone(LOW)).binds == {"high": "n"}


def test_it_waits_no_second_longer_than_the_last_of_its_victims():
    others = [bound(pod(f"low{number}", cpu=50, priority=1), "n") for number in range(2)]
    steps = preempted(FULL, *others, HIGH)
    assert sorted(evictions(steps)) == ["low0", "low1"]
    assert steps.later(0.1, gone(others[0])).binds == {}
    assert steps.later(0.1, gone(others[1])).binds == {"high": "n"}


def test_nobody_is_evicted_twice_however_stale_what_is_seen():
    steps = preempted(FULL, LOW, HIGH)
    for _ in range(3):
        steps.later(20, Observed(replace(LOW, labels={"seen": "again"})), Observed(HIGH))
        assert evictions(steps) == []
        assert nominations(steps) == {}


def test_nobody_is_evicted_while_a_promise_cannot_be_recorded():
    steps = recorded(Steps(FULL, LOW, HIGH), WriteError.UNAVAILABLE)
    assert evictions(steps) == []
    assert nominations(steps.later(5)) == {"high": "n"}
    assert evictions(recorded(steps)) == ["low"]


def test_nobody_is_evicted_for_one_who_went_away_meanwhile():
    steps = Steps(FULL, LOW, HIGH)
    made = [each for each in steps.effects if isinstance(each, PatchStatus) and isinstance(each.change, Nomination)]
    assert evictions(steps.step(gone(HIGH), *(Outcome(each) for each in made))) == []


def test_an_eviction_the_server_could_not_hear_is_sent_again():
    steps = preempted(FULL, LOW, HIGH)
    steps.step(Outcome(steps.only(Evict), WriteError.UNAVAILABLE))
    assert evictions(steps.later(5)) == ["low"]


def test_an_eviction_is_not_sent_again_when_nobody_needs_it():
    steps = preempted(FULL, LOW, HIGH)
    steps.step(Outcome(steps.only(Evict), WriteError.UNAVAILABLE), gone(HIGH))
    assert evictions(steps.later(60)) == []


def test_a_refused_eviction_is_thought_over_again():
    steps = preempted(FULL, LOW, HIGH)
    assert evictions(steps.step(Outcome(steps.only(Evict), WriteError.REFUSED, "no"))) == []
    assert evictions(steps.later(20)) == ["low"]


def test_room_that_frees_elsewhere_is_taken_at_once():
    steps = preempted(FULL, LOW, HIGH)
    assert steps.later(20, Observed(node("late", cpu=100))).binds == {"high": "late"}


@pytest.mark.parametrize(
    ("preemptor", "says"),
    [
        pytest.param(
            replace(HIGH, preempts=False),
            "0/1 nodes are available: 1 Insufficient cpu. Preemption is not allowed by preemptionPolicy Never.",
            id="a pod whose policy is Never preempts nobody",
        ),
        pytest.param(
            replace(HIGH, priority=1),
            "0/1 nodes are available: 1 Insufficient cpu.",
            id="equals do not preempt each other",
        ),
        pytest.param(
            pod("high", cpu=200, priority=10),
            "0/1 nodes are available: 1 Insufficient cpu. Preemption would not help: it does not fit even "
            "without the only pod of lower priority.",
            id="nobody leaves for a pod that would not fit even then",
        ),
    ],
)
def test_nobody_is_touched(preemptor, says):
    steps = Steps(FULL, LOW, preemptor)
    assert (nominations(steps), evictions(steps)) == ({}, [])
    condition = [each.change for each in steps.effects if isinstance(each, PatchStatus)]
    assert [type(change) for change in condition] == [PodCondition]
    assert condition[0].message == says


def test_a_profile_without_preemption_asks_nobody_to_leave():
    settings = Settings(profiles=(Profile(disabled=frozenset({"DefaultPreemption"})),))
    assert nominations(Steps(FULL, LOW, HIGH, settings=settings)) == {}


def test_room_about_to_be_free_is_waited_for_and_nobody_else_leaves():
    going = replace(LOW, deleted=30.0)
    other = bound(pod("other", priority=1), "m")
    steps = Steps(FULL, node("m", cpu=100), going, other, HIGH)
    assert (nominations(steps), evictions(recorded(steps))) == ({"high": "n"}, [])
    assert steps.step(gone(going)).binds == {"high": "n"}


def test_promised_room_is_not_given_to_those_who_come_later():
    steps = preempted(FULL, LOW, HIGH)
    steps.see(replace(HIGH, nominated="n"), pod("rival", priority=10, created=5.0))
    assert steps.step(gone(LOW)).binds == {"high": "n"}


def test_a_less_important_promise_in_the_way_is_taken_back():
    middle = pod("middle", priority=5, nominated="n")
    going = replace(LOW, deleted=30.0)
    steps = Steps(FULL, going, middle)
    steps.see(pod("high", priority=10))
    assert nominations(steps) == {"high": "n"}
    assert nominations(recorded(steps)) == {"middle": ""}
    assert steps.step(gone(going)).binds == {"high": "n"}


# groups


def test_a_gang_in_whole_mode_leaves_whole():
    train = workload("train", gang(2, whole=True))
    nodes = node("n", cpu=100), node("m", cpu=100)
    running = bound(member("w0", priority=0), "n"), bound(member("w1", priority=0), "m")
    steps = preempted(*nodes, train, *running, HIGH)
    assert evictions(steps) == []
    assert sorted(evictions(recorded(steps))) == ["w0", "w1"]


def test_a_gang_that_leaves_whole_is_marked_before_the_first_of_it_goes():
    train = workload("train", gang(2, whole=True))
    running = bound(member("w0"), "n"), bound(member("w1"), "m")
    steps = preempted(FULL, node("m", cpu=100), train, *running, HIGH)
    assert sorted(marks(steps)) == ["w0", "w1"]
    assert evictions(recorded(steps, WriteError.CONFLICT)) == []


@pytest.mark.parametrize(
    ("left", "rest"),
    [
        pytest.param([member("w1", node="m", preempted=True)], ["w1"], id="one is gone: the other goes too"),
        pytest.param(
            [member("w0", node="n", preempted=True, deleted=9.0), member("w1", node="m", preempted=True)],
            ["w1"],
            id="one is going: the other goes too",
        ),
        pytest.param(
            [member("w0", node="n", preempted=True), member("w1", node="m", preempted=True)],
            [],
            id="both run: the gang may stay",
        ),
    ],
)
def test_a_successor_finishes_a_gang_that_began_to_leave(left, rest):
    steps = Steps(FULL, node("m", cpu=100), workload("train", gang(2, whole=True)), *left)
    assert evictions(steps) == rest
    assert marks(steps) == ({} if rest else {"w0": "False", "w1": "False"})


def test_a_gang_in_pod_mode_loses_only_what_is_needed():
    train = workload("train", gang(2))
    nodes = node("n", cpu=100), node("m", cpu=100)
    running = bound(member("w0"), "n"), bound(member("w1"), "m")
    assert len(evictions(preempted(*nodes, train, *running, HIGH))) == 1


def test_a_gang_preempts_for_all_its_members_at_once_or_for_none():
    nodes = [node(name, cpu=100) for name in ("n", "m")]
    low = [bound(pod(f"low-{name}", priority=1), name) for name in ("n", "m")]
    high = priority_class("high", 10)
    train = workload("train", gang(2), priority_class="high")
    steps = Steps(*nodes, *low, high, train, member("w0"), member("w1"))
    assert sorted(nominations(steps)) == ["w0", "w1"]
    assert sorted(evictions(recorded(steps))) == ["low-m", "low-n"]
    assert steps.step(gone(low[0])).binds == {}
    assert len(steps.step(gone(low[1])).binds) == 2


def test_a_gang_that_would_not_fit_touches_nobody():
    nodes = [node(name, cpu=100) for name in ("n", "m")]
    low = [bound(pod(f"low-{name}", priority=1), name) for name in ("n", "m")]
    high = priority_class("high", 10)
    train = workload("train", gang(3), priority_class="high")
    steps = Steps(*nodes, *low, high, train, *(member(f"w{number}") for number in range(3)))
    assert (nominations(steps), evictions(steps)) == ({}, [])


def test_a_shielded_workload_is_preempted_only_by_what_exceeds_its_shield():
    classes = priority_class("low", 1), priority_class("shield", 50)
    train = workload("train", priority_class="low", preemption_priority_class="shield")
    running = bound(member("w0"), "n")
    assert evictions(preempted(FULL, *classes, train, running, HIGH)) == []
    assert evictions(preempted(FULL, *classes, train, running, pod("boss", priority=51))) == ["w0"]


def test_a_workload_whose_class_never_preempts_waits():
    never = priority_class("polite", 10, preempts=False)
    steps = Steps(FULL, LOW, never, workload("train", gang(1), priority_class="polite"), member("w0"))
    assert nominations(steps) == {}


@pytest.mark.parametrize(
    ("policy", "promised"),
    [
        pytest.param(False, {}, id="Never stays Never"),
        pytest.param(True, {"w0": "n"}, id="a workload that preempted may still do so"),
    ],
)
@pytest.mark.parametrize("restarted", [False, True], ids=["the same process", "its successor"])
def test_the_preemption_policy_of_a_workload_is_that_of_its_class_when_it_was_first_seen(policy, promised, restarted):
    """The class is deleted and made anew with the other policy."""
    chosen, train = priority_class("chosen", 10, preempts=policy), workload("train", gang(1), priority_class="chosen")
    steps = Steps(chosen, train)
    shown = replace(train, **asdict(steps.only_status()))
    steps.see(shown)
    steps.step(Gone(chosen.key, chosen.uid))
    other = replace(priority_class("chosen", 10, preempts=not policy), uid="new")
    made_anew = [FULL, LOW, other, member("w0")]
    steps = Steps(*made_anew, shown) if restarted else steps.see(*made_anew)
    assert nominations(steps) == promised


# after a restart


def test_a_successor_goes_on_with_the_same_victims():
    """The nominations were on record, one of two victims had been evicted: the other one is the one that was meant."""
    nodes = [node(name, cpu=100) for name in ("n", "m", "o")]
    low = {name: bound(pod(f"low-{name}", priority=1), name) for name in ("n", "m", "o")}
    high = priority_class("high", 10)
    train = workload("train", gang(2), priority_class="high")
    members = member("w0", nominated="n"), member("w1", nominated="m")
    steps = Steps(*nodes, replace(low["n"], deleted=30.0), low["m"], low["o"], high, train, *members)
    assert evictions(steps) == ["low-m"]


def test_a_successor_evicts_nobody_when_all_victims_are_going():
    steps = Steps(FULL, replace(LOW, deleted=30.0), replace(HIGH, nominated="n"))
    assert (nominations(steps), evictions(steps)) == ({}, [])


# what is told


def test_both_sides_learn_of_it_and_tenants_do_not_see_each_others_names():
    stranger = replace(LOW, key=Key(Kind.POD, "other", "secret"), uid="uid-secret")
    steps = preempted(node("n", cpu=200), LOW, stranger, pod("high", cpu=200, priority=10))
    assert steps.events == {}, "they are told when pods were evicted"
    told = steps.accepted().events
    assert "pod default/high" in told["low"]
    assert "high," not in told["secret"]
    assert "a pod of another namespace" in told["secret"]
    assert "pod low" in told["high"]
    assert "secret" not in told["high"]
    assert "1 pod of other namespaces" in told["high"]


def test_the_preemptor_is_told_once_with_the_first_eviction_that_was_accepted():
    victims = [bound(pod(f"low{number}", cpu=50, priority=1), "n", started=0.0) for number in range(3)]
    steps = preempted(node("n", cpu=150), *victims, pod("high", cpu=150, priority=10))
    first, second, third = [each for each in steps.effects if isinstance(each, Evict)]
    assert "high" not in steps.step(Outcome(first, WriteError.UNAVAILABLE)).events
    told = steps.later(1, Outcome(second)).events["high"]
    assert sorted(told.removeprefix("Preempting ").split(", ")) == ["pod low0", "pod low1", "pod low2"]
    assert "high" not in steps.step(Outcome(third)).events
    assert "high" not in steps.step(Outcome(first)).events


def test_a_preemptor_for_which_nobody_was_evicted_is_not_told_so():
    steps = preempted(FULL, LOW, HIGH)
    assert "high" not in steps.step(Outcome(steps.only(Evict), WriteError.REFUSED, "you may not")).events


@pytest.mark.parametrize("trouble", [WriteError.REFUSED, WriteError.CONFLICT])
def test_an_eviction_that_failed_is_told_as_failed(trouble):
    steps = preempted(FULL, LOW, HIGH)
    steps.step(Outcome(steps.only(Evict), trouble, "you may not"))
    assert steps.events == {"low": "not evicted: you may not"}
    assert ("keep", "EvictionFailed", "low") in steps.story


def test_an_eviction_of_a_pod_that_is_gone_is_no_failure_of_anybody():
    steps = preempted(FULL, LOW, HIGH)
    steps.step(Outcome(steps.only(Evict), WriteError.GONE))
    assert steps.events == {}


def test_the_receipt_says_who_for_whom_by_which_rule_and_at_what_cost():
    steps = preempted(FULL, LOW, HIGH)
    about = {entry.key.name: entry for entry in steps.engine.journal.take() if entry.decision in ("preempt", "evict")}
    receipt = about["high"]
    assert (receipt.decision, receipt.reason) == ("preempt", "Preempting")
    assert "pod default/low (priority 1)" in receipt.message
    assert {"policy", "victims", "work_lost", "alternatives", "certificate", "candidates"} <= set(receipt.numbers)
    assert about["low"].numbers["for"] == "pod default/high"


def test_a_binding_in_flight_can_be_preempted():
    steps = Steps(FULL, pod("low", priority=1))
    assert isinstance(steps.only(Bind), Bind)
    steps.see(HIGH)
    assert evictions(recorded(steps)) == ["low"]
    assert steps.step(Gone(pod_key("low"), "uid-low")).binds == {"high": "n"}


def test_a_mark_without_consequence_is_taken_back_until_it_is_gone():
    both = [member("w0", node="n", preempted=True), member("w1", node="m", preempted=True)]
    steps = Steps(FULL, node("m", cpu=100), workload("train", gang(2, whole=True)), *both)
    taken_back = [e for e in steps.effects if getattr(getattr(e, "change", None), "type", "") == "DisruptionTarget"]
    steps.step(*(Outcome(each, WriteError.CONFLICT, "try again") for each in taken_back))
    assert marks(steps.later(3)) == {"w0": "False", "w1": "False"}
