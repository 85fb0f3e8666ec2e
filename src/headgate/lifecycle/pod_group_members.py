"""Who of a group's pods counts: those that stay, those too many, those that were replaced, and how many are missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from headgate.lifecycle.pod_writes import held, is_gated
from headgate.lifecycle.roles import role_of
from headgate.model.kueue_names import FAST_ADMISSION, GROUP_NAME, GROUP_TOTAL, MANAGED, QUEUE_NAME, positive
from headgate.model.pod import Phase, Pod
from headgate.model.queues import PodSet
from headgate.model.quota_settings import QuotaRelease

MOST_ROLES = 18


class Members(Struct, frozen=True, gc=False):
    kept: tuple[Pod, ...]
    excess: tuple[Pod, ...] = ()  # alive, and more than the group has places
    replaced: tuple[Pod, ...] = ()  # no more alive, with another in their place
    missing: int = 0


def group_of(pod: Pod) -> str:
    """The name of its group; empty for a pod by itself."""
    return pod.labels.get(GROUP_NAME) or pod.annotations.get(GROUP_NAME, "")


def total_of(pods: Iterable[Pod]) -> int:
    """How many pods the group has, as the first that says so says."""
    return next((total for pod in pods if (total := positive(pod.annotations, GROUP_TOTAL))), 0)


def is_standing(pod: Pod, release: QuotaRelease) -> bool:
    """Whether it has, had or will have its place in the group.

    A pod that was asked to leave keeps its place as long as its quota, so that none is started twice for it.
    """
    if pod.phase is Phase.SUCCEEDED:
        return True
    if pod.deleted is not None and (not pod.node or release is QuotaRelease.FAST):
        return False
    return pod.phase is not Phase.FAILED


def problem_of(pods: Sequence[Pod]) -> str:
    """What keeps the pods from being one group."""
    total = total_of(pods)
    if not total:
        return f"no pod of the group says in {GROUP_TOTAL} how many there are"
    for pod in pods:
        if positive(pod.annotations, GROUP_TOTAL) != total:
            said = pod.annotations.get(GROUP_TOTAL, "")
            return f"pods {pods[0].key.name} and {pod.key.name} differ in {GROUP_TOTAL}: {total} and {said!r}"
        queue, here = pods[0].labels.get(QUEUE_NAME, ""), pod.labels.get(QUEUE_NAME, "")
        if queue != here:
            return f"pods {pods[0].key.name} and {pod.key.name} differ in {QUEUE_NAME}: {queue!r} and {here!r}"
    roles = len({role_of(pod) for pod in pods})
    return f"the group has {roles} roles, at most {MOST_ROLES} can be" if roles > MOST_ROLES else ""


def newcomers(pods: Sequence[Pod], release: QuotaRelease) -> Members:
    """The members of a group that has no Workload yet: as many as it says it has, the oldest first."""
    standing = sorted((pod for pod in pods if is_standing(pod, release)), key=_worth_keeping)
    fallen = tuple(pod for pod in pods if not is_standing(pod, release))
    total = total_of(standing)
    return Members(tuple(standing[:total]), tuple(standing[total:]) if total else (), fallen)


def members(pods: Sequence[Pod], places: Sequence[PodSet], release: QuotaRelease) -> Members:
    """The members of a group whose Workload has these places, role by role; pods of other roles are passed over."""
    by_role: dict[str, list[Pod]] = {}
    for pod in pods:
        by_role.setdefault(role_of(pod), []).append(pod)
    each = [_of_role(by_role.get(place.name, []), place.count, release) for place in places]
    return Members(
        tuple(pod for found in each for pod in found.kept),
        tuple(pod for found in each for pod in found.excess),
        tuple(pod for found in each for pod in found.replaced),
        sum(found.missing for found in each),
    )


def roles(pods: Sequence[Pod]) -> list[tuple[str, Pod, int]]:
    """Each role with a pod that has it and how many have; of a group that does not wait for all, only the first's."""
    first: dict[str, Pod] = {}
    counts: dict[str, int] = {}
    for pod in pods:
        first.setdefault(role_of(pod), pod)
        counts[role_of(pod)] = counts.get(role_of(pod), 0) + 1
    if pods and is_fast(pods):
        return [(role_of(pods[0]), pods[0], total_of(pods))]
    return [(role, first[role], counts[role]) for role in sorted(first)]


def is_fast(pods: Sequence[Pod]) -> bool:
    return any(pod.annotations.get(FAST_ADMISSION) == "true" for pod in pods)


def _of_role(pods: Sequence[Pod], places: int, release: QuotaRelease) -> Members:
    standing = sorted((pod for pod in pods if is_standing(pod, release)), key=_worth_keeping)
    fallen = sorted((pod for pod in pods if not is_standing(pod, release)), key=_worth_remembering)
    remembered = max(0, places - len(standing))
    return Members(
        (*standing[:places], *fallen[:remembered]), tuple(standing[places:]), tuple(fallen[remembered:]), remembered
    )


def _worth_keeping(pod: Pod) -> tuple[object, ...]:
    """Those we hold on to first, then those that may run, then the oldest."""
    return MANAGED not in held(pod).finalizers, is_gated(pod), pod.created, pod.key


def _worth_remembering(pod: Pod) -> tuple[object, ...]:
    """Those we hold on to first, then those that were alive last."""
    ends = [at for at in (held(pod).failed_at, pod.deleted) if at is not None]
    last_alive = min(ends, default=float("inf"))
    return MANAGED not in held(pod).finalizers, -last_alive, pod.created, pod.key
