"""What the containers of a pod ask for and may use at most, before anything is added up, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from headgate.model.resources import CPU, HUGE_PAGES, LARGEST_REQUEST, MEMORY, Resources


class ContainerNeeds(Struct, frozen=True, gc=False):
    """Of a container, or of a pod as a whole."""

    requests: Resources = Resources()
    limits: Resources = Resources()
    is_sidecar: bool = False


class TemplateNeeds(Struct, frozen=True, gc=False, cache_hash=True):
    """As a template says it; `overhead` empty where its runtime class is to say it."""

    containers: tuple[ContainerNeeds, ...] = ()
    init_containers: tuple[ContainerNeeds, ...] = ()
    whole_pod: ContainerNeeds | None = None
    overhead: Resources = Resources()
    runtime_class: str = ""
    claims: tuple[str, ...] = ()  # names of its resource claims


class PodParts(Struct, frozen=True, gc=False):
    """What the parts of one pod ask for, by resource."""

    containers: Sequence[Mapping[str, int]]
    steps: Sequence[Mapping[str, int]] = ()  # the init containers, in order
    sidecars: Sequence[bool] = ()  # which of the steps go on running
    whole_pod: Mapping[str, int] = {}
    overhead: Mapping[str, int] = {}


def total_requests(parts: PodParts) -> dict[str, int]:
    """The larger of running and starting, unless the pod itself says; overhead comes on top.

    Saturated: what comes to more than LARGEST_REQUEST counts as that.
    """
    running = _summed(parts.containers)
    if parts.steps:
        running, starting = _with_init_containers(running, parts.steps, parts.sidecars)
        for name, amount in starting.items():
            running[name] = max(running.get(name, 0), amount)
    running.update(parts.whole_pod)
    if parts.overhead:
        running = _summed((running, parts.overhead))
    return {name: min(amount, LARGEST_REQUEST) for name, amount in running.items()}


def is_asked_of_whole_pods(resource: str) -> bool:
    """Whether a pod can ask for it as a whole."""
    return resource in (CPU, MEMORY) or resource.startswith(HUGE_PAGES)


def _with_init_containers(
    running: dict[str, int], steps: Sequence[Mapping[str, int]], sidecars: Sequence[bool]
) -> tuple[dict[str, int], dict[str, int]]:
    """What runs in the end (with every sidecar), and the most that any step of starting needs at once."""
    beside: dict[str, int] = {}  # the sidecars started so far
    most: dict[str, int] = {}
    for step, is_sidecar in zip(steps, sidecars, strict=True):
        together = _summed((beside, step))
        for name, amount in together.items():
            most[name] = max(most.get(name, 0), amount)
        if is_sidecar:
            beside = together
    return _summed((running, beside)), most


def _summed(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    if not parts:
        return {}
    amounts = dict(parts[0])
    for part in parts[1:]:
        for name, amount in part.items():
            amounts[name] = amounts.get(name, 0) + amount
    return amounts
