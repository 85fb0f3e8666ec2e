"""Placement rules under a stopwatch: they answer as before, and one answer in ten is timed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from builders import node, pod, shape

from headgate.engine.metrics import FILTER, POST_FILTER, SCORE, unwatched
from headgate.engine.scheduler.plugins import plugins_for
from headgate.live.plugin_calls import ONE_IN, Stopwatch
from headgate.model.cluster_events import ClusterEvent
from headgate.model.node import HostPort
from headgate.model.settings import Profile
from headgate.placement.neighbours import Neighbours
from headgate.placement.packing import is_plain
from headgate.placement.placer import Placer
from headgate.placement.table import NodeTable
from headgate.preemption.plain import allowed_beside
from headgate.preemption.search import NoPlan


class Told(NamedTuple):
    plugin: str
    point: str
    status: str
    seconds: float


class Listener:
    """Hears what the stopwatch tells; its clock goes on by half a second each time it is read."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self._now = 0.0

    def clock(self) -> float:
        self._now += 0.5
        return self._now

    def asked(self, *answer) -> None:
        self.told.append(Told(*answer))

    @property
    def stopwatch(self) -> Stopwatch:
        return Stopwatch(self.asked, self.clock)


class Rule:
    """Answers whatever the test wants."""

    name = "Rule"

    def __init__(self, answer, wake_on=frozenset()) -> None:
        self._answer, self.wake_on = answer, wake_on


class NodeRule(Rule):
    def refusal(self, shape, place):
        return self._answer


class RoomRule(Rule):
    def demands(self, shape, nodes, rows, already):
        yield "room", self._answer
        yield "more room", np.array([True, False])

    def admits(self, candidate, row):
        return self._answer[row]


class Preference(Rule):
    def scores(self, shape, nodes, rows, already):
        return self._answer


class Search(Rule):
    def plan(self, preemptor, placer, now):
        return self._answer


ON_ROOM = frozenset({ClusterEvent.ROOM_FREED})
NOWHERE, FIRST, SECOND = (np.array(where) for where in ([False, False], [True, False], [False, True]))


@pytest.mark.parametrize(
    "rule, point, method, arguments, status",
    [
        pytest.param(NodeRule(None), FILTER, "refusal", 2, "Success", id="a node will do"),
        pytest.param(NodeRule("no"), FILTER, "refusal", 2, "UnschedulableAndUnresolvable", id="a node never will"),
        pytest.param(NodeRule("no", ON_ROOM), FILTER, "refusal", 2, "Unschedulable", id="a node might when pods leave"),
        pytest.param(RoomRule(FIRST, ON_ROOM), FILTER, "demands", 4, "Success", id="one of several nodes will do"),
        pytest.param(RoomRule(SECOND, ON_ROOM), FILTER, "demands", 4, "Unschedulable", id="none meets all demands"),
        pytest.param(RoomRule(FIRST), FILTER, "demands", 4, "Success", id="demands met, whatever would help"),
        pytest.param(RoomRule(NOWHERE), FILTER, "demands", 4, "UnschedulableAndUnresolvable", id="nothing would help"),
        pytest.param(Preference(None), SCORE, "scores", 4, "Success", id="a score that says nothing"),
        pytest.param(Search(NoPlan("no", 0)), POST_FILTER, "plan", 3, "Unschedulable", id="nobody to ask to leave"),
    ],
)
def test_how_an_answer_counts(rule, point, method, arguments, status):
    listener = Listener()
    watched = listener.stopwatch(rule, point)
    about = [None] * arguments
    answer, expected = getattr(watched, method)(*about), getattr(rule, method)(*about)
    if method == "demands":
        answer, expected = ([(why, met.tolist()) for why, met in each] for each in (answer, expected))
    assert answer == expected
    assert listener.told == [("Rule", point, status, 0.5)]


def test_the_first_answer_is_timed_and_then_one_in_ten():
    listener = Listener()
    rule = listener.stopwatch(NodeRule(None), FILTER)
    heard = []
    for _ in range(2 * ONE_IN + 1):
        rule.refusal(None, None)
        heard.append(len(listener.told))
    assert heard == [1] * ONE_IN + [2] * ONE_IN + [3]


def test_at_one_extension_point_only_what_belongs_there_is_timed():
    listener = Listener()

    class Both(RoomRule, Preference):
        pass

    listener.stopwatch(Both(FIRST), SCORE).demands(None, None, None, None)
    assert listener.told == []
    listener.stopwatch(Both(FIRST), SCORE).scores(None, None, None, None)
    assert [told.point for told in listener.told] == [SCORE]


def placing(watch) -> list[object]:
    table = NodeTable()
    for index in range(3):
        table.put(node(f"n-{index}", cpu=4000))
    plugins = plugins_for(Profile(), Neighbours(table), watch=watch)
    placer, found = Placer(plugins.rules), []
    for index in range(15):
        candidate = pod(f"p-{index}", cpu=1000)
        found.append(placer.place(candidate))
        for rule in plugins.reserve if index < 12 else ():
            rule.reserve(candidate, found[-1].node)
    return found


def test_rules_decide_alike_whether_watched_or_not():
    listener = Listener()
    watched = placing(listener.stopwatch)
    assert watched == placing(lambda rule, _point: rule)
    assert {(told.plugin, told.point) for told in listener.told} >= {
        ("TaintToleration", "Filter"),
        ("NodeResourcesFit", "Filter"),
        ("NodeResourcesFit", "Score"),
        ("NodeResourcesBalancedAllocation", "Score"),
        ("NodeRoom", "Reserve"),
    }


def test_a_watched_rule_is_known_by_its_class():
    """Preemption asks which of the rules is about amounts, and which about ports."""
    assert isinstance(Listener().stopwatch(NodeRule(None), FILTER), NodeRule)


@pytest.mark.parametrize(
    "fields, plain, allowed",
    [
        pytest.param({"cpu": 1000}, True, [True, True], id="amounts alone decide"),
        pytest.param({"shape": shape(1000, ports=(HostPort(80),))}, False, [False, True], id="a port is taken"),
    ],
)
@pytest.mark.parametrize("watch", [unwatched, Listener().stopwatch], ids=["not watched", "watched"])
def test_preemption_looks_at_the_same_nodes_whether_watched_or_not(watch, fields, plain, allowed):
    table = NodeTable()
    for index in range(2):
        table.put(node(f"n-{index}", cpu=4000))
    table.charge(pod("taken", shape=shape(100, ports=(HostPort(80),))), "n-0")
    placer = Placer(plugins_for(Profile(), Neighbours(table), watch=watch).rules)
    preemptor = pod("p", **fields)
    assert is_plain(placer, [preemptor]) is plain
    assert allowed_beside(placer, preemptor).tolist()[:2] == allowed
