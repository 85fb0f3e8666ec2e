"""Pods that belong together: workloads, their groups, and how a group starts and leaves."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from headgate.model.conditions import Condition
from headgate.model.keys import Key, Target
from headgate.model.volcano import VolcanoGroup


class PreemptionMode(StrEnum):
    """How a gang may be preempted."""

    POD = "Pod"  # each pod by itself
    POD_GROUP = "PodGroup"  # all of its pods or none


class GroupKey(Struct, frozen=True, order=True, gc=False):
    """One replica of a pod group; `workload` is the object that describes it, of whatever kind."""

    workload: Key
    group: str = ""
    replica: str = ""

    @property
    def line_key(self) -> Key:
        """Its place among the keys of single pods; no object has a slash in its name."""
        return Key(self.workload.kind, self.workload.namespace, f"{self.workload.name}/{self.group}/{self.replica}")

    def __str__(self) -> str:
        return "/".join(part for part in (str(self.workload), self.group, self.replica) if part)


class Gang(Struct, frozen=True, gc=False):
    """At least so many pods start together or none does."""

    min_count: int
    mode: PreemptionMode = PreemptionMode.POD


class PodGroup(Struct, frozen=True, gc=False):
    """A group as its workload describes it. Without a gang its pods have nothing in common but their priority."""

    name: str = ""
    gang: Gang | None = None
    topology: str = ""  # the node label of which all its pods must find one and the same value


class Workload(Struct, frozen=True, gc=False):
    """What describes groups: our own Workload, or a PodGroup of Kubernetes or Volcano, which describes just one.

    `priority`, `preemption_priority` and `preempts` are what the object itself says, where it does.
    """

    key: Key
    uid: str
    version: str
    created: float
    groups: tuple[PodGroup, ...] = ()
    priority_class: str = ""
    preemption_priority_class: str = ""
    priority: int | None = None
    preemption_priority: int | None = None
    preempts: bool | None = None  # None: as its priority class says
    conditions: tuple[Condition, ...] = ()
    deleted: float | None = None
    volcano: VolcanoGroup | None = None  # of a PodGroup of Volcano

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)

    def group(self, name: str) -> PodGroup | None:
        return next((group for group in self.groups if group.name == name), None)
