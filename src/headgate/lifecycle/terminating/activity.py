"""Which pods hold quota, terminating ones included. A Workload releases its quota once none of its pods does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from headgate.model.pod import Pod
from headgate.model.settings import QuotaRelease


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
