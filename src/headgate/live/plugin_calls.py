"""Calls of plugins: how long they take, and external ones isolated.

One call in ten of a placement plugin is timed; every admission cycle and every call of a PreEnqueue plugin is. External
PreEnqueue plugins run on threads of their own with a deadline.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from queue import SimpleQueue
from typing import Any, TypeVar, cast

import numpy as np

from headgate.api.wire import format_duration
from headgate.engine.metrics import ADMISSION, FILTER, POST_FILTER, RESERVE, SCORE
from headgate.engine.quota.admission_cycle import Admitted
from headgate.gates.pre_enqueue import PRE_ENQUEUE, ClusterView, PreEnqueue
from headgate.model.cluster_events import ClusterEvent
from headgate.model.keys import Key
from headgate.model.node import Node
from headgate.model.pod import GroupKey, Pod, Workload
from headgate.placement.plugins import Each, NamedPlugin
from headgate.preemption.search import Plan

Answered = Callable[[str, str, str, float], None]
"""Takes a plugin's name, the extension point, how the answer counts, and how many seconds it took."""

# as kube-scheduler names them
PASSED, FAILED = "Success", "Error"
REFUSED, REFUSED_FOR_GOOD = "Unschedulable", "UnschedulableAndUnresolvable"

# as Kueue names them
SUCCESS, INADMISSIBLE = "success", "inadmissible"

ONE_IN = 10  # answers: kube-scheduler times as many of its cycles
ANSWERS: Mapping[str, tuple[str, ...]] = {
    FILTER: ("refusal", "demands", "admits"),
    POST_FILTER: ("plan",),
    SCORE: ("scores",),
    RESERVE: ("reserve",),
    ADMISSION: ("outcomes",),
}
"""The methods by which a rule answers at each extension point."""

R = TypeVar("R", bound=NamedPlugin)

POINT = "PreEnqueue"


class Stopwatch:
    """Wraps plugins so that some of their calls are timed; results are the same."""

    def __init__(self, answered: Answered, clock: Callable[[], float]) -> None:
        self._answered, self._clock = answered, clock

    def __call__(self, rule: R, point: str, /) -> R:
        methods = [name for name in ANSWERS[point] if hasattr(rule, name)]
        return cast(R, _Watched(rule, {name: self._timed(rule, point, name) for name in methods}))

    def _timed(self, rule: NamedPlugin, point: str, method: str) -> Callable[..., Any]:
        """The first call is timed, so that plugins that are rarely called have a series too."""
        ask, answered, clock = getattr(rule, method), self._answered, self._clock
        untimed = 0

        def answer(*about: Any) -> Any:
            nonlocal untimed
            if untimed:
                untimed -= 1
                return ask(*about)
            untimed = 0 if point == ADMISSION else ONE_IN - 1
            began = clock()
            found = ask(*about)
            if method == "demands":
                found = list(found)  # which makes them out, one by one
            seconds = clock() - began
            answered(rule.name, point, _status(rule, method, found), seconds)
            return iter(found) if method == "demands" else found

        return answer


class _Watched:
    """A plugin with some methods replaced by timed ones. It is an instance of the plugin's class to whoever asks."""

    def __init__(self, rule: NamedPlugin, methods: Mapping[str, Callable[..., Any]]) -> None:
        self._rule = rule
        for name, method in methods.items():
            setattr(self, name, method)

    @property  # type: ignore[misc]  # nobody sets it
    def __class__(self) -> type[Any]:
        return type(self._rule)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._rule, name)
        if callable(found):
            setattr(self, name, found)  # asked often: it is found at once the next time
        return found


def _status(rule: NamedPlugin, method: str, answer: Any) -> str:
    """One answer for many nodes counts as a refusal when it refuses all of them."""
    if method == "outcomes":
        return SUCCESS if any(isinstance(outcome, Admitted) for outcome in answer) else INADMISSIBLE
    if _passes(method, answer):
        return PASSED
    curable = method == "plan" or ClusterEvent.ROOM_FREED in getattr(rule, "wake_on", ())
    return REFUSED if curable else REFUSED_FOR_GOOD


def _passes(method: str, answer: Any) -> bool:
    match method:
        case "refusal":
            return answer is None
        case "demands":
            return bool(np.any(_all_met(answer)))
        case "admits":
            return bool(answer)
        case "plan":
            return isinstance(answer, Plan)
    return True


def _all_met(demands: Iterable[tuple[str, Each]]) -> Each:
    everything: Each = True
    for _, met in demands:
        everything = everything & met
    return everything


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
