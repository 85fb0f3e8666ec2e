"""The built-in kinds: their strategies, their resource types, and the objects every cluster begins with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from headgate.apiserver.apiextensions import Definition, default_definition, definition_errors, definition_update_errors
from headgate.apiserver.defaulting import (
    default_deployment,
    default_job,
    default_namespace,
    default_node,
    default_pod,
    default_priority_class,
    default_replica_set,
    default_secret,
    default_stateful_set,
    labelled_job,
    new_budget,
    new_job,
    new_namespace,
    new_pod,
    update_namespace,
    with_metadata_trimmed,
)
from headgate.apiserver.field_errors import FieldError
from headgate.apiserver.kubernetes_types import unknown_fields
from headgate.apiserver.messages import Json
from headgate.apiserver.metadata import with_times
from headgate.apiserver.strategy import ResourceType, ScalePaths
from headgate.apiserver.validation import (
    AnyObject,
    ApiType,
    ObjectMeta,
    bad_request,
    cluster,
    common_metadata_errors,
    is_unchanged,
    jobs,
    metadata_errors,
    metadata_update_errors,
    pods,
    policies,
    rbac,
    typed,
    types,
    webhooks,
    workloads,
)
from headgate.model.names import dns_subdomain_errors
from headgate.model.quantity import InvalidQuantity

_Change = Callable[[Json, Json], Json]
_Errors = Sequence[FieldError]


def _unchanged_new(new: Json) -> Json:
    return new


def _without_status(new: Json) -> Json:
    """The new object without the status the client sent."""
    return {**new, "status": {}}


def _keeping_status(new: Json, old: Json) -> Json:
    return {**new, "status": old.get("status") or {}}


def _unchanged_update(new: Json, _old: Json) -> Json:
    return new


def _only_status(new: Json, old: Json) -> Json:
    """The old object with the new status and metadata."""
    return {**old, "metadata": new["metadata"], "status": new.get("status") or {}}


def _no_errors(_new: Json, _old: Json) -> _Errors:
    return ()


class KindStrategy(Struct, frozen=True):
    """The strategy of one kind, composed of functions. `shape` is checked first."""

    shape: type[ApiType]
    create: Callable[[Json], Json]
    update: _Change
    check: Callable[[Json], _Errors]
    check_update: Callable[[Json, Json], _Errors]
    write_status: _Change = _only_status
    check_status: Callable[[Json, Json], _Errors] = _no_errors
    default: Callable[[Json], Json] | None = None  # where `create` adds more than defaults

    def prepare_create(self, new: Json) -> Json:
        typed(new, self.shape)
        try:
            return self.create(with_metadata_trimmed(new))
        except InvalidQuantity as error:
            raise bad_request(new, error.reason) from None

    def defaulted(self, new: Json) -> Json:
        return (self.default or self.create)(with_metadata_trimmed(new))

    def unknown_fields(self, value: Json) -> Sequence[str]:
        return unknown_fields(value)

    def prepare_update(self, new: Json, old: Json) -> Json:
        typed(new, self.shape)
        try:
            return self.update(with_metadata_trimmed(new), old)
        except InvalidQuantity as error:
            raise bad_request(new, error.reason) from None

    def prepare_status(self, new: Json, old: Json) -> Json:
        try:
            return self.write_status(with_metadata_trimmed(new), old)
        except InvalidQuantity as error:
            raise bad_request(new, error.reason) from None

    def validate_create(self, new: Json) -> _Errors:
        return self.check(new)

    def validate_update(self, new: Json, old: Json) -> _Errors:
        """Generic metadata errors come first, then the kind's own, which repeat some of them, as on a real server."""
        return [*_metadata_update_errors(new, old), *self.check_update(new, old)]

    def validate_status(self, new: Json, old: Json) -> _Errors:
        again = _generic_update_errors(new, old)
        return [*_metadata_update_errors(new, old), *again, *self.check_status(new, old)]


def _metadata_only_errors(*, namespaced: bool) -> Callable[[Json], _Errors]:
    def check(new: Json) -> _Errors:
        metadata = typed(new, AnyObject).metadata or ObjectMeta()
        return metadata_errors(metadata, dns_subdomain_errors, namespaced=namespaced)

    return check


def _metadata_update_errors(new: Json, old: Json) -> _Errors:
    """Errors of a metadata update; if there are any, preceded by all errors of the new metadata."""
    generic = _generic_update_errors(new, old)
    whole = common_metadata_errors(typed(new, AnyObject).metadata or ObjectMeta()) if generic else ()
    return [*whole, *generic]


def _generic_update_errors(new: Json, old: Json) -> _Errors:
    if is_unchanged(new["metadata"], old["metadata"]):
        return ()
    metadata = typed(new, AnyObject).metadata or ObjectMeta()
    return metadata_update_errors(new["metadata"], old["metadata"], metadata)


def _plain_strategy(*, namespaced: bool, with_status: bool) -> KindStrategy:
    """The strategy of a kind without rules beyond its metadata."""
    return KindStrategy(
        shape=AnyObject,
        create=_without_status if with_status else _unchanged_new,
        update=_keeping_status if with_status else _unchanged_update,
        check=_metadata_only_errors(namespaced=namespaced),
        check_update=_generic_update_errors,
    )


def _update_pod(new: Json, old: Json) -> Json:
    whole = new if new.get("spec") is old.get("spec") else default_pod(new)
    return {**whole, "status": old.get("status") or {}}


def _pod_status(new: Json, old: Json) -> Json:
    """The pod with the new status; its QoS class is immutable and may be left out."""
    status, settled = new.get("status") or {}, (old.get("status") or {}).get("qosClass")
    changed: Json = {}
    if settled and not status.get("qosClass"):
        changed["qosClass"] = settled
    metadata = _with_owners_of(old["metadata"], new["metadata"])
    return {**old, "metadata": metadata, "status": with_times({**status, **changed})}


def _with_owners_of(old: Json, new: Json) -> Json:
    """Owner references are not written through the status, because kubelets are known to corrupt them."""
    if new.get("ownerReferences") == old.get("ownerReferences"):
        return new
    kept = {"ownerReferences": old["ownerReferences"]} if "ownerReferences" in old else {}
    return {**{name: part for name, part in new.items() if name != "ownerReferences"}, **kept}


def _job_status(new: Json, old: Json) -> Json:
    whole = _only_status(new, old)
    return {**whole, "status": with_times(whole["status"])}


def _update_job(new: Json, old: Json) -> Json:
    whole = labelled_job(new) if new.get("spec") is old.get("spec") else default_job(new)
    return {**whole, "status": old.get("status") or {}}


def _update_node(new: Json, old: Json) -> Json:
    return {**new, "spec": new.get("spec") or {}, "status": old.get("status") or {}}


def _node_status(new: Json, old: Json) -> Json:
    return default_node(_only_status(new, old))


def _as_created(complete: Callable[[Json], Json]) -> _Change:
    """An update is defaulted as a creation is."""
    return lambda new, _old: complete(new)


def _new_definition(new: Json) -> Json:
    return _without_status(default_definition(new))


def _update_definition(new: Json, old: Json) -> Json:
    return _keeping_status(default_definition(new), old)


POD = KindStrategy(
    shape=types.Pod,
    create=new_pod,
    update=_update_pod,
    check=pods.new_pod_errors,
    check_update=pods.pod_update_errors,
    write_status=_pod_status,
    check_status=pods.pod_status_errors,
    default=default_pod,
)
NODE = KindStrategy(
    shape=types.Node,
    create=default_node,
    update=_update_node,
    check=cluster.node_errors,
    check_update=cluster.node_update_errors,
    write_status=_node_status,
    check_status=cluster.node_status_errors,
)
NAMESPACE = KindStrategy(
    shape=types.Namespace,
    create=new_namespace,
    update=update_namespace,
    check=cluster.namespace_errors,
    check_update=_generic_update_errors,
    check_status=cluster.namespace_status_errors,
    default=default_namespace,
)
JOB = KindStrategy(
    shape=types.Job,
    create=new_job,
    update=_update_job,
    check=jobs.job_errors,
    check_update=jobs.job_update_errors,
    write_status=_job_status,
    check_status=jobs.job_status_errors,
    default=default_job,
)
PRIORITY_CLASS = KindStrategy(
    shape=types.PriorityClass,
    create=default_priority_class,
    update=_as_created(default_priority_class),
    check=cluster.priority_class_errors,
    check_update=cluster.priority_class_update_errors,
)
DISRUPTION_BUDGET = KindStrategy(
    shape=types.PodDisruptionBudget,
    create=new_budget,
    update=_keeping_status,
    check=cluster.budget_errors,
    check_update=cluster.budget_update_errors,
    check_status=cluster.budget_status_errors,
)
LEASE = KindStrategy(
    shape=types.Lease,
    create=_unchanged_new,
    update=_unchanged_update,
    check=cluster.lease_errors,
    check_update=cluster.lease_update_errors,
)
CONFIG_MAP = KindStrategy(
    shape=types.ConfigMap,
    create=_unchanged_new,
    update=_unchanged_update,
    check=cluster.config_map_errors,
    check_update=cluster.config_map_update_errors,
)
SECRET = KindStrategy(
    shape=types.Secret,
    create=default_secret,
    update=_as_created(default_secret),
    check=cluster.secret_errors,
    check_update=cluster.secret_update_errors,
)
LIMIT_RANGE = KindStrategy(
    shape=cluster.LimitRange,
    create=cluster.default_limit_range,
    update=_as_created(cluster.default_limit_range),
    check=cluster.limit_range_errors,
    check_update=cluster.limit_range_update_errors,
)
RUNTIME_CLASS = KindStrategy(
    shape=cluster.RuntimeClass,
    create=cluster.default_runtime_class,
    update=_as_created(cluster.default_runtime_class),
    check=cluster.runtime_class_errors,
    check_update=cluster.runtime_class_update_errors,
)


def _replicated(kind: str, default: Callable[[Json], Json], status: Json) -> KindStrategy:
    """The strategy of a kind that keeps a number of pods; its status begins with these counts."""
    return KindStrategy(
        shape=workloads.Replicated,
        create=lambda new: {**default(new), "status": status},
        update=lambda new, old: {**default(new), "status": old.get("status") or {}},
        check=workloads.errors_of(kind),
        check_update=workloads.update_errors_of(kind),
    )


DEPLOYMENT = _replicated("Deployment", default_deployment, {})
REPLICA_SET = _replicated("ReplicaSet", default_replica_set, {"replicas": 0})
STATEFUL_SET = _replicated("StatefulSet", default_stateful_set, {"replicas": 0, "availableReplicas": 0})


def _of_rbac(
    shape: type[ApiType], default: Callable[[Json], Json], check: Callable[[Json], list[FieldError]]
) -> KindStrategy:
    return KindStrategy(
        shape=shape,
        create=default,
        update=_as_created(default),
        check=check,
        check_update=rbac.update_errors_of(check),
        default=_unchanged_new if default is rbac.new_role else None,
    )


ROLE = _of_rbac(rbac.Role, rbac.new_role, rbac.role_errors)
CLUSTER_ROLE = _of_rbac(rbac.ClusterRole, rbac.new_role, rbac.cluster_role_errors)
ROLE_BINDING = _of_rbac(rbac.RoleBinding, rbac.default_binding, rbac.binding_errors)
CLUSTER_ROLE_BINDING = _of_rbac(rbac.ClusterRoleBinding, rbac.default_binding, rbac.cluster_binding_errors)
POLICY = KindStrategy(
    shape=policies.ValidatingAdmissionPolicy,
    create=lambda new: _without_status(policies.default_policy(new)),
    update=lambda new, old: _keeping_status(policies.default_policy(new), old),
    check=policies.policy_errors,
    check_update=policies.policy_update_errors,
    default=policies.default_policy,
)
WEBHOOKS = KindStrategy(
    shape=webhooks.WebhookConfiguration,
    create=webhooks.default_configuration,
    update=_as_created(webhooks.default_configuration),
    check=webhooks.configuration_errors,
    check_update=webhooks.configuration_update_errors,
)
POLICY_BINDING = KindStrategy(
    shape=policies.ValidatingAdmissionPolicyBinding,
    create=policies.default_policy_binding,
    update=_as_created(policies.default_policy_binding),
    check=policies.policy_binding_errors,
    check_update=policies.policy_binding_update_errors,
)
DEFINITION = KindStrategy(
    shape=Definition,
    create=_new_definition,
    update=_update_definition,
    check=definition_errors,
    check_update=definition_update_errors,
)


ALL = ("all",)
EXTENSIONS = ("api-extensions",)


def _core(plural: str, kind: str, rules: KindStrategy, *short_names: str) -> ResourceType:
    return ResourceType("", "v1", plural, kind, True, rules, short_names=short_names)


def _of_all(
    group: str, plural: str, kind: str, rules: KindStrategy, *short_names: str, scale: ScalePaths | None = None
) -> ResourceType:
    """A kind that `kubectl get all` shows."""
    return ResourceType(group, "v1", plural, kind, True, rules, short_names=short_names, categories=ALL, scale=scale)


_SCALE = ScalePaths(replicas_default=1)


_NAMESPACED = _plain_strategy(namespaced=True, with_status=False)
_NAMESPACED_WITH_STATUS = _plain_strategy(namespaced=True, with_status=True)
_CLUSTER_WIDE = _plain_strategy(namespaced=False, with_status=False)
_CLUSTER_WIDE_WITH_STATUS = _plain_strategy(namespaced=False, with_status=True)

RESOURCE_TYPES: tuple[ResourceType, ...] = (
    _of_all("", "pods", "Pod", POD, "po"),
    ResourceType("", "v1", "nodes", "Node", False, NODE, short_names=("no",)),
    ResourceType("", "v1", "namespaces", "Namespace", False, NAMESPACE, short_names=("ns",)),
    _of_all("batch", "jobs", "Job", JOB),
    _of_all("batch", "cronjobs", "CronJob", _NAMESPACED_WITH_STATUS, "cj"),
    ResourceType("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, PRIORITY_CLASS, False, ("pc",)),
    ResourceType(
        "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, DISRUPTION_BUDGET, short_names=("pdb",)
    ),
    ResourceType("coordination.k8s.io", "v1", "leases", "Lease", True, LEASE, has_status=False),
    ResourceType("", "v1", "events", "Event", True, _NAMESPACED, False, ("ev",)),
    ResourceType("events.k8s.io", "v1", "events", "Event", True, _NAMESPACED, False, ("ev",)),
    ResourceType("", "v1", "configmaps", "ConfigMap", True, CONFIG_MAP, False, ("cm",)),
    ResourceType("", "v1", "secrets", "Secret", True, SECRET, has_status=False),
    ResourceType("", "v1", "serviceaccounts", "ServiceAccount", True, _NAMESPACED, False, ("sa",)),
    _of_all("", "services", "Service", _NAMESPACED_WITH_STATUS, "svc"),
    _of_all("", "replicationcontrollers", "ReplicationController", _NAMESPACED_WITH_STATUS, "rc", scale=_SCALE),
    _core("persistentvolumeclaims", "PersistentVolumeClaim", _NAMESPACED_WITH_STATUS, "pvc"),
    ResourceType(
        "", "v1", "persistentvolumes", "PersistentVolume", False, _CLUSTER_WIDE_WITH_STATUS, short_names=("pv",)
    ),
    _core("resourcequotas", "ResourceQuota", _NAMESPACED_WITH_STATUS, "quota"),
    ResourceType("", "v1", "limitranges", "LimitRange", True, LIMIT_RANGE, False, ("limits",)),
    ResourceType("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False, RUNTIME_CLASS, has_status=False),
    _of_all("apps", "deployments", "Deployment", DEPLOYMENT, "deploy", scale=_SCALE),
    _of_all("apps", "replicasets", "ReplicaSet", REPLICA_SET, "rs", scale=_SCALE),
    _of_all("apps", "statefulsets", "StatefulSet", STATEFUL_SET, "sts", scale=_SCALE),
    *(
        ResourceType(rbac.GROUP, "v1", plural, kind, namespaced, rules, has_status=False)
        for plural, kind, namespaced, rules in (
            ("clusterrolebindings", "ClusterRoleBinding", False, CLUSTER_ROLE_BINDING),
            ("clusterroles", "ClusterRole", False, CLUSTER_ROLE),
            ("rolebindings", "RoleBinding", True, ROLE_BINDING),
            ("roles", "Role", True, ROLE),
        )
    ),
    ResourceType("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, _CLUSTER_WIDE, False, ("sc",)),
    ResourceType("storage.k8s.io", "v1", "csinodes", "CSINode", False, _CLUSTER_WIDE, has_status=False),
    ResourceType("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False, _CLUSTER_WIDE, has_status=False),
    ResourceType("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", True, _NAMESPACED, False),
    ResourceType("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False, _CLUSTER_WIDE_WITH_STATUS),
    ResourceType("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True, _NAMESPACED_WITH_STATUS),
    ResourceType("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False, _CLUSTER_WIDE, has_status=False),
    ResourceType("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False, _CLUSTER_WIDE, has_status=False),
    ResourceType(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        False,
        DEFINITION,
        short_names=("crd", "crds"),
        categories=EXTENSIONS,
    ),
    *(
        ResourceType("admissionregistration.k8s.io", "v1", plural, kind, False, WEBHOOKS, False, categories=EXTENSIONS)
        for plural, kind in (
            ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
            ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
        )
    ),
    ResourceType(
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        False,
        POLICY,
        categories=EXTENSIONS,
    ),
    ResourceType(
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        False,
        POLICY_BINDING,
        has_status=False,
        categories=EXTENSIONS,
    ),
)
"""Every built-in kind, in the order in which discovery lists them."""


def _namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _system_class(name: str, description: str) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": cluster.SYSTEM_PRIORITIES[name],
        "description": description,
    }


INITIAL_OBJECTS: tuple[Json, ...] = (
    *(_namespace(name) for name in ("default", "kube-node-lease", "kube-public", "kube-system")),
    _system_class("system-node-critical", "For pods a node cannot do without; they stay on their node."),
    _system_class("system-cluster-critical", "For pods the cluster cannot do without; another node will do."),
)
"""The objects that exist before the first request."""
