"""One object that a rule cannot deal with is left out until it changes; the others are decided about as without it."""

import pytest
from builders import bound, gang, member, node, node_key, pod, pod_key, workload
from msgspec.structs import replace
from quota_steps import flavor, local, namespace, queue, work

from headgate.engine.loop import Engine, Raised
from headgate.engine.quarantine import GuardedEngine, Quarantine
from headgate.engine.quota.admission_cycle import AdmissionCycle
from headgate.model.effects import Bind, EmitEvent, PatchStatus, PodCondition, WakeAt
from headgate.model.events import Gone, Observed, Outcome, TimerFired, Unreadable
from headgate.model.keys import Kind
from headgate.model.pod import Phase, PodShape
from headgate.model.resources import Resources
from headgate.model.settings import Role, Settings
from headgate.placement.filters import NodeResourcesFit
from headgate.placement.neighbours import Neighbours

POISON = "example.com/poison"
KEPT = Settings()


def poisoned(name, **fields):
    asked = Resources.of({"cpu": 100, POISON: 1})
    return pod(name, shape=PodShape(requests=asked, scored_requests=asked), **fields)


@pytest.fixture
def broken_fit(monkeypatch):
    """A rule with a bug: it cannot judge pods that ask for poison."""
    judged = NodeResourcesFit.demands

    def demands(self, shape, nodes, rows, already):
        if POISON in dict(shape.requests.items):
            raise ZeroDivisionError("poison")
        return judged(self, shape, nodes, rows, already)

    monkeypatch.setattr(NodeResourcesFit, "demands", demands)


@pytest.fixture
def broken_beside(monkeypatch):
    """A rule with a bug: it cannot judge anybody while a pod that asks for poison runs."""
    judged = NodeResourcesFit.demands

    def demands(self, shape, nodes, rows, already):
        if any(POISON in dict(one.shape.requests.items) for _, one in nodes.placed()):
            raise KeyError("poison")
        return judged(self, shape, nodes, rows, already)

    monkeypatch.setattr(NodeResourcesFit, "demands", demands)


@pytest.fixture
def broken_count(monkeypatch):
    """A rule with a bug: it cannot count pods that run and have a certain label."""
    counted = Neighbours.count

    def count(self, counted_pod, row, sign):
        if "poison" in counted_pod.labels:
            raise IndexError("poison")
        counted(self, counted_pod, row, sign)

    monkeypatch.setattr(Neighbours, "count", count)


class World:
    """A cluster that is observed again each time an engine raised, as after a restart."""

    def __init__(self, *objects, settings=KEPT):
        self.settings = settings
        self.objects = {one.key: one for one in objects}
        self.quarantine, self.now, self.rebuilds, self.pauses = Quarantine(), 0.0, 0, []
        self.start()

    def start(self):
        self.engine = GuardedEngine(self.fresh, self.quarantine, self.fresh)
        self.step(*map(Observed, self.objects.values()))

    def fresh(self):
        return Engine(self.settings)

    def step(self, *events):
        try:
            self.effects = self.engine.step(events, self.now)
        except Raised as raised:
            for _ in self.engine.find(raised, self.now):
                pass
            self.rebuilds += 1
            assert self.rebuilds < 20, "it goes round and round"
            self.pauses.append(self.quarantine.rebuilding(self.now))
            self.start()

    def see(self, *objects):
        self.objects.update((one.key, one) for one in objects)
        self.step(*map(Observed, objects))

    def lose(self, one):
        del self.objects[one.key]
        self.step(Gone(one.key, one.uid))

    @property
    def binds(self):
        return {e.target.key.name: e.node for e in self.effects if isinstance(e, Bind)}

    @property
    def told(self):
        return [
            (e.target.key.name, e.message)
            for e in self.effects
            if isinstance(e, EmitEvent) and e.reason == "Quarantined"
        ]

    def gauge(self, name, kind="pods"):
        return self.engine.gauges().get((name, (("kind", kind),)), 0)


def test_a_pod_that_cannot_be_decided_about_is_left_out_and_the_others_get_nodes(broken_fit):
    world = World(node("n"), pod("a"), poisoned("bad"), pod("b"))
    assert world.binds == {"a": "n", "b": "n"}
    assert world.told == [
        (
            "bad",
            "left out until it changes, because it could not be dealt with: ZeroDivisionError: poison "
            "(demands in test_quarantine)",
        )
    ]
    assert (world.gauge("headgate_quarantined_objects"), world.gauge("headgate_quarantines_total")) == (1, 1)
    assert [entry.decision for entry in world.engine.journal.about(pod_key("bad"))] == ["quarantine"]


def test_it_is_tried_again_when_it_changes_and_scheduled_when_it_can_be(broken_fit):
    world = World(node("n"), poisoned("bad"))
    world.see(replace(pod("bad"), version="2"))
    assert world.binds == {"bad": "n"}
    assert world.gauge("headgate_quarantined_objects") == 0


def test_seen_again_as_it_was_it_stays_out(broken_fit):
    world = World(node("n"), poisoned("bad"))
    world.see(poisoned("bad"))
    assert (world.rebuilds, world.gauge("headgate_quarantined_objects")) == (1, 1)


def test_another_pod_of_its_name_is_another_pod(broken_fit):
    world = World(node("n"), poisoned("bad"))
    world.see(pod("bad", uid="other"))
    assert world.binds == {"bad": "n"}


def test_when_it_is_gone_it_is_forgotten(broken_fit):
    world = World(node("n"), poisoned("bad"))
    world.lose(poisoned("bad"))
    assert (world.gauge("headgate_quarantined_objects"), world.gauge("headgate_quarantines_total")) == (0, 1)


def test_one_that_changes_all_the_time_is_tried_after_ever_longer_rests(broken_fit):
    world = World(node("n"), poisoned("bad"))
    for version in range(2, 50):
        world.see(replace(poisoned("bad"), version=str(version)))
    assert world.rebuilds == 2
    assert WakeAt(10.0, "quarantine") in world.effects
    world.now = 10.0
    world.step(TimerFired("quarantine"))
    assert world.rebuilds == 3
    world.now = 29.0
    world.see(replace(poisoned("bad"), version="60"))
    assert world.rebuilds == 3
    world.now = 30.0
    world.see(replace(pod("bad"), version="61"))
    assert world.binds == {"bad": "n"}


def test_many_at_once_are_found_together_and_nobody_else(broken_fit):
    world = World(node("n"), *(poisoned(f"bad{n}") for n in range(6)), *(pod(f"fine{n}") for n in range(6)))
    assert {name for name, _ in world.told} == {f"bad{n}" for n in range(6)}
    assert set(world.binds) == {f"fine{n}" for n in range(6)}
    assert world.rebuilds == 1


def test_one_after_the_other_makes_the_pauses_grow_up_to_a_limit(broken_fit):
    world = World(node("n"))
    for number in range(12):
        world.see(poisoned(f"bad{number}"))
    assert world.pauses == [0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_pod_whose_presence_makes_every_decision_fail_is_found_and_its_node_is_kept_out(broken_beside):
    """Its amounts are what is wrong with it, so nothing is known of its room."""
    running = bound(poisoned("bad"), "n")
    others = [bound(pod(f"fine{n}"), "free") for n in range(8)]
    world = World(node("n"), node("free"), running, *others, pod("a"), pod("b"))
    assert world.binds == {"a": "free", "b": "free"}
    assert [name for name, _ in world.told] == ["bad"]
    world.lose(running)
    world.see(*(pod(f"late{n}") for n in range(8)))
    assert "n" in world.binds.values()


def test_who_was_not_to_blame_is_not_blamed_when_the_culprit_is_tried_again(broken_beside):
    running = bound(poisoned("bad"), "n")
    world = World(node("n"), node("free"), running, pod("a", cpu=2000))
    assert [name for name, _ in world.told] == ["bad"]
    world.see(replace(running, version="2"))
    world.now = 60.0
    world.see(pod("a", cpu=2000, labels={"changed": "yes"}))
    assert world.gauge("headgate_quarantined_objects") == 1
    assert world.engine.journal.about(pod_key("a"))[-1].decision == "wait"


def test_who_is_excused_by_ever_new_others_is_to_blame_after_all(monkeypatch):
    """A rule with a bug: it cannot judge a certain pod while exactly one other runs."""
    judged = NodeResourcesFit.demands

    def demands(self, shape, nodes, rows, already):
        if POISON in dict(shape.requests.items) and sum(1 for _ in nodes.placed()) == 1:
            raise KeyError("poison")
        return judged(self, shape, nodes, rows, already)

    monkeypatch.setattr(NodeResourcesFit, "demands", demands)
    first, second = bound(pod("first"), "n"), bound(pod("second"), "n")
    world = World(node("n"), poisoned("bad"), first)
    world.lose(first)
    world.now = 60.0
    world.see(second)
    world.see(replace(poisoned("bad"), labels={"changed": "yes"}, version="2"))
    assert pod_key("second") not in world.quarantine
    assert pod_key("bad") in world.quarantine


def test_the_room_of_a_pod_that_cannot_be_counted_is_not_given_away(broken_count):
    running = bound(pod("bad", cpu=900, labels={"poison": "yes"}), "n")
    world = World(node("n"), running, pod("large", cpu=200), pod("small", cpu=100))
    assert world.binds == {"small": "n"}
    assert [name for name, _ in world.told] == ["bad"]
    world.lose(running)
    world.see(pod("larger", cpu=800))
    assert world.binds.get("larger") == "n"


def test_a_quarantined_pod_that_ends_gives_its_room_back(broken_count):
    running = bound(pod("bad", cpu=900, labels={"poison": "yes"}), "n")
    world = World(node("n"), running, pod("large", cpu=800))
    for version in "23":
        world.see(replace(running, version=version))
    assert world.gauge("headgate_quarantined_objects") == 1
    world.now = 5.0
    world.see(replace(running, version="4", phase=Phase.SUCCEEDED))
    assert world.binds == {"large": "n"}


def test_a_pod_on_a_node_that_cannot_be_read_keeps_its_node_out_until_it_can():
    hidden = Unreadable(pod_key("bad"), "uid-bad", "1", "$.spec.containers: expected an array", "n")
    world = World(node("n"), node("free"))
    world.step(hidden)
    world.see(pod("a"), pod("b"))
    assert set(world.binds.values()) == {"free"}
    assert world.gauge("headgate_quarantined_objects") == 1
    world.see(replace(bound(pod("bad"), "n"), version="2"), *(pod(f"late{n}") for n in range(4)))
    assert "n" in world.binds.values()


def test_a_pod_that_could_be_read_before_keeps_the_room_it_had():
    world = World(node("n"), bound(pod("bad", cpu=900), "n"))
    world.step(Unreadable(pod_key("bad"), "uid-bad", "2", "$.spec: wrong", "n"))
    world.see(pod("large", cpu=200), pod("small", cpu=100))
    assert world.binds == {"small": "n"}


def test_what_cannot_be_read_is_told_once_as_long_as_it_is_the_same():
    hidden = Unreadable(node_key("bad"), "uid", "1", "$.status: wrong")
    world = World(node("n"))
    world.step(hidden)
    assert world.told == [("bad", "left out until it changes, because it could not be dealt with: $.status: wrong")]
    world.step(replace(hidden, version="2"))
    assert world.told == []
    world.step(replace(hidden, why="$.spec: wrong"))
    assert [name for name, _ in world.told] == ["bad"]


def test_a_workload_that_an_admission_cycle_fails_on_is_found_among_many(monkeypatch):
    """The cycle looks at many at once and names nobody: it is found by halving."""
    judged = AdmissionCycle.outcomes

    def outcomes(self, snapshot, heads, settings):
        if any(head.key.name == "bad" for head in heads):
            raise ZeroDivisionError("poison")
        return judged(self, snapshot, heads, settings)

    monkeypatch.setattr(AdmissionCycle, "outcomes", outcomes)
    around = (namespace(), flavor(), queue(cpu=30), local())
    others = [work(f"w{number}") for number in range(20)]
    world = World(*around, *others, work("bad"), settings=Settings(roles=frozenset({Role.QUOTA})))
    assert [name for name, _ in world.told] == ["bad"]
    admitted = {e.target.key.name for e in world.effects if isinstance(e, PatchStatus) and e.target.key.name != "cq"}
    assert admitted >= {f"w{number}" for number in range(20)}
    assert world.gauge("headgate_quarantined_objects", Kind.KUEUE_WORKLOAD) == 1


def test_a_broken_invariant_still_ends_it(monkeypatch):
    def demands(self, shape, nodes, rows, already):
        raise AssertionError("never")

    monkeypatch.setattr(NodeResourcesFit, "demands", demands)
    with pytest.raises(AssertionError, match="never"):
        World(node("n"), pod("a"))


def test_an_engine_that_fails_without_any_object_is_broken(monkeypatch):
    def decide(self, now):
        raise ValueError("always")

    monkeypatch.setattr("headgate.engine.scheduler.plane.SchedulerPlane.decide", decide)
    with pytest.raises(AssertionError, match="without any object"):
        World()


def test_what_failed_by_history_alone_is_decided_anew_with_nobody_left_out(monkeypatch):
    """A fresh engine decides on the same state without trouble: nobody is to blame, the first time."""
    world = World(node("n"))
    judged, failed = NodeResourcesFit.demands, []

    def demands(self, shape, nodes, rows, already):
        if not failed:
            failed.append(1)
            raise ValueError("once")
        return judged(self, shape, nodes, rows, already)

    monkeypatch.setattr(NodeResourcesFit, "demands", demands)
    world.see(pod("a"))
    assert (world.rebuilds, world.binds) == (1, {"a": "n"})
    assert world.gauge("headgate_quarantined_objects") == 0


def test_a_write_that_was_under_way_is_no_news_to_the_next_engine(broken_fit):
    world = World(node("n"), pod("a"))
    (bind,) = [effect for effect in world.effects if isinstance(effect, Bind)]
    world.objects[pod_key("a")] = bound(pod("a"), "n")
    world.see(poisoned("bad"))
    assert world.rebuilds == 1
    world.step(Outcome(bind))
    assert world.binds == {}


def test_a_hundred_pods_beside_it_need_few_trials(broken_beside, monkeypatch):
    tried = []
    step = Engine.step
    monkeypatch.setattr(Engine, "step", lambda self, batch, now: tried.append(1) or step(self, batch, now))
    others = [bound(pod(f"fine{n}", cpu=1), "free") for n in range(100)]
    world = World(node("n"), node("free"), *others[:50], bound(poisoned("bad"), "n"), *others[50:], pod("a"))
    assert [name for name, _ in world.told] == ["bad"]
    assert len(tried) < 40


def conditions(world):
    changes = [(e.target.key.name, e.change) for e in world.effects if isinstance(e, PatchStatus)]
    return {name: change.message for name, change in changes if isinstance(change, PodCondition)}


def test_a_gang_that_lacks_a_quarantined_member_says_so_until_it_is_replaced():
    bad = member("bad", gates=("wait",))
    world = World(node("n"), workload("train", gang(3)), member("w0"), member("w1"), bad)
    assert conditions(world)["w0"] == "waiting for the gates of bad, a member of its gang"
    world.step(Unreadable(bad.key, bad.uid, "2", "not a pod"))
    lacking = "waiting for its gang to have at least 3 pods; not counted, as it is quarantined: bad"
    assert conditions(world) == {"w0": lacking, "w1": lacking}
    world.lose(bad)
    assert set(conditions(world).values()) == {"waiting for its gang to have at least 3 pods"}
    world.see(member("w2"))
    assert set(world.binds) == {"w0", "w1", "w2"}
