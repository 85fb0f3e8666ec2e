"""Defaults of Jobs, Deployments and such, nodes, namespaces, priority classes, disruption budgets and secrets."""

from __future__ import annotations

from base64 import b64encode

from headgate.apiserver.defaulting.fields import JOB_SPEC, with_canonical_quantities, without_unknown
from headgate.apiserver.defaulting.pods import default_pod_template
from headgate.apiserver.messages import Json

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
NAME_LABELS = ("job-name", JOB_NAME)
UID_LABELS = ("controller-uid", CONTROLLER_UID)
GENERATED_LABELS = (*NAME_LABELS, *UID_LABELS)
_UNLIMITED = 2**31 - 1

_ROLLING_UPDATE: Json = {"maxUnavailable": "25%", "maxSurge": "25%"}
_KEEPS_CLAIMS: Json = {"whenDeleted": "Retain", "whenScaled": "Retain"}


def default_job(job: Json) -> Json:
    """The Job with counts, pod template and labels defaulted; idempotent."""
    return labelled_job(_completed(job))


def _completed(job: Json) -> Json:
    spec = _with_counts(without_unknown(job.get("spec") or {}, JOB_SPEC))
    spec["template"] = default_pod_template(spec.get("template") or {})
    return {**job, "spec": spec}


def new_job(job: Json) -> Json:
    """A new Job: defaulted, with its generated selector and labels, without status."""
    return {**labelled_job(_with_selector(_completed(job))), "status": {}}


def _with_counts(spec: Json) -> Json:
    whole = dict(spec)
    if spec.get("parallelism") is None:
        whole["parallelism"] = 1
        if spec.get("completions") is None:
            whole["completions"] = 1
    unlimited = spec.get("backoffLimitPerIndex") is not None
    replacement = "Failed" if spec.get("podFailurePolicy") is not None else "TerminatingOrFailed"
    defaults = {
        "backoffLimit": _UNLIMITED if unlimited else 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "manualSelector": False,
        "podReplacementPolicy": replacement,
    }
    whole.update({name: value for name, value in defaults.items() if spec.get(name) is None})
    return whole


def labelled_job(job: Json) -> Json:
    """A Job without labels gets those of its template."""
    labels = (job["spec"]["template"].get("metadata") or {}).get("labels")
    if not labels or job["metadata"].get("labels"):
        return job
    return {**job, "metadata": {**job["metadata"], "labels": labels}}


def _with_selector(job: Json) -> Json:
    """The Job with the generated selector and template labels, unless manualSelector is set.

    Labels that are already set are kept; validation refuses contradicting ones.
    """
    spec, metadata = job["spec"], job["metadata"]
    if spec["manualSelector"]:
        return job
    template, selector = spec["template"], spec.get("selector") or {}
    of_template = template.get("metadata") or {}
    generated = dict.fromkeys(NAME_LABELS, metadata.get("name")) | dict.fromkeys(UID_LABELS, metadata.get("uid"))
    labels = generated | (of_template.get("labels") or {})
    wanted = {CONTROLLER_UID: metadata.get("uid")} | (selector.get("matchLabels") or {})
    selecting = {
        "selector": {**selector, "matchLabels": wanted},
        "template": {**template, "metadata": {**of_template, "labels": labels}},
    }
    return {**job, "spec": spec | selecting}


NAME_LABEL = "kubernetes.io/metadata.name"
_KUBERNETES = "kubernetes"
_UNKNOWN_SYSTEM = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage"),
    *("containerRuntimeVersion", "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"),
)
_NODE_STATUS: Json = {
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    "nodeInfo": dict.fromkeys(_UNKNOWN_SYSTEM, ""),
}
_NO_DISRUPTIONS: Json = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}


def default_node(node: Json) -> Json:
    """Allocatable defaults to capacity."""
    status = with_canonical_quantities(_NODE_STATUS | (node.get("status") or {}), ("capacity", "allocatable"))
    if status.get("capacity") and status.get("allocatable") is None:
        status = {**status, "allocatable": status["capacity"]}
    return {**node, "spec": node.get("spec") or {}, "status": status}


def default_namespace(namespace: Json) -> Json:
    """The namespace with its name label."""
    metadata = namespace["metadata"]
    labels = {**(metadata.get("labels") or {}), NAME_LABEL: metadata.get("name")}
    return {**namespace, "metadata": {**metadata, "labels": labels}}


def _with_finalizer(namespace: Json) -> Json:
    """The namespace with the finalizer of its content."""
    spec = namespace.get("spec") or {}
    finalizers = spec.get("finalizers") or []
    if _KUBERNETES not in finalizers:
        finalizers = [*finalizers, _KUBERNETES]
    return {**namespace, "spec": {**spec, "finalizers": finalizers}}


def update_namespace(new: Json, old: Json) -> Json:
    """The updated namespace; its spec and status are kept."""
    kept = {**new, "spec": old.get("spec") or {}, "status": old.get("status") or {}}
    return _with_finalizer(default_namespace(kept))


def new_namespace(namespace: Json) -> Json:
    return {**_with_finalizer(default_namespace(namespace)), "status": {"phase": "Active"}}


def default_priority_class(priority_class: Json) -> Json:
    return {
        **priority_class,
        "value": priority_class.get("value") or 0,
        "preemptionPolicy": priority_class.get("preemptionPolicy") or "PreemptLowerPriority",
    }


def new_budget(budget: Json) -> Json:
    """A new budget allows no disruptions until its controller has counted."""
    return {**budget, "status": _NO_DISRUPTIONS}


def default_secret(secret: Json) -> Json:
    """With a type, and with what is given as text among the data."""
    text = secret.get("stringData") or {}
    added = {key: b64encode(str(value).encode()).decode() for key, value in text.items()}
    data = {"data": {**(secret.get("data") or {}), **added}} if added else {}
    kept = {name: value for name, value in secret.items() if name != "stringData"}
    return {**kept, **data, "type": secret.get("type") or "Opaque"}


def default_deployment(deployment: Json) -> Json:
    """The Deployment with its strategy and its pod template defaulted; idempotent."""
    spec = _with_template(deployment)
    strategy = spec.get("strategy") or {}
    strategy = {**strategy, "type": strategy.get("type") or "RollingUpdate"}
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {**_ROLLING_UPDATE, **(strategy.get("rollingUpdate") or {})}
    defaults = {"revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}
    return {**deployment, "spec": {**_defaulted(spec, defaults), "strategy": strategy}}


def default_replica_set(replica_set: Json) -> Json:
    return {**replica_set, "spec": _with_template(replica_set)}


def default_stateful_set(stateful_set: Json) -> Json:
    """The StatefulSet with its policies and its pod template defaulted; idempotent."""
    spec = _with_template(stateful_set)
    strategy = spec.get("updateStrategy") or {}
    strategy = {**strategy, "type": strategy.get("type") or "RollingUpdate"}
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {"partition": 0, **(strategy.get("rollingUpdate") or {})}
    defaults = {"podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10}
    claims = {**_KEEPS_CLAIMS, **(spec.get("persistentVolumeClaimRetentionPolicy") or {})}
    policies = {"updateStrategy": strategy, "persistentVolumeClaimRetentionPolicy": claims}
    return {**stateful_set, "spec": {**_defaulted(spec, defaults), **policies}}


def _with_template(workload: Json) -> Json:
    """The spec with one replica and its pod template defaulted."""
    spec = _defaulted(workload.get("spec") or {}, {"replicas": 1})
    return {**spec, "template": {"metadata": {}, **default_pod_template(spec.get("template") or {})}}


def _defaulted(spec: Json, defaults: Json) -> Json:
    return {**spec, **{name: value for name, value in defaults.items() if spec.get(name) is None}}
