"""What the Workload that stands for some work is called: the same for the same work, in every process."""

from __future__ import annotations

import hashlib

LONGEST = 253
_HASHED = 5  # hex digits


def workload_name(kind: str, group: str, name: str, uid: str) -> str:
    """Kind and name, cut where they are too long, and a hash of who the owner is."""
    digest = hashlib.sha1("\n".join((kind, group, name, uid)).encode(), usedforsecurity=False).hexdigest()
    prefix = f"{kind.lower()}-{name}"[: LONGEST - _HASHED - 1]
    return f"{prefix}-{digest[:_HASHED]}"


def stateful_set_workload(name: str, uid: str) -> str:
    """What the Workload of a StatefulSet is called, and the group its pods make."""
    return workload_name("StatefulSet", "apps", name, uid)
