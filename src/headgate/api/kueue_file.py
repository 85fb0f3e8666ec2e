"""Kueue's own configuration file: what becomes of each of its fields here.

A field is applied; or it does not apply, because it says how Kueue itself is served and no decision depends on it; or
it is refused, because it would change decisions and what it asks for is not built. docs/queues.md shows the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from headgate.api.errors import InvalidField

GROUP = "config.kueue.x-k8s.io"
VERSIONS = ("v1beta1", "v1beta2")


class Fate(StrEnum):
    """What becomes of a field."""

    APPLIED = "applied"
    NOT_APPLICABLE = "does not apply"
    REFUSED = "refused"


class ConfigurationField(Struct, frozen=True):
    """A field by its path, or all fields below it; `why` says where the same is configured, or what is not built."""

    path: str
    fate: Fate
    why: str = ""


def _applied(section: str, *names: str) -> Iterator[ConfigurationField]:
    return (ConfigurationField(_join(section, name), Fate.APPLIED) for name in names)


def _elsewhere(why: str, section: str, *names: str) -> Iterator[ConfigurationField]:
    return (ConfigurationField(_join(section, name), Fate.NOT_APPLICABLE, why) for name in names)


def _refused(why: str, path: str) -> ConfigurationField:
    return ConfigurationField(path, Fate.REFUSED, why)


def _join(section: str, name: str) -> str:
    return f"{section}.{name}" if section else name


FIELDS: tuple[ConfigurationField, ...] = (
    *_applied("", "apiVersion", "kind", "manageJobsWithoutQueueName", "managedJobsNamespaceSelector", "featureGates"),
    *_applied("waitForPodsReady", "enable", "timeout", "blockAdmission", "recoveryTimeout", "requeuingStrategy"),
    *_applied("integrations", "frameworks", "labelKeysToCopy"),
    *_applied("fairSharing", "enable", "preemptionStrategies"),
    *_applied("admissionFairSharing", "usageHalfLifeTime", "usageSamplingInterval", "resourceWeights"),
    *_applied("resources", "quotaCheckStrategy", "excludeResourcePrefixes", "transformations"),
    *_applied("objectRetentionPolicies", "workloads"),
    *_applied("metrics", "enableClusterQueueResources", "localQueueMetrics"),
    *_applied("multiKueue", "gcInterval", "origin", "workerLostTimeout", "dispatcherName"),
    *_applied("multiKueue", "incrementalDispatcherConfig", "singleClusterPreemptionTimeout"),
    *_elsewhere("the namespace of the lease and of the webhooks' Service is told to the command", "", "namespace"),
    *_elsewhere("headgate run --webhook-listen, headgate install", "webhook", "port", "host", "certDir"),
    *_elsewhere(
        "headgate run --leader-elect",
        "leaderElection",
        *("leaderElect", "leaseDuration", "renewDeadline", "retryPeriod"),
        *("resourceLock", "resourceName", "resourceNamespace"),
    ),
    *_elsewhere("headgate run --listen", "metrics", "bindAddress"),
    *_elsewhere("metrics have Kueue's labels only", "metrics", "customLabels"),
    *_elsewhere(
        "headgate run --listen",
        "health",
        *("healthProbeBindAddress", "readinessEndpointName", "livenessEndpointName"),
    ),
    *_elsewhere("there is no such server", "", "pprofBindAddress"),
    *_elsewhere("one loop decides everything", "controller", "groupKindConcurrency", "cacheSyncTimeout"),
    *_elsewhere("TLS is as Python's defaults have it", "tls", "minVersion", "cipherSuites", "curvePreferences"),
    *_elsewhere(
        "headgate install --service", "internalCertManagement", "enable", "webhookServiceName", "webhookSecretName"
    ),
    *_elsewhere("writes are limited by what the server answers", "clientConnection", "qps", "burst"),
    *_elsewhere("there is no visibility API", "visibilityServer", "bindAddress", "bindPort"),
    *_elsewhere("there is no visibility API", "queueVisibility", "clusterQueues", "updateIntervalSeconds"),
    _refused("jobs of other kinds are not supported, and would run without quota", "integrations.externalFrameworks"),
    _refused("use managedJobsNamespaceSelector; pods cannot be selected by their labels", "integrations.podOptions"),
    _refused("quota of device classes is not supported", "resources.deviceClassMappings"),
    _refused("only Jobs, pods and StatefulSets are sent to worker clusters", "multiKueue.externalFrameworks"),
    _refused("worker clusters are reached by kubeconfigs only", "multiKueue.clusterProfile"),
)
"""Every field of v1beta1 and v1beta2."""

BUILT: tuple[str, ...] = (
    *("AdmissionFairSharing", "AdmissionGatedBy", "AssignQueueLabelsForPods", "FairSharingPreemptWithinNominal"),
    *("FairSharingPrioritizeNonBorrowing", "FinishOrphanedWorkloads", "FlavorFungibility", "HierarchicalCohorts"),
    *("FlavorFungibilityPreserveScanProgress", "KueueDRARejectWorkloadsWhenDRADisabled", "ObjectRetentionPolicies"),
    *("ManagedJobsNamespaceSelectorAlwaysRespected", "PartialAdmission", "PriorityBoost"),
    *("PrioritySortingWithinCohort", "QuotaCheckStrategy", "ReclaimablePods"),
    *("RecomputeAssignmentUponPreemptionTargetsOverlap", "WorkloadPriorityClassDefaulting"),
)
"""Feature gates of Kueue that decisions here are made with; they cannot be turned off."""

NOT_BUILT: tuple[str, ...] = (
    *("ConcurrentAdmission", "ElasticJobsViaWorkloadSlices", "ElasticJobsViaWorkloadSlicesWithTAS"),
    *("KueueDRAIntegration", "KueueDRAIntegrationConsumableCapacity", "KueueDRAIntegrationExtendedResource"),
    *("KueueDRAIntegrationPartitionableDevices", "MultiKueueAllowInsecureKubeconfigs", "MultiKueueClusterProfile"),
    *("MultiKueueManagerQuotaAutomation", "PrioritizePreemptorWorkloads", "SparkApplicationIntegration"),
    "TopologyAwareScheduling",
)
"""Feature gates of Kueue that would change decisions and are not built; they cannot be turned on."""

WITHOUT_EFFECT: tuple[str, ...] = (
    *("CleanupProvisioningRequestsOnEviction", "CustomMetricLabels", "DeferRayServiceFinalizationForRedisCleanup"),
    *("LWSImmutableGroupSize", "LocalQueueMetrics", "MetricForWorkloadCreationLatency", "MetricsForCohorts"),
    *("MultiKueue", "MultiKueueAdaptersForCustomJobs", "MultiKueueIncrementalDispatcherConfig"),
    *("MultiKueueIncrementalDispatcherRespectConfigOrder", "MultiKueueKubeConfigPathValidation"),
    *("MultiKueueRedoAdmissionOnEvictionInWorker", "MultiKueueRemoteSpecSync", "MultiKueueWaitForWorkloadAdmitted"),
    *("PodIntegrationValidateGroupOwner", "PropagateBatchJobLabelsToWorkload", "RemoveFinalizersWithStrictPatch"),
    *("RejectUpdatesToCQWithInvalidOnFlavors", "SchedulerLibraryIntegration", "SchedulerLongRequeueInterval"),
    *("SchedulerTimestampPreemptionBuffer", "SchedulingEquivalenceHashing", "ShortWorkloadNames"),
    *("SkipAncestorCheckForDeletedWorkloads", "SkipFinalizersForPodsSuspendedByParent"),
    *("SkipReassignmentForPodOwnedWorkloads", "TASAssignmentsEncodingByHostnamePrefix", "TASBalancedPlacement"),
    *("TASCacheNodeMatchResults", "TASCacheTopologyTree", "TASCachingRemainingResources"),
    *("TASFailedNodeReplacement", "TASFailedNodeReplacementFailFast", "TASHandleOverlappingFlavors"),
    *("TASMultiLayerTopology", "TASProfileMixed", "TASRecomputeAssignmentWithinSchedulingCycle"),
    *("TASReplaceNodeDueToNotReadyOverFixedTime", "TASReplaceNodeOnNodeTaints", "TASReplaceNodeOnPodTermination"),
    *("TASRespectNodeAffinityPreferred", "TASValidateWorkloadSliceSize", "TLSOptions"),
    *("UnadmittedWorkloadsExplicitStatus", "UnadmittedWorkloadsObservability", "ValidateRayAndSparkJobUpdates"),
    *("VectorizedResourceRequests", "VisibilityOnDemand", "WorkloadIdentifierAnnotations"),
    *("WorkloadRequestUseMergePatch", "WorkloadValidateResourcesAreNonNegative"),
    "WorkloadValidationForPodSetMetadata",
)
"""Feature gates of Kueue that change no decision here: of what is not supported anyway, of metrics, of its insides."""

ALIASES = {"FastQuotaReleaseInPodIntegration": "PodIntegrationFastQuotaRelease"}
"""Feature gates that have another name here."""

_BY_PATH = {field.path: field for field in FIELDS}
_SECTIONS = frozenset(field.path.rpartition(".")[0] for field in FIELDS) - {""}
_APPLIED_SECTIONS = frozenset(field.path.rpartition(".")[0] for field in FIELDS if field.fate is Fate.APPLIED)
_OLD_TIMEOUT = "5m"  # of v1beta1, where waitForPodsReady is enabled


class KueueFile(Struct, frozen=True):
    """The file in our layout, and the paths of its fields that do not apply, which are listed at the start."""

    document: Mapping[str, Any]
    not_applied: tuple[str, ...] = ()


def is_kueue_file(document: object) -> bool:
    return isinstance(document, Mapping) and str(document.get("apiVersion", "")).startswith(f"{GROUP}/")


def read_kueue_file(document: Mapping[str, Any]) -> KueueFile:
    """The file without what does not apply; raises InvalidField for what is refused. Unknown fields stay in it."""
    version = str(document["apiVersion"]).removeprefix(f"{GROUP}/")
    if version not in VERSIONS:
        raise InvalidField("apiVersion", f"expected {GROUP}/{' or '.join(VERSIONS)}, got {document['apiVersion']!r}")
    not_applied: list[str] = []
    kept = _walked(document, "", not_applied)
    gates = kept.get("featureGates")
    kept["featureGates"] = _gates(gates, not_applied) if isinstance(gates, Mapping) else {}
    _with_enabled_sections(kept, version)
    return KueueFile(kept, tuple(not_applied))


def _walked(section: Mapping[str, Any], path: str, not_applied: list[str]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in section.items():
        here = _join(path, str(name))
        field = _BY_PATH.get(here)
        if field is None and here in _SECTIONS:
            below = _walked(value, here, not_applied) if isinstance(value, Mapping) else value
            if here in _APPLIED_SECTIONS:
                kept[name] = below
        elif field is None and path and path not in _APPLIED_SECTIONS:
            known = ", ".join(one.path.rpartition(".")[2] for one in FIELDS if one.path.rpartition(".")[0] == path)
            raise InvalidField(here, f"expected one of {known}")
        elif field is None or field.fate is Fate.APPLIED:
            kept[name] = value
        elif field.fate is Fate.NOT_APPLICABLE:
            not_applied.append(here)
        elif value:
            raise InvalidField(here, f"expected nothing, because {field.why}")
    return kept


def _gates(given: Mapping[str, Any], not_applied: list[str]) -> dict[str, Any]:
    """The gates that there are here; a gate that is set to what cannot be otherwise says nothing."""
    kept: dict[str, Any] = {}
    for gate, state in given.items():
        path = f"featureGates.{gate}"
        if gate in BUILT and state is False:
            raise InvalidField(path, "expected true, because it cannot be turned off")
        if gate in NOT_BUILT and state is True:
            raise InvalidField(path, "expected false, because it is not supported")
        if gate in WITHOUT_EFFECT:
            not_applied.append(path)
        elif gate not in BUILT and gate not in NOT_BUILT:
            kept[ALIASES.get(gate, gate)] = state
    return kept


def _with_enabled_sections(kept: dict[str, Any], version: str) -> None:
    """In v1beta1 fair sharing and waitForPodsReady are off unless they are enabled; v1beta2 has no such field."""
    if version != VERSIONS[0]:
        return
    sharing, waiting = kept.get("fairSharing"), kept.get("waitForPodsReady")
    if isinstance(sharing, Mapping):
        if sharing.get("enable") is True:
            kept["fairSharing"] = {name: value for name, value in sharing.items() if name != "enable"}
        else:
            del kept["fairSharing"]
    if isinstance(waiting, Mapping) and waiting.get("enable") is True:
        rest = {name: value for name, value in waiting.items() if name != "enable"}
        kept["waitForPodsReady"] = {"timeout": _OLD_TIMEOUT, "blockAdmission": True, **rest}
    else:
        kept.pop("waitForPodsReady", None)
        kept["featureGates"] = {"DisableWaitForPodsReady": True, **kept["featureGates"]}
