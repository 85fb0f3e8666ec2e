"""Random worlds of queues: cohort trees, limits, policies, who holds quota and who applies for it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st
from msgspec import structs
from quota_builders import applies, cohort, holds, ledger, pods, policy, queue

from headgate.model.queues import (
    BorrowWithinCohort,
    ClusterQueue,
    Cohort,
    FlavorPreference,
    FlavorQuotas,
    FlavorSearch,
    Fungibility,
    QueueingStrategy,
    Quota,
    Reclaim,
    ResourceGroup,
    WithinQueue,
)
from headgate.model.settings import DEFAULT_FAIR, FairStrategy, QuotaSettings
from headgate.quota.ledger import Ledger, Reservation
from headgate.quota.pending_workload import PendingWorkload
from headgate.quota.tree import FlavorResource, usage_of

FLAVORS = ("one", "two")
COHORTS = ("a", "b", "c", "d")
FAIRNESS = ((), DEFAULT_FAIR, (FairStrategy.FINAL_SHARE,), (FairStrategy.INITIAL_SHARE,))


@dataclass
class World:
    queues: list[ClusterQueue]
    cohorts: list[Cohort]
    holders: list[Reservation]
    settings: QuotaSettings

    @property
    def ledger(self) -> Ledger:
        return ledger(*self.queues, *self.cohorts, *self.holders)


amounts = st.sampled_from((4, 2, 6, 0, 8)).map(lambda cores: cores * 1000)
limits = st.none() | st.sampled_from((2, 4, 1, 0)).map(lambda cores: cores * 1000)
asked_for = st.sampled_from((1, 2, 3, 4)).map(lambda cores: cores * 1000)
small = st.sampled_from((1000, 2000))
choices_of_fairness = st.sampled_from(FAIRNESS)


@st.composite
def groups(draw, resources, limited: bool):
    quota = st.builds(Quota, amounts, limits if limited else st.none(), limits if limited else st.none())
    flavors = FLAVORS[: draw(st.integers(1, 2))]
    entries = [FlavorQuotas(flavor, tuple((name, draw(quota)) for name in resources)) for flavor in flavors]
    return (ResourceGroup(resources, tuple(entries)),)


policies = st.builds(
    policy,
    within_queue=st.sampled_from((*reversed(WithinQueue), WithinQueue.LOWER_PRIORITY)),
    reclaim=st.sampled_from((*reversed(Reclaim), Reclaim.LOWER_PRIORITY)),
    borrow=st.sampled_from(BorrowWithinCohort),
    borrow_threshold=st.none() | st.integers(0, 2),
)
fungibilities = st.builds(
    Fungibility,
    st.sampled_from(FlavorSearch),
    st.sampled_from(FlavorSearch),
    st.sampled_from(FlavorPreference),
)
weights = st.sampled_from((1000, 1000, 0, 500, 2000))


@st.composite
def trees(draw, resources):
    """Each cohort hangs below one before it in the alphabet, or is a root; some are only named."""
    made = []
    names = COHORTS[: draw(st.sampled_from((2, 1, 3, 4, 0)))]
    for index, name in enumerate(names):
        if draw(st.booleans()):
            parent = draw(st.sampled_from(("", *names[:index])))
            own = draw(groups(resources, bool(parent))) if draw(st.booleans()) else ()
            made.append(cohort(name, parent, groups=own, fair_weight=draw(weights)))
    queues = []
    for index in range(draw(st.sampled_from((3, 4, 2, 1)))):
        above = draw(st.sampled_from(("", *names, *names)))
        fields = {"preemption": draw(policies), "fungibility": draw(fungibilities), "fair_weight": draw(weights)}
        fields["strategy"] = draw(st.sampled_from(QueueingStrategy))
        queues.append(queue(f"q{index}", cohort=above, groups=draw(groups(resources, bool(above))), **fields))
    return queues, made


@st.composite
def worlds(draw, fair=choices_of_fairness):
    resources = ("cpu", "gpu")[: draw(st.sampled_from((1, 1, 2)))]
    queues, cohorts = draw(trees(resources))
    world = World(queues, cohorts, [], QuotaSettings(fair=draw(fair)))
    books = world.ledger
    for index in range(draw(st.sampled_from((8, 4, 12, 0)))):
        holder = draw(holders(index, queues, resources))
        if books.fits(holder.queue, holder.usage):
            books.reserve(holder)
            world.holders.append(holder)
    return world


@st.composite
def holders(draw, index: int, queues, resources):
    home = draw(st.sampled_from(queues))
    flavor = draw(st.sampled_from([entry.flavor for entry in home.groups[0].flavors]))
    usage = usage_of({FlavorResource(flavor, name): draw(asked_for) for name in resources})
    times = {"ordered": float(draw(st.integers(0, 3))), "reserved": float(draw(st.integers(0, 3)))}
    priority, evicted = draw(st.integers(0, 3)), draw(st.sampled_from((False, False, False, True)))
    return holds(f"held-{index}", home.name, priority=priority, usage=usage, evicted=evicted, **times)


@st.composite
def waiting(draw, name: str, to: ClusterQueue) -> PendingWorkload:
    sets = []
    for index in range(draw(st.sampled_from((1, 1, 1, 2)))):
        count = draw(st.sampled_from((1, 1, 1, 2, 3)))
        fewer = draw(st.none() | st.integers(1, count)) if index == 0 else None
        asked = {resource: draw(asked_for if index == 0 else small) for resource in to.groups[0].resources}
        sets.append(pods(f"set-{index}", count, 0, fewer, amounts=asked))
    created = float(draw(st.integers(0, 3)))
    return applies(name, to.name, priority=draw(st.sampled_from((3, 2, 1, 0))), created=created, pod_sets=tuple(sets))


@st.composite
def worlds_with_heads(draw, fair=choices_of_fairness):
    world = draw(worlds(fair))
    heads = [draw(waiting(f"head-{one.name}", one)) for one in world.queues if draw(st.integers(0, 3))]
    return world, heads


def crowded(dice: Random) -> tuple[World, list[PendingWorkload]]:
    """A world in which little is free and much is wanted, so that most heads have to preempt or wait."""
    resources = ("cpu", "gpu")[: dice.choice((1, 1, 2))]
    names = COHORTS[: dice.choice((1, 2, 3, 4))]
    cohorts = [_crowded_cohort(dice, name, names[:index], resources) for index, name in enumerate(names)]
    queues = [_crowded_queue(dice, f"q{index}", names, resources) for index in range(dice.choice((2, 3, 4, 5)))]
    world = World(queues, cohorts, [], QuotaSettings(fair=dice.choice(FAIRNESS)))
    books = world.ledger
    for index in range(25):
        holder = _crowded_holder(dice, index, dice.choice(queues), resources)
        if books.fits(holder.queue, holder.usage):
            books.reserve(holder)
            world.holders.append(holder)
    heads = [crowded_applicant(dice, f"head-{one.name}", one) for one in queues if dice.random() < 0.85]
    return world, [structs.replace(head, is_preemptor=dice.random() < 0.1) for head in heads]


def _crowded_cohort(dice: Random, name: str, above: tuple[str, ...], resources: tuple[str, ...]) -> Cohort:
    parent = dice.choice(above) if above and dice.random() < 0.7 else ""
    own = _crowded_groups(dice, resources, bool(parent)) if dice.random() < 0.3 else ()
    return cohort(name, parent, groups=own)


def _crowded_queue(dice: Random, name: str, names: tuple[str, ...], resources: tuple[str, ...]) -> ClusterQueue:
    above = dice.choice((*names, *names, ""))
    return queue(
        name,
        cohort=above,
        groups=_crowded_groups(dice, resources, bool(above)),
        preemption=policy(
            within_queue=dice.choice(tuple(WithinQueue)),
            reclaim=dice.choice(tuple(Reclaim)),
            borrow=dice.choice(tuple(BorrowWithinCohort)),
            borrow_threshold=dice.choice((None, 1)),
        ),
        fungibility=Fungibility(
            dice.choice(tuple(FlavorSearch)), dice.choice(tuple(FlavorSearch)), dice.choice(tuple(FlavorPreference))
        ),
        fair_weight=dice.choice((1000, 1000, 0, 500, 2000)),
        strategy=dice.choice(tuple(QueueingStrategy)),
    )


def _crowded_groups(dice: Random, resources: tuple[str, ...], limited: bool) -> tuple[ResourceGroup, ...]:
    def quota() -> Quota:
        borrowing, lending = dice.choice((None, None, 2000, 4000)), dice.choice((None, None, 1000, 2000))
        return Quota(dice.choice((2000, 4000, 6000)), borrowing if limited else None, lending if limited else None)

    flavors = FLAVORS[: dice.choice((1, 1, 2))]
    return (
        ResourceGroup(
            resources, tuple(FlavorQuotas(one, tuple((name, quota()) for name in resources)) for one in flavors)
        ),
    )


def _crowded_holder(dice: Random, index: int, home: ClusterQueue, resources: tuple[str, ...]) -> Reservation:
    flavor = dice.choice([entry.flavor for entry in home.groups[0].flavors])
    usage = usage_of({FlavorResource(flavor, name): dice.choice((1000, 1000, 2000)) for name in resources})
    times = {"ordered": float(dice.randint(0, 3)), "reserved": float(dice.randint(0, 3))}
    return holds(
        f"held-{index}", home.name, priority=dice.randint(0, 3), usage=usage, evicted=dice.random() < 0.15, **times
    )


def crowded_applicant(dice: Random, name: str, to: ClusterQueue, may_shrink: bool = True) -> PendingWorkload:
    sets = []
    for index in range(dice.choice((1, 1, 2))):
        fewer = 1 if index == 0 and may_shrink and dice.random() < 0.4 else None
        asked = {resource: dice.choice((1000, 1000, 2000, 3000)) for resource in to.groups[0].resources}
        sets.append(pods(f"set-{index}", dice.choice((1, 1, 2, 4)), 0, fewer, amounts=asked))
    created = float(dice.randint(0, 3))
    return applies(name, to.name, priority=dice.randint(0, 3), created=created, pod_sets=tuple(sets))
