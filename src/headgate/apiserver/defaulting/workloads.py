"""Defaults of Deployments, ReplicaSets and StatefulSets."""

from __future__ import annotations

from headgate.apiserver.defaulting.pods import default_pod_template
from headgate.apiserver.messages import Json

_ROLLING_UPDATE: Json = {"maxUnavailable": "25%", "maxSurge": "25%"}
_KEEPS_CLAIMS: Json = {"whenDeleted": "Retain", "whenScaled": "Retain"}


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
