"""Worker clusters and lists of them: the kinds of kueue.x-k8s.io that say where else workloads may run."""

from __future__ import annotations

from msgspec import Struct

from headgate.model.conditions import Condition
from headgate.model.keys import Key, Target


class MultiKueueCluster(Struct, frozen=True, gc=False):
    """A worker cluster. Of `secret` and `path` at most one is set: where its kubeconfig is.

    `secret` names a Secret in our own namespace. Neither is set where the cluster is described in another way.
    """

    key: Key
    uid: str
    version: str
    secret: str = ""
    path: str = ""
    conditions: tuple[Condition, ...] = ()
    generation: int = 0
    deleted: float | None = None

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)


class MultiKueueConfig(Struct, frozen=True, gc=False):
    """The worker clusters that an admission check may use, in the order they are tried."""

    key: Key
    uid: str
    version: str
    clusters: tuple[str, ...] = ()
    deleted: float | None = None

    @property
    def name(self) -> str:
        return self.key.name
