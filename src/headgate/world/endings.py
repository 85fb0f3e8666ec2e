"""How a pod that was told to leave is removed by whoever has the last word on it."""

from __future__ import annotations

from headgate.model.effects import Delete, Effect, PatchStatus, PodRun
from headgate.model.pod import ENDED, Phase, Pod


def remove(pod: Pod, now: float, *, reason: str = "", exit_code: int | None = None) -> list[Effect]:
    """Its phase first, so that a pod kept by a finalizer no longer counts as running; then the object itself."""
    removal = Delete(pod.target, grace=0)
    if pod.phase in ENDED:
        return [removal]
    return [PatchStatus(pod.target, PodRun(Phase.FAILED, now, reason, exit_code)), removal]
