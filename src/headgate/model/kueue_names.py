"""The labels, annotations, gates and finalizers by which work and its queues know each other."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

_DOMAIN = "kueue.x-k8s.io"

# Labels of jobs and pods.
QUEUE_NAME = f"{_DOMAIN}/queue-name"
PRIORITY_CLASS = f"{_DOMAIN}/priority-class"
MAX_EXECUTION_SECONDS = f"{_DOMAIN}/max-exec-time-seconds"
PREBUILT_WORKLOAD = f"{_DOMAIN}/prebuilt-workload-name"  # also an annotation
MANAGED = f"{_DOMAIN}/managed"  # also the finalizer of pods that hold quota
MANAGED_VALUE = "true"
GROUP_NAME = f"{_DOMAIN}/pod-group-name"  # also an annotation

# Labels we set on pods when they start, and on Workloads.
POD_SET = f"{_DOMAIN}/podset"
CLUSTER_QUEUE_NAME = f"{_DOMAIN}/cluster-queue-name"
LOCAL_QUEUE_NAME = f"{_DOMAIN}/local-queue-name"
OURS_ON_PODS = (POD_SET, CLUSTER_QUEUE_NAME, LOCAL_QUEUE_NAME)
JOB_UID = f"{_DOMAIN}/job-uid"

# On worker clusters.
MULTIKUEUE_ORIGIN = f"{_DOMAIN}/multikueue-origin"
"""The label of what a manager cluster created; its value says which."""

ORIGIN_UID = f"{_DOMAIN}/multikueue-origin-uid"
"""The annotation of a clone that says of which object it is one."""
OPENED_GATE = "scheduling.headgate.dev/opened-preemption-gate"
"""The annotation of a Workload at home that says on which worker cluster its gate is opened, and since when."""

# Annotations.
GROUP_TOTAL = f"{_DOMAIN}/pod-group-total-count"
FAST_ADMISSION = f"{_DOMAIN}/pod-group-fast-admission"
SERVING = f"{_DOMAIN}/pod-group-serving"
RETRIABLE = f"{_DOMAIN}/retriable-in-group"
ROLE_HASH = f"{_DOMAIN}/role-hash"
JOB_OWNER_KIND, JOB_OWNER_NAME = f"{_DOMAIN}/job-owner-gvk", f"{_DOMAIN}/job-owner-name"
IS_GROUP_WORKLOAD = f"{_DOMAIN}/is-group-workload"
SUSPENDED_BY_PARENT = f"{_DOMAIN}/pod-suspending-parent"
MIN_PARALLELISM = f"{_DOMAIN}/job-min-parallelism"
COMPLETIONS_EQUAL_PARALLELISM = f"{_DOMAIN}/job-completions-equal-parallelism"
ELASTIC_JOB = f"{_DOMAIN}/elastic-job"  # on a job, and on its Workload
SLICE_OF = f"{_DOMAIN}/workload-slice-replacement-for"  # on a Workload: one of an elastic job that is resized
ALLOWED_FLAVORS = f"{_DOMAIN}/workload-allowed-resource-flavors"  # on a Workload: a variant of concurrent admission
REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY = f"{_DOMAIN}/podset-required-topology", f"{_DOMAIN}/podset-preferred-topology"
UNCONSTRAINED_TOPOLOGY = f"{_DOMAIN}/podset-unconstrained-topology"
SLICE_TOPOLOGY = f"{_DOMAIN}/podset-slice-required-topology"
STOPPING = f"{_DOMAIN}/stopping"  # on a Job whose template is still to be put back
FLAVORS = "scheduling.headgate.dev/flavors"  # on started pods: what their quota was taken from

ADMISSION_GATE = f"{_DOMAIN}/admission"
"""The scheduling gate of pods that wait for quota."""
TOPOLOGY_GATE = f"{_DOMAIN}/topology"
GATES = frozenset({ADMISSION_GATE, TOPOLOGY_GATE})
IN_USE = f"{_DOMAIN}/resource-in-use"
"""The finalizer of what queues depend on, and of Workloads whose work may still run."""

MULTIKUEUE = f"{_DOMAIN}/multikueue"
"""The controller of admission checks and jobs that run on worker clusters, and the preemption gate of their clones."""

DEFAULT_QUEUE = "default"
"""The local queue that work of its namespace gets which names none."""
DEFAULT_CLASS = "default"
"""The WorkloadPriorityClass that managed work gets which names none."""


def positive(values: Mapping[str, str], name: str) -> int | None:
    """The number above zero found under that name; anything else counts as not said."""
    text = values.get(name, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    return number or None


LONGEST = 253
_HASHED = 5  # hex digits


def workload_name(kind: str, group: str, name: str, uid: str) -> str:
    """Kind and name, cut where they are too long, and a hash of who the owner is."""
    digest = hashlib.sha1("\n".join((kind, group, name, uid)).encode(), usedforsecurity=False).hexdigest()
    prefix = f"{kind.lower()}-{name}"[: LONGEST - _HASHED - 1]
    return f"{prefix}-{digest[:_HASHED]}"


def stateful_set_workload(name: str, uid: str, labels: Mapping[str, str]) -> str:
    """What the Workload of a StatefulSet is called, and the group its pods make; a prebuilt one has its own name."""
    return labels.get(PREBUILT_WORKLOAD) or workload_name("StatefulSet", "apps", name, uid)
