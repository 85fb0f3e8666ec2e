"""Whose turn it is, who waits for what, and which happening wakes whom."""

import pytest
from builders import pod, pod_key, shape
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.cluster_events import ClusterEvent
from headgate.queueing.backoff import Backoff
from headgate.queueing.queue import PodQueue, QueueName, same_verdicts

ROOM = frozenset({ClusterEvent.ROOM_FREED})


def queue_of(*pods):
    queue = PodQueue(Backoff(1.0, 10.0))
    for one in pods:
        queue.add(one)
    return queue


def popped(queue):
    names = []
    while (info := queue.pop()) is not None:
        names.append(info.pod.key.name)
        queue.done(info)
    return names


def refuse_all(queue, now=0.0, wake_on=ROOM):
    while (info := queue.pop()) is not None:
        refuse(queue, info, now, wake_on)


def refuse(queue, info, now, wake_on=ROOM):
    info.equivalence = info.pod.shape
    queue.add_unschedulable(info, wake_on, now)


@pytest.mark.parametrize(
    "pods, order",
    [
        pytest.param([pod("a", created=2.0), pod("b", created=1.0)], ["b", "a"], id="older first"),
        pytest.param(
            [pod("a", created=1.0), pod("b", created=2.0, priority=5)], ["b", "a"], id="higher priority before older"
        ),
        pytest.param([pod("b"), pod("a")], ["a", "b"], id="by name when all else is equal"),
        pytest.param([pod("a", priority=-1), pod("b")], ["b", "a"], id="negative priorities come last"),
    ],
)
def test_the_next_pod_is(pods, order):
    assert popped(queue_of(*pods)) == order


def test_a_withdrawn_pod_is_not_handed_out():
    queue = queue_of(pod("a"), pod("b"))
    queue.delete(pod_key("a"))
    assert popped(queue) == ["b"]


def test_a_gated_pod_is_on_record_but_never_handed_out():
    queue = queue_of()
    queue.add_gated(pod("a", gates=("g",)))
    queue.wake(ClusterEvent, now=99.0)
    queue.flush_backoff(now=99.0)
    assert queue.queue_of(pod_key("a")) is QueueName.GATED
    assert popped(queue) == []


def test_a_pod_whose_gates_are_gone_is_handed_out():
    queue = queue_of()
    queue.add_gated(pod("a", gates=("g",)))
    queue.add(pod("a"))
    assert popped(queue) == ["a"]


def test_a_refused_pod_waits_for_its_own_happening():
    queue = queue_of(pod("a"))
    refuse_all(queue)
    queue.wake([ClusterEvent.NODE_ADDED], now=60.0)
    assert queue.queue_of(pod_key("a")) is QueueName.UNSCHEDULABLE
    queue.wake([ClusterEvent.ROOM_FREED], now=60.0)
    assert popped(queue) == ["a"]


def test_of_many_alike_one_goes_to_see_and_its_refusal_spares_the_rest():
    queue = queue_of(*(pod(f"p{i}") for i in range(100)))
    refuse_all(queue)
    queue.wake(ROOM, now=60.0)
    assert queue.sizes[QueueName.ACTIVE] == 1
    refuse_all(queue, now=60.0)
    assert queue.sizes == {QueueName.ACTIVE: 0, QueueName.BACKOFF: 0, QueueName.UNSCHEDULABLE: 100, QueueName.GATED: 0}


def test_of_many_alike_each_success_sends_the_next():
    queue = queue_of(*(pod(f"p{i}") for i in range(10)))
    refuse_all(queue)
    queue.wake(ROOM, now=60.0)
    assert popped(queue) == [f"p{i}" for i in range(10)]


def test_nobody_is_tried_together_with_a_probe_before_those_it_was_sent_for():
    """Otherwise an equal pod of another class would take the place of an older one that waits behind the probe."""
    queue = queue_of(pod("a", created=1.0), pod("b", created=2.0))
    refuse_all(queue)
    queue.wake(ROOM, 20.0)
    queue.add(pod("late", created=3.0))
    first = queue.pop()
    assert [each.pod.key.name for each in queue.pop_with(first, 10, same_verdicts)] == ["a"]
    queue.done(first)
    assert popped(queue) == ["b", "late"]


def test_a_scout_that_is_deleted_is_replaced():
    queue = queue_of(pod("a"), pod("b"))
    refuse_all(queue)
    queue.wake(ROOM, now=60.0)
    queue.delete(pod_key("a"))
    queue.flush_backoff(now=60.0)
    assert popped(queue) == ["b"]


def test_pods_of_other_shapes_are_woken_side_by_side():
    queue = queue_of(pod("small", cpu=1), pod("large", cpu=2))
    refuse_all(queue)
    queue.wake(ROOM, now=60.0)
    assert popped(queue) == ["large", "small"]


def test_a_pod_that_is_refused_again_and_again_rests_longer_each_time_up_to_the_limit():
    queue, now, rests = queue_of(pod("a")), 0.0, []
    for _ in range(6):
        refuse_all(queue, now)
        queue.wake(ROOM, now)
        rests.append(queue.next_deadline() - now)
        now = queue.next_deadline()
        queue.flush_backoff(now)
    assert rests == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_after_a_long_rest_refusals_are_counted_anew():
    """Otherwise who has waited long would back off longer than who came just now, and be passed by it."""
    queue = queue_of(pod("a"))
    for now in (0.0, 1.0, 3.0):
        refuse_all(queue, now)
        queue.wake(ROOM, now)
        queue.flush_backoff(queue.next_deadline())
    queue.add(pod("late", cpu=2))
    refuse_all(queue, 30.0)
    queue.wake(ROOM, 30.0)
    queue.flush_backoff(31.0)
    assert popped(queue) == ["a", "late"]


def test_newcomers_do_not_prolong_the_rest_of_those_before():
    queue = queue_of(pod("a"))
    refuse_all(queue, now=0.0)
    queue.add(pod("b"))
    refuse_all(queue, now=0.9)
    queue.wake(ROOM, now=1.0)
    assert queue.queue_of(pod_key("a")) is QueueName.ACTIVE


def test_trouble_sends_a_pod_to_rest_and_back():
    queue = queue_of(pod("a"))
    info = queue.pop()
    queue.done(info)
    queue.add_backoff(info, now=5.0)
    assert queue.queue_of(pod_key("a")) is QueueName.BACKOFF
    queue.flush_backoff(now=5.9)
    assert queue.pop() is None
    queue.flush_backoff(now=6.0)
    assert popped(queue) == ["a"]


def test_a_status_change_does_not_disturb_a_parked_pod():
    queue = queue_of(pod("a"))
    refuse_all(queue)
    queue.add(pod("a", annotations={"note": "seen"}))
    assert queue.queue_of(pod_key("a")) is QueueName.UNSCHEDULABLE


def test_a_new_toleration_gets_a_parked_pod_tried_at_once():
    queue = queue_of(pod("a"))
    refuse_all(queue)
    queue.add(pod("a", shape=shape(100, node_selector=(("zone", "a"),))))
    assert popped(queue) == ["a"]


actions = st.lists(
    st.tuples(
        st.sampled_from(["offer", "hold", "withdraw", "refuse", "place", "fail", "wake", "ripen"]),
        st.integers(0, 5),
        st.integers(0, 2),
    ),
    max_size=80,
)


@given(actions)
def test_every_pod_stands_in_one_line_and_the_sizes_add_up(history):
    queue, expected = queue_of(), set()
    for now, (action, who, kind) in enumerate(history):
        name = f"p{who}"
        match action:
            case "offer":
                queue.add(pod(name, cpu=kind + 1))
                expected.add(name)
            case "hold":
                queue.add_gated(pod(name, cpu=kind + 1, gates=("g",)))
                expected.add(name)
            case "withdraw":
                queue.delete(pod_key(name))
                expected.discard(name)
            case "wake":
                queue.wake([list(ClusterEvent)[kind]], float(now))
            case "ripen":
                queue.flush_backoff(float(now))
            case _:
                _settle(queue, action, float(now), expected)
        assert sum(queue.sizes.values()) == len(expected)
        assert all(pod_key(one) in queue for one in expected)


def _settle(queue, action, now, expected):
    info = queue.pop()
    if info is None:
        return
    if action in ("refuse", "fail"):
        _settle_with(queue, action, info, now)
    else:
        queue.done(info)
        expected.discard(info.pod.key.name)


def _settle_with(queue, action, info, now):
    if action == "fail":
        queue.add_backoff(info, now)
    else:
        refuse(queue, info, now)


@given(actions)
def test_nobody_is_left_behind_when_room_comes_and_stays(history):
    """Liveness: whatever happened before, once everything fits every ungated pod is handed out."""
    queue, expected = queue_of(), {}
    for now, (action, who, kind) in enumerate(history):
        name = f"p{who}"
        if action == "offer":
            queue.add(pod(name, cpu=kind + 1))
            expected[name] = None
        elif action == "withdraw":
            queue.delete(pod_key(name))
            expected.pop(name, None)
        elif action == "wake":
            queue.wake(ROOM, float(now))
        elif action in ("refuse", "fail") and (info := queue.pop()) is not None:
            _settle_with(queue, action, info, float(now))
    out = []
    queue.wake(ROOM, 1000.0)
    for later in (1000.0, 2000.0, 3000.0):
        queue.flush_backoff(later)
        out += popped(queue)
    assert sorted(out) == sorted(expected)


def test_no_number_of_failures_is_too_many():
    assert Backoff(1.0, 10.0).after(10_000) == 10.0
