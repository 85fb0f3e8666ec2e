"""Claims to storage for some worlds: most are bound to a volume that not every node reaches, some are of no use yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from objects import Manifest
from worlds import DISK, GENERATION, ZONE, Dice, World

REGION = "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
BIND_COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}
DRIVER = "storage.example.com"
SIZE = {"storage": "1Gi"}


class Furnished(NamedTuple):
    """What a pod gets in spec.volumes, and the objects behind it."""

    volumes: list[Manifest]
    objects: list[Manifest]
    leaving: tuple[Manifest, ...] = ()


class Storage(Dice):
    """Claims and volumes for the incoming pod of a world, and for some pods that are on its nodes."""

    def __init__(self, world: World) -> None:
        super().__init__(f"storage of {world.name}")
        self._world = world

    def added(self) -> World:
        for node in self._world.nodes:
            if self._chance(15):
                node["metadata"]["labels"][OLD_ZONE] = self._zone()
        used = self._bound("used", self._one("ReadWriteOnce", "ReadWriteMany"))
        for pod in self._world.at_home:
            if self._chance(40):
                pod["spec"]["volumes"] = used.volumes
        own = self._of_no_use() if self._chance(20) else self._of_use(used)
        self._world.incoming["spec"]["volumes"] = own.volumes
        others = [*self._world.others, *used.objects, *own.objects, *self._limits()]
        return self._world._replace(others=others, leaving=[*self._world.leaving, *own.leaving])

    # claims a pod can run with

    def _of_use(self, used: Furnished) -> Furnished:
        """One claim or two; a second may be the one that other pods use, so that it is attached already."""
        first = self._bound("first", self._one("ReadWriteOnce", "ReadWriteOncePod"))
        if self._chance(50):
            return first
        if self._chance(50):
            return first._replace(volumes=[*first.volumes, *used.volumes])
        second = self._bound("second", "ReadWriteOnce")
        return Furnished([*first.volumes, *second.volumes], [*first.objects, *second.objects])

    def _bound(self, name: str, mode: str) -> Furnished:
        volume = self._volume(name, mode)
        claim = self._claim(name, mode, volume["metadata"]["name"])
        claim["metadata"]["annotations"] = BIND_COMPLETED
        claim["status"] = {"phase": "Bound", "accessModes": [mode], "capacity": SIZE}
        return Furnished([_source(name)], [volume, claim])

    def _volume(self, name: str, mode: str) -> Manifest:
        spec: Manifest = {
            "accessModes": [mode],
            "capacity": SIZE,
            "claimRef": {"namespace": self._world.home, "name": name},
            "csi": {"driver": DRIVER, "volumeHandle": f"{self._world.name}-{name}"},
        }
        if self._chance(30):
            terms = [self._node_term() for _ in range(self._one(1, 1, 2))]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        metadata = {"name": f"{self._world.name}-{name}", "labels": self._places() if self._chance(30) else {}}
        made = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
        return {**made, "status": {"phase": "Bound"}}

    def _claim(self, name: str, mode: str = "ReadWriteOnce", volume: str = "", storage_class: str = "") -> Manifest:
        spec = {
            "accessModes": [mode],
            "resources": {"requests": SIZE},
            "storageClassName": storage_class,
            "volumeName": volume,
        }
        metadata = {"name": name, "namespace": self._world.home}
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}

    def _zone(self) -> str:
        return f"{self._world.name}-{self._one('a', 'b', 'c')}"

    def _places(self) -> Manifest:
        several = "__".join({self._zone(): None, self._zone(): None})
        return dict(
            self._one(
                {ZONE: self._zone()},
                {ZONE: several},
                {OLD_ZONE: self._zone()},
                {OLD_ZONE: several, ZONE: several},
                {ZONE: several, REGION: "north"},
                {ZONE: f"{self._zone()}____{self._zone()}"},  # one of three is empty, so all of it says nothing
            )
        )

    def _node_term(self) -> Manifest:
        expressions = (
            {"key": ZONE, "operator": self._one("In", "NotIn"), "values": [self._zone(), self._zone()]},
            {"key": DISK, "operator": self._one("Exists", "DoesNotExist")},
            {"key": GENERATION, "operator": self._one("Gt", "Lt"), "values": ["5"]},
        )
        return {"matchExpressions": self._random.sample(expressions, self._one(1, 1, 2))}

    def _limits(self) -> list[Manifest]:
        """How many volumes nodes can attach, where they tell."""
        return [self._limit(each["metadata"]["name"]) for each in self._world.nodes if self._chance(40)]

    def _limit(self, node: str) -> Manifest:
        room = self._one({}, {"allocatable": {"count": self._one(1, 2, 3)}})
        spec = {"drivers": [{"name": DRIVER, "nodeID": node, **room}]}
        return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": node}, "spec": spec}

    # claims that keep a pod waiting

    def _of_no_use(self) -> Furnished:
        makers: tuple[Callable[[], Furnished], ...] = (
            self._missing,
            self._unbound,
            self._without_volume,
            self._lost,
            self._going,
            self._not_made,
            self._made_for_another,
            self._taken,
        )
        made: Furnished = self._one(*makers)()
        return made

    def _missing(self) -> Furnished:
        return Furnished([_source("missing")], [])

    def _unbound(self) -> Furnished:
        """One whose binding waits for no pod: its class says so, or it has been promised a volume."""
        mode, volume = self._one(("Immediate", ""), ("WaitForFirstConsumer", "promised"))
        name = self._world.name
        storage_class = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": DRIVER,
            "volumeBindingMode": mode,
        }
        claim = self._claim("unbound", volume=volume, storage_class=self._one(name, name, "no-such-class", ""))
        return Furnished([_source("unbound")], [storage_class, claim])

    def _without_volume(self) -> Furnished:
        made = self._bound("unfounded", "ReadWriteOnce")
        return made._replace(objects=made.objects[1:])

    def _lost(self) -> Furnished:
        made = self._bound("lost", "ReadWriteOnce")
        made.objects[1]["status"]["phase"] = "Lost"
        return made

    def _going(self) -> Furnished:
        made = self._bound("going", "ReadWriteOnce")
        return made._replace(leaving=(made.objects[1],))

    def _not_made(self) -> Furnished:
        template = {"spec": self._claim("")["spec"]}
        return Furnished([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}], [])

    def _made_for_another(self) -> Furnished:
        """It has the name of the pod's own, and is not the pod's."""
        return self._not_made()._replace(objects=self._bound("incoming-scratch", "ReadWriteOnce").objects)

    def _taken(self) -> Furnished:
        """For one pod alone; of no use unless none of the pods that use it is left."""
        made = self._bound("single", "ReadWriteOncePod")
        for pod in self._world.at_home[:2]:
            pod["spec"]["volumes"] = made.volumes
        return made


def _source(claim: str) -> Manifest:
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}
