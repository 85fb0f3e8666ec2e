"""Random clusters with Volcano's queues, and what the queues allow, worked out once more from the objects alone.

Queues of all kinds come, change, close and go, and so do PodGroups, pods behind gates of ours and of others, and nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

from builders import amounts, node, pod, priority_class, shape
from histories import CLASSES, PLAIN, BrokenLaw, Cluster, Making
from msgspec.structs import asdict, replace
from volcano_scenes import OPT_IN, group_key, pod_group, queue

from headgate.engine.scheduler.queue_capacity import opted_in
from headgate.model.effects import (
    PatchSpec,
    PatchStatus,
    PodGroupStatus,
    QueueReservation,
    RemoveGate,
    VolcanoQueueStatus,
)
from headgate.model.events import WriteError
from headgate.model.groups import GroupKey, Workload
from headgate.model.keys import Key, Kind
from headgate.model.node import Taint, TaintEffect
from headgate.model.objects import Namespace
from headgate.model.pod import Phase, Pod
from headgate.model.volcano import (
    DEFAULT_QUEUE,
    QUEUE_ANNOTATIONS,
    QUEUE_GATE,
    QUEUE_GATES,
    ROOT,
    DequeueStrategy,
    QueueState,
    VolcanoQueue,
)

FOREIGN = "example.com/theirs"
NODES = ("n0", "n1", "n2")
QUEUES = ("org", "a", "b", "c", "d")
GROUPS = ("red", "blue")
PODS = tuple(f"p{number}" for number in range(9))
HELD = ("waiting for its gang", "waiting for the gates", "waiting for PodGroup", "no PriorityClass")
STARTING = (Taint("node.kubernetes.io/not-ready", "", TaintEffect.NO_SCHEDULE),)


# the cluster


class QueueCluster(Cluster):
    """A server that also has queues. It performs no removal of a gate that is not ours, or not the last to go."""

    def __init__(self, dice: Random) -> None:
        super().__init__(dice)
        self.now = 1000.0

    def _changed(self, known, effect):
        match effect:
            case RemoveGate(gate=gate, index=index):
                return self._ungated(known, ((index, gate),))
            case PatchSpec(change=QueueReservation(at, gates)):
                changed = self._ungated(known, gates)
                return changed if isinstance(changed, WriteError) else replace(changed, reserved_at=at)
            case PatchStatus(change=VolcanoQueueStatus() as status):
                return replace(known, **asdict(status))
            case PatchStatus(change=PodGroupStatus() as status):
                counts = {"phase": status.phase, "running": status.running}
                counts |= {"succeeded": status.succeeded, "failed": status.failed}
                return replace(known, conditions=status.conditions, volcano=replace(known.volcano, **counts))
        return super()._changed(known, effect)

    def _ungated(self, known, gates):
        for index, gate in gates:
            if known.gates[index : index + 1] != (gate,):
                return WriteError.CONFLICT
            if gate not in QUEUE_GATES:
                raise BrokenLaw(f"gate {gate} of {known.key.name} is not ours to remove")
        left = tuple(gate for gate in known.gates if gate not in dict(gates).values())
        if set(left) - QUEUE_GATES:
            raise BrokenLaw(f"our gate of {known.key.name} was removed before {left}")
        return replace(known, gates=left)


class QueueMaking(Making):
    """What people, controllers and machines do to a cluster with queues."""

    def begin(self) -> None:
        self._cluster.make(Namespace(Key(Kind.NAMESPACE, "", "default"), "", "", {}))
        for name in CLASSES:
            self._class(name, CLASSES[name][0])
        for name in QUEUES[: self._dice.randint(2, 5)]:
            self._queue(name)
        for name in GROUPS:
            self._pod_group(name)
        for name in NODES[: self._dice.randint(0, 3)]:
            self._node(name)
        for _ in range(self._dice.randrange(6)):
            self._pod()

    def act(self) -> None:
        some = {
            self._pod: 8,
            self._any_queue: 4,
            self._any_state: 2,
            self._delete_queue: 1,
            self._any_pod_group: 3,
            self._delete_pod_group: 1,
            self._delete_pod: 3,
            self._stop: 4,
            self._requeue: 3,
            self._regroup: 2,
            self._ungate: 4,
            self._finish: 3,
            self._any_class: 1,
            self._any_node: 4,
            self._delete_node: 1,
            self._time_passes: 4,
            self._bound_by_others: 1,
            self._resize: 1,
        }
        self._dice.choices(list(some), list(some.values()))[0]()

    def _node(self, name: str) -> None:
        labels = {"zone": self._dice.choice("ab"), "kubernetes.io/hostname": name}
        taints = STARTING if self._dice.random() < 0.15 else ()
        cpu = self._dice.choice([1000, 2000, 4000])
        made = node(name, cpu=cpu, labels=labels, taints=taints)
        known = self._cluster.objects.get(made.key)
        self._tell(f"node {name}: {cpu} in {labels['zone']}, {'starting' if taints else 'ready'}")
        if known is None:
            self._cluster.make(made)
        else:
            self._cluster.put(replace(made, uid=known.uid))

    def _any_node(self) -> None:
        self._node(self._dice.choice(NODES))

    def _queue(self, name: str) -> None:
        dice = self._dice
        above = dice.choice((ROOT, ROOT, "org", "org", *QUEUES)) if name != "org" else ROOT
        made = queue(
            name,
            dice.choice((None, 0, 1000, 2000, 3000, 4000)) if name != "org" else dice.choice((None, 3000, 4000)),
            above,
            guarantee=dice.choice((0, 0, 0, 1000, 2000)),
            deserved=dice.choice((0, 0, 1000, 2000)),
            priority=dice.choice((0, 0, 0, 1, 2)),
            reclaimable=dice.random() < 0.8,
            weight=dice.choice((1, 2, 10)),
            dequeue=dice.choice((DequeueStrategy.TRAVERSE, DequeueStrategy.TRAVERSE, DequeueStrategy.FIFO)),
        )
        known = self._cluster.objects.get(made.key)
        limits = f"{made.capability.items} guarantee {made.guarantee.items} deserved {made.deserved.items}"
        self._tell(f"queue {name} under {above}: {limits}, priority {made.priority}, {made.dequeue}")
        if known is None or dice.random() < 0.1:
            self._cluster.make(made)
        else:
            shown = {field: getattr(known, field) for field in ("state", "counts", "allocated", "reserved")}
            self._cluster.put(replace(made, uid=known.uid, **shown))

    def _any_queue(self) -> None:
        self._queue(self._dice.choice((*QUEUES, *QUEUES, DEFAULT_QUEUE)))

    def _any_state(self) -> None:
        known = self._dice.choice(self._those(Kind.VOLCANO_QUEUE) or [None])
        if known is not None:
            state = QueueState.OPEN if not known.is_open else self._dice.choice((QueueState.CLOSING, QueueState.OPEN))
            self._tell(f"queue {known.name} is {state}")
            self._cluster.put(replace(known, state=state))

    def _delete_queue(self) -> None:
        there = self._those(Kind.VOLCANO_QUEUE)
        if there:
            gone = self._dice.choice(there)
            self._tell(f"queue {gone.name} deleted")
            self._cluster.lose(gone.key)

    def _pod_group(self, name: str) -> None:
        dice = self._dice
        needs = {"min_resources": amounts(dice.choice((1000, 3000)))} if dice.random() < 0.2 else {}
        members, of, chosen = dice.randint(0, 3), dice.choice(QUEUES), dice.choice(("", "", *CLASSES))
        made = pod_group(name, members, of, priority_class=chosen, volcano=needs)
        self._tell(f"group {name}: {members} in queue {of}, {chosen or 'no class'} {needs}")
        known = self._cluster.objects.get(made.key)
        if known is None or dice.random() < 0.3:
            self._cluster.make(made)
        else:
            shown = {each: getattr(known.volcano, each) for each in ("phase", "running", "succeeded", "failed")}
            volcano = replace(made.volcano, **shown)
            self._cluster.put(replace(made, uid=known.uid, conditions=known.conditions, volcano=volcano))

    def _any_pod_group(self) -> None:
        self._pod_group(self._dice.choice(GROUPS))

    def _delete_pod_group(self) -> None:
        there = self._those(Kind.VOLCANO_POD_GROUP)
        if there:
            gone = self._dice.choice(there)
            self._tell(f"group {gone.key.name} deleted")
            self._cluster.lose(gone.key)

    def _group(self) -> GroupKey | None:
        return GroupKey(group_key(self._dice.choice(GROUPS))) if self._dice.random() < 0.45 else None

    def _pod(self) -> None:
        dice, name = self._dice, self._dice.choice(PODS)
        group, of = self._group(), dice.choice((*QUEUES, *QUEUES, ""))
        asks = OPT_IN if dice.random() < 0.85 else {}
        gates = (QUEUE_GATE,) if asks and dice.random() < 0.9 else ()
        if dice.random() < 0.15:
            gates = (FOREIGN, *gates) if dice.random() < 0.5 else (*gates, FOREIGN)
        chosen = dice.choice((*CLASSES, "low", "low"))
        found = self._cluster.objects.get(Key(Kind.PRIORITY_CLASS, "", chosen))
        zone = (("zone", dice.choice("abc")),) if dice.random() < 0.4 else ()
        cpu = dice.choice((0, 500, 1000, 1000, 1000, 2000))
        made = pod(
            name,
            shape=shape(cpu, node_selector=zone),
            annotations={QUEUE_ANNOTATIONS[0]: of, **asks} if of else asks,
            gates=gates,
            group=group,
            scheduler_name=dice.choices(["headgate", PLAIN], [85, 15])[0],
            priority=getattr(found, "value", 0),
            preempts=getattr(found, "preempts", True),
        )
        where = f"queue {of or 'none'}, group {group.workload.name if group else 'none'}"
        self._tell(
            f"pod {name}: {cpu}, {chosen}, {where}, {zone}, {made.scheduler_name}, {'asks' if asks else ''} {gates}"
        )
        self._cluster.make(made)

    def _class(self, name: str, value: int) -> None:
        made = priority_class(name, value, preempts=self._dice.random() < 0.85)
        self._tell(f"class {name} = {value}, preempts {made.preempts}")
        self._cluster.make(made)

    def _requeue(self) -> None:
        found = self._some_pod()
        if found is not None:
            of = self._dice.choice(QUEUES)
            self._tell(f"pod {found.key.name} names queue {of}")
            self._cluster.put(replace(found, annotations={**found.annotations, QUEUE_ANNOTATIONS[0]: of}))

    def _regroup(self) -> None:
        found = self._some_pod()
        if found is not None:
            group = self._group()
            self._tell(f"pod {found.key.name} is in {group.workload.name if group else 'no group'}")
            self._cluster.put(replace(found, group=group))

    def _ungate(self) -> None:
        """Others remove their gates, and now and then ours."""
        gated = [each for each in self._those(Kind.POD) if each.gates]
        if gated:
            found = self._dice.choice(gated)
            gone = QUEUE_GATE if self._dice.random() < 0.1 else FOREIGN
            self._tell(f"gate {gone} of pod {found.key.name} removed")
            self._cluster.put(replace(found, gates=tuple(each for each in found.gates if each != gone)))

    def _bound_by_others(self) -> None:
        """A pod of another scheduler on a node, in a queue."""
        nodes = self._those(Kind.NODE)
        if nodes:
            of, cpu, name = self._dice.choice(QUEUES), self._dice.choice((500, 1000)), self._dice.choice(PODS)
            made = pod(name, cpu, annotations={QUEUE_ANNOTATIONS[0]: of}, scheduler_name="other", phase=Phase.RUNNING)
            self._tell(f"pod {name} of another scheduler runs: {cpu} of queue {of}")
            self._cluster.make(replace(made, node=self._dice.choice(nodes).key.name))

    def _resize(self) -> None:
        found = self._some_pod()
        if found is not None and found.node:
            cpu = min(500, found.shape.requests["cpu"])
            self._tell(f"pod {found.key.name} resized to {cpu}")
            smaller = shape(cpu)
            sized = replace(found.shape, requests=smaller.requests, scored_requests=smaller.scored_requests)
            self._cluster.put(replace(found, shape=sized))

    def clear_the_way(self) -> None:
        """Every queue is open and has some capacity, every pod stands alone, and there are nodes for all."""
        self._tell("the way is clear")
        for name in QUEUES:
            dequeue = self._dice.choice(list(DequeueStrategy))
            self._cluster.make(queue(name, 3000, "org" if name != "org" else ROOT, dequeue=dequeue))
        for key in [each.key for each in self._those(Kind.VOLCANO_QUEUE) if each.name not in QUEUES]:
            self._cluster.lose(key)
        for zone in "abc":
            self._cluster.make(node(f"big-{zone}", cpu=16_000, labels={"zone": zone}))
        for one in self._those(Kind.POD):
            gates = tuple(each for each in one.gates if each in QUEUE_GATES)
            self._cluster.put(replace(one, group=None, gates=gates))

    def finish_all(self) -> bool:
        """Whether a pod is left that has not run; those on nodes are done."""
        self._cluster.now += 20.0
        for one in self._those(Kind.POD):
            if one.node or one.deleted is not None:
                self._cluster.lose(one.key)
        return any(not one.node for one in self._those(Kind.POD))

    def _time_passes(self) -> None:
        seconds = self._dice.choice((30.0, 200.0, 450.0, 650.0, 1300.0))
        self._cluster.now += seconds
        self._tell(f"{seconds:g}s later")


# what the queues allow, by the objects


class QueueView:
    """What every queue has in use and reserved, and what it allows, worked out from the objects as they are."""

    def __init__(self, objects) -> None:
        self.objects = objects
        self.queues = {each.name: each for each in objects.values() if isinstance(each, VolcanoQueue)}
        self.queues.setdefault(ROOT, queue(ROOT, None, ""))
        self.queues.setdefault(DEFAULT_QUEUE, queue(DEFAULT_QUEUE))
        self.own: Counter[str] = Counter()
        self.used: Counter[str] = Counter()
        self.pods = sorted((each for each in objects.values() if isinstance(each, Pod)), key=lambda each: each.key)
        self.placed = [each for each in self.pods if each.holds_room and self.queue_of(each)]
        self.reserving = [each for each in self.pods if reserves(each) and self.queue_of(each)]
        for each in self.placed:
            self.add(self.queue_of(each), each.shape.requests["cpu"])
        self.in_use = Counter(self.used)
        for each in self.reserving:
            self.add(self.queue_of(each), each.shape.requests["cpu"])
        self.shown = Counter(self.used)
        for each in self.pods:
            if is_held(each) and self.queue_of(each):
                self.add(self.queue_of(each), each.shape.requests["cpu"])

    def queue_of(self, one: Pod) -> str:
        group = self.objects.get(one.group.workload) if one.group is not None else None
        if isinstance(group, Workload):
            return group.volcano.queue
        return one.annotations.get(QUEUE_ANNOTATIONS[0]) or (DEFAULT_QUEUE if opted_in(one) else "")

    def path(self, name: str) -> list[str] | None:
        """The queue and those above it; None where it has no place."""
        found = []
        while name != ROOT:
            if name in found or name not in self.queues:
                return None
            found.append(name)
            name = self.queues[name].parent
        return [*found, ROOT]

    def add(self, name: str, cpu: int) -> None:
        self.own[name] += cpu
        for level in self.path(name) or ():
            self.used[level] += cpu

    def below(self, name: str) -> list[str]:
        return [each for each, one in self.queues.items() if one.parent == name and each != ROOT and self.path(each)]

    def limit(self, name: str) -> int | None:
        return dict(self.queues[name].capability.items).get("cpu")

    def kept(self, name: str) -> int:
        """Guaranteed to the queue, or to those below it."""
        if any(self._beyond(level) for level in (self.path(name) or ())[1:]):
            return 0
        own = max(self.queues[name].guarantee["cpu"], self._kept_below(name))
        return own if self.limit(name) is None else min(own, self.limit(name))

    def _kept_below(self, name: str) -> int:
        total = sum(self._claim(each) for each in self.below(name))
        return 0 if self.limit(name) is not None and total > self.limit(name) else total

    def _claim(self, name: str) -> int:
        own = max(self.queues[name].guarantee["cpu"], self._kept_below(name))
        return own if self.limit(name) is None else min(own, self.limit(name))

    def _beyond(self, name: str) -> bool:
        """Whether more is guaranteed below the queue than it may use: then none of that counts."""
        total = sum(self._claim(each) for each in self.below(name))
        return self.limit(name) is not None and total > self.limit(name)

    def cost(self, name: str) -> int:
        """What the queue takes from the one above: what is in use below, or is guaranteed."""
        return max(self.kept(name), self._inside(name))

    def _inside(self, name: str) -> int:
        return self.own[name] + sum(self.cost(each) for each in self.below(name))

    def takes_pods(self, name: str) -> bool:
        return self.path(name) is not None and self.queues[name].is_open

    def fits(self, name: str, cpu: int) -> bool:
        """Whether every level allows this much more, and leaves the queues beside it what they are guaranteed."""
        more = cpu
        for level in self.path(name) if cpu else ():
            limit, inside = self.limit(level), self._inside(level)
            if limit is not None and (self.used[level] + cpu > limit or (more and inside + more > limit)):
                return False
            more = max(self.kept(level), inside + more) - max(self.kept(level), inside)
        return True

    # who waits

    def waiting(self) -> Iterator[list[Pod]]:
        """Pods that wait behind our gate and no other, alone or as many of a gang as start together."""
        ready = [each for each in self.pods if is_ours(each) and each.wants_node and not set(each.gates) - QUEUE_GATES]
        for one in ready:
            if one.gates and self.needed(one) <= 0 and self._describes(one):
                yield [one]
        for name in GROUPS:
            members = [each for each in self.pods if each.group == GroupKey(group_key(name))]
            waiting = [each for each in members if each.wants_node]
            needed = self.needed(waiting[0]) if waiting else 0
            if needed > 0 and len(waiting) >= needed and all(each in ready for each in waiting):
                unit = sorted(waiting, key=lambda each: (each.created, each.key))[:needed]
                if self._describes(unit[0]) and any(each.gates for each in unit):
                    yield unit

    def needed(self, one: Pod) -> int:
        """How many pods of its gang start together; 0 for one that goes by itself."""
        there = [each for each in self.pods if each.group == one.group and each.holds_room and each.deleted is None]
        least = self.members_needed(one)
        return least - len(there) if least else 0

    def members_needed(self, one: Pod) -> int:
        group = self.objects.get(one.group.workload) if one.group is not None else None
        gang = group.groups[0].gang if isinstance(group, Workload) else None
        return gang.min_count if gang is not None else 0

    def _describes(self, one: Pod) -> bool:
        """Whether it is known how and how important its group is; what it asks for in all is not looked at here."""
        if one.group is None:
            return True
        group = self.objects.get(one.group.workload)
        if not isinstance(group, Workload) or group.volcano.min_resources.items:
            return False
        return not group.priority_class or Key(Kind.PRIORITY_CLASS, "", group.priority_class) in self.objects

    def allows(self, unit: list[Pod]) -> bool:
        name = self.queue_of(unit[0])
        if not self.takes_pods(name) or (self.queues[name].dequeue is DequeueStrategy.FIFO and self.before(unit[0])):
            return False
        return self.fits(name, sum(each.shape.requests["cpu"] for each in unit if not reserves(each)))

    def before(self, one: Pod) -> list[Pod]:
        """Those that wait for the same queue and come first, as far as the pods tell."""
        order = self.order(one)
        return [
            each
            for each in self.pods
            if is_ours(each) and each.wants_node and not reserves(each) and not set(each.gates) - QUEUE_GATES
            if each.group is None or each.group != one.group or self.needed(one) <= 0
            if self.queue_of(each) == self.queue_of(one) and self.order(each) < order
        ]

    def overtaken(self, one: Pod) -> list[Pod]:
        """Those in the same fifo queue that come first and stay gated."""
        found = self.queues.get(self.queue_of(one))
        if found is None or found.dequeue is not DequeueStrategy.FIFO or not one.gates:
            return []
        return [each for each in self.before(one) if each.gates and each.group is None]

    def order(self, one: Pod) -> tuple[int, float, Key]:
        group = self.objects.get(one.group.workload) if one.group is not None else None
        chosen = group.priority_class if isinstance(group, Workload) else ""
        found = self.objects.get(Key(Kind.PRIORITY_CLASS, "", chosen))
        priority = one.priority if not isinstance(group, Workload) else found.value if found is not None else 0
        return -priority, one.created, one.key


def is_ours(one: Pod) -> bool:
    return one.scheduler_name in ("headgate", PLAIN)


def reserves(one: Pod) -> bool:
    """Whether an autoscaler may buy a node for the pod."""
    says = one.scheduled.reason if one.scheduled is not None else ""
    return one.wants_node and not one.gates and opted_in(one) and says == "Unschedulable"


def has_started(before: Pod, after: Pod) -> bool:
    """Whether the pod got a node, or was let go without one."""
    return (bool(after.node) and not before.node) or (bool(before.gates) and not after.gates)


def is_held(one: Pod) -> bool:
    """Whether the pod was let go and its gang holds it: then it may reserve."""
    says = one.scheduled.message if one.scheduled is not None else ""
    return one.wants_node and not one.gates and opted_in(one) and says.startswith(HELD)
