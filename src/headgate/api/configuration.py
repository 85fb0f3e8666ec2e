"""The configuration file, in the layout users of Kueue and kube-scheduler know, decoded strictly into Settings."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from headgate.model.settings import DEFAULT_SCHEDULER_NAME, PLUGIN_NAMES, Profile, Settings

FEATURE_GATES = {
    "MultiKueueOrchestratedPreemption": True,
    "PodIntegrationFastQuotaRelease": True,
    "PodSchedulingReadiness": True,
}
"""Every feature gate, with its default."""


class InvalidConfiguration(Exception):
    """The operator's mistake: where it stands and what belongs there."""

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
    score: PluginSet = PluginSet()

    def all(self) -> Iterator[tuple[str, PluginSet]]:
        for point in ("multi_point", "pre_enqueue", "filter", "score"):
            yield self.__struct_encode_fields__[self.__struct_fields__.index(point)], getattr(self, point)


class ProfileSection(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    plugins: PluginSets = PluginSets()


class SchedulerSection(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    profiles: tuple[ProfileSection, ...] = (ProfileSection(),)
    pod_initial_backoff_seconds: float = 1
    pod_max_backoff_seconds: float = 10


class Document(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    api_version: str = ""
    kind: str = "Configuration"
    feature_gates: dict[str, bool] = {}
    scheduler: SchedulerSection = SchedulerSection()


def settings_from(document: object, source: str) -> Settings:
    """The settings the file asks for; an empty file asks for the defaults. Nothing unknown is passed over."""
    try:
        read = msgspec.convert(document if document is not None else {}, Document)
    except msgspec.ValidationError as wrong:
        raise _located(source, str(wrong)) from None
    _check(read, source)
    return Settings(
        profiles=tuple(_profile(section, f"scheduler.profiles[{i}]", source) for i, section in _profiles(read)),
        initial_backoff=read.scheduler.pod_initial_backoff_seconds,
        max_backoff=read.scheduler.pod_max_backoff_seconds,
        features={**FEATURE_GATES, **read.feature_gates},
    )


def _profiles(read: Document) -> Iterator[tuple[int, ProfileSection]]:
    return iter(enumerate(read.scheduler.profiles))


def _check(read: Document, source: str) -> None:
    for gate in read.feature_gates:
        if gate not in FEATURE_GATES:
            raise InvalidConfiguration(source, f"featureGates.{gate}", f"expected one of {', '.join(FEATURE_GATES)}")
    section = read.scheduler
    if not section.profiles:
        raise InvalidConfiguration(source, "scheduler.profiles", "expected at least one profile")
    if section.pod_initial_backoff_seconds <= 0:
        raise InvalidConfiguration(source, "scheduler.podInitialBackoffSeconds", "expected a number above 0")
    if section.pod_max_backoff_seconds < section.pod_initial_backoff_seconds:
        path = "scheduler.podMaxBackoffSeconds"
        raise InvalidConfiguration(source, path, "expected at least podInitialBackoffSeconds")
    names = [profile.scheduler_name for profile in section.profiles]
    for index, name in enumerate(names):
        if name in names[:index]:
            path = f"scheduler.profiles[{index}].schedulerName"
            raise InvalidConfiguration(source, path, f"expected a name no other profile has, got {name!r}")


def _profile(section: ProfileSection, path: str, source: str) -> Profile:
    disabled: set[str] = set()
    weights: dict[str, int] = {}
    for point, plugins in section.plugins.all():
        where = f"{path}.plugins.{point}"
        disabled |= {_known(ref, f"{where}.disabled[{i}]", source) for i, ref in enumerate(plugins.disabled)}
        for index, ref in enumerate(plugins.enabled):
            name = _known(ref, f"{where}.enabled[{index}]", source)
            disabled.discard(name)
            if ref.weight is not None:
                weights[name] = _weight(ref.weight, f"{where}.enabled[{index}].weight", source)
    return Profile(section.scheduler_name, frozenset(disabled), weights)


def _known(ref: PluginRef, path: str, source: str) -> str:
    if ref.name not in (*PLUGIN_NAMES, "*"):
        raise InvalidConfiguration(source, f"{path}.name", f"expected one of {', '.join(PLUGIN_NAMES)} or *")
    return ref.name


def _weight(weight: int, path: str, source: str) -> int:
    if not 0 < weight <= 100:
        raise InvalidConfiguration(source, path, f"expected a whole number from 1 to 100, got {weight}")
    return weight


def _located(source: str, message: str) -> InvalidConfiguration:
    """msgspec ends its message with the place: "… - at `$.scheduler.profiles[0]`"."""
    what, _, place = message.partition(" - at `$")
    return InvalidConfiguration(source, place.rstrip("`").lstrip("."), what[:1].lower() + what[1:])
