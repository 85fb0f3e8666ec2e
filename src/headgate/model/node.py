"""A node as scheduling sees it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from headgate.model.keys import Key
from headgate.model.resources import Resources


class TaintEffect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(Struct, frozen=True, gc=False):
    key: str
    value: str
    effect: TaintEffect


class Node(Struct, frozen=True, gc=False):
    """A node; `allocatable` includes the resource `pods`, how many pods it may run."""

    key: Key
    uid: str
    version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    allocatable: Resources
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    images: Mapping[str, int] = {}  # size in bytes by each name the image is known by

    @property
    def name(self) -> str:
        return self.key.name
