"""What an object of a built-in kind is completed with before it is validated and stored."""

from headgate.apiserver.defaulting.fields import cached_quantity, with_canonical_quantities, with_metadata_trimmed
from headgate.apiserver.defaulting.kinds import (
    CONTROLLER_UID,
    GENERATED_LABELS,
    JOB_NAME,
    NAME_LABELS,
    UID_LABELS,
    default_job,
    default_namespace,
    default_node,
    default_priority_class,
    default_secret,
    labelled_job,
    new_budget,
    new_job,
    new_namespace,
    update_namespace,
)
from headgate.apiserver.defaulting.pods import Nanos, default_pod, nanos_of, new_pod, pod_total
from headgate.apiserver.defaulting.workloads import default_deployment, default_replica_set, default_stateful_set

__all__ = [
    "CONTROLLER_UID",
    "GENERATED_LABELS",
    "JOB_NAME",
    "NAME_LABELS",
    "UID_LABELS",
    "Nanos",
    "cached_quantity",
    "default_deployment",
    "default_job",
    "default_namespace",
    "default_node",
    "default_pod",
    "default_priority_class",
    "default_replica_set",
    "default_secret",
    "default_stateful_set",
    "labelled_job",
    "nanos_of",
    "new_budget",
    "new_job",
    "new_namespace",
    "new_pod",
    "pod_total",
    "update_namespace",
    "with_canonical_quantities",
    "with_metadata_trimmed",
]
