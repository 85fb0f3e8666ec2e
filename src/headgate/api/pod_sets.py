"""Pod sets from the wire: what one pod of a template asks of quota, and of the nodes it may run on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Meta, Raw

from headgate.api.amounts import WireContainer, WirePodNeeds, WireResourceNeeds, effective_requests, resources_at
from headgate.api.nodes import NO_AFFINITY, WireToleration, affinity_demands, tolerations
from headgate.api.wire import Amounts, InvalidField, Wire, invalid_field
from headgate.model.pod import PodShape, PodTemplate
from headgate.model.queues import PodSet, TopologyRequest
from headgate.model.resources import ContainerNeeds, TemplateNeeds

DEFAULT_NAME = "main"
SAYS_NOTHING = PodTemplate()


class WireLimitedNeeds(Wire, frozen=True):
    requests: Amounts | None = None
    limits: Amounts | None = None


class WireTemplateContainer(Wire, frozen=True):
    resources: WireLimitedNeeds | None = None
    restart_policy: str | None = None


class WireNamed(Wire, frozen=True):
    name: str


class WireTemplateSpec(Wire, frozen=True):
    containers: list[WireTemplateContainer]
    init_containers: list[WireTemplateContainer] | None = None
    overhead: Amounts | None = None
    resources: WireLimitedNeeds | None = None
    node_selector: dict[str, str] | None = None
    affinity: Raw = Raw()
    tolerations: list[WireToleration] | None = None
    runtime_class_name: str | None = None
    resource_claims: list[WireNamed] | None = None
    priority_class_name: str = ""


class WireTemplateMetadata(Wire, frozen=True):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class WireTemplate(Wire, frozen=True):
    spec: WireTemplateSpec | None = None
    metadata: WireTemplateMetadata = WireTemplateMetadata()


class WireTopologyRequest(Wire, frozen=True):
    """Its other fields only say how to meet these."""

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    pod_set_slice_required_topology: str | None = None


class WirePodSet(Wire, frozen=True):
    template: Raw
    name: str = DEFAULT_NAME
    count: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 1
    min_count: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    topology_request: WireTopologyRequest | None = None


_templates = msgspec.json.Decoder(WireTemplate)


def pod_sets_of(entries: Sequence[WirePodSet], namespace: str) -> tuple[PodSet, ...]:
    """The pod sets of `$.spec.podSets`, in order."""
    return tuple([_pod_set(entry, f"$.spec.podSets[{index}]", namespace) for index, entry in enumerate(entries)])


def pod_template(template: Raw, namespace: str, path: str) -> PodTemplate:
    """The pods of a template at `path`."""
    try:
        return _read(bytes(template), namespace)
    except msgspec.DecodeError as error:
        wrong = invalid_field(error)
    except InvalidField as error:
        wrong = error
    raise InvalidField(wrong.path.replace("$", path, 1), wrong.expected) from None


def _pod_set(entry: WirePodSet, path: str, namespace: str) -> PodSet:
    pods = pod_template(entry.template, namespace, f"{path}.template")
    if pods is SAYS_NOTHING:
        raise InvalidField(f"{path}.template", "Object missing required field spec")
    topology = _topology(entry.topology_request) if entry.topology_request is not None else ()
    return PodSet(entry.name, pods.shape, entry.count, entry.min_count, pods.needs, topology)


def _topology(request: WireTopologyRequest) -> TopologyRequest:
    """By the names of its fields, those first that sort first."""
    asked = {
        "podSetSliceRequiredTopology": request.pod_set_slice_required_topology,
        "preferred": request.preferred,
        "required": request.required,
        "unconstrained": "true" if request.unconstrained else "",
    }
    return tuple((name, value) for name, value in asked.items() if value)


@lru_cache(maxsize=16_384)  # bench_decode takes 2.4 times as long without it (a Job in many versions)
def _read(template: bytes, namespace: str) -> PodTemplate:
    """Decodes a template once, however many objects contain it."""
    wire = _templates.decode(template)
    spec, metadata = wire.spec, wire.metadata
    if spec is None:
        return SAYS_NOTHING
    return PodTemplate(
        shape=_shape(spec, namespace),
        labels=metadata.labels or {},
        annotations=metadata.annotations or {},
        priority_class=spec.priority_class_name,
        needs=_template_needs(spec),
    )


def _shape(spec: WireTemplateSpec, namespace: str) -> PodShape:
    """The shape of a pod without affinity to other pods and without volumes, which quota does not consider."""
    affinity = affinity_demands(bytes(spec.affinity), namespace) if spec.affinity else NO_AFFINITY
    requests, _ = effective_requests(_needs(spec))
    return PodShape(
        requests=requests,
        scored_requests=requests,
        node_selector=tuple(sorted((spec.node_selector or {}).items())),
        required_terms=affinity.required_terms,
        preferred_terms=affinity.preferred_terms,
        tolerations=tolerations(spec.tolerations),
    )


def _needs(spec: WireTemplateSpec) -> WirePodNeeds:
    """Requests default to limits, as in the API server."""
    return WirePodNeeds(
        containers=[_container(container) for container in spec.containers],
        init_containers=[_container(container) for container in spec.init_containers or ()],
        overhead=spec.overhead,
        resources=None if spec.resources is None else _filled(spec.resources),
    )


def _container(container: WireTemplateContainer) -> WireContainer:
    resources = None if container.resources is None else _filled(container.resources)
    return WireContainer(resources=resources, restart_policy=container.restart_policy)


def _filled(needs: WireLimitedNeeds) -> WireResourceNeeds:
    return WireResourceNeeds({**(needs.limits or {}), **(needs.requests or {})})


def _template_needs(spec: WireTemplateSpec) -> TemplateNeeds:
    """As written, without defaults."""
    return TemplateNeeds(
        containers=_each(spec.containers, "$.spec.containers"),
        init_containers=_each(spec.init_containers or (), "$.spec.initContainers"),
        whole_pod=None if spec.resources is None else _written(spec.resources, "$.spec.resources", is_sidecar=False),
        overhead=resources_at("$.spec.overhead", spec.overhead),
        runtime_class=spec.runtime_class_name or "",
        claims=tuple(claim.name for claim in spec.resource_claims or ()),
    )


def _each(containers: Sequence[WireTemplateContainer], path: str) -> tuple[ContainerNeeds, ...]:
    return tuple(
        _written(one.resources or WireLimitedNeeds(), f"{path}[{index}].resources", one.restart_policy == "Always")
        for index, one in enumerate(containers)
    )


def _written(needs: WireLimitedNeeds, path: str, is_sidecar: bool) -> ContainerNeeds:
    requests, limits = resources_at(f"{path}.requests", needs.requests), resources_at(f"{path}.limits", needs.limits)
    return ContainerNeeds(requests, limits, is_sidecar)
