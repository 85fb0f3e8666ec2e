"""What the server itself writes into objects: identity, times and generation in metadata, conditions in status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from headgate.apiserver.caches import TIMESTAMPS, memoized
from headgate.apiserver.messages import Json
from headgate.apiserver.registry import ServedResource
from headgate.apiserver.storage import Collection

SERVER_FIELDS = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
"""Metadata only the server sets: what a client writes there is ignored."""
NEVER_STORED = ("managedFields", "selfLink")
_NOT_AT_CREATION = frozenset({*SERVER_FIELDS, *NEVER_STORED, "resourceVersion"})
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
LONGEST_PREFIX = 58
NO_GENERATION_GROUPS = ("", "coordination.k8s.io", "events.k8s.io", "node.k8s.io", "rbac.authorization.k8s.io")
"""Groups whose kinds, pods aside, have no generation."""
_NO_GENERATION_FIELDS = frozenset({"apiVersion", "kind", "metadata", "status"})


@memoized(TIMESTAMPS)
def timestamp(second: int) -> str:
    """RFC 3339 in whole seconds."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


class Identities:
    """Uids and generated names, determined by the seed and by how often each name was used."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._incarnations: dict[tuple[Collection, str, str], int] = {}
        self._generated = 0

    def uid(self, served: ServedResource, namespace: str, name: str) -> str:
        """The uid of the next object of this name."""
        count = self._incarnations.get((served.collection, namespace, name), 0)
        text = f"{self._seed}/{served.type.group}/{served.type.plural}/{namespace}/{name}/{count}"
        bits = blake2b(text.encode(), digest_size=16).hexdigest()
        return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"

    def used(self, served: ServedResource, namespace: str, name: str) -> None:
        """Records that an object of this name was stored; the next one gets another uid."""
        place = (served.collection, namespace, name)
        self._incarnations[place] = self._incarnations.get(place, 0) + 1

    def generated_name(self, prefix: str) -> str:
        self._generated += 1
        digest = blake2b(f"{self._seed}/{self._generated}".encode(), digest_size=8).digest()
        return prefix[:LONGEST_PREFIX] + _suffix(int.from_bytes(digest, "big"))


def _suffix(number: int) -> str:
    letters = []
    for _ in range(SUFFIX_LENGTH):
        number, index = divmod(number, len(SUFFIX_ALPHABET))
        letters.append(SUFFIX_ALPHABET[index])
    return "".join(letters)


def has_generation(served: ServedResource) -> bool:
    return served.type.group not in NO_GENERATION_GROUPS or (served.type.group, served.type.plural) == ("", "pods")


def counts_generation(served: ServedResource) -> bool:
    """Whether updates increment the generation; that of priority classes never changes."""
    return has_generation(served) and served.type.group != "scheduling.k8s.io"


def new_metadata(metadata: Mapping[str, Any], uid: str, now: float, *, counted: bool) -> Json:
    """Metadata of a new object, with the server's fields set."""
    result = {key: value for key, value in metadata.items() if key not in _NOT_AT_CREATION}
    result["uid"] = uid
    result["creationTimestamp"] = timestamp(int(now))
    if counted:
        result["generation"] = 1
    return result


def updated_metadata(new: Json, old: Json) -> Json:
    """Metadata of an update, with the server's fields kept; the identical old mapping if nothing changes."""
    if new is old or new == old:
        return old
    result = {key: value for key, value in new.items() if key not in NEVER_STORED and key not in SERVER_FIELDS}
    for key in (*SERVER_FIELDS, "name", "namespace", "resourceVersion"):
        if key in old:
            result[key] = old[key]
    return old if result == old else result


def with_generation(new: Json, old: Json) -> Json:
    """The object with its generation incremented if anything but metadata and status differs."""
    if not _spec_differs(new, old):
        return new
    generation = old["metadata"].get("generation", 0) + 1
    return {**new, "metadata": {**new["metadata"], "generation": generation}}


def _spec_differs(new: Json, old: Json) -> bool:
    for key, value in new.items():
        before = old.get(key)
        if value is not before and key not in _NO_GENERATION_FIELDS and value != before:
            return True
    return not new.keys() >= old.keys() and any(key not in new and key not in _NO_GENERATION_FIELDS for key in old)


def with_times(status: Json) -> Json:
    """The status with both times in every condition, null if unknown; the identical status if they are there."""
    conditions = status.get("conditions") or ()
    if all("lastProbeTime" in one and "lastTransitionTime" in one for one in conditions):
        return status
    unknown = {"lastProbeTime": None, "lastTransitionTime": None}
    return {**status, "conditions": [{**unknown, **one} for one in conditions]}


def with_condition(status: Json, condition: Json, now: float) -> Json:
    """The status with this condition, which keeps its transition time if its status does not change."""
    conditions = status.get("conditions") or []
    old = next((one for one in conditions if one["type"] == condition["type"]), None)
    same = old is not None and old["status"] == condition["status"]
    since = old.get("lastTransitionTime") if same and old is not None else timestamp(int(now))
    new = {**condition, "lastProbeTime": None, "lastTransitionTime": since}
    others = [new if one is old else one for one in conditions]
    return {**status, "conditions": others if old is not None else [*others, new]}
