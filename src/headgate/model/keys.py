"""What objects of every kind have: kind and key, conditions, and the exact object a write is decided on."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Kind(StrEnum):
    """Every kind the engine reads or writes, by its full resource name (unique across API groups)."""

    POD = "pods"
    NODE = "nodes"
    NAMESPACE = "namespaces"
    JOB = "jobs.batch"
    CRON_JOB = "cronjobs.batch"
    PRIORITY_CLASS = "priorityclasses.scheduling.k8s.io"
    DISRUPTION_BUDGET = "poddisruptionbudgets.policy"
    VOLUME_CLAIM = "persistentvolumeclaims"
    VOLUME = "persistentvolumes"
    STORAGE_CLASS = "storageclasses.storage.k8s.io"
    CSI_NODE = "csinodes.storage.k8s.io"
    DEVICE_CLAIM = "resourceclaims.resource.k8s.io"
    SERVICE = "services"
    REPLICATION_CONTROLLER = "replicationcontrollers"
    REPLICA_SET = "replicasets.apps"
    STATEFUL_SET = "statefulsets.apps"
    DEPLOYMENT = "deployments.apps"
    LIMIT_RANGE = "limitranges"
    RUNTIME_CLASS = "runtimeclasses.node.k8s.io"
    WORKLOAD = "workloads.scheduling.headgate.dev"
    POD_GROUP = "podgroups.scheduling.k8s.io"
    VOLCANO_POD_GROUP = "podgroups.scheduling.volcano.sh"
    VOLCANO_QUEUE = "queues.scheduling.volcano.sh"
    KUEUE_WORKLOAD = "workloads.kueue.x-k8s.io"
    CLUSTER_QUEUE = "clusterqueues.kueue.x-k8s.io"
    LOCAL_QUEUE = "localqueues.kueue.x-k8s.io"
    COHORT = "cohorts.kueue.x-k8s.io"
    RESOURCE_FLAVOR = "resourceflavors.kueue.x-k8s.io"
    WORKLOAD_PRIORITY_CLASS = "workloadpriorityclasses.kueue.x-k8s.io"
    ADMISSION_CHECK = "admissionchecks.kueue.x-k8s.io"
    MULTIKUEUE_CLUSTER = "multikueueclusters.kueue.x-k8s.io"
    MULTIKUEUE_CONFIG = "multikueueconfigs.kueue.x-k8s.io"


class Key(Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """An object's place in a cluster; the namespace is empty for cluster-wide kinds."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}" if self.namespace else f"{self.kind}/{self.name}"


class Target(Struct, frozen=True, gc=False):
    """The very object a write was decided on. A write to any other incarnation must be refused.

    `version` (the resourceVersion) is set only where an unseen change would make the write wrong.
    """

    key: Key
    uid: str
    version: str = ""


class Condition(Struct, frozen=True, gc=False, cache_hash=True):
    type: str
    status: str
    reason: str
    message: str
    at: float  # when its status last changed
    generation: int | None = None  # of the object it was said of, where that is told
