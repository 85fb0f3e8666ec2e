"""Which pods of a group are alike: their role."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from headgate.model.kueue_names import ROLE_HASH
from headgate.model.pod import Pod, PodShape

_DIGITS = 8


def role_of(pod: Pod) -> str:
    """As the pod itself says; else the same for pods that ask for the same, whatever image they run."""
    return pod.annotations.get(ROLE_HASH) or role_hash(pod.shape, pod.priority)


@lru_cache(maxsize=16_384)
def role_hash(shape: PodShape, priority: int) -> str:
    """Pods of one template share their shape, so this is worked out once for all of them."""
    plain = replace(shape, images=(), node_name="", bound_to=None)
    return hashlib.sha256(msgspec.json.encode((plain, priority))).hexdigest()[:_DIGITS]
