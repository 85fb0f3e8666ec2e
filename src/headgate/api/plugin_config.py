"""Arguments of plugins in a profile's `pluginConfig`, in kube-scheduler's layout."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from msgspec import Meta, Struct

from headgate.api.errors import InvalidField
from headgate.model.settings import ScoringStrategy


class Resource(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    weight: Annotated[int, Meta(ge=1, le=100)] = 1


class Point(Struct, frozen=True, forbid_unknown_fields=True):
    utilization: Annotated[int, Meta(ge=0, le=100)]
    score: Annotated[int, Meta(ge=0, le=10)]


class Ratio(Struct, frozen=True, forbid_unknown_fields=True):
    shape: tuple[Point, ...] = ()


class Strategy(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    resources: tuple[Resource, ...] = ()
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
