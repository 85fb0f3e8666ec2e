"""The candidates kube-scheduler weighs when a pod is to make others leave, and which of them it may choose.

It logs who would have to leave where. What it compares is computed here, from the world: so ties are known, and that
its choice is among the best is a check on this.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from objects import Manifest
from worlds import World
from worlds_preemption import PRIORITIES

from headgate.api.wire import parse_time

LOGGED = "default_preemption=5"
"""What kube-scheduler must log more of."""
_VICTIM = re.compile(r'potential preemption victim on node" pod="([^/"]+)/([^"]+)" node="([^"]+)"')
_NOT_YET = float("inf")  # a pod that has not begun begins later than any that has

Candidates = dict[str, frozenset[str]]
"""Names of those who would have to leave, by the number of the node."""


def node_number(node: str) -> str:
    """Nodes of the two schedulers' worlds differ in name; the number is the same."""
    return node.rpartition("-")[2]


def logged_candidates(log: str) -> dict[str, Candidates]:
    """By namespace of the pod that is to be placed, which is that of its victims."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for namespace, victim, node in _VICTIM.findall(log):
        found[namespace][node_number(node)].add(victim)
    return {home: {node: frozenset(names) for node, names in nodes.items()} for home, nodes in found.items()}


class Cost(NamedTuple):
    """What a candidate costs, in the order in which kube-scheduler compares; less is better."""

    violations: int
    highest: int  # priority of a victim
    total: int  # of all priorities, made positive so that each victim costs something
    victims: int
    began: float  # the most important one, negative: the later the better


class Judge:
    """Weighs the candidates of one world."""

    def __init__(self, world: World, candidates: Candidates) -> None:
        self._world, self.candidates = world, candidates
        self._budgets = [each for each in world.others if each["kind"] == "PodDisruptionBudget"]
        self._pods = {each["metadata"]["name"]: each for each in world.placed}

    def best(self) -> list[str]:
        """The nodes among which kube-scheduler chooses at random."""
        costs = {node: self.cost(node) for node in self.candidates}
        return [node for node, cost in costs.items() if cost == min(costs.values())]

    def cost(self, node: str) -> Cost:
        """All who might have to leave use up budgets, also those who may stay in the end."""
        there = [each for each in self._world.placed if node_number(each["spec"]["nodeName"]) == node]
        lower = [each for each in there if _priority(each) < _priority(self._world.incoming)]
        victims = sorted((self._pods[name] for name in self.candidates[node]), key=_importance)
        violations = len(self._violating(lower) & self.candidates[node])
        total = sum(_priority(each) + 2**31 for each in victims)
        return Cost(violations, _priority(victims[0]), total, len(victims), -_began(victims[0]))

    def _violating(self, pods: Iterable[Manifest]) -> set[str]:
        allowed = [budget["status"]["disruptionsAllowed"] for budget in self._budgets]
        found = set()
        for each in sorted(pods, key=_importance):
            for index, budget in enumerate(self._budgets):
                allowed[index] -= _covers(budget, each)
                if _covers(budget, each) and allowed[index] < 0:
                    found.add(each["metadata"]["name"])
        return found


def _covers(budget: Manifest, pod: Manifest) -> bool:
    """An empty selector selects nothing here, and who is being evicted already costs nothing more."""
    labels = budget["spec"]["selector"].get("matchLabels", {})
    evicted = pod["metadata"]["name"] in budget["status"].get("disruptedPods", {})
    return bool(labels) and not evicted and labels.items() <= pod["metadata"].get("labels", {}).items()


def _priority(pod: Manifest) -> int:
    return PRIORITIES[pod["spec"]["priorityClassName"]]


def _began(pod: Manifest) -> float:
    started = pod.get("status", {}).get("startTime")
    return _NOT_YET if started is None else parse_time(started)


def _importance(pod: Manifest) -> tuple[int, float]:
    """The most important first: of equal priority whoever has run longer."""
    return -_priority(pod), _began(pod)
