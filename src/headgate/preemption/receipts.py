"""Why these victims and no others: the whole reasoning behind a plan, as a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from headgate.model.keys import Key
from headgate.model.pod import GroupKey
from headgate.preemption.policies import VictimPolicy, gangs_broken, victims
from headgate.preemption.solver.problem import NOBODY, SUM_OFFSET, Criterion
from headgate.preemption.steps import Solution
from headgate.preemption.units import Unit

NOT_COMPARED = "not compared"


OPTIMAL = "optimal"


def certificate(judged: Sequence[int], bound: Sequence[int]) -> str:
    """What is known of a choice, where every set of victims costs at least the bound, criterion by criterion."""
    for criterion, ours, least in zip(Criterion, judged, bound, strict=False):
        if ours > least:
            return f"best found; {_how_much_better(criterion, least, ours - least)}"
    return OPTIMAL if len(bound) == len(judged) else "best found"


def _how_much_better(criterion: Criterion, least: int, by: int) -> str:
    match criterion:
        case Criterion.PRIORITY if least == NOBODY:
            return "fewer victims or none might do"
        case Criterion.WORK:
            return f"work lost might be {node_time(by)} less"
        case Criterion.START:
            return "victims that started later might do"
        case _:
            return f"{criterion} might be {by} less"


def node_time(seconds: int) -> str:
    """Work in node-seconds, as a person reads it."""
    if seconds < 3600:
        return f"{seconds} node-seconds"
    return f"{seconds / 3600:.1f} node-hours"


def _age(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{seconds}s"


class VictimLine(Struct, frozen=True, gc=False):
    """One unit that is preempted, and what that costs."""

    key: Key | GroupKey
    priority: int
    pods: int
    work_lost: int  # in node-seconds
    displaces: int = 0  # the work it is estimated to displace when it is recreated and preempts in its turn


class Alternative(Struct, frozen=True):
    """Another set of victims that would have done, and the first criterion by which it is worse."""

    where: str
    why: str


class Receipt(Struct, frozen=True):
    preemptor: Key | GroupKey
    policy: str
    domain: str
    criteria: tuple[tuple[str, int], ...]  # in the order they were compared; smaller is better
    compared: tuple[str, ...]  # the same as a person reads it
    victims: tuple[VictimLine, ...]
    gangs_broken: int
    candidates: int  # units that could have been preempted
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
    compared: Sequence[Solution]  # the foremost, the best among them
    domains: int  # in how many domains victims were found
    certificate: str


def receipt(preemptor: Key | GroupKey, units: Sequence[Unit], choice: Choice) -> Receipt:
    best, names = choice.best, [name for name, _ in choice.policy.criteria]
    lost = best.outcome.among.lost[best.outcome.units].tolist()
    displaces = best.displaces or (0,) * len(lost)
    return Receipt(
        preemptor=preemptor,
        policy=choice.policy.name,
        domain=best.domain.name,
        criteria=tuple(zip(names, best.judged, strict=True)),
        compared=tuple(f"{name} {shown(best, name, value)}" for name, value in zip(names, best.judged, strict=True)),
        victims=tuple(
            VictimLine(unit.key, unit.priority, len(unit.pods), work, further)
            for unit, work, further in zip(units, lost, displaces, strict=True)
        ),
        gangs_broken=int(gangs_broken(best.outcome)[0]),
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
            yield Alternative(other.domain.name, _worse_by(names, best, other))


def _worse_by(names: Sequence[str], best: Solution, other: Solution) -> str:
    for name, ours, theirs in zip(names, best.judged, other.judged, strict=True):
        if ours != theirs:
            return f"{name}: {shown(other, name, theirs)} instead of {shown(best, name, ours)}"
    return "equal; the draw decided"


def shown(solution: Solution, name: str, value: int) -> str:
    """What a criterion says of the solution, as a person reads it."""
    outcome = solution.outcome
    match name:
        case Criterion.PRIORITY:
            return "none" if value == NOBODY else str(value)
        case Criterion.WORK:
            return node_time(value)
        case Criterion.PRIORITIES:
            return str(value - SUM_OFFSET * int(victims(outcome)[0]))
        case Criterion.START:
            return f"{_age(max(0, round(outcome.among.now + value / 1_000_000)))} ago"
        case _:
            return str(value)
