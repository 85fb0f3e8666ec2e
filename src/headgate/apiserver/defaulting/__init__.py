"""What an object of a built-in kind is completed with before it is validated and stored."""

from headgate.apiserver.defaulting.fields import with_canonical_quantities, with_metadata_trimmed
from headgate.apiserver.defaulting.kinds import (
    CONTROLLER_UID,
    GENERATED_LABELS,
    JOB_NAME,
    NAME_LABELS,
    UID_LABELS,
    default_config_map,
    default_job,
    default_node,
    default_priority_class,
    new_budget,
    new_job,
    new_namespace,
    update_namespace,
)
from headgate.apiserver.defaulting.pod_resources import Nanos, nanos_of, pod_total
from headgate.apiserver.defaulting.pods import default_pod, new_pod

__all__ = [
    "CONTROLLER_UID",
    "GENERATED_LABELS",
    "JOB_NAME",
    "NAME_LABELS",
    "UID_LABELS",
    "Nanos",
    "default_config_map",
    "default_job",
    "default_node",
    "default_pod",
    "default_priority_class",
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
