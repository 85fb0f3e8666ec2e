"""PreEnqueue plugins: each lets a pod into the scheduling queue or holds it with a reason."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Protocol, cast

from msgspec import Struct

from headgate.model.cluster_events import ClusterEvent
from headgate.model.keys import Key
from headgate.model.node import Node
from headgate.model.pod import GroupKey, Pod, Workload
from headgate.model.volcano import QUEUE_GATES


class ClusterView(Protocol):
    """What a plugin may read of the cluster: objects as last observed, and what was decided since."""

    def nodes(self) -> tuple[Node, ...]: ...

    def node(self, name: str) -> Node | None: ...

    def pods(self) -> tuple[Pod, ...]:
        """All pods, waiting ones too."""

    def pod(self, key: Key) -> Pod | None: ...

    def node_of(self, pod: Key) -> str:
        """The node a pod is bound to, or assumed to be; empty while it waits."""

    def pods_on(self, node: str) -> tuple[Pod, ...]: ...

    def workload(self, key: Key) -> Workload | None:
        """What describes a group: a Workload or a PodGroup."""

    def members(self, group: GroupKey) -> tuple[Pod, ...]: ...


class PreEnqueue(Protocol):
    """Holds pods out of the scheduling queue. Called whenever the pod changes, and on each of `wake_on`.

    Asked for every pod that arrives, so it must be quick: no calls to anything outside the process.
    """

    @property
    def name(self) -> str: ...

    @property
    def wake_on(self) -> frozenset[ClusterEvent]:
        """Cluster events other than a change of the pod that could change a refusal."""

    def refusal(self, pod: Pod, cluster: ClusterView) -> str | None:
        """Why the pod is held; None if it may be queued."""


class Held(Struct, frozen=True):
    """A pod is held: by which plugin, why, and which events could change that."""

    plugin: str
    reason: str
    wake_on: frozenset[ClusterEvent]


class SchedulingGates:
    """Holds a pod until its last scheduling gate is removed, but for the queue-allocation gate.

    That one is removed by the scheduler itself, which must look at the pod to decide it. The reason is what an API
    server writes itself when a gated pod is created, so that nothing is left to be written.
    """

    name = "SchedulingGates"
    wake_on: frozenset[ClusterEvent] = frozenset()
    reason = "Scheduling is blocked due to non-empty scheduling gates"

    def refusal(self, pod: Pod, cluster: ClusterView) -> str | None:
        return self.reason if pod.gates and any(gate not in QUEUE_GATES for gate in pod.gates) else None


PRE_ENQUEUE: tuple[PreEnqueue, ...] = (SchedulingGates(),)


def held_by(plugins: tuple[PreEnqueue, ...], pod: Pod, cluster: ClusterView) -> Held | None:
    """The first refusal. A plugin that raises holds the pod."""
    for plugin in plugins:
        reason = _reason(plugin, pod, cluster)
        if reason is not None:
            return Held(plugin.name, reason, plugin.wake_on)
    return None


def _reason(plugin: PreEnqueue, pod: Pod, cluster: ClusterView) -> str | None:
    try:
        reason: object = plugin.refusal(pod, cluster)
    except Exception as failure:  # whatever a stranger's code raises must not stop the others
        return f"plugin {plugin.name} failed: {type(failure).__name__}: {failure}"
    if reason is None or isinstance(reason, str):
        return reason
    return f"plugin {plugin.name} failed: expected a reason or None, got {reason!r}"


class InvalidPlugin(Exception):
    """An installed plugin that cannot be used: which one, and what was expected of it."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"plugin {name}: {problem}")
        self.name, self.problem = name, problem


def plugin_from(name: str, found: object) -> PreEnqueue:
    """The plugin called `name`, from an object that is one or from a class or function that makes one."""
    made = found if hasattr(found, "refusal") and not isinstance(found, type) else _made(name, found)
    if getattr(made, "name", None) != name:
        raise InvalidPlugin(name, f"expected the attribute name to be {name!r}, got {getattr(made, 'name', None)!r}")
    if not callable(refusal := getattr(made, "refusal", None)):
        raise InvalidPlugin(name, "expected a method refusal(pod) that answers with a reason or None")
    wake_on = getattr(made, "wake_on", None)
    if not isinstance(wake_on, frozenset) or not all(isinstance(each, ClusterEvent) for each in wake_on):
        raise InvalidPlugin(name, f"expected wake_on to be a frozenset of ClusterEvent, got {wake_on!r}")
    return cast(PreEnqueue, made) if _takes_cluster(name, refusal) else PodOnlyPlugin(name, wake_on, refusal)


class PodOnlyPlugin:
    """A plugin whose `refusal(pod)` looks at nothing but the pod."""

    def __init__(self, name: str, wake_on: frozenset[ClusterEvent], refusal: Callable[[Pod], str | None]) -> None:
        self.name, self.wake_on, self._refusal = name, wake_on, refusal

    def refusal(self, pod: Pod, cluster: ClusterView) -> str | None:
        return self._refusal(pod)


def _takes_cluster(name: str, refusal: Callable[..., object]) -> bool:
    for arguments in (2, 1):
        try:
            inspect.signature(refusal).bind(*range(arguments))
        except TypeError:
            continue
        return arguments == 2
    raise InvalidPlugin(name, "expected refusal to take a pod, or a pod and the cluster")


def _made(name: str, found: object) -> object:
    if not callable(found):
        raise InvalidPlugin(name, f"expected a plugin, or a class or function that makes one, got {found!r}")
    make = cast(Callable[[], object], found)
    try:
        return make()
    except Exception as failure:  # whatever a stranger's code raises, the operator is told which plugin it was
        raise InvalidPlugin(name, f"could not be made: {type(failure).__name__}: {failure}") from failure
