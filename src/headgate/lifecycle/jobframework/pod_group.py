"""Groups of pods: admitted together by the total they name, with places that other pods may take over."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headgate.lifecycle import terminating
from headgate.lifecycle.jobframework import pod_writes
from headgate.lifecycle.jobframework.generic_job import (
    COMPOSE_ERROR,
    Ending,
    PodSetInfos,
    Stop,
    WantedPodSet,
    requests_topology,
    topology_request,
)
from headgate.lifecycle.jobframework.pod_writes import held, is_gated
from headgate.model.effects import Delete, Effect, EmitEvent, EventType, Owners, PatchSpec
from headgate.model.keys import Key, Kind, Target
from headgate.model.kueue_names import (
    FAST_ADMISSION,
    GROUP_NAME,
    GROUP_TOTAL,
    IS_GROUP_WORKLOAD,
    MANAGED,
    PREBUILT_WORKLOAD,
    QUEUE_NAME,
    RETRIABLE,
    ROLE_HASH,
    SERVING,
    positive,
)
from headgate.model.pod import ENDED, Phase, Pod, PodShape
from headgate.model.queues import PodSet, QueuedWorkload
from headgate.model.settings import QuotaRelease

_DIGITS = 8


def role_of(pod: Pod) -> str:
    """As the pod itself says; else the same for pods that ask for the same, whatever image they run."""
    return pod.annotations.get(ROLE_HASH) or role_hash(pod.shape, pod.priority)


def role_hash(shape: PodShape, priority: int) -> str:
    """Equal for pods of one template, whatever image they run."""
    plain = replace(shape, images=(), node_name="", bound_to=None)
    return hashlib.sha256(msgspec.json.encode((plain, priority))).hexdigest()[:_DIGITS]


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

    A terminating pod keeps its place as long as its quota, so that none is started twice for it.
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
            shown = pod.annotations.get(GROUP_TOTAL, "")
            return f"pods {pods[0].key.name} and {pod.key.name} differ in {GROUP_TOTAL}: {total} and {shown!r}"
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


class PodGroupAdapter:
    """All pods of one group, at least one. The pod sets of their Workload, where there is one, are their places."""

    on_hold = uid = ""
    workload_annotations: Mapping[str, str] = {IS_GROUP_WORKLOAD: "true"}

    def __init__(self, pods: Sequence[Pod], workload: QueuedWorkload | None, release: QuotaRelease) -> None:
        self._release = release
        self._pods = tuple(sorted(pods, key=lambda pod: (pod.created, pod.key)))
        self.parts = tuple(pod.target for pod in self._pods)
        self._places = workload.pod_sets if workload is not None else ()
        self._members = members(self._pods, self._places, release) if workload else newcomers(self._pods, release)
        self._serves = any(pod.annotations.get(SERVING) == "true" for pod in self._pods)
        self._standing = tuple(pod for pod in self._pods if is_standing(pod, release))

    @property
    def key(self) -> Key:
        first = self._pods[0]
        return Key(Kind.KUEUE_WORKLOAD, first.key.namespace, group_of(first))

    @property
    def controller(self) -> Target | None:
        return None

    @property
    def owners(self) -> tuple[Target, ...]:
        return self.parts

    @property
    def part_labels(self) -> Sequence[Mapping[str, str]]:
        return [pod.labels for pod in self._members.kept]

    @property
    def labels(self) -> Mapping[str, str]:
        return self._speaker.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self._speaker.annotations

    @property
    def workload_key(self) -> Key:
        return self.key

    @property
    def pod_priority_class(self) -> str:
        return next((name for pod in self._pods if (name := pod_writes.held(pod).priority_class)), "")

    @property
    def problem(self) -> str:
        return problem_of(self._standing) if self._standing else ""

    @property
    def is_complete(self) -> bool:
        """All pods are there, or the first is enough; pods that all terminate make no group."""
        if not any(pod.deleted is None for pod in self._standing):
            return False
        return is_fast(self._standing) or len(self._standing) >= total_of(self._standing)

    @property
    def is_terminating(self) -> bool:
        return all(pod.deleted is not None for pod in self._pods)

    @property
    def can_restart(self) -> bool:
        """Pods that we stopped may be replaced; we stop none that is gated, so all of these were deleted for good."""
        deleted = [pod for pod in self._pods if pod.deleted is not None and pod_writes.is_gated(pod)]
        return not deleted or len(deleted) < len(self._pods)

    @property
    def can_start(self) -> bool:
        return any(pod_writes.can_start(pod) for pod in self._members.kept)

    @property
    def may_run(self) -> bool:
        return any(pod_writes.may_run(pod) for pod in self._pods)

    @property
    def missing(self) -> int | None:
        """Pods that were never there are not missed from a group that does not wait for them."""
        fallen = len(self._standing) < len(self._pods)
        return 0 if is_fast(self._pods) and not fallen else self._members.missing

    @property
    def ending(self) -> Ending | None:
        """All succeeded, or nothing runs any more and one of them says that none is to be replaced."""
        if self._serves:
            return None
        total, done = total_of(self._pods), sum(pod.phase is Phase.SUCCEEDED for pod in self._pods)
        message = f"Pods succeeded: {done}/{total}."
        if total and done >= total:
            return Ending("Succeeded", message)
        over = all(pod.phase in ENDED for pod in self._pods)
        final = any(pod.annotations.get(RETRIABLE) == "false" for pod in self._pods)
        return Ending("Failed", message) if over and final else None

    @property
    def is_ready(self) -> bool:
        ready = [pod for pod in self._members.kept if _is_ready(pod)]
        return len(ready) >= sum(place.count for place in self._places)

    @property
    def reclaimable(self) -> tuple[tuple[str, int], ...]:
        if self._serves:
            return ()
        done = Counter(role_of(pod) for pod in self._members.kept if pod.phase is Phase.SUCCEEDED)
        return tuple((place.name, done[place.name]) for place in self._places if done[place.name])

    def is_active(self, now: float) -> bool:
        return terminating.is_active(self._pods, now, self._release)

    def occupies_nodes(self, now: float) -> bool:
        return any(pod.holds_room for pod in self._pods)

    def next_release(self, now: float) -> float | None:
        return terminating.next_release(self._pods, now, self._release)

    def pod_sets(self) -> tuple[WantedPodSet, ...]:
        return tuple(
            WantedPodSet(role, pod_writes.template(pod), count, topology=topology_request(pod.annotations))
            for role, pod, count in roles(self._members.kept)
        )

    def owns(self, workload: QueuedWorkload) -> bool:
        """A Workload someone made under the group's name is not the group's, unless the pods ask for that one."""
        if workload.is_controlled:
            return False
        made_for_it = self.labels.get(PREBUILT_WORKLOAD) == workload.key.name
        return made_for_it or workload.annotations.get(IS_GROUP_WORKLOAD) == "true"

    def matches(self, workload: QueuedWorkload) -> bool:
        """A waiting Workload requests the topology that the first pod of each role does."""
        kept = self._members.kept
        if workload.status.admission is not None or not kept:
            return bool(kept)
        first = {role: pod for role, pod, _ in roles(kept)}
        known = [(place, first[place.name]) for place in workload.pod_sets if place.name in first]
        return all(requests_topology(place, pod.labels, pod.annotations) for place, pod in known)

    def start(self, workload: QueuedWorkload, given: PodSetInfos) -> Iterator[Effect]:
        for pod in self._members.kept:
            if pod_writes.can_start(pod):
                yield pod_writes.start(pod, given[role_of(pod)])

    def start_elsewhere(self) -> Iterator[Effect]:
        """Its gate stays."""
        return iter(())

    def stop(self, why: Stop) -> Iterator[Effect]:
        for pod in self._pods:
            if pod_writes.may_run(pod):
                yield from pod_writes.stop(pod, why)

    def sync_parts(self, workload: QueuedWorkload | None, now: float) -> Iterator[Effect]:
        """Excess pods are deleted; those that were replaced, or need no replacement, lose our finalizer."""
        if workload is not None:
            yield from self._own(workload)
        elif not self.is_complete and not self.may_run and not self.is_terminating and not self.problem:
            message = f"group {group_of(self._pods[0])} has fewer pods than its {GROUP_TOTAL}"
            yield EmitEvent(self.parts[0], EventType.WARNING, COMPOSE_ERROR, COMPOSE_ERROR, message, now)
        for pod in self._members.excess:
            yield from _send_away(pod, now)
        for pod in self._members.replaced:
            yield from pod_writes.finalize(pod)
        for pod in self._members.kept if self._serves else ():
            if pod.phase in ENDED or pod.deleted is not None:
                yield from pod_writes.finalize(pod)

    def delete(self) -> Iterator[Effect]:
        yield from (Delete(pod.target) for pod in self._pods)

    def finalize(self) -> Iterator[Effect]:
        for pod in self._pods:
            yield from pod_writes.finalize(pod)

    @property
    def _speaker(self) -> Pod:
        """Who speaks for the group: the first that stands."""
        return self._standing[0] if self._standing else self._pods[0]

    def _own(self, workload: QueuedWorkload) -> Iterator[Effect]:
        """Every member owns the Workload, so that it lasts as long as any of them."""
        known = {owner.uid for owner in workload.owners}
        more = tuple(pod.target for pod in self._members.kept if pod.uid not in known)
        if more:
            target = Target(workload.key, workload.uid, workload.version)
            yield PatchSpec(target, Owners((*workload.owners, *more)))


def _is_ready(pod: Pod) -> bool:
    return pod.phase is Phase.SUCCEEDED or (pod_writes.held(pod).ready and pod.deleted is None)


def _send_away(pod: Pod, now: float) -> Iterator[Effect]:
    yield from pod_writes.finalize(pod)
    if pod.deleted is None:
        yield Delete(pod.target)
        yield EmitEvent(pod.target, EventType.NORMAL, "ExcessPodDeleted", "Deleting", "Excess pod deleted", now)
