"""What an operator can choose, as plain values. The engine picks its implementations from these names once."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

DEFAULT_SCHEDULER_NAME = "headgate"


class Profile(Struct, frozen=True):
    """One scheduler as pods know it by name; plugin names as in kube-scheduler."""

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    disabled: frozenset[str] = frozenset()  # names of default plugins taken out; "*" takes out all
    weights: Mapping[str, int] = {}  # of score plugins, where not the default


class Settings(Struct, frozen=True):
    profiles: tuple[Profile, ...] = (Profile(),)
    initial_backoff: float = 1.0  # seconds a refused pod waits before its next try; doubles with each refusal
    max_backoff: float = 10.0
    features: Mapping[str, bool] = {}
    seed: int = 0  # settles ties between equally good nodes
