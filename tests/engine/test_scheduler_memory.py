"""What the scheduler plane keeps by name is dropped with its last user: it holds as much after as before."""

import pytest
from builders import bound, gang, member, node, pod, workload
from steps import Steps

from headgate.model.cluster_events import ClusterEvent
from headgate.model.effects import Bind, Evict, PatchStatus
from headgate.model.events import Gone, Observed, Outcome, WriteError
from headgate.model.keys import Key, Kind
from headgate.model.pod import GroupKey
from headgate.queueing.backoff import Backoff
from headgate.queueing.queue import MOST_STALE, PodQueue

RULES = ("headgate.engine", "headgate.queueing")


def kept(thing, seen=None):
    """How many elements are in the collections reachable from the thing, as far as its own packages go."""
    seen = {} if seen is None else seen
    if id(thing) in seen:
        return 0
    seen[id(thing)] = thing
    if isinstance(thing, dict):
        return len(thing) + sum(kept(each, seen) for each in thing.values())
    if isinstance(thing, list | tuple | set | frozenset):
        return len(thing) + sum(kept(each, seen) for each in thing)
    if type(thing).__module__.startswith(RULES) and hasattr(thing, "__dict__"):
        return sum(kept(each, seen) for each in vars(thing).values())
    return 0


def scheduler(steps):
    return steps.engine._planes[-1]


def gone(*objects):
    return [Gone(each.key, each.uid) for each in objects]


def come_and_go(steps, *objects):
    """All of them come, are bound, answered and seen, or refused, and are gone again."""
    steps.step(*(Observed(each) for each in objects))
    for _ in range(4):
        answers = [Outcome(each) for each in steps.effects if isinstance(each, Bind | PatchStatus | Evict)]
        binds = {each.target.key: each.node for each in steps.effects if isinstance(each, Bind)}
        seen = [Observed(bound(each, binds[each.key])) for each in objects if each.key in binds]
        steps.later(1.0, *answers, *seen)
    steps.step(*gone(*objects))
    steps.later(400.0)
    steps.later(400.0)
    steps.engine.journal.take()


def waves(number):
    name = f"wave-{number}"
    group = GroupKey(Key(Kind.VOLCANO_POD_GROUP, "default", name), "")
    yield "pods that are bound", [pod(f"{name}-{each}") for each in range(3)]
    yield "pods that no node fits", [pod(f"{name}-{each}", cpu=9000 + number) for each in range(3)]
    yield "gated pods", [pod(name, gates=(f"example.com/{name}",))]
    members = [member(f"{name}-{each}", of=name) for each in range(2)]
    yield "a gang", [workload(name, gang(2)), *members]
    yield (
        "a gang that no node fits",
        [workload(name, gang(2)), *(member(f"{name}-{each}", of=name, cpu=9000) for each in (1, 2))],
    )
    yield "a gang without an object", [pod(f"{name}-{each}", group=group, group_total=2) for each in range(2)]
    yield (
        "a preemptor and its victims",
        [bound(pod(f"{name}-low", cpu=1000, priority=0), "n"), pod(f"{name}-high", cpu=1000, priority=9)],
    )
    yield (
        "a gang without an object that preempts",
        [
            bound(pod(f"{name}-low", cpu=1000, priority=0), "n"),
            *(pod(f"{name}-{each}", cpu=400, group=group, group_total=2, priority=9) for each in range(2)),
        ],
    )


@pytest.mark.parametrize("kind", [name for name, _ in waves(0)])
def test_nothing_is_kept_of_what_came_and_went(kind):
    steps = Steps(node("n", cpu=1000))
    sizes = []
    for number in range(12):
        come_and_go(steps, *dict(waves(number))[kind])
        sizes.append(kept(scheduler(steps)))
    assert len(set(sizes[4:])) == 1, sizes


def test_nothing_is_kept_of_bindings_that_failed():
    steps = Steps(node("n", cpu=1000))
    sizes = []
    for number in range(12):
        steps.see(pod(f"p{number}"))
        steps.step(Outcome(steps.only(Bind), (WriteError.UNKNOWN, WriteError.REFUSED, WriteError.GONE)[number % 3]))
        steps.step(*gone(pod(f"p{number}")))
        steps.later(400.0)
        steps.later(400.0)
        steps.engine.journal.take()
        sizes.append(kept(scheduler(steps)))
    assert len(set(sizes[4:])) == 1, sizes


def test_equal_pods_that_come_and_go_leave_nothing_with_the_one_that_stays():
    queue = PodQueue(Backoff(1.0, 10.0))
    sizes = []
    for number in range(30 * MOST_STALE):
        one = pod(f"p{number}")
        queue.add(one)
        info = queue.pop()
        queue.set_equivalence(info, "equal")
        queue.add_unschedulable(info, frozenset({ClusterEvent.ROOM_FREED}), 0.0)
        if number:
            queue.delete(one.key)
        sizes.append(kept(queue))
    assert max(sizes) < 10 * MOST_STALE


def test_pods_that_are_added_and_deleted_before_their_turn_leave_nothing_in_the_active_queue():
    queue = PodQueue(Backoff(1.0, 10.0))
    sizes = []
    for number in range(30 * MOST_STALE):
        queue.add(pod(f"p{number}"))
        queue.delete(pod(f"p{number}").key)
        sizes.append(kept(queue))
    assert max(sizes) < 10 * MOST_STALE
