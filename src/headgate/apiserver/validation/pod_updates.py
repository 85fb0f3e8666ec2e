"""Which changes of a pod's spec are allowed: few, and more while it is gated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.apiserver.field_errors import FieldError, forbidden, invalid, required, same
from headgate.apiserver.messages import Json
from headgate.apiserver.validation.metadata import metadata_update_errors
from headgate.apiserver.validation.pods import LARGEST_DEADLINE, metadata_errors_of, pod_errors
from headgate.apiserver.validation.scheduling import gate_errors, new_gate_errors
from headgate.apiserver.validation.types import ObjectMeta, Pod, PodSpec, typed

UPDATABLE = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_CHANGEABLE = ("activeDeadlineSeconds", "schedulingGates", "tolerations")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_AFFINITY = "spec.affinity.nodeAffinity"


def pod_update_errors(new: Json, old: Json) -> list[FieldError]:
    pod = typed(new, Pod)
    errors = metadata_update_errors(new["metadata"], old["metadata"], pod.metadata or ObjectMeta())
    spec, before = new["spec"], old["spec"]
    if spec is before or spec == before:
        return errors + (metadata_errors_of(pod) if errors else [])
    changed = [name for name in {**before, **spec} if not _equal(spec.get(name), before.get(name))]
    if not errors and changed == ["schedulingGates"]:
        return _gate_change_errors(pod.spec or PodSpec(), before)
    return errors + pod_errors(pod) + _spec_errors(spec, before, pod.spec or PodSpec())


def _equal(new: Any, old: Any) -> bool:
    return new is old or bool(new == old)


def _gate_change_errors(spec: PodSpec, old: Json) -> list[FieldError]:
    """The most frequent change by far: what stays as it was accepted needs no second look."""
    path, gates = "spec.schedulingGates", spec.scheduling_gates or ()
    before = typed({"schedulingGates": old.get("schedulingGates")}, PodSpec).scheduling_gates or ()
    return gate_errors(path, gates) + new_gate_errors(path, gates, before)


def _spec_errors(new: Json, old: Json, spec: PodSpec) -> list[FieldError]:
    """`spec` is the new one as a shape."""
    errors = _container_errors(new, old)
    if errors and errors[-1].detail == _NO_NEW_CONTAINERS:
        return errors
    deadline_errors = _deadline_errors(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    if deadline_errors:
        return errors + deadline_errors
    errors += _toleration_errors(new.get("tolerations") or [], old.get("tolerations") or [])
    gates = typed({"schedulingGates": old.get("schedulingGates")}, PodSpec).scheduling_gates or ()
    errors += new_gate_errors("spec.schedulingGates", spec.scheduling_gates or (), gates)
    if gates:
        errors += _directive_errors(new, old)
    if not same(_munged(new, old, gated=bool(gates)), old):
        errors.append(forbidden("spec", f"pod updates may not change fields other than {','.join(UPDATABLE)}"))
    return errors


_NO_NEW_CONTAINERS = "pod updates may not add or remove containers"


def _container_errors(new: Json, old: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("containers", "initContainers"):
        containers = new.get(name) or []
        errors += [
            required(f"spec.{name}[{index}].image") for index, one in enumerate(containers) if not one.get("image")
        ]
        if len(containers) != len(old.get(name) or []):
            return [*errors, forbidden(f"spec.{name}", _NO_NEW_CONTAINERS)]
    return errors


def _deadline_errors(new: int | None, old: int | None) -> list[FieldError]:
    """A deadline may be set once and then only come nearer."""
    path = "spec.activeDeadlineSeconds"
    if new is None:
        kept = old is None
        return [] if kept else [invalid(path, None, "must not update from a positive integer to nil value")]
    if not 0 <= new <= LARGEST_DEADLINE:
        return [invalid(path, new, f"must be between 0 and {LARGEST_DEADLINE}, inclusive")]
    if old is not None and old < new:
        return [invalid(path, new, "must be less than or equal to previous value")]
    return []


def _toleration_errors(new: Sequence[Json], old: Sequence[Json]) -> list[FieldError]:
    if new == old:
        return []
    kept = [_without_seconds(toleration) for toleration in new]
    if all(any(same(_without_seconds(one), other) for other in kept) for one in old):
        return []
    return [forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def _without_seconds(toleration: Json) -> Json:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _directive_errors(new: Json, old: Json) -> list[FieldError]:
    """A gated pod's choice of nodes may become narrower, never wider or other."""
    errors: list[FieldError] = []
    selector = new.get("nodeSelector") or {}
    if any(selector.get(name) != value for name, value in (old.get("nodeSelector") or {}).items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(invalid("spec.nodeSelector", selector, detail))
    return errors + _narrowing_errors(_node_terms(new), _node_terms(old))


def _node_affinity(spec: Json) -> Json:
    return (spec.get("affinity") or {}).get("nodeAffinity") or {}


def _node_terms(spec: Json) -> list[Json]:
    return (_node_affinity(spec).get(_REQUIRED) or {}).get("nodeSelectorTerms") or []


def _narrowing_errors(new: list[Json], old: list[Json]) -> list[FieldError]:
    path = f"{_AFFINITY}.{_REQUIRED}.nodeSelectorTerms"
    if old and len(old) != len(new):
        return [invalid(path, new, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")]
    return [
        invalid(f"{path}[{index}]", term, "only additions are allowed (no mutations or deletions)")
        for index, (term, before) in enumerate(zip(new, old, strict=False))
        if not _only_adds(term, before)
    ]


def _only_adds(new: Json, old: Json) -> bool:
    """An empty term matches nothing, so adding to it would widen the choice."""
    parts = ("matchExpressions", "matchFields")
    if not any(old.get(part) for part in parts):
        return not any(new.get(part) for part in parts)
    return all(same((new.get(part) or [])[: len(old.get(part) or [])], old.get(part) or []) for part in parts)


def _munged(new: Json, old: Json, *, gated: bool) -> Json:
    """The new spec with everything that may change set back; what still differs may not."""
    munged = {name: part for name, part in new.items() if name not in _CHANGEABLE}
    munged |= {name: old[name] for name in _CHANGEABLE if name in old}
    for name in ("containers", "initContainers"):
        if new.get(name) is not old.get(name):
            pairs = zip(new.get(name) or [], old.get(name) or [], strict=True)
            munged[name] = [{**container, "image": before.get("image")} for container, before in pairs]
    if (old.get("terminationGracePeriodSeconds") or 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    if gated and any(new.get(name) != old.get(name) for name in ("nodeSelector", "affinity")):
        munged["nodeSelector"] = old.get("nodeSelector")
        munged["affinity"] = {**(new.get("affinity") or {}), "nodeAffinity": _node_affinity(old)}
    return munged
