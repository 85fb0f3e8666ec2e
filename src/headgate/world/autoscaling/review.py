"""False and missed scale-ups: what an autoscaler ordered, beside what quota and the nodes really asked for.

An order of a node is false if, of the pods it was placed for,

* one could not start for want of quota: it has a scheduling gate, its Kueue Workload is not admitted, or its Volcano
  queue has no capacity for it beside the pods that run and those that come before it; or
* all would fit on nodes that pods preempted for them are leaving; or
* one still waited in vain: nobody used that node before it was removed, or within a minute.

A node that nobody used because its pods had found another place before it came is counted, and is not false: they
needed it when it was ordered.

A scale-up is missed, and counted once for each pod, if quota allows a pod to start, no node and no upcoming node has
capacity for it beside the other such pods, a node group could still grow for it, and all that stays so for longer than
the autoscaler's reaction time. Neither what the pod's condition says nor whether it has a queue-allocation gate matters
here: these are the signals under review.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from headgate.model.effects import Effect, WakeAt
from headgate.model.events import Event, Gone, Observed, TimerFired
from headgate.model.keys import Kind
from headgate.model.node import Node
from headgate.model.pod import Pod, Workload
from headgate.model.queues import QueuedWorkload
from headgate.model.resources import CPU, MEMORY
from headgate.model.volcano import QUEUE_GATES, VolcanoQueue
from headgate.world.autoscaling.cloud_provider import CloudProvider, Instance
from headgate.world.autoscaling.snapshot import SchedulingSnapshot, Simulation, pack
from headgate.world.autoscaling.volcano_quota import VolcanoQuota
from headgate.world.controller import Controller

USE_TIME = 60.0  # seconds a node that is not removed must have been there before it counts as never used
LOOK_INTERVAL = 10.0  # seconds between two looks for demand without an order
ADMITTED, GATED = "Admitted", "SchedulingGated"
LOOK = "look"


class FalseReason(StrEnum):
    """Why the order of a node was false."""

    QUOTA = "quota"
    VICTIMS = "victims"
    UNUSED = "unused"


class Autoscaler(Controller, Protocol):
    @property
    def cloud(self) -> CloudProvider: ...

    def reaction_time(self, pod: Pod) -> float:
        """Seconds within which it orders a node for a pod that needs one; infinity if it never does."""


class AutoscalerCounts(Struct, frozen=True):
    """What an autoscaler did in a run. False scale-ups count nodes, missed ones pods."""

    scale_ups: int = 0
    nodes_added: int = 0
    nodes_removed: int = 0
    false_scale_ups: int = 0
    missed_scale_ups: int = 0
    false_reasons: tuple[tuple[str, int], ...] = ()
    node_seconds: float = 0.0  # of ordered nodes, from registered to removed
    empty_node_seconds: float = 0.0  # of these, without any pod
    nodes_unused: int = 0  # ordered nodes that no pod was ever bound to; few of them are false

    def __add__(self, other: AutoscalerCounts) -> AutoscalerCounts:
        reasons = {reason.value: 0 for reason in FalseReason}
        for reason, count in (*self.false_reasons, *other.false_reasons):
            reasons[reason] += count
        return AutoscalerCounts(
            self.scale_ups + other.scale_ups,
            self.nodes_added + other.nodes_added,
            self.nodes_removed + other.nodes_removed,
            self.false_scale_ups + other.false_scale_ups,
            self.missed_scale_ups + other.missed_scale_ups,
            tuple(reasons.items()),
            self.node_seconds + other.node_seconds,
            self.empty_node_seconds + other.empty_node_seconds,
            self.nodes_unused + other.nodes_unused,
        )


class NodeUse(Struct):
    """The pods on a node, and for how long there were none."""

    pods: dict[str, None]  # by uid
    ever: bool = False
    empty_since: float | None = None
    empty_seconds: float = 0.0


class ScaleUpReview:
    """Watches a cluster with an autoscaler, and writes nothing. It knows the quota that the autoscaler cannot see."""

    reads = (Kind.NODE, Kind.POD, Kind.KUEUE_WORKLOAD, Kind.VOLCANO_QUEUE, Kind.VOLCANO_POD_GROUP)

    def __init__(self, autoscaler: Autoscaler) -> None:
        self._cloud, self._reaction_time = autoscaler.cloud, autoscaler.reaction_time
        self._snapshot = SchedulingSnapshot(lambda pod: pod.node)
        self._waiting: dict[str, Pod] = {}  # by uid: pods that want a node
        self._leaving: dict[str, Pod] = {}  # by uid: preempted and still on their node
        self._waited_until: dict[str, float] = {}  # by uid: pods that wait no longer
        self._queues = VolcanoQuota()
        self._workloads: dict[str, QueuedWorkload] = {}  # by uid
        self._workload_of: dict[str, str] = {}  # uid of the Workload by the uid of a pod or job that owns it
        self._nodes: dict[str, str] = {}  # uids by name
        self._node_of: dict[str, str] = {}  # uid of the node by uid of the pods on it
        self._uses: dict[str, NodeUse] = {}  # by uid of the node
        self._reviewed = 0  # how many scale-ups
        self._verdicts: dict[int, FalseReason] = {}  # by identity of the instance
        self._short_since: dict[str, float] = {}  # by uid of pods without capacity or order
        self._missed: dict[str, None] = {}  # by uid
        self._changed = False
        self._looks_at = math.inf

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        self._review_orders()  # by what was true when they were placed, before this batch
        for event in batch:
            self._observe(event, now)
        if now >= self._looks_at:
            self._looks_at = math.inf
            self._look(now)
        return self._look_later(now)

    def counts(self, now: float) -> AutoscalerCounts:
        """What the autoscaler has done until now."""
        self._review_orders()
        ordered = [each for each in self._cloud.instances if each.ordered is not None]
        reasons = dict.fromkeys(FalseReason, 0)
        for instance in ordered:
            reason = self._verdicts.get(id(instance)) or self._in_vain(instance, now)
            if reason is not None:
                reasons[reason] += 1
        registered = [each for each in ordered if each.registered is not None]
        return AutoscalerCounts(
            scale_ups=len(self._cloud.scale_ups),
            nodes_added=len(ordered),
            nodes_removed=sum(each.removed is not None for each in self._cloud.instances),
            false_scale_ups=sum(reasons.values()),
            missed_scale_ups=len(self._missed),
            false_reasons=tuple((reason.value, count) for reason, count in reasons.items()),
            node_seconds=sum(_lifetime(each, now) for each in registered),
            empty_node_seconds=sum(self._empty_seconds(each, now) for each in registered),
            nodes_unused=sum(self._unused_until(each, now) is not None for each in ordered),
        )

    # what is observed

    def _observe(self, event: Event, now: float) -> None:
        match event:
            case Observed(Pod() as pod):
                self._observe_pod(pod, now)
            case Observed(Node() as node):
                self._snapshot.put_node(node)
                self._nodes[node.name] = node.uid
                self._uses.setdefault(node.uid, NodeUse({}, empty_since=now))
            case Observed(QueuedWorkload() as workload):
                self._observe_workload(workload)
            case Observed(VolcanoQueue() as queue):
                self._queues.observe_queue(queue)
            case Observed(Workload() as group):
                self._queues.observe_group(group)
            case Gone(key, uid) if key.kind is Kind.POD:
                self._snapshot.drop_pod(key)
                self._queues.lose_pod(uid)
                self._stop_waiting(uid, now)
                self._leaving.pop(uid, None)
                self._leave_node(uid, now)
            case Gone(key, uid) if key.kind is Kind.NODE:
                if self._nodes.get(key.name) == uid:
                    self._snapshot.drop_node(key.name)
                    del self._nodes[key.name]
                self._end_use(uid, now)
            case Gone(key) if key.kind in (Kind.VOLCANO_QUEUE, Kind.VOLCANO_POD_GROUP):
                self._queues.lose(key)
            case Gone(_, uid):
                self._forget_workload(uid)
            case TimerFired():
                return
        self._changed = True

    def _observe_pod(self, pod: Pod, now: float) -> None:
        self._snapshot.put_pod(pod)
        self._queues.observe_pod(pod)
        if pod.wants_node:
            self._waiting[pod.uid] = pod
        else:
            self._stop_waiting(pod.uid, now)
        if pod.preempted and pod.holds_room and pod.deleted is not None:
            self._leaving[pod.uid] = pod
        else:
            self._leaving.pop(pod.uid, None)
        if pod.holds_room and pod.uid not in self._node_of and pod.node in self._nodes:
            self._join_node(pod.uid, self._nodes[pod.node], now)
        elif not pod.holds_room:
            self._leave_node(pod.uid, now)

    def _stop_waiting(self, uid: str, now: float) -> None:
        if self._waiting.pop(uid, None) is not None:
            self._waited_until[uid] = now

    def _join_node(self, pod: str, node: str, now: float) -> None:
        self._node_of[pod], use = node, self._uses[node]
        if use.empty_since is not None:
            use.empty_seconds += now - use.empty_since
        use.pods[pod], use.ever, use.empty_since = None, True, None

    def _leave_node(self, uid: str, now: float) -> None:
        use = self._uses.get(self._node_of.pop(uid, ""))
        if use is not None:
            use.pods.pop(uid, None)
            if not use.pods and use.empty_since is None:
                use.empty_since = now

    def _end_use(self, node: str, now: float) -> None:
        use = self._uses.get(node)
        if use is not None and use.empty_since is not None:
            use.empty_seconds += now - use.empty_since
            use.empty_since = None

    def _observe_workload(self, workload: QueuedWorkload) -> None:
        self._forget_workload(workload.uid)
        self._workloads[workload.uid] = workload
        for owner in _owners(workload):
            self._workload_of[owner] = workload.uid

    def _forget_workload(self, uid: str) -> None:
        known = self._workloads.pop(uid, None)
        for owner in _owners(known) if known is not None else ():
            self._workload_of.pop(owner, None)

    # what quota allows

    def _is_admitted(self, pod: Pod) -> bool:
        """Whether its Kueue Workload is, if it has one."""
        owner = pod.owner.uid if pod.owner is not None else ""
        workload = self._workloads.get(self._workload_of.get(pod.uid) or self._workload_of.get(owner, ""))
        return workload is None or workload.is_true(ADMITTED)

    # false

    def _review_orders(self) -> None:
        if self._reviewed == len(self._cloud.scale_ups):
            return
        beyond = self._queues.beyond(self._waiting.values())
        for scale_up in self._cloud.scale_ups[self._reviewed :]:
            for instance in scale_up.instances:
                if any(pod.gates or pod.uid in beyond or not self._is_admitted(pod) for pod in instance.pods):
                    self._verdicts[id(instance)] = FalseReason.QUOTA
                elif self._have_places(instance.pods):
                    self._verdicts[id(instance)] = FalseReason.VICTIMS
        self._reviewed = len(self._cloud.scale_ups)

    def _have_places(self, pods: Iterable[Pod]) -> bool:
        """Whether all these pods would fit once the pods that are being preempted have left."""
        if not self._leaving:
            return False
        with self._snapshot.simulation() as simulation:
            for leaving in self._leaving.values():
                simulation.release(leaving.key)
            return all(simulation.place(pod) for pod in pods)

    def _in_vain(self, instance: Instance, now: float) -> FalseReason | None:
        """Nobody used the node although one of its pods still waited for one.

        Members of a gang may have waited for the nodes of the others: of these, only those count that still wait.
        """
        until = self._unused_until(instance, now)
        if until is None:
            return None
        waited = ((pod, self._waited_until.get(pod.uid, math.inf)) for pod in instance.pods)
        in_vain = any(end > (until if pod.group is None else now) for pod, end in waited)
        return FalseReason.UNUSED if in_vain else None

    def _unused_until(self, instance: Instance, now: float) -> float | None:
        """When it was clear that nobody uses the node: it was removed, or has been there for USE_TIME."""
        if instance.registered is None or self._uses[instance.uid].ever:
            return None
        if instance.removed is not None:
            return min(instance.removed, instance.registered + USE_TIME)
        return instance.registered + USE_TIME if now >= instance.registered + USE_TIME else None

    def _empty_seconds(self, instance: Instance, now: float) -> float:
        use = self._uses[instance.uid]
        return use.empty_seconds + (0.0 if use.empty_since is None else now - use.empty_since)

    # missed

    def _look(self, now: float) -> None:
        """Notes which pods lack capacity and an order, and since when."""
        self._changed = False
        short = self._short_of_orders()
        self._short_since = {uid: self._short_since.get(uid, now) for uid in short}
        for uid, since in self._short_since.items():
            if now > since + self._reaction_time(self._waiting[uid]):
                self._missed[uid] = None

    def _short_of_orders(self) -> list[str]:
        """The pods that neither nodes nor upcoming ones take, and for which a group could still grow.

        Pods are packed the largest first, as room is used best, and a pod that a node is on order for is never short.
        """
        beyond = self._queues.beyond(self._waiting.values())
        pods = [pod for pod in self._waiting.values() if pod.uid not in beyond and self._is_demand(pod)]
        if not pods:
            return []
        upcoming = list(self._cloud.upcoming())
        on_order = {pod.uid for instance in upcoming for pod in instance.pods}
        with self._snapshot.simulation() as simulation:
            for instance in upcoming:
                simulation.add_node(instance.placeholder, instance.name)
            left = [pod for pod in sorted(pods, key=_largest_first) if not simulation.place(pod)]
            return [pod.uid for pod in self._helped(simulation, left) if pod.uid not in on_order]

    def _is_demand(self, pod: Pod) -> bool:
        """It has no gate but that of its queue, its Workload is admitted, and it waits neither for victims nor for
        the rest of its gang; nor did it give back what it reserved in its queue, for which no node came in time.
        """
        if pod.nominated or self._reaction_time(pod) == math.inf or not self._is_admitted(pod):
            return False
        left = [gate for gate in pod.gates if gate not in QUEUE_GATES]
        gave_back = pod.reserved_at is not None or pod.group is not None
        return not left and not (gave_back and not pod.gates and _is_called_gated(pod))

    def _helped(self, simulation: Simulation, pods: list[Pod]) -> list[Pod]:
        """Those of the pods that all groups together could take if they grew as far as they may."""
        helped: list[Pod] = []
        for group in self._cloud.groups:
            nodes = pack(simulation, group.template, pods, self._cloud.may_order(group), f"{group.name}/")
            helped += [pod for node in nodes for pod in node.pods]
            taken = {pod.uid for pod in helped}
            pods = [pod for pod in pods if pod.uid not in taken]
        return helped

    def _look_later(self, now: float) -> list[Effect]:
        """Looks while pods wait and something changed, or a pod may be missed for lack of any change."""
        missing = any(uid not in self._missed for uid in self._short_since)
        if not missing and not (self._changed and self._waiting):
            return []
        at = (math.floor(now / LOOK_INTERVAL) + 1) * LOOK_INTERVAL
        if self._looks_at <= at:
            return []
        self._looks_at = at
        return [WakeAt(at, LOOK)]


def _is_called_gated(pod: Pod) -> bool:
    return pod.scheduled is not None and pod.scheduled.reason == GATED


def _owners(workload: QueuedWorkload) -> list[str]:
    """The uids of the job, or of all pods, that the Workload is for."""
    owners = workload.owners or ((workload.owner,) if workload.owner is not None else ())
    return [owner.uid for owner in owners]


def _largest_first(pod: Pod) -> tuple[int, int, float, str]:
    return -pod.shape.requests[CPU], -pod.shape.requests[MEMORY], pod.created, pod.uid


def _lifetime(instance: Instance, now: float) -> float:
    """Seconds from registered to removed."""
    if instance.registered is None:
        return 0.0
    return (now if instance.removed is None else instance.removed) - instance.registered
