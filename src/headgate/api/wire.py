"""The parts of Kubernetes objects that several kinds share, as they are on the wire."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from headgate.api.errors import InvalidField
from headgate.api.times import InvalidTime, parse_time
from headgate.model.keys import Key, Kind
from headgate.model.requirements import Operator, Requirement

Amounts = dict[str, str | int | float]
"""Quantities by resource name. Servers write text; people also write bare numbers."""

Buffer = bytes | memoryview

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""Whole numbers as Kubernetes has them. Servers refuse larger ones in their own kinds, not always in others'."""


class Wire(Struct, rename="camel", frozen=True, gc=False):
    """Fields are read by their Kubernetes names; what is not listed is ignored."""


class OwnerReference(Wire, frozen=True):
    kind: str
    name: str
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class Metadata(Wire, frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    owner_references: list[OwnerReference] | None = None

    def key(self, kind: Kind) -> Key:
        return Key(kind, self.namespace, self.name)

    @property
    def created(self) -> float:
        return time_at("$.metadata.creationTimestamp", self.creation_timestamp) or 0.0

    @property
    def deleted(self) -> float | None:
        return time_at("$.metadata.deletionTimestamp", self.deletion_timestamp)


class FinalizedMetadata(Metadata, frozen=True):
    finalizers: list[str] | None = None


class Condition(Wire, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class Expression(Wire, frozen=True):
    """One entry of matchExpressions or matchFields."""

    key: str
    operator: Operator
    values: list[str] | None = None

    def requirement(self) -> Requirement:
        return Requirement(self.key, self.operator, tuple(sorted(self.values or ())))


def time_at(path: str, text: str | None) -> float | None:
    """The time a field holds, if it holds one."""
    if text is None:
        return None
    try:
        return parse_time(text)
    except InvalidTime as error:
        raise InvalidField(path, str(error)) from None


def controller_uid(metadata: Metadata) -> str:
    """The uid of the object that controls this one; empty when there is none."""
    return next((owner.uid for owner in metadata.owner_references or () if owner.controller), "")


def is_true(conditions: list[Condition] | None, type_: str) -> bool:
    return any(condition.type == type_ and condition.status == "True" for condition in conditions or ())
