"""Pod sets from the wire: what one pod of a template asks of quota, and of the nodes it may run on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Raw

from headgate.api.affinities import NO_AFFINITY, TolerationEntry, affinity_demands, tolerations
from headgate.api.amounts import PodNeeds, effective_requests
from headgate.api.containers import Container, ResourceNeeds
from headgate.api.errors import InvalidField
from headgate.api.wire import Amounts, Wire
from headgate.model.pod import PodShape
from headgate.model.queues import PodSet

DEFAULT_NAME = "main"


class LimitedNeeds(Wire, frozen=True):
    requests: Amounts | None = None
    limits: Amounts | None = None


class TemplateContainer(Wire, frozen=True):
    resources: LimitedNeeds | None = None
    restart_policy: str | None = None


class TemplateSpec(Wire, frozen=True):
    containers: list[TemplateContainer]
    init_containers: list[TemplateContainer] | None = None
    overhead: Amounts | None = None
    resources: LimitedNeeds | None = None
    node_selector: dict[str, str] | None = None
    affinity: Raw = Raw()
    tolerations: list[TolerationEntry] | None = None


class Template(Wire, frozen=True):
    spec: TemplateSpec


class PodSetEntry(Wire, frozen=True):
    template: Template
    name: str = DEFAULT_NAME
    count: Annotated[int, Meta(ge=0)] = 1
    min_count: Annotated[int, Meta(ge=1)] | None = None


def pod_sets_of(entries: Sequence[PodSetEntry], namespace: str) -> tuple[PodSet, ...]:
    """The pod sets of `$.spec.podSets`, in order."""
    return tuple(_pod_set(entry, f"$.spec.podSets[{index}]", namespace) for index, entry in enumerate(entries))


def _pod_set(entry: PodSetEntry, path: str, namespace: str) -> PodSet:
    try:
        shape = template_shape(entry.template.spec, namespace)
    except InvalidField as wrong:
        raise InvalidField(wrong.path.replace("$.spec", f"{path}.template.spec", 1), wrong.expected) from None
    return PodSet(entry.name, shape, entry.count, entry.min_count)


def template_shape(spec: TemplateSpec, namespace: str) -> PodShape:
    """As far as quota looks at it; what a pod wants of its neighbours and its storage is not there."""
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


def _needs(spec: TemplateSpec) -> PodNeeds:
    """As a server completes a pod: who has a limit and does not say what it asks for, asks for that much."""
    return PodNeeds(
        containers=[_container(container) for container in spec.containers],
        init_containers=[_container(container) for container in spec.init_containers or ()],
        overhead=spec.overhead,
        resources=None if spec.resources is None else _filled(spec.resources),
    )


def _container(container: TemplateContainer) -> Container:
    resources = None if container.resources is None else _filled(container.resources)
    return Container(resources=resources, restart_policy=container.restart_policy)


def _filled(needs: LimitedNeeds) -> ResourceNeeds:
    return ResourceNeeds({**(needs.limits or {}), **(needs.requests or {})})
