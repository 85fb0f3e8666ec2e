"""Plain pods: each row is judged by itself and by amounts alone, other pods' nominations aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from headgate.model.pod import Pod, PodShape
from headgate.placement.columns import Amounts
from headgate.placement.filters import NodeResourcesFit
from headgate.placement.placer import Placer
from headgate.placement.plugins import Mask
from headgate.placement.ranking import RowRules
from headgate.placement.table import PODS


def is_plain(placer: Placer, pods: Sequence[Pod]) -> bool:
    """Whether rows can be judged each by itself and by amounts alone for these pods, nominated capacity aside.

    Preferences that compare nodes do not count when others are evicted for a placement.
    """
    rules = placer.rules
    near = [rule for rule in rules.peer_filters if rule is not placer.nominations]
    if not any(isinstance(rule, NodeResourcesFit) for rule in rules.rows.load_filters):
        return False
    return not any(pod.shape.ports or any(rule.concerns(pod) for rule in near) for pod in pods)


def nominated_capacity(placer: Placer, pods: Sequence[Pod]) -> dict[str, Amounts]:
    """By name and row, what is promised to pods at least as important as these, which are alike in that."""
    if not placer.nominations.concerns(pods[0]):
        return {}
    nodes = placer.rules.rows.nodes
    everywhere, names = slice(0, len(nodes.nodes)), asked_of([pod.shape for pod in pods])
    return {name: placer.nominations.promised(pods[0], name, everywhere) for name in names}


def asked_of(shapes: Sequence[PodShape]) -> dict[str, int]:
    """What pods of these shapes ask for together, each name that matters: one place a pod, and no zeros."""
    asked = {PODS: len(shapes)}
    for shape in shapes:
        for name, amount in shape.requests.items:
            if amount:
                asked[name] = asked.get(name, 0) + amount
    return asked


def allowed_rows(rules: RowRules, shape: PodShape) -> Mask:
    """Where what the node itself is does not keep the pod off."""
    everywhere = slice(0, len(rules.nodes.nodes))
    allowed: Mask = rules.nodes.alive.copy()
    for verdicts in rules.node_filters:
        passes = verdicts.passes(shape, everywhere)
        if passes is not None:
            allowed &= passes
    allowed[list(rules.nodes.overfull())] = False
    return allowed


class RowCapacity(Struct, frozen=True):
    """What is free by resource and row, and the rows each shape may run on as far as amounts do not decide it."""

    free: Mapping[str, Amounts]
    allowed: Mapping[PodShape, Mask]
    draws: Amounts  # by row; of equally good rows the one with the smallest is taken


def free_capacity(placer: Placer, pods: Sequence[Pod], within: Mask | None) -> RowCapacity:
    """For plain pods, as things stand and as the least important of them sees it; `within` limits the rows."""
    least = sorted(pods, key=lambda pod: pod.priority)
    nodes, promised = placer.rules.rows.nodes, nominated_capacity(placer, least)
    free = {}
    for name in asked_of([pod.shape for pod in pods]):
        free[name] = nodes.allocatable[name] - nodes.requested[name] - promised.get(name, 0)
    allowed = {shape: allowed_rows(placer.rules.rows, shape) for shape in dict.fromkeys(pod.shape for pod in pods)}
    if within is not None:
        allowed = {shape: rows & within for shape, rows in allowed.items()}
    return RowCapacity(free, allowed, nodes.draws)
