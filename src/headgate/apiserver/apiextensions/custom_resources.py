"""The kinds a CustomResourceDefinition adds: their strategies and resource types."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from headgate.apiserver.apiextensions.schema import Schema, resource_schema
from headgate.apiserver.defaulting import with_metadata_trimmed
from headgate.apiserver.field_errors import FieldError
from headgate.apiserver.messages import Json
from headgate.apiserver.strategy import ResourceType
from headgate.apiserver.validation import AnyObject, ObjectMeta, metadata_errors, metadata_update_errors, typed
from headgate.model.names import dns_subdomain_errors


class CustomResourceStrategy(Struct, frozen=True):
    """The rules of one version of a custom resource; with a status subresource, status is written only there."""

    schema: Schema
    namespaced: bool
    has_status: bool

    def prepare_create(self, new: Json) -> Json:
        return self._completed(_with_status(new, None) if self.has_status else new)

    def prepare_update(self, new: Json, old: Json) -> Json:
        return self._completed(_with_status(new, old.get("status")) if self.has_status else new)

    def prepare_status(self, new: Json, old: Json) -> Json:
        status = new.get("status")
        if status is not None:
            return self.schema.with_status(old, status)
        completed: Json = self.schema.complete(_with_status(old, None))
        return completed

    def validate_create(self, new: Json) -> Sequence[FieldError]:
        metadata = typed(new, AnyObject).metadata or ObjectMeta()
        errors = metadata_errors(metadata, dns_subdomain_errors, namespaced=self.namespaced) + self.schema.errors(new)
        return errors + self.schema.rule_errors(new, None, errors)

    def validate_update(self, new: Json, old: Json) -> Sequence[FieldError]:
        metadata = typed(new, AnyObject).metadata or ObjectMeta()
        errors = metadata_update_errors(new["metadata"], old["metadata"], metadata)
        errors = errors if _only_metadata_differs(new, old) else errors + self.schema.errors(new)
        return errors + self.schema.rule_errors(new, old, errors)

    def validate_status(self, new: Json, old: Json) -> Sequence[FieldError]:
        return self.schema.status_errors(new, old)

    def _completed(self, value: Json) -> Json:
        typed(value, AnyObject)
        completed: Json = self.schema.complete(with_metadata_trimmed(value))
        return completed


def _with_status(value: Json, status: Json | None) -> Json:
    if status is not None:
        return {**value, "status": status}
    return {name: part for name, part in value.items() if name != "status"} if "status" in value else value


def _only_metadata_differs(new: Json, old: Json) -> bool:
    return new.keys() == old.keys() and all(new[name] == old[name] for name in new if name != "metadata")


def resource_types_of(definition: Json) -> tuple[ResourceType, ...]:
    """The served versions of a valid definition, the storage version first."""
    spec = definition["spec"]
    versions = sorted(spec["versions"], key=lambda version: not version.get("storage"))
    return tuple(_resource_type(spec, version) for version in versions if version.get("served"))


def _resource_type(spec: Json, version: Json) -> ResourceType:
    names, namespaced = spec["names"], spec["scope"] == "Namespaced"
    has_status = "status" in (version.get("subresources") or {})
    schema = resource_schema(version["schema"]["openAPIV3Schema"])
    return ResourceType(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=namespaced,
        rules=CustomResourceStrategy(schema, namespaced, has_status),
        has_status=has_status,
        short_names=tuple(names.get("shortNames") or ()),
    )
