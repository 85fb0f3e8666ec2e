"""What do pods that are being deleted still hold, and who waits for it?

Quota: a Workload releases its quota once none of its pods holds any, terminating ones included. Debt: quota that was
released while its pods still hold capacity of their nodes, until they are gone. Holds: an admitted workload keeps its
gates while terminating pods would make it fit. The condition WaitingForRoom of the Workload is True while it is held.
Once that turned False, the workload is not held again in the same admission, whichever process looks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import assert_never

from msgspec import Struct

from headgate.lifecycle.jobframework.pod_writes import is_gated
from headgate.lifecycle.workload.conditions import (
    ADMITTED,
    EVICTED,
    FINISHED,
    QUOTA_RESERVED,
    ConditionUpdate,
    edited,
    second,
    shows,
    true_since,
    with_status,
)
from headgate.model.kueue_names import CLUSTER_QUEUE_NAME, FLAVORS, POD_SET
from headgate.model.pod import ENDED, Pod
from headgate.model.queues import QueuedWorkload
from headgate.model.resources import amount_text
from headgate.model.settings import QuotaRelease

DebtKey = tuple[str, str, str]
"""Cluster queue, flavor and resource."""
STUCK_AFTER = 30.0  # seconds beyond its grace after which a pod that does not end is reported
WAITING_FOR_ROOM = "WaitingForRoom"
TERMINATING, HOLD_ENDED = "PodsTerminating", "HoldEnded"
NAMED = 5  # pods that a message names; of the others it says how many there are
_EPOCH = datetime(1970, 1, 1)


def is_active(pods: Iterable[Pod], now: float, release: QuotaRelease) -> bool:
    """Whether any of the pods holds quota now."""
    return any(holds_quota(pod, now, release) for pod in pods)


def holds_quota(pod: Pod, now: float, release: QuotaRelease) -> bool:
    """A pod without a node, or that ended, holds none; neither does a terminating one whose time has come."""
    if not pod.holds_room:
        return False
    until = held_until(pod, release)
    return until is None or now < until


def held_until(pod: Pod, release: QuotaRelease) -> float | None:
    """When time alone makes the pod release its quota; None: never.

    Once a pod is being deleted, that is at once (Fast), or after its grace, counted as Kueue does from the time it
    was to be gone (Grace), or never: it must end (OnTerminal).
    """
    if pod.deleted is None:
        return None
    match release:
        case QuotaRelease.FAST:
            return float("-inf")
        case QuotaRelease.GRACE:
            return pod.deleted + pod.grace
        case QuotaRelease.ON_TERMINAL:
            return None
        case _:
            assert_never(release)


def next_release(pods: Iterable[Pod], now: float, release: QuotaRelease) -> float | None:
    """When the first of the pods that hold quota releases it though nothing else happens."""
    releases = [held_until(pod, release) for pod in pods if holds_quota(pod, now, release)]
    return min((at for at in releases if at is not None), default=None)


class PodOccupancy(Struct, frozen=True):
    """The started pods of a job beside the places its quota is for; counts are by pod set."""

    owing: tuple[Pod, ...] = ()  # they hold capacity whose quota is free, or another's by now
    on_nodes: Mapping[str, int] = {}  # places whose pods are on nodes
    terminates_with_quota: bool = False  # some pods terminate whose quota is still held


def is_started(pod: Pod) -> bool:
    """Whether it holds capacity, or is about to, by quota that it was admitted with."""
    holds_capacity = pod.holds_room if pod.deleted is not None else pod.phase not in ENDED
    return holds_capacity and FLAVORS in pod.annotations and not is_gated(pod)


def is_terminating(pod: Pod) -> bool:
    """Whether it is being deleted and still holds capacity that it was admitted to."""
    return pod.deleted is not None and pod.holds_room and FLAVORS in pod.annotations


def occupancy(pods: Sequence[Pod], workload: QueuedWorkload | None) -> PodOccupancy:
    """The occupancy of a job with these started pods, given its Workload.

    A pod that was deleted while quota was held for its job keeps its place until another is started there.
    """
    since = reserved_since(workload)
    places = places_of(workload)
    free = [pod for pod in pods if is_terminating(pod) and not _has_quota(pod, since)]
    terminating = sorted((pod for pod in pods if is_terminating(pod) and _has_quota(pod, since)), key=_deletion_order)
    running = [pod for pod in pods if not is_terminating(pod)]
    started = _by_pod_set([*running, *terminating])
    excess = {name: min(_count(terminating, name), over) for name, over in _beyond(started, places).items()}
    pushed_out = [pod for name, count in excess.items() for pod in _of(terminating, name)[:count]]
    on_nodes = _by_pod_set(pod for pod in (*running, *terminating) if pod.node)
    on_nodes.subtract(excess)
    return PodOccupancy((*free, *pushed_out), on_nodes, len(pushed_out) < len(terminating))


def reserved_since(workload: QueuedWorkload | None) -> float | None:
    """Since when quota is held for the job; None: it is not."""
    if workload is None or workload.status.admission is None or workload.is_true(FINISHED):
        return None
    return true_since(workload, QUOTA_RESERVED)


def places_of(workload: QueuedWorkload | None) -> dict[str, int]:
    """How many pods of each set have quota."""
    if workload is None or workload.status.admission is None:
        return {}
    return {assigned.name: assigned.count for assigned in workload.status.admission.pod_sets}


def taken_by(pod: Pod) -> Mapping[DebtKey, int]:
    """What the pod takes, by the quota it was started with."""
    queue = pod.labels.get(CLUSTER_QUEUE_NAME, "")
    return {
        (queue, flavor, resource): 1 if resource == "pods" else pod.shape.requests[resource]
        for resource, flavor in flavors_of(pod)
        if resource == "pods" or pod.shape.requests[resource]
    }


def flavors_of(pod: Pod) -> list[tuple[str, str]]:
    """The flavor of each resource, as the pod's annotation says since it started."""
    parts = [part.partition("=") for part in pod.annotations.get(FLAVORS, "").split(",")]
    return [(resource, flavor) for resource, found, flavor in parts if found]


def is_stuck(pod: Pod, now: float) -> bool:
    """Whether it should have been gone for a while."""
    return pod.deleted is not None and pod.holds_room and now >= pod.deleted + STUCK_AFTER


def _has_quota(pod: Pod, since: float | None) -> bool:
    """Quota that was reserved only after the pod was deleted is held for others than this pod."""
    return pod.deleted is not None and since is not None and since <= pod.deleted - pod.grace


def _beyond(started: Mapping[str, int], places: Mapping[str, int]) -> dict[str, int]:
    over = {name: count - places.get(name, 0) for name, count in sorted(started.items())}
    return {name: count for name, count in over.items() if count > 0}


def _pod_set(pod: Pod) -> str:
    return pod.labels.get(POD_SET, "")


def _by_pod_set(pods: Iterable[Pod]) -> Counter[str]:
    return Counter(_pod_set(pod) for pod in pods)


def _of(pods: Sequence[Pod], name: str) -> list[Pod]:
    return [pod for pod in pods if _pod_set(pod) == name]


def _count(pods: Sequence[Pod], name: str) -> int:
    return len(_of(pods, name))


def _deletion_order(pod: Pod) -> tuple[object, ...]:
    return pod.deleted, pod.key


class Hold(Struct, frozen=True):
    """A workload is held for these terminating pods, which are promised to it alone, until `until` at the latest."""

    pods: tuple[Pod, ...]  # those that are due first in front
    until: float


def hold_limit(workload: QueuedWorkload, max_hold: float) -> float | None:
    """When a hold of this admission is over in any case; None when there can be none, or it has ended."""
    since = true_since(workload, ADMITTED)
    if since is None or workload.status.admission is None or workload.is_true(EVICTED):
        return None
    return None if _ended_at(workload, since) is not None else since + max_hold


def running_since(workload: QueuedWorkload) -> float | None:
    """When an admitted workload started: with its admission, or when its hold ended; None while it is held."""
    return runs_from(workload, None)


def runs_from(workload: QueuedWorkload, max_hold: float | None) -> float | None:
    """As `running_since`; of one that is held the latest time at which it starts, if `max_hold` is given."""
    since, hold = true_since(workload, ADMITTED), workload.condition(WAITING_FOR_ROOM)
    if since is None or hold is None:
        return since
    if hold.status == "True":
        return None if max_hold is None else since + max_hold
    return max(since, hold.at)


def seconds_run(workload: QueuedWorkload, now: float) -> int:
    """Whole seconds that it has run in this admission."""
    since = running_since(workload)
    return 0 if since is None else max(0, int(second(now) - since))


def with_hold(workload: QueuedWorkload, hold: Hold | None, now: float) -> QueuedWorkload:
    """The Workload with a condition that says whether it is held; one that never was held says nothing."""
    if hold is None and not workload.is_true(WAITING_FOR_ROOM):
        return workload
    update = ConditionUpdate(WAITING_FOR_ROOM, False, HOLD_ENDED, "The workload is no longer held")
    if hold is not None:
        update = ConditionUpdate(WAITING_FOR_ROOM, True, TERMINATING, message(hold, workload))
    return workload if shows(workload, update) else with_status(workload, edited(workload, now, update))


def message(hold: Hold, workload: QueuedWorkload) -> str:
    """Which pods on which nodes it is held for, what these free of the resources it has quota for, and the deadline."""
    named = ", ".join(f"{pod.key.namespace}/{pod.key.name} on {pod.node}" for pod in hold.pods[:NAMED])
    more = f" and {len(hold.pods) - NAMED} more" if len(hold.pods) > NAMED else ""
    return f"waiting for {_freed(hold, workload)} of leaving pods {named}{more}; starts by {_utc(hold.until)}"


def _freed(hold: Hold, workload: QueuedWorkload) -> str:
    given = workload.status.admission.pod_sets if workload.status.admission is not None else ()
    wanted = dict.fromkeys(resource for assigned in given for resource, _ in assigned.flavors)
    freed: Counter[str] = Counter()
    for pod in hold.pods:
        freed.update({name: 1 if name == "pods" else pod.shape.requests[name] for name in wanted})
    parts = [f"{amount_text(name, amount)} {name}" for name, amount in sorted(freed.items()) if amount]
    return ", ".join(parts) or "the places"


def _ended_at(workload: QueuedWorkload, since: float) -> float | None:
    """When the hold of the admission that began then ended; None while it lasts, or when there was none."""
    shown = workload.condition(WAITING_FOR_ROOM)
    return shown.at if shown is not None and shown.status != "True" and shown.at >= since else None


def _utc(at: float) -> str:
    return (_EPOCH + timedelta(seconds=at // 1)).isoformat(timespec="seconds") + "Z"
