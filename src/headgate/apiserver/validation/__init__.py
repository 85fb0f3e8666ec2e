"""What is wrong with an object of a built-in kind, at creation, on update and in a status, in a real server's words.

The rules of a kind are functions of the modules `pods`, `jobs`, `workloads`, `rbac`, `policies`, `webhooks` and
`cluster`;
`types` has the JSON types of its fields.
"""

from headgate.apiserver.validation import cluster, jobs, pods, policies, rbac, types, webhooks, workloads
from headgate.apiserver.validation.metadata import (
    NameValidator,
    common_metadata_errors,
    is_unchanged,
    metadata_errors,
    metadata_update_errors,
)
from headgate.apiserver.validation.types import AnyObject, ApiType, ObjectMeta, bad_request, typed

__all__ = [
    "AnyObject",
    "ApiType",
    "NameValidator",
    "ObjectMeta",
    "bad_request",
    "cluster",
    "common_metadata_errors",
    "is_unchanged",
    "jobs",
    "metadata_errors",
    "metadata_update_errors",
    "pods",
    "policies",
    "rbac",
    "typed",
    "types",
    "webhooks",
    "workloads",
]
