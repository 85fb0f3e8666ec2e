"""The LimitRanger admission plugin: new pods get what limit ranges give them, and stay in their bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headgate.apiserver.admission import Catalog, Operation
from headgate.apiserver.defaulting import Nanos, nanos_of, pod_total
from headgate.apiserver.messages import Json
from headgate.apiserver.status import forbidden
from headgate.model.quantity import NANOS, Quantity

_CONTAINERS = {"containers": "container", "initContainers": "init container"}
ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRanger:
    """Looks at pods when they are created: what they ask for does not change afterwards."""

    resources = frozenset({("", "pods")})
    keeps_complete = False

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        new = operation.new
        if new is None:
            return None
        for limit_range in _ranges(operation, catalog):
            new = _completed(new, [one for one in _limits(limit_range) if one.get("type") == "Container"])
        return new

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        for limit_range in _ranges(operation, catalog):
            wrong = [error for limit in _limits(limit_range) for error in _errors(operation.new or {}, limit)]
            if wrong:
                why = wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
                raise forbidden(operation.resource, operation.name, why)


def _ranges(operation: Operation, catalog: Catalog) -> Sequence[Json]:
    resource = operation.resource
    concerned = (resource.group, resource.plural, operation.subresource, operation.verb) == ("", "pods", "", "CREATE")
    if not concerned:
        return ()
    found = catalog.list("limitranges")
    return [one for one in found if one["metadata"]["namespace"] == operation.namespace]


def _limits(limit_range: Json) -> Sequence[Json]:
    limits: Sequence[Json] = (limit_range.get("spec") or {}).get("limits") or ()
    return limits


def _completed(pod: Json, limits: Sequence[Json]) -> Json:
    """The very same pod where nothing is missing."""
    spec, told = pod.get("spec") or {}, list[str]()
    changed = {
        field: [_with_defaults(one, limits, called, told) for one in spec[field]]
        for field, called in _CONTAINERS.items()
        if spec.get(field)
    }
    if not told:
        return pod
    metadata = pod["metadata"]
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION: f"LimitRanger plugin set: {'; '.join(told)}"}
    return {**pod, "metadata": {**metadata, "annotations": annotations}, "spec": {**spec, **changed}}


def _with_defaults(container: Json, limits: Sequence[Json], called: str, told: list[str]) -> Json:
    resources = container.get("resources") or {}
    filled: Json = {}
    for field, default, word in (("requests", "defaultRequest", "request"), ("limits", "default", "limit")):
        has = resources.get(field) or {}
        more = {name: amount for one in limits for name, amount in (one.get(default) or {}).items() if name not in has}
        if more:
            filled[field] = {**has, **more}
            told.append(f"{', '.join(sorted(more))} {word} for {called} {container.get('name')}")
    return {**container, "resources": {**resources, **filled}} if filled else container


def _errors(pod: Json, limit: Json) -> Iterator[str]:
    spec, type_ = pod.get("spec") or {}, limit.get("type")
    if type_ == "Container":
        for field in _CONTAINERS:
            for container in spec.get(field) or ():
                yield from _bound_errors(limit, _amounts(container, "requests"), _amounts(container, "limits"))
    elif type_ == "Pod":
        yield from _bound_errors(limit, _of_pod(spec, "requests"), _of_pod(spec, "limits"))


def _bound_errors(limit: Json, requests: Nanos, limits: Nanos) -> Iterator[str]:
    for name, least in nanos_of(limit.get("min") or {}).items():
        usage = f"minimum {name} usage per {limit['type']} is {Quantity(least)}"
        if name not in requests:
            yield f"{usage}.  No request is specified"
        elif requests[name] < least:
            yield f"{usage}, but request is {Quantity(requests[name])}"
        elif limits.get(name, least) < least:
            yield f"{usage}, but limit is {Quantity(limits[name])}"
    for name, most in nanos_of(limit.get("max") or {}).items():
        usage = f"maximum {name} usage per {limit['type']} is {Quantity(most)}"
        if name not in limits:
            yield f"{usage}.  No limit is specified"
        elif limits[name] > most:
            yield f"{usage}, but limit is {Quantity(limits[name])}"
        elif requests.get(name, 0) > most:
            yield f"{usage}, but request is {Quantity(requests[name])}"
    for name, ratio in nanos_of(limit.get("maxLimitRequestRatio") or {}).items():
        yield from _ratio_errors(
            f"{name} max limit to request ratio per {limit['type']} is {Quantity(ratio)}",
            ratio,
            (requests.get(name, 0), limits.get(name, 0)),
        )


def _ratio_errors(ratio_is: str, ratio: int, asked: tuple[int, int]) -> Iterator[str]:
    request, limit = asked
    if not request:
        yield f"{ratio_is}, but no request is specified or request is 0"
    elif not limit:
        yield f"{ratio_is}, but no limit is specified or limit is 0"
    elif limit * NANOS > ratio * request:
        yield f"{ratio_is}, but provided ratio is {limit / request:f}"


def _amounts(container: Json, field: str) -> Nanos:
    return nanos_of((container.get("resources") or {}).get(field) or {})


def _of_pod(spec: Json, field: str) -> Nanos:
    init = [(_amounts(one, field), one.get("restartPolicy") == "Always") for one in spec.get("initContainers") or ()]
    summed = pod_total([_amounts(one, field) for one in spec.get("containers") or ()], init)
    return {**summed, **_amounts(spec, field)}
