"""Karpenter: batches of unschedulable pods are packed onto new nodes of whichever groups suit them.

Every group is an instance type that may be bought. Of disruption, only empty nodes are removed; pods are never moved.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from headgate.model.effects import Effect, WakeAt
from headgate.model.events import Event, Gone, Observed, TimerFired
from headgate.model.keys import Kind
from headgate.model.pod import Pod
from headgate.model.resources import CPU, MEMORY
from headgate.world.autoscaling.cloud_provider import REGISTER, Instance, NodeGroup
from headgate.world.autoscaling.snapshot import REACTION_TIME, UNSCHEDULABLE, ClusterState, Simulation, stays_with_node

BATCH_IDLE, BATCH_MAX = 1.0, 10.0  # seconds: a batch ends after so long without a new pod, and after so long anyway
REQUEUE = 10.0  # seconds after which a pod that is still provisionable triggers again
NOMINATION = 20.0  # seconds that a node is kept for the pods meant to run there
DISRUPTION_POLL, CONSOLIDATION_TTL = 10.0, 15.0  # seconds between looks for empty nodes, and until one is removed
ROUNDING = 1e-6  # seconds; differences of times are not exact
BATCH, DISRUPT = "batch", "disrupt"


class Batcher:
    """The batch window: opened by the first trigger, extended by each pod that has not triggered in it yet.

    A pod triggers when it becomes provisionable, and every REQUEUE seconds from then on.
    """

    def __init__(self) -> None:
        self._since: dict[str, float] = {}  # pods by uid, with the time they became provisionable
        self._opened: float | None = None
        self._extended = 0.0
        self._in_batch: set[float] = set()  # those that triggered in it, by the time they became provisionable

    def __len__(self) -> int:
        return len(self._since)

    def __contains__(self, uid: str) -> bool:
        return uid in self._since

    def add(self, uid: str, now: float) -> None:
        if uid not in self._since:
            self._since[uid] = now
            self._trigger(now, now)

    def drop(self, uid: str) -> None:
        self._since.pop(uid, None)

    def requeue(self, now: float) -> None:
        """Triggers the pods whose turn it is now."""
        for since in dict.fromkeys(self._since.values()):
            if since < now and abs(_turn(since, now) - now) < ROUNDING:
                self._trigger(since, now)

    def next_turn(self, now: float) -> float:
        """When a pod triggers next, from now on; infinity without pods."""
        return min((_turn(since, now, after=True) for since in self._since.values()), default=math.inf)

    @property
    def closes_at(self) -> float:
        """When the window closes, with the turns that come before; infinity while it is not open."""
        if self._opened is None:
            return math.inf
        extended, latest = self._extended, self._opened + BATCH_MAX
        absent = [since for since in dict.fromkeys(self._since.values()) if since not in self._in_batch]
        for turn in sorted(_turn(since, extended, after=True) for since in absent):
            if turn > min(extended + BATCH_IDLE, latest):
                break
            extended = turn
        return min(extended + BATCH_IDLE, latest)

    def close(self) -> None:
        self._opened = None
        self._in_batch = set()

    def _trigger(self, since: float, now: float) -> None:
        if self._opened is None:
            self._opened = self._extended = now
        elif since not in self._in_batch or since == now:
            self._extended = now
        self._in_batch.add(since)


def _turn(since: float, now: float, after: bool = False) -> float:
    """The first turn at or after now, or only after it, of a pod that became provisionable then."""
    turns = round((now - since) / REQUEUE, 6)
    return since + REQUEUE * max(0, math.floor(turns) + 1 if after else math.ceil(turns))


class NodeClaim(Struct):
    """A node to be launched: the groups it may still be of, with the node that stands for each in the simulation."""

    options: dict[str, NodeGroup]  # by the name of that node, the smallest first
    pods: list[Pod] = field(default_factory=list)


class Karpenter:
    """Provisions at the end of every batch window, and removes empty nodes that no pod is meant for."""

    reads = (Kind.NODE, Kind.POD)

    def __init__(self, groups: Sequence[NodeGroup]) -> None:
        self._state = ClusterState(groups, lambda pod: pod.node)
        self.cloud = self._state.cloud
        self._cheapest_first = sorted(groups, key=_price)
        self._batcher = Batcher()
        self._meant_for: dict[str, dict[str, None]] = {}  # uids of provisionable pods by the node they are meant for
        self._kept_until: dict[str, float] = {}  # nodes by name
        self._empty: dict[str, float] = {}  # nodes by name, with the time since when they are empty
        self._timers: dict[str, float] = {}  # set and not fired yet

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        effects: list[Effect] = []
        for event in batch:
            self._state.observe(event, now)
            match event:
                case Observed(Pod() as pod):
                    self._observe_pod(pod, now)
                case Gone(key, uid) if key.kind is Kind.POD:
                    self._not_provisionable(uid, now)
                case TimerFired(timer):
                    self._timers.pop(timer, None)
                    if timer == REGISTER:
                        self._state.give_up(now)
                        effects += self.cloud.register(now)
        if self._state.changed and len(self._batcher):
            self._batcher.requeue(now)
        if now >= self._batcher.closes_at:
            self._batcher.close()
            effects += self._provision(now)
        effects += self._disrupt(now)
        return effects + list(self._set_timers(now))

    def reaction_time(self, pod: Pod) -> float:
        """Seconds within which it orders a node for a pod that needs one; infinity if it never does."""
        return math.inf if stays_with_node(pod) else REACTION_TIME

    def _observe_pod(self, pod: Pod, now: float) -> None:
        if is_provisionable(pod):
            self._batcher.add(pod.uid, now)
        elif pod.uid in self._batcher:
            self._not_provisionable(pod.uid, now)

    def _not_provisionable(self, uid: str, now: float) -> None:
        self._batcher.drop(uid)
        for node in [node for node, pods in self._meant_for.items() if uid in pods]:
            del self._meant_for[node][uid]
            self._kept_until[node] = now + NOMINATION
            if not self._meant_for[node]:
                del self._meant_for[node]

    # provisioning

    def _provision(self, now: float) -> list[Effect]:
        """Every pod goes to a node or an upcoming one, to a claim of this batch, or to a new claim."""
        self._state.changed = False
        self._meant_for = {}
        pods = sorted((pod for pod in self._state.waiting.values() if is_provisionable(pod)), key=_scheduling_order)
        with self._state.snapshot.simulation() as simulation:
            left = [pod for pod in pods if not self._mean_for(simulation.place(pod), pod)]
            claims = NodeClaims(simulation, self._cheapest_first, self._free_instances())
            for pod in left:
                claims.add(pod)
        return [effect for group, nodes in claims.launched() for effect in self._launch(group, nodes, now)]

    def _launch(self, group: NodeGroup, nodes: list[list[Pod]], now: float) -> list[Effect]:
        timers = self._state.order(group, nodes, now)
        for instance in self.cloud.scale_ups[-1].instances:
            for pod in instance.pods:
                self._mean_for(instance.name, pod)
        return timers

    def _mean_for(self, node: str, pod: Pod) -> bool:
        if node:
            self._meant_for.setdefault(node, {})[pod.uid] = None
        return bool(node)

    def _free_instances(self) -> dict[str, int]:
        return {group.name: self.cloud.may_order(group) for group in self.cloud.groups}

    # disruption

    def _disrupt(self, now: float) -> list[Effect]:
        """Removes nodes found empty at a look that still are when the time to live is over."""
        instances = [each for each in self.cloud.present() if not each.upcoming]
        self._empty = {each.name: self._empty.get(each.name, now) for each in instances if self._is_unused(each, now)}
        removed: list[Effect] = []
        surplus = {group.name: self.cloud.size(group) - group.min for group in self.cloud.groups}
        for name, since in self._empty.items():
            instance = self.cloud.get(name)
            if instance is not None and now >= _removed_at(since) and surplus[instance.group.name] > 0:
                surplus[instance.group.name] -= 1
                removed.append(self._state.terminate(instance))
        return removed

    def _is_unused(self, instance: Instance, now: float) -> bool:
        meant = instance.name in self._meant_for or now < self._kept_until.get(instance.name, -math.inf)
        return not meant and self._state.is_empty(instance)

    # when to look again

    def _set_timers(self, now: float) -> Iterator[Effect]:
        """One timer for the batch window or the next trigger, one for empty nodes.

        While nothing changes, a batch would be decided as the last one, and triggers are left out.
        """
        opens = self._batcher.next_turn(now) if self._state.changed else math.inf
        yield from self._set_timer(BATCH, min(self._batcher.closes_at, opens), now)
        self._kept_until = {node: until for node, until in self._kept_until.items() if until > now}
        kept = [until for node, until in self._kept_until.items() if self.cloud.get(node) is not None]
        removals = [_removed_at(since) for name, since in self._empty.items() if self._may_shrink(name)]
        yield from self._set_timer(DISRUPT, min((at for at in (*kept, *removals) if at > now), default=math.inf), now)

    def _set_timer(self, timer: str, at: float, now: float) -> Iterator[Effect]:
        if now < at < self._timers.get(timer, math.inf):
            self._timers[timer] = at
            yield WakeAt(at, timer)

    def _may_shrink(self, name: str) -> bool:
        instance = self.cloud.get(name)
        return instance is not None and self.cloud.size(instance.group) > instance.group.min


class NodeClaims:
    """The nodes one batch would launch. A pod goes to the claim with the fewest pods that takes it."""

    def __init__(self, simulation: Simulation, groups: Sequence[NodeGroup], free: dict[str, int]) -> None:
        self._simulation, self._groups = simulation, groups
        self._free = free  # instances by group; an open claim counts against every group it may become
        self._claims: list[NodeClaim] = []
        self._refusals: dict[Hashable, set[int]] = {}  # claims, by pods that are alike, that take no more of them
        self._unsuited: set[Hashable] = set()  # pods that are alike, with the groups of which none takes them

    def add(self, pod: Pod) -> None:
        """Finds a claim for the pod; nothing happens where no group suits it."""
        alike: Hashable = pod.shape if pod.shape.peers is None else pod.uid
        refusals = self._refusals.setdefault(alike, set())
        numbers = (number for number in range(len(self._claims)) if number not in refusals)
        for number in sorted(numbers, key=lambda number: len(self._claims[number].pods)):
            if self._join(self._claims[number], pod):
                return
            refusals.add(number)
        suitable = (alike, tuple(group.name for group in self._groups if self._free[group.name] > 0))
        if suitable not in self._unsuited and not self._open(pod):
            self._unsuited.add(suitable)

    def launched(self) -> list[tuple[NodeGroup, list[list[Pod]]]]:
        """Each claim becomes a node of the cheapest group it may be of: the pods of every node, by group."""
        launched: dict[str, tuple[NodeGroup, list[list[Pod]]]] = {}
        for claim in self._claims:
            group = next(iter(claim.options.values()))
            launched.setdefault(group.name, (group, []))[1].append(claim.pods)
        return list(launched.values())

    def _join(self, claim: NodeClaim, pod: Pod) -> bool:
        fitting = [name for name in claim.options if self._simulation.fits(pod, name)]
        if not fitting:
            return False
        if pod.shape.peers is not None:  # it must not be counted in several places
            fitting = fitting[:1]
        for name in [name for name in claim.options if name not in fitting]:
            self._narrow(claim, name)
        for name in fitting:
            key = replace(pod.key, name=f"{pod.key.name}@{claim.options[name].name}")
            self._simulation.take(replace(pod, key=key), name)
        claim.pods.append(pod)
        return True

    def _open(self, pod: Pod) -> bool:
        number = len(self._claims)
        options = {f"{group.name}/{number}": group for group in self._groups if self._free[group.name] > 0}
        claim = NodeClaim(options)
        for name, group in options.items():
            self._free[group.name] -= 1
            self._simulation.add_node(group.template, name)
        if self._join(claim, pod):
            self._claims.append(claim)
            return True
        for name in list(options):
            self._narrow(claim, name)
        return False

    def _narrow(self, claim: NodeClaim, name: str) -> None:
        """The claim will not be of this group."""
        self._free[claim.options.pop(name).name] += 1
        self._simulation.remove_node(name)


def is_provisionable(pod: Pod) -> bool:
    """PodScheduled has the reason Unschedulable, whatever its status, and no node is bound or nominated."""
    if pod.scheduled is None or pod.scheduled.reason != UNSCHEDULABLE:
        return False
    return not pod.node and not pod.nominated and not stays_with_node(pod)


def _scheduling_order(pod: Pod) -> tuple[int, int, float, str]:
    """The largest first."""
    return -pod.shape.requests[CPU], -pod.shape.requests[MEMORY], pod.created, pod.uid


def _price(group: NodeGroup) -> tuple[int, int, str]:
    """Smaller is cheaper."""
    return group.template.allocatable[CPU], group.template.allocatable[MEMORY], group.name


def _removed_at(since: float) -> float:
    """When a node that is empty since then is removed, if it stays so."""
    return math.ceil(since / DISRUPTION_POLL) * DISRUPTION_POLL + CONSOLIDATION_TTL
