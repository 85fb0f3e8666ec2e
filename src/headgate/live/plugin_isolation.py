"""Plugin isolation: external PreEnqueue plugins run on threads of their own with a deadline; every call is timed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from headgate.api.wire import format_duration
from headgate.gates.pre_enqueue import PRE_ENQUEUE, ClusterView, PreEnqueue
from headgate.live.plugin_timing import FAILED, PASSED, REFUSED_FOR_GOOD, Answered
from headgate.model.cluster_events import ClusterEvent
from headgate.model.keys import Key
from headgate.model.node import Node
from headgate.model.pod import GroupKey, Pod, Workload

POINT = "PreEnqueue"


class PluginTimeout(Exception):
    """A plugin did not return before its deadline."""


def pre_enqueue_plugins(
    external: tuple[PreEnqueue, ...], limit: float, answered: Answered, clock: Callable[[], float]
) -> tuple[PreEnqueue, ...]:
    """The built-in plugins, then the external ones, isolated; each call is reported to `answered`."""
    contained = tuple(IsolatedPlugin(plugin, limit) for plugin in external)
    return tuple(TimedPlugin(plugin, answered, clock) for plugin in (*PRE_ENQUEUE, *contained))


class TimedPlugin:
    """Reports the duration and status of each call; a timeout is a refusal."""

    def __init__(self, plugin: PreEnqueue, answered: Answered, clock: Callable[[], float]) -> None:
        self.name = plugin.name
        self._plugin, self._answered, self._clock = plugin, answered, clock

    @property
    def wake_on(self) -> frozenset[ClusterEvent]:
        return self._plugin.wake_on

    def refusal(self, pod: Pod, cluster: ClusterView) -> str | None:
        began, status = self._clock(), FAILED
        try:
            reason = self._plugin.refusal(pod, cluster)
            status = PASSED if reason is None else REFUSED_FOR_GOOD
        except PluginTimeout as late:
            reason = str(late)
        finally:
            self._answered(self.name, POINT, status, self._clock() - began)
        return reason


class TimedView:
    """The cluster for the time of one call: later reads raise, because the cluster goes on meanwhile."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self.is_over = False

    @property
    def _open(self) -> ClusterView:
        if self.is_over:
            raise PluginTimeout("the cluster may be read during a call only")
        return self._cluster

    def nodes(self) -> tuple[Node, ...]:
        return self._open.nodes()

    def node(self, name: str) -> Node | None:
        return self._open.node(name)

    def pods(self) -> tuple[Pod, ...]:
        return self._open.pods()

    def pod(self, key: Key) -> Pod | None:
        return self._open.pod(key)

    def node_of(self, pod: Key) -> str:
        return self._open.node_of(pod)

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        return self._open.pods_on(node)

    def workload(self, key: Key) -> Workload | None:
        return self._open.workload(key)

    def members(self, group: GroupKey) -> tuple[Pod, ...]:
        return self._open.members(group)


class PluginCall:
    """One call of a plugin with a pod, and its result."""

    def __init__(self, pod: Pod, cluster: ClusterView) -> None:
        self.pod = pod
        self.cluster = TimedView(cluster)
        self.done = threading.Event()
        self.reason: str | None = None
        self.failure: Exception | None = None


class IsolatedPlugin:
    """Runs an external plugin on its own thread, so that a hanging plugin holds only the pods it was asked about.

    Raises PluginTimeout at the deadline, and at once while an earlier call has not returned.
    """

    def __init__(self, plugin: PreEnqueue, limit: float) -> None:
        self.name = plugin.name
        self._plugin, self._limit = plugin, limit
        self._calls: SimpleQueue[PluginCall] = SimpleQueue()
        self._late: PluginCall | None = None
        threading.Thread(target=self._work, name=f"plugin {plugin.name}", daemon=True).start()

    @property
    def wake_on(self) -> frozenset[ClusterEvent]:
        return self._plugin.wake_on

    def refusal(self, pod: Pod, cluster: ClusterView) -> str | None:
        if self._late is not None and not self._late.done.is_set():
            raise self._timeout()
        self._late = None
        call = PluginCall(pod, cluster)
        self._calls.put(call)
        if not call.done.wait(self._limit):
            call.cluster.is_over = True
            self._late = call
            raise self._timeout()
        if call.failure is not None:
            raise call.failure
        return call.reason

    def _timeout(self) -> PluginTimeout:
        return PluginTimeout(f"plugin {self.name} took longer than {format_duration(self._limit)}")

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            try:
                call.reason = self._plugin.refusal(call.pod, call.cluster)
            except Exception as failure:  # told to whoever asked
                call.failure = failure
            call.done.set()
