"""Owner references: dependents go after their last owner, or with it, or are left as orphans."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from headgate.apiserver.deletion import FOREGROUND, ORPHAN, DeleteOptions, Deleter, Preconditions
from headgate.apiserver.finishing import store_or_finish
from headgate.apiserver.messages import Json
from headgate.apiserver.registry import Registry, RequestInfo
from headgate.apiserver.status import ApiError
from headgate.apiserver.storage import Change, Collection, Store

USER = "system:serviceaccount:kube-system:generic-garbage-collector"

Place = tuple[Collection, str, str]
"""Collection, namespace and name of an object."""


class Garbage:
    """Follows the lives of all objects, and deletes or releases what has lost its owners."""

    def __init__(self, store: Store, registry: Registry, deleter: Deleter) -> None:
        self._store, self._registry, self._deleter = store, registry, deleter
        self._living: dict[str, Place] = {}  # by uid
        self._dependents: dict[str, dict[Place, None]] = {}  # by the owner's uid, in order of arrival
        self._suspects: deque[Place] = deque()
        self._leaving: deque[Place] = deque()

    def follow(self, changes: Sequence[Change], now: float) -> None:
        """Take note of the changes, and look once at everything that gave cause."""
        for change in changes:
            self._absorb(change)
        if self._leaving or self._suspects:
            self._work(now)

    def _absorb(self, change: Change) -> None:
        metadata = change.after.value["metadata"]
        before = change.before.value["metadata"] if change.before is not None else {}
        if change.type == "DELETED":
            self._absorb_end(_place(change), metadata["uid"], before)
            return
        if change.type == "ADDED":
            self._living[metadata["uid"]] = _place(change)
        owners, owned = metadata.get("ownerReferences"), before.get("ownerReferences")
        if owners is not owned and owners != owned:
            self._absorb_owners(_place(change), owners or (), before)
        if metadata.get("deletionTimestamp") is not None and metadata.get("finalizers"):
            self._leaving.append(_place(change))

    def _work(self, now: float) -> None:
        for _ in range(len(self._leaving)):
            self._release(self._leaving.popleft())
        for _ in range(len(self._suspects)):
            self._judge(self._suspects.popleft(), now)

    def _absorb_owners(self, place: Place, owners: Sequence[Json], before: Json) -> None:
        self._forget_owners(place, before)
        for owner in owners:
            self._dependents.setdefault(owner["uid"], {})[place] = None
        self._suspects.append(place)

    def _absorb_end(self, place: Place, uid: str, before: Json) -> None:
        self._living.pop(uid, None)
        self._forget_owners(place, before)
        self._suspects.extend(self._dependents.pop(uid, ()))

    def _forget_owners(self, place: Place, metadata: Json) -> None:
        for owner in metadata.get("ownerReferences") or ():
            if (of_owner := self._dependents.get(owner["uid"])) is not None:
                of_owner.pop(place, None)
                if not of_owner:
                    del self._dependents[owner["uid"]]
            if (holder := self._living.get(owner["uid"])) is not None and self._finalizers(holder):
                self._leaving.append(holder)

    def _release(self, place: Place) -> None:
        """Take its own finalizers off an owner whose dependents no longer hold it."""
        finalizers = self._finalizers(place)
        if ORPHAN in finalizers:
            self._orphan_dependents(place)
            self._drop_finalizer(place, ORPHAN)
        elif FOREGROUND in finalizers:
            dependents = self._dependents.get(_metadata(place)["uid"], {})
            if any(self._blocks(dependent, place) for dependent in dependents):
                self._suspects.extend(dependents)
            else:
                self._drop_finalizer(place, FOREGROUND)

    def _orphan_dependents(self, place: Place) -> None:
        uid = _metadata(place)["uid"]
        for dependent in list(self._dependents.get(uid, ())):
            self._drop_owners(dependent, [uid])

    def _blocks(self, dependent: Place, owner: Place) -> bool:
        uid = _metadata(owner)["uid"]
        references = _metadata(dependent).get("ownerReferences") or ()
        return any(one["uid"] == uid and one.get("blockOwnerDeletion") for one in references)

    def _judge(self, place: Place, now: float) -> None:
        """Delete a dependent without owners; of one that has some left, only drop the references to the lost."""
        references = _metadata(place).get("ownerReferences") or ()
        lost = [owner["uid"] for owner in references if self._is_lost(owner, place[1])]
        leaving = [owner["uid"] for owner in references if self._waits_for_dependents(owner["uid"])]
        if not lost and not leaving:
            return
        if len(lost) + len(leaving) < len(references):
            self._drop_owners(place, lost + leaving)
        else:
            self._delete(place, "Foreground" if leaving and self._has_dependents(place) else "", now)

    def _is_lost(self, owner: Json, namespace: str) -> bool:
        """No such object: none with this uid, or not in this namespace. Of kinds not served, nothing is known."""
        holder = self._living.get(owner["uid"])
        if holder is not None:
            return holder[1] not in ("", namespace)
        return self._registry.of_kind(owner["apiVersion"], owner["kind"]) is not None

    def _waits_for_dependents(self, uid: str) -> bool:
        holder = self._living.get(uid)
        return holder is not None and FOREGROUND in self._finalizers(holder)

    def _has_dependents(self, place: Place) -> bool:
        return bool(self._dependents.get(_metadata(place)["uid"]))

    def _finalizers(self, place: Place) -> list[str]:
        """The finalizers an object that is being deleted waits for."""
        metadata = _metadata(place)
        return metadata.get("finalizers") or [] if metadata.get("deletionTimestamp") is not None else []

    def _drop_finalizer(self, place: Place, name: str) -> None:
        self._edit(place, "finalizers", [other for other in self._finalizers(place) if other != name])

    def _drop_owners(self, place: Place, uids: list[str]) -> None:
        references = _metadata(place).get("ownerReferences") or ()
        self._edit(place, "ownerReferences", [owner for owner in references if owner["uid"] not in uids])

    def _edit(self, place: Place, field: str, items: list[object]) -> None:
        found = place[0].get(place[1], place[2])
        if found is None:
            return
        value = found.value
        metadata = {name: part for name, part in value["metadata"].items() if name != field}
        if items:
            metadata[field] = items
        store_or_finish(self._store, *place, {**value, "metadata": metadata})

    def _delete(self, place: Place, policy: str, now: float) -> None:
        collection, namespace, name = place
        served = self._registry.versions(collection.group, collection.plural)
        metadata = _metadata(place)
        if not served or (metadata.get("deletionTimestamp") is not None and not policy):
            return
        options = DeleteOptions(propagation_policy=policy, preconditions=Preconditions(metadata["uid"]))
        try:
            self._deleter.delete(RequestInfo(served[0], namespace, name, USER, now), options)
        except ApiError:
            return  # an admission plugin keeps it; a later change of it or its owners asks again


def _place(change: Change) -> Place:
    return change.collection, change.namespace, change.name


def _metadata(place: Place) -> Json:
    """The object's metadata now; nothing when it has gone since it was noted."""
    found = place[0].get(place[1], place[2])
    return found.value["metadata"] if found is not None else {}
