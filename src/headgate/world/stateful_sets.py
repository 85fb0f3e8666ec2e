"""The StatefulSet controller: pods with ordinals, each replaced under its name; no status, no rollouts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headgate.api.owners import pod_from_template
from headgate.model.effects import Create, Delete, Effect
from headgate.model.events import Event, Gone, Observed, Outcome
from headgate.model.keys import Key, Kind
from headgate.model.objects import StatefulSet
from headgate.model.pod import ENDED, Phase, Pod
from headgate.world.controller import PERMANENT


class StatefulSetController:
    """Creates and deletes pods in the order of their ordinals, or all at once where the set is `Parallel`.

    Pods of a deleted set are left to garbage collection.
    """

    reads = (Kind.STATEFUL_SET, Kind.POD)

    def __init__(self) -> None:
        self._sets: dict[Key, StatefulSet] = {}
        self._pods: dict[Key, Pod] = {}
        self._creating: dict[Key, Key] = {}  # sets by the pods created and not observed yet
        self._deleting: dict[str, None] = {}  # by uid: deleted, not observed yet

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        touched = dict.fromkeys(key for event in batch if (key := self._observe(event)) is not None)
        return [effect for key in touched if key in self._sets for effect in self._reconcile(self._sets[key])]

    def _observe(self, event: Event) -> Key | None:
        """Keeps what the event says; returns the key of the set it concerns, or None."""
        match event:
            case Observed(StatefulSet() as found):
                self._sets[found.key] = found
                return found.key
            case Observed(Pod() as pod) if pod.owner is not None and pod.owner.key.kind is Kind.STATEFUL_SET:
                self._pods[pod.key] = pod
                self._creating.pop(pod.key, None)
                return pod.owner.key
            case Gone(key, uid) if key.kind is Kind.STATEFUL_SET:
                if key in self._sets and self._sets[key].uid == uid:
                    del self._sets[key]
            case Gone(key, uid) if key in self._pods and self._pods[key].uid == uid:
                return _owner(self._pods.pop(key))
            case Outcome(Create(key), trouble) if trouble is not None and key in self._creating:
                owner = self._creating.pop(key)
                return None if trouble in PERMANENT else owner
        return None

    def _reconcile(self, owner: StatefulSet) -> Iterator[Effect]:
        if owner.deleted is not None:
            return
        for ordinal in range(owner.replicas):
            yield from self._ensure(owner, ordinal)
            if owner.in_order and not self._is_ready(_key(owner, ordinal)):
                return
        surplus = [pod for pod in self._pods_of(owner) if _ordinal(pod) >= owner.replicas]
        for pod in sorted(surplus, key=_ordinal, reverse=True)[: 1 if owner.in_order else None]:
            yield from self._delete(pod)

    def _ensure(self, owner: StatefulSet, ordinal: int) -> Iterator[Effect]:
        """Creates the pod of that ordinal if there is none, and deletes one that has ended."""
        key = _key(owner, ordinal)
        pod = self._pods.get(key)
        if pod is not None and pod.phase in ENDED:
            yield from self._delete(pod)
        elif pod is None and key not in self._creating:
            self._creating[key] = owner.key
            yield pod_from_template(owner, key.name)

    def _delete(self, pod: Pod) -> Iterator[Effect]:
        if pod.deleted is None and pod.uid not in self._deleting:
            self._deleting[pod.uid] = None
            yield Delete(pod.target)

    def _is_ready(self, key: Key) -> bool:
        pod = self._pods.get(key)
        return pod is not None and pod.phase is Phase.RUNNING and pod.deleted is None

    def _pods_of(self, owner: StatefulSet) -> list[Pod]:
        return [pod for pod in self._pods.values() if _owner(pod) == owner.key]


def _owner(pod: Pod) -> Key | None:
    return pod.owner.key if pod.owner is not None else None


def _key(owner: StatefulSet, ordinal: int) -> Key:
    return Key(Kind.POD, owner.key.namespace, f"{owner.key.name}-{ordinal}")


def _ordinal(pod: Pod) -> int:
    return int(pod.key.name.rpartition("-")[2])
