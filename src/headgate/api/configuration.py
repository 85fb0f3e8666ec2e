"""The configuration file, in the layout users of Kueue and kube-scheduler know, decoded strictly into Settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta, Struct

from headgate.api.kueue_configuration import QuotaSections, is_kueue_file, quota_settings, read_kueue_file
from headgate.api.multikueue import MultiKueueSection, multikueue_settings
from headgate.api.wire import InvalidDuration, InvalidField, parse_duration
from headgate.model.settings import (
    DEFAULT_PLUGINS,
    DEFAULT_SCHEDULER_NAME,
    EVERY,
    GangPreemption,
    InformWithin,
    MultiKueueSettings,
    Point,
    PreemptionSettings,
    Profile,
    QuotaSettings,
    ScoringStrategy,
    Settings,
    Switches,
    VolcanoSettings,
)

MULTI_POINT = "multiPoint"
GATES = "SchedulingGates"

FEATURE_GATES = {
    "DisableWaitForPodsReady": False,
    "FailureRecoveryPolicy": False,
    "MultiKueueOrchestratedPreemption": True,
    "PodIntegrationFastQuotaRelease": True,
    "PodSchedulingReadiness": True,
    "SchedulingGatesQueueAdmission": True,
    "WorkloadAwarePreemption": True,
}
"""Every feature gate, with its default."""


class InvalidConfiguration(Exception):
    """An invalid configuration: file, path in it, and what was expected."""

    def __init__(self, source: str, path: str, expected: str) -> None:
        super().__init__(f"{source}: {path}: {expected}" if path else f"{source}: {expected}")
        self.source, self.path, self.expected = source, path, expected


class PluginRef(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    weight: int | None = None


class PluginSet(Struct, frozen=True, forbid_unknown_fields=True):
    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()


class PluginSets(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    multi_point: PluginSet = PluginSet()
    pre_enqueue: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    score: PluginSet = PluginSet()

    def at_points(self) -> Iterator[tuple[Point, PluginSet]]:
        yield Point.PRE_ENQUEUE, self.pre_enqueue
        yield Point.FILTER, self.filter
        yield Point.POST_FILTER, self.post_filter
        yield Point.SCORE, self.score


class ProfileSection(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    plugins: PluginSets = PluginSets()
    plugin_config: tuple[PluginConfig, ...] = ()
    percentage_of_nodes_to_score: int | None = None


class SchedulerSection(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    profiles: tuple[ProfileSection, ...] = (ProfileSection(),)
    pod_initial_backoff_seconds: float = 1
    pod_max_backoff_seconds: float = 10
    percentage_of_nodes_to_score: int = 0


class PreemptionSection(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    certify: bool = PreemptionSettings().certify
    certify_timeout: str | None = None


class VolcanoSection(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    reservation_timeout: str | None = None


class InformWithinSection(Struct, frozen=True, forbid_unknown_fields=True):
    idle: str | None = None
    saturated: str | None = None


class Document(QuotaSections, frozen=True):
    """The whole file."""

    api_version: str = ""
    kind: str = "Configuration"
    feature_gates: dict[str, bool] = msgspec.field(default_factory=dict)
    scheduler: SchedulerSection = SchedulerSection()
    preemption: PreemptionSection = PreemptionSection()
    volcano: VolcanoSection = VolcanoSection()
    inform_within: InformWithinSection = InformWithinSection()
    multi_kueue: MultiKueueSection | None = None


def settings_from(document: object, source: str, installed: Sequence[str] = ()) -> Settings:
    """The settings the file asks for; an empty file asks for the defaults. Nothing unknown is passed over.

    A file of Kueue's own may have fields that do not apply here; they are listed in the settings.

    `installed` names the plugins that are there besides the built-in ones; each is off until a profile enables it.
    """
    not_applied: tuple[str, ...] = ()
    try:
        if is_kueue_file(document):
            found = read_kueue_file(cast("Mapping[str, Any]", document))
            document, not_applied = found.document, found.not_applied
        read = msgspec.convert(document if document is not None else {}, Document)
    except InvalidField as wrong:
        raise InvalidConfiguration(source, wrong.path, wrong.expected) from None
    except msgspec.ValidationError as wrong:
        raise _located(source, str(wrong)) from None
    return msgspec.structs.replace(_Reader(source, installed).settings(read), not_applied=not_applied)


def plain_profile(name: str, features: Mapping[str, bool]) -> Profile:
    """The profile of a schedulerName that the file does not configure."""
    ready = features.get("PodSchedulingReadiness", FEATURE_GATES["PodSchedulingReadiness"])
    return Profile(name) if ready else _ignoring_gates(Profile(name))


def _ignoring_gates(profile: Profile) -> Profile:
    """With the feature off nothing turns the plugin on."""
    points = {
        point: msgspec.structs.replace(switches, enabled=switches.enabled - {GATES})
        for point, switches in profile.points.items()
    }
    without = profile.enabled - {GATES}
    return msgspec.structs.replace(profile, disabled=profile.disabled | {GATES}, enabled=without, points=points)


class _Reader:
    """Checks what the types cannot express; errors name the path."""

    def __init__(self, source: str, installed: Sequence[str]) -> None:
        self._source = source
        self._plugins = {**DEFAULT_PLUGINS, **dict.fromkeys(installed, (Point.PRE_ENQUEUE,))}

    def settings(self, read: Document) -> Settings:
        section = read.scheduler
        self._check_gates(read.feature_gates)
        self._check_section(section)
        features = {**FEATURE_GATES, **read.feature_gates}
        profiles = [self._profile(one, f"scheduler.profiles[{i}]") for i, one in enumerate(section.profiles)]
        if not features["PodSchedulingReadiness"]:
            profiles = [_ignoring_gates(profile) for profile in profiles]
        return Settings(
            profiles=tuple(profiles),
            initial_backoff=section.pod_initial_backoff_seconds,
            max_backoff=section.pod_max_backoff_seconds,
            percentage_of_nodes_to_score=section.percentage_of_nodes_to_score,
            features=features,
            preemption=self._preemption(read.preemption, features),
            quota=self._quota(read, features),
            volcano=self._volcano(read.volcano, features),
            inform_within=self._inform_within(read.inform_within),
            multikueue=self._multikueue(read.multi_kueue or MultiKueueSection(), features),
        )

    def _quota(self, read: Document, features: Mapping[str, bool]) -> QuotaSettings:
        try:
            return quota_settings(
                read,
                preemption_gates=features["MultiKueueOrchestratedPreemption"],
                fast_release=features["PodIntegrationFastQuotaRelease"],
                recovers_failures=features["FailureRecoveryPolicy"],
                waits_for_pods=not features["DisableWaitForPodsReady"],
            )
        except InvalidField as wrong:
            raise self._wrong(wrong.path, wrong.expected) from None

    def _multikueue(self, section: MultiKueueSection, features: Mapping[str, bool]) -> MultiKueueSettings:
        try:
            return multikueue_settings(section, orchestrated=features["MultiKueueOrchestratedPreemption"])
        except InvalidField as wrong:
            raise self._wrong(wrong.path, wrong.expected) from None

    def _preemption(self, section: PreemptionSection, features: Mapping[str, bool]) -> PreemptionSettings:
        gangs = GangPreemption.TOGETHER if features["WorkloadAwarePreemption"] else GangPreemption.POD_BY_POD
        if section.certify_timeout is None:
            return PreemptionSettings(section.certify, gangs=gangs)
        seconds = self._duration("preemption.certifyTimeout", section.certify_timeout)
        return PreemptionSettings(section.certify, seconds, gangs)

    def _volcano(self, section: VolcanoSection, features: Mapping[str, bool]) -> VolcanoSettings:
        gates = features["SchedulingGatesQueueAdmission"]
        if section.reservation_timeout is None:
            return VolcanoSettings(gates)
        return VolcanoSettings(gates, self._duration("volcano.reservationTimeout", section.reservation_timeout))

    def _inform_within(self, section: InformWithinSection) -> InformWithin:
        given = {name: text for name, text in msgspec.structs.asdict(section).items() if text is not None}
        within = InformWithin(**{name: self._duration(f"informWithin.{name}", text) for name, text in given.items()})
        if within.saturated < within.idle:
            raise self._wrong("informWithin.saturated", f"expected at least informWithin.idle, {within.idle:g}s")
        return within

    def _duration(self, path: str, text: str) -> float:
        """A duration above zero, in seconds."""
        try:
            seconds = parse_duration(text)
        except InvalidDuration as wrong:
            raise self._wrong(path, str(wrong)) from None
        if seconds <= 0:
            raise self._wrong(path, f"expected a duration above 0s, got {text!r}")
        return seconds

    def _check_gates(self, given: Mapping[str, bool]) -> None:
        for gate in given:
            if gate not in FEATURE_GATES:
                raise self._wrong(f"featureGates.{gate}", f"expected one of {', '.join(FEATURE_GATES)}")

    def _check_section(self, section: SchedulerSection) -> None:
        if not section.profiles:
            raise self._wrong("scheduler.profiles", "expected at least one profile")
        if section.pod_initial_backoff_seconds <= 0:
            raise self._wrong("scheduler.podInitialBackoffSeconds", "expected a number above 0")
        if section.pod_max_backoff_seconds < section.pod_initial_backoff_seconds:
            raise self._wrong("scheduler.podMaxBackoffSeconds", "expected at least podInitialBackoffSeconds")
        self._between(0, 100, section.percentage_of_nodes_to_score, "scheduler.percentageOfNodesToScore")
        names = [profile.scheduler_name for profile in section.profiles]
        for index, name in enumerate(names):
            path = f"scheduler.profiles[{index}].schedulerName"
            if not name:
                raise self._wrong(path, "expected a name")
            if name in names[:index]:
                raise self._wrong(path, f"expected a name no other profile has, got {name!r}")

    def _profile(self, section: ProfileSection, path: str) -> Profile:
        sets, percentage = section.plugins, section.percentage_of_nodes_to_score
        if percentage is not None:
            self._between(0, 100, percentage, f"{path}.percentageOfNodesToScore")
        everywhere = self._switches(sets.multi_point, f"{path}.plugins.{MULTI_POINT}", tuple(Point))
        points = {
            point: self._switches(plugins, f"{path}.plugins.{point}", (point,))
            for point, plugins in sets.at_points()
            if plugins != PluginSet()
        }
        return Profile(
            scheduler_name=section.scheduler_name,
            disabled=everywhere.disabled,
            weights={**self._weights(sets.multi_point, path, MULTI_POINT), **self._weights(sets.score, path, "score")},
            scoring=self._scoring(section.plugin_config, f"{path}.pluginConfig"),
            enabled=everywhere.enabled,
            points=points,
            percentage_of_nodes_to_score=percentage,
        )

    def _switches(self, plugins: PluginSet, path: str, points: tuple[Point, ...]) -> Switches:
        for i, ref in enumerate(plugins.enabled):
            self._check_name(ref.name, self._standing_at(points), f"{path}.enabled[{i}].name")
        for i, ref in enumerate(plugins.disabled):
            self._check_name(ref.name, (*self._plugins, EVERY), f"{path}.disabled[{i}].name")
        return Switches(_names(plugins.enabled), _names(plugins.disabled))

    def _standing_at(self, points: tuple[Point, ...]) -> tuple[str, ...]:
        return tuple(name for name, at in self._plugins.items() if any(point in points for point in at))

    def _check_name(self, name: str, known: tuple[str, ...], path: str) -> None:
        if name in known:
            return
        built_in = [one for one in known if one in DEFAULT_PLUGINS or one == EVERY]
        installed = [one for one in known if one not in built_in]
        listed = f"; installed: {', '.join(installed)}" if installed else "; no others are installed"
        raise self._wrong(path, f"expected one of {', '.join(built_in)}{listed}, got {name!r}")

    def _weights(self, plugins: PluginSet, path: str, point: str) -> dict[str, int]:
        weights: dict[str, int] = {}
        for index, ref in enumerate(plugins.enabled):
            if ref.weight is not None:
                self._between(1, 100, ref.weight, f"{path}.plugins.{point}.enabled[{index}].weight")
                weights[ref.name] = ref.weight
        return weights

    def _scoring(self, configs: tuple[PluginConfig, ...], path: str) -> ScoringStrategy:
        try:
            return scoring_strategy(configs, path)
        except InvalidField as wrong:
            raise self._wrong(wrong.path, wrong.expected) from None

    def _between(self, least: int, most: int, number: int, path: str) -> None:
        if not least <= number <= most:
            raise self._wrong(path, f"expected a whole number from {least} to {most}, got {number}")

    def _wrong(self, path: str, expected: str) -> InvalidConfiguration:
        return InvalidConfiguration(self._source, path, expected)


def _names(refs: Sequence[PluginRef]) -> frozenset[str]:
    return frozenset(ref.name for ref in refs)


def _located(source: str, message: str) -> InvalidConfiguration:
    """msgspec ends its message with the place: "… - at `$.scheduler.profiles[0]`"."""
    what, _, place = message.partition(" - at `$")
    return InvalidConfiguration(source, place.rstrip("`").lstrip("."), what[:1].lower() + what[1:])


class ScoredResource(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    weight: Annotated[int, Meta(ge=1, le=100)] = 1


class ShapePoint(Struct, frozen=True, forbid_unknown_fields=True):
    utilization: Annotated[int, Meta(ge=0, le=100)]
    score: Annotated[int, Meta(ge=0, le=10)]


class Ratio(Struct, frozen=True, forbid_unknown_fields=True):
    shape: tuple[ShapePoint, ...] = ()


class Strategy(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    resources: tuple[ScoredResource, ...] = ()
    requested_to_capacity_ratio: Ratio | None = None


class FitArgs(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    api_version: str = ""
    kind: str = "NodeResourcesFitArgs"
    scoring_strategy: Strategy = Strategy()


class PluginConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The only plugin with arguments is NodeResourcesFit."""

    name: Literal["NodeResourcesFit"]
    args: FitArgs = FitArgs()


def scoring_strategy(configs: tuple[PluginConfig, ...], path: str) -> ScoringStrategy:
    """How NodeResourcesFit is to score, read at `path`; raises InvalidField."""
    if not configs:
        return ScoringStrategy()
    if len(configs) > 1:
        raise InvalidField(f"{path}[1].name", "expected a plugin that was not configured before")
    strategy = configs[0].args.scoring_strategy
    resources = tuple((each.name, each.weight) for each in strategy.resources)
    shape = _shape(strategy, f"{path}[0].args.scoringStrategy.requestedToCapacityRatio")
    return ScoringStrategy(strategy.type, resources or ScoringStrategy().resources, shape)


def _shape(strategy: Strategy, path: str) -> tuple[tuple[int, int], ...]:
    """The curve's points; there is one exactly when the strategy goes by it."""
    points = strategy.requested_to_capacity_ratio.shape if strategy.requested_to_capacity_ratio else ()
    if strategy.type != "RequestedToCapacityRatio":
        if strategy.requested_to_capacity_ratio is not None:
            raise InvalidField(path, f"expected none with the type {strategy.type}")
        return ()
    if not points:
        raise InvalidField(f"{path}.shape", "expected at least one point")
    for index, (before, point) in enumerate(pairwise(points), start=1):
        if point.utilization <= before.utilization:
            expected = f"expected more than {before.utilization}, got {point.utilization}"
            raise InvalidField(f"{path}.shape[{index}].utilization", expected)
    return tuple((point.utilization, point.score) for point in points)
