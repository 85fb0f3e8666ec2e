"""What a pod says about saving its work.

People write these annotations, and a mistake in one must not keep the pod from being scheduled: what cannot be
read says nothing.
"""

from __future__ import annotations

from headgate.api.durations import InvalidDuration, parse_duration
from headgate.api.times import InvalidTime, parse_time

CHECKPOINTED_AT = "headgate.dev/checkpointed-at"
CHECKPOINT_EVERY = "headgate.dev/checkpoint-every"


def checkpointed_at(text: str) -> float | None:
    """When the work was saved last (RFC 3339); None for text that is no time."""
    try:
        return parse_time(text)
    except InvalidTime:
        return None


def checkpoint_every(text: str) -> float | None:
    """The seconds after which the work is saved each time (`10m`); None for text that is no time span above 0."""
    try:
        seconds = parse_duration(text)
    except InvalidDuration:
        return None
    return seconds if seconds > 0 else None
