"""A cluster that is asked to take whole groups, and what became of them by the pods' names."""

from __future__ import annotations

from builders import pod
from peers_builders import pod_of

from headgate.engine.scheduler.plugins import plugins_for
from headgate.model.settings import Profile
from headgate.placement.groups import GroupPlacement, place_group
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import Placer
from headgate.placement.table import NodeTable

DEFAULTS = Profile()


class Cluster:
    """Nodes, the pods on them as (node, pod), and the pods that wait for a node nominated to them."""

    def __init__(self, nodes, running=(), promised=(), seed=0, profile=DEFAULTS):
        self.table = NodeTable(seed)
        self.neighbours = Neighbours(self.table)
        self.placer = Placer(plugins_for(profile, self.neighbours).rules)
        for each in nodes:
            self.table.put(each)
        for where, one in running:
            self.table.charge(one, where)
        for one in promised:
            self.neighbours.nominations.put(one)

    def place(self, pods, needed=None, topology=""):
        return place_group(self.placer, self.table, pods, len(pods) if needed is None else needed, topology)

    def placements(self, pods, needed=None, topology=""):
        """Who sits where; None for a group that cannot start."""
        found = self.place(pods, needed, topology)
        if not isinstance(found, GroupPlacement):
            return None
        return {placed.key.name: placement.node for placed, placement in found.placements}

    def look(self):
        """All that the table holds."""
        columns = (self.table.requested, self.table.scored, self.table.ports)
        amounts = [{name: each[name].tolist() for name in each.names() if each[name].any()} for each in columns]
        return amounts, [(row, one.key) for row, one in self.table.placed()]


def members(count, cpu=100, name="m", **fields):
    """Equal pods m0, m1, ..."""
    return [pod(f"{name}{index}", cpu=cpu, **fields) for index in range(count)]


def peers(count, labels="app=web", name="m", cpu=100, **fields):
    """Equal pods with rules about others."""
    return [pod_of(labels, name=f"{name}{index}", cpu=cpu, **fields) for index in range(count)]
