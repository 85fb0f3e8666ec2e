"""Which members of a gang start: unlike ones in the order that helps, any that are enough, the surplus after them."""

import pytest
from builders import bound, gang, member, node, pod, shape, workload
from msgspec.structs import replace
from steps import Steps
from test_gang_promises import HIGH, LOW, TWO
from test_preempting import evictions, gone, nominations, preempted, recorded

from headgate.model.effects import PatchStatus, PodCondition
from headgate.model.events import Observed
from headgate.model.keys import Key, Kind
from headgate.model.pod import GroupKey, Phase

TRAIN = workload("train", gang(2), priority_class="high")
PAIR = member("w0"), member("w1")


def sized(name, cpu, **fields):
    return member(name, shape=shape(cpu), **fields)


def says(steps):
    """What each pod reads in its condition after this step."""
    changes = [(each.target.key.name, each.change) for each in steps.effects if isinstance(each, PatchStatus)]
    return {name: change.message for name, change in changes if isinstance(change, PodCondition)}


# which of them


@pytest.mark.parametrize("sizes", [(100, 200), (200, 100)], ids=["the small one is older", "the large one is older"])
def test_a_small_member_leaves_the_large_node_to_the_large_one(sizes):
    nodes = node("large", cpu=200), node("small", cpu=100)
    pods = [sized(f"w{i}", cpu, created=float(i)) for i, cpu in enumerate(sizes)]
    assert Steps(*nodes, HIGH, TRAIN, *pods).binds == {
        each.key.name: {200: "large", 100: "small"}[cpu] for each, cpu in zip(pods, sizes, strict=True)
    }


def test_members_that_fit_start_without_an_older_one_that_does_not():
    steps = preempted(*TWO, *LOW, HIGH, TRAIN, sized("w0", 500), sized("w1", 100), sized("w2", 100))
    assert sorted(evictions(steps)) == ["low-m", "low-n"]
    steps.step(*map(gone, LOW))
    assert set(steps.binds) == {"w1", "w2"}


def test_nobody_is_evicted_where_other_members_fit_without():
    free = node("o", cpu=100), node("p", cpu=100)
    steps = Steps(*TWO, *LOW, *free, HIGH, TRAIN, sized("w0", 500), sized("w1", 100), sized("w2", 100))
    assert (set(steps.binds), nominations(steps)) == ({"w1", "w2"}, {})


def test_victims_make_room_for_unlike_members_in_the_order_that_helps():
    nodes = node("large", cpu=200), node("small", cpu=100)
    low = bound(pod("low-large", cpu=200, priority=1), "large"), bound(pod("low-small", priority=1), "small")
    steps = Steps(*nodes, *low, HIGH, TRAIN, sized("w0", 100), sized("w1", 200))
    assert nominations(steps) == {"w0": "small", "w1": "large"}


@pytest.mark.parametrize(
    ("pods", "text"),
    [
        pytest.param(
            [sized(f"w{i}", 100) for i in range(3)],
            "Preemption would not help: it does not fit even without all 2 pods (2 units) of lower priority.",
            id="equal pods are counted",
        ),
        pytest.param(
            [sized("w0", 100), sized("w1", 100), sized("w2", 90)],
            "No placement was found even without all 2 pods (2 units) of lower priority.",
            id="of unlike pods it is said what was found, not what is possible",
        ),
    ],
)
def test_that_there_is_no_room_is_said_where_it_is_certain(pods, text):
    steps = Steps(*TWO, *LOW, HIGH, workload("train", gang(3), priority_class="high"), *pods)
    assert all(message.endswith(text) for message in says(steps).values())
    assert set(says(steps)) == {"w0", "w1", "w2"}


# the surplus

LATE = [
    pytest.param(member("w2"), id="one more"),
    pytest.param(member("a"), id="one that comes first by name"),
    pytest.param(sized("a", 50), id="one that is smaller"),
    pytest.param(sized("a", 5000), id="one that fits nowhere"),
    pytest.param(member("w2", gates=("wait",)), id="a gated one"),
]


def evicting():
    """Victims are being deleted for a gang of two; returns its members as they are then, nominated, as well."""
    steps = Steps(*TWO, *LOW, HIGH, TRAIN, *PAIR)
    promised = [replace(each, nominated=nominations(steps)[each.key.name]) for each in PAIR]
    assert sorted(evictions(recorded(steps))) == ["low-m", "low-n"]
    return steps, promised


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("history", ["seen", "not seen yet", "restarted"])
def test_a_member_that_comes_after_victims_were_evicted_does_not_undo_the_promise(late, history):
    steps, promised = evicting()
    going = [replace(low, deleted=30.0) for low in LOW]
    match history:
        case "seen":
            steps.see(*going, *promised)
        case "restarted":
            steps = Steps(*TWO, *going, HIGH, TRAIN, *promised)
    steps.see(late)
    assert (nominations(steps), evictions(steps)) == ({}, [])
    assert steps.see(pod("newcomer", priority=1)).binds == {}
    steps.step(*map(gone, LOW))
    assert steps.binds == {each.key.name: each.nominated for each in promised}


def test_a_gated_member_holds_its_gang_again_when_the_promise_is_lost():
    steps, promised = evicting()
    steps.see(*promised, member("w2", gates=("wait",)))
    steps.step(*map(gone, TWO))
    steps.later(60)
    assert says(steps)["w0"] == says(steps)["w1"] == "waiting for the gates of w2, a member of its gang"
    assert nominations(steps) == {"w0": "", "w1": ""}


def test_a_gated_member_holds_a_gang_of_which_too_few_are_promised_nodes():
    steps, promised = evicting()
    steps.see(*promised, member("w2", gates=("wait",)))
    steps.see(replace(TRAIN, groups=(gang(3),)))
    assert says(steps)["w0"] == "waiting for the gates of w2, a member of its gang"
    assert nominations(steps) == {"w0": "", "w1": ""}


def test_a_nomination_of_a_member_that_a_new_plan_leaves_out_is_withdrawn():
    """The promise was for a pod that has grown too large since."""
    grown = replace(sized("w0", 5000), nominated="n")
    steps = Steps(*TWO, *LOW, HIGH, TRAIN, grown, member("w1", nominated="m"), member("w2"))
    assert nominations(steps)["w0"] == ""
    assert sorted(evictions(recorded(steps))) == ["low-m", "low-n"]


# groups that their pods describe

QUEUED = GroupKey(Key(Kind.KUEUE_WORKLOAD, "default", "q"))
DISAGREE = "the pods of its group name different totals in kueue.x-k8s.io/pod-group-total-count: 2, 3"


def of_group(name, total, **fields):
    return pod(name, group=QUEUED, group_total=total, **fields)


@pytest.mark.parametrize(
    "mended",
    [
        pytest.param([Observed(of_group("y", 2))], id="one of them is corrected"),
        pytest.param([gone(of_group("y", 3)), Observed(of_group("z", 2))], id="one of them is replaced"),
    ],
)
def test_pods_that_name_different_totals_wait_until_they_agree(mended):
    steps = Steps(*TWO, of_group("x", 2), of_group("y", 3))
    assert (steps.binds, says(steps)) == ({}, {"x": DISAGREE, "y": DISAGREE})
    assert len(steps.step(*mended).binds) == 2


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
def test_a_group_waits_for_a_failed_pod_to_be_replaced_and_for_no_pod_that_succeeded(phase):
    ended = bound(of_group("x", 3), "n", phase=phase)
    waiting = [of_group(name, 3) for name in "yz"]
    expected = {"y", "z"} if phase is Phase.SUCCEEDED else set()
    assert Steps(*TWO, ended, *waiting).binds.keys() == expected, "a fresh process"
    steps = Steps(*TWO, bound(of_group("x", 3), "n"), waiting[0])
    assert steps.binds == {}
    steps.see(ended, waiting[1])
    assert steps.binds.keys() == expected, "one that saw it run"


def test_those_that_are_left_of_a_group_start_together():
    ended = bound(of_group("x", 3), "n", phase=Phase.SUCCEEDED)
    steps = Steps(node("n", cpu=150), ended, of_group("y", 3), of_group("z", 3))
    assert steps.binds == {}
    assert steps.see(node("m")).later(10).binds.keys() == {"y", "z"}


def test_a_pod_that_names_another_total_waits_and_leaves_the_running_ones_a_gang():
    running = [bound(of_group(name, 2, priority=1), node) for name, node in (("x", "n"), ("y", "m"))]
    steps = Steps(*TWO, *running, of_group("z", 3))
    assert says(steps) == {"z": DISAGREE}
    recorded(steps.see(pod("boss", priority=10)))
    assert sorted(evictions(recorded(steps))) == ["x", "y"]
