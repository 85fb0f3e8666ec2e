"""Admission of Kueue's own kinds, Workloads, ClusterQueues, Cohorts and ResourceFlavors: what no schema can express."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from headgate.gates.fields import (
    NEGATIVE,
    AdmissionFieldError,
    duplicate,
    immutable,
    invalid,
    not_found,
    not_supported,
    required,
    too_many,
)
from headgate.model.names import dns_subdomain_errors, label_value_errors, qualified_name_errors
from headgate.model.quantity import InvalidQuantity, parse_quantity
from headgate.model.queues import (
    ADMISSION_GATED_BY,
    PRIORITY_BOOST,
    Admission,
    CheckState,
    CheckStatus,
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    PodSetAssignment,
    QueuedWorkload,
    Quota,
    ResourceFlavor,
    ResourceGroup,
)
from headgate.model.resources import CPU, amount_text

RESERVED = "QuotaReserved"
ASSIGNMENTS, RECLAIMABLE, CHECKS = (
    "status.admission.podSetAssignments",
    "status.reclaimablePods",
    "status.admissionChecks",
)

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")
_URL_PATH = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})+")

Json = Mapping[str, Any]
PODS = "pods"
"""The resource under which quota counts the pods themselves."""
MOST_FLAVORS = 256  # in all groups together
MOST_RESOURCES = 256  # in all groups together
MOST_PAIRS = 512  # of flavor and resource in one group
GROUPS = "spec.resourceGroups"


def workload_errors(workload: QueuedWorkload) -> list[AdmissionFieldError]:
    """All errors of the workload itself; `template_errors` has those of its pod templates."""
    errors: list[AdmissionFieldError] = []
    if len(workload.pod_sets) > 1:
        errors += _min_count_errors(workload)
    if workload.is_true(RESERVED):
        errors += _admission_errors(workload)
    if workload.status.reclaimable:
        errors += _reclaimable_errors(workload)
    if workload.status.checks:
        errors += _update_names_errors(workload)
    if workload.annotations:
        errors += _annotation_errors(workload.annotations)
    return errors


def workload_change_errors(new: QueuedWorkload, old: QueuedWorkload) -> list[AdmissionFieldError]:
    """Errors of an update; `pod_set_change_errors` has those of its pod sets."""
    errors: list[AdmissionFieldError] = []
    if new.status.admission is not None and old.status.admission is not None:
        errors += _admission_change_errors(new.status.admission, old.status.admission)
    if old.status.reclaimable:
        errors += _reclaimable_change_errors(new, old)
    if new.status.checks:
        errors += _update_change_errors(new.status.checks, old.status.checks)
    if new.status.cluster:
        errors += _cluster_errors(new, old)
    if new.gated_by:
        errors += gate_change_errors(new.gated_by, old.gated_by)
    return errors


def _min_count_errors(workload: QueuedWorkload) -> list[AdmissionFieldError]:
    partial = sum(pod_set.min_count is not None for pod_set in workload.pod_sets)
    return [invalid("spec.podSets", partial, "at most one podSet can use minCount")] if partial > 1 else []


def _admission_errors(workload: QueuedWorkload) -> Iterator[AdmissionFieldError]:
    """Errors of the admission of a workload with QuotaReserved."""
    if workload.status.admission is None:
        yield required("status.admission", f"must be set while {RESERVED} is True")
        return
    known = [pod_set.name for pod_set in workload.pod_sets]
    for index, given in enumerate(workload.status.admission.pod_sets):
        if given.name not in known:
            yield not_found(f"{ASSIGNMENTS}[{index}].name", given.name)
        if given.count not in (0, 1):
            yield from _usage_errors(given, f"{ASSIGNMENTS}[{index}].resourceUsage")


def _usage_errors(given: PodSetAssignment, path: str) -> Iterator[AdmissionFieldError]:
    """The usage of a pod set must be a multiple of its count."""
    for name, amount in given.usage:
        if amount % given.count:
            yield invalid(f"{path}[{name}]", amount_text(name, amount), f"is not a multiple of {given.count}")


def _reclaimable_errors(workload: QueuedWorkload) -> Iterator[AdmissionFieldError]:
    counts = {pod_set.name: pod_set.count for pod_set in workload.pod_sets}
    for name, count in workload.status.reclaimable:
        if name not in counts:
            yield not_supported(f"{RECLAIMABLE}[{name}].name", name, counts)
        elif count > counts[name]:
            yield invalid(f"{RECLAIMABLE}[{name}].count", count, f"should be less or equal to {counts[name]}")


def _update_names_errors(workload: QueuedWorkload) -> Iterator[AdmissionFieldError]:
    known = [pod_set.name for pod_set in workload.pod_sets]
    for index, check in enumerate(workload.status.checks):
        for number, update in enumerate(_updates(check)):
            if update.get("name") not in known:
                path = f"{CHECKS}[{index}].podSetUpdates[{number}].name"
                yield not_supported(path, str(update.get("name", "")), known)


def _annotation_errors(annotations: Mapping[str, str]) -> list[AdmissionFieldError]:
    return [*_boost_errors(annotations), *gate_errors(annotations)]


def _boost_errors(annotations: Mapping[str, str]) -> Iterator[AdmissionFieldError]:
    boost = annotations.get(PRIORITY_BOOST)
    if boost is not None and not _is_int32(boost):
        yield invalid(f"metadata.annotations[{PRIORITY_BOOST}]", boost, "must be a whole number of 32 bits")


def _is_int32(text: str) -> bool:
    return bool(_WHOLE_NUMBER.fullmatch(text)) and -(2**31) <= int(text) < 2**31


def gate_errors(annotations: Mapping[str, str]) -> Iterator[AdmissionFieldError]:
    """Errors of the comma-separated list of controllers."""
    path, named = f"metadata.annotations[{ADMISSION_GATED_BY}]", annotations.get(ADMISSION_GATED_BY)
    for name in () if named is None else named.split(","):
        domain, slash, rest = name.partition("/")
        if not slash or not _URL_PATH.fullmatch(rest):
            yield invalid(path, name, "must be a domain, a slash and a path, such as example.com/mygate")
        yield from (invalid(path, name, wrong) for wrong in (dns_subdomain_errors(domain) if slash else ()))


def _admission_change_errors(new: Admission, old: Admission) -> list[AdmissionFieldError]:
    """An admission may be set and cleared but not changed, except for topology assignments."""
    return [] if new == old else [immutable("status.admission")]


def _reclaimable_change_errors(new: QueuedWorkload, old: QueuedWorkload) -> Iterator[AdmissionFieldError]:
    """While quota is reserved, reclaimable counts do not decrease."""
    if not (new.is_true(RESERVED) and old.is_true(RESERVED)):
        return
    now = dict(new.status.reclaimable)
    for name, count in old.status.reclaimable:
        if name not in now:
            yield required(f"{RECLAIMABLE}[{name}]", "cannot be removed")
        elif now[name] < count:
            yield invalid(f"{RECLAIMABLE}[{name}].count", now[name], f"cannot be less than {count}")


def _update_change_errors(new: Sequence[CheckStatus], old: Sequence[CheckStatus]) -> Iterator[AdmissionFieldError]:
    before = {check.name: check for check in old if check.state is CheckState.READY}
    for index, check in enumerate(new):
        was = before.get(check.name)
        if was is not None and check.state is CheckState.READY and _updates(check) != _updates(was):
            yield immutable(f"{CHECKS}[{index}].podSetUpdates")


def _updates(check: CheckStatus) -> list[dict[str, Any]]:
    """The updates; empty if they are no list of objects, which the server validates."""
    found: Any = json.loads(check.updates) if check.updates else []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _cluster_errors(new: QueuedWorkload, old: QueuedWorkload) -> list[AdmissionFieldError]:
    if old.status.cluster or new.status.cluster in old.status.nominated_clusters:
        return []
    detail = "when setting clusterName it must be one of the nominatedClusterNames"
    return [invalid("status.clusterName", new.status.cluster, detail)]


def gate_change_errors(new: Sequence[str], old: Sequence[str]) -> list[AdmissionFieldError]:
    """Controllers may be removed but not added."""
    path = f"metadata.annotations[{ADMISSION_GATED_BY}]"
    return [invalid(path, name, "may not be added to an existing workload") for name in new if name not in old]


PATH = "spec.podSets"


def template_errors(pod_sets: Sequence[Json]) -> tuple[AdmissionFieldError, ...]:
    """Errors of the requests and limits in the pod templates."""
    return tuple(
        error for index, pod_set in enumerate(pod_sets) for error in _template_errors(pod_set, f"{PATH}[{index}]")
    )


def pod_set_change_errors(
    new: Sequence[Json], old: Sequence[Json], *, may_shrink: bool = False
) -> list[AdmissionFieldError]:
    """Pod sets are immutable while quota is reserved, except that an elastic workload `may_shrink`."""
    if new is old:
        return []
    if len(new) != len(old):
        return [immutable(PATH)]
    return [
        immutable(f"{PATH}[{index}]")
        for index, (now, before) in enumerate(zip(new, old, strict=True))
        if not _same(now, before, may_shrink)
    ]


def _same(new: Json, old: Json, may_shrink: bool) -> bool:
    if may_shrink and new.get("count", 1) < old.get("count", 1):
        new = {**new, "count": old.get("count", 1)}
    return new == old


def _template_errors(pod_set: Json, path: str) -> Iterator[AdmissionFieldError]:
    spec = (pod_set.get("template") or {}).get("spec") or {}
    here = f"{path}.template.spec"
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield from _needs_errors(container.get("resources") or {}, f"{here}.{field}[{index}].resources")
    yield from _needs_errors(spec.get("resources") or {}, f"{here}.resources")
    yield from _amounts_errors(spec.get("overhead") or {}, f"{here}.overhead")


def _needs_errors(needs: Json, path: str) -> Iterator[AdmissionFieldError]:
    for field in ("requests", "limits"):
        yield from _amounts_errors(needs.get(field) or {}, f"{path}.{field}")


def _amounts_errors(amounts: Json, path: str) -> Iterator[AdmissionFieldError]:
    for name, amount in amounts.items():
        if name == PODS:
            yield invalid(f"{path}[{name}]", name, "the key is reserved for internal kueue use")
        try:
            if parse_quantity(str(amount)).nanos < 0:
                yield invalid(f"{path}[{name}]", str(amount), NEGATIVE)
        except InvalidQuantity as wrong:
            yield invalid(f"{path}[{name}]", str(amount), wrong.reason)


CHECKS_STRATEGY = "spec.admissionChecksStrategy.admissionChecks"


class _QuotaPosition(Struct, frozen=True):
    """Whether quota has a parent in the cohort tree."""

    above: str  # the word for what is above it
    has_above: bool
    lends_its_own: bool  # and no more than that


def cluster_queue_errors(queue: ClusterQueue, old: ClusterQueue | None = None) -> list[AdmissionFieldError]:
    """All errors of the queue. An update may keep a check on a flavor that was not the queue's before."""
    place = _QuotaPosition("cohort", bool(queue.cohort), lends_its_own=True)
    before = {} if old is None else _strange_flavors(old)
    strange = [not_found(path, pair[1]) for pair, path in _strange_flavors(queue).items() if pair not in before]
    return [*_groups_errors(queue.groups, place), *strange, *_weight_errors(queue.fair_weight)]


def cohort_errors(cohort: Cohort) -> list[AdmissionFieldError]:
    place = _QuotaPosition("parent", bool(cohort.parent), lends_its_own=False)
    return [*_groups_errors(cohort.groups, place), *_weight_errors(cohort.fair_weight)]


def flavor_errors(flavor: ResourceFlavor) -> list[AdmissionFieldError]:
    """Labels, taints and tolerations that no node or pod could have."""
    errors = [
        *_keys_errors({f"spec.nodeTaints[{i}].key": taint.key for i, taint in enumerate(flavor.node_taints)}),
        *_keys_errors({f"spec.tolerations[{i}].key": one.key for i, one in enumerate(flavor.tolerations) if one.key}),
    ]
    for key, value in flavor.node_labels.items():
        path = f"spec.nodeLabels[{key}]"
        errors += [invalid(path, key, wrong) for wrong in qualified_name_errors(key)]
        errors += [invalid(path, value, wrong) for wrong in label_value_errors(value)]
    return errors


def _keys_errors(keys: Mapping[str, str]) -> Iterator[AdmissionFieldError]:
    for path, key in keys.items():
        yield from (invalid(path, key, wrong) for wrong in qualified_name_errors(key))


def _groups_errors(groups: Sequence[ResourceGroup], place: _QuotaPosition) -> list[AdmissionFieldError]:
    errors = [*_totals_errors(groups)]
    resources: set[str] = set()
    flavors: set[str] = set()
    for index, group in enumerate(groups):
        path = f"{GROUPS}[{index}]"
        errors += _resources_errors(group.resources, resources, f"{path}.coveredResources")
        for number, flavor in enumerate(group.flavors):
            here = f"{path}.flavors[{number}]"
            errors += _flavor_errors(flavor, group.resources, place, here)
            errors += [duplicate(f"{here}.name", flavor.flavor)] if flavor.flavor in flavors else []
            flavors.add(flavor.flavor)
    return errors


def _totals_errors(groups: Sequence[ResourceGroup]) -> Iterator[AdmissionFieldError]:
    flavors = sum(len(group.flavors) for group in groups)
    resources = sum(len(group.resources) for group in groups)
    if flavors > MOST_FLAVORS:
        yield too_many(f"{GROUPS}.flavors", flavors, MOST_FLAVORS)
    if resources > MOST_RESOURCES:
        yield too_many(f"{GROUPS}.coveredResources", resources, MOST_RESOURCES)
    for index, group in enumerate(groups):
        pairs = len(group.flavors) * len(group.resources)
        if pairs > MOST_PAIRS:
            yield too_many(f"{GROUPS}[{index}]", pairs, MOST_PAIRS)


def _resources_errors(names: Sequence[str], seen: set[str], path: str) -> Iterator[AdmissionFieldError]:
    for index, name in enumerate(names):
        here = f"{path}[{index}]"
        yield from (invalid(here, name, wrong) for wrong in qualified_name_errors(name))
        if name in seen:
            yield duplicate(here, name)
        seen.add(name)


def _flavor_errors(
    flavor: FlavorQuotas, covered: Sequence[str], place: _QuotaPosition, path: str
) -> Iterator[AdmissionFieldError]:
    """The number of resources is validated by the CRD's schema."""
    for index, ((name, quota), expected) in enumerate(zip(flavor.quotas, covered, strict=False)):
        here = f"{path}.resources[{index}]"
        if name != expected:
            yield invalid(f"{here}.name", name, "must match the name in coveredResources")
        for field, amount, wrong in _wrong_amounts(quota, place):
            yield invalid(f"{here}.{field}", amount_text(name, amount), wrong)


def _wrong_amounts(quota: Quota, place: _QuotaPosition) -> Iterator[tuple[str, int, str]]:
    """Invalid amounts: field, amount and message."""
    if quota.nominal < 0:
        yield "nominalQuota", quota.nominal, NEGATIVE
    for field, limit in (("borrowingLimit", quota.borrowing_limit), ("lendingLimit", quota.lending_limit)):
        if limit is not None and limit < 0:
            yield field, limit, NEGATIVE
        if limit is not None and not place.has_above:
            yield field, limit, f"must be nil when {place.above} is empty"
    if place.lends_its_own and quota.lending_limit is not None and quota.lending_limit > quota.nominal:
        yield "lendingLimit", quota.lending_limit, "must be less than or equal to the nominalQuota"


def _strange_flavors(queue: ClusterQueue) -> dict[tuple[str, str], str]:
    """Pairs of a check and a flavor that the queue does not have, with the path of each."""
    own = {flavor.flavor for group in queue.groups for flavor in group.flavors}
    return {
        (check.name, flavor): f"{CHECKS_STRATEGY}[{index}].onFlavors[{number}]"
        for index, check in enumerate(queue.checks)
        for number, flavor in enumerate(check.on_flavors)
        if flavor not in own
    }


def _weight_errors(weight: int) -> list[AdmissionFieldError]:
    """Weights are counted in thousandths, as cpu is."""
    return [invalid("spec.fairSharing.weight", amount_text(CPU, weight), NEGATIVE)] if weight < 0 else []
