"""Random histories of a small cluster, and the law they must obey.

The law: whatever history led to a state, the decision is that of a fresh process on the same state. At every point of
rest a fresh engine is shown all objects; it must find nothing to do and nothing to say that the old one left undone.
The safety net that retries everyone now and then never rings here: it would hide what the law looks for.
"""

from __future__ import annotations

import math
import random
from collections import deque

from builders import gang, node, pod, priority_class, shape, workload
from msgspec.structs import asdict, replace

from headgate.engine.loop import Engine
from headgate.model.effects import (
    Bind,
    Effect,
    EmitEvent,
    Evict,
    Nomination,
    PatchSpec,
    PatchStatus,
    PodCondition,
    WakeAt,
    Write,
)
from headgate.model.effects import WorkloadStatus as Status
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.keys import Key, Kind, Target
from headgate.model.node import HostPort, PeerDemands, PodTerm, Spread, Taint, TaintEffect
from headgate.model.objects import DisruptionBudget, Namespace, Object
from headgate.model.pod import GroupKey, Phase, Pod, PodGroup, ScheduledCondition, Workload, eviction_mark
from headgate.model.selectors import Operator, Requirement
from headgate.model.settings import Profile, Settings
from headgate.preemption.solver.exact import SolverLimits, certifier

PLAIN = "plain"  # a profile that asks nobody to leave
SOLVER = certifier(SolverLimits(seconds=None))  # as a simulator has it, where it is installed
SINGLE = "single"  # a profile that queues members of gangs one by one
SETTINGS = Settings(
    profiles=(
        Profile(),
        Profile(PLAIN, disabled=frozenset({"DefaultPreemption"})),
        Profile(SINGLE, disabled=frozenset({"GangScheduling"})),
    )
)
MOST_TURNS = 300  # after which a cluster that nobody touches must have come to rest
ACTIONS = 14  # of each history
NODES = ("n0", "n1", "n2")
CLASSES = {"low": (1, 2), "mid": (5, 6), "high": (10, 3)}  # what each is worth, and what it may be worth made anew
WORKLOADS = (
    Key(Kind.WORKLOAD, "default", "red"),
    Key(Kind.WORKLOAD, "default", "blue"),
    Key(Kind.POD_GROUP, "default", "green"),
)
PODS = tuple(f"p{number}" for number in range(7))
SURPLUS = ("a0", "s0")  # before and after the others by name
BLACK = (Requirement("app", Operator.IN, ("black",)),)


class BrokenLaw(AssertionError):
    """A fresh process would decide otherwise."""


class Cluster:
    """All objects there are, and what was done to them that the engine has not been told yet."""

    def __init__(self, dice: random.Random) -> None:
        self.objects: dict[Key, Object] = {}
        self.news: deque[Event] = deque()
        self.now = 0.0
        self._dice = dice
        self._made = 0

    def put(self, one: Object) -> None:
        """The object is there and looks like this."""
        self._made += 1
        one = replace(one, version=str(self._made))
        self.objects[one.key] = one
        self.news.append(Observed(one))

    def make(self, one: Object) -> None:
        """A new object under a key that nobody has, or that somebody had."""
        self._made += 1
        known = self.objects.get(one.key)
        if known is not None:
            self.lose(known.key)
        born = {"created": self.now} if isinstance(one, Pod | Workload) else {}
        self.put(replace(one, uid=f"uid-{self._made}", **born))

    def lose(self, key: Key) -> None:
        gone = self.objects.pop(key)
        self.news.append(Gone(key, gone.uid))

    def perform(self, effect: Write) -> None:
        """As an API server would, with a disruption controller, and mostly a kubelet, that take no time."""
        known = self.objects.get(effect.target.key)
        if known is None or known.uid != effect.target.uid:
            self.news.append(Outcome(effect, WriteError.GONE))
            return
        if effect.target.version and effect.target.version != known.version:
            self.news.append(Outcome(effect, WriteError.CONFLICT))
            return
        changed = self._changed(known, effect)
        if isinstance(changed, WriteError):
            self.news.append(Outcome(effect, changed))
            return
        if changed is not None:
            self.put(changed)
        if isinstance(effect, Evict) and self._dice.random() < 0.7:  # the others take their time
            self.lose(known.key)
        self.news.append(Outcome(effect))
        if self._dice.random() < 0.3:  # an answer may come before what it brought about is seen
            self.news.rotate(1)

    def _changed(self, known: Object, effect: Write) -> Object | WriteError | None:
        match effect:
            case Bind(node=name):
                free = isinstance(known, Pod) and known.wants_node and not known.gates
                started = {"node": name, "phase": Phase.RUNNING, "started": self.now, "nominated": ""}
                scheduled = ScheduledCondition("True", "", "")
                return replace(known, scheduled=scheduled, **started) if free else WriteError.CONFLICT
            case Evict():
                return replace(known, deleted=self.now + known.grace)
            case PatchStatus(change=Nomination(node=name)):
                return replace(known, nominated=name)
            case PatchStatus(change=PodCondition(type="PodScheduled") as said):
                return replace(known, scheduled=ScheduledCondition(said.status, said.reason, said.message))
            case PatchStatus(change=PodCondition(type="DisruptionTarget", status="True", message=message)):
                return replace(known, preempted=True, mark=eviction_mark(message))
            case PatchStatus(change=PodCondition(type="DisruptionTarget")):
                return replace(known, preempted=False, mark=None)
            case PatchStatus(change=Status() as status):
                return replace(known, **asdict(status))
        return None


class History:
    """One engine that saw everything, and the cluster it looks after."""

    settings = SETTINGS
    worded = frozenset({"Unschedulable"})  # reasons whose words may be those of an earlier attempt
    horizon = math.inf  # seconds a cluster that nobody touches is looked at

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.told: list[str] = []  # the history in words, for whoever has to find out
        self.cluster, self.making = self.begin()
        self.engine = self.process()
        self.timers: list[float] = []
        self.undone: deque[Write] = deque()  # decided, and not performed yet

    def begin(self) -> tuple[Cluster, Making]:
        cluster = Cluster(self.dice)
        return cluster, Making(self.dice, cluster, self.told)

    def process(self) -> Engine:
        return Engine(self.settings, certifier=SOLVER)

    def live(self) -> None:
        self.making.begin()
        for _ in range(ACTIONS):
            self.making.act()
            if self.dice.random() < 0.5:
                self.rest()
                self.compare()
            else:
                for _ in range(self.dice.randrange(3)):
                    self.turn(self.dice.randrange(4), self.dice.randrange(4))
        self.rest()
        self.compare()

    def turn(self, events: int, effects: int) -> None:
        """The engine is told some of the news, and some of what it decided is done."""
        news = [self.cluster.news.popleft() for _ in range(min(events, len(self.cluster.news)))]
        made = self.engine.step(news, self.cluster.now)
        self.decided(made)
        for effect in made:
            self.told.append(f"    {said(effect)}")
            if isinstance(effect, WakeAt):
                self.timers += [] if effect.idle else [effect.at]
            elif not isinstance(effect, EmitEvent):
                self.undone.append(effect)
        for _ in range(min(effects, len(self.undone))):
            self._do(self.undone.popleft())

    def decided(self, effects: list[Effect]) -> None:
        """For laws about what is decided together."""

    def _do(self, effect: Write) -> None:
        if self.dice.random() < 0.05:
            trouble = self.dice.choice([WriteError.UNAVAILABLE, WriteError.UNKNOWN, WriteError.CONFLICT])
            if trouble is WriteError.CONFLICT and isinstance(effect, Bind | PatchSpec):
                trouble = WriteError.UNAVAILABLE  # for these it means a change that will be observed, and there is none
            self.told.append(f"    {trouble}: {said(effect)}")
            self.cluster.news.append(Outcome(effect, trouble))
            return
        self.cluster.perform(effect)

    def rest(self) -> None:
        """Until nothing is left to tell, to do or to wait for."""
        until = self.cluster.now + self.horizon
        for _ in range(MOST_TURNS):
            if self.cluster.news or self.undone:
                self.turn(len(self.cluster.news), len(self.undone))
            elif self.timers and min(self.timers) <= until:
                at = min(self.timers)
                self.timers = [each for each in self.timers if each > at]
                self.cluster.now = max(self.cluster.now, at)
                self.cluster.news.append(TimerFired("scheduling"))
            else:
                return
        raise BrokenLaw(f"it never comes to rest\n{self.story}")

    def compare(self) -> None:
        """A fresh process on the same objects has nothing to do and nothing to say."""
        fresh = self.process()
        effects = fresh.step(self.observations(fresh), self.cluster.now)
        silent = (effect for effect in effects if not isinstance(effect, WakeAt | EmitEvent))
        news = [said(effect) for effect in silent if not self._only_words(effect)]
        if news:
            raise BrokenLaw(f"a fresh process would {news}\n{self.story}")
        self.told.append(f"{self.cluster.now:g}s at rest")
        self._assert_sound()

    def observations(self, fresh: Engine) -> list[Event]:
        """All that a process finds when it starts."""
        order = {kind: place for place, kind in enumerate(fresh.reads)}
        objects = sorted(self.cluster.objects.values(), key=lambda each: order[each.key.kind])
        return [Observed(each) for each in objects]

    def _only_words(self, effect: Effect) -> bool:
        """Why a pod waits is on record already, in the words of the last attempt of its kind."""
        if not isinstance(effect, PatchStatus) or not isinstance(effect.change, PodCondition):
            return False
        known = self.cluster.objects[effect.target.key]
        shown = known.scheduled.reason if isinstance(known, Pod) and known.scheduled is not None else ""
        return shown == effect.change.reason and shown in self.worded

    def _assert_sound(self) -> None:
        for each in self.cluster.objects.values():
            if isinstance(each, Pod) and each.node and each.scheduled is not None and each.scheduled.status != "True":
                raise BrokenLaw(f"{each.key.name} runs and is said to wait\n{self.story}")

    @property
    def story(self) -> str:
        return "\n".join(self.told)


class Making:
    """What people, controllers and machines do to a cluster."""

    def __init__(self, dice: random.Random, cluster: Cluster, told: list[str]) -> None:
        self._dice = dice
        self._cluster = cluster
        self._told = told

    def begin(self) -> None:
        self._cluster.make(Namespace(Key(Kind.NAMESPACE, "", "default"), "", "", {}))
        for name in CLASSES:
            self._class(name, CLASSES[name][0])
        for name in NODES[: self._dice.randint(1, 3)]:
            self._node(name)
        for _ in range(self._dice.randrange(6)):
            self._pod()

    def act(self) -> None:
        some = {
            self._pod: 6,
            self._join: 4,
            self._delete_pod: 3,
            self._stop: 4,
            self._relabel: 4,
            self._regroup: 4,
            self._ungate: 4,
            self._resize: 1,
            self._finish: 2,
            self._workload: 5,
            self._delete_workload: 2,
            self._any_class: 2,
            self._budget: 1,
            self._any_node: 3,
            self._delete_node: 1,
            self._namespace: 1,
        }
        self._dice.choices(list(some), list(some.values()))[0]()

    def _tell(self, text: str) -> None:
        self._told.append(f"{self._cluster.now:g}s {text}")

    def _those(self, kind: Kind) -> list[Object]:
        return [each for each in self._cluster.objects.values() if each.key.kind is kind]

    def _some_pod(self) -> Pod | None:
        pods = [each for each in self._those(Kind.POD) if isinstance(each, Pod)]
        return self._dice.choice(pods) if pods else None

    def _class(self, name: str, value: int) -> None:
        made = priority_class(name, value, preempts=self._dice.random() < 0.85)
        self._tell(f"class {name} = {value}, preempts {made.preempts}")
        self._cluster.make(made)

    def _any_class(self) -> None:
        name = self._dice.choice(list(CLASSES))
        key = Key(Kind.PRIORITY_CLASS, "", name)
        if key in self._cluster.objects and self._dice.random() < 0.3:
            self._tell(f"class {name} deleted")
            self._cluster.lose(key)
        else:
            self._class(name, self._dice.choice(CLASSES[name]))

    def _node(self, name: str) -> None:
        labels = {"zone": self._dice.choice("ab"), "kubernetes.io/hostname": name}
        taints = (Taint("t", "", TaintEffect.NO_SCHEDULE),) if self._dice.random() < 0.1 else ()
        cpu, cordoned = self._dice.choice([100, 200, 200, 300]), self._dice.random() < 0.1
        made = node(name, cpu=cpu, labels=labels, taints=taints, unschedulable=cordoned)
        known = self._cluster.objects.get(made.key)
        self._tell(f"node {name}: {cpu} in {labels['zone']}, tainted {bool(taints)}, cordoned {cordoned}")
        if known is None or self._dice.random() < 0.1:
            self._cluster.make(made)
        else:
            self._cluster.put(replace(made, uid=known.uid))

    def _any_node(self) -> None:
        self._node(self._dice.choice(NODES))

    def _delete_node(self) -> None:
        nodes = self._those(Kind.NODE)
        if nodes:
            gone = self._dice.choice(nodes)
            self._tell(f"node {gone.key.name} deleted")
            for each in self._those(Kind.POD):
                if isinstance(each, Pod) and each.node == gone.key.name:
                    self._cluster.lose(each.key)
            self._cluster.lose(gone.key)

    def _group(self) -> GroupKey | None:
        if self._dice.random() < 0.35:
            return None
        of = self._dice.choice(WORKLOADS)
        if of.kind is Kind.POD_GROUP:
            return GroupKey(of)
        return GroupKey(of, self._dice.choice(["workers", "workers", "workers", "others"]))

    def _labels(self, group: GroupKey | None) -> dict[str, str]:
        labels = {"app": self._dice.choice(["black", "white"])}
        return labels | ({"workload": str(group)} if group is not None and group.workload.kind is Kind.WORKLOAD else {})

    def _peers(self) -> PeerDemands | None:
        term = PodTerm(self._dice.choice(["zone", "kubernetes.io/hostname"]), BLACK, ("default",))
        if self._dice.random() < 0.3:
            team = (Requirement("team", Operator.IN, ("x",)),)
            term = replace(term, namespaces=(), namespace_selector=team)
        match self._dice.randrange(12):
            case 0:
                return PeerDemands(anti_affinity=(term,))
            case 1:
                return PeerDemands(affinity=(term,))
            case 2:
                return PeerDemands(hard_spread=(Spread(1, "kubernetes.io/hostname", BLACK),))
        return None

    def _pod(self) -> None:
        name, group, choice = self._dice.choice(PODS), self._group(), self._dice.choice(list(CLASSES))
        found = self._cluster.objects.get(Key(Kind.PRIORITY_CLASS, "", choice))
        cpu = self._dice.choice([50, 100, 100, 100, 200, 300])
        ports = (HostPort(80),) if self._dice.random() < 0.1 else ()
        zone = (("zone", self._dice.choice("ab")),) if self._dice.random() < 0.15 else ()
        made = pod(
            name,
            shape=shape(cpu, ports=ports, node_selector=zone, peers=self._peers()),
            labels=self._labels(group),
            group=group,
            scheduler_name=self._dice.choices(["headgate", PLAIN, SINGLE], [70, 15, 15])[0],
            priority=getattr(found, "value", 0),
            preempts=getattr(found, "preempts", True),
            gates=("gate",) if self._dice.random() < 0.2 else (),
            owner=Target(Key(Kind.JOB, "default", "job"), "uid-job") if self._dice.random() < 0.3 else None,
        )
        extra = (
            f"{made.scheduler_name} {made.shape.peers or ''} {zone or ''} {ports and 'port'} {made.gates and 'gated'}"
        )
        self._tell(f"pod {name}: {cpu}, {choice}, app {made.labels['app']}, in {_named(group)} {extra}")
        self._cluster.make(made)

    def _join(self) -> None:
        """One more member, of any size, for a gang that waits, if there is one that was promised nodes."""
        waiting = [each for each in self._those(Kind.POD) if isinstance(each, Pod) and each.group and not each.node]
        promised = [each for each in waiting if each.nominated] or waiting
        if promised:
            like = self._dice.choice(promised)
            cpu, gates = self._dice.choice([50, 100, 200]), ("gate",) if self._dice.random() < 0.3 else ()
            made = replace(like, shape=shape(cpu), gates=gates, nominated="", scheduled=None)
            name = self._dice.choice(SURPLUS)
            self._tell(f"pod {name}: {cpu}, joins {_named(like.group)} {gates and 'gated'}")
            self._cluster.make(replace(made, key=Key(Kind.POD, "default", name)))

    def _stop(self) -> None:
        stopping = [each for each in self._those(Kind.POD) if isinstance(each, Pod) and each.deleted is not None]
        if stopping:
            gone = self._dice.choice(stopping)
            self._tell(f"pod {gone.key.name} stopped")
            self._cluster.lose(gone.key)

    def _delete_pod(self) -> None:
        gone = self._some_pod()
        if gone is not None:
            self._tell(f"pod {gone.key.name} deleted")
            if gone.node and self._dice.random() < 0.5:
                self._cluster.put(replace(gone, deleted=self._cluster.now))
            self._cluster.lose(gone.key)

    def _relabel(self) -> None:
        found = self._some_pod()
        if found is not None:
            group = found.group
            labels = self._labels(group)
            self._tell(f"pod {found.key.name} relabelled: app {labels['app']}")
            self._cluster.put(replace(found, labels=labels))

    def _regroup(self) -> None:
        found = self._some_pod()
        if found is not None:
            group = self._group()
            labels = {**self._labels(group), "app": found.labels["app"]}
            self._tell(f"pod {found.key.name} moved from {_named(found.group)} to {_named(group)}")
            self._cluster.put(replace(found, group=group, labels=labels))

    def _ungate(self) -> None:
        gated = [each for each in self._those(Kind.POD) if isinstance(each, Pod) and each.gates]
        if gated:
            found = self._dice.choice(gated)
            self._tell(f"pod {found.key.name} ungated")
            self._cluster.put(replace(found, gates=()))

    def _resize(self) -> None:
        found = self._some_pod()
        if found is not None and found.node:
            cpu = self._dice.choice([50, 100])
            self._tell(f"pod {found.key.name} resized to {cpu}")
            smaller = shape(min(cpu, found.shape.requests["cpu"]))
            sized = replace(found.shape, requests=smaller.requests, scored_requests=smaller.scored_requests)
            self._cluster.put(replace(found, shape=sized))

    def _finish(self) -> None:
        found = self._some_pod()
        if found is not None and found.node:
            self._tell(f"pod {found.key.name} succeeded")
            self._cluster.put(replace(found, phase=Phase.SUCCEEDED))

    def _workload(self) -> None:
        key = self._dice.choice(WORKLOADS)
        name = "" if key.kind is Kind.POD_GROUP else "workers"
        topology = "zone" if self._dice.random() < 0.15 else ""
        described = gang(self._dice.randint(1, 3), name, self._dice.random() < 0.4, topology)
        if self._dice.random() < 0.15:
            described = PodGroup(name)
        shielded = self._dice.choice(["", "", "high"])
        choice = self._dice.choice([*CLASSES, ""])
        made = workload(key.name, described, priority_class=choice, preemption_priority_class=shielded)
        known = self._cluster.objects.get(key)
        verb = "changed" if known is not None and self._dice.random() < 0.5 else "made"
        self._tell(f"{key.name} {verb}: {described}, {choice or 'no class'}, shield {shielded or 'none'}")
        if verb == "changed" and isinstance(known, Workload):
            self._cluster.put(replace(known, groups=made.groups))
        else:
            self._cluster.make(replace(made, key=key))

    def _delete_workload(self) -> None:
        there = [key for key in WORKLOADS if key in self._cluster.objects]
        if there:
            key = self._dice.choice(there)
            self._tell(f"{key.name} deleted")
            self._cluster.lose(key)

    def _budget(self) -> None:
        key = Key(Kind.DISRUPTION_BUDGET, "default", "budget")
        if key in self._cluster.objects and self._dice.random() < 0.4:
            self._tell("budget deleted")
            self._cluster.lose(key)
        else:
            allowed = self._dice.randrange(2)
            self._tell(f"budget for black: {allowed}")
            self._cluster.make(DisruptionBudget(key, "", "", BLACK, allowed))

    def _namespace(self) -> None:
        known = self._cluster.objects[Key(Kind.NAMESPACE, "", "default")]
        labels = {"team": self._dice.choice("xy")}
        self._tell(f"namespace: {labels}")
        self._cluster.put(replace(known, labels=labels))


def _named(group: GroupKey | None) -> str:
    return "no group" if group is None else f"{group.workload.name}/{group.group}"


def said(effect: Effect) -> str:
    match effect:
        case Bind(target=target, node=name):
            return f"bind {target.key.name} to {name}"
        case Evict(target=target):
            return f"evict {target.key.name}"
        case PatchStatus(target=target, change=Nomination(node=name)):
            return f"nominate {target.key.name} to {name or 'nothing'}"
        case PatchStatus(target=target, change=PodCondition(type=kind, status=status, message=message)):
            return f"say of {target.key.name} {kind} {status}: {message}"
        case PatchStatus(target=target, change=change):
            return f"say of {target.key.name}: {change}"
    return f"{type(effect).__name__}"


def decisions_are_those_of_a_fresh_process(seed: int) -> None:
    History(seed).live()
