"""The StatefulSet controller: numbered pods, each replaced by one of its name; no status, no rollouts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headgate.api.jobs import pod_from_template
from headgate.model.effects import Create, Delete, Effect
from headgate.model.events import Event, Gone, Observed, Outcome, Trouble
from headgate.model.keys import Key, Kind
from headgate.model.owners import StatefulSet
from headgate.model.pod import ENDED, Phase, Pod

_HOPELESS = frozenset({Trouble.REFUSED, Trouble.GONE})


class StatefulSetController:
    """Pods come and go one after another, by number, unless the set lets them come all at once.

    Pods of a deleted set are left to garbage collection.
    """

    reads = (Kind.STATEFUL_SET, Kind.POD)

    def __init__(self) -> None:
        self._sets: dict[Key, StatefulSet] = {}
        self._pods: dict[Key, Pod] = {}
        self._ordered: dict[Key, Key] = {}  # sets by the pods asked for and not seen yet
        self._leaving: dict[str, None] = {}  # by uid: deletion asked for

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        touched = dict.fromkeys(key for event in batch if (key := self._absorb(event)) is not None)
        return [effect for key in touched if key in self._sets for effect in self._reconcile(self._sets[key])]

    def _absorb(self, event: Event) -> Key | None:
        """Notes what the event says; the key of the set it concerns, if any."""
        match event:
            case Observed(StatefulSet() as found):
                self._sets[found.key] = found
                return found.key
            case Observed(Pod() as pod) if pod.owner is not None and pod.owner.key.kind is Kind.STATEFUL_SET:
                self._pods[pod.key] = pod
                self._ordered.pop(pod.key, None)
                return pod.owner.key
            case Gone(key, uid) if key.kind is Kind.STATEFUL_SET:
                if key in self._sets and self._sets[key].uid == uid:
                    del self._sets[key]
            case Gone(key, uid) if key in self._pods and self._pods[key].uid == uid:
                return _owner(self._pods.pop(key))
            case Outcome(Create(key), trouble) if trouble is not None and key in self._ordered:
                owner = self._ordered.pop(key)
                return None if trouble in _HOPELESS else owner
        return None

    def _reconcile(self, owner: StatefulSet) -> Iterator[Effect]:
        if owner.deleted is not None:
            return
        for number in range(owner.replicas):
            yield from self._keep(owner, number)
            if owner.in_order and not self._is_ready(_key(owner, number)):
                return
        surplus = [pod for pod in self._pods_of(owner) if _number(pod) >= owner.replicas]
        for pod in sorted(surplus, key=_number, reverse=True)[: 1 if owner.in_order else None]:
            yield from self._send_away(pod)

    def _keep(self, owner: StatefulSet, number: int) -> Iterator[Effect]:
        """One pod of that number, that has not ended."""
        key = _key(owner, number)
        pod = self._pods.get(key)
        if pod is not None and pod.phase in ENDED:
            yield from self._send_away(pod)
        elif pod is None and key not in self._ordered:
            self._ordered[key] = owner.key
            yield pod_from_template(owner, key.name, {})

    def _send_away(self, pod: Pod) -> Iterator[Effect]:
        if pod.deleted is None and pod.uid not in self._leaving:
            self._leaving[pod.uid] = None
            yield Delete(pod.target)

    def _is_ready(self, key: Key) -> bool:
        pod = self._pods.get(key)
        return pod is not None and pod.phase is Phase.RUNNING and pod.deleted is None

    def _pods_of(self, owner: StatefulSet) -> list[Pod]:
        return [pod for pod in self._pods.values() if _owner(pod) == owner.key]


def _owner(pod: Pod) -> Key | None:
    return pod.owner.key if pod.owner is not None else None


def _key(owner: StatefulSet, number: int) -> Key:
    return Key(Kind.POD, owner.key.namespace, f"{owner.key.name}-{number}")


def _number(pod: Pod) -> int:
    return int(pod.key.name.rpartition("-")[2])
