"""Objects that tell which pods belong together, and so should be spread."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from headgate.model.keys import Key
from headgate.model.peers import Selector


class Service(Struct, frozen=True, gc=False):
    """`selector` empty selects nothing."""

    key: Key
    uid: str
    version: str
    selector: Mapping[str, str]


class ReplicaOwner(Struct, frozen=True, gc=False):
    """A ReplicaSet, StatefulSet or ReplicationController."""

    key: Key
    uid: str
    version: str
    selector: Selector
