"""Whoever is evicted comes again; nobody starts whom a pod that waits would have evicted at once."""

import pytest
from builders import amounts, bound, node, pod
from msgspec.structs import replace
from volcano_scenes import GPU, Queues, elsewhere, grouped, pod_group, queue, queued

from headgate.model.effects import Bind, EmitEvent, Evict, Nomination, PatchSpec, PatchStatus, RemoveGate, WakeAt
from headgate.model.events import Gone, Observed, Outcome, TimerFired
from headgate.model.keys import Kind
from headgate.model.pod import Phase, Pod, ScheduledCondition
from headgate.model.settings import Settings, VolcanoSettings
from headgate.model.volcano import QUEUE_ANNOTATIONS, QUEUE_GATE, DequeueStrategy, QueueState

BIG = node("n", cpu=64_000)
DEFAULTS = Settings()
ROUNDS = 40  # of two seconds each


def running(name, of="team", cpu=1000, **fields):
    return bound(queued(name, cpu, of, gates=(), **fields), "n")


def plain(name, of="team", cpu=1000, *, fits=True, **fields):
    """A pod that did not ask for the gate."""
    made = pod(name, cpu, annotations={QUEUE_ANNOTATIONS[0]: of}, **fields)
    return made if fits else replace(made, shape=replace(made.shape, **GPU))


class Returning(Queues):
    """A cluster where writes succeed, victims leave after `grace` rounds, and a controller makes them anew at once."""

    def __init__(self, *objects, grace=0, settings=DEFAULTS):
        self.pods = {each.key: each for each in objects if each.key.kind is Kind.POD}
        self.grace, self.leaving, self.evicted = grace, [], []
        super().__init__(*objects, settings=settings)

    def run(self, rounds=ROUNDS):
        for number in range(rounds):
            writes = [each for each in self.effects if not isinstance(each, EmitEvent | WakeAt)]
            pods = [each for each in writes if each.target.key.kind is Kind.POD]
            news = [event for each in pods for event in self._perform(each, number)]
            due = [pod for at, pod in self.leaving if at <= number]
            self.leaving = [each for each in self.leaving if each[0] > number]
            for gone in due:
                news += [Gone(gone.key, gone.uid), Observed(self._again(gone))]
            self.later(2.0, *(news or [TimerFired("scheduling")]))
        return self

    def _perform(self, effect, number):
        known = self.pods[effect.target.key]
        match effect:
            case Bind(node=name):
                known = replace(known, node=name, phase=Phase.RUNNING)
            case RemoveGate():
                known = replace(known, gates=())
            case PatchSpec(change=change):
                known = replace(known, gates=(), reserved_at=getattr(change, "at", None))
            case Evict():
                self.evicted.append(known.key.name)
                known = replace(known, deleted=self.now)
                self.leaving.append((number + self.grace, known))
        self.pods[known.key] = known
        return [Outcome(effect), Observed(known)]

    def _again(self, gone: Pod):
        gates = (QUEUE_GATE,) if QUEUE_GATE in gone.annotations else ()
        fresh = {"uid": f"{gone.uid}-again", "node": "", "phase": Phase.PENDING, "deleted": None, "reserved_at": None}
        self.pods[gone.key] = replace(gone, gates=gates, created=self.now, **fresh)
        return self.pods[gone.key]

    @property
    def on_nodes(self):
        return {key.name for key, each in self.pods.items() if each.node and each.deleted is None}


def shared(org=2000, team=1000, other=1000, **fields):
    """Two queues share what the one above them has; `fields` are those of the other one."""
    other = queue("other", None, "org", **{"deserved": other, **fields})
    return [queue("org", org), queue("team", None, "org", deserved=team), other]


FIRST = {"priority": 1}
"""Of a queue whose pods take their turn first."""


TWO = [running(f"b{n}", "other", priority=9, created=float(n)) for n in range(2)]
"""They use all there is, and their queue deserves half of it."""
LEFT = {"b0", "mine"}


@pytest.mark.parametrize("grace", [0, 1, 5])
@pytest.mark.parametrize(
    "objects, mine, left",
    [
        pytest.param(shared(), [queued("mine")], LEFT, id="although its priority is higher"),
        pytest.param(
            shared(**FIRST),
            [queued("mine")],
            LEFT,
            id="although that of its queue is higher",
        ),
        pytest.param(
            shared(other=0, **FIRST),
            [queued("mine")],
            LEFT,
            id="although its queue deserves nothing",
        ),
        pytest.param(shared(), [elsewhere("mine")], {"b0"}, id="while the other one reserves what it left"),
        pytest.param(shared(), [plain("mine")], LEFT, id="for a pod that did not ask for the gate"),
        pytest.param(
            [*shared(team=2000, other=0), pod_group(members=2)],
            [grouped("mine", "train"), grouped("m1", "train", created=1.0)],
            {"mine", "m1"},
            id="for a gang",
        ),
        pytest.param(
            [
                queue("org", 2000),
                queue("mid", None, "org"),
                queue("team", None, "mid", deserved=1000),
                queue("other", None, "org", deserved=1000),
            ],
            [queued("mine")],
            LEFT,
            id="for a queue at another level",
        ),
    ],
)
def test_a_pod_whose_queue_has_too_much_is_evicted_once(objects, mine, left, grace):
    steps = Returning(*objects, BIG, *TWO, *mine, grace=grace).run()
    assert len(steps.evicted) == len(set(steps.evicted))
    assert steps.on_nodes == left


LEAVING = replace(running("b1", "other"), deleted=9.0)


def waits_for_it():
    """Of 3 CPU one is free and one is being left by a pod: mine waits for both, and late wants a part."""
    tree = shared(org=3000, team=2000)
    return Queues(*tree, BIG, TWO[0], LEAVING, queued("mine", 2000), queued("late", 500, "other", priority=9))


def test_it_says_for_whom_capacity_is_kept_and_how_much():
    steps = waits_for_it()
    assert steps.binds == {}
    assert steps.messages["mine"].endswith("; waiting for pods that are leaving")
    assert steps.reasons["late"] == "SchedulingGated"
    said = "waiting for queue capacity: cpu 2 is kept for default/mine: queue team stays within what it deserves, and "
    assert steps.messages["late"] == f"{said}queue other would use more than that"
    steps.later(20.0, Gone(LEAVING.key, LEAVING.uid))
    assert steps.binds == {"mine": "n"}


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(Gone(queued("mine").key, queued("mine").uid), id="is gone"),
        pytest.param(Observed(queued("mine", 2000, gates=("example.com/theirs", QUEUE_GATE))), id="is held by others"),
        pytest.param(Observed(queued("mine", 2000, of="other")), id="is in another queue"),
        pytest.param(Observed(queued("mine", 2000, preempts=False)), id="evicts nobody any more"),
        pytest.param(Observed(queued("mine", 500)), id="needs less"),
        pytest.param(
            Observed(queue("team", None, "org", deserved=2000, state=QueueState.CLOSING, version="2")),
            id="has a queue that takes no more pods",
        ),
        pytest.param(
            Observed(queue("team", None, "org", deserved=1000, version="2")), id="has a queue that deserves less"
        ),
        pytest.param(
            Observed(queue("other", None, "org", deserved=3000, version="2")), id="takes back nothing any more"
        ),
        pytest.param(Observed(running("t", cpu=100)), id="would be more than its queue deserves by now"),
    ],
)
def test_capacity_is_kept_no_longer_when_the_other(event):
    steps = waits_for_it()
    steps.later(20.0, event)
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.bound.get("late") == "n"


@pytest.mark.parametrize(
    "objects, waiting",
    [
        pytest.param(shared(org=3000, **FIRST), [queued("mine")], id="there is enough for both"),
        pytest.param(shared(team=500, **FIRST), [queued("mine")], id="that is more than the other deserves"),
        pytest.param(
            shared(reclaimable=False, **FIRST),
            [queued("mine")],
            id="its queue gives nothing back",
        ),
        pytest.param(
            shared(guarantee=amounts(2000), **FIRST),
            [queued("mine")],
            id="its queue is guaranteed as much",
        ),
        pytest.param(shared(**FIRST), [queued("mine", preempts=False)], id="the other evicts nobody"),
        pytest.param(shared(**FIRST), [queued("mine", gates=("example.com/theirs", QUEUE_GATE))], id="others hold it"),
        pytest.param([*shared(**FIRST), pod_group(members=2)], [grouped("mine", "train")], id="its gang waits"),
        pytest.param(shared(**FIRST), [plain("mine", fits=False)], id="no node fits the other, which reserves nothing"),
        pytest.param(
            [queue("org", 2000), queue("team", 500, "org", deserved=1000), shared(**FIRST)[2]],
            [queued("mine")],
            id="the other does not fit its queue in any case",
        ),
        pytest.param(
            [
                queue("org", 2000),
                queue("team", 800, "org", deserved=1000, dequeue=DequeueStrategy.FIFO),
                shared(**FIRST)[2],
            ],
            [queued("first", 900), queued("mine", 500, created=1.0)],
            id="the other waits behind one that does not fit",
        ),
    ],
)
def test_nothing_is_kept_where(objects, waiting):
    steps = Returning(*objects, BIG, TWO[0], *waiting, queued("late", of="other", priority=9, created=5.0)).run(10)
    assert "late" in steps.on_nodes
    assert steps.evicted == []


def test_in_one_queue_capacity_is_kept_for_the_pod_of_higher_priority_that_waits_for_pods_to_leave():
    low = [running(f"l{n}", created=float(n)) for n in range(2)]
    steps = Returning(queue("team", 3000), BIG, *low, queued("high", 3000, priority=9), queued("small"), grace=5).run()
    assert steps.on_nodes == {"high"}
    assert sorted(steps.evicted) == ["l0", "l1"]


def test_from_whom_capacity_is_kept_preempts_in_its_own_queue():
    """It needs no more than its queue uses already."""
    low = running("low", "other", priority=1)
    steps = Returning(*shared(other=1000), BIG, low, queued("high", of="other", priority=9), queued("mine")).run()
    assert steps.evicted == ["low"]
    assert steps.on_nodes == {"high", "mine"}


def test_a_pod_for_which_no_node_came_evicts_nobody_while_it_rests():
    """Its reservation has expired, and what it would be left it would not keep."""
    times = Settings(volcano=VolcanoSettings(reservation_timeout=20.0))
    steps = Returning(queue("team", 1000), BIG, running("low"), elsewhere("high", priority=9), settings=times)
    steps.run(18)
    assert steps.evicted == ["low"]
    assert steps.on_nodes == {"low"}, "it came again when the time of the other was over"
    for number in range(10):
        steps.see(node(f"other-{number}", cpu=1000))
    assert steps.run(1).evicted == ["low"]


@pytest.mark.parametrize("gates", [True, False], ids=["gates on", "gates off"])
def test_without_a_reservation_a_pod_evicts_only_where_a_node_fits_it_then(gates):
    settings = Settings(volcano=VolcanoSettings(gates=gates))
    nowhere = Returning(
        queue("team", 1000), BIG, running("low"), plain("high", fits=False, priority=9), settings=settings
    )
    assert nowhere.run(10).evicted == []
    tight = Returning(
        queue("team", 1000), node("n", cpu=1000), running("low"), plain("high", priority=9), settings=settings
    )
    assert tight.run(10).evicted == ["low"], "on the node that its victim leaves"
    assert tight.on_nodes == {"high"}


def test_a_reservation_within_what_its_queue_deserves_is_not_displaced_by_one_beyond():
    mine = elsewhere("mine", gated=False)
    steps = Queues(*shared(), BIG, TWO[0], mine, queued("late", of="other", priority=9))
    assert steps.binds == {}
    assert steps.reasons["mine"] == "Unschedulable"


def test_of_two_reservations_that_do_not_fit_that_within_what_its_queue_deserves_is_in_force():
    mine = elsewhere("mine", gated=False)
    theirs = elsewhere("theirs", of="other", gated=False, priority=9)
    steps = Queues(*shared(), BIG, TWO[0], mine, theirs)
    assert steps.reasons == {"mine": "Unschedulable", "theirs": "SchedulingGated"}


def test_a_part_of_a_gang_that_lost_its_gates_reserves_nothing():
    members = [grouped(f"m{n}", "train", gates=() if n == 0 else (QUEUE_GATE,), created=float(n)) for n in range(3)]
    steps = Queues(queue("team", 2000), pod_group(members=3), BIG, *members, queued("late", 2000, created=9.0))
    assert steps.binds == {"late": "n"}


def test_a_member_beyond_what_the_queue_allowed_starts_when_there_is_more():
    """The first member of its gang waits for a node, so nothing else would have it tried again."""
    first, second = (grouped(name, "train", created=at) for name, at in (("m0", 0.0), ("m1", 1.0)))
    first = replace(first, gates=(), shape=replace(first.shape, **GPU))
    old = bound(queued("old", gates=(), priority=50), "n")
    steps = Queues(queue("team", 2000), pod_group(members=1), BIG, old, first, second)
    assert steps.binds == {}
    steps.later(20.0, Gone(old.key, old.uid))
    assert steps.binds == {"m1": "n"}


def test_a_reservation_beyond_what_its_queue_deserves_gives_way_to_a_pod_within():
    theirs = replace(elsewhere("theirs", of="other", gated=False, priority=9), created=1.0)
    steps = Queues(*shared(), BIG, TWO[0], theirs)
    assert steps.reasons == {"theirs": "Unschedulable"}
    steps.later(20.0, Observed(queued("mine", created=5.0)))
    assert steps.binds == {"mine": "n"}
    assert steps.reasons["theirs"] == "SchedulingGated"


def test_a_node_that_comes_for_a_reservation_is_not_used_before_the_pod_for_which_it_gives_way():
    """Both are tried in one step, and the queue of the reservation has its turn first."""
    theirs = elsewhere("theirs", of="other", gated=False)
    steps = Queues(*shared(**FIRST), BIG, TWO[0], theirs)
    assert steps.reasons == {"theirs": "Unschedulable"}
    steps.later(20.0, Observed(node("gpu-1", cpu=1000, labels={"gpu": "yes"})), Observed(queued("mine", created=5.0)))
    assert steps.binds == {"mine": "n"}
    assert steps.reasons["theirs"] == "SchedulingGated"


def test_whoever_is_to_be_tried_first_is_and_then_the_one_from_whom_it_was_kept():
    """No node fits the first, which reserves nothing: the other one starts in the same step."""
    steps = Queues(*shared(**FIRST), BIG, TWO[0], plain("mine", fits=False), queued("late", of="other", created=5.0))
    assert steps.binds == {"late": "n"}
    assert "late" not in steps.reasons


def test_a_pod_that_is_to_be_tried_again_in_the_same_step_keeps_the_condition_of_the_first_time():
    """What was kept is free because no node fits the other, so everybody who waits for a queue is woken."""
    shown = ScheduledCondition("False", "SchedulingGated", "waiting for queue shut to be open: it is Closed")
    shut = [queue("shut", state=QueueState.CLOSED), replace(queued("held", of="shut", gated=False), scheduled=shown)]
    steps = Queues(*shared(**FIRST), *shut, BIG, TWO[0], plain("mine", fits=False), queued("late", of="other"))
    assert steps.binds == {"late": "n"}
    assert "held" not in steps.reasons


def test_in_a_fifo_queue_one_that_reserves_already_hides_nobody():
    """The first of the queue waits for a node and has its capacity: what is kept is kept for the next."""
    tree = [queue("org", 2000), queue("team", None, "org", deserved=1500, dequeue=DequeueStrategy.FIFO)]
    first = elsewhere("first", 0, gated=False, priority=9)
    theirs = running("theirs", "org", 2000)
    steps = Returning(*tree, BIG, first, theirs, queued("mine"), grace=3).run()
    assert steps.evicted == ["theirs"]
    assert steps.on_nodes == {"mine"}


def test_a_pod_that_waits_for_its_victim_gives_up_the_node_when_what_the_victim_leaves_is_kept_for_another():
    """Until then the other did not fit its queue in any case, so nothing was kept for it."""
    tree = [queue("org", 2000), queue("team", None, "org", deserved=2000), queue("other", None, "org")]
    low, high = running("low", "other"), plain("high", "other", priority=9)
    steps = Queues(*tree, node("n", cpu=1000), low, plain("wide", cpu=2000), high)
    nomination = PatchStatus(high.target, Nomination("n"))
    assert nomination in steps.effects
    steps.step(Outcome(nomination)).accepted().see(replace(low, deleted=30.0))
    assert PatchStatus(high.target, Nomination("")) in steps.effects
    assert steps.messages["high"].startswith("waiting for queue capacity: cpu 2 is kept for default/wide")
    steps.later(20.0, Gone(low.key, low.uid))
    assert steps.binds == {"high": "n"}, "no node fits the other"


def test_what_starts_in_a_queue_below_counts_for_what_a_reservation_may_keep():
    """The queue has all it deserves then, so its reservation gives way to one that is within."""
    tree = [
        queue("org", 2000),
        queue("team", None, "org", deserved=1000, priority=1),
        queue("below", None, "team", deserved=1000, priority=1),
        queue("other", None, "org", deserved=1000),
    ]
    held, first = elsewhere("held", gated=False), queued("first", of="below")
    steps = Queues(*tree, BIG, held, first, queued("mine", of="other"))
    assert steps.binds == {"first": "n", "mine": "n"}
    assert steps.reasons["held"] == "SchedulingGated"


@pytest.mark.parametrize(
    "deserved, evicted",
    [
        pytest.param(1500, [], id="leaves too little within what it deserves"),
        pytest.param(2000, ["theirs"], id="leaves enough, and what is given back is kept"),
    ],
)
def test_what_is_reserved_in_a_queue_below(deserved, evicted):
    """Whoever starts and whoever evicts count the same, so nobody starts to be evicted again."""
    team, below = queue("team", None, "org", deserved=deserved), queue("below", None, "team", deserved=1000)
    held, theirs = elsewhere("held", of="below", gated=False), running("theirs", "other")
    tree = [queue("org", 2000), team, below, queue("other", None, "org", **FIRST)]
    steps = Returning(*tree, BIG, held, theirs, elsewhere("mine")).run()
    assert steps.evicted == evicted
    assert steps.on_nodes == {"theirs"} - set(evicted)


def test_a_reservation_gives_way_as_soon_as_a_pod_leaves_whose_capacity_is_kept_for_another():
    solid = queue("solid", None, "org", reclaimable=False)
    tree = [queue("org", 2000), queue("team", None, "org", deserved=2000), queue("other", None, "org"), solid]
    old, held = running("old", "solid"), elsewhere("held", of="other", gated=False)
    steps = Queues(*tree, BIG, old, held, queued("mine", cpu=2000))
    assert steps.reasons == {"mine": "SchedulingGated", "held": "Unschedulable"}
    steps.see(replace(old, deleted=30.0))
    assert steps.reasons.get("held") == "SchedulingGated"


def test_nothing_is_kept_from_a_pod_for_the_gang_that_it_leaves_when_its_queue_comes():
    """The gang's entry is moved before it is made anew: it still shows the pod as its oldest, with its priority."""
    steps = Queues(BIG, replace(pod_group(members=1), priority=10), oldest := grouped("a"))
    steps.later(20.0, Observed(replace(oldest, group=None)), Observed(queue("team", 1000)))
    assert steps.bound == {"a": "n"}


@pytest.mark.parametrize("gates", [True, False], ids=["gates on", "gates off"])
@pytest.mark.parametrize("first", [plain("first", "first", fits=False), elsewhere("first", of="first")])
def test_a_pod_that_reserves_nothing_hides_nobody_for_whom_capacity_is_kept(first, gates):
    """Beside it mine does not fit and the pod it evicts does. No node fits it, and that pod left again each time."""
    tree = [
        queue("org", 2000),
        queue("first", None, "org", deserved=1000),
        queue("team", None, "org", deserved=2000),
        queue("other", None, "org", **FIRST),
    ]
    settings = Settings(volcano=VolcanoSettings(gates=gates))
    steps = Returning(*tree, BIG, running("theirs", "other"), first, queued("mine", 2000), settings=settings).run()
    reserves = gates and QUEUE_GATE in first.annotations
    assert steps.evicted == ([] if reserves else ["theirs"])
    assert steps.on_nodes == ({"theirs"} if reserves else {"mine"})


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([queued("mine", of="below")], id="for the pod that reserves it, in a queue below the other's"),
        pytest.param([elsewhere("held", of="below", gated=False), queued("mine")], id="for one of a third queue"),
    ],
)
def test_what_is_reserved_after_a_running_pod_does_not_have_it_evicted(others):
    """By what is in use and reserved before it its queue stays within its due, so it would start again and again."""
    tree = [
        queue("other", None, deserved=1000, **FIRST),
        queue("below", None, "other", deserved=1000),
        queue("team", None, deserved=1000),
    ]
    steps = Returning(*tree, node("n", cpu=1000), running("theirs", "other", 500, priority=9), *others).run()
    assert steps.evicted == []
    assert steps.on_nodes == {"theirs"}


def test_a_gang_whose_first_member_requests_nothing_stays_within_what_its_queue_deserves():
    """Another gang, which is beyond that, gives way to it: they had both been shown to autoscalers."""
    tree = [
        queue("org", 4000),
        queue("team", None, "org", deserved=2000),
        queue("other", None, "org", deserved=2000, **FIRST),
    ]
    two, train = {"gated": False, "of": "other", "group": grouped("b", "two").group}, grouped("m").group
    held = [elsewhere("b0", 1000, **two), elsewhere("b1", 2000, **two)]
    first, big = elsewhere("first", 0, gated=False, group=train), elsewhere("big", 2000, group=train, created=1.0)
    steps = Queues(*tree, BIG, pod_group(members=1), pod_group("two", 2, "other"), *held, first)
    steps.later(20.0).see(big)
    assert steps.let_go.count("big") == 1
    told = {"b0": "SchedulingGated", "b1": "SchedulingGated"}
    assert steps.reasons == {"first": "Unschedulable", "big": "Unschedulable", **told}


def test_a_member_that_reserves_anew_does_not_displace_one_of_its_gang():
    """The gang starts with both. The time of the other is over, but it reserves as long as the last of them may."""
    times = Settings(volcano=VolcanoSettings(reservation_timeout=100.0))
    group = grouped("m").group
    old = elsewhere("old", 1000, gated=False, group=group, created=1.0)
    new = elsewhere("new", 2000, gated=False, group=group)
    steps = Queues(queue("team", 2000), BIG, pod_group(members=1), settings=times)
    steps.later(250.0).see(replace(old, reserved_at=0.0), replace(new, reserved_at=250.0))
    assert steps.let_go == []
    steps.later(20.0).see(node("gpu-1", cpu=4000, labels={"gpu": "yes"}))
    assert steps.bound == {"old": "gpu-1"}
