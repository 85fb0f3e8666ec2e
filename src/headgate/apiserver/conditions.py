"""Conditions in the status of pods and jobs."""

from __future__ import annotations

from headgate.apiserver.messages import Json
from headgate.apiserver.metadata import timestamp


def with_times(status: Json) -> Json:
    """Conditions always show both of their times, known or not; the very same status when they do."""
    conditions = status.get("conditions") or ()
    if all("lastProbeTime" in one and "lastTransitionTime" in one for one in conditions):
        return status
    unknown = {"lastProbeTime": None, "lastTransitionTime": None}
    return {**status, "conditions": [{**unknown, **one} for one in conditions]}


def with_condition(status: Json, condition: Json, now: float) -> Json:
    """The status with this condition; it keeps its time if it was so already."""
    conditions = status.get("conditions") or []
    old = next((one for one in conditions if one["type"] == condition["type"]), None)
    same = old is not None and old["status"] == condition["status"]
    since = old.get("lastTransitionTime") if same and old is not None else timestamp(int(now))
    new = {**condition, "lastProbeTime": None, "lastTransitionTime": since}
    others = [new if one is old else one for one in conditions]
    return {**status, "conditions": others if old is not None else [*others, new]}
