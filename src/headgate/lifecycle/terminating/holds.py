"""Holds: an admitted workload keeps its gates while terminating pods would make it fit.

The Workload's condition WaitingForRoom is True while it is held. Once that turned False, the workload is not held again
in the same admission, whichever process looks.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from msgspec import Struct

from headgate.lifecycle.workload.conditions import (
    ADMITTED,
    EVICTED,
    ConditionUpdate,
    edited,
    second,
    shows,
    true_since,
    with_status,
)
from headgate.model.pod import Pod
from headgate.model.queues import QueuedWorkload
from headgate.model.resources import amount_text

WAITING_FOR_ROOM = "WaitingForRoom"
TERMINATING, ENDED = "PodsTerminating", "HoldEnded"
NAMED = 5  # pods that a message names; of the others it says how many there are
_EPOCH = datetime(1970, 1, 1)


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
    update = ConditionUpdate(WAITING_FOR_ROOM, False, ENDED, "The workload is no longer held")
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
