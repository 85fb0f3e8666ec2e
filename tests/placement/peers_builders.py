"""A few nodes with pods on them, and what a further pod gets there: which nodes take it, what they score."""

from __future__ import annotations

import msgspec
import numpy as np
from builders import node, pod, shape

from headgate.engine.scheduler.plugins import plugins_for
from headgate.model.keys import Key, Kind
from headgate.model.node import PeerDemands, PodTerm, Spread
from headgate.model.selectors import Operator, Requirement
from headgate.model.settings import Profile
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import Placement, Placer
from headgate.placement.table import NodeTable

DEFAULTS = Profile()
ZONE, HOST = "zone", "kubernetes.io/hostname"


def zoned(name, zone="", **fields):
    """A node that knows its own name, and its zone if it is in one."""
    labels = {HOST: name, **({ZONE: zone} if zone else {}), **fields.pop("labels", {})}
    return node(name, labels=labels, **fields)


THREE = (zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b"))


def labelled(text):
    """`app=db,tier=x` as labels."""
    return dict(pair.split("=") for pair in text.split(",")) if text else {}


def select(text):
    """`app=db,tier=x` as a selector; no text selects everything."""
    return tuple(Requirement(key, Operator.IN, (value,)) for key, value in sorted(labelled(text).items()))


def term(selector, key=ZONE, namespaces=("default",), among=None):
    return PodTerm(key, selector, namespaces, among)


WEB_PODS = select("app=web")


def spread(max_skew=1, key=ZONE, selector=WEB_PODS, **fields):
    return Spread(max_skew, key, selector, **fields)


def pod_of(labels="", namespace="default", name="incoming", cpu=1, memory=1, **fields):
    """A pod with labels as text; fields of PeerDemands go there, others of PodShape and Pod where they belong."""
    demands = {key: fields.pop(key) for key in PeerDemands.__struct_fields__ if key in fields}
    own = {key: fields.pop(key) for key in ("deleted", "node") if key in fields}
    made = shape(cpu, memory, peers=PeerDemands(**demands) if demands else None, **fields)
    plain = pod(name, shape=made, labels=labelled(labels), **own)
    return msgspec.structs.replace(plain, key=Key(Kind.POD, namespace, name))


class Around:
    """Nodes and the pods on them, given as a node's name and what `pod_of` takes."""

    def __init__(self, nodes=THREE, placed=(), namespaces=None, profile=DEFAULTS):
        self.table = NodeTable()
        self.neighbours = Neighbours(self.table)
        self.names = [each.name for each in nodes]
        self._rules = plugins_for(profile, self.neighbours).rules
        self._placer = Placer(self._rules)
        for each in nodes:
            self.table.put(each)
        self._namespaces = {}
        for namespace, labels in (namespaces or {}).items():
            self.relabel(namespace, labelled(labels))
        for index, (where, one) in enumerate(placed):
            key = Key(Kind.POD, one.key.namespace, f"placed-{index}")
            self.table.charge(msgspec.structs.replace(one, key=key), where)

    def relabel(self, namespace, labels):
        self._namespaces[namespace] = labels
        self.neighbours.relabel(namespace, labels)

    def place(self, incoming):
        return self._placer.place(incoming)

    def afresh(self):
        """A placer for the same cluster, which has kept nothing."""
        neighbours = Neighbours(self.table)
        for namespace, labels in self._namespaces.items():
            neighbours.relabel(namespace, labels)
        return Placer(plugins_for(DEFAULTS, neighbours).rules)

    def takers(self, incoming):
        """The nodes that would take the pod, each asked for by its name."""
        return [name for name in self.names if isinstance(self.place(named(incoming, name)), Placement)]

    def points(self, rule, incoming):
        """What the rule of that name gives each node, before its weight; None when all are alike to it."""
        rows = {self.table.name_at(row): row for row in np.flatnonzero(self.table.alive)}
        fit = np.array([rows[name] for name in self.names])
        for score, _ in self._rules.field_scores:
            if score.name == rule:
                found = score.scores(incoming, fit) if score.compares(incoming) else None
                return None if found is None else dict(zip(self.names, found.tolist(), strict=True))
        score = next(score for score, _ in self._rules.rows.scores if score.name == rule)
        return dict(zip(self.names, score.scores(incoming.shape, self.table, fit, 0).tolist(), strict=True))


def named(incoming, name):
    return msgspec.structs.replace(incoming, shape=msgspec.structs.replace(incoming.shape, node_name=name))
