"""What the server itself writes into objects: identity, times and generation in metadata, conditions in status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from headgate.apiserver.messages import Json
from headgate.apiserver.registry import ServedResource
from headgate.apiserver.storage import Collection

KEPT = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
"""Set by the server alone: what a client writes there is ignored."""
NEVER_STORED = ("managedFields", "selfLink")
_NOT_AT_BIRTH = frozenset({*KEPT, *NEVER_STORED, "resourceVersion"})
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
LONGEST_PREFIX = 58
UNCOUNTED_GROUPS = ("", "coordination.k8s.io", "events.k8s.io", "node.k8s.io")
"""Groups whose kinds (pods aside) have no generation."""
NOT_COUNTED = frozenset({"apiVersion", "kind", "metadata", "status"})


@lru_cache(maxsize=64)
def timestamp(second: int) -> str:
    """RFC 3339 in whole seconds, as metadata has it."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


class Identities:
    """Uids and generated names that depend on nothing but the seed and the history of each name."""

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
        """The object was stored; the next of this name is another."""
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
    return served.type.group not in UNCOUNTED_GROUPS or (served.type.group, served.type.plural) == ("", "pods")


def counts_generation(served: ServedResource) -> bool:
    """Priority classes have one that stays as it is."""
    return has_generation(served) and served.type.group != "scheduling.k8s.io"


def born(metadata: Mapping[str, Any], uid: str, now: float, *, counted: bool) -> Json:
    """Metadata of a new object: what only the server may set is set, or not there."""
    result = {key: value for key, value in metadata.items() if key not in _NOT_AT_BIRTH}
    result["uid"] = uid
    result["creationTimestamp"] = timestamp(int(now))
    if counted:
        result["generation"] = 1
    return result


def carried(new: Json, old: Json) -> Json:
    """Metadata of an update: the server's own fields stay as they were. Equal metadata stays the same dict."""
    if new is old or new == old:
        return old
    result = {key: value for key, value in new.items() if key not in NEVER_STORED and key not in KEPT}
    for key in (*KEPT, "name", "namespace", "resourceVersion"):
        if key in old:
            result[key] = old[key]
    return old if result == old else result


def counted_up(new: Json, old: Json) -> Json:
    """The object with a higher generation if anything but metadata and status differs."""
    if not _differs(new, old):
        return new
    generation = old["metadata"].get("generation", 0) + 1
    return {**new, "metadata": {**new["metadata"], "generation": generation}}


def _differs(new: Json, old: Json) -> bool:
    for key, value in new.items():
        before = old.get(key)
        if value is not before and key not in NOT_COUNTED and value != before:
            return True
    return not new.keys() >= old.keys() and any(key not in new and key not in NOT_COUNTED for key in old)


def with_times(status: Json) -> Json:
    """Conditions always show both of their times, known or not; the very same status when they do."""
    conditions = status.get("conditions") or ()
    if all("lastProbeTime" in one and "lastTransitionTime" in one for one in conditions):
        return status
    unknown = {"lastProbeTime": None, "lastTransitionTime": None}
    return {**status, "conditions": [{**unknown, **one} for one in conditions]}


def with_condition(status: Json, condition: Json, now: float) -> Json:
    """The status with this condition; it keeps its time if it was so already."""
    conditions = status.get("conditions") or []
    old = next((one for one in conditions if one["type"] == condition["type"]), None)
    same = old is not None and old["status"] == condition["status"]
    since = old.get("lastTransitionTime") if same and old is not None else timestamp(int(now))
    new = {**condition, "lastProbeTime": None, "lastTransitionTime": since}
    others = [new if one is old else one for one in conditions]
    return {**status, "conditions": others if old is not None else [*others, new]}
