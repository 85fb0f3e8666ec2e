"""Volcano's objects for tests: queues, PodGroups, and pods that wait for capacity of their queue."""

from __future__ import annotations

from typing import Any

from builders import amounts, pod

from headgate.model.groups import Gang, GroupKey, PodGroup, PreemptionMode, Workload
from headgate.model.keys import Key, Kind
from headgate.model.pod import Pod
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
