"""The controllers of replicas: so many pods of one template.

ReplicaSets; Deployments, with a ReplicaSet for each revision; StatefulSets, whose pods have ordinals and are replaced
under their names, without status and rollouts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field

from headgate.api.owners import pod_from_template, replica_set_of
from headgate.model.effects import Create, Delete, Effect, PatchSpec, PatchStatus, ReplicaCounts, Scale, WakeAt
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.keys import Key, Kind, Target
from headgate.model.objects import Replicas, StatefulSet
from headgate.model.pod import ENDED, Phase, Pod
from headgate.world.controller import PERMANENT, backoff_after

_HASHED = 10  # hex digits


class ReplicaPods(Struct):
    """The pods of one ReplicaSet."""

    owner: Replicas | None = None  # None while only its pods were seen
    active: dict[str, Pod] = field(default_factory=dict)  # by uid: neither ended nor deleted
    ended: dict[str, float] = field(default_factory=dict)  # when it was first seen so
    creating: dict[Key, None] = field(default_factory=dict)  # created, not observed yet
    created: int = 0
    written: ReplicaCounts | None = None

    def add_pod(self, pod: Pod, now: float) -> None:
        self.creating.pop(pod.key, None)
        self.active.pop(pod.uid, None)
        if pod.deleted is not None:
            return
        if pod.phase in ENDED:
            self.ended.setdefault(pod.uid, now)
        else:
            self.active[pod.uid] = pod

    @property
    def counts(self) -> ReplicaCounts:
        generation = self.owner.generation if self.owner is not None else 0
        ready = sum(pod.phase is Phase.RUNNING for pod in self.active.values())
        return ReplicaCounts(generation, len(self.active), ready)


class ReplicaSetController:
    """A pod that ended is left where it is and replaced after a backoff, as if its containers crashed in a loop.

    Pods of a deleted ReplicaSet are left to garbage collection.
    """

    reads = (Kind.REPLICA_SET, Kind.POD)

    def __init__(self) -> None:
        self._sets: dict[str, ReplicaPods] = {}  # by uid
        self._set_of: dict[str, str] = {}  # uid of the ReplicaSet by pod uid
        self._creating: dict[Key, str] = {}  # uid of the ReplicaSet by the key of a pod being created

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        touched = dict.fromkeys(uid for event in batch if (uid := self._observe(event, now)))
        return [effect for uid in touched if uid in self._sets for effect in self._reconcile(self._sets[uid], now)]

    def _observe(self, event: Event, now: float) -> str:
        """Keeps what the event says; returns the uid of the ReplicaSet it concerns, or an empty string."""
        match event:
            case Observed(Pod() as pod):  # most events are about pods, and most pods have other owners
                return self._add_pod(pod, now)
            case Observed(Replicas() as found) if found.key.kind is Kind.REPLICA_SET:
                self._sets.setdefault(found.uid, ReplicaPods()).owner = found
                return found.uid
            case Gone(key, uid) if key.kind is Kind.REPLICA_SET:
                self._sets.pop(uid, None)
            case Gone(_, uid) if uid in self._set_of:
                return self._delete_pod(uid)
            case TimerFired(timer):
                return timer
            case Outcome(Create(key), WriteError() as trouble) if key in self._creating:
                owner = self._creating.pop(key)
                if trouble not in PERMANENT and owner in self._sets:
                    self._sets[owner].creating.pop(key, None)
                    return owner
            case Outcome(PatchStatus(target), WriteError() as trouble) if trouble not in PERMANENT:
                if target.uid in self._sets:
                    self._sets[target.uid].written = None
                return target.uid
        return ""

    def _add_pod(self, pod: Pod, now: float) -> str:
        owner = pod.owner
        if owner is None or owner.key.kind is not Kind.REPLICA_SET:
            return ""
        self._sets.setdefault(owner.uid, ReplicaPods()).add_pod(pod, now)
        self._set_of[pod.uid] = owner.uid
        self._creating.pop(pod.key, None)
        return owner.uid

    def _delete_pod(self, uid: str) -> str:
        owner = self._set_of.pop(uid)
        if owner in self._sets:
            self._sets[owner].active.pop(uid, None)
        return owner

    def _reconcile(self, pods: ReplicaPods, now: float) -> Iterator[Effect]:
        owner = pods.owner
        if owner is None or owner.deleted is not None:
            return
        have = len(pods.active) + len(pods.creating)
        if have > owner.replicas:
            yield from self._remove(pods, have - owner.replicas)
        elif have < owner.replicas and now < (ready_again := backoff_after(pods.ended.values())):
            yield WakeAt(ready_again, owner.uid)
        else:
            yield from (self._create(pods, owner) for _ in range(owner.replicas - have))
        if pods.counts != pods.written:
            pods.written = pods.counts
            yield PatchStatus(owner.target, pods.counts)

    def _create(self, pods: ReplicaPods, owner: Replicas) -> Create:
        create = pod_from_template(owner, child_name(owner.key.name, pods.created))
        pods.created += 1
        pods.creating[create.key] = None
        self._creating[create.key] = owner.uid
        return create

    def _remove(self, pods: ReplicaPods, surplus: int) -> Iterator[Effect]:
        for pod in deletion_order(pods.active.values())[:surplus]:
            del pods.active[pod.uid]
            yield Delete(pod.target)


def deletion_order(pods: Iterable[Pod]) -> list[Pod]:
    """Those whose deletion loses least come first: not bound, not running, youngest."""
    return sorted(pods, key=lambda pod: (bool(pod.node), pod.phase is Phase.RUNNING, -pod.created, pod.key))


class DeploymentController:
    """One ReplicaSet for each revision of the template: the current one has all replicas, the others none.

    Simpler than the real one: a new revision replaces the old one at once, without a rolling update.
    """

    reads = (Kind.DEPLOYMENT, Kind.REPLICA_SET, Kind.POD)

    def __init__(self) -> None:
        self._deployments: dict[Key, Replicas] = {}
        self._sets: dict[Key, dict[Key, Replicas]] = {}  # ReplicaSets by their Deployment
        self._asked: dict[Key, tuple[str, int]] = {}  # of a ReplicaSet: version, and the replicas asked for
        self._pods: dict[Key, dict[str, Pod]] = {}  # by ReplicaSet
        self._set_of: dict[str, Key] = {}  # ReplicaSet by pod uid
        self._written: dict[str, ReplicaCounts] = {}  # by uid of the Deployment

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        touched = dict.fromkeys(key for event in batch if (key := self._observe(event)) is not None)
        return [effect for key in touched if key in self._deployments for effect in self._reconcile(key)]

    def _observe(self, event: Event) -> Key | None:
        """Keeps what the event says; returns the key of the Deployment it concerns, or None."""
        match event:
            case Observed(Pod() as pod):
                return self._add_pod(pod)
            case Observed(Replicas() as found) if found.key.kind is Kind.DEPLOYMENT:
                self._deployments[found.key] = found
                return found.key
            case Observed(Replicas() as found) if found.owner is not None:
                self._sets.setdefault(found.owner.key, {})[found.key] = found
                return found.owner.key
            case Gone(key, uid):
                return self._delete(key, uid)
            case Outcome(Create(key) | PatchSpec(Target(key)), WriteError() as trouble) if trouble not in PERMANENT:
                self._asked.pop(key, None)
                return self._owner_of(key) or self._deployment_for(key)
            case Outcome(PatchStatus(target), WriteError() as trouble) if trouble not in PERMANENT:
                self._written.pop(target.uid, None)
                return target.key
        return None

    def _add_pod(self, pod: Pod) -> Key | None:
        owner = pod.owner
        if owner is None or owner.key.kind is not Kind.REPLICA_SET:
            return None
        self._pods.setdefault(owner.key, {})[pod.uid] = pod
        self._set_of[pod.uid] = owner.key
        return self._owner_of(owner.key)

    def _delete(self, key: Key, uid: str) -> Key | None:
        if key.kind is Kind.DEPLOYMENT and key in self._deployments and self._deployments[key].uid == uid:
            del self._deployments[key]
            self._sets.pop(key, None)
            self._written.pop(uid, None)
        elif key.kind is Kind.REPLICA_SET and (owner := self._owner_of(key)) is not None:
            if self._sets[owner][key].uid == uid:
                del self._sets[owner][key]
                self._pods.pop(key, None)
                self._asked.pop(key, None)
            return owner
        elif key.kind is Kind.POD and uid in self._set_of:
            of = self._set_of.pop(uid)
            self._pods.get(of, {}).pop(uid, None)
            return self._owner_of(of)
        return None

    def _owner_of(self, key: Key) -> Key | None:
        return next((owner for owner, sets in self._sets.items() if key in sets), None)

    def _deployment_for(self, key: Key) -> Key | None:
        """The Deployment whose ReplicaSet of that name could not be created."""
        name = Key(Kind.DEPLOYMENT, key.namespace, key.name.rpartition("-")[0])
        return name if name in self._deployments else None

    def _reconcile(self, key: Key) -> Iterator[Effect]:
        owner = self._deployments[key]
        if owner.deleted is not None:
            return
        current = _revision_key(owner) if owner.replicas else None
        if current is not None and current not in self._sets.get(key, {}) and current not in self._asked:
            self._asked[current] = ("", owner.replicas)
            yield replica_set_of(owner, current.name, current.name.rpartition("-")[2])
        for found in self._sets.get(key, {}).values():
            yield from self._scale(found, owner.replicas if found.key == current else 0)
        counts = self._counts(owner)
        if counts != self._written.get(owner.uid):
            self._written[owner.uid] = counts
            yield PatchStatus(owner.target, counts)

    def _scale(self, found: Replicas, wanted: int) -> Iterator[Effect]:
        asked = (found.version, wanted)
        if found.replicas != wanted and self._asked.get(found.key) != asked and found.deleted is None:
            self._asked[found.key] = asked
            yield PatchSpec(found.target, Scale(wanted))

    def _counts(self, owner: Replicas) -> ReplicaCounts:
        pods = [pod for key in self._sets.get(owner.key, {}) for pod in self._pods.get(key, {}).values()]
        alive = [pod for pod in pods if pod.deleted is None and pod.phase not in ENDED]
        return ReplicaCounts(owner.generation, len(alive), sum(pod.phase is Phase.RUNNING for pod in alive))


def _revision_key(owner: Replicas) -> Key:
    """The ReplicaSet of its template as it is now."""
    digest = hashlib.sha256(bytes(owner.template)).hexdigest()[:_HASHED]
    return Key(Kind.REPLICA_SET, owner.key.namespace, f"{owner.key.name}-{digest}")


LONGEST_NAME = 63
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_STRIDE = 6_180_340  # shares no factor with the number of suffixes, so no two counts give one suffix


def child_name(owner: str, count: int) -> str:
    """The name of the object that an owner creates after so many others, which does not read as a number."""
    return f"{owner[: LONGEST_NAME - 6]}-{_suffix(count)}"


def _suffix(count: int) -> str:
    number = (count + 1) * _STRIDE % len(_LETTERS) ** 5
    letters = []
    for _ in range(5):
        number, position = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[position])
    return "".join(letters)


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
