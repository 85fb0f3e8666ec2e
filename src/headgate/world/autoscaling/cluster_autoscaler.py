"""The Cluster Autoscaler: every ten seconds it looks for unschedulable pods and grows one node group.

It follows Cluster Autoscaler 1.34 with its default flags, and classifies pods as later versions do. It reads conditions
and fields of pods and knows nothing of gangs. Of scale-down, only empty nodes are removed; pods are never moved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from headgate.api.wire import InvalidDuration, parse_duration
from headgate.model.effects import Effect, WakeAt
from headgate.model.events import Event, TimerFired
from headgate.model.keys import Kind
from headgate.model.node import Node
from headgate.model.pod import Pod
from headgate.model.resources import CPU, MEMORY, Resources, total
from headgate.world.autoscaling.cloud_provider import MAX_NODE_PROVISION_TIME, REGISTER, Instance, NodeGroup
from headgate.world.autoscaling.snapshot import (
    REACTION_TIME,
    UNSCHEDULABLE,
    ClusterState,
    PackedNode,
    Simulation,
    pack,
    stays_with_node,
)

SCAN_INTERVAL = 10.0  # seconds between the starts of two loops
EXPENDABLE_CUTOFF = -10  # pods of lower priority neither cause a scale-up nor take capacity
NEW_POD_DELAY = 0.0  # seconds a pod must be older than, by its creationTimestamp
POD_DELAY_ANNOTATION = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
NEW_PODS_BUFFER, NEW_GPU_PODS_BUFFER = 2.0, 30.0  # seconds the oldest pod, or GPU pod, must have existed
GPUS = ("nvidia.com/gpu", "amd.com/gpu", "microsoft.com/directx")
MAX_NODES_PER_SCALE_UP = 1000
FIRST_BACKOFF, LONGEST_BACKOFF = 300.0, 1800.0  # seconds a group is left alone after a failed scale-up
UNNEEDED_TIME = 600.0  # seconds a node must have been empty
DELAY_AFTER_ADD = 600.0  # seconds after the last scale-up during which no node is removed
SCAN = "scan"


class NodeGroupBackoff(Struct, frozen=True):
    """A group is left alone until then; `seconds` is the length of this backoff."""

    until: float
    seconds: float


class ExpansionOption(Struct, frozen=True):
    """Nodes of one group, and the pods that would run on each."""

    group: NodeGroup
    nodes: tuple[PackedNode, ...]

    @property
    def pods(self) -> list[Pod]:
        return [pod for node in self.nodes for pod in node.pods]


class ClusterAutoscaler:
    """A loop at every multiple of SCAN_INTERVAL; one that could decide nothing new is skipped."""

    reads = (Kind.NODE, Kind.POD)

    def __init__(self, groups: Sequence[NodeGroup]) -> None:
        self._state = ClusterState(groups, _takes_capacity_of)
        self.cloud = self._state.cloud
        self._backoffs: dict[str, NodeGroupBackoff] = {}  # by group; kept after its end, since the next one is longer
        self._unneeded: dict[str, float] = {}  # nodes by name, with the time of the loop that found them empty
        self._new_until: list[float] = []  # when pods that were too new in the last loop no longer are
        self._hints: dict[str, str] = {}  # where candidates were placed in the last loop, by uid
        self._last_scale_up = -math.inf
        self._scans_at = math.inf  # the next loop that a timer is set for

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        effects: list[Effect] = []
        for event in batch:
            failed = self._state.observe(event, now)
            if failed is not None:
                self._back_off(failed, now)
            if event == TimerFired(REGISTER):
                effects += self.cloud.register(now)
        if now >= self._scans_at:
            self._scans_at = math.inf
            effects += self._loop(now)
        return effects + self._scan_later(now)

    def reaction_time(self, pod: Pod) -> float:
        """Seconds within which it orders a node for a pod that needs one; infinity if it never does."""
        ignored = stays_with_node(pod) or pod.priority < EXPENDABLE_CUTOFF
        return math.inf if ignored else REACTION_TIME + _scale_up_delay(pod)

    def _loop(self, now: float) -> list[Effect]:
        self._state.changed = False
        for late in self._state.give_up(now):
            self._back_off(late, now)
        self._forget_backoffs()
        with self._state.snapshot.simulation() as simulation:
            unfit, used = self._filter_out_schedulable(simulation, self._candidates())
            pods = self._old_enough([pod for pod in unfit if not stays_with_node(pod)], now)
            best = self._best_option(simulation, pods, now)
        if best is None:
            return self._scale_down(used, now)
        self._last_scale_up = now
        self._state.changed = True  # one option each loop: there may be more to do in the next
        timers = self._state.order(best.group, [node.pods for node in best.nodes], now)
        ordered = self.cloud.scale_ups[-1].instances
        self._hints |= {pod.uid: instance.name for instance in ordered for pod in instance.pods}
        return timers

    def _candidates(self) -> list[Pod]:
        """Pods to find a node for, the most important first."""
        found = [pod for pod in self._state.waiting.values() if is_candidate(pod)]
        return sorted(found, key=lambda pod: (-pod.priority, pod.created, pod.key))

    def _filter_out_schedulable(self, simulation: Simulation, candidates: Iterable[Pod]) -> tuple[list[Pod], set[str]]:
        """The pods that neither a node nor an upcoming one takes, and the nodes that take the others.

        A pod is tried first where it was placed in the last loop, so that it does not take what was ordered for others.
        """
        placed = {pod.uid: simulation.place(pod, self._hints.get(pod.uid, "")) for pod in candidates}
        unfit = [self._state.waiting[uid] for uid, node in placed.items() if not node]
        self._hints = {uid: node for uid, node in placed.items() if node}
        return unfit, set(self._hints.values())

    def _old_enough(self, pods: list[Pod], now: float) -> list[Pod]:
        """The pods without young ones; none while the oldest is so new that more like it may be about to come."""
        young_until = {pod.uid: pod.created + _scale_up_delay(pod) for pod in pods}
        old = [pod for pod in pods if now > young_until[pod.uid]]
        self._new_until = [until for until in young_until.values() if now <= until]
        new_until = _new_until(old)
        if now < new_until:
            self._new_until.append(new_until)
            return []
        return old

    # scale-up

    def _best_option(self, simulation: Simulation, pods: list[Pod], now: float) -> ExpansionOption | None:
        """The option that wastes least; of equal ones the group listed first. None where no group helps."""
        options = [
            option
            for group in self.cloud.groups
            if self._may_grow(group, now) and (option := self._option(simulation, group, pods)).nodes
        ]
        return min(options, key=_waste) if options else None

    def _may_grow(self, group: NodeGroup, now: float) -> bool:
        backoff = self._backoffs.get(group.name)
        return self.cloud.may_order(group) > 0 and (backoff is None or now >= backoff.until)

    def _option(self, simulation: Simulation, group: NodeGroup, pods: list[Pod]) -> ExpansionOption:
        """First fit decreasing on nodes like the template, as many as the group may still have."""
        most = min(self.cloud.may_order(group), MAX_NODES_PER_SCALE_UP)
        decreasing = sorted(pods, key=lambda pod: -_size_on(pod.shape.requests, group.template))
        nodes = pack(simulation, group.template, decreasing, most, f"{group.name}/")
        for node in nodes:
            simulation.remove_node(node.name)
        return ExpansionOption(group, tuple(nodes))

    def _back_off(self, failed: Instance, now: float) -> None:
        known = self._backoffs.get(failed.group.name)
        if known is not None and now < known.until:
            return
        seconds = FIRST_BACKOFF if known is None else min(LONGEST_BACKOFF, 2 * known.seconds)
        self._backoffs[failed.group.name] = NodeGroupBackoff(now + seconds, seconds)

    def _forget_backoffs(self) -> None:
        """A group has no backoff any more once an instance of it has registered since."""
        for name, backoff in list(self._backoffs.items()):
            began = backoff.until - backoff.seconds
            instances = (each for each in self.cloud.present() if each.group.name == name and each.registered)
            if any(each.registered is not None and each.registered > began for each in instances):
                del self._backoffs[name]

    # scale-down

    def _scale_down(self, used: set[str], now: float) -> list[Effect]:
        """Removes nodes that have been empty for long enough, down to the minimum of their group."""
        instances = [each for each in self.cloud.present() if not each.upcoming]
        empty = {each.name: each for each in instances if each.name not in used and self._state.is_empty(each)}
        self._unneeded = {name: self._unneeded.get(name, now) for name in empty}
        if now < self._last_scale_up + DELAY_AFTER_ADD:
            return []
        surplus = {group.name: self.cloud.size(group) - group.min for group in self.cloud.groups}
        removed: list[Effect] = []
        for name, since in self._unneeded.items():
            if now >= since + UNNEEDED_TIME and surplus[empty[name].group.name] > 0:
                surplus[empty[name].group.name] -= 1
                removed.append(self._state.terminate(empty[name]))
        return removed

    # when to look again

    def _scan_later(self, now: float) -> list[Effect]:
        deadlines = [now] if self._state.changed else self._deadlines(now)
        if not deadlines:
            return []
        loop = max(math.floor(now / SCAN_INTERVAL) + 1, math.ceil(min(deadlines) / SCAN_INTERVAL))
        at = loop * SCAN_INTERVAL
        if self._scans_at <= at:
            return []
        self._scans_at = at
        return [WakeAt(at, SCAN)]

    def _deadlines(self, now: float) -> list[float]:
        """When time alone may change what a loop decides."""
        ends = [backoff.until for backoff in self._backoffs.values() if backoff.until > now]
        backoffs = ends if self._state.waiting else []
        late = [each.due for each in self.cloud.upcoming() if each.group.delay > MAX_NODE_PROVISION_TIME]
        instances = [(self.cloud.get(name), since) for name, since in self._unneeded.items()]
        empty = [
            max(since + UNNEEDED_TIME, self._last_scale_up + DELAY_AFTER_ADD)
            for instance, since in instances
            if instance is not None and self.cloud.size(instance.group) > instance.group.min
        ]
        return self._new_until + backoffs + late + empty


def is_candidate(pod: Pod) -> bool:
    """PodScheduled is False with the reason Unschedulable, no node is nominated, and the pod is not expendable."""
    if pod.node or pod.deleted is not None or pod.nominated or pod.priority < EXPENDABLE_CUTOFF:
        return False
    return pod.scheduled is not None and (pod.scheduled.status, pod.scheduled.reason) == ("False", UNSCHEDULABLE)


def _takes_capacity_of(pod: Pod) -> str:
    """The pod's node, or the one nominated to it, whether that exists or not; expendable pods take nothing."""
    if pod.priority < EXPENDABLE_CUTOFF:
        return ""
    return pod.node or ("" if pod.deleted is not None else pod.nominated)


def _scale_up_delay(pod: Pod) -> float:
    """How old the pod must be, counted from its creation, not from when it became unschedulable."""
    try:
        return max(NEW_POD_DELAY, parse_duration(pod.annotations.get(POD_DELAY_ANNOTATION, "")))
    except InvalidDuration:
        return NEW_POD_DELAY


def _new_until(pods: Sequence[Pod]) -> float:
    """When the oldest pod, and the oldest GPU pod, have existed for long enough."""
    with_gpu = [pod.created for pod in pods if any(pod.shape.requests[name] for name in GPUS)]
    oldest = min((pod.created for pod in pods), default=-math.inf)
    return max(oldest + NEW_PODS_BUFFER, min(with_gpu, default=-math.inf) + NEW_GPU_PODS_BUFFER)


def _size_on(requests: Resources, template: Node) -> float:
    """The requested share of the node's cpu and memory together."""
    there = template.allocatable
    return sum(requests[name] / there[name] for name in (CPU, MEMORY) if there[name] > 0)


def _waste(option: ExpansionOption) -> float:
    """The idle share of cpu and of memory of the new nodes, added up."""
    requested, there = total(pod.shape.requests for pod in option.pods), option.group.template.allocatable
    return sum(1 - requested[name] / (there[name] * len(option.nodes)) for name in (CPU, MEMORY) if there[name] > 0)
