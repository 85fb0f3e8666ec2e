"""Random little clusters that are nearly full: one pod comes, and may have to preempt others.

Some of those that run save their work or belong to a gang, of which kube-scheduler knows nothing: to a pod outside
groups they are pods like any other. Pods of gangs have a priority of their own, because of equals kube-scheduler with
its own groups keeps their pods before others, and the one asked here knows none.

The same seed makes the same world under any name, so that two schedulers can be asked the same question side by side.
"""

from __future__ import annotations

from typing import Any

from objects import Manifest, node
from worlds import DEVICE, FAMILY, HOSTNAME, ZONE, Dice, World

POLITE = "polite"  # the class of pods that never make others leave
TOGETHER = "together"  # the class of pods in gangs
PRIORITIES = {"lowest": -100, "low": 0, TOGETHER: 5, "middling": 10, "high": 100, "highest": 1000, POLITE: 500}
LINK = "scheduling.headgate.dev"
GANG = "train"
LONG_AGO = "2024-05-01T0{}:00:00Z"


def priority_classes() -> list[Manifest]:
    def priority_class(name: str, value: int) -> Manifest:
        made: Manifest = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        policy = {"preemptionPolicy": "Never"} if name == POLITE else {}
        return made | {"metadata": {"name": name}, "value": value} | policy

    return [priority_class(name, value) for name, value in PRIORITIES.items()]


class FullWorlds(Dice):
    """Makes the parts of one world; `scheduler` is to find a node for the incoming pod."""

    def __init__(self, seed: int, name: str, scheduler: str) -> None:
        super().__init__(f"preemption {seed}")
        self.name, self._scheduler = name, scheduler
        self._apps = self._one("a", "ab", "aab", "abc")
        self._unwelcoming = self._one(0, 0, 0, 30)  # percent of those who run want nobody else
        self._ganged = self._one(0, 0, 25, 50)  # percent of those who run belong to the gang
        self._saving = self._one(0, 30, 60)  # percent of those who run save their work

    def world(self) -> World:
        nodes = [self._node(f"{self.name}-{index}") for index in range(self._one(1, 2, 2, 3, 3, 4))]
        placed = [each for index, one in enumerate(nodes) for each in self._pods_on(one, index)]
        budgets = [self._budget(f"budget-{index}", placed) for index in range(self._one(0, 1, 2, 2))]
        return World(
            name=self.name,
            namespaces=[{"metadata": {"name": self.name}}],
            nodes=nodes,
            placed=placed,
            ended=[],
            leaving=[],
            incoming=self._incoming(),
            others=[*budgets, self._gang(placed)],
        )

    def _gang(self, placed: list[Manifest]) -> Manifest:
        """Its pods are preempted one by one, which is the default, whether or not that breaks it."""
        members = sum(f"{LINK}/workload" in each["metadata"].get("labels", {}) for each in placed)
        group = {"name": "workers", "policy": {"gang": {"minCount": max(1, members - self._one(0, 1))}}}
        return {
            "apiVersion": f"{LINK}/v1alpha1",
            "kind": "Workload",
            "metadata": {"name": GANG, "namespace": self.name},
            "spec": {"podGroups": [group], "priorityClassName": TOGETHER},
        }

    def _node(self, name: str) -> Manifest:
        taints = [{"key": "broken", "value": "", "effect": "NoSchedule"}] if self._chance(6) else []
        made = node(name, unschedulable=self._chance(4), taints=taints)
        amounts = {
            "cpu": f"{self._one(1000, 2000, 2000, 3000)}m",
            "memory": f"{self._one(1024, 2048, 2048)}Mi",
            "pods": str(self._one(2, 3, 4, 110, 110, 110)),
            DEVICE: str(self._one(0, 2, 4)),
        }
        made["metadata"]["labels"] |= {FAMILY: self.name, ZONE: f"{self.name}-{self._one('a', 'b')}"}
        made["status"] |= {"capacity": amounts, "allocatable": amounts}
        return made

    # pods that run

    def _pods_on(self, machine: Manifest, index: int) -> list[Manifest]:
        """Pods until the node is full or enough; no two began at one time, so that it is clear who matters more."""
        began: list[int | None] = [*range(8), None]
        self._random.shuffle(began)
        room = {name: _amount(value) for name, value in machine["status"]["allocatable"].items()}
        made: list[Manifest] = []
        for number in range(self._random.randint(2, 7)):
            each = self._running(f"on-{index}-{number}", machine["metadata"]["name"], began[number])
            asked = {"pods": 1, **_asked(each)}
            if all(amount <= room[name] for name, amount in asked.items()) or self._chance(4):
                room = {name: left - asked.get(name, 0) for name, left in room.items()}
                made.append(each)
        return made

    def _running(self, name: str, machine: str, began: int | None) -> Manifest:
        made = self._pod(name, self._one("lowest", "low", "low", "middling", "middling", "high"), small=True)
        made["spec"]["nodeName"] = machine
        if self._chance(self._ganged):
            made["spec"]["priorityClassName"] = TOGETHER
            made["metadata"].setdefault("labels", {}).update({f"{LINK}/workload": GANG, f"{LINK}/pod-group": "workers"})
        if self._chance(self._saving):
            kept = self._one({"checkpoint-every": self._one("1s", "10m")}, {"checkpointed-at": LONG_AGO.format(9)})
            made["metadata"]["annotations"] = {f"headgate.dev/{name}": value for name, value in kept.items()}
        if began is not None:
            made["status"] = {"phase": "Running", "startTime": LONG_AGO.format(began)}
        if self._chance(self._unwelcoming):
            made["spec"]["affinity"] = {"podAntiAffinity": self._required({"role": "incoming"})}
        return made

    # the one that comes

    def _incoming(self) -> Manifest:
        made = self._pod("incoming", self._one("low", "middling", "high", "high", *3 * ["highest"], POLITE))
        made["metadata"].setdefault("labels", {})["role"] = "incoming"
        made["spec"] |= {"schedulerName": self._scheduler, "nodeSelector": {FAMILY: self.name}, **self._wishes()}
        return made

    def _wishes(self) -> Manifest:
        app = {"app": self._one("a", "b")}
        if self._chance(22):
            return {"affinity": {"podAntiAffinity": self._required(app)}}
        if self._chance(8):
            return {"affinity": {"podAffinity": self._required(app)}}
        if self._chance(10):
            spread = {"topologyKey": self._one(HOSTNAME, ZONE), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
            return {"topologySpreadConstraints": [{**spread, "labelSelector": {"matchLabels": app}}]}
        return {}

    def _required(self, labels: dict[str, str]) -> Manifest:
        term = {"topologyKey": self._one(HOSTNAME, HOSTNAME, ZONE), "labelSelector": {"matchLabels": labels}}
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}

    def _pod(self, name: str, priority: str, small: bool = False) -> Manifest:
        labels = {} if self._chance(8) else {"app": self._one(*self._apps)}
        metadata = {"name": name, "namespace": self.name, **({"labels": labels} if labels else {})}
        spec = {"priorityClassName": priority, "containers": [self._container(small)]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _container(self, small: bool) -> Manifest:
        cpu, memory = self._random.randint(1, 9 if small else 14), self._random.randint(1, 7 if small else 12)
        devices = {DEVICE: str(self._one(1, 2))} if self._chance(25) else {}
        made: Manifest = {
            "name": "main",
            "image": "images.example/none",
            "resources": {"requests": {"cpu": f"{cpu * 100}m", "memory": f"{memory * 100}Mi", **devices}},
        }
        made["resources"]["limits"] = devices
        if self._chance(15):
            made["ports"] = [{"containerPort": 80, "hostPort": self._one(80, 81), "protocol": "TCP"}]
        return made

    # budgets

    def _budget(self, name: str, placed: list[Manifest]) -> Manifest:
        """Its status is what a disruption controller might have written; `disruptedPods` are evictions under way."""
        chosen = self._one(*[{"matchLabels": {"app": app}} for app in "aaaabb"], {})
        counts = {"disruptionsAllowed": self._one(0, 0, 1, 1, 1, 2), "observedGeneration": 1}
        status: dict[str, Any] = {"currentHealthy": 3, "desiredHealthy": 1, "expectedPods": 3, **counts}
        if placed and self._chance(15):
            status["disruptedPods"] = {self._one(*placed)["metadata"]["name"]: LONG_AGO.format(0)}
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": self.name},
            "spec": {"maxUnavailable": 1, "selector": chosen},
            "status": status,
        }


def _asked(pod: Manifest) -> dict[str, int]:
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    return {name: _amount(value) for name, value in requests.items()}


def _amount(text: str) -> int:
    """Of the few ways amounts are written here: cpu always in m, memory always in Mi, all else as numbers."""
    return int(text.removesuffix("Mi")) if text.endswith("Mi") else int(text.removesuffix("m"))
