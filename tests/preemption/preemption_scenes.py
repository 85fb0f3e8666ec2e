"""A small cluster with pods on it, and what a further pod or group would do to them."""

from __future__ import annotations

from builders import bound, pod

from headgate.engine.scheduler.plugins import plugins_for
from headgate.model.keys import Key, Kind
from headgate.model.node import PeerDemands, PodTerm
from headgate.model.objects import DisruptionBudget
from headgate.model.pod import GroupKey
from headgate.model.selectors import Operator, Requirement
from headgate.model.settings import Profile
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import Placer
from headgate.placement.table import NodeTable
from headgate.placement.volumes import Attachments
from headgate.preemption.budgets import Budgets
from headgate.preemption.candidates import Candidates
from headgate.preemption.search import NoPlan, Plan, Preemption, Preemptor, Search
from headgate.preemption.units import Running, Standing

NOW = 10_000.0


def group_key(name):
    return GroupKey(Key(Kind.WORKLOAD, "default", name))


def on(where, name, cpu=100, priority=0, gang=None, start=0.0, **fields):
    """A pod that runs on that node; `gang` names the gang it is in."""
    return bound(pod(name, cpu=cpu, priority=priority, group=gang and group_key(gang), started=start, **fields), where)


def budget(name, selector, allowed, disrupted=(), namespace="default"):
    """`app=db` as a selector; no text selects nothing."""
    wanted = _selector(selector) if selector else ()
    key = Key(Kind.DISRUPTION_BUDGET, namespace, name)
    return DisruptionBudget(key, f"uid-{name}", "1", wanted, allowed, frozenset(disrupted))


class Scene:
    """`gangs` says of each gang how many of its pods it needs and whether it leaves whole."""

    def __init__(self, nodes, placed=(), gangs=None, budgets=(), certifier=None, seed=0, standings=None):
        self.table = NodeTable(seed)
        self.neighbours = Neighbours(self.table)
        self.attachments = Attachments(self.table)
        self.placer = Placer(plugins_for(Profile(), self.neighbours, self.attachments).rules)
        self._gangs = {group_key(name): terms for name, terms in (gangs or {}).items()}
        self._standings = standings or {}
        self.running = Running(self.table, self.standing)
        self.budgets = Budgets()
        for each in nodes:
            self.table.put(each)
        for each in placed:
            self.table.charge(each, each.node)
        for each in budgets:
            self.budgets.put(each)
        self.preemption = Preemption(self.table, self.running, self.budgets, certifier)

    def standing(self, one):
        if one.key.name in self._standings:
            return self._standings[one.key.name]
        min_count, whole = self._gangs.get(one.group, (0, False))
        return Standing(one.priority, one.group, min_count, whole)

    def step_by_step(self, preemptor, now=NOW):
        """The same plan with all rules on the table itself, however plain the pods are."""
        among = Candidates(self.running, preemptor.priority, now, preemptor.key)
        return Search(self.placer, preemptor, among, self.budgets, plain=False).step_by_step()

    def plan(self, preemptor, now=NOW):
        return self.preemption.plan(preemptor, self.placer, now)


def lone(name="incoming", cpu=100, priority=10, **fields):
    one = pod(name, cpu=cpu, priority=priority, **fields)
    return Preemptor(one.key, (one,), 1, priority)


def group(count, name="incoming", cpu=100, priority=10, needed=None, topology="", **fields):
    pods = tuple(pod(f"{name}-{i}", cpu=cpu, priority=priority, group=group_key(name), **fields) for i in range(count))
    return Preemptor(group_key(name), pods, count if needed is None else needed, priority, topology)


def victims(plan):
    """The names of all pods that leave, in order; the reason where there is no plan."""
    if isinstance(plan, NoPlan):
        return plan.reason
    return sorted(one.key.name for unit in plan.victims for one in unit.pods)


def placements(plan):
    assert isinstance(plan, Plan), plan
    return {one.key.name: where for one, where in plan.placements}


def apart(selector):
    """Not on the same node as pods with these labels."""
    return PeerDemands(anti_affinity=(PodTerm("kubernetes.io/hostname", _selector(selector), ("default",)),))


def _selector(text):
    return tuple(
        Requirement(key, Operator.IN, (value,)) for key, value in (pair.split("=") for pair in text.split(","))
    )
