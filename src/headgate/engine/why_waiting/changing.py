"""The question as it would be after a change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar, assert_never

from msgspec import structs

from headgate.engine.why_waiting.answers import Field
from headgate.engine.why_waiting.decision import Question
from headgate.model.affinity import Toleration
from headgate.model.node import Taint
from headgate.model.pod import PodShape
from headgate.model.queues import ClusterQueue, Cohort, FlavorQuotas, PodSet, Quota, ResourceGroup
from headgate.model.resources import Resources
from headgate.quota.tree import FlavorResource

Owner = TypeVar("Owner", ClusterQueue, Cohort)


def raised(question: Question, node: str, is_cohort: bool, field: Field, by: Mapping[FlavorResource, int]) -> Question:
    """The queue or cohort has so much more of these."""
    if is_cohort:
        cohorts = tuple(_raised(one, field, by) if one.name == node else one for one in question.cohorts)
        return structs.replace(question, cohorts=cohorts)
    queues = tuple(_raised(one, field, by) if one.name == node else one for one in question.queues)
    return structs.replace(question, queues=queues)


def amount_of(quota: Quota, field: Field) -> int | None:
    """None: without limit."""
    match field:
        case Field.NOMINAL:
            return quota.nominal
        case Field.BORROWING:
            return quota.borrowing_limit
        case Field.LENDING:
            return quota.lending_limit
        case _:
            assert_never(field)


def with_count(question: Question, pod_set: str, count: int) -> Question:
    """So many pods in that pod set, and no fewer."""
    return _with_pod_set(question, pod_set, lambda one: structs.replace(one, count=count, min_count=None))


def with_less(question: Question, pod_set: str, less: Mapping[str, int]) -> Question:
    """Each pod of that pod set asks for so much less."""

    def lower(one: PodSet) -> PodSet:
        amounts = {name: amount - less.get(name, 0) for name, amount in one.shape.requests}
        return structs.replace(one, shape=structs.replace(one.shape, requests=Resources.of(amounts)))

    return _with_pod_set(question, pod_set, lower)


def with_priority(question: Question, priority: int) -> Question:
    workload = question.head.workload
    return question.about(structs.replace(workload, priority=priority - workload.boost))


def without(question: Question, uids: Collection[str]) -> Question:
    """These hold nothing any more, and do not come back."""
    return structs.replace(question, holders=tuple(one for one in question.holders if one.uid not in uids))


def suited(question: Question, taints: Sequence[Taint], *, anywhere: bool) -> Question:
    """All its pods tolerate these taints; `anywhere`: they want no particular labels."""
    extra = tuple(Toleration(key=taint.key, exists=True) for taint in taints)

    def suit(shape: PodShape) -> PodShape:
        tolerant = structs.replace(shape, tolerations=(*shape.tolerations, *extra))
        return structs.replace(tolerant, node_selector=(), required_terms=None) if anywhere else tolerant

    workload = question.head.workload
    sets = tuple(structs.replace(one, shape=suit(one.shape)) for one in workload.pod_sets)
    return question.about(structs.replace(workload, pod_sets=sets))


def _with_pod_set(question: Question, name: str, change: Callable[[PodSet], PodSet]) -> Question:
    workload = question.head.workload
    sets = tuple(change(one) if one.name == name else one for one in workload.pod_sets)
    return question.about(structs.replace(workload, pod_sets=sets))


def _raised(owner: Owner, field: Field, by: Mapping[FlavorResource, int]) -> Owner:
    return structs.replace(owner, groups=tuple(_raised_group(group, field, by) for group in owner.groups))


def _raised_group(group: ResourceGroup, field: Field, by: Mapping[FlavorResource, int]) -> ResourceGroup:
    flavors = tuple(
        FlavorQuotas(
            entry.flavor,
            tuple(
                (name, _raised_quota(quota, field, by.get(FlavorResource(entry.flavor, name), 0)))
                for name, quota in entry.quotas
            ),
        )
        for entry in group.flavors
    )
    return ResourceGroup(group.resources, flavors)


def _raised_quota(quota: Quota, field: Field, by: int) -> Quota:
    before = amount_of(quota, field)
    if not by or before is None:
        return quota
    match field:
        case Field.NOMINAL:
            return structs.replace(quota, nominal=before + by)
        case Field.BORROWING:
            return structs.replace(quota, borrowing_limit=before + by)
        case Field.LENDING:
            return structs.replace(quota, lending_limit=before + by)
        case _:
            assert_never(field)
