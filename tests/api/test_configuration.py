"""The configuration file: what it may say, what that means, and how a mistake in it is told."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.api.configuration import InvalidConfiguration, plain_profile, settings_from
from headgate.model.settings import (
    DEFAULT_PLUGINS,
    GangPreemption,
    InformWithin,
    Point,
    PreemptionSettings,
    Profile,
    ScoringStrategy,
    Settings,
    VolcanoSettings,
)

GATES_OFF = {"featureGates": {"PodSchedulingReadiness": False}}


def of(plugins: dict[str, Any] | None = None, installed: tuple[str, ...] = (), **profile: Any) -> Profile:
    section = {"schedulerName": "s", "plugins": plugins or {}, **profile}
    return settings_from({"scheduler": {"profiles": [section]}}, "f", installed).profiles[0]


def named(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


class Plugin:
    def __init__(self, name: str) -> None:
        self.name = name


def on(profile: Profile, point: Point, *others: str) -> list[str]:
    """Which of the built-in plugins, and of these others, are on."""
    return [plugin.name for plugin in profile.kept(tuple(map(Plugin, (*DEFAULT_PLUGINS, *others))), point)]


def scoring(**strategy: Any) -> list[dict[str, Any]]:
    return [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]


@pytest.mark.parametrize("document", [None, {}], ids=["an empty file", "no fields"])
def test_nothing_said_means_the_defaults(document):
    read = settings_from(document, "f")
    assert (read.profiles, read.preemption) == (Settings().profiles, Settings().preemption)


def test_every_default_plugin_is_on_by_default():
    assert on(Profile(), Point.FILTER) == list(DEFAULT_PLUGINS)


A_PLUGIN, PRE, FILTER, POST, SCORE = (
    "ImageLocality",
    Point.PRE_ENQUEUE,
    Point.FILTER,
    Point.POST_FILTER,
    Point.SCORE,
)
GANGS, PREEMPTION = "GangScheduling", "DefaultPreemption"


@pytest.mark.parametrize(
    "plugins, point, name, expected",
    [
        pytest.param({}, SCORE, A_PLUGIN, True, id="a default plugin is on"),
        pytest.param({"multiPoint": {"disabled": named(A_PLUGIN)}}, SCORE, A_PLUGIN, False, id="off everywhere"),
        pytest.param({"score": {"disabled": named(A_PLUGIN)}}, SCORE, A_PLUGIN, False, id="off at its point"),
        pytest.param(
            {"score": {"disabled": named("NodeAffinity")}}, FILTER, "NodeAffinity", True, id="off at another point only"
        ),
        pytest.param({"score": {"disabled": named("*")}}, SCORE, A_PLUGIN, False, id="all off at a point"),
        pytest.param({"score": {"disabled": named("*")}}, FILTER, "NodePorts", True, id="all off at another point"),
        pytest.param(
            {"score": {"disabled": named("*"), "enabled": named(A_PLUGIN)}}, SCORE, A_PLUGIN, True, id="all off but one"
        ),
        pytest.param(
            {"multiPoint": {"disabled": named("*")}, "score": {"enabled": named(A_PLUGIN)}},
            SCORE,
            A_PLUGIN,
            True,
            id="all off everywhere but one at its point",
        ),
        pytest.param({"multiPoint": {"disabled": named("*")}}, FILTER, "NodePorts", False, id="all off everywhere"),
        pytest.param({}, PRE, GANGS, True, id="gangs are seen"),
        pytest.param({"preEnqueue": {"disabled": named(GANGS)}}, PRE, GANGS, False, id="gangs are not seen"),
        pytest.param({"multiPoint": {"disabled": named(GANGS)}}, PRE, GANGS, False, id="gangs are seen nowhere"),
        pytest.param({}, POST, PREEMPTION, True, id="pods are preempted"),
        pytest.param({"postFilter": {"disabled": named(PREEMPTION)}}, POST, PREEMPTION, False, id="no preemption"),
        pytest.param({"postFilter": {"disabled": named("*")}}, POST, PREEMPTION, False, id="nothing after filters"),
        pytest.param(
            {"multiPoint": {"disabled": named("*")}, "postFilter": {"enabled": named(PREEMPTION)}},
            POST,
            PREEMPTION,
            True,
            id="all off everywhere but preemption",
        ),
        pytest.param({}, PRE, "Mine", False, id="an installed plugin is off"),
        pytest.param({"preEnqueue": {"enabled": named("Mine")}}, PRE, "Mine", True, id="on by preEnqueue"),
        pytest.param({"multiPoint": {"enabled": named("Mine")}}, PRE, "Mine", True, id="on by multiPoint"),
        pytest.param(
            {"multiPoint": {"enabled": named("Mine")}, "preEnqueue": {"disabled": named("Mine")}},
            PRE,
            "Mine",
            False,
            id="on by multiPoint and off again at its point",
        ),
        pytest.param(
            {"preEnqueue": {"disabled": named("*"), "enabled": named("Mine")}}, PRE, "Mine", True, id="the only one on"
        ),
        pytest.param(
            {"preEnqueue": {"disabled": named("*"), "enabled": named("Mine")}},
            PRE,
            "SchedulingGates",
            False,
            id="the only one on, so not the built-in one",
        ),
    ],
)
def test_plugins_are_switched_as_in_kube_scheduler(plugins, point, name, expected):
    assert (name in on(of(plugins, installed=("Mine",)), point, "Mine")) is expected


def test_weights_come_from_the_point_before_the_whole():
    enabled = [{"name": "NodeAffinity", "weight": 7}, {"name": "ImageLocality", "weight": 3}]
    at_score = [{"name": "NodeAffinity", "weight": 5}]
    profile = of({"multiPoint": {"enabled": enabled}, "score": {"enabled": at_score}})
    assert profile.weights == {"NodeAffinity": 5, "ImageLocality": 3}


def test_a_scoring_strategy_is_taken_over():
    points = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    resources = [{"name": "nvidia.com/gpu", "weight": 5}, {"name": "cpu"}]
    given = scoring(type="RequestedToCapacityRatio", resources=resources, requestedToCapacityRatio={"shape": points})
    assert of(pluginConfig=given).scoring == ScoringStrategy(
        "RequestedToCapacityRatio", (("nvidia.com/gpu", 5), ("cpu", 1)), ((0, 0), (100, 10))
    )
    assert of(pluginConfig=scoring(type="MostAllocated")).scoring == ScoringStrategy("MostAllocated")


def test_the_share_of_nodes_to_score_is_of_the_scheduler_and_of_a_profile():
    profiles = [{"schedulerName": "a"}, {"schedulerName": "b", "percentageOfNodesToScore": 0}]
    read = settings_from({"scheduler": {"percentageOfNodesToScore": 30, "profiles": profiles}}, "f")
    assert read.percentage_of_nodes_to_score == 30
    assert [profile.percentage_of_nodes_to_score for profile in read.profiles] == [None, 0]


@pytest.mark.parametrize(
    "section, expected",
    [
        pytest.param({}, PreemptionSettings(True, 0.05), id="choices are certified within 50ms"),
        pytest.param({"certify": False}, PreemptionSettings(False, 0.05), id="not certified"),
        pytest.param({"certifyTimeout": "1.5s"}, PreemptionSettings(True, 1.5), id="within another time"),
        pytest.param({"certify": True, "certifyTimeout": "10ms"}, PreemptionSettings(True, 0.01), id="all said"),
    ],
)
def test_preemption(section, expected):
    assert settings_from({"preemption": section}, "f").preemption == expected


@pytest.mark.parametrize(
    "plugins",
    [
        pytest.param({}, id="nothing said"),
        pytest.param({"preEnqueue": {"enabled": named("SchedulingGates")}}, id="enabled at its point"),
        pytest.param({"multiPoint": {"enabled": named("SchedulingGates")}}, id="enabled everywhere"),
    ],
)
def test_with_the_feature_off_no_profile_looks_at_gates(plugins):
    document = {**GATES_OFF, "scheduler": {"profiles": [{"plugins": plugins}, {"schedulerName": "two"}]}}
    for profile in (*settings_from(document, "f").profiles, plain_profile("x", GATES_OFF["featureGates"])):
        assert "SchedulingGates" not in on(profile, Point.PRE_ENQUEUE)
        assert "NodePorts" in on(profile, Point.FILTER)


@pytest.mark.parametrize("timeout", [{}, {"preemption": {"certifyTimeout": "1s"}}], ids=["alone", "with a timeout"])
def test_without_workload_aware_preemption_victims_are_found_pod_by_pod(timeout):
    document = {"featureGates": {"WorkloadAwarePreemption": False}, **timeout}
    assert settings_from(document, "f").preemption.gangs is GangPreemption.POD_BY_POD
    assert settings_from(timeout, "f").preemption.gangs is GangPreemption.TOGETHER


@pytest.mark.parametrize(
    "section, expected",
    [
        pytest.param({}, InformWithin(5.0, 60.0), id="five seconds, and a minute while the server is saturated"),
        pytest.param({"saturated": "2m"}, InformWithin(5.0, 120.0), id="one of them"),
        pytest.param({"idle": "1s", "saturated": "10s"}, InformWithin(1.0, 10.0), id="both"),
    ],
)
def test_how_late_news_may_be(section, expected):
    assert settings_from({"informWithin": section}, "f").inform_within == expected


@pytest.mark.parametrize(
    "document, expected",
    [
        pytest.param({}, VolcanoSettings(True, 600.0), id="gates are on, and reservations last ten minutes"),
        pytest.param({"volcano": {"reservationTimeout": "5m"}}, VolcanoSettings(True, 300.0), id="another time"),
        pytest.param(
            {"featureGates": {"SchedulingGatesQueueAdmission": False}},
            VolcanoSettings(False, 600.0),
            id="gates are off",
        ),
    ],
)
def test_volcano(document, expected):
    settings = settings_from(document, "f")
    assert settings.volcano == expected
    assert settings.gated_schedulers == (frozenset({"headgate"}) if expected.gates else frozenset())


def test_a_name_without_a_profile_gets_the_default_one():
    assert plain_profile("x", {}) == Profile("x")


ALL = ", ".join(DEFAULT_PLUGINS)
FILTERS = ", ".join(name for name, points in DEFAULT_PLUGINS.items() if Point.FILTER in points)


def shaped(*points: tuple[int, int]) -> list[dict[str, Any]]:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return scoring(type="RequestedToCapacityRatio", requestedToCapacityRatio={"shape": shape})


RATIO = "pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio"


@pytest.mark.parametrize(
    "profile, path, expected",
    [
        pytest.param(
            {"plugins": {"multiPoint": {"enabled": named("Nobody")}}},
            "plugins.multiPoint.enabled[0].name",
            f"expected one of {ALL}; installed: Mine, Ours, got 'Nobody'",
            id="a plugin nobody has",
        ),
        pytest.param(
            {"plugins": {"preEnqueue": {"enabled": named("Mine", "NodePorts")}}},
            "plugins.preEnqueue.enabled[1].name",
            "expected one of SchedulingGates, GangScheduling; installed: Mine, Ours, got 'NodePorts'",
            id="a plugin that does not stand there",
        ),
        pytest.param(
            {"plugins": {"postFilter": {"enabled": named("GangScheduling")}}},
            "plugins.postFilter.enabled[0].name",
            "expected one of DefaultPreemption; no others are installed, got 'GangScheduling'",
            id="a plugin that does not preempt",
        ),
        pytest.param(
            {"plugins": {"filter": {"enabled": named("Mine")}}},
            "plugins.filter.enabled[0].name",
            f"expected one of {FILTERS}; no others are installed, got 'Mine'",
            id="an installed plugin that does not stand there",
        ),
        pytest.param(
            {"plugins": {"score": {"disabled": named("Typo")}}},
            "plugins.score.disabled[0].name",
            f"expected one of {ALL}, *; installed: Mine, Ours, got 'Typo'",
            id="an unknown plugin turned off",
        ),
        pytest.param(
            {"plugins": {"score": {"enabled": [{"name": "NodeAffinity", "weight": 0}]}}},
            "plugins.score.enabled[0].weight",
            "expected a whole number from 1 to 100, got 0",
            id="a weight",
        ),
        pytest.param(
            {"percentageOfNodesToScore": 101},
            "percentageOfNodesToScore",
            "expected a whole number from 0 to 100, got 101",
            id="a percentage",
        ),
        pytest.param(
            {"pluginConfig": [{"name": "NodePorts"}]},
            "pluginConfig[0].name",
            "'NodePorts'",
            id="arguments for a plugin that takes none",
        ),
        pytest.param(
            {"pluginConfig": [*scoring(), *scoring()]},
            "pluginConfig[1].name",
            "not configured before",
            id="arguments twice",
        ),
        pytest.param(
            {"pluginConfig": scoring(type="Best")},
            "pluginConfig[0].args.scoringStrategy.type",
            "'Best'",
            id="a strategy nobody knows",
        ),
        pytest.param(
            {"pluginConfig": scoring(resources=[{"name": "cpu", "weight": 101}])},
            "pluginConfig[0].args.scoringStrategy.resources[0].weight",
            "<= 100",
            id="a resource's weight",
        ),
        pytest.param(
            {"pluginConfig": scoring(requestedToCapacityRatio={})},
            RATIO,
            "expected none with the type LeastAllocated",
            id="a shape for another strategy",
        ),
        pytest.param(
            {"pluginConfig": scoring(type="RequestedToCapacityRatio")},
            f"{RATIO}.shape",
            "expected at least one point",
            id="no shape",
        ),
        pytest.param(
            {"pluginConfig": shaped((0, 0), (101, 10))},
            f"{RATIO}.shape[1].utilization",
            "<= 100",
            id="a utilization beyond all",
        ),
        pytest.param(
            {"pluginConfig": shaped((0, 11))},
            f"{RATIO}.shape[0].score",
            "<= 10",
            id="a score beyond the best",
        ),
        pytest.param(
            {"pluginConfig": shaped((50, 0), (50, 10))},
            f"{RATIO}.shape[1].utilization",
            "expected more than 50, got 50",
            id="a shape that does not rise",
        ),
        pytest.param({"schedulerName": ""}, "schedulerName", "expected a name", id="a profile without a name"),
    ],
)
def test_a_mistake_in_a_profile_is_told_with_its_place(profile, path, expected):
    with pytest.raises(InvalidConfiguration) as wrong:
        settings_from({"scheduler": {"profiles": [profile]}}, "f.yaml", ("Mine", "Ours"))
    assert wrong.value.path == f"scheduler.profiles[0].{path}"
    assert expected in wrong.value.expected
    assert str(wrong.value).startswith("f.yaml: scheduler.profiles[0].")


@pytest.mark.parametrize(
    "document, path, expected",
    [
        pytest.param({"scheduler": {"profiles": []}}, "scheduler.profiles", "at least one", id="no profile"),
        pytest.param(
            {"scheduler": {"profiles": [{}, {}]}}, "scheduler.profiles[1].schedulerName", "no other", id="a name twice"
        ),
        pytest.param(
            {"featureGates": {"X": True}},
            "featureGates.X",
            "expected one of DisableWaitForPodsReady, F",
            id="an unknown gate",
        ),
        pytest.param(
            {"scheduler": {"podInitialBackoffSeconds": 0}}, "scheduler.podInitialBackoffSeconds", "above 0", id="0s"
        ),
        pytest.param(
            {"scheduler": {"podMaxBackoffSeconds": 0.5}},
            "scheduler.podMaxBackoffSeconds",
            "at least podInitialBackoffSeconds",
            id="a limit below the start",
        ),
        pytest.param(
            {"scheduler": {"percentageOfNodesToScore": -1}},
            "scheduler.percentageOfNodesToScore",
            "from 0 to 100",
            id="a negative share",
        ),
        pytest.param({"scheduler": {"profile": []}}, "scheduler", "unknown field `profile`", id="an unknown field"),
        pytest.param(
            {"preemption": {"certifyTimeout": "50"}},
            "preemption.certifyTimeout",
            "expected a duration such as 90s, 1m30s or 2h, found '50'",
            id="a time without a unit",
        ),
        pytest.param(
            {"preemption": {"certifyTimeout": 50}},
            "preemption.certifyTimeout",
            "expected `str | null`, got `int`",
            id="a time that is a number",
        ),
        pytest.param(
            {"volcano": {"reservationTimeout": "0s"}},
            "volcano.reservationTimeout",
            "expected a duration above 0s, got '0s'",
            id="no time to reserve",
        ),
        pytest.param(
            {"informWithin": {"idle": "90s"}},
            "informWithin.saturated",
            "expected at least informWithin.idle, 90s",
            id="sooner while saturated",
        ),
        pytest.param(
            {"informWithin": {"idle": "0s"}}, "informWithin.idle", "above 0s, got '0s'", id="no time to inform"
        ),
        pytest.param(
            {"preemption": {"certifyTimeout": "0s"}},
            "preemption.certifyTimeout",
            "expected a duration above 0s, got '0s'",
            id="no time",
        ),
        pytest.param(
            {"preemption": {"certifyTimeout": "-1s"}},
            "preemption.certifyTimeout",
            "expected a duration above 0s, got '-1s'",
            id="less than no time",
        ),
        pytest.param(
            {"preemption": {"certify": "yes"}}, "preemption.certify", "expected `bool`, got `str`", id="yes for true"
        ),
        pytest.param(
            {"preemption": {"certified": True}}, "preemption", "unknown field `certified`", id="an unknown choice"
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(document, path, expected):
    with pytest.raises(InvalidConfiguration) as wrong:
        settings_from(document, "f")
    assert wrong.value.path == path
    assert expected in wrong.value.expected
