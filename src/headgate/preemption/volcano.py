"""Which pods leave for a pod that its Volcano queue has no capacity for.

Of its own queue, pods of lower priority. Of other queues, whatever their priority, if its queue stays within what it
deserves: those of queues that are reclaimable, use more than they deserve, and keep what they are guaranteed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import Struct

from headgate.model.resources import Resources
from headgate.preemption.units import Unit
from headgate.quota.volcano import VolcanoQueueNode

Use = tuple[VolcanoQueueNode, Resources]
"""What a pod uses, or wants, of its queue."""


class QueueUnit(Struct, frozen=True):
    """Pods that leave together, and what that gives back to their queues."""

    unit: Unit
    uses: tuple[Use, ...]
    created: float  # of the youngest
    reserved: tuple[Resources, ...]  # for each use: what is reserved of its queue before it, if it comes again

    @property
    def queue(self) -> VolcanoQueueNode:
        return self.uses[0][0]


def victims_within(
    wanted: Sequence[Use], priority: int, running: Iterable[QueueUnit], going: Sequence[Use]
) -> list[QueueUnit] | None:
    """Those pods of the queue that leave; none if it is enough that others are going; None if nothing helps."""
    lower = _youngest_first(each for each in running if each.unit.priority < priority)
    lower.sort(key=lambda each: each.unit.priority)
    return _search(wanted, lower, going, lambda _: True)


def may_reclaim(wanted: Sequence[Use], before: Sequence[Use] = (), released: Sequence[Use] = ()) -> bool:
    """Whether the queue, with this much more, uses no more than it deserves of any resource that is wanted.

    What comes `before` counts too; what is `released` does not.
    """
    node = wanted[0][0]
    deserved = dict(node.queue.deserved.items)
    named = {name for _, requests in wanted for name, _ in requests.items if name in deserved}
    more = dict.fromkeys(named, 0)
    for sign, uses in ((1, wanted), (1, before), (-1, released)):
        for name, amount in (each for _, requests in uses for each in requests.items if each[0] in named):
            more[name] += sign * amount
    return bool(named) and all(node.totals.get(name, 0) + more[name] <= deserved[name] for name in named)


def names_deserved(wanted: Sequence[Use]) -> bool:
    """Whether something is wanted that the queue deserves any of."""
    return any(amount and node.queue.deserved[name] for node, requests in wanted for name, amount in requests.items)


def victims_elsewhere(
    wanted: Sequence[Use], running: Iterable[QueueUnit], going: Sequence[Use]
) -> list[QueueUnit] | None:
    """As `victims_within`, of other queues: those of lower priority first, then those beside it in the tree."""
    node, resources = wanted[0][0], _named(wanted)
    others = _elsewhere(node, running)
    return _search(wanted, others, going, lambda each: _gives(each, resources))


def givable(wanted: Sequence[Use], running: Iterable[QueueUnit], going: Sequence[Use]) -> list[QueueUnit]:
    """Of other queues, units that may all leave, and any of them: their queues use more than they deserve until then.

    The tree is as before when it returns.
    """
    node, resources = wanted[0][0], _named(wanted)
    remove(going)
    taken: list[QueueUnit] = []
    for unit in _elsewhere(node, running):
        if _gives(unit, resources):
            remove(unit.uses)
            taken.append(unit)
    for unit in taken:
        add(unit.uses)
    add(going)
    return taken


def _named(wanted: Sequence[Use]) -> set[str]:
    return {name for _, requests in wanted for name, _ in requests.items}


def _elsewhere(node: VolcanoQueueNode, running: Iterable[QueueUnit]) -> list[QueueUnit]:
    """The units of other queues in the order in which they give back."""
    others = _youngest_first(each for each in running if each.queue is not node and each.queue.queue.reclaimable)
    others.sort(key=lambda each: (each.queue.queue.priority, each.queue.parent is not node.parent, each.unit.priority))
    return others


def _youngest_first(units: Iterable[QueueUnit]) -> list[QueueUnit]:
    return sorted(units, key=lambda each: (each.created, str(each.unit.key)), reverse=True)


def _gives(unit: QueueUnit, resources: Collection[str]) -> bool:
    return all(may_give(use, resources, before) for use, before in zip(unit.uses, unit.reserved, strict=True))


def may_give(use: Use, resources: Collection[str], reserved: Resources) -> bool:
    """Whether its queue has more than it deserves of one of these, and keeps its guarantee without this.

    What is in use and what is `reserved` before this counts: by what is reserved after it, it would come again.
    """
    node, requests = use
    kept = all(node.totals.get(name, 0) - amount >= node.queue.guarantee[name] for name, amount in requests.items)
    return kept and not beyond_deserved(node, reserved).isdisjoint(resources)


def beyond_deserved(node: VolcanoQueueNode, reserved: Resources) -> set[str]:
    """The resources of which the queue has more than it deserves, with nothing reserved but this."""
    held = {name: amount - node.reserved.get(name, 0) + reserved[name] for name, amount in node.totals.items()}
    return {name for name, amount in held.items() if amount > node.queue.deserved[name]}


def _search(
    wanted: Sequence[Use], candidates: Sequence[QueueUnit], going: Sequence[Use], allowed: Callable[[QueueUnit], bool]
) -> list[QueueUnit] | None:
    """Takes candidates in order until it fits, then gives back those that are not needed, the last first.

    The tree is as before when it returns.
    """
    remove(going)
    taken: list[QueueUnit] = []
    found: list[QueueUnit] | None = [] if fit(wanted) else None
    for each in candidates if found is None else ():
        if not allowed(each):
            continue
        remove(each.uses)
        taken.append(each)
        if fit(wanted):
            found = list(taken)
            break
    for each in reversed(taken):
        add(each.uses)
    for each in list(reversed(found or ())):
        others = [one for one in found or () if one is not each]
        if _fits_without(wanted, others):
            found = others
    add(going)
    return found


def _fits_without(wanted: Sequence[Use], victims: Sequence[QueueUnit]) -> bool:
    for each in victims:
        remove(each.uses)
    fits = fit(wanted)
    for each in victims:
        add(each.uses)
    return fits


def fit(wanted: Sequence[Use]) -> bool:
    """Whether all of it fits together."""
    added: list[Use] = []
    for node, requests in wanted:
        if not node.fits(requests):
            break
        node.add(requests)
        added.append((node, requests))
    remove(added)
    return len(added) == len(wanted)


def add(uses: Iterable[Use]) -> None:
    for node, requests in uses:
        node.add(requests)


def remove(uses: Iterable[Use]) -> None:
    for node, requests in uses:
        node.remove(requests)
