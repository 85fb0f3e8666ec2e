"""Custom resources: the strategy and resource types a definition adds, and the schema its objects are checked by.

A schema is compiled once and looks at the top-level fields of an object one by one, because revisions share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from headgate.apiserver.apiextensions.defaulting import compile_defaults, compile_pruning, dropped_fields
from headgate.apiserver.apiextensions.fast_path import Test, compile_fast_path
from headgate.apiserver.apiextensions.rules import SchemaRules
from headgate.apiserver.apiextensions.validation import compile_validation
from headgate.apiserver.caches import COMPILED_SCHEMAS, SCHEMA_FIELDS, STATUS_CHANGES, Cache, memoized
from headgate.apiserver.defaulting import with_metadata_trimmed
from headgate.apiserver.field_errors import FieldError
from headgate.apiserver.messages import Json
from headgate.apiserver.strategy import PrinterColumn, ResourceType, ScalePaths
from headgate.apiserver.validation import AnyObject, ObjectMeta, metadata_errors, metadata_update_errors, typed
from headgate.model.names import dns_subdomain_errors


class CustomResourceStrategy(Struct, frozen=True):
    """The strategy of one version of a custom resource. A status subresource is the only way to write status."""

    schema: Schema
    namespaced: bool
    has_status: bool

    def prepare_create(self, new: Json) -> Json:
        return self._completed(_with_status(new, None) if self.has_status else new)

    def prepare_update(self, new: Json, old: Json) -> Json:
        return self._completed(_with_status(new, old.get("status")) if self.has_status else new)

    def prepare_status(self, new: Json, old: Json) -> Json:
        status = new.get("status")
        completed: Json = (
            self.schema.complete(_with_status(old, None)) if status is None else self.schema.with_status(old, status)
        )
        return completed

    def defaulted(self, new: Json) -> Json:
        return self._completed(new)

    def unknown_fields(self, value: Json) -> Sequence[str]:
        return self.schema.unknown_fields(value)

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
        singular=names.get("singular") or "",
        categories=tuple(names.get("categories") or ()),
        columns=tuple(_column(column) for column in version.get("additionalPrinterColumns") or ()),
        schema=version["schema"]["openAPIV3Schema"],
        scale=_scale_paths((version.get("subresources") or {}).get("scale")),
    )


def _scale_paths(scale: Json | None) -> ScalePaths | None:
    if scale is None:
        return None
    names = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    replicas, status, selector = (scale.get(name) or "" for name in names)
    return ScalePaths(replicas, status, selector)


def _column(column: Json) -> PrinterColumn:
    return PrinterColumn(
        name=column["name"],
        type=column["type"],
        path=column["jsonPath"],
        format=column.get("format") or "",
        description=column.get("description") or "",
        priority=column.get("priority") or 0,
    )


_IDENTITY: Json = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
_PLAIN_ROOT = frozenset({"type", "properties", "required", "description", "x-kubernetes-validations"})
_PLAIN_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_METADATA: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Schema:
    """A compiled schema. Values are never changed in place; results share what they can with them."""

    def __init__(self, document: Json) -> None:
        self._defaults = compile_defaults(document)
        self._pruning = compile_pruning(document)
        self._validation = compile_validation(document)
        properties: Json = document.get("properties") or {}
        self._status = compile_validation(properties.get("status") or {})
        self._rules = SchemaRules(document)
        self._fields = {name: SchemaField(part) for name, part in properties.items()}
        self._tests = {name: part.is_valid for name, part in self._fields.items()}
        self._rewriting = tuple((name, part) for name, part in self._fields.items() if part.rewrites)
        self._names = frozenset(self._fields)
        self._is_simple = document.keys() <= _PLAIN_ROOT
        self._required = frozenset(document.get("required") or ())
        self._with_default = frozenset(name for name, part in properties.items() if "default" in part)
        self._accepted: Cache[tuple[int, ...], tuple[Any, ...]] = Cache(STATUS_CHANGES)

    def default(self, value: Any) -> Any:
        """The value with missing fields defaulted and nulls of fields that are not nullable dropped."""
        return value if self._defaults is None else self._defaults(value)

    def prune(self, value: Any) -> Any:
        """The value without fields the schema does not declare."""
        return value if self._pruning is None else self._pruning(value)

    def complete(self, value: Any) -> Any:
        """The value defaulted and pruned; idempotent."""
        if not self._has_declared_fields_only(value) or not self._with_default.issubset(value):
            return self.prune(self.default(value))
        result = value
        for name, part in self._rewriting:
            if name in value:
                field = value[name]
                completed = (part.known.get(id(field)) or part.checked(field)).completed
                if completed is not field:
                    result = {**result, name: completed}
        return result

    def with_status(self, old: Json, status: Any) -> Any:
        """The object with this status, completed."""
        new = {**old, "status": status}
        return new if _status_change(old, status) in self._accepted else self.complete(new)

    def unknown_fields(self, value: Json) -> Sequence[str]:
        """The paths of fields that `prune` drops, in alphabetical order."""
        if not self._is_simple:
            return sorted(path.removeprefix(".") for path in dropped_fields(value, self.prune(value)))
        found = [] if self._names.issuperset(value) else [name for name in value if name not in self._names]
        for name, part in self._rewriting:
            if name in value:
                field = value[name]
                unknown = (part.known.get(id(field)) or part.checked(field)).unknown
                if unknown:
                    found += [f"{name}{path}" for path in unknown]
        return sorted(found) if found else ()

    def errors(self, value: Any, path: str = "") -> list[FieldError]:
        """What validation by the schema finds, CEL rules aside."""
        errors: list[FieldError] = []
        if not self._is_valid(value):
            self._validation(value, path, errors)
        return errors

    def status_errors(self, new: Json, old: Json) -> list[FieldError]:
        """What is wrong with the status, by the schema or by the CEL rules. As on a real server, details name fields
        relative to the status.
        """
        spec, status = new.get("spec"), new.get("status")
        change, spec_stays = _status_change(old, status), spec is old.get("spec")
        if spec_stays and change in self._accepted:
            return []
        errors = self._status_errors(new)
        errors += self._rules.errors(new, old, errors)
        if not errors and spec_stays and self._depends_on_spec_and_status(new, old):
            self._accepted.put(change, (spec, status, old.get("status")))
        return errors

    def _depends_on_spec_and_status(self, new: Json, old: Json) -> bool:
        """Whether nothing else decides if the new status is accepted in place of the old one as it is."""
        if not (
            self._rules.read_spec_and_status_only and _PLAIN_FIELDS.issuperset(new) and _PLAIN_FIELDS.issuperset(old)
        ):
            return False
        if "status" not in new or None in new.values() or None in old.values():
            return False
        part = self._fields.get("status")
        return part is not None and part.is_valid(new["status"])

    def _status_errors(self, new: Json) -> list[FieldError]:
        status, part = new.get("status"), self._fields.get("status")
        if "status" not in new or (part is not None and part.is_valid(status)):
            return []
        errors: list[FieldError] = []
        self._status(status, "", errors)
        return [structs.replace(error, path=f"status.{error.path}" if error.path else "status") for error in errors]

    def _has_declared_fields_only(self, value: Any) -> bool:
        return self._is_simple and type(value) is dict and self._names.issuperset(value) and None not in value.values()

    def _is_valid(self, value: Any) -> bool:
        """Whether the value is known to be complete and valid; False may also mean unknown."""
        if not self._has_declared_fields_only(value) or not self._required.issubset(value):
            return False
        tests = self._tests
        return all(tests[name](part) for name, part in value.items())

    def rule_errors(self, new: Any, old: Any, found: Sequence[FieldError]) -> list[FieldError]:
        """What the CEL rules refuse; `old` is None for a new object, `found` the errors found before."""
        return self._rules.errors(new, old, found)


def _status_change(old: Json, status: Any) -> tuple[int, ...]:
    """Equal for objects with the identical spec and statuses. Objects with further fields differ in their number."""
    return len(old), id(old.get("spec")), id(old.get("status")), id(status)


def resource_schema(document: Json) -> Schema:
    """The schema of a custom resource: the given one with apiVersion, kind and metadata added."""
    return _compiled(msgspec.json.encode(document))


@memoized(COMPILED_SCHEMAS)
def _compiled(encoded: bytes) -> Schema:
    document: Json = msgspec.json.decode(encoded)
    properties = {**_IDENTITY, **(document.get("properties") or {}), "metadata": _METADATA}
    return Schema({**document, "properties": properties})


_NESTED = frozenset({"properties", "additionalProperties", "items"})


class _CheckedValue(Struct, frozen=True, gc=False):
    """A value, what it is completed to, and whether it is valid; False may also mean unknown."""

    value: Any
    completed: Any
    valid: bool
    unknown: tuple[str, ...] = ()  # paths of fields that are not declared


class SchemaField:
    """One top-level field of a schema. Each value of it is completed and checked once, as revisions share values."""

    def __init__(self, schema: Json) -> None:
        self._default, self._prune = compile_defaults(schema), compile_pruning(schema)
        self.rewrites = self._default is not None or self._prune is not None
        self._passes = compile_fast_path(schema)
        self.known: Cache[int, _CheckedValue] = Cache(SCHEMA_FIELDS)  # what was checked, by the identity of the value
        self.is_valid: Test = self._is_cached_valid if not _NESTED.isdisjoint(schema) else self._passes
        """Whether a value is complete and valid; False may also mean unknown. Scalars are not worth caching."""

    def _is_cached_valid(self, value: Any) -> bool:
        return (self.known.get(id(value)) or self.checked(value)).valid

    def checked(self, value: Any) -> _CheckedValue:
        """What is known of the value, the identical for identical values."""
        if (known := self.known.get(id(value))) is not None:
            return known
        if self._passes(value):
            known = _CheckedValue(value, value, True)
        else:
            unknown = () if self._prune is None else tuple(dropped_fields(value, self._prune(value)))
            known = _CheckedValue(value, self._rewritten(value), False, unknown)
        self.known.put(id(value), known)
        return known

    def _rewritten(self, value: Any) -> Any:
        value = value if self._default is None else self._default(value)
        return value if self._prune is None else self._prune(value)
