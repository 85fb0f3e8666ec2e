"""Binding: how a pod gets its node, once and for all."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from headgate.apiserver.admission import Chain
from headgate.apiserver.field_errors import FieldError, not_supported, required
from headgate.apiserver.messages import Json
from headgate.apiserver.metadata import with_condition
from headgate.apiserver.registry import RequestInfo
from headgate.apiserver.status import ApiError, bad_request, binding_conflict, told_together, unmet_precondition
from headgate.apiserver.storage import Store
from headgate.apiserver.writing import found


class _Metadata(Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _NodeReference(Struct, frozen=True, gc=False):
    kind: str = ""
    name: str = ""


class Binding(Struct, frozen=True, gc=False):
    """Where a pod shall run. A uid makes it hold for that very pod only, a resourceVersion as it was then."""

    metadata: _Metadata = _Metadata()
    target: _NodeReference = _NodeReference()


_decoder = msgspec.json.Decoder(Binding)


def decode_binding(body: bytes) -> Binding:
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as trouble:
        raise bad_request(f"the object provided is unrecognized (must be of type Binding): {trouble}") from None


def bind(store: Store, chain: Chain, errand: RequestInfo, binding: Binding) -> None:
    """Assign the pod to a node, once and for all."""
    _refuse_binding(errand, binding)
    pod = found(errand).value
    _refuse_bound(errand, binding, pod)
    passage = chain.passage("CREATE", errand, None)
    if passage is not None:
        passage.validate({"apiVersion": "v1", "kind": "Binding", **msgspec.to_builtins(binding)})
    if not errand.dry_run:
        store.put(errand.served.collection, errand.namespace, errand.name, _bound(pod, binding, errand.now))


def _refuse_binding(errand: RequestInfo, binding: Binding) -> None:
    if binding.metadata.name not in ("", errand.name):
        raise bad_request("name in URL does not match name in Binding object")
    errors: list[FieldError] = []
    if binding.target.kind not in ("", "Node"):
        errors.append(not_supported("target.kind", binding.target.kind, ("Node", "<empty>")))
    if not binding.target.name:
        errors.append(required("target.name"))
    if errors:
        raise ApiError(500, "", told_together(errors))  # a real server takes this for its own fault


def _refuse_bound(errand: RequestInfo, binding: Binding, pod: Json) -> None:
    metadata, spec, name, resource = pod["metadata"], pod["spec"], errand.name, errand.served.type
    _refuse_other(errand, binding.metadata, metadata)
    if metadata.get("deletionTimestamp") is not None:
        raise binding_conflict(resource, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise binding_conflict(resource, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise binding_conflict(resource, name, f"pod {name} has non-empty .spec.schedulingGates")


def _refuse_other(errand: RequestInfo, asked: _Metadata, found: Json) -> None:
    for field, value in (("uid", asked.uid), ("resourceVersion", asked.resource_version)):
        if value not in ("", found[field]):
            raise unmet_precondition(errand.served.type, found, field, value)


def _bound(pod: Json, binding: Binding, now: float) -> Json:
    status = {name: value for name, value in (pod.get("status") or {}).items() if name != "nominatedNodeName"}
    return {
        **pod,
        "metadata": _annotated(pod["metadata"], binding.metadata),
        "spec": {**pod["spec"], "nodeName": binding.target.name},
        "status": with_condition(status, {"type": "PodScheduled", "status": "True"}, now),
    }


def _annotated(metadata: Json, given: _Metadata) -> Json:
    """A binding may bring labels and annotations along."""
    for name, extra in (("labels", given.labels), ("annotations", given.annotations)):
        if extra:
            metadata = {**metadata, name: {**(metadata.get(name) or {}), **extra}}
    return metadata
