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


class StatefulSet(ReplicaOwner, frozen=True, gc=False):
    """Pods that are numbered, and each replaced by one of the same name."""

    annotations: Mapping[str, str] = {}
    replicas: int = 1
    template: Raw = Raw(b"{}")  # spec.template, verbatim
    pods: PodTemplate = PodTemplate()
    in_order: bool = True  # each pod waits until the one before it is ready
    deleted: float | None = None
