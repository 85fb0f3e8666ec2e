"""What work asks for that is about to start, where quota it got may stand for room that is still taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

from msgspec import Struct

from headgate.lifecycle.debt import Standing, places_of
from headgate.model.keys import Key
from headgate.model.queues import Admission, QueuedWorkload
from headgate.quota.wording import amount_text

FlavorResource = tuple[str, str]
Amounts = Mapping[FlavorResource, int]


class Ask(Struct, frozen=True):
    """Admitted work that is about to start, or some more pods of work that runs."""

    work: Key
    workload: QueuedWorkload
    admission: Admission
    startable: Mapping[str, int] | None = None  # pods by pod set; None: all of them
    runs: bool = False  # some of it is started already


class Question(Struct, frozen=True):
    """What there must be room for: the work beside all else, and pods that push out others which still leave."""

    ask: Ask
    amounts: Amounts
    extra: Amounts  # what comes on top of that for pods that are pushed out
    pushed_out: Mapping[str, int]  # how many these are, by pod set
    starting: Mapping[str, int]
    runs: bool

    @classmethod
    def of(cls, ask: Ask, standing: Standing) -> Question:
        places = places_of(ask.workload)
        starting = dict(places) if ask.startable is None else dict(ask.startable)
        after = standing.excess_with(starting, places)
        pushed = {name: count - standing.excess.get(name, 0) for name, count in after.items()}
        runs = ask.runs or standing.leaves_places
        return cls(ask, amounts(ask.admission), _of_pods(ask.admission, pushed), pushed, starting, runs)

    @property
    def is_settled(self) -> bool:
        """The room it needs is its own already."""
        return self.runs and not any(self.extra.values())

    @property
    def likeness(self) -> Hashable:
        """Work that is alike in this gets the same answer."""
        if self.runs or any(self.extra.values()):
            return self.ask.work
        shapes = tuple((wanted.name, wanted.shape) for wanted in self.ask.workload.pod_sets)
        return tuple(sorted(self.amounts.items())), shapes, tuple(sorted(self.starting.items()))


def amounts(admission: Admission) -> dict[FlavorResource, int]:
    """What was given, by flavor and resource."""
    return _of_pods(admission, {assigned.name: assigned.count for assigned in admission.pod_sets})


def in_words(short: Amounts) -> str:
    return ", ".join(
        f"{amount_text(resource, amount)} {resource} of flavor {flavor}"
        for (flavor, resource), amount in sorted(short.items())
    )


def nodes_in_words(asked: Amounts) -> str:
    flavors = sorted({flavor for flavor, _ in asked})
    return f"room on nodes of flavor {', '.join(flavors)}"


def _of_pods(admission: Admission, counts: Mapping[str, int]) -> dict[FlavorResource, int]:
    """What so many pods of each set were given."""
    total: Counter[FlavorResource] = Counter()
    for assigned in admission.pod_sets:
        count = counts.get(assigned.name, 0)
        for resource, flavor in assigned.flavors if count else ():
            total[flavor, resource] += assigned.usage[resource] * count // assigned.count
    return dict(total)
