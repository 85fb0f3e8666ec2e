"""Plugins at the door of a live engine: timed, and those of strangers cannot hold anyone up but their own pods."""

from __future__ import annotations

import threading

import pytest
from builders import pod

from headgate.engine.scheduler.cache import CacheView, ClusterCache
from headgate.gates.pre_enqueue import held_by
from headgate.live.plugin_calls import IsolatedPlugin, PluginTimeout, pre_enqueue_plugins
from headgate.model.settings import Profile

SOON, A_WHILE, GENEROUS = 0.01, 2.0, 30.0  # seconds
EMPTY = CacheView(ClusterCache((Profile(),), seed=0))


class Gate:
    """A plugin that hangs on the pod called `slow` until the test lets it go, and fails on the one called `bad`."""

    name = "Gate"
    wake_on = frozenset()

    def __init__(self) -> None:
        self.go, self.reached = threading.Event(), threading.Event()
        self.asked: list[str] = []
        self.threads: set[int] = set()

    def refusal(self, candidate, cluster):
        self.asked.append(candidate.key.name)
        self.threads.add(threading.get_ident())
        if candidate.key.name == "slow":
            self.reached.set()
            self.go.wait()
        if candidate.key.name == "bad":
            raise ValueError("no such account")
        return "not yet" if candidate.key.name == "refused" else None


class Times:
    def __init__(self) -> None:
        self.told: list[tuple[str, str, str, float]] = []
        self.now = 0.0

    def clock(self) -> float:
        self.now += 0.5
        return self.now

    def asked(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self.told.append((plugin, point, status, seconds))


@pytest.mark.parametrize(
    "name, reason, status",
    [
        pytest.param("fine", None, "Success", id="one that passes"),
        pytest.param("refused", "not yet", "UnschedulableAndUnresolvable", id="one that is refused"),
        pytest.param("bad", "plugin Gate failed: ValueError: no such account", "Error", id="one it fails on"),
    ],
)
def test_every_answer_is_passed_on_and_timed(name, reason, status):
    times = Times()
    held = held_by(pre_enqueue_plugins((Gate(),), GENEROUS, times.asked, times.clock), pod(name), EMPTY)
    assert (held.reason if held else None) == reason
    assert times.told == [("SchedulingGates", "PreEnqueue", "Success", 0.5), ("Gate", "PreEnqueue", status, 0.5)]


def test_a_plugin_that_hangs_refuses_its_pod_and_those_that_come_meanwhile_at_once():
    gate, times = Gate(), Times()
    plugins = pre_enqueue_plugins((gate,), SOON, times.asked, times.clock)
    for name in ("slow", "next", "third"):
        held = held_by(plugins, pod(name), EMPTY)
        assert held is not None
        assert (held.plugin, held.reason) == ("Gate", "plugin Gate took longer than 10ms")
    assert gate.reached.wait(GENEROUS)
    assert gate.asked == ["slow"]
    assert [status for name, _, status, _ in times.told if name == "Gate"] == ["Error"] * 3
    gate.go.set()


def test_a_plugin_that_came_back_is_used_again():
    gate = Gate()
    contained = IsolatedPlugin(gate, A_WHILE)
    for name in ("slow", "meanwhile"):
        with pytest.raises(PluginTimeout):
            contained.refusal(pod(name), EMPTY)
    gate.go.set()
    while (answer := _answer(contained, pod("refused"))) is None:
        pass  # it is on its way back
    assert answer == "not yet"
    assert gate.asked == ["slow", "refused"], "nobody was waiting in line behind it"


def _answer(plugin: IsolatedPlugin, candidate) -> str | None:
    try:
        return plugin.refusal(candidate, EMPTY)
    except PluginTimeout:
        return None


def test_two_plugins_do_not_wait_for_each_other():
    hanging, other = Gate(), Gate()
    first, second = IsolatedPlugin(hanging, SOON), IsolatedPlugin(other, GENEROUS)
    with pytest.raises(PluginTimeout):
        first.refusal(pod("slow"), EMPTY)
    assert second.refusal(pod("refused"), EMPTY) == "not yet"
    assert not hanging.threads & other.threads
    hanging.go.set()


def test_the_engines_own_thread_never_runs_a_strangers_code():
    gate = Gate()
    IsolatedPlugin(gate, GENEROUS).refusal(pod("a"), EMPTY)
    assert threading.get_ident() not in gate.threads


class Curious:
    """Looks at the cluster when the test lets it, and keeps it."""

    name = "Curious"
    wake_on = frozenset()

    def __init__(self) -> None:
        self.go, self.done = threading.Event(), threading.Event()
        self.failure: Exception | None = None

    def refusal(self, candidate, cluster):
        self.go.wait()
        try:
            return f"{len(cluster.nodes())} nodes"
        except PluginTimeout as late:
            self.failure = late
        finally:
            self.done.set()


def test_a_plugin_reads_the_cluster_on_its_own_thread():
    curious = Curious()
    curious.go.set()
    assert IsolatedPlugin(curious, GENEROUS).refusal(pod("a"), EMPTY) == "0 nodes"


def test_a_plugin_that_is_late_reads_nothing_any_more():
    curious = Curious()
    with pytest.raises(PluginTimeout):
        IsolatedPlugin(curious, SOON).refusal(pod("a"), EMPTY)
    curious.go.set()
    assert curious.done.wait(GENEROUS)
    assert str(curious.failure) == "the cluster may be read during a call only"
