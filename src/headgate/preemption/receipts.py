"""Why these and no others: the whole reasoning behind a plan, as a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from headgate.model.groups import GroupKey
from headgate.model.keys import Key
from headgate.preemption.policies import VictimPolicy
from headgate.preemption.steps import Solution
from headgate.preemption.units import Unit

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


class Choice(Struct, frozen=True):
    """What was chosen, and beside what."""

    policy: VictimPolicy
    best: Solution
    compared: Sequence[Solution]  # the foremost ways, the best among them
    domains: int  # in how many domains room could be made
    certificate: str


def receipt(preemptor: Key | GroupKey, victims: Sequence[Unit], choice: Choice) -> Receipt:
    best, names = choice.best, [name for name, _ in choice.policy.criteria]
    lost = best.outcome.among.lost[best.outcome.units].tolist()
    displaces = best.displaces or (0,) * len(lost)
    return Receipt(
        preemptor=preemptor,
        policy=choice.policy.name,
        domain=best.domain.name,
        criteria=tuple(zip(names, best.judged, strict=True)),
        victims=tuple(
            VictimLine(unit.key, unit.priority, len(unit.pods), work, further)
            for unit, work, further in zip(victims, lost, displaces, strict=True)
        ),
        candidates=best.outcome.among.count,
        domains=choice.domains,
        alternatives=tuple(_rejected(names, best, choice.compared)),
        certificate=choice.certificate,
    )


def _rejected(names: Sequence[str], best: Solution, compared: Sequence[Solution]) -> Iterator[Alternative]:
    seen = [best]
    for other in compared:
        if all(other.judged != each.judged or other.domain.name != each.domain.name for each in seen):
            seen.append(other)
            yield Alternative(other.domain.name, _worse_by(names, best.judged, other.judged))


def _worse_by(names: Sequence[str], best: Sequence[int], other: Sequence[int]) -> str:
    for name, ours, theirs in zip(names, best, other, strict=True):
        if ours != theirs:
            return f"{name}: {theirs} instead of {ours}"
    return "equal; the draw decided"
