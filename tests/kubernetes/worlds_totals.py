"""Pods of some worlds ask for amounts as a whole, or take more than their containers do."""

from __future__ import annotations

from objects import Manifest
from worlds import Dice, World


class Totals(Dice):
    """Requests of whole pods, and overhead."""

    def __init__(self, world: World) -> None:
        super().__init__(f"totals of {world.name}")
        self._world = world

    def added(self) -> World:
        for pod in (self._world.incoming, *self._world.placed):
            if self._chance(60):
                self._ask_as_a_whole(pod["spec"])
            if self._chance(40):
                pod["spec"]["runtimeClassName"] = self._world.name
        return self._world._replace(others=[*self._world.others, self._runtime_class()])

    def _ask_as_a_whole(self, spec: Manifest) -> None:
        """The containers' own requests of the same must not be more, so there are none."""
        amounts = {"cpu": f"{self._random.randint(1, 12) * 50}m", "memory": f"{self._random.randint(1, 900)}Mi"}
        chosen = self._some(*amounts)
        spec["resources"] = {"requests": {name: amounts[name] for name in chosen}}
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            for name in chosen:
                container["resources"]["requests"].pop(name, None)

    def _runtime_class(self) -> Manifest:
        overhead = {"cpu": f"{self._random.randint(1, 8) * 25}m", "memory": f"{self._random.randint(1, 300)}Mi"}
        return {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": self._world.name},
            "handler": "sandbox",
            "overhead": {"podFixed": {name: overhead[name] for name in self._some(*overhead)}},
        }
