"""Where each kind is served: its group, version and names, and the paths of its objects."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct, structs

from headgate.model.keys import Key, Kind


class Resource(Struct, frozen=True, gc=False):
    """A kind as an API server serves it; the group is empty for core kinds.

    A server that does not serve an `optional` kind has none of its objects; of any other kind that is a mistake.
    Of `version` and the `older` ones, newest first, a server serves the kind in at least one.
    """

    kind: Kind
    group: str
    version: str
    plural: str
    kind_name: str
    namespaced: bool
    optional: bool = False
    older: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def _of_kueue(kind: Kind, plural: str, kind_name: str, *, namespaced: bool = False) -> Resource:
    return Resource(kind, "kueue.x-k8s.io", "v1beta2", plural, kind_name, namespaced, optional=True)


_ALL = (
    Resource(Kind.POD, "", "v1", "pods", "Pod", True),
    Resource(Kind.NODE, "", "v1", "nodes", "Node", False),
    Resource(Kind.NAMESPACE, "", "v1", "namespaces", "Namespace", False),
    Resource(Kind.JOB, "batch", "v1", "jobs", "Job", True),
    Resource(Kind.CRON_JOB, "batch", "v1", "cronjobs", "CronJob", True, True),
    Resource(Kind.PRIORITY_CLASS, "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False),
    Resource(Kind.DISRUPTION_BUDGET, "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True),
    Resource(Kind.VOLUME_CLAIM, "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, True),
    Resource(Kind.VOLUME, "", "v1", "persistentvolumes", "PersistentVolume", False, True),
    Resource(Kind.STORAGE_CLASS, "storage.k8s.io", "v1", "storageclasses", "StorageClass", False, True),
    Resource(Kind.CSI_NODE, "storage.k8s.io", "v1", "csinodes", "CSINode", False, True),
    Resource(Kind.DEVICE_CLAIM, "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True, True),
    Resource(Kind.SERVICE, "", "v1", "services", "Service", True, True),
    Resource(Kind.REPLICATION_CONTROLLER, "", "v1", "replicationcontrollers", "ReplicationController", True, True),
    Resource(Kind.REPLICA_SET, "apps", "v1", "replicasets", "ReplicaSet", True, True),
    Resource(Kind.STATEFUL_SET, "apps", "v1", "statefulsets", "StatefulSet", True, True),
    Resource(Kind.DEPLOYMENT, "apps", "v1", "deployments", "Deployment", True, True),
    Resource(Kind.LIMIT_RANGE, "", "v1", "limitranges", "LimitRange", True, True),
    Resource(Kind.RUNTIME_CLASS, "node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False, True),
    Resource(Kind.WORKLOAD, "scheduling.headgate.dev", "v1alpha1", "workloads", "Workload", True, True),
    Resource(Kind.POD_GROUP, "scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", True, True, ("v1alpha2",)),
    Resource(Kind.VOLCANO_POD_GROUP, "scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", True, True),
    Resource(Kind.VOLCANO_QUEUE, "scheduling.volcano.sh", "v1beta1", "queues", "Queue", False, True),
    _of_kueue(Kind.KUEUE_WORKLOAD, "workloads", "Workload", namespaced=True),
    _of_kueue(Kind.CLUSTER_QUEUE, "clusterqueues", "ClusterQueue"),
    _of_kueue(Kind.LOCAL_QUEUE, "localqueues", "LocalQueue", namespaced=True),
    _of_kueue(Kind.COHORT, "cohorts", "Cohort"),
    _of_kueue(Kind.RESOURCE_FLAVOR, "resourceflavors", "ResourceFlavor"),
    _of_kueue(Kind.WORKLOAD_PRIORITY_CLASS, "workloadpriorityclasses", "WorkloadPriorityClass"),
    _of_kueue(Kind.ADMISSION_CHECK, "admissionchecks", "AdmissionCheck"),
    _of_kueue(Kind.MULTIKUEUE_CLUSTER, "multikueueclusters", "MultiKueueCluster"),
    _of_kueue(Kind.MULTIKUEUE_CONFIG, "multikueueconfigs", "MultiKueueConfig"),
)

RESOURCES: Mapping[Kind, Resource] = {resource.kind: resource for resource in _ALL}


def collection_path(resource: Resource, namespace: str = "") -> str:
    """The path to list, watch and create; without a namespace, that of all namespaces."""
    place = f"/namespaces/{namespace}" if namespace and resource.namespaced else ""
    return f"{_root(resource)}{place}/{resource.plural}"


def collection_paths(resource: Resource) -> tuple[str, ...]:
    """The paths under which a server may have its objects, of all namespaces: one for each version, newest first."""
    versions = (resource.version, *resource.older)
    return tuple(collection_path(structs.replace(resource, version=version)) for version in versions)


def object_path(key: Key, subresource: str = "") -> str:
    """The path of one object, or of a subresource of it."""
    place = _place(key.kind, key.namespace)
    return f"{place}/{key.name}/{subresource}" if subresource else f"{place}/{key.name}"


@lru_cache(maxsize=4096)  # bench_queues takes 1.004 times as long without it
def _place(kind: Kind, namespace: str) -> str:
    """Where the objects of a kind are in a namespace: asked for with every write."""
    return collection_path(RESOURCES[kind], namespace)


def _root(resource: Resource) -> str:
    return f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
