"""May a pod enter the queue at all? Each plugin refuses with a reason, or lets it pass."""

from __future__ import annotations

from typing import Protocol

from headgate.model.pod import Pod


class PreEnqueue(Protocol):
    """Keeps pods out of the queue. Asked again whenever the pod itself changes."""

    @property
    def name(self) -> str: ...

    def refusal(self, pod: Pod) -> str | None:
        """Why it may not enter; None when it may."""


class SchedulingGates:
    name = "SchedulingGates"

    def refusal(self, pod: Pod) -> str | None:
        return f"waiting for scheduling gates: {', '.join(pod.gates)}" if pod.gates else None


PRE_ENQUEUE: tuple[PreEnqueue, ...] = (SchedulingGates(),)
