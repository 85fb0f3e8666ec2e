"""The JSON types of a CustomResourceDefinition and of the schemas in it."""

from __future__ import annotations

from typing import Any

from msgspec import field

from headgate.apiserver.messages import Json
from headgate.apiserver.validation import ApiType, ObjectMeta


class RuleProps(ApiType, frozen=True):
    """A rule in CEL."""

    rule: str | None = None
    message: str | None = None
    message_expression: str | None = None
    reason: str | None = None
    field_path: str | None = None
    optional_old_self: bool | None = None


class SchemaProps(ApiType, frozen=True):
    """One node of an OpenAPI v3 schema."""

    type: str | None = None
    format: str | None = None
    nullable: bool | None = None
    properties: dict[str, SchemaProps] | None = None
    additional_properties: bool | SchemaProps | None = None
    items: SchemaProps | None = None
    required: list[str] | None = None
    enum: list[Any] | None = None
    default: Any = None
    pattern: str | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    exclusive_minimum: bool | None = None
    exclusive_maximum: bool | None = None
    multiple_of: int | float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    unique_items: bool | None = None
    reference: str | None = field(default=None, name="$ref")
    all_of: list[SchemaProps] | None = None
    any_of: list[SchemaProps] | None = None
    one_of: list[SchemaProps] | None = None
    negated: SchemaProps | None = field(default=None, name="not")
    preserves: bool | None = field(default=None, name="x-kubernetes-preserve-unknown-fields")
    embedded: bool | None = field(default=None, name="x-kubernetes-embedded-resource")
    int_or_string: bool | None = field(default=None, name="x-kubernetes-int-or-string")
    list_type: str | None = field(default=None, name="x-kubernetes-list-type")
    list_map_keys: list[str] | None = field(default=None, name="x-kubernetes-list-map-keys")
    validations: list[RuleProps] | None = field(default=None, name="x-kubernetes-validations")


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
