"""Pods that wait for capacity of their Volcano queue: gated, bound, or let go and counted as reserved."""

import pytest
from builders import amounts, bound, node, pod, priority_class
from msgspec.structs import replace
from volcano_scenes import Queues, elsewhere, grouped, pod_group, queue, queued

from headgate.model.claims import ClaimName
from headgate.model.effects import Bind, Nomination, PatchSpec, PatchStatus, PodCondition, QueueReservation, RemoveGate
from headgate.model.events import Gone, Outcome, TimerFired, WriteError
from headgate.model.keys import Kind
from headgate.model.node import Taint, TaintEffect
from headgate.model.settings import Settings, VolcanoSettings
from headgate.model.volcano import QUEUE_GATE, DequeueStrategy, QueueState


def test_a_pod_that_fits_queue_and_node_is_bound_and_its_gate_removed_right_before():
    steps = Queues(queue("team", 1000), node("n", cpu=4000), made := queued("a"))
    assert [e for e in steps.effects if isinstance(e, RemoveGate | Bind)] == [
        RemoveGate(made.target, QUEUE_GATE, 0),
        Bind(made.target, "n"),
    ]


def test_a_pod_that_the_queue_has_no_capacity_for_stays_gated_and_says_why():
    steps = Queues(queue("team", 1000), node("n", cpu=4000), bound(queued("old", gates=()), "n"), queued("a"))
    assert steps.binds == {}
    assert steps.let_go == []
    assert steps.reasons == {"a": "SchedulingGated"}
    said = "waiting for queue capacity: queue team has cpu 1, and cpu 1 is in use or reserved; requested cpu 1"
    assert steps.messages == {"a": said}
    assert ("wait", "SchedulingGated", "a") in steps.story


def test_a_pod_that_the_queue_has_capacity_for_and_no_node_fits_is_let_go_and_becomes_unschedulable():
    steps = Queues(queue("team", 1000), node("n", cpu=4000), made := elsewhere("a"))
    assert steps.removal("a") == PatchSpec(made.target, QueueReservation(0.0, ((0, QUEUE_GATE),), True))
    assert steps.reasons == {"a": "Unschedulable"}
    order = [type(e).__name__ for e in steps.effects]
    assert order.index("PatchSpec") < order.index("PatchStatus"), "the gate goes before the condition is written"


def test_what_was_let_go_reserves_capacity_before_and_after_it_is_observed():
    steps = Queues(queue("team", 1000), node("n", cpu=4000), elsewhere("a"), queued("b", created=1.0))
    assert steps.reasons == {"a": "Unschedulable", "b": "SchedulingGated"}
    gone_gate = replace(elsewhere("a"), gates=(), reserved_at=0.0)
    steps.see(gone_gate, queued("c", created=2.0))
    assert steps.binds == {}
    assert steps.reasons == {"c": "SchedulingGated"}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_fresh_process_counts_the_same(order):
    """D4, D12: what reserves is read from the pods alone, in whatever order they come."""
    reserving, waiting = elsewhere("a", gated=False, reserved_at="x", created=5.0), queued("b")
    objects = [reserving, waiting]
    steps = Queues(queue("team", 1000), node("n", cpu=4000), *(objects[each] for each in order))
    assert steps.binds == {}
    assert steps.reasons == {"a": "Unschedulable", "b": "SchedulingGated"}


def test_a_node_that_comes_is_for_the_pod_that_reserves():
    steps = Queues(queue("team", 1000), node("n", cpu=4000), elsewhere("a"), queued("b", created=1.0))
    steps.see(node("gpu-1", cpu=1000, labels={"gpu": "yes"}))
    steps.later(20.0)
    assert steps.bound == {"a": "gpu-1"}


def test_capacity_comes_back_when_the_pod_that_reserves_is_deleted():
    steps = Queues(queue("team", 1000), node("n", cpu=4000), made := elsewhere("a"), queued("b", created=1.0))
    steps.later(20.0, Gone(made.key, made.uid))
    steps.later(20.0)
    assert steps.bound == {"b": "n"}


def test_when_usage_goes_away_the_next_one_in_the_queue_starts():
    old = bound(queued("old", gates=()), "n")
    steps = Queues(queue("team", 1000), node("n", cpu=4000), old, queued("a"), queued("b", created=1.0))
    steps.later(20.0, Gone(old.key, old.uid))
    assert steps.binds == {"a": "n"}


def test_d2_reservations_beyond_the_capability_do_not_block_each_other():
    """Two pods were let go for one place: the first in order goes on and the other waits."""
    steps = Queues(
        queue("team", 1000),
        node("n", cpu=4000),
        elsewhere("a", gated=False, created=1.0),
        elsewhere("b", gated=False, created=2.0),
    )
    assert steps.reasons == {"a": "Unschedulable", "b": "SchedulingGated"}
    steps.see(node("gpu-1", cpu=4000, labels={"gpu": "yes"}))
    steps.later(20.0)
    assert steps.bound == {"a": "gpu-1"}


def test_d2_after_the_first_of_them_is_gone_the_next_is_unschedulable():
    first = elsewhere("a", gated=False, created=1.0)
    second = elsewhere("b", gated=False, created=2.0)
    steps = Queues(queue("team", 1000), node("n", cpu=4000), first, second)
    steps.later(20.0, Gone(first.key, first.uid))
    assert steps.reasons == {"b": "Unschedulable"}


@pytest.mark.parametrize("resource", ["cpu", "example.com/gpu"])
def test_d3_quota_does_not_depend_on_the_size_of_the_cluster(resource):
    """The cluster is full, or has none of the resource at all: the pod is let go so that an autoscaler brings it."""
    made = queued("a")
    made = replace(made, shape=replace(made.shape, requests=amounts(**{resource: 2000})))
    limit = amounts(**{resource: 100_000})
    steps = Queues(queue("team", capability=limit), node("n", cpu=1000), made)
    assert steps.let_go == ["a"]
    assert steps.reasons == {"a": "Unschedulable"}
    assert Queues(queue("team", capability=limit), made).let_go == ["a"], "nor on there being any node"


SIBLINGS = queue("org", 1000), queue("one", None, "org"), queue("two", None, "org")
"""Two queues that share what the one above them has."""


@pytest.mark.parametrize(
    "before, then",
    [
        pytest.param([], [elsewhere("a", of="one"), elsewhere("b", of="two", created=1.0)], id="in one step"),
        pytest.param([elsewhere("a", of="one")], [elsewhere("b", of="two", created=1.0)], id="one after the other"),
        pytest.param(
            [elsewhere("a", of="one", gated=False)], [elsewhere("b", of="two", created=1.0)], id="to a fresh process"
        ),
    ],
)
def test_d5_reservations_count_at_every_level(before, then):
    steps = Queues(*SIBLINGS, node("n", cpu=4000), *before)
    steps.see(*then)
    assert "b" not in steps.let_go
    assert steps.reasons["b"] == "SchedulingGated"
    assert "queue org above queue two has cpu 1" in steps.messages["b"]


def test_d8_a_pod_of_higher_priority_displaces_a_reservation():
    low = elsewhere("low", gated=False)
    steps = Queues(queue("team", 1000), node("n", cpu=4000), low)
    assert steps.reasons == {"low": "Unschedulable"}
    steps.later(20.0, *()).see(elsewhere("high", priority=10, created=9.0))
    assert steps.let_go == ["high"]
    assert steps.reasons == {"high": "Unschedulable", "low": "SchedulingGated"}


def test_d8_a_pod_of_higher_priority_that_fits_a_node_goes_there_at_once():
    steps = Queues(queue("team", 1000), node("n", cpu=4000), elsewhere("low", gated=False))
    steps.see(queued("high", priority=10, created=9.0))
    assert steps.binds == {"high": "n"}
    assert steps.reasons == {"low": "SchedulingGated"}


def test_pods_of_equal_priority_displace_nobody():
    steps = Queues(queue("team", 1000), node("n", cpu=4000), elsewhere("young", gated=False, created=9.0))
    steps.see(queued("old", created=1.0))
    assert steps.binds == {}
    assert steps.reasons == {"old": "SchedulingGated"}


def test_d9_a_pod_that_requests_nothing_is_let_go_too():
    steps = Queues(queue("team", 0), node("n"), queued("a", 0))
    assert steps.binds == {"a": "n"}
    assert Queues(queue("team", 0), elsewhere("b", 0)).let_go == ["b"]


def test_gates_of_others_come_first_and_such_a_pod_counts_for_nothing():
    held = queued("a", gates=("example.com/theirs", QUEUE_GATE))
    steps = Queues(queue("team", 1000), node("n", cpu=4000), held)
    assert (steps.binds, steps.let_go) == ({}, [])
    assert steps.messages == {"a": "Scheduling is blocked due to non-empty scheduling gates"}
    steps.see(queued("b", created=1.0))
    assert steps.binds == {"b": "n"}, "a gate of somebody else keeps no capacity"


def test_ours_goes_when_it_is_the_last():
    held = queued("a", gates=("example.com/theirs", QUEUE_GATE))
    steps = Queues(queue("team", 1000), node("n", cpu=4000), held)
    steps.see(queued("a"))
    assert steps.binds == {"a": "n"}


def test_a_gate_without_its_annotation_is_a_gate_all_the_same():
    steps = Queues(node("n", cpu=4000), pod("a", gates=(QUEUE_GATE,)))
    assert steps.binds == {"a": "n"}


def test_pods_that_did_not_ask_for_the_gate_count_and_are_limited_as_volcano_does():
    plain = {"annotations": {"scheduling.volcano.sh/queue-name": "team"}}
    steps = Queues(queue("team", 1000), node("n", cpu=4000), pod("a", 1000, **plain))
    assert steps.binds == {"a": "n"}
    steps.see(pod("b", 1000, **plain), queued("c"))
    assert steps.binds == {}
    assert steps.reasons == {"b": "Unschedulable", "c": "SchedulingGated"}


def test_pods_outside_queues_are_not_concerned():
    steps = Queues(queue("root", 0, ""), queue("default", 0), node("n", cpu=4000), pod("a", 1000))
    assert steps.binds == {"a": "n"}


@pytest.mark.parametrize(
    "queues, said",
    [
        pytest.param([], "waiting for its queue: queue team does not exist", id="no such queue"),
        pytest.param([queue("team", 9, "gone")], "waiting for its queue: queue gone does not exist", id="no parent"),
        pytest.param(
            [queue("team", 9000, state=QueueState.CLOSED)],
            "waiting for queue team to be open: it is Closed",
            id="a closed queue",
        ),
    ],
)
def test_a_queue_that_takes_no_pods(queues, said):
    steps = Queues(node("n", cpu=4000), *queues, queued("a"))
    assert (steps.binds, steps.let_go) == ({}, [])
    assert steps.messages == {"a": said}
    steps.later(20.0).see(queue("team", 9000, version="2", state=QueueState.OPEN))
    steps.later(20.0)
    assert steps.bound == {"a": "n"}


@pytest.mark.parametrize(
    "queues",
    [
        pytest.param([queue("team", capability=amounts(**{"deviceclass/gpu": 4}))], id="its own queue"),
        pytest.param(
            [queue("org", capability=amounts(**{"deviceclass/gpu": 4})), queue("team", None, "org")], id="one above"
        ),
    ],
)
def test_d6_a_queue_that_limits_devices_takes_no_pod_that_claims_some(queues):
    """Nothing counts devices of claims: such a limit is kept by letting none go, and the pod says why."""
    claim = ClaimName(Kind.DEVICE_CLAIM, "gpus")
    made = queued("a")
    made = replace(made, shape=replace(made.shape, claims=(claim,)))
    steps = Queues(*queues, node("n", cpu=4000), made, queued("b", created=1.0))
    assert (steps.binds, steps.let_go) == ({"b": "n"}, [])
    assert steps.reasons == {"a": "SchedulingGated"}
    said = (
        f"waiting for its queue: queue {queues[0].name} limits deviceclass/gpu, and devices of resource claims are not"
    )
    assert steps.messages["a"].startswith(said)
    steps.later(20.0).see(replace(queues[0], capability=amounts(4000), version="2"))
    assert "resourceclaim" in steps.messages["a"], "without the limit its claim decides"


def test_a_pod_that_names_no_queue_is_in_the_default_one_which_need_not_be_there():
    steps = Queues(node("n", cpu=4000), queued("a", of=""))
    assert steps.binds == {"a": "n"}
    steps = Queues(queue("default", 0), node("n", cpu=4000), queued("a", of=""))
    assert steps.reasons == {"a": "SchedulingGated"}


def test_a_pod_moves_to_another_queue():
    steps = Queues(queue("full", 0), queue("free", 1000), node("n", cpu=4000), queued("a", of="full"))
    assert steps.reasons == {"a": "SchedulingGated"}
    steps.later(20.0).see(queued("a", of="free"))
    assert steps.binds == {"a": "n"}


def test_a_fifo_queue_lets_nobody_past_the_first():
    big, small = queued("big", 2000, created=1.0), queued("small", 500, created=2.0)
    traversed = Queues(queue("team", 1000), node("n", cpu=4000), big, small)
    assert traversed.binds == {"small": "n"}
    steps = Queues(queue("team", 1000, dequeue=DequeueStrategy.FIFO), node("n", cpu=4000), big, small)
    assert steps.binds == {}
    assert steps.messages["small"] == "waiting behind default/big, the first in queue team"
    steps.later(20.0, Gone(big.key, big.uid))
    assert steps.binds == {"small": "n"}


def test_what_was_answered_to_one_pod_holds_back_nobody_else_in_a_batch():
    """Pods of no queue, equal to those of a full one, are placed between them."""
    full = [queued(f"q{n}", 100, created=float(2 * n)) for n in range(3)]
    free = [pod(f"x{n}", 100, created=float(2 * n + 1)) for n in range(3)]
    steps = Queues(queue("team", 0), node("n", cpu=4000), *full, *free)
    assert set(steps.binds) == {"x0", "x1", "x2"}
    assert set(steps.reasons) == {"q0", "q1", "q2"}


# gangs


def test_d7_a_gang_is_let_go_as_a_whole_or_not_at_all():
    members = [grouped(f"m{n}", created=float(n)) for n in range(3)]
    short = Queues(queue("team", 2000), pod_group(members=3), node("n", cpu=100), *members)
    assert (short.binds, short.let_go) == ({}, [])
    assert set(short.reasons.values()) == {"SchedulingGated"}
    assert set(short.messages.values()) == {
        "waiting for queue capacity for 3 pods of its gang: "
        "queue team has cpu 2, and cpu 0 is in use or reserved; requested cpu 3"
    }
    enough = Queues(queue("team", 3000), pod_group(members=3), node("n", cpu=100), *members)
    assert sorted(enough.let_go) == ["m0", "m1", "m2"]
    assert enough.reasons == dict.fromkeys(["m0", "m1", "m2"], "Unschedulable")


def test_d7_a_gang_reserves_as_a_whole_or_not_at_all():
    """Its queue is made smaller: no part of the gang keeps what the gang cannot use."""
    members = [grouped(f"m{n}", created=float(n), gated=False) for n in range(3)]
    members = [replace(made, shape=replace(made.shape, node_selector=(("gpu", "yes"),))) for made in members]
    steps = Queues(queue("team", 3000), pod_group(members=3), node("n", cpu=100), *members)
    assert steps.reasons == dict.fromkeys(["m0", "m1", "m2"], "Unschedulable")
    steps.later(20.0).see(queue("team", 2000, version="2"))
    assert steps.reasons == dict.fromkeys(["m0", "m1", "m2"], "SchedulingGated")
    steps.see(elsewhere("other", 2000, created=9.0))
    assert steps.let_go == ["other"]


def test_d13_a_group_larger_than_the_cluster_is_let_go():
    members = [grouped(f"m{n}", created=float(n)) for n in range(3)]
    group = pod_group(members=3, volcano={"min_resources": amounts(3000)})
    steps = Queues(queue("team", 3000), group, node("n", cpu=100), *members)
    assert sorted(steps.let_go) == ["m0", "m1", "m2"]
    assert steps.reasons == dict.fromkeys(["m0", "m1", "m2"], "Unschedulable")


def test_of_a_gang_with_more_members_than_the_queue_allows_the_others_stay_gated():
    members = [grouped(f"m{n}", created=float(n)) for n in range(3)]
    steps = Queues(queue("team", 2000), pod_group(members=2), node("n", cpu=100), *members)
    assert sorted(steps.let_go) == ["m0", "m1"]
    assert steps.reasons == {"m0": "Unschedulable", "m1": "Unschedulable", "m2": "SchedulingGated"}


def test_a_gang_that_fits_is_bound_with_its_gates_removed():
    members = [grouped(f"m{n}", created=float(n)) for n in range(3)]
    steps = Queues(queue("team", 3000), pod_group(members=3), node("n", cpu=4000), *members)
    assert set(steps.binds) == {"m0", "m1", "m2"}
    assert sum(isinstance(e, RemoveGate) for e in steps.effects) == 3


def test_a_gang_whose_member_has_a_gate_of_somebody_else_waits_whole():
    members = [grouped("m0"), grouped("m1", gates=("example.com/theirs", QUEUE_GATE))]
    steps = Queues(queue("team", 3000), pod_group(members=2), node("n", cpu=4000), *members)
    assert (steps.binds, steps.let_go) == ({}, [])


def test_what_a_pod_group_asks_for_and_is_not_served_is_said_and_nothing_starts():
    group = pod_group(members=1, volcano={"unsupported": "spec.subGroupPolicy"})
    steps = Queues(queue("team", 3000), group, node("n", cpu=4000), grouped("m0"))
    assert steps.binds == {}
    assert steps.messages == {"m0": "PodGroup default/train has spec.subGroupPolicy, which is not served"}


# writes


def test_a_removal_whose_answer_is_lost_is_sent_again_and_counts_meanwhile():
    steps = Queues(queue("team", 1000), elsewhere("a"), node("n", cpu=4000))
    removal = steps.removal("a")
    steps.step(Outcome(removal, WriteError.UNKNOWN)).see(queued("b", created=1.0))
    assert steps.reasons == {"b": "SchedulingGated"}
    steps.later(2.0, TimerFired("scheduling"))
    assert steps.removal("a") == removal
    steps.step(Outcome(removal, WriteError.CONFLICT)).see(queued("c", created=2.0))
    assert steps.binds == {}, "the first try may have been accepted"


def test_while_a_removal_is_not_answered_others_are_let_go_and_bound_and_it_is_not_sent_again():
    steps = Queues(queue("team", 2000), queue("other", 1000), elsewhere("a"), node("n", cpu=4000))
    assert steps.let_go == ["a"]
    steps.see(elsewhere("b", created=1.0), queued("c", of="other", created=2.0))
    assert (steps.let_go, steps.binds) == (["b"], {"c": "n"})


def test_a_removal_that_is_refused_leaves_the_pod_gated_and_is_tried_again():
    steps = Queues(queue("team", 1000), elsewhere("a"))
    steps.step(Outcome(steps.removal("a"), WriteError.REFUSED))
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.let_go == ["a"]


@pytest.mark.parametrize("now", [0.0, 10_000.0], ids=["of a pod just made", "of one that waited long"])
def test_a_binding_that_fails_after_the_gate_was_removed_leaves_a_reservation(now):
    steps = Queues()
    steps.now = now
    steps.see(queue("team", 1000), node("n", cpu=4000), queued("a"))
    bind = steps.only(Bind)
    steps.step(Outcome(bind, WriteError.REFUSED)).see(queued("a", gates=()), queued("b", created=1.0))
    assert steps.reasons.get("b") == "SchedulingGated"
    assert steps.removal("a").change == QueueReservation(now, (), True)
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.binds == {"a": "n"}


def test_a_pod_that_reserves_keeps_its_capacity_when_its_binding_fails():
    made = replace(queued("a", gates=()), reserved_at=0.0)
    steps = Queues(queue("team", 1000), node("n", cpu=4000), made, queued("b", created=1.0))
    steps.step(Outcome(steps.only(Bind), WriteError.CONFLICT))
    assert steps.bound == {"a": "n"}, "nobody else takes its place while it backs off"
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.binds == {"a": "n"}


def test_d16_with_the_feature_off_every_gate_is_removed_also_beside_those_of_others():
    off = Settings(volcano=VolcanoSettings(gates=False))
    held = queued("b", gates=("example.com/theirs", QUEUE_GATE))
    steps = Queues(queue("team", 0), queued("a"), held, settings=off)
    assert [(e.target.key.name, e.change.gates) for e in steps.effects if isinstance(e, PatchSpec)] == [
        ("a", ((0, QUEUE_GATE),)),
        ("b", ((1, QUEUE_GATE),)),
    ]
    steps.see(queued("a", gates=()), replace(held, gates=("example.com/theirs",)))
    assert steps.let_go == []


@pytest.mark.parametrize("trouble", [WriteError.REFUSED, WriteError.CONFLICT])
def test_d16_with_the_feature_off_a_removal_that_is_refused_is_made_anew_after_a_back_off(trouble):
    steps = Queues(queue("team", 1000), queued("a"), settings=Settings(volcano=VolcanoSettings(gates=False)))
    steps.step(Outcome(steps.removal("a"), trouble))
    assert steps.let_go == []
    steps.see(queued("a", gates=("example.com/theirs", QUEUE_GATE)))
    assert steps.let_go == []
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.removal("a").change.gates == ((1, QUEUE_GATE),)
    steps.step(Outcome(steps.removal("a"))).see(queued("a", gates=("example.com/theirs",)))
    assert steps.let_go == []


def test_d17_a_pod_is_never_bound_while_any_gate_stays():
    steps = Queues(queue("team", 1000), node("n", cpu=4000), queued("a", gates=(QUEUE_GATE, "example.com/theirs")))
    assert steps.binds == {}


# preemption


def test_a_gated_pod_preempts_on_nodes_and_is_nominated_before_it_is_called_unschedulable():
    low = bound(pod("low", 1000), "n")
    steps = Queues(queue("team", 1000), node("n", cpu=1000), low, queued("high", priority=10))
    patches = [e.change for e in steps.effects if isinstance(e, PatchStatus) and e.target.key.name == "high"]
    assert [type(change) for change in patches] == [Nomination, PodCondition]
    assert patches[0].node == "n"
    assert steps.let_go == ["high"]


# time

TIMES = Settings(volcano=VolcanoSettings(reservation_timeout=100.0))


def reserving(at, name="a"):
    """A pod that reserves since `at`, as observed."""
    return replace(elsewhere(name, gated=False), reserved_at=at)


def test_d14_a_reservation_expires_and_others_go_on():
    steps = Queues(queue("team", 1000), node("n", cpu=4000), reserving(0.0), queued("b", created=1.0), settings=TIMES)
    assert steps.reasons == {"a": "Unschedulable", "b": "SchedulingGated"}
    steps.later(100.0, TimerFired("scheduling"))
    assert steps.binds == {"b": "n"}
    assert steps.reasons == {"a": "SchedulingGated"}


def test_d14_also_one_that_differs_in_nothing_is_let_go_when_a_reservation_expires():
    """Both are tried together: what the first one was allowed and has no use for is the other's."""
    steps = Queues(queue("team", 1000), node("n"), reserving(0.0), elsewhere("b", created=1.0), settings=TIMES)
    steps.later(100.0, TimerFired("scheduling"))
    assert steps.let_go == ["b"]
    assert steps.reasons == {"a": "SchedulingGated", "b": "Unschedulable"}


def test_an_expired_reservation_rests_before_it_is_made_again():
    steps = Queues(queue("team", 1000), node("n", cpu=4000), reserving(0.0), settings=TIMES)
    steps.later(100.0, TimerFired("scheduling"))
    assert steps.reasons == {"a": "SchedulingGated"}
    assert "no node came within 100s" in steps.messages["a"]
    steps.later(50.0, TimerFired("scheduling"))
    assert (steps.let_go, steps.reasons) == ([], {})
    steps.later(50.0, TimerFired("scheduling"))
    assert steps.reasons == {"a": "Unschedulable"}
    assert steps.removal("a").change == QueueReservation(200.0, (), True), "only the time is written again"


@pytest.mark.parametrize("now, reason", [(50.0, "Unschedulable"), (150.0, "SchedulingGated"), (250.0, "Unschedulable")])
def test_a_fresh_process_knows_whether_a_reservation_has_expired(now, reason):
    steps = Queues(settings=TIMES)
    steps.now = now
    steps.see(queue("team", 1000), node("n", cpu=4000), reserving(0.0))
    assert steps.reasons == {"a": reason}


def test_a_pod_whose_reservation_has_expired_still_gets_a_node_that_comes():
    steps = Queues(queue("team", 1000), node("n", cpu=4000), reserving(0.0), settings=TIMES)
    steps.later(100.0, TimerFired("scheduling"))
    steps.later(20.0).see(node("gpu-1", cpu=1000, labels={"gpu": "yes"}))
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.bound == {"a": "gpu-1"}


def test_a_reservation_does_not_expire_while_a_node_is_being_brought_up():
    starting = (Taint("node.kubernetes.io/not-ready", "", TaintEffect.NO_SCHEDULE),)
    steps = Queues(queue("team", 1000), reserving(0.0), settings=TIMES)
    steps.later(90.0).see(node("gpu-1", cpu=1000, taints=starting))
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.reasons == {}, "it stays unschedulable"
    steps.later(90.0, TimerFired("scheduling"))
    assert steps.removal("a").change == QueueReservation(200.0, (), True), "but not for ever: then it begins anew"


def test_a_time_that_others_wrote_into_the_future_does_not_count():
    steps = Queues(queue("team", 1000), node("n", cpu=4000), reserving(10**9), settings=TIMES)
    steps.later(100.0, TimerFired("scheduling")).see(queued("b", created=1.0))
    assert steps.binds == {"b": "n"}


def test_a_smaller_capability_takes_reservations_back_the_last_first():
    one, two = reserving(0.0, "a"), replace(reserving(0.0, "b"), created=1.0)
    steps = Queues(queue("team", 2000), node("n", cpu=4000), one, two)
    assert steps.reasons == {"a": "Unschedulable", "b": "Unschedulable"}
    steps.later(20.0).see(queue("team", 1000, version="2"))
    assert steps.reasons == {"b": "SchedulingGated"}


def test_priorities_come_from_the_pod_group():
    low, high = pod_group("low", priority_class="low"), pod_group("high", priority_class="high")
    classes = [priority_class("low", 1), priority_class("high", 9)]
    steps = Queues(
        queue("team", 1000),
        node("n", cpu=4000),
        low,
        high,
        *classes,
        grouped("a", "low", created=1.0),
        grouped("b", "high", created=2.0),
    )
    assert steps.binds == {"b": "n"}


# the cost of waiting, and what is counted


def test_d11_a_check_changes_nothing():
    """A gang that fits its queue in part only is tried again and again: nothing of it is reserved or let go."""
    members = [grouped(f"m{n}", created=float(n)) for n in range(3)]
    steps = Queues(queue("team", 2000), pod_group(members=3), node("n", cpu=100), *members)
    steps.later(20.0).see(queue("team", 2500, version="2"))
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.let_go == []
    steps.see(elsewhere("other", 2500, created=9.0))
    assert steps.let_go == ["other"], "all of the queue is free"


def test_d12_a_running_pod_that_is_evicted_reserves_nothing():
    running = bound(queued("a", gates=()), "n")
    steps = Queues(queue("team", 1000), node("n", cpu=4000), running, queued("b", created=1.0))
    steps.later(20.0).see(replace(running, deleted=50.0))
    assert steps.bound == {}, "it uses the queue until it is gone"
    steps.later(20.0, Gone(running.key, running.uid))
    assert steps.bound == {"b": "n"}


def test_d14_metrics_tell_what_is_gated_reserved_and_let_go():
    steps = Queues(queue("team", 1000), node("n", cpu=4000), elsewhere("a"), queued("b", created=1.0))
    assert steps.number("headgate_queue_reserved_pods", queue="team") == 1
    assert steps.number("headgate_queue_waiting_pods", queue="team") == 1
    assert steps.number("headgate_queue_gates_removed_total") == 1


def test_d15_ten_thousand_gated_pods_cost_nothing_when_others_come_and_go():
    """Of ten thousand pods that wait for one queue only one is looked at when others come and go."""
    full = bound(queued("old", gates=()), "n")
    crowd = [queued(f"p{n}", created=float(n + 1)) for n in range(10_000)]
    steps = Queues(queue("team", 1000), queue("other", 9000), node("n", cpu=64_000, pods=200), full, *crowd)
    steps.to_the_end()
    checks = []
    stage = steps.engine._planes[0]._queue_capacity
    asked = stage.check
    stage.check = lambda pods, needed: checks.extend(pods) or asked(pods, needed)
    for number in range(5):
        steps.later(20.0).see(queued(f"x{number}", of="other", created=float(number)))
    assert {each.key.name for each in checks} == {f"x{number}" for number in range(5)}
    steps.later(20.0, Gone(full.key, full.uid))
    assert steps.bound["p0"] == "n"
    assert len(checks) <= 5 + 2


def test_d15_what_is_reserved_is_not_added_up_again_for_other_pods():
    """Reservations are looked at anew when something changes that could end one, not for every pod that comes."""
    crowd = [elsewhere(f"p{n}", gated=False, created=float(n)) for n in range(300)]
    steps = Queues(queue("team", 300_000), queue("other", 9000), node("n", cpu=64_000, pods=200), *crowd)
    stage = steps.engine._planes[0]._queue_capacity
    assert len(stage.in_force) == 300
    added, reserve = [], stage.reservations.reserve
    stage.reservations.reserve = lambda each: added.append(each) or reserve(each)
    for number in range(5):
        steps.later(20.0).see(made := queued(f"x{number}", of="other", created=float(number)))
        steps.later(20.0, Gone(made.key, made.uid))
    assert steps.bound == {f"x{number}": "n" for number in range(5)}
    assert added == []
