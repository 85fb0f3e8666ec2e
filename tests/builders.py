"""Values for tests on one line: only the fields that matter, everything else plain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headgate.model.keys import Key, Kind
from headgate.model.node import Node, Taint, Toleration
from headgate.model.objects import PriorityClass
from headgate.model.pod import Gang, GroupKey, Pod, PodGroup, PodShape, PreemptionMode, Workload
from headgate.model.queues import QueuedWorkload, QueuedWorkloadStatus
from headgate.model.resources import Resources

MIB = 1 << 20


def amounts(cpu: int = 0, memory: int = 0, **others: int) -> Resources:
    """cpu in milli, memory in MiB."""
    named = {"cpu": cpu, "memory": memory * MIB, **others}
    return Resources.of({name: amount for name, amount in named.items() if amount})


def shape(cpu: int = 0, memory: int = 0, **fields: Any) -> PodShape:
    asked = amounts(cpu, memory)
    return PodShape(requests=asked, scored_requests=asked, **fields)


def pod(name: str = "a", cpu: int = 100, uid: str = "", **fields: Any) -> Pod:
    """A pod of ours that waits for a node."""
    made = fields.pop("shape", None) or shape(cpu)
    defaults: dict[str, Any] = {"labels": {}, "annotations": {}, "created": 0.0, "scheduler_name": "headgate"}
    return Pod(pod_key(name), uid or f"uid-{name}", "1", shape=made, **{**defaults, **fields})


def bound(before: Pod, node: str, **fields: Any) -> Pod:
    return msgspec.structs.replace(before, node=node, **fields)


def pod_key(name: str) -> Key:
    return Key(Kind.POD, "default", name)


def node_key(name: str) -> Key:
    return Key(Kind.NODE, "", name)


def node(
    name: str = "n",
    cpu: int = 1000,
    memory: int = 1024,
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    unschedulable: bool = False,
    uid: str = "",
) -> Node:
    room = amounts(cpu, memory, pods=pods)
    return Node(node_key(name), uid or f"uid-{name}", "1", labels or {}, {}, room, taints, unschedulable)


def tolerating(*keys: str) -> tuple[Toleration, ...]:
    return tuple(Toleration(key=key, exists=True) for key in keys)


def workload(name: str = "train", *groups: PodGroup, **fields: Any) -> Workload:
    """A workload of ours; without groups, with one called workers that is no gang."""
    return Workload(workload_key(name), f"uid-{name}", "1", 0.0, groups or (PodGroup("workers"),), **fields)


def gang(min_count: int, name: str = "workers", whole: bool = False, topology: str = "") -> PodGroup:
    mode = PreemptionMode.POD_GROUP if whole else PreemptionMode.POD
    return PodGroup(name, Gang(min_count, mode), topology)


def member(name: str, of: str = "train", group: str = "workers", replica: str = "", **fields: Any) -> Pod:
    return pod(name, group=GroupKey(workload_key(of), group, replica), **fields)


def workload_key(name: str) -> Key:
    return Key(Kind.WORKLOAD, "default", name)


def priority_class(name: str, value: int, **fields: Any) -> PriorityClass:
    return PriorityClass(Key(Kind.PRIORITY_CLASS, "", name), f"uid-{name}", "1", value, **fields)


def kueue_workload(*positional: Any, **fields: Any) -> QueuedWorkload:
    """A Kueue Workload; the fields of its status are named like those of its spec."""
    status, others = _split(fields)
    return QueuedWorkload(*positional, status=QueuedWorkloadStatus(**status), **others)


def changed(workload: QueuedWorkload, **fields: Any) -> QueuedWorkload:
    """The workload with these fields of its metadata, spec or status in place of what it had."""
    status, others = _split(fields)
    return msgspec.structs.replace(workload, status=msgspec.structs.replace(workload.status, **status), **others)


def _split(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    of_status = {name: value for name, value in fields.items() if name in QueuedWorkloadStatus.__struct_fields__}
    return of_status, {name: value for name, value in fields.items() if name not in of_status}
