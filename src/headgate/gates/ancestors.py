"""Who made this, and who made that: does one of them wait for quota in its own name?"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TypeVar

from headgate.model.admission import Json, Rules, Wanted
from headgate.model.keys import Key, Kind, Target
from headgate.model.kueue_names import QUEUE_NAME
from headgate.model.objects import Job, Object
from headgate.model.owners import ReplicaOwner
from headgate.model.quota_settings import DEPLOYMENTS, JOBS, STATEFUL_SETS

T = TypeVar("T")
Asking = Generator[Wanted, tuple[Object, ...], T]
MOST_ANCESTORS = 10
_KINDS: Mapping[tuple[str, str], Kind] = {
    ("batch", "Job"): Kind.JOB,
    ("apps", "ReplicaSet"): Kind.REPLICA_SET,
    ("apps", "StatefulSet"): Kind.STATEFUL_SET,
    ("apps", "Deployment"): Kind.DEPLOYMENT,
}
_FRAMEWORKS: Mapping[Kind, str] = {
    Kind.JOB: JOBS,
    Kind.STATEFUL_SET: STATEFUL_SETS,
    Kind.DEPLOYMENT: DEPLOYMENTS,
}
"""What waits for quota; a ReplicaSet only stands between."""


def has_managed_ancestor(value: Json, namespace: str, rules: Rules) -> Asking[bool]:
    """What was made by work that waits does so in that work's name, not in its own."""
    owner = controller_of(value, namespace)
    for _ in range(MOST_ANCESTORS):
        if owner is None:
            return False
        parent = yield from found_owner(owner)
        if parent is None or _is_managed(parent, rules):
            return parent is not None
        owner = parent.owner
    return False


def controller_of(value: Json, namespace: str) -> Target | None:
    """Its controller, where that is of a kind we know."""
    for reference in (value.get("metadata") or {}).get("ownerReferences") or ():
        if reference.get("controller"):
            group = str(reference.get("apiVersion")).rpartition("/")[0]
            kind = _KINDS.get((group, str(reference.get("kind"))))
            return None if kind is None else Target(Key(kind, namespace, reference["name"]), reference.get("uid") or "")
    return None


def found_owner(owner: Target) -> Asking[Job | ReplicaOwner | None]:
    """The very object that is named; another of its name is nobody's owner."""
    found = yield owner.key
    return next((one for one in found if isinstance(one, Job | ReplicaOwner) and one.uid == owner.uid), None)


def _is_managed(parent: Job | ReplicaOwner, rules: Rules) -> bool:
    if _FRAMEWORKS.get(parent.key.kind) not in rules.quota.frameworks:
        return False
    return rules.quota.manages_all or bool(parent.labels.get(QUEUE_NAME))
