"""CustomResourceDefinitions: their types, their defaults, and the rules on names, versions and schemas."""

from __future__ import annotations

import re

import msgspec
from msgspec import field

from headgate.apiserver.apiextensions.structural import SchemaProps, structural_errors
from headgate.apiserver.caches import CHECKED_SCHEMAS, memoized
from headgate.apiserver.field_errors import FieldError, invalid, invalid_each, not_supported, quote, required, unchanged
from headgate.apiserver.messages import Json
from headgate.apiserver.validation import (
    ApiType,
    NameValidator,
    ObjectMeta,
    metadata_errors,
    metadata_update_errors,
    typed,
)
from headgate.model.names import dns_subdomain_errors


def default_definition(definition: Json) -> Json:
    """The definition with singular, listKind and conversion strategy defaulted."""
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    kind = names.get("kind") or ""
    derived = {"singular": names.get("singular") or kind.lower(), "listKind": names.get("listKind") or f"{kind}List"}
    conversion = spec.get("conversion") or {"strategy": "None"}
    return {**definition, "spec": {**spec, "names": {**names, **derived}, "conversion": conversion}}


class VersionSchema(ApiType, frozen=True):
    open_api_schema: SchemaProps | None = field(default=None, name="openAPIV3Schema")


class Subresources(ApiType, frozen=True):
    status: Json | None = None
    scale: Json | None = None


class Version(ApiType, frozen=True):
    name: str | None = None
    served: bool | None = None
    storage: bool | None = None
    schema: VersionSchema | None = None
    subresources: Subresources | None = None


class Names(ApiType, frozen=True):
    plural: str | None = None
    singular: str | None = None
    kind: str | None = None
    list_kind: str | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class DefinitionSpec(ApiType, frozen=True):
    group: str | None = None
    scope: str | None = None
    names: Names | None = None
    versions: list[Version] | None = None


class Definition(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    spec: DefinitionSpec | None = None


APPROVED = "api-approved.kubernetes.io"
_APPROVAL_PROCESS = "https://github.com/kubernetes/enhancements/pull/1111"
_SCOPES = ("Cluster", "Namespaced")
_LABEL = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?").fullmatch
_WRONG_LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character "
    "(e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def definition_errors(new: Json) -> list[FieldError]:
    definition = typed(new, Definition)
    metadata, spec = definition.metadata or ObjectMeta(), definition.spec or DefinitionSpec()
    errors = metadata_errors(metadata, _name_rule(spec), namespaced=False)
    return errors + _spec_errors(new.get("spec") or {}, spec) + _approval_errors(metadata, spec)


def _name_rule(spec: DefinitionSpec) -> NameValidator:
    wanted = f"{(spec.names or Names()).plural or ''}.{spec.group or ''}"

    def check(name: str) -> tuple[str, ...]:
        other = ('must be spec.names.plural+"."+spec.group',) if name != wanted else ()
        return (*dns_subdomain_errors(name), *other)

    return check


def definition_update_errors(new: Json, old: Json) -> list[FieldError]:
    definition = typed(new, Definition)
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    errors = metadata_update_errors(new["metadata"], old["metadata"], definition.metadata or ObjectMeta())
    errors += _spec_errors(spec, definition.spec or DefinitionSpec())
    names, old_names = spec.get("names") or {}, was.get("names") or {}
    errors += unchanged("spec.scope", spec.get("scope"), was.get("scope"))
    errors += unchanged("spec.names.kind", names.get("kind"), old_names.get("kind"))
    errors += unchanged("spec.group", spec.get("group"), was.get("group"))
    return errors + unchanged("spec.names.plural", names.get("plural"), old_names.get("plural"))


def _spec_errors(raw: Json, spec: DefinitionSpec) -> list[FieldError]:
    errors = _group_errors(spec.group or "")
    if not spec.scope:
        errors.append(required("spec.scope"))
    elif spec.scope not in _SCOPES:
        errors.append(not_supported("spec.scope", spec.scope, _SCOPES))
    versions = spec.versions or []
    errors += _version_errors(raw, versions)
    errors += _schema_errors(versions)
    return errors + _names_errors(spec.names or Names())


def _group_errors(group: str) -> list[FieldError]:
    if not group:
        return [required("spec.group")]
    wrong = dns_subdomain_errors(group)
    if wrong:
        return [invalid("spec.group", group, ",".join(wrong))]
    return [] if "." in group else [invalid("spec.group", group, "should be a domain with at least one dot")]


def _label_errors(path: str, name: str) -> list[FieldError]:
    wrong = [] if len(name) <= 63 else ["must be no more than 63 bytes"]
    wrong += [] if _LABEL(name) else [_WRONG_LABEL]
    return [invalid(path, name, ",".join(wrong))] if wrong else []


def _version_errors(raw: Json, versions: list[Version]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, version in enumerate(versions):
        errors += _label_errors(f"spec.versions[{index}].name", version.name or "")
    names = [version.name for version in versions]
    if len(set(names)) != len(names):
        errors.append(invalid("spec.versions", raw.get("versions"), "must contain unique version names"))
    if sum(bool(version.storage) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        errors.append(invalid("spec.versions", raw.get("versions"), detail))
    return errors


def _schema_errors(versions: list[Version]) -> list[FieldError]:
    """Errors of the schemas. A real server moves a schema that all versions share to spec.validation and reports it
    there.
    """
    schemas = [version.schema.open_api_schema if version.schema else None for version in versions]
    errors = [
        required(f"spec.versions[{index}].schema.openAPIV3Schema")
        for index, schema in enumerate(schemas)
        if schema is None
    ]
    if schemas and all(schema == schemas[0] for schema in schemas):
        return errors + _one_schema_errors("spec.validation.openAPIV3Schema", schemas[0])
    for index, schema in enumerate(schemas):
        errors += _one_schema_errors(f"spec.versions[{index}].schema.openAPIV3Schema", schema)
    return errors


def _one_schema_errors(path: str, schema: SchemaProps | None) -> list[FieldError]:
    return [] if schema is None else list(_encoded_schema_errors(path, msgspec.json.encode(schema)))


@memoized(CHECKED_SCHEMAS)
def _encoded_schema_errors(path: str, encoded: bytes) -> tuple[FieldError, ...]:
    return tuple(structural_errors(path, msgspec.json.decode(encoded, type=SchemaProps)))


def _names_errors(names: Names) -> list[FieldError]:
    errors: list[FieldError] = []
    mixed = "may have mixed case, but should otherwise match: "
    for part, name in (("plural", names.plural), ("singular", names.singular)):
        errors += _label_errors(f"spec.names.{part}", name) if name else [required(f"spec.names.{part}")]
    for part, name in (("kind", names.kind), ("listKind", names.list_kind)):
        path = f"spec.names.{part}"
        wrong = _label_errors(path, name.lower()) if name else [required(path)]
        errors += invalid_each(path, name, [mixed + error.detail for error in wrong]) if name else wrong
    if names.kind and names.kind == names.list_kind:
        errors.append(invalid("spec.names.listKind", names.list_kind, "kind and listKind may not be the same"))
    for part, many in (("shortNames", names.short_names), ("categories", names.categories)):
        for index, name in enumerate(many or ()):
            errors += _label_errors(f"spec.names.{part}[{index}]", name)
    return errors


def _approval_errors(metadata: ObjectMeta, spec: DefinitionSpec) -> list[FieldError]:
    """Definitions in Kubernetes' own groups need an approval annotation."""
    group = f".{spec.group}"
    if not group.endswith((".k8s.io", ".kubernetes.io")) or (metadata.annotations or {}).get(APPROVED):
        return []
    detail = f"protected groups must have approval annotation {quote(APPROVED)}, see {_APPROVAL_PROCESS}"
    return [required(f"metadata.annotations[{APPROVED}]", detail)]
