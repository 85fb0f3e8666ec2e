"""Volcano's objects for tests: queues, PodGroups, pods that wait for capacity of their queue, and steps with them."""

from __future__ import annotations

from typing import Any

from builders import amounts, pod
from msgspec.structs import replace
from steps import Steps

from headgate.model.effects import PatchSpec, PatchStatus, PodCondition
from headgate.model.keys import Key, Kind
from headgate.model.pod import Gang, GroupKey, Pod, PodGroup, PreemptionMode, Workload
from headgate.model.resources import Resources
from headgate.model.volcano import QUEUE_GATE, RESERVED_AT, VolcanoGroup, VolcanoQueue

OPT_IN = {QUEUE_GATE: "true"}


def queue_key(name: str) -> Key:
    return Key(Kind.VOLCANO_QUEUE, "", name)


def queue(name: str = "team", cpu: int | None = None, parent: str = "root", **fields: Any) -> VolcanoQueue:
    """A queue; cpu in milli. `guarantee` and `deserved` may be given as milli-CPU too."""
    for field in ("guarantee", "deserved"):
        if isinstance(fields.get(field), int):
            fields[field] = amounts(fields[field])
    capability = fields.pop("capability", Resources() if cpu is None else Resources.of({"cpu": cpu}))
    version = fields.pop("version", "1")
    return VolcanoQueue(queue_key(name), f"uid-{name}", version, parent, capability, **fields)


def queued(name: str, cpu: int = 1000, of: str = "team", gated: bool = True, **fields: Any) -> Pod:
    """A pod that asked for the gate; without `gated` it was let go and reserves capacity."""
    since = fields.pop("reserved_at", None)
    stamp = {} if since is None else {RESERVED_AT: since}
    annotations = {"scheduling.volcano.sh/queue-name": of, **OPT_IN, **stamp, **fields.pop("annotations", {})}
    gates = fields.pop("gates", (QUEUE_GATE,) if gated else ())
    return pod(name, cpu, annotations=annotations, gates=gates, **fields)


def group_key(name: str) -> Key:
    return Key(Kind.VOLCANO_POD_GROUP, "default", name)


def pod_group(name: str = "train", members: int = 0, of: str = "team", **fields: Any) -> Workload:
    gang = Gang(members, PreemptionMode.POD_GROUP) if members else None
    volcano = VolcanoGroup(queue=of, **fields.pop("volcano", {}))
    version = fields.pop("version", "1")
    return Workload(group_key(name), f"uid-{name}", version, 0.0, (PodGroup("", gang),), volcano=volcano, **fields)


def grouped(name: str, group: str = "train", **fields: Any) -> Pod:
    """A gated member of a PodGroup."""
    return queued(name, group=GroupKey(group_key(group)), **fields)


GPU = {"node_selector": (("gpu", "yes"),)}
"""Of a pod that no node fits."""


def elsewhere(name, cpu=1000, **fields):
    """A gated pod that needs a node which is not there."""
    made = queued(name, cpu, **fields)
    return replace(made, shape=replace(made.shape, **GPU))


class Queues(Steps):
    """Steps that remember every binding."""

    def step(self, *events):
        super().step(*events)
        self.bound = {**getattr(self, "bound", {}), **super().binds}
        return self

    @property
    def reasons(self):
        """The reason of each pod's condition that was written, by name."""
        return {
            each.target.key.name: each.change.reason
            for each in self.effects
            if isinstance(each, PatchStatus) and isinstance(each.change, PodCondition)
        }

    @property
    def messages(self):
        return {
            each.target.key.name: each.change.message
            for each in self.effects
            if isinstance(each, PatchStatus) and isinstance(each.change, PodCondition)
        }

    @property
    def let_go(self):
        return [e.target.key.name for e in self.effects if isinstance(e, PatchSpec)]

    def removal(self, name):
        (found,) = [e for e in self.effects if isinstance(e, PatchSpec) and e.target.key.name == name]
        return found
