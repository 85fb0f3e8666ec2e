"""Kueue's configuration: what becomes of each field of its own file, and its sections about quota, which ours has too.

A field of Kueue's file is applied; or it does not apply, because it says how Kueue itself is served and no decision
depends on it; or it is refused, because it would change decisions and what it asks for is not built. docs/queues.md
shows the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from headgate.api.amounts import resources_at
from headgate.api.wire import Amounts, InvalidField, duration_field
from headgate.model.names import qualified_name_errors
from headgate.model.selectors import InvalidSelector, Requirement, label_selector, selects
from headgate.model.settings import (
    BY_PODS,
    DEFAULT_FAIR,
    FRAMEWORKS,
    NAMESPACE_NAME,
    RESOURCE_WEIGHT,
    SYSTEM_NAMESPACES,
    FairStrategy,
    PodsReady,
    QuotaMetrics,
    QuotaRelease,
    QuotaSettings,
    RequeueTime,
    Retention,
    Transformation,
    UsageSharing,
)

GROUP = "config.kueue.x-k8s.io"
VERSIONS = ("v1beta1", "v1beta2")

Count = Annotated[int, Meta(ge=0)]


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


class Section(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Part of a file in which nothing unknown is passed over."""


class RequeuingSection(Section, frozen=True):
    timestamp: RequeueTime | None = None
    backoff_limit_count: Count | None = None
    backoff_base_seconds: Count | None = None
    backoff_max_seconds: Count | None = None


class PodsReadySection(Section, frozen=True):
    timeout: str | None = None
    block_admission: bool | None = None
    recovery_timeout: str | None = None
    requeuing_strategy: RequeuingSection | None = None


class IntegrationsSection(Section, frozen=True):
    frameworks: tuple[str, ...] | None = None
    label_keys_to_copy: tuple[str, ...] | None = None


class FairSharingSection(Section, frozen=True):
    preemption_strategies: tuple[FairStrategy, ...] | None = None


class UsageSharingSection(Section, frozen=True):
    usage_half_life_time: str | None = None
    usage_sampling_interval: str | None = None
    resource_weights: dict[str, float] | None = None


class LocalQueueMetricsSection(Section, frozen=True):
    enable: bool = False
    local_queue_selector: dict[str, Any] | None = None


class MetricsSection(Section, frozen=True):
    enable_cluster_queue_resources: bool = False
    local_queue_metrics: LocalQueueMetricsSection | None = None


class TransformationSection(Section, frozen=True):
    input: Annotated[str, Meta(min_length=1)]
    strategy: Literal["Retain", "Replace"] | None = None
    multiply_by: str = ""
    outputs: Amounts | None = None


class ResourcesSection(Section, frozen=True):
    quota_check_strategy: Literal["BlockUndeclared", "IgnoreUndeclared"] | None = None
    exclude_resource_prefixes: tuple[str, ...] | None = None
    transformations: tuple[TransformationSection, ...] | None = None


class WorkloadRetentionSection(Section, frozen=True):
    after_finished: str | None = None
    after_deactivated_by_kueue: str | None = None


class RetentionSection(Section, frozen=True):
    workloads: WorkloadRetentionSection | None = None


class QuotaReleaseSection(Section, frozen=True):
    policy: QuotaRelease | None = None
    max_hold: str | None = None


class QuotaSections(Section, frozen=True):
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: dict[str, Any] | None = None
    wait_for_pods_ready: PodsReadySection | None = None
    integrations: IntegrationsSection | None = None
    fair_sharing: FairSharingSection | None = None
    admission_fair_sharing: UsageSharingSection | None = None
    metrics: MetricsSection | None = None
    resources: ResourcesSection | None = None
    object_retention_policies: RetentionSection | None = None
    quota_release: QuotaRelease | QuotaReleaseSection | None = None
    quota_debt_percent: Annotated[int, Meta(ge=0, le=100)] | None = None


def quota_settings(
    read: QuotaSections,
    *,
    preemption_gates: bool,
    fast_release: bool = True,
    recovers_failures: bool = False,
    waits_for_pods: bool = True,
) -> QuotaSettings:
    """What the sections ask for; raises InvalidField."""
    waiting, resources = read.wait_for_pods_ready or PodsReadySection(), read.resources or ResourcesSection()
    requeuing, retention = waiting.requeuing_strategy or RequeuingSection(), read.object_retention_policies
    integrations = read.integrations or IntegrationsSection()
    frameworks = _frameworks(integrations.frameworks)
    release = _release_section(read.quota_release)
    max_hold = duration_field("quotaRelease.maxHold", release.max_hold)
    return QuotaSettings(
        fair=() if read.fair_sharing is None else _fair(read.fair_sharing.preemption_strategies),
        requeue_time=requeuing.timestamp or RequeueTime.EVICTION,
        ignore_undeclared=resources.quota_check_strategy == "IgnoreUndeclared",
        excluded_prefixes=_prefixes(resources.exclude_resource_prefixes or ()),
        transformations=_transformations(resources.transformations or ()),
        preemption_gates=preemption_gates,
        block_admission=waits_for_pods and bool(waiting.block_admission),
        manages_all=read.manage_jobs_without_queue_name,
        namespaces=_namespaces(read.managed_jobs_namespace_selector, frameworks),
        frameworks=frameworks,
        pods_ready=_pods_ready(waiting, requeuing) if waits_for_pods else PodsReady(None, None),
        retention=_retention(retention.workloads if retention else None),
        copied_labels=_label_keys(integrations.label_keys_to_copy or ()),
        quota_release=_release(release.policy, fast_release),
        max_hold=QuotaSettings().max_hold if max_hold is None else max_hold,
        debt_percent=read.quota_debt_percent,
        recovers_failures=recovers_failures,
        usage_sharing=None if read.admission_fair_sharing is None else _usage_sharing(read.admission_fair_sharing),
        metrics=_metrics(read.metrics or MetricsSection()),
    )


def _fair(given: Sequence[FairStrategy] | None) -> tuple[FairStrategy, ...]:
    """The second strategy is weaker than the first: after it, the first would find nobody else."""
    chosen = tuple(given or DEFAULT_FAIR)
    if len(chosen) > 1 and chosen != DEFAULT_FAIR:
        expected = f"expected one of them, or {' and then '.join(DEFAULT_FAIR)}, got {', '.join(chosen)}"
        raise InvalidField("fairSharing.preemptionStrategies", expected)
    return chosen


def _usage_sharing(section: UsageSharingSection) -> UsageSharing:
    path, default = "admissionFairSharing", UsageSharing()
    interval = duration_field(f"{path}.usageSamplingInterval", section.usage_sampling_interval)
    return UsageSharing(
        half_life=duration_field(f"{path}.usageHalfLifeTime", section.usage_half_life_time) or default.half_life,
        interval=interval or default.interval,
        weights=_weights(f"{path}.resourceWeights", section.resource_weights or {}),
    )


def _weights(path: str, given: Mapping[str, float]) -> tuple[tuple[str, int], ...]:
    """Rounded to the trillionth: memory is counted in bytes, so weights may be that small."""
    for name, weight in given.items():
        if not 0 <= weight < math.inf:
            raise InvalidField(f"{path}.{name}", f"expected a number of at least 0, got {weight}")
    return tuple((name, round(Fraction(weight) * RESOURCE_WEIGHT)) for name, weight in sorted(given.items()))


def _metrics(section: MetricsSection) -> QuotaMetrics:
    """Without a selector, metrics of all local queues are served."""
    path, local = "metrics.localQueueMetrics.localQueueSelector", section.local_queue_metrics
    if local is not None and not local.enable:
        return QuotaMetrics(section.enable_cluster_queue_resources, None)
    selector = (local.local_queue_selector if local is not None else None) or {}
    return QuotaMetrics(section.enable_cluster_queue_resources, _requirements(selector, path))


def _frameworks(given: Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        return QuotaSettings().frameworks
    for index, name in enumerate(given):
        path = f"integrations.frameworks[{index}]"
        if name not in FRAMEWORKS:
            raise InvalidField(path, f"expected one of {', '.join(FRAMEWORKS)}, got {name!r}")
        if name in given[:index]:
            raise InvalidField(path, f"expected a framework not listed before, got {name!r}")
    return tuple(given)


def _label_keys(given: Sequence[str]) -> tuple[str, ...]:
    for index, key in enumerate(given):
        if wrong := qualified_name_errors(key):
            raise InvalidField(f"integrations.labelKeysToCopy[{index}]", f"expected the key of a label: {wrong[0]}")
    return tuple(dict.fromkeys(given))


def _namespaces(selector: dict[str, Any] | None, frameworks: Sequence[str]) -> tuple[Requirement, ...]:
    path = "managedJobsNamespaceSelector"
    if selector is None:
        return QuotaSettings().namespaces
    requirements = _requirements(selector, path)
    for name in () if BY_PODS.isdisjoint(frameworks) else SYSTEM_NAMESPACES:
        if selects(requirements, {NAMESPACE_NAME: name}):
            raise InvalidField(path, f"expected a selector that leaves out {name}, as the pod integration is on")
    return requirements


def _requirements(selector: dict[str, Any], path: str) -> tuple[Requirement, ...]:
    _no_others(selector, ("matchLabels", "matchExpressions"), path)
    try:
        return label_selector(selector)
    except InvalidSelector as wrong:
        raise InvalidField(path, str(wrong)) from None


def _no_others(section: Iterable[str], known: Sequence[str], path: str) -> None:
    for name in section:
        if name not in known:
            raise InvalidField(f"{path}.{name}", f"expected one of {', '.join(known)}")


def _prefixes(given: Sequence[str]) -> tuple[str, ...]:
    """An empty prefix would leave out everything."""
    for index, prefix in enumerate(given):
        if not prefix:
            raise InvalidField(f"resources.excludeResourcePrefixes[{index}]", "expected a prefix, got nothing")
    return tuple(given)


def _transformations(given: Sequence[TransformationSection]) -> tuple[Transformation, ...]:
    inputs = [section.input for section in given]
    for index, name in enumerate(inputs):
        if name in inputs[:index]:
            path = f"resources.transformations[{index}].input"
            raise InvalidField(path, f"expected a resource not transformed before, got {name!r}")
    return tuple(
        Transformation(
            source=section.input,
            outputs=resources_at(f"resources.transformations[{index}].outputs", section.outputs),
            keeps=section.strategy != "Replace",
            multiplied_by=section.multiply_by,
        )
        for index, section in enumerate(given)
    )


def _release_section(given: QuotaRelease | QuotaReleaseSection | None) -> QuotaReleaseSection:
    """The policy alone may stand for the section."""
    return given if isinstance(given, QuotaReleaseSection) else QuotaReleaseSection(policy=given)


def _release(given: QuotaRelease | None, fast: bool) -> QuotaRelease:
    """An explicit setting wins over the feature gate."""
    if given is QuotaRelease.FAST and not fast:
        raise InvalidField("quotaRelease", "expected Grace or OnTerminal while PodIntegrationFastQuotaRelease is off")
    return given or (QuotaRelease.FAST if fast else QuotaRelease.GRACE)


def _pods_ready(waiting: PodsReadySection, requeuing: RequeuingSection) -> PodsReady:
    path, default = "waitForPodsReady", PodsReady()
    timeout = duration_field(f"{path}.timeout", waiting.timeout)
    if timeout is not None and timeout == 0:
        raise InvalidField(f"{path}.timeout", f"expected a duration above 0s, got {waiting.timeout!r}")
    timeout = default.timeout if timeout is None else timeout
    recovery = duration_field(f"{path}.recoveryTimeout", waiting.recovery_timeout)
    base, most = requeuing.backoff_base_seconds, requeuing.backoff_max_seconds
    return PodsReady(
        timeout=timeout,
        recovery_timeout=timeout if recovery is None else recovery or None,
        backoff_limit=requeuing.backoff_limit_count,
        backoff_base=default.backoff_base if base is None else base,
        backoff_most=default.backoff_most if most is None else most,
    )


def _retention(section: WorkloadRetentionSection | None) -> Retention:
    path = "objectRetentionPolicies.workloads"
    if section is None:
        return Retention()
    return Retention(
        after_finished=duration_field(f"{path}.afterFinished", section.after_finished),
        after_deactivated=duration_field(f"{path}.afterDeactivatedByKueue", section.after_deactivated_by_kueue),
    )
