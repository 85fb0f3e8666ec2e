"""Why these and no others: the whole reasoning behind a plan, as a value."""

from __future__ import annotations

from msgspec import Struct

from headgate.model.groups import GroupKey
from headgate.model.keys import Key

NOT_COMPARED = "not compared"


class VictimLine(Struct, frozen=True, gc=False):
    """One unit that must leave, and what that costs."""

    key: Key | GroupKey
    priority: int
    pods: int
    work_lost: int  # in millionths of a node-second
    displaces: int = 0  # the estimated further loss when it comes back and preempts in its turn


class Alternative(Struct, frozen=True):
    """Another way that would have done, and the first criterion by which it is worse."""

    where: str
    why: str


class Receipt(Struct, frozen=True):
    preemptor: Key | GroupKey
    policy: str
    domain: str
    criteria: tuple[tuple[str, int], ...]  # in the order they were compared; smaller is better
    victims: tuple[VictimLine, ...]
    candidates: int  # units that could have been asked to leave
    domains: int  # how many domains would have done
    alternatives: tuple[Alternative, ...] = ()
    certificate: str = NOT_COMPARED

    @property
    def displaced(self) -> int:
        """The estimated further loss of all victims together."""
        return sum(victim.displaces for victim in self.victims)
