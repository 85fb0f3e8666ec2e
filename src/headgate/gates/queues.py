"""Admission of ClusterQueues, Cohorts and ResourceFlavors: the rules that the CRDs' schemas cannot express."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from headgate.gates.fields import NEGATIVE, AdmissionFieldError, duplicate, invalid, not_found, too_many
from headgate.model.names import label_value_errors, qualified_name_errors
from headgate.model.queues import ClusterQueue, Cohort, FlavorQuotas, Quota, ResourceFlavor, ResourceGroup
from headgate.model.resources import CPU, amount_text

MOST_FLAVORS = 256  # in all groups together
MOST_RESOURCES = 256  # in all groups together
MOST_PAIRS = 512  # of flavor and resource in one group

GROUPS = "spec.resourceGroups"
CHECKS = "spec.admissionChecksStrategy.admissionChecks"


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
        (check.name, flavor): f"{CHECKS}[{index}].onFlavors[{number}]"
        for index, check in enumerate(queue.checks)
        for number, flavor in enumerate(check.on_flavors)
        if flavor not in own
    }


def _weight_errors(weight: int) -> list[AdmissionFieldError]:
    """Weights are counted in thousandths, as cpu is."""
    return [invalid("spec.fairSharing.weight", amount_text(CPU, weight), NEGATIVE)] if weight < 0 else []
