"""Laws of holds, over random plans and over random histories of a whole plane. Each takes a seed."""

import itertools
import re
from random import Random

from builders import amounts, kueue_workload, node, node_key, pod, shape
from msgspec import structs

from headgate.engine.integrations.debt import QuotaTrees
from headgate.engine.integrations.hold_plan import HoldCandidate, HoldPlan, TerminatingPod
from headgate.engine.integrations.node_capacity import NodeCapacity
from headgate.engine.integrations.plane import IntegrationsPlane
from headgate.engine.journal import Journal
from headgate.lifecycle.workload.conditions import ConditionUpdate, edited, with_status
from headgate.model.effects import Delete, EmitEvent, PatchSpec, PatchStatus, PodStart, WakeAt
from headgate.model.events import Gone, Observed, Outcome, TimerFired
from headgate.model.keys import Condition, Key, Kind
from headgate.model.kueue_names import ADMISSION_GATE, CLUSTER_QUEUE_NAME, FLAVORS, MANAGED, QUEUE_NAME, workload_name
from headgate.model.pod import HeldPod, Phase
from headgate.model.queues import (
    Admission,
    ClusterQueue,
    PodSet,
    PodSetAssignment,
    QueuedWorkloadStatus,
    ResourceFlavor,
)
from headgate.model.settings import QuotaSettings, Settings

LAWS = {}
"""Every law by its name."""
MAX_HOLD = 40.0
CPU = frozenset({("default", "cpu")})
NODES = "xyz"


def law(check):
    LAWS[check.__name__] = check
    return check


# one plan, against every way there is to place a few pods


def can_place(free, pods):
    """Whether there is any way at all to place pods of these sizes."""
    ways = itertools.product(range(len(free)), repeat=len(pods))
    return any(
        all(sum(size for size, at in zip(pods, way, strict=True) if at == row) <= free[row] for row in range(len(free)))
        for way in ways
    )


class RandomPlan:
    """A few full nodes, pods of two queues that leave some of them, and workloads of one shape each."""

    def __init__(self, dice):
        self.now = 100.0
        self.sizes = {name: dice.randint(1, 4) for name in NODES[: dice.randint(1, 3)]}
        self.nodes, self.trees = NodeCapacity(), QuotaTrees()
        self.leaving, taken = {}, {}
        for name, size in self.sizes.items():
            self.nodes.put_node(node(name, size))
            taken[name] = 0
            for number in range(dice.randint(1, 4)):
                cpu = dice.randint(1, 2)
                if taken[name] + cpu <= size:
                    taken[name] += cpu
                    self._put(dice, f"{name}{number}", name, cpu)
        self.free = {name: size - taken[name] for name, size in self.sizes.items()}
        self.claimants = [self._claimant(dice, number) for number in range(dice.randint(1, 3))]
        plan = HoldPlan(self.nodes, self.trees)
        self.holds = plan.holds([TerminatingPod(each) for each in self.leaving.values()], self.claimants, self.now)

    def _put(self, dice, name, on, cpu):
        due = dice.choice([None, 60.0, 95.0, 100.0, 105.0, 110.0, 120.0, 130.0, 200.0, 300.0])
        labels = {CLUSTER_QUEUE_NAME: dice.choice(["a", "a", "a", "b"])}
        found = pod(name, cpu, labels=labels, annotations={FLAVORS: "cpu=default"}, node=on, deleted=due)
        self.nodes.put_pod(found)
        if due is not None:
            self.leaving[name] = found

    def _claimant(self, dice, number):
        since, key = float(dice.choice([80, 90, 99, 100])), Key(Kind.KUEUE_WORKLOAD, "default", f"w{number}")
        return HoldCandidate(
            job=key,
            rank=(-dice.randint(0, 1), since, 0.0, key),
            wanted={shape(dice.randint(1, 3)): dice.choice([1, 1, 2, 3])},
            queue="a",
            quota=CPU,
            since=since,
            until=since + dice.choice([0, 15, MAX_HOLD, MAX_HOLD]),
            started=dice.random() < 0.2,
        )


def sizes_of(claimant):
    return [requested.requests["cpu"] for requested, count in claimant.wanted.items() for _ in range(count)]


@law
def one_workload_is_held_exactly_when_leaving_pods_make_it_fit(seed):
    plan = RandomPlan(Random(seed))
    (mine, *others), now = plan.claimants, plan.now
    if others or mine.started:
        return
    may = [each for each in plan.leaving.values() if each.labels[CLUSTER_QUEUE_NAME] == "a" and each.deleted > now]
    late = [each for each in plan.leaving.values() if mine.since < each.deleted <= now]
    soon = [free + sum(each.shape.requests["cpu"] for each in may if each.node == at) for at, free in plan.free.items()]
    fits_now, fits_soon = can_place(list(plan.free.values()), sizes_of(mine)), can_place(soon, sizes_of(mine))
    helped = not fits_now and fits_soon and mine.until > now
    if not late:  # one that waited for a pod whose grace has just ended starts, whoever else leaves
        assert (mine.job in plan.holds) == helped
    assert mine.job not in plan.holds or helped


@law
def promises_are_kept_apart_and_each_hold_has_all_it_needs(seed):
    plan = RandomPlan(Random(seed))
    promised = [each.key.name for hold in plan.holds.values() for each in hold.pods]
    assert len(promised) == len(set(promised)), "a leaving pod is promised twice"
    for claimant in plan.claimants:
        hold = plan.holds.get(claimant.job)
        if hold is None:
            continue
        assert not claimant.started
        assert hold.pods
        assert all(each.labels[CLUSTER_QUEUE_NAME] == "a" for each in hold.pods), "another tree's"
        assert plan.now < hold.until <= min(claimant.until, max(each.deleted for each in hold.pods))
        assert all(each.deleted > plan.now for each in hold.pods), "a pod past its grace"
        assert not can_place(list(plan.free.values()), sizes_of(claimant)) or len(plan.claimants) > 1
        freed = {at: sum(one.shape.requests["cpu"] for one in hold.pods if one.node == at) for at in plan.free}
        assert can_place([plan.free[at] + freed[at] for at in plan.free], sizes_of(claimant))


@law
def what_is_held_does_not_depend_on_the_order_in_which_things_are_told(seed):
    plan = RandomPlan(Random(seed))
    leavers = [TerminatingPod(each) for each in reversed(plan.leaving.values())]
    assert HoldPlan(plan.nodes, plan.trees).holds(leavers, plan.claimants[::-1], plan.now) == plan.holds


# a plane, against what anybody can see on the objects


class History:
    """Single pods of two queues on a few nodes; admission, scheduling and kubelets are played by the dice."""

    def __init__(self, seed, max_hold=MAX_HOLD):
        self.dice, self.now, self.max_hold, self.made = Random(seed), 1000.0, max_hold, 0
        self.objects, self.version = {}, 0
        self.settings = Settings(quota=QuotaSettings(max_hold=max_hold))
        self.plane = IntegrationsPlane(self.settings, Journal())
        self.inbox = []
        self.put(ResourceFlavor(Key(Kind.RESOURCE_FLAVOR, "", "default"), "uid-flavor", "1"))
        for name in "ab":
            self.put(ClusterQueue(Key(Kind.CLUSTER_QUEUE, "", name), f"uid-{name}", "1"))
        for name in NODES[: self.dice.randint(1, 3)]:
            self.put(node(name, self.dice.randint(2, 4)))
        for _ in range(6):
            self.arrives()
            self.settle()
            self.is_bound()

    def put(self, found):
        self.version += 1
        found = structs.replace(found, version=str(self.version))
        self.objects[found.key] = found
        self.inbox.append(Observed(found))

    def drop(self, key):
        self.inbox.append(Gone(key, self.objects.pop(key).uid))

    # the plane's part

    def settle(self):
        self.inbox.append(TimerFired("integrations"))
        for _ in range(30):
            events, self.inbox = self.inbox, []
            for event in events:
                list(self.plane.absorb(event, self.now))
            effects = [each for each in self.plane.decide(self.now) if not isinstance(each, WakeAt | EmitEvent)]
            self.plane.check()
            if not effects and not self.inbox:
                return
            for effect in effects:
                self._perform(effect)
                self.inbox.append(Outcome(effect))
        raise AssertionError("still busy")

    def _perform(self, effect):
        found = self.objects.get(getattr(getattr(effect, "target", None), "key", None))
        match effect:
            case PatchSpec(change=PodStart() as start) if found is not None:
                labels = {**found.labels, **start.directives.labels}
                annotations = {**found.annotations, **start.directives.annotations}
                self.put(structs.replace(found, gates=(), labels=labels, annotations=annotations))
            case PatchStatus(change=QueuedWorkloadStatus() as status) if found is not None:
                self.put(with_status(found, status))
            case Delete() if found is not None and found.key.kind is Kind.POD:
                self.leave(found)
            case _:
                pass  # finalizers and the status of queues: nobody here looks at them

    def fresh_effects(self):
        """What a process that has just started would write, looking at the same objects."""
        plane = IntegrationsPlane(self.settings, Journal())
        for found in self.objects.values():
            list(plane.absorb(Observed(found), self.now))
        return [each for each in plane.decide(self.now) if isinstance(each, PatchSpec | PatchStatus)]

    # everyone else's part

    def happens(self):
        deeds = (
            self.arrives, self.arrives, self.takes_the_place, self.takes_the_place, self.is_bound, self.is_deleted,
            self.is_gone, self.is_gone, self.is_evicted, self.time_passes, self.time_passes, self.node_changes,
        )  # fmt: skip
        self.dice.choice(deeds)()
        self.settle()

    def arrives(self):
        """A pod with its Workload, admitted at once."""
        self.made += 1
        name, queue, cpu = f"p{self.made}", self.dice.choice("aab"), self.dice.randint(1, 3)
        made = pod(name, cpu, labels={QUEUE_NAME: queue, MANAGED: "true"}, gates=(ADMISSION_GATE,), held=HeldPod())
        made = structs.replace(made, grace=self.dice.choice([10, 30, 90]), created=self.now // 1)
        key = Key(Kind.KUEUE_WORKLOAD, "default", workload_name("Pod", "", name, made.uid))
        admission = Admission(queue, (PodSetAssignment("main", (("cpu", "default"),), amounts(cpu), 1),))
        told = tuple(Condition(type_, "True", type_, "", self.now // 1) for type_ in ("QuotaReserved", "Admitted"))
        sets = (PodSet("main", made.shape),)
        self.put(made)
        self.put(
            kueue_workload(
                key,
                f"uid-w{name}",
                "1",
                self.now // 1,
                sets,
                queue,
                self.dice.choice([0, 0, 5]),
                owner=made.target,
                admission=admission,
                conditions=told,
            )
        )

    def pods(self):
        return [each for each in self.objects.values() if each.key.kind is Kind.POD and each.phase is Phase.PENDING]

    def free(self, name):
        taken = sum(each.shape.requests["cpu"] for each in self.pods() if each.node == name)
        return self.objects[node_key(name)].allocatable["cpu"] - taken

    def open_nodes(self):
        found = [each for each in self.objects.values() if each.key.kind is Kind.NODE and not each.unschedulable]
        return [each.name for each in found]

    def is_bound(self):
        started = [each for each in self.pods() if not each.gates and not each.node and each.deleted is None]
        for each in started:
            fit = [name for name in self.open_nodes() if self.free(name) >= each.shape.requests["cpu"]]
            if fit:
                self.put(structs.replace(each, node=self.dice.choice(fit)))

    def is_deleted(self):
        running = [each for each in self.pods() if each.node and each.deleted is None]
        if running:
            self.leave(self.dice.choice(running))

    def takes_the_place(self):
        """Some who run are deleted, and those who get their quota come at once."""
        for _ in range(self.dice.randint(1, 2)):
            self.is_deleted()
        self.settle()
        self.arrives()

    def leave(self, found):
        if found.node:
            self.put(structs.replace(found, deleted=self.now // 1 + found.grace))
        else:
            self.forget(found)

    def is_gone(self):
        leaving = [each for each in self.pods() if each.deleted is not None]
        if leaving:
            self.forget(self.dice.choice(leaving))

    def forget(self, found):
        self.drop(found.key)
        for mine in [each for each in self.workloads() if each.owner == found.target]:
            self.drop(mine.key)

    def is_evicted(self):
        admitted = [each for each in self.workloads() if each.is_true("Admitted") and not each.is_true("Evicted")]
        if admitted:
            found = self.dice.choice(admitted)
            self.put(with_status(found, edited(found, self.now, ConditionUpdate("Evicted", True, "Preempted", ""))))

    def workloads(self):
        return [each for each in self.objects.values() if each.key.kind is Kind.KUEUE_WORKLOAD]

    def time_passes(self):
        self.now += self.dice.choice([0.5, 1.0, 5.0, 15.0, 45.0])

    def node_changes(self):
        name = self.dice.choice(NODES)
        known = self.objects.get(node_key(name))
        if known is None:
            self.put(node(name, self.dice.randint(1, 4)))
        elif self.dice.random() < 0.5:
            self.put(structs.replace(known, unschedulable=not known.unschedulable))
        elif not any(each.node == name for each in self.pods()):
            self.drop(known.key)

    # what can be seen

    def held(self):
        """The Workloads that are held, with their pods and those they are held for."""
        for workload in self.workloads():
            told = workload.condition("WaitingForRoom")
            if told is not None and told.status == "True":
                names = re.findall(r"default/(p\d+) on", told.message)
                promised = [self.objects[Key(Kind.POD, "default", name)] for name in names]
                yield workload, self.objects[workload.owner.key], promised


def check_holds(history):
    now, seen = history.now, []
    pending = [each for each in history.pods() if not each.gates and not each.node and each.deleted is None]
    for workload, mine, promised in history.held():
        cpu, since = mine.shape.requests["cpu"], workload.condition("Admitted").at
        seen += [each.key.name for each in promised]
        assert mine.gates, "held, and started"
        assert promised and all(each.deleted > now for each in promised), "held for a pod past its grace"
        assert now < since + history.max_hold, "held for too long"
        assert len({each.node for each in promised}) == 1 and promised[0].node in history.open_nodes()
        freed = sum(each.shape.requests["cpu"] for each in promised)
        assert history.free(promised[0].node) + freed >= cpu, "what it is held for is not enough"
        assert all(each.labels[CLUSTER_QUEUE_NAME] == workload.queue for each in promised), "another queue's"
        if not pending:
            assert all(history.free(name) < cpu for name in history.open_nodes()), "held, and fits now"
    assert len(seen) == len(set(seen)), "a leaving pod is promised twice"
    held = {workload.key for workload, _, _ in history.held()}
    for workload in history.workloads():
        mine = history.objects.get(workload.owner.key)
        is_admitted = workload.is_true("Admitted") and not workload.is_true("Evicted")
        if mine is not None and is_admitted and workload.key not in held and mine.deleted is None:
            assert not mine.gates, "neither held nor started"


def histories(seed, max_hold=MAX_HOLD, steps=14):
    history = History(seed, max_hold)
    for _ in range(steps):
        history.happens()
        yield history


@law
def whoever_is_held_is_held_by_the_rule_and_everybody_else_has_started(seed):
    for history in histories(seed):
        check_holds(history)


@law
def a_fresh_process_on_the_same_objects_holds_the_same(seed):
    for history in histories(seed):
        assert history.fresh_effects() == []


@law
def a_hold_that_ended_does_not_come_back(seed):
    ended = {}
    for history in histories(seed, steps=20):
        for workload in history.workloads():
            told, admitted = workload.condition("WaitingForRoom"), workload.condition("Admitted")
            if told is None or admitted is None or admitted.status != "True":
                continue
            admission = workload.uid, admitted.at
            assert admission not in ended or told.status == "False"
            if told.status == "False" and told.at >= admitted.at:
                ended[admission] = None


@law
def with_a_max_hold_of_zero_nobody_is_ever_held(seed):
    for history in histories(seed, max_hold=0.0):
        assert all(each.condition("WaitingForRoom") is None for each in history.workloads())
        check_holds(history)
