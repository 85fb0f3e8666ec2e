"""A pod, or a group as one, in line: who is before whom, and how often it was tried."""

from __future__ import annotations

from collections.abc import Hashable
from enum import StrEnum

from msgspec import Struct

from headgate.model.groups import GroupKey
from headgate.model.keys import Key
from headgate.model.pod import Pod


class Line(StrEnum):
    """Where a waiting pod stands; the values are the labels of scheduler_pending_pods."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"


Rank = tuple[int, float, Key]


class Waiting(Struct):
    """One place in line: a pod's, or that of a group whose members go together or not at all."""

    pod: Pod  # of a group, the member that stands for it
    line: Line = Line.ACTIVE
    failures: int = 0  # attempts in a row that ended in trouble, not in a refusal
    kin: Hashable = None  # pods of equal kin get equal verdicts; set when it is refused
    refused_by: tuple[str, ...] = ()  # the plugins that last kept it from a node, or out of the queue
    attempts: int = 0
    since: float = 0.0  # when it first had its turn coming: time behind gates does not count
    group: GroupKey | None = None
    pods: int = 1  # how many stand here as one

    @property
    def key(self) -> Key:
        return self.pod.key if self.group is None else self.group.line_key

    @property
    def rank(self) -> Rank:
        """Higher priority first, then older, then by name: the same order after a restart."""
        return (-self.pod.priority, self.pod.created, self.pod.key)


ENOUGH_DOUBLINGS = 64  # beyond any limit anyone sets


class Backoff(Struct, frozen=True):
    """How long to wait after the n-th time in a row: doubling, up to a limit."""

    initial: float
    limit: float

    def after(self, times: int) -> float:
        return min(self.limit, self.initial * 2.0 ** min(times - 1, ENOUGH_DOUBLINGS)) if times else 0.0
