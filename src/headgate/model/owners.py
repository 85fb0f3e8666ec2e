"""Objects that tell which pods belong together: they are spread, and may wait for quota together."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw, Struct

from headgate.model.affinity import Selector
from headgate.model.keys import Key, Target
from headgate.model.pod import PodTemplate


class Service(Struct, frozen=True, gc=False):
    """`selector` empty selects nothing."""

    key: Key
    uid: str
    version: str
    selector: Mapping[str, str]


class ReplicaOwner(Struct, frozen=True, gc=False):
    """A ReplicaSet, Deployment, StatefulSet or ReplicationController."""

    key: Key
    uid: str
    version: str
    selector: Selector
    labels: Mapping[str, str] = {}
    owner: Target | None = None  # its controller, where that is of a kind we know

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)


class Replicas(ReplicaOwner, frozen=True, gc=False):
    """A ReplicaSet, Deployment or StatefulSet: so many pods of one template."""

    replicas: int = 1
    template: Raw = Raw(b"{}")  # spec.template, verbatim; of one that wants no pods, left out
    deleted: float | None = None
    generation: int = 0


class StatefulSet(Replicas, frozen=True, gc=False):
    """Pods that are numbered, and each replaced by one of the same name."""

    annotations: Mapping[str, str] = {}
    pods: PodTemplate = PodTemplate()
    in_order: bool = True  # each pod waits until the one before it is ready
    spec: Raw = Raw(b"")  # verbatim, of one that names a queue


class CronJob(Struct, frozen=True, gc=False):
    """Jobs of one template, created by a schedule."""

    key: Key
    uid: str
    version: str
    created: float
    schedule: str
    template: Raw  # spec.jobTemplate, verbatim
    time_zone: str = ""
    suspended: bool = False
    concurrency: str = "Allow"  # or Forbid, or Replace
    starting_deadline: int | None = None  # seconds after which a missed Job is not started any more
    keeps_succeeded: int = 3  # Jobs that have ended
    keeps_failed: int = 1
    last_scheduled: float | None = None
    deleted: float | None = None

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)
