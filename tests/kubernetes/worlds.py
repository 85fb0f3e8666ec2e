"""Random little clusters, all on one API server: each is two namespaces and a few nodes that only its pods can use.

Names of zones and values of the label `app` are a world's own, so that no world's pods speak of another's, whatever
their namespace selectors allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from objects import Manifest, node

from headgate.model.settings import DEFAULT_PLUGINS

FAMILY = "family"  # the label and the taint that keep worlds apart
HOSTNAME, ZONE, DISK, GENERATION = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "disk", "generation"
DEVICE = "example.com/device"
GIB = 1 << 30
IMAGES = {f"images.example/{name}:1": size * GIB // 8 for name, size in (("small", 1), ("middling", 4), ("large", 9))}
SCORES_IMAGES = "ImageLocality" in DEFAULT_PLUGINS
UNTAGGED = "images.example/unknown"


class World(NamedTuple):
    """What to create: `placed` pods name their nodes; of them `ended` have finished.

    `others` are objects that pods name or belong to; `leaving`, pods or others, are being deleted.
    """

    name: str
    namespaces: list[Manifest]
    nodes: list[Manifest]
    placed: list[Manifest]
    ended: list[Manifest]
    leaving: list[Manifest]
    incoming: Manifest
    others: list[Manifest]

    @property
    def home(self) -> str:
        """The namespace of the incoming pod."""
        return self.namespaces[0]["metadata"]["name"]

    @property
    def at_home(self) -> list[Manifest]:
        """Pods on nodes that are of that namespace."""
        return [each for each in self.placed if each["metadata"]["namespace"] == self.home]


class Dice:
    """Chances and choices; the same seed makes the same ones."""

    def __init__(self, seed: int | str) -> None:
        self._random = Random(seed)

    def _chance(self, percent: int) -> bool:
        return self._random.random() * 100 < percent

    def _one(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def _some(self, *choices: Any) -> list[Any]:
        """One or more of them, each once."""
        return self._random.sample(choices, self._random.randint(1, len(choices)))


class Maker(Dice):
    """Makes the parts of one world."""

    def __init__(self, seed: int, schedulers: Sequence[str]) -> None:
        super().__init__(seed)
        self.name = f"world-{seed:03d}"
        self._schedulers = schedulers
        self._homes = (self.name, f"{self.name}-annex")

    def world(self) -> World:
        nodes = [self._node(f"{self.name}-{index}") for index in range(self._random.randint(2, 6))]
        names = [each["metadata"]["name"] for each in nodes]
        placed = [self._placed(f"placed-{index}", names) for index in range(self._random.randint(0, 12))]
        return World(
            name=self.name,
            namespaces=[self._namespace(home) for home in self._homes],
            nodes=nodes,
            placed=placed,
            ended=[each for each in placed if self._chance(5)],
            leaving=[each for each in placed if self._chance(12)],
            incoming=self._incoming(),
            others=[],
        )

    # namespaces and nodes

    def _namespace(self, home: str) -> Manifest:
        return {"metadata": {"name": home, "labels": {FAMILY: self.name, "team": self._one("red", "blue")}}}

    def _node(self, name: str) -> Manifest:
        made = node(name, unschedulable=self._chance(8), taints=self._taints())
        amounts = {
            "cpu": f"{self._random.randint(5, 40) * 100}m",
            "memory": f"{self._random.randint(512, 8192)}Mi",
            "pods": str(self._one(2, 5, 110, 110, 110)),
        }
        if self._chance(30):
            amounts[DEVICE] = str(self._random.randint(0, 3))
        made["metadata"]["labels"] |= {FAMILY: self.name, **self._node_labels()}
        made["status"] |= {"capacity": amounts, "allocatable": amounts}
        if SCORES_IMAGES:
            known = {image: size for image, size in IMAGES.items() if self._chance(50)}
            made["status"]["images"] = [{"names": [image], "sizeBytes": size} for image, size in known.items()]
        return made

    def _node_labels(self) -> dict[str, str]:
        labels = {}
        if self._chance(92):
            labels[ZONE] = f"{self.name}-{self._one('a', 'b', 'c')}"
        if self._chance(80):
            labels[DISK] = f"{self.name}-{self._one('fast', 'slow')}"
        if self._chance(80):
            labels[GENERATION] = self._one("1", "2", "9", "10", "new")
        return labels

    def _taints(self) -> list[Manifest]:
        taints = [{"key": FAMILY, "value": self.name, "effect": "NoSchedule"}]
        for key, effect, percent in (
            ("dedicated", "NoSchedule", 10),
            ("broken", "NoExecute", 5),
            ("dear", "PreferNoSchedule", 25),
            ("slow", "PreferNoSchedule", 25),
        ):
            if self._chance(percent):
                taints.append({"key": key, "value": self._one("", "yes", "no"), "effect": effect})
        return taints

    # pods

    def _placed(self, name: str, nodes: list[str]) -> Manifest:
        made = self._pod(name, self._one(self.name, self.name, self._homes[1]), demanding=35)
        made["spec"]["nodeName"] = self._one(*nodes)
        return made

    def _incoming(self) -> Manifest:
        made = self._pod("incoming", self.name, demanding=60)
        made["metadata"]["labels"]["role"] = "incoming"
        made["spec"]["schedulerName"] = self._one(*self._schedulers)
        made["spec"] |= {"nodeSelector": {FAMILY: self.name}, "tolerations": self._tolerations()}
        node_affinity = self._node_affinity()
        if node_affinity:
            made["spec"].setdefault("affinity", {})["nodeAffinity"] = node_affinity
        if self._chance(60):
            made["spec"]["topologySpreadConstraints"] = self._spread_constraints()
        return made

    def _pod(self, name: str, namespace: str, demanding: int) -> Manifest:
        """A pod that with `demanding` percent wants something of other pods."""
        labels = {"app": self._app(), "tier": self._one("front", "back")}
        if self._chance(20):
            del labels["tier"]
        spec: Manifest = {"containers": [self._container("main", with_ports=True)]}
        if self._chance(25):
            spec["containers"].append(self._container("second"))
        if self._chance(20):
            restart = {"restartPolicy": "Always"} if self._chance(50) else {}
            spec["initContainers"] = [{**self._container("before"), **restart}]
        if self._chance(demanding):
            spec["affinity"] = self._pod_affinities()
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _app(self) -> str:
        return f"{self.name}-{self._one('a', 'b', 'c')}"

    def _container(self, name: str, with_ports: bool = False) -> Manifest:
        requests: dict[str, str] = {}
        if self._chance(75):
            requests["cpu"] = f"{self._random.randint(0, 12) * 50}m"
        if self._chance(75):
            requests["memory"] = f"{self._random.randint(0, 900)}Mi"
        devices = {DEVICE: "1"} if self._chance(5) else {}
        made: Manifest = {
            "name": name,
            "image": self._one(UNTAGGED, *IMAGES),
            "resources": {"requests": requests | devices, "limits": devices},
        }
        if with_ports and self._chance(25):
            made["ports"] = [self._port()]
        return made

    def _port(self) -> Manifest:
        address = self._one({}, {"hostIP": "127.0.0.1"}, {"hostIP": "127.0.0.2"})
        return {
            "containerPort": 80,
            "hostPort": self._one(80, 81),
            "protocol": self._one("TCP", "TCP", "UDP"),
            **address,
        }

    def _tolerations(self) -> list[Manifest]:
        optional: list[Manifest] = [
            {"key": "dedicated", "operator": "Exists"},
            {"key": "dedicated", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
            {"key": "broken", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 60},
            {"key": "dear", "operator": "Exists", "effect": "PreferNoSchedule"},
            {"key": "slow", "value": "yes"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
        ]
        own = {"key": FAMILY, "value": self.name, "effect": "NoSchedule"}
        return [own, *(each for each in optional if self._chance(25))]

    # what pods demand of nodes

    def _node_affinity(self) -> Manifest:
        made: Manifest = {}
        if self._chance(25):
            terms = [self._node_term() for _ in range(self._random.randint(1, 2))]
            made["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if self._chance(40):
            made["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": self._random.randint(1, 100), "preference": self._node_term()}
                for _ in range(self._random.randint(1, 3))
            ]
        return made

    def _node_term(self) -> Manifest:
        if self._chance(15):
            field = {"key": "metadata.name", "operator": self._one("In", "NotIn"), "values": [f"{self.name}-1"]}
            return {"matchFields": [field]}
        expressions = (
            {"key": DISK, "operator": self._one("In", "NotIn"), "values": [f"{self.name}-fast"]},
            {"key": GENERATION, "operator": self._one("Gt", "Lt"), "values": ["2"]},
            {"key": ZONE, "operator": "NotIn", "values": [f"{self.name}-a"]},
            {"key": DISK, "operator": self._one("Exists", "DoesNotExist")},
        )
        return {"matchExpressions": self._random.sample(expressions, self._one(1, 1, 2))}

    # what pods demand of other pods

    def _pod_affinities(self) -> Manifest:
        made: Manifest = {}
        for which in self._some("podAffinity", "podAntiAffinity"):
            made[which] = {}
            if self._chance(45):
                made[which]["requiredDuringSchedulingIgnoredDuringExecution"] = [
                    self._peer_term() for _ in range(self._one(1, 1, 2))
                ]
            if self._chance(60):
                made[which]["preferredDuringSchedulingIgnoredDuringExecution"] = [
                    {"weight": self._random.randint(1, 100), "podAffinityTerm": self._peer_term()}
                    for _ in range(self._random.randint(1, 2))
                ]
        return made

    def _peer_term(self) -> Manifest:
        made: Manifest = {"topologyKey": self._one(HOSTNAME, ZONE, ZONE, DISK)}
        selector = self._selector()
        if selector is not None:
            made["labelSelector"] = selector
        by_app = bool(selector and "matchLabels" in selector)
        if by_app and self._chance(10):
            made[self._one("matchLabelKeys", "mismatchLabelKeys")] = ["tier"]
        made |= self._namespaces(anywhere=by_app)
        return made

    def _namespaces(self, anywhere: bool) -> Manifest:
        """Whose pods a term speaks of; of all in the cluster only where its selector keeps to this world."""
        family = {FAMILY: self.name}
        choices: list[Manifest] = [
            {},
            {},
            {"namespaces": list(self._homes)},
            {"namespaces": [self._homes[1]]},
            {"namespaceSelector": {"matchLabels": family}},
            {"namespaceSelector": {"matchLabels": {**family, "team": "red"}}},
            {"namespaces": [self.name], "namespaceSelector": {"matchLabels": {**family, "team": "blue"}}},
        ]
        return dict(self._one(*choices, *([{"namespaceSelector": {}}] if anywhere else [])))

    def _selector(self) -> Manifest | None:
        choices: list[Manifest | None] = [
            {"matchLabels": {"app": self._app()}},
            {"matchLabels": {"app": self._app()}},
            {"matchExpressions": [{"key": "tier", "operator": self._one("Exists", "DoesNotExist")}]},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [self._app()]}]},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": [self._app(), self._app()]}]},
        ]
        if self._chance(10):
            return dict(self._one({}, {"matchLabels": {"app": "nobody"}}))
        return None if self._chance(3) else self._one(*choices)

    def _spread_constraints(self) -> list[Manifest]:
        pairs = [(key, action) for key in (HOSTNAME, ZONE, DISK) for action in ("DoNotSchedule", "ScheduleAnyway")]
        return [self._spread(*pair) for pair in self._random.sample(pairs, self._random.randint(1, 3))]

    def _spread(self, key: str, action: str) -> Manifest:
        made: Manifest = {"topologyKey": key, "whenUnsatisfiable": action, "maxSkew": self._random.randint(1, 3)}
        selector = self._selector()
        if selector is not None:
            made["labelSelector"] = selector
        if selector and "matchLabels" in selector and self._chance(25):
            made["matchLabelKeys"] = ["tier"]
        if action == "DoNotSchedule" and self._chance(30):
            made["minDomains"] = self._random.randint(1, 4)
        if self._chance(30):
            made["nodeAffinityPolicy"] = self._one("Honor", "Ignore")
        if self._chance(30):
            made["nodeTaintsPolicy"] = self._one("Honor", "Ignore")
        return made
