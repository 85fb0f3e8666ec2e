"""What a namespace and a runtime class say about the resources of pods, whoever makes them."""

from __future__ import annotations

from msgspec import Struct

from headgate.model.keys import Key
from headgate.model.resources import Resources


class Bounds(Struct, frozen=True, gc=False):
    """Between which amounts must lie, and what who says nothing gets; of a resource not named nothing is said."""

    max: Resources = Resources()
    min: Resources = Resources()
    default: Resources = Resources()  # limits
    default_request: Resources = Resources()


class LimitRange(Struct, frozen=True, gc=False):
    """Bounds for every container and for every pod of its namespace, in the order they are listed."""

    key: Key
    uid: str
    version: str
    containers: tuple[Bounds, ...] = ()
    pods: tuple[Bounds, ...] = ()


class RuntimeClass(Struct, frozen=True, gc=False):
    """`overhead` is what every pod that it runs takes besides its containers."""

    key: Key
    uid: str
    version: str
    overhead: Resources = Resources()
