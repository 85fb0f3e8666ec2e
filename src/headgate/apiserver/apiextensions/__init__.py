"""Custom resources: which CustomResourceDefinitions are valid, and how their objects are completed and validated."""

from headgate.apiserver.apiextensions.custom_resources import resource_types_of
from headgate.apiserver.apiextensions.definitions import (
    Definition,
    default_definition,
    definition_errors,
    definition_update_errors,
)

__all__ = [
    "Definition",
    "default_definition",
    "definition_errors",
    "definition_update_errors",
    "resource_types_of",
]
