"""What the generic server asks of each kind: how its objects are defaulted and validated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from headgate.apiserver.field_errors import FieldError
from headgate.apiserver.messages import Json


class RestStrategy(Protocol):
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
    rules: RestStrategy
    has_status: bool = True
    short_names: tuple[str, ...] = ()
