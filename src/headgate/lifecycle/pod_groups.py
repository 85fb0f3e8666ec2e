"""Groups of pods: admitted together by the total they name, with places that other pods may take over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from headgate.lifecycle import activity, pod_writes
from headgate.lifecycle.pod_group_members import (
    group_of,
    is_fast,
    is_standing,
    members,
    newcomers,
    problem_of,
    roles,
    total_of,
)
from headgate.lifecycle.roles import role_of
from headgate.lifecycle.work import Ending, Injections, Stop, WantedPodSet
from headgate.model.effects import Delete, Effect, EmitEvent, EventType, Owners, PatchSpec
from headgate.model.keys import Key, Kind, Target
from headgate.model.kueue_names import IS_GROUP_WORKLOAD, PREBUILT_WORKLOAD, RETRIABLE, SERVING
from headgate.model.pod import ENDED, Phase, Pod
from headgate.model.queues import QueuedWorkload
from headgate.model.quota_settings import QuotaRelease


class GroupWork:
    """All pods of one group, at least one. The pod sets of their Workload, where there is one, are their places."""

    runs_again = True
    on_hold = uid = ""
    marks: Mapping[str, str] = {IS_GROUP_WORKLOAD: "true"}

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
    def labels_of_parts(self) -> Sequence[Mapping[str, str]]:
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
        """All pods are there, or the first is enough; pods that all leave make no group."""
        if not any(pod.deleted is None for pod in self._standing):
            return False
        return is_fast(self._standing) or len(self._standing) >= total_of(self._standing)

    @property
    def is_going(self) -> bool:
        return all(pod.deleted is not None for pod in self._pods)

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
        return activity.is_active(self._pods, now, self._release)

    def takes_room(self, now: float) -> bool:
        return any(pod.holds_room for pod in self._pods)

    def next_release(self, now: float) -> float | None:
        return activity.next_release(self._pods, now, self._release)

    def pod_sets(self) -> tuple[WantedPodSet, ...]:
        return tuple(
            WantedPodSet(role, pod_writes.template(pod), count) for role, pod, count in roles(self._members.kept)
        )

    def owns(self, workload: QueuedWorkload) -> bool:
        """A Workload someone made under the group's name is not the group's, unless the pods ask for that one."""
        if workload.is_controlled:
            return False
        made_for_it = self.labels.get(PREBUILT_WORKLOAD) == workload.key.name
        return made_for_it or workload.annotations.get(IS_GROUP_WORKLOAD) == "true"

    def matches(self, workload: QueuedWorkload) -> bool:
        return bool(self._members.kept)

    def start(self, workload: QueuedWorkload, given: Injections) -> Iterator[Effect]:
        for pod in self._members.kept:
            if pod_writes.can_start(pod):
                yield pod_writes.start(pod, given[role_of(pod)])

    def stop(self, why: Stop) -> Iterator[Effect]:
        for pod in self._pods:
            if pod_writes.may_run(pod):
                yield from pod_writes.stop(pod, why)

    def tidy(self, workload: QueuedWorkload | None, now: float) -> Iterator[Effect]:
        """Pods too many leave; those with another in their place, or whose place waits for nobody, are let go."""
        if workload is not None:
            yield from self._own(workload)
        for pod in self._members.excess:
            yield from _send_away(pod, now)
        for pod in self._members.replaced:
            yield from pod_writes.let_go(pod)
        for pod in self._members.kept if self._serves else ():
            if pod.phase in ENDED or pod.deleted is not None:
                yield from pod_writes.let_go(pod)

    def discard(self) -> Iterator[Effect]:
        yield from (Delete(pod.target) for pod in self._pods)

    def let_go(self) -> Iterator[Effect]:
        for pod in self._pods:
            yield from pod_writes.let_go(pod)

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
    yield from pod_writes.let_go(pod)
    if pod.deleted is None:
        yield Delete(pod.target)
        yield EmitEvent(pod.target, EventType.NORMAL, "ExcessPodDeleted", "Deleting", "Excess pod deleted", now)
