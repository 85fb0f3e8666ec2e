"""What somebody else might write: plugins that keep pods out of Headgate's queue."""

from __future__ import annotations

from headgate.model.cluster_events import ClusterEvent
from headgate.model.pod import Pod

HOLD = "example.com/hold"


class AnnotationGate:
    """A pod waits as long as it carries the annotation, and says why with the annotation's own words."""

    name = "AnnotationGate"
    wake_on: frozenset[ClusterEvent] = frozenset()

    def refusal(self, pod: Pod) -> str | None:
        reason = pod.annotations.get(HOLD)
        return f"held by its owner: {reason}" if reason else None


class ApprovalGate:
    """A pod waits until somebody has labelled it, however its profile came to ask for that."""

    name = "ApprovalGate"
    wake_on: frozenset[ClusterEvent] = frozenset()

    def refusal(self, pod: Pod) -> str | None:
        return None if "example.com/approved-by" in pod.labels else "nobody has approved it yet"


approval = ApprovalGate()
