"""The preemption orchestrator: which worker cluster may preempt for a workload, and when.

At most one gate of a workload is opened within `singleClusterPreemptionTimeout`, whatever clusters are connected. The
opening is promised at home before it is performed, so it counts also when its cluster is cut off, or our process ends,
right after.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from headgate.fleet.replicas import Answer, Replica

_PROMISE = re.compile(r"([a-z0-9][-.a-z0-9]{0,252})@([0-9]{1,11})")


class Promise(Struct, frozen=True):
    """The gate that is opened: on which cluster, since when."""

    cluster: str
    at: float

    @classmethod
    def read(cls, text: str, since: float) -> Promise | None:
        """As an annotation says it; nothing that was promised before `since` counts."""
        found = _PROMISE.fullmatch(text)
        if found is None or float(found[2]) < since:
            return None
        return cls(found[1], float(found[2]))

    @property
    def text(self) -> str:
        return f"{self.cluster}@{int(self.at)}"


class OpenGate(Struct, frozen=True):
    """Open the gate of this replica. `is_new`: it has to be promised first."""

    replica: Replica
    is_new: bool


class WaitUntil(Struct, frozen=True):
    at: float


GateDecision = OpenGate | WaitUntil | None


class GateRules(Struct, frozen=True):
    timeout: float  # seconds between two openings
    window: float  # seconds after the first signal in which others are waited for; 0: first come, first served


class Dispatched(Struct, frozen=True):
    """A workload that was dispatched and is not admitted yet.

    `replicas` are as last observed, also those of clusters that are cut off; `awaited` are nominated clusters that are
    connected and have no replica yet.
    """

    replicas: tuple[Replica, ...]
    awaited: tuple[str, ...] = ()
    promise: Promise | None = None
    signalled: float | None = None  # when we first saw one that is blocked


def next_gate(state: Dispatched, rules: GateRules, now: float) -> GateDecision:
    """What is to be done about the gates of one workload. None: nothing, until something changes."""
    replicas, promise = state.replicas, state.promise
    opened = [replica.opened_at for replica in replicas if replica.opened_at is not None]
    opened += [promise.at] if promise is not None else []
    previously = max((at for at in opened if _is_plausible(at, rules, now)), default=None)
    if previously is not None and now - previously < rules.timeout:
        if promise is not None and promise.at == previously:
            for replica in replicas:
                if replica.cluster == promise.cluster and replica.connected and replica.blocked_since is not None:
                    return OpenGate(replica, is_new=False)
        return WaitUntil(previously + rules.timeout)
    blocked = [replica for replica in replicas if replica.connected and replica.blocked_since is not None]
    if not blocked:
        return None
    if not rules.window:
        return OpenGate(min(blocked, key=_signalled), is_new=True)
    until = _others_until(state, rules, now)
    if until is not None:
        return WaitUntil(until)
    return OpenGate(min(blocked, key=lambda replica: (_price(replica, now), _signalled(replica))), is_new=True)


def _others_until(state: Dispatched, rules: GateRules, now: float) -> float | None:
    """Until when it is waited for clusters that may do without preemption.

    One that has quota already is waited for as long as one that preempts would be.
    """
    connected = [replica for replica in state.replicas if replica.connected]
    reserved = [replica.reserved_at for replica in connected if replica.reserved_at is not None]
    waiting = [at + rules.timeout for at in reserved if _is_plausible(at, rules, now) and at + rules.timeout > now]
    if waiting:
        return min(waiting)
    undecided = state.awaited or any(replica.answer is Answer.NONE for replica in connected)
    closes = (now if state.signalled is None else state.signalled) + rules.window
    return closes if undecided and closes > now else None


def _is_plausible(at: float, rules: GateRules, now: float) -> bool:
    """Clocks differ, but nobody is waited for longer than twice: a time far ahead of ours is a mistake."""
    return at <= now + rules.timeout


def _price(replica: Replica, now: float) -> tuple[int, int, int, int, int]:
    """The cheapest first: the least important victims, then the least work lost. Who names no price comes last."""
    offer = replica.proposal
    if offer is None or not offer.can_preempt:
        return 1, 0, 0, 0, 0
    return 0, offer.highest_priority, offer.priority_sum, offer.victims, offer.work_lost(now)


def _signalled(replica: Replica) -> float:
    """When it signalled; of several in the same second the first in order is taken."""
    return replica.blocked_since or 0.0


def is_hopeless(replicas: Sequence[Replica]) -> bool:
    """Every cluster that can be asked has refused, also with preemption."""
    connected = [replica for replica in replicas if replica.connected]
    return bool(connected) and all(replica.answer is Answer.REFUSED for replica in connected)
