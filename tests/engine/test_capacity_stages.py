"""A stage between choosing and placing may say "not now, because": for a pod, for equal pods and for a gang."""

from collections import Counter

import pytest
from builders import bound, gang, member, node, pod, workload
from steps import turned_on

from headgate.engine.journal import Journal
from headgate.engine.scheduler.capacity import CapacityStages, DeferredEntry, NotNow
from headgate.engine.scheduler.choose import Batch
from headgate.engine.scheduler.plane import SchedulerPlane
from headgate.gates.pre_enqueue import PRE_ENQUEUE
from headgate.model.cluster_events import ClusterEvent
from headgate.model.effects import Bind, EmitEvent, PatchStatus, PodCondition
from headgate.model.events import Gone, Observed
from headgate.model.settings import Settings
from headgate.queueing.queue import QueuedPodInfo


class PodLimit:
    """At most so many pods of one label run at a time."""

    name = "PodLimit"

    def __init__(self, limit):
        self.limit = limit
        self.running = {}

    def check(self, pods, needed):
        used = Counter(self.running.values())
        for allowed, each in enumerate(pods):
            queue = each.labels.get("queue", "")
            if used[queue] >= self.limit:
                numbers = {"limit": self.limit, "running": len(self.running)}
                said = f'queue "{queue}" has {self.limit} pods at most'
                return NotNow("QueueCapacity", said, frozenset({ClusterEvent.ROOM_FREED}), numbers, allowed, queue)
            used[queue] += 1
        return None

    def charge(self, pod):
        self.running[pod.key] = pod.labels.get("queue", "")

    def release(self, pod):
        self.running.pop(pod, None)


class Plane:
    """The scheduler plane with such a stage, driven by hand."""

    def __init__(self, *stages):
        self.journal = Journal()
        settings = turned_on(Settings(), PRE_ENQUEUE)
        self.plane = SchedulerPlane(settings, PRE_ENQUEUE, self.journal, capacity=stages)
        self.now = 0.0

    def step(self, *events):
        effects = [effect for event in events for effect in self.plane.absorb(event, self.now)]
        effects += self.plane.decide(self.now)
        self.plane.check()
        self.now += 100.0  # beyond any back-off
        self.entries = [entry for entry in self.journal.take() if entry.decision == "wait"]
        self.binds = {each.target.key.name: each.node for each in effects if isinstance(each, Bind)}
        self.conditions = {
            each.target.key.name: (each.change.reason, each.change.message)
            for each in effects
            if isinstance(each, PatchStatus) and isinstance(each.change, PodCondition)
        }
        self.events = [each.reason for each in effects if isinstance(each, EmitEvent)]
        return self

    def see(self, *objects):
        return self.step(*(Observed(each) for each in objects))


NOT_NOW = ("QueueCapacity", 'queue "" has 1 pods at most')


def test_a_refused_pod_says_why_in_journal_and_condition_and_is_woken_by_what_the_stage_names():
    plane = Plane(PodLimit(1))
    plane.see(node("n"), bound(pod("old"), "n"), pod("a"))
    assert plane.binds == {}
    assert plane.conditions == {"a": NOT_NOW}
    assert plane.events == ["FailedScheduling"]
    (entry,) = plane.entries
    assert (entry.key.name, entry.reason) == ("a", "QueueCapacity")
    assert entry.numbers == {"limit": 1, "running": 1, "stage": "PodLimit", "profile": "headgate"}
    assert plane.see(node("m")).binds == {}, "a node is not what it waits for"
    assert plane.entries == [], "and it was not even tried"
    plane.step(Gone(pod("old").key, pod("old").uid))
    assert set(plane.binds) == {"a"}


def test_of_equal_pods_as_many_are_placed_as_the_stage_allows():
    plane = Plane(PodLimit(3))
    plane.see(node("n", cpu=10_000), *(pod(f"p{number}") for number in range(10)))
    assert set(plane.binds) == {"p0", "p1", "p2"}
    assert set(plane.conditions) == {f"p{number}" for number in range(3, 10)}
    plane.see(*(bound(pod(name), "n") for name in ("p0", "p1", "p2")))
    plane.step(Gone(pod("p1").key, pod("p1").uid))
    assert set(plane.binds) == {"p3"}


def test_equal_pods_that_the_stage_counts_apart_do_not_hold_back_one_another():
    plane = Plane(PodLimit(1))
    pods = [pod(f"p{number}", labels={"queue": "ab"[number % 2]}) for number in range(6)]
    plane.see(node("n", cpu=10_000), *pods)
    assert set(plane.binds) == {"p0", "p1"}


def test_of_pods_that_differ_in_amounts_as_many_are_placed_as_the_stage_allows():
    plane = Plane(PodLimit(2))
    plane.see(node("n", cpu=10_000), *(pod(f"p{number}", cpu=100 + number) for number in range(6)))
    assert set(plane.binds) == {"p0", "p1"}


def test_a_gang_is_refused_whole_and_starts_when_the_stage_allows_enough_of_it():
    plane = Plane(stage := PodLimit(2))
    members = [member(f"w{number}") for number in range(3)]
    plane.see(node("n", cpu=10_000), workload("train", gang(3)), *members)
    assert plane.binds == {}
    assert set(plane.conditions) == {"w0", "w1", "w2"}
    assert {entry.reason for entry in plane.entries} == {"QueueCapacity"}
    stage.limit = 3
    plane.see(bound(pod("other", scheduler_name="theirs"), "n"))
    plane.step(Gone(pod("other").key, pod("other").uid))
    assert set(plane.binds) == {"w0", "w1", "w2"}


def test_of_a_gang_with_more_members_than_needed_so_many_start_as_the_stage_allows():
    plane = Plane(PodLimit(3))
    members = [member(f"w{number}") for number in range(5)]
    plane.see(node("n", cpu=10_000), workload("train", gang(2)), *members)
    assert len(plane.binds) == 3


def test_a_pod_that_the_stage_refuses_preempts_nobody():
    plane = Plane(PodLimit(1))
    plane.see(node("n", cpu=100), bound(pod("low", priority=0), "n"), pod("high", priority=10))
    assert plane.conditions == {"high": NOT_NOW}
    assert plane.binds == {}


@pytest.mark.parametrize("history", ["assumed", "observed"])
def test_what_a_stage_counts_does_not_depend_on_the_history(history):
    plane = Plane(PodLimit(1))
    if history == "assumed":
        plane.see(node("n"), pod("a"))
    plane.see(node("n"), bound(pod("a"), "n"), pod("b"))
    assert plane.conditions == {"b": NOT_NOW}


def test_without_stages_a_batch_passes_as_it_is():
    batch = Batch([QueuedPodInfo(pod("a")), QueuedPodInfo(pod("b"))])
    (passed,) = CapacityStages(()).run(batch)
    assert passed is batch


def test_of_several_stages_the_one_that_allows_the_fewest_decides():
    one, two = PodLimit(2), PodLimit(1)
    two.name = "Tighter"
    infos = [QueuedPodInfo(pod(name)) for name in "abc"]
    stages = CapacityStages((one, two))
    parts = stages.run(Batch(infos, equal=True))
    first = next(parts)
    assert isinstance(first, Batch)
    assert first.infos == infos[:1]
    stages.charge(infos[0].pod)
    refused = next(parts)
    assert isinstance(refused, DeferredEntry)
    assert (refused.info, refused.stage) == (infos[1], "Tighter")


def test_what_a_pod_is_allowed_that_no_node_fits_is_for_the_next():
    infos = [QueuedPodInfo(pod(name)) for name in "ab"]
    parts = list(CapacityStages((PodLimit(1),)).run(Batch(infos, equal=True)))
    assert [each.infos for each in parts if isinstance(each, Batch)] == [infos[:1], infos[1:]]
