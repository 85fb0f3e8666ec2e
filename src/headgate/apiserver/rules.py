"""What the generic server asks of each kind and of each admission plugin.

Admission steps read stored objects through a `Catalog` (`get` one, `list` all of a resource).
The system's part of the metadata (name from generateName, uid, creationTimestamp, generation) is filled in before
`prepare_create`. `prepare_create` and `prepare_update` are called again on what admission has made of an object, unless
the plugin says that it keeps objects complete: doing it twice changes nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

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
    dry_run: bool = False


class Catalog(Protocol):
    """Stored objects by resource: the plural, or plural.group outside the core group. They must not be changed."""

    def get(self, resource: str, namespace: str, name: str) -> Json | None:
        """The object, or None; the namespace is empty for cluster-wide kinds."""

    def list(self, resource: str) -> Sequence[Json]:
        """All objects of the resource in all namespaces, by namespace and name; none for an unknown resource.

        As long as nothing has changed, the very same list.
        """


class Admission(Protocol):
    """A step that may change or refuse a write, after decoding and before validation."""

    @property
    def resources(self) -> frozenset[tuple[str, str]] | None:
        """The groups and plurals it has a say about; None for all."""

    @property
    def keeps_complete(self) -> bool:
        """Whether an object that was complete still is when this has changed it, and still is the same object."""

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        """The object to go on with; raises ApiError to refuse."""

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        """Raises ApiError to refuse what the object has become."""


@runtime_checkable
class ConfiguredAdmission(Protocol):
    """Admission that stored objects configure: who has a say, about which sorts of writes."""

    @property
    def configured_by(self) -> tuple[str, ...]:
        """The resources of these objects, as a catalog calls them. As long as none has changed, nobody else has a say
        about a sort of write: a verb, a resource and subresource, a user.
        """

    def concerned(self, operation: Operation, catalog: Catalog) -> Admission | None:
        """Who has a say about writes of this one's sort; None for nobody."""
