"""Services and controllers for some worlds: they tell which pods belong together and so are spread by default."""

from __future__ import annotations

from objects import Manifest
from worlds import Dice, World

CONTROLLERS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1"}
ANY_UID = "00000000-0000-4000-8000-000000000000"  # no one compares it where there is no garbage collector


class Owners(Dice):
    """What tells which pods the incoming pod of a world belongs with, and some more pods that do."""

    def __init__(self, world: World) -> None:
        super().__init__(f"owners of {world.name}")
        self._world = world
        self._labels: dict[str, str] = world.incoming["metadata"]["labels"]
        self._app, self._other_app = self._labels["app"], f"{world.name}-others"

    def added(self) -> World:
        if self._chance(90):
            self._world.incoming["spec"].pop("topologySpreadConstraints", None)
        services = [self._service(f"service-{index}") for index in range(self._one(0, 1, 1, 2))]
        owners = [self._controller()] if not services or self._chance(60) else []
        for owner in owners:
            self._world.incoming["metadata"]["ownerReferences"] = [self._reference(owner)]
        return self._world._replace(
            placed=[*self._world.placed, *self._siblings()], others=[*self._world.others, *services, *owners]
        )

    def _siblings(self) -> list[Manifest]:
        """Small ones beside those that are there, so that there is something to be even about."""
        nodes = [each["metadata"]["name"] for each in self._world.nodes]
        return [self._sibling(f"sibling-{index}", self._one(*nodes)) for index in range(self._random.randint(2, 9))]

    def _sibling(self, name: str, node: str) -> Manifest:
        labels = {"app": self._other_app if self._chance(20) else self._app, "tier": self._one("front", "back")}
        small = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}}}
        metadata = {"name": name, "namespace": self._home(), "labels": labels}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"nodeName": node, "containers": [small]},
        }

    def _home(self) -> str:
        """Mostly that of the incoming pod; what is in another namespace has nothing to do with it."""
        return f"{self._world.home}-annex" if self._chance(15) else self._world.home

    def _service(self, name: str) -> Manifest:
        app = {"app": self._app}
        selector = self._one(app, app, {"tier": "front"}, {**app, "tier": "back"}, {"app": self._other_app}, None)
        metadata = {"name": name, "namespace": self._home()}
        # The cluster has not enough addresses to give one to each.
        spec = {"clusterIP": "None", "ports": [{"port": 80}], "selector": selector}
        return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}

    def _controller(self) -> Manifest:
        kind = self._one(*CONTROLLERS)
        labels = {"app": self._one(self._app, self._app, self._other_app), "tier": "front"}
        containers = [{"name": "main", "image": "none"}]
        spec: Manifest = {
            "selector": self._selector(labels) if kind != "ReplicationController" else {"app": labels["app"]},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        }
        if kind == "StatefulSet":
            spec["serviceName"] = "service-0"
        metadata = {"name": "owner", "namespace": self._home()}
        return {"apiVersion": CONTROLLERS[kind], "kind": kind, "metadata": metadata, "spec": spec}

    def _selector(self, labels: dict[str, str]) -> Manifest:
        """One that selects these labels, as is demanded of what is in a controller's own template."""
        by_app = {"matchLabels": {"app": labels["app"]}}
        expressions = (
            {"key": "tier", "operator": "Exists"},
            {"key": "tier", "operator": "NotIn", "values": ["back"]},
            {"key": "app", "operator": "In", "values": [labels["app"], "more"]},
        )
        return by_app if self._chance(50) else {**by_app, "matchExpressions": self._some(*expressions)}

    def _reference(self, owner: Manifest) -> Manifest:
        """Mostly a true one."""
        made = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": "owner", "uid": ANY_UID}
        strange = self._one({"name": "gone"}, {"controller": False}, {"apiVersion": "example.com/v1"})
        return {**made, "controller": True, **(strange if self._chance(15) else {})}
