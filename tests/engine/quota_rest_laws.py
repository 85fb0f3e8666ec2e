"""Laws about preemption that comes to rest, over whole histories of a quota plane. Each takes a seed.

Queues, cohorts, flavors, policies and fair sharing are random; writes take hold in a random order, pods of the evicted
are gone whenever they are, and the process restarts at any moment.
"""

from __future__ import annotations

from random import Random

from msgspec import structs
from quota_steps import OWNER, QuotaSteps, cohort, flavor, local, namespace, pods, queue, quota, work

from headgate.lifecycle.workload.eviction import released
from headgate.model import queues as model
from headgate.model.queues import (
    BorrowWithinCohort,
    Cohort,
    FlavorPreference,
    Fungibility,
    GateStatus,
    QueueingStrategy,
    QueuePreemption,
    Quota,
    Reclaim,
    ResourceFlavor,
    WithinQueue,
)
from headgate.model.settings import DEFAULT_FAIR, FairStrategy, QuotaSettings
from headgate.quota.allocations import MOST_EVICTIONS
from headgate.quota.flavors import Fitness, FlavorAssigner, Granular, Mode, assign
from headgate.quota.ledger import Ledger
from headgate.quota.pending_workload import ordered_at, pending_workload
from headgate.quota.requests import reservation_of

LAWS = {}
"""Every law by its name."""

CHANGES = 8  # from outside, in a history
MOST_WRITES = 20_000  # between two of them
RESTARTS = 3  # at most, between two of them


def law(check):
    LAWS[check.__name__] = check
    return check


FAIRNESS = ((), (), DEFAULT_FAIR, (FairStrategy.FINAL_SHARE,), (FairStrategy.INITIAL_SHARE,))
COHORTS = ("left", "right")
SEARCHES = tuple(model.FlavorSearch)


def contended_queue(dice, name, flavors):
    """It shares quota with others, and as a rule may preempt within itself as well as take back what is its own."""
    limits = (None, None, None, 2000), (None, None, None, 1000)
    quotas = {one: Quota(dice.randint(1, 6) * 1000, *map(dice.choice, limits)) for one in flavors}
    lower, any_ = WithinQueue.LOWER_PRIORITY, Reclaim.ANY
    return queue(
        name,
        cohort=dice.choice(("root", "root", *COHORTS)),
        groups=quota(**quotas),
        preemption=QueuePreemption(
            within_queue=dice.choice((lower, lower, *WithinQueue)),
            reclaim=dice.choice((any_, any_, *Reclaim)),
            borrow=dice.choice(tuple(BorrowWithinCohort)),
            borrow_threshold=dice.choice((None, 1)),
        ),
        fungibility=Fungibility(dice.choice(SEARCHES), dice.choice(SEARCHES), dice.choice(tuple(FlavorPreference))),
        fair_weight=dice.choice((1000, 1000, 0, 500, 2000)),
        strategy=dice.choice((QueueingStrategy.BEST_EFFORT_FIFO, *QueueingStrategy)),
    )


class RestHistory:
    """Something changes from outside, then nothing more does until all is quiet; and again."""

    def __init__(self, dice, restarts=RESTARTS, **changes):
        self.dice, self.restarts = dice, restarts
        flavors = ("one", "two")[: dice.choice((1, 1, 2))]
        made = [contended_queue(dice, f"q{index}", flavors) for index in range(dice.choice((2, 2, 3, 4)))]
        self.queues = [structs.replace(one, **changes) for one in made]
        around = [namespace(), *map(flavor, flavors), *(cohort(name, "root") for name in COHORTS)]
        around += [local(one.name, one.name) for one in self.queues]
        self.steps = QuotaSteps(*self.queues, basics=around, settings=QuotaSettings(fair=dice.choice(FAIRNESS)))
        self.steps.held = True
        self.known = 0

    def arrive(self):
        dice, name = self.dice, f"w{self.known}"
        count = dice.choice((1, 1, 2, 3, 4, 5))
        sets = (pods(count=count, min_count=dice.choice((None, None, 1))),)
        owner = OWNER if dice.random() < 0.5 else None
        home, priority = dice.choice(self.queues).name, dice.randint(0, 3)
        self.known += 1
        self.steps.see(work(name, queue=home, priority=priority, pod_sets=sets, created=self.steps.now, owner=owner))

    def finish(self):
        holding = [
            one for one in self.steps.workloads if one.status.admission is not None and not one.is_true("Finished")
        ]
        if holding:
            self.steps.finish(self.dice.choice(holding).key.name)

    def change(self):
        """Something happens that nobody here decided."""
        for _ in range(self.dice.randint(1, 4)):
            self.steps.now += 1.0
            self.dice.choice((self.arrive, self.arrive, self.arrive, self.finish))()

    def evictions(self):
        return {one.key.name: sum(each.count for each in one.status.evictions) for one in self.steps.workloads}

    def come_to_rest(self):
        restarts = 0
        for _ in range(MOST_WRITES):
            self.steps.now += 0.01
            leaving = self.leaving()
            if not self.steps.writes and not leaving:
                return
            if restarts < self.restarts and self.dice.random() < 0.02:
                restarts += 1
                self.steps.restart()
            elif leaving and (not self.steps.writes or self.dice.random() < 0.2):
                one = self.dice.choice(leaving)
                self.steps.edit(one.key.name, **structs.asdict(released(one, self.steps.now)))
            else:
                write = self.steps.writes.pop(self.dice.randrange(len(self.steps.writes)))
                self.steps.step(*self.steps.perform(write))
        raise AssertionError("preemption goes on for ever")

    def leaving(self):
        """Evicted workloads of owners whose pods are not gone yet."""
        evicted = [one for one in self.steps.workloads if one.status.admission is not None and one.is_true("Evicted")]
        return [one for one in evicted if one.owner is not None and not one.is_true("Finished")]


@law
def preemption_comes_to_rest(seed):
    """Whatever the rules, the order of writes and the restarts: no workload is preempted more than a few times."""
    history = RestHistory(Random(seed))
    for _ in range(CHANGES):
        before = history.evictions()
        history.change()
        history.come_to_rest()
        for name, count in history.evictions().items():
            assert count - before.get(name, 0) <= MOST_EVICTIONS, name


def never(of, amount):
    return Fitness(Granular.NO_CANDIDATES, 0)


def who_fits(history):
    """Of those who wait, by a ledger made of the objects as they are."""
    steps, settings = history.steps, history.steps.settings
    objects = steps.objects.values()
    flavors = {one.name: one for one in objects if isinstance(one, ResourceFlavor)}
    books = Ledger(history.queues, [one for one in objects if isinstance(one, Cohort)])
    workloads = [one for one in steps.workloads if not one.is_true("Finished")]
    for one in workloads:
        if one.status.admission is not None:
            books.reserve(reservation_of(one, ordered_at(one, settings)))
    found = []
    for one in workloads:
        if one.status.admission is None:
            search = FlavorAssigner(books.forest.queues[one.queue], flavors, never)
            if assign(search, pending_workload(one, one.queue, settings).pod_set_requests).mode is Mode.FIT:
                found.append(one.key.name)
    return found


@law
def nobody_waits_at_rest_who_fits_without_preemption(seed):
    """Where the first in line does not keep others from what it cannot use, and nobody keeps room for later."""
    history = RestHistory(Random(seed), strategy=QueueingStrategy.BEST_EFFORT_FIFO)
    for _ in range(CHANGES):
        history.change()
        history.come_to_rest()
        assert who_fits(history) == []


class GatedHistory(RestHistory):
    """Most workloads arrive with preemption gates, which somebody opens now and then."""

    def __init__(self, dice):
        super().__init__(dice)
        self.steps.settings = structs.replace(self.steps.settings, preemption_gates=True)
        self.steps.restart()

    def arrive(self):
        gates = ("g", "h")[: self.dice.choice((0, 1, 1, 2))]
        super().arrive()
        name = f"w{self.known - 1}"
        self.steps.edit(name, preemption_gates=gates, generation=1)

    def open_gates(self):
        closed = [one for one in self.steps.workloads if one.has_closed_gate]
        if closed:
            one = self.dice.choice(closed)
            states = tuple(GateStatus(name, True, self.steps.now // 1.0) for name in one.preemption_gates)
            self.steps.edit(one.key.name, gate_statuses=states)

    def change(self):
        super().change()
        if self.dice.random() < 0.5:
            self.open_gates()

    def settle(self):
        """All is written, however often the rate limit had it wait."""
        self.come_to_rest()
        for _ in range(2):
            self.steps.later(30.0)
            self.come_to_rest()

    def holding(self):
        return [one.key for one in self.steps.workloads if one.status.admission is not None]

    def said(self):
        """What each workload that waits for a gate says, and what preempting for it would cost."""
        return {
            one.key.name: (one.gated_since, one.status.proposal)
            for one in self.steps.workloads
            if one.gated_since is not None
        }


@law
def what_is_said_of_closed_gates_is_what_a_fresh_process_says(seed):
    """Unless that preempts somebody, as it does not know which allocations of quota there were before."""
    history = GatedHistory(Random(seed))
    for _ in range(CHANGES // 2):
        history.change()
        history.settle()
        said = history.said()
        for name, (_, proposal) in said.items():
            assert history.steps[name].has_closed_gate and proposal.can_preempt, name
        for one in history.steps.workloads:
            assert one.status.proposal is None or one.has_closed_gate, one.key.name
        before = history.holding(), history.evictions()
        history.steps.restart()
        history.settle()
        assert (history.holding(), history.evictions()) != before or history.said() == said
