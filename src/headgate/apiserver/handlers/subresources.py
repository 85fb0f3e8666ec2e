"""Subresources: `binding` and `eviction` of pods, and `scale`; those of pods that need a kubelet are refused.

A Scale of `autoscaling/v1` is the replicas of a workload, read and written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from headgate.apiserver.admission import AdmissionChain
from headgate.apiserver.field_errors import FieldError, not_supported, required
from headgate.apiserver.field_errors import invalid as invalid_field
from headgate.apiserver.handlers.decoding import decode_object, decode_patch
from headgate.apiserver.handlers.deletion import TERMINAL_PHASES, DeleteOptions, Deleter
from headgate.apiserver.handlers.writing import Writer, get_existing, refuse_other_name
from headgate.apiserver.messages import Json, Request
from headgate.apiserver.metadata import timestamp, with_condition
from headgate.apiserver.registry import Registry, RequestInfo, ServedResource
from headgate.apiserver.selectors import object_selector
from headgate.apiserver.status import (
    ApiError,
    StatusError,
    bad_request,
    binding_conflict,
    invalid,
    joined,
    method_not_allowed,
    too_many_requests,
    unmet_precondition,
)
from headgate.apiserver.storage import Collection, Revision, Store
from headgate.apiserver.strategy import ResourceType, ScalePaths

CONNECTED = ("log", "exec", "attach", "portforward", "proxy")
"""Subresources for which a real server asks the kubelet."""

SCALE = "scale"
API_VERSION, KIND = "autoscaling/v1", "Scale"
_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def not_connected(info: RequestInfo) -> StatusError:
    """Why a subresource that a kubelet answers is not served."""
    get_existing(info)
    text = f"{info.subresource} of pods is not served: no kubelet runs containers behind this API server"
    return StatusError(501, "NotImplemented", text)


class _BindingMetadata(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _NodeReference(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class Binding(Struct, frozen=True, gc=False):
    """The node for a pod. A uid or resourceVersion is a precondition."""

    metadata: _BindingMetadata = _BindingMetadata()
    target: _NodeReference = _NodeReference()


_binding_decoder = msgspec.json.Decoder(Binding)


def decode_binding(body: bytes) -> Binding:
    try:
        return _binding_decoder.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type Binding): {error}") from None


def bind(store: Store, chain: AdmissionChain, info: RequestInfo, binding: Binding) -> None:
    """Assigns the pod to a node."""
    _refuse_invalid_binding(info, binding)
    pod = get_existing(info).value
    _refuse_unbindable(info, binding, pod)
    admission = chain.admission_of("CREATE", info, None)
    if admission is not None:
        value = _placed(info, {"apiVersion": "v1", "kind": "Binding", **msgspec.to_builtins(binding)})
        if info.answers is not None:
            value = admission.mutate(value) or value
            binding = msgspec.convert(value, Binding)
            _refuse_invalid_binding(info, binding)
        admission.validate(value)
    if not info.dry_run:
        store.put(info.served.collection, info.namespace, info.name, _bound(pod, binding, info.now))


def _placed(info: RequestInfo, value: Json) -> Json:
    """What is created for a pod, which nobody else has yet, with the pod's name and namespace."""
    metadata = value.setdefault("metadata", {})
    metadata["name"], metadata["namespace"] = info.name, info.namespace
    return value


def _refuse_invalid_binding(info: RequestInfo, binding: Binding) -> None:
    if binding.metadata.name not in ("", info.name):
        raise bad_request("name in URL does not match name in Binding object")
    errors: list[FieldError] = []
    if binding.target.kind not in ("", "Node"):
        errors.append(not_supported("target.kind", binding.target.kind, ("Node", "<empty>")))
    if not binding.target.name:
        errors.append(required("target.name"))
    if errors:
        raise ApiError(500, "", joined(errors))  # a real server takes this for its own fault


def _refuse_unbindable(info: RequestInfo, binding: Binding, pod: Json) -> None:
    metadata, spec, name, resource = pod["metadata"], pod["spec"], info.name, info.served.type
    _refuse_unmet(info, binding.metadata, metadata)
    if metadata.get("deletionTimestamp") is not None:
        raise binding_conflict(resource, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise binding_conflict(resource, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise binding_conflict(resource, name, f"pod {name} has non-empty .spec.schedulingGates")


def _refuse_unmet(info: RequestInfo, asked: _BindingMetadata, get_existing: Json) -> None:
    for field, value in (("uid", asked.uid), ("resourceVersion", asked.resource_version)):
        if value not in ("", get_existing[field]):
            raise unmet_precondition(info.served.type, get_existing, field, value)


def _bound(pod: Json, binding: Binding, now: float) -> Json:
    status = {name: value for name, value in (pod.get("status") or {}).items() if name != "nominatedNodeName"}
    return {
        **pod,
        "metadata": _annotated(pod["metadata"], binding.metadata),
        "spec": {**pod["spec"], "nodeName": binding.target.name},
        "status": with_condition(status, {"type": "PodScheduled", "status": "True"}, now),
    }


def _annotated(metadata: Json, given: _BindingMetadata) -> Json:
    """Metadata with the labels and annotations of the binding added."""
    for name, extra in (("labels", given.labels), ("annotations", given.annotations)):
        if extra:
            metadata = {**metadata, name: {**(metadata.get(name) or {}), **extra}}
    return metadata


WOULD_VIOLATE = "Cannot evict pod as it would violate the pod's disruption budget."
TWO_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


class _EvictionMetadata(Struct, frozen=True, gc=False, omit_defaults=True):
    name: str = ""
    namespace: str = ""


class Eviction(Struct, frozen=True, rename="camel", omit_defaults=True):
    metadata: _EvictionMetadata = _EvictionMetadata()
    delete_options: DeleteOptions | None = None


_eviction_decoder = msgspec.json.Decoder(Eviction)


def decode_eviction(body: bytes) -> Eviction:
    try:
        return _eviction_decoder.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type Eviction): {error}") from None


def evict(store: Store, chain: AdmissionChain, deleter: Deleter, info: RequestInfo, eviction: Eviction) -> None:
    """Deletes the pod if its disruption budget allows, and records the disruption in the budget. Admission is asked
    about the eviction, not about the deletion.
    """
    if eviction.metadata.name not in ("", info.name):
        raise bad_request("name in URL does not match name in Eviction object")
    pod = get_existing(info).value
    admission = chain.admission_of("CREATE", info, None)
    if admission is not None:
        value = _placed(info, {"apiVersion": "policy/v1", "kind": "Eviction", **msgspec.to_builtins(eviction)})
        admission.validate(admission.mutate(value) if info.answers is not None else value)
    budgets = store.collection("policy", "poddisruptionbudgets")
    budget = None if _needs_no_budget(pod) else _budget_of(budgets, info, pod)
    if budget is not None and not _is_unready_allowed(pod, budget.value):
        _refuse_eviction(info, budget.value)
        if not info.dry_run:
            store.put(budgets, info.namespace, budget.value["metadata"]["name"], _with_disruption(budget.value, info))
    _delete_evicted(store, deleter, info, eviction.delete_options or DeleteOptions())


def _needs_no_budget(pod: Json) -> bool:
    """Whether evicting the pod disrupts nothing: it has not started, has terminated, or is being deleted."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in (*TERMINAL_PHASES, "Pending") or pod["metadata"].get("deletionTimestamp") is not None


def _budget_of(budgets: Collection, info: RequestInfo, pod: Json) -> Revision | None:
    labels = pod["metadata"].get("labels") or {}
    mine = [
        budget
        for _, _, budget in budgets.items(info.namespace)
        if object_selector((budget.value.get("spec") or {}).get("selector"))(labels)
    ]
    if len(mine) > 1:
        raise StatusError(500, "InternalError", f"Internal error occurred: {TWO_BUDGETS}")
    return mine[0] if mine else None


def _is_unready_allowed(pod: Json, budget: Json) -> bool:
    """Whether an unready pod may be evicted without consuming the budget, by its unhealthyPodEvictionPolicy."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    wanted: int = status.get("desiredHealthy", 0)
    return wanted > 0 and bool(status.get("currentHealthy", 0) >= wanted)


def _refuse_eviction(info: RequestInfo, budget: Json) -> None:
    status, name = budget.get("status") or {}, budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _not_allowed(f"The disruption budget {name} is still being processed by the server.")
    if status.get("disruptionsAllowed", 0) <= 0:
        wanted, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _not_allowed(f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently")


def _not_allowed(why: str) -> StatusError:
    return too_many_requests(WOULD_VIOLATE, {"reason": "DisruptionBudget", "message": why})


def _with_disruption(budget: Json, info: RequestInfo) -> Json:
    status = budget["status"]
    disrupted = {**(status.get("disruptedPods") or {}), info.name: timestamp(int(info.now))}
    allowed = status["disruptionsAllowed"] - 1
    return {**budget, "status": {**status, "disruptionsAllowed": allowed, "disruptedPods": disrupted}}


def _delete_evicted(store: Store, deleter: Deleter, info: RequestInfo, options: DeleteOptions) -> None:
    pod = get_existing(info).value
    if not info.dry_run and pod["metadata"].get("deletionTimestamp") is None:
        reason = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
        condition = {"type": "DisruptionTarget", "status": "True", **reason}
        status = with_condition(pod.get("status") or {}, condition, info.now)
        store.put(info.served.collection, info.namespace, info.name, {**pod, "status": status})
    deleter.remove(structs.replace(info, subresource=""), options)


def answer_scale(request: Request, info: RequestInfo, writer: Writer, registry: Registry) -> Json:
    """The Scale of the object, after the change the request asks for."""
    paths = info.served.type.scale
    assert paths is not None, "a resource without a scale"
    stored = info.served.shown(get_existing(info).value)
    if request.method == "GET":
        return scale_of(stored, paths)
    as_scale = _served_scale(info.served)
    match request.method:
        case "PUT":
            asked = decode_object(request.body, as_scale, registry)
        case "PATCH":
            asked = decode_patch(request.body, request.content_type, as_scale)(scale_of(stored, paths))
        case _:
            raise method_not_allowed()
    return scale_of(writer.replace(info, _scaled(info, stored, asked, paths)), paths)


def scale_of(value: Json, paths: ScalePaths) -> Json:
    """The Scale of an object."""
    metadata, replicas = value["metadata"], _found(value, paths.replicas)
    if replicas is None:
        if not paths.replicas_default:
            text = f'the spec replicas field "{paths.replicas}" does not exist'
            raise ApiError(500, "InternalError", f"Internal error occurred: {text}")
        replicas = paths.replicas_default
    status: Json = {"replicas": _found(value, paths.status_replicas) or 0}
    if selector := _selector(_found(value, paths.selector) if paths.selector else None):
        status["selector"] = selector
    return {
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": {name: metadata[name] for name in _KEPT if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _scaled(info: RequestInfo, stored: Json, scale: Json, paths: ScalePaths) -> Json:
    """The object with the replicas of its new Scale; refuses one that is invalid or meant for another object."""
    metadata, replicas = scale["metadata"], (scale.get("spec") or {}).get("replicas", 0)
    refuse_other_name(info, metadata)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request("spec.replicas: expected a whole number")
    if replicas < 0:
        wrong = invalid_field("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid(KIND, "autoscaling", info.name, [wrong])
    wanted = {name: metadata[name] for name in ("uid", "resourceVersion") if metadata.get(name)}
    changed = _with(stored, _names(paths.replicas), replicas)
    return {**changed, "metadata": {**stored["metadata"], **wanted}}


def _served_scale(served: ServedResource) -> ServedResource:
    resource = ResourceType("autoscaling", "v1", served.type.plural, KIND, True, served.type.rules)
    return structs.replace(served, type=resource, api_version=API_VERSION, custom=False)


def _names(path: str) -> list[str]:
    return path.strip(".").split(".")


def _found(value: Any, path: str) -> Any:
    for name in _names(path):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _with(value: Json, names: Sequence[str], part: Any) -> Json:
    first, *rest = names
    below = value.get(first)
    return {**value, first: _with(below if isinstance(below, dict) else {}, rest, part) if rest else part}


_OPERATORS = {"In": "in", "NotIn": "notin"}


def _selector(selector: Any) -> str:
    """A selector as text: of labels, of requirements, or text already."""
    if not isinstance(selector, dict):
        return selector if isinstance(selector, str) else ""
    labels = selector.get("matchLabels") if "matchLabels" in selector or "matchExpressions" in selector else selector
    parts = {key: f"{key}={value}" for key, value in (labels or {}).items()}
    for each in selector.get("matchExpressions") or ():
        key, operator, values = each.get("key"), each.get("operator"), ",".join(sorted(each.get("values") or ()))
        negated = "!" if operator == "DoesNotExist" else ""
        parts[key] = f"{key} {_OPERATORS[operator]} ({values})" if operator in _OPERATORS else f"{negated}{key}"
    return ",".join(text for _, text in sorted(parts.items()))
