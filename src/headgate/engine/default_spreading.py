"""How pods that say nothing about it are spread: evenly with the pods of their services and their controller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

import msgspec

from headgate.model.affinity import PeerDemands, Spread
from headgate.model.keys import Key, Kind
from headgate.model.objects import OwnerObject
from headgate.model.owners import ReplicaOwner, Service
from headgate.model.pod import Pod, PodShape
from headgate.model.selectors import Operator, Requirement

OWNER_KINDS = (Kind.SERVICE, Kind.REPLICATION_CONTROLLER, Kind.REPLICA_SET, Kind.STATEFUL_SET)
SKEWS = (("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5))
"""Over which labels, and from which difference on it weighs: kube-scheduler's system defaults."""

KEPT_SHAPES = 4096

Selector = tuple[Requirement, ...]
Company = tuple[str, Key | None, tuple[tuple[str, str], ...]]
"""Namespace, controller and labels: all that decides which pods a pod belongs with."""


class DefaultSpreading:
    """Soft constraints for pods that have none, where someone tells which pods belong together."""

    def __init__(self) -> None:
        self._services: dict[str, dict[Key, Service]] = {}  # by namespace, those that select anything
        self._owners: dict[Key, ReplicaOwner] = {}
        self._shapes: dict[tuple[PodShape, Company], PodShape | None] = {}  # None: as it is

    def observe(self, found: OwnerObject) -> None:
        match found:
            case Service():
                self._put_service(found)
            case ReplicaOwner():
                known = self._owners.get(found.key)
                self._owners[found.key] = found
                if known is None or known.selector != found.selector:
                    self._shapes.clear()
            case _:
                assert_never(found)

    def lose(self, key: Key, uid: str) -> None:
        if key.kind is Kind.SERVICE:
            known = self._services.get(key.namespace, {}).get(key)
            if known is not None and known.uid == uid:
                self._drop_service(key)
        elif (owner := self._owners.get(key)) is not None and owner.uid == uid:
            del self._owners[key]
            self._shapes.clear()

    def concerns(self, pod: Pod) -> bool:
        """Whether anyone may tell which pods this one belongs with, and the pod itself says nothing."""
        if pod.key.namespace not in self._services and (pod.owner is None or pod.owner.key not in self._owners):
            return False
        peers = pod.shape.peers
        return peers is None or not (peers.hard_spread or peers.soft_spread)

    def spread(self, pod: Pod, shape: PodShape) -> PodShape:
        """The shape with the constraints; the very same where nothing tells which pods belong together."""
        owner = pod.owner.key if pod.owner is not None else None
        company = (pod.key.namespace, owner, tuple(sorted(pod.labels.items())))
        if (shape, company) not in self._shapes:
            self._shapes[shape, company] = _constrained(shape, self._selector(pod))
            if len(self._shapes) > KEPT_SHAPES:
                del self._shapes[next(iter(self._shapes))]
        return self._shapes[shape, company] or shape

    def _selector(self, pod: Pod) -> Selector:
        """All requirements of the services that select the pod and of its controller, each once."""
        found = dict.fromkeys(self._requirements(pod))
        return tuple(sorted(found, key=lambda each: (each.key, each.operator, each.values)))

    def _requirements(self, pod: Pod) -> Iterator[Requirement]:
        owner = self._owners.get(pod.owner.key) if pod.owner is not None else None
        overruled = _overruled(owner)
        for service in self._services.get(pod.key.namespace, {}).values():
            if service.selector.items() <= pod.labels.items():
                labels = [(key, value) for key, value in service.selector.items() if key not in overruled]
                yield from (Requirement(key, Operator.IN, (value,)) for key, value in labels)
        yield from (owner.selector or ()) if owner is not None else ()

    def _put_service(self, service: Service) -> None:
        known = self._services.get(service.key.namespace, {}).get(service.key)
        if known is not None and known.selector == service.selector:
            self._services[service.key.namespace][service.key] = service
        elif service.selector:
            self._services.setdefault(service.key.namespace, {})[service.key] = service
            self._shapes.clear()
        elif known is not None:
            self._drop_service(service.key)

    def _drop_service(self, key: Key) -> None:
        services = self._services[key.namespace]
        del services[key]
        if not services:
            del self._services[key.namespace]
        self._shapes.clear()


def _overruled(owner: ReplicaOwner | None) -> tuple[str, ...]:
    """Labels for which services have no say: a ReplicationController's value goes before theirs, as upstream."""
    if owner is None or owner.key.kind is not Kind.REPLICATION_CONTROLLER:
        return ()
    return tuple(each.key for each in owner.selector or ())


def _constrained(shape: PodShape, selector: Selector) -> PodShape | None:
    if not selector:
        return None
    soft = tuple(Spread(skew, label, selector, everywhere=True) for label, skew in SKEWS)
    peers = msgspec.structs.replace(shape.peers or PeerDemands(), soft_spread=soft)
    return msgspec.structs.replace(shape, peers=peers)
