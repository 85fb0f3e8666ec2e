"""What the generic server asks of each kind and of each admission plugin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from headgate.apiserver.errors import FieldError
from headgate.apiserver.messages import Json


class KindRules(Protocol):
    """How one kind is completed and checked. Objects are never changed in place: `prepare_*` return new ones."""

    def prepare_create(self, new: Json) -> Json:
        """Defaults filled in, fields a client may not set at creation (such as status) dropped."""

    def prepare_update(self, new: Json, old: Json) -> Json:
        """The same for a write to the main resource: status is kept from `old`."""

    def prepare_status(self, new: Json, old: Json) -> Json:
        """For a write to the status subresource: everything but status (and metadata bookkeeping) is kept."""

    def validate_create(self, new: Json) -> Sequence[FieldError]: ...

    def validate_update(self, new: Json, old: Json) -> Sequence[FieldError]: ...

    def validate_status(self, new: Json, old: Json) -> Sequence[FieldError]: ...


class ResourceType(Struct, frozen=True):
    """A kind as it is served: its names, its place, its rules."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    rules: KindRules
    has_status: bool = True
    short_names: tuple[str, ...] = ()


class Operation(Struct, frozen=True):
    """A write on its way through admission."""

    verb: str  # CREATE, UPDATE or DELETE
    resource: ResourceType
    subresource: str
    namespace: str
    name: str
    new: Json | None
    old: Json | None
    user: str


Lookup = Callable[[str, str, str], "Json | None"]
"""Find a stored object by (plural or plural.group, namespace, name); namespace is empty for cluster-wide kinds."""


class Admission(Protocol):
    """A step that may change or refuse a write, after decoding and before validation."""

    def mutate(self, operation: Operation, lookup: Lookup) -> Json | None:
        """The object to go on with; raises ApiError to refuse."""

    def validate(self, operation: Operation, lookup: Lookup) -> None:
        """Raises ApiError to refuse what the object has become."""
