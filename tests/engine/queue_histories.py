"""Random clusters with Volcano's queues.

Queues of all kinds come, change, close and go, and so do PodGroups, pods behind gates of ours and of others, and nodes.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from builders import amounts, node, pod, priority_class, shape
from histories import CLASSES, PLAIN, BrokenLaw, Cluster, Making
from msgspec.structs import asdict, replace
from queue_view import GROUPS
from volcano_scenes import OPT_IN, group_key, pod_group, queue

from headgate.model.effects import (
    Evict,
    PatchSpec,
    PatchStatus,
    PodGroupStatus,
    QueueReservation,
    RemoveGate,
    VolcanoQueueStatus,
)
from headgate.model.events import WriteError
from headgate.model.keys import Key, Kind
from headgate.model.node import Taint, TaintEffect
from headgate.model.objects import Namespace
from headgate.model.pod import GroupKey, Phase, Pod
from headgate.model.volcano import (
    DEFAULT_QUEUE,
    QUEUE_ANNOTATIONS,
    QUEUE_GATE,
    QUEUE_GATES,
    RESERVED_AT,
    ROOT,
    DequeueStrategy,
    QueueState,
)

FOREIGN = "example.com/theirs"
NODES = ("n0", "n1", "n2")
QUEUES = ("org", "a", "b", "c", "d")
PODS = tuple(f"p{number}" for number in range(9))
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
                if isinstance(changed, WriteError):
                    return changed
                return replace(changed, reserved_at=at, annotations={**changed.annotations, RESERVED_AT: str(at)})
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


class Controllers(QueueCluster):
    """A cluster where whoever is evicted comes again, as it was made, when it is gone."""

    def __init__(self, dice: Random) -> None:
        super().__init__(dice)
        self.evictions: Counter[str] = Counter()  # of each pod, since nobody touched the cluster
        self._made_as: dict[Key, Pod] = {}
        self._evicted: dict[Key, str] = {}

    def make(self, one) -> None:
        self._evicted.pop(one.key, None)
        super().make(one)
        if isinstance(one, Pod):
            self._made_as[one.key] = one

    def perform(self, effect) -> None:
        known = self.objects.get(effect.target.key)
        if isinstance(effect, Evict) and known is not None and known.uid == effect.target.uid:
            self.evictions[known.key.name] += known.deleted is None
            self._evicted[known.key] = known.uid
        super().perform(effect)

    def lose(self, key: Key) -> None:
        gone = self.objects[key]
        super().lose(key)
        if self._evicted.pop(key, None) == gone.uid and gone.phase is Phase.RUNNING:
            self.make(self._made_as[key])


class QueueMaking(Making):
    """What people, controllers and machines do to a cluster with queues."""

    asking = 0.85  # of pods, those that ask for the gate
    strategies = (DequeueStrategy.TRAVERSE, DequeueStrategy.TRAVERSE, DequeueStrategy.FIFO)
    queues = QUEUES  # that pods and groups name
    zones = 0.4  # of pods, those that need a node in a zone

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
            dequeue=dice.choice(self.strategies),
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
        members, of, chosen = dice.randint(0, 3), dice.choice(self.queues), dice.choice(("", "", *CLASSES))
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
        group, of = self._group(), dice.choice((*self.queues, *self.queues, ""))
        asks = OPT_IN if dice.random() < self.asking else {}
        gates = (QUEUE_GATE,) if asks and dice.random() < 0.9 else ()
        if dice.random() < 0.15:
            gates = (FOREIGN, *gates) if dice.random() < 0.5 else (*gates, FOREIGN)
        chosen = dice.choice((*CLASSES, "low", "low"))
        found = self._cluster.objects.get(Key(Kind.PRIORITY_CLASS, "", chosen))
        zone = (("zone", dice.choice("abc")),) if dice.random() < self.zones else ()
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
            of = self._dice.choice(self.queues)
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
            of, cpu, name = self._dice.choice(self.queues), self._dice.choice((500, 1000)), self._dice.choice(PODS)
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


class UngatedMaking(QueueMaking):
    """Few queues, mostly fifo, with nodes for most pods; many never asked for the gate, and many fit no node."""

    asking = 0.4
    strategies = (DequeueStrategy.FIFO, DequeueStrategy.FIFO, DequeueStrategy.TRAVERSE)
    queues = ("a", "a", "a", "b")
    zones = 0.5

    def begin(self) -> None:
        self._cluster.make(Namespace(Key(Kind.NAMESPACE, "", "default"), "", "", {}))
        for name in CLASSES:
            self._class(name, CLASSES[name][0])
        self._cluster.make(queue("org", 4000))
        for name in ("a", "b"):
            self._queue(name)
        for name in GROUPS:
            self._pod_group(name)
        for zone in "ab":
            self._cluster.make(node(f"n{zone}", cpu=self._dice.choice((2000, 16_000)), labels={"zone": zone}))
        for _ in range(self._dice.randint(1, 5)):
            self._pod()

    def act(self) -> None:
        some = {
            self._pod: 10,
            self._any_queue: 2,
            self._any_state: 1,
            self._any_pod_group: 1,
            self._delete_pod: 2,
            self._stop: 1,
            self._requeue: 1,
            self._ungate: 2,
            self._finish: 2,
            self._any_node: 1,
            self._bound_by_others: 2,
        }
        self._dice.choices(list(some), list(some.values()))[0]()

    def _queue(self, name: str) -> None:
        dice = self._dice
        known = self._cluster.objects.get(queue(name).key)
        deserved, priority = dice.choice((0, 0, 0, 1000)), dice.choice((0, 0, 0, 1))
        limit, dequeue = dice.choice((None, 1500, 3000, 3000, 4000)), dice.choice(self.strategies)
        made = queue(name, limit, "org", deserved=deserved, priority=priority, dequeue=dequeue)
        self._tell(f"queue {name}: {limit}, deserves {deserved}, priority {priority}, {dequeue}")
        if known is None:
            self._cluster.make(made)
        else:
            shown = {field: getattr(known, field) for field in ("state", "counts", "allocated", "reserved")}
            self._cluster.put(replace(made, uid=known.uid, **shown))

    def _any_queue(self) -> None:
        self._queue(self._dice.choice(self.queues))

    def _group(self) -> GroupKey | None:
        return super()._group() if self._dice.random() < 0.3 else None


class SharingMaking(QueueMaking):
    """Queues that share what the one above them has and deserve parts of it, full of pods that come and go."""

    def begin(self) -> None:
        dice = self._dice
        self._cluster.make(Namespace(Key(Kind.NAMESPACE, "", "default"), "", "", {}))
        for name in CLASSES:
            self._class(name, CLASSES[name][0])
        self._cluster.make(queue("org", dice.choice((2000, 3000, 4000))))
        for name in QUEUES[1:]:
            self._queue(name)
        for name in GROUPS:
            self._pod_group(name)
        for zone in "ab":
            cpu = dice.choice((1000, 2000, 16_000))
            self._cluster.make(node(f"n{zone}", cpu=cpu, labels={"zone": zone}))
        for _ in range(dice.randint(3, 7)):
            self._pod()

    def act(self) -> None:
        some = {
            self._pod: 8,
            self._any_queue: 1,
            self._any_state: 1,
            self._any_pod_group: 1,
            self._delete_pod: 2,
            self._stop: 3,
            self._ungate: 1,
            self._finish: 3,
            self._any_class: 1,
            self._time_passes: 1,
        }
        self._dice.choices(list(some), list(some.values()))[0]()

    def _queue(self, name: str) -> None:
        dice, known = self._dice, self._cluster.objects.get(queue(name).key)
        fields = {
            "guarantee": dice.choice((0, 0, 0, 1000)) if known is None else known.guarantee,
            "deserved": dice.choice((0, 1000, 1000, 1500, 2000)),
            "priority": dice.choice((0, 0, 0, 1)),
            "reclaimable": dice.random() < 0.85,
            "dequeue": dice.choice(self.strategies),
        }
        above = "a" if name == "d" and dice.random() < 0.5 else "org"
        made = queue(name, dice.choice((None, None, None, 2000)), above, **fields)
        self._tell(f"queue {name} under {above}: {made.capability.items} {fields}")
        if known is None:
            self._cluster.make(made)
        else:
            shown = {field: getattr(known, field) for field in ("state", "counts", "allocated", "reserved")}
            self._cluster.put(replace(made, uid=known.uid, **shown))

    def _any_queue(self) -> None:
        self._queue(self._dice.choice(QUEUES[1:]))

    def _group(self) -> GroupKey | None:
        return super()._group() if self._dice.random() < 0.4 else None
