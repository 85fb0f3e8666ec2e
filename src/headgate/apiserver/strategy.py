"""What the generic server asks of each kind: how its objects are defaulted and validated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from headgate.apiserver.field_errors import FieldError
from headgate.apiserver.messages import Json


class RestStrategy(Protocol):
    """How objects of one kind are defaulted and validated. Objects are never changed in place.

    The server's metadata (name, uid, creationTimestamp, generation) is set before `prepare_create`. `prepare_create`
    and `prepare_update` are idempotent: they are called again on what admission has changed, unless the plugin keeps
    objects complete.
    """

    def prepare_create(self, new: Json) -> Json:
        """The new object defaulted, without fields a client may not set, such as status."""

    def defaulted(self, new: Json) -> Json:
        """The new object as it is read: with its defaults, and with nothing the server adds at creation."""

    def prepare_update(self, new: Json, old: Json) -> Json:
        """The same for an update; status is kept from `old`."""

    def prepare_status(self, new: Json, old: Json) -> Json:
        """The same for an update of the status subresource; everything but status and metadata is kept."""

    def unknown_fields(self, value: Json) -> Sequence[str]:
        """The paths of fields that the kind does not declare, in the order in which a server names them."""

    def validate_create(self, new: Json) -> Sequence[FieldError]: ...

    def validate_update(self, new: Json, old: Json) -> Sequence[FieldError]: ...

    def validate_status(self, new: Json, old: Json) -> Sequence[FieldError]: ...


class PrinterColumn(Struct, frozen=True):
    """One column of a table: `path` is a JSONPath into the object; one with a priority is shown with `-o wide` only."""

    name: str
    type: str
    path: str
    format: str = ""
    description: str = ""
    priority: int = 0


class ScalePaths(Struct, frozen=True):
    """Where a resource keeps what its Scale shows: simple paths such as `.spec.replicas`."""

    replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ".spec.selector"
    replicas_default: int = 0  # 0: there is none


class ResourceType(Struct, frozen=True):
    """A resource in one version: its names, scope and strategy."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    rules: RestStrategy
    has_status: bool = True
    short_names: tuple[str, ...] = ()
    singular: str = ""  # empty: the kind in lower case
    categories: tuple[str, ...] = ()
    columns: tuple[PrinterColumn, ...] = ()  # of a custom resource
    schema: Json | None = None  # of a custom resource, in OpenAPI v3
    scale: ScalePaths | None = None
