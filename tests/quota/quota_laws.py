"""Laws that hold over whole histories: workloads come and go, quota is given and taken back. Each takes a seed."""

from random import Random

from msgspec import structs
from quota_builders import flavor, pending, snapshot
from quota_oracle import Rules
from quota_oracle_tree import State
from quota_worlds import FLAVORS, crowded, crowded_applicant

from headgate.engine.quota.admission_cycle import Admitted, Gated, Preempting, admit_all, cycle, settle
from headgate.model.queues import QueueingStrategy, QueuePreemption, Reclaim
from headgate.model.settings import QuotaSettings
from headgate.quota.flavors import Fitness, FlavorAssigner, Granular, Mode, assign

MOST_CYCLES = 500
LAWS = {}
"""Every law by its name."""


def law(check):
    LAWS[check.__name__] = check
    return check


def first_of(groups, flavors):
    return tuple(structs.replace(group, flavors=group.flavors[:flavors]) for group in groups)


class History:
    """Workloads apply, are admitted, evicted, and apply again, in a random order of events."""

    def __init__(self, dice, flavors=2, fair=None, may_shrink=True, **changes):
        world, _ = crowded(dice)
        self.dice, self.may_shrink = dice, may_shrink
        self.settings = world.settings if fair is None else QuotaSettings(fair=fair)
        self.queues = [structs.replace(one, groups=first_of(one.groups, flavors), **changes) for one in world.queues]
        self.world = type(world)(self.queues, world.cohorts, [], world.settings)
        self.books = self.world.ledger
        self.pending = pending(self.books)
        self.shot = snapshot(self.books, *map(flavor, FLAVORS))
        self.known = {}
        self.left = []  # queues of those who left since the last decision
        self.now = 0.0

    def arrive(self):
        home = self.dice.choice(self.queues)
        one = crowded_applicant(self.dice, f"w{len(self.known)}", home, self.may_shrink)
        self.known[one.workload.uid] = one
        self.books.forget_allocations(home.name)
        self.pending.add(one, self.now)

    def leave(self):
        """Somebody is done, or has left after its eviction and applies again."""
        held = [one for name in self.books.forest.queues for one in self.books.reservations(name)]
        if not held:
            return
        holder = self.dice.choice(sorted(held, key=lambda one: one.uid))
        self.books.release(holder.queue, holder.uid)
        self.left.append(holder.queue)
        self.pending.wake(holder.queue, self.now)
        if holder.evicted:
            self.pending.add(self.known[holder.uid], self.now)
        else:
            self.books.forget_allocations(holder.queue)

    def decide(self):
        self.now += 1
        self.left = []
        rounds = []
        for outcomes in admit_all(self.pending, self.shot, self.settings, self.now):
            rounds.append(outcomes)
            assert len(rounds) < MOST_CYCLES, "cycles come to an end"
        return rounds

    def go_on(self, steps=12):
        for _ in range(steps):
            self.happen()
            yield self.decide()

    def happen(self):
        for _ in range(self.dice.randint(1, 3)):
            self.dice.choice((self.arrive, self.arrive, self.leave))()

    def who_was_woken(self):
        """All who share quota with somebody who has left since the last decision."""
        names = {name for home in self.left for name in self.books.forest.tree_of(home)}
        return {one.key.name for queue in self.pending if queue.queue.name in names for one in queue.everybody()}

    def who_fits(self):
        """Of those who wait."""
        return {one.key.name for queue in self.pending for one in queue.everybody() if fits_now(self, one)}


def assert_within_quota(books):
    for node in books.forest.queues.values():
        for above in (node, *node.ancestors()):
            for of, account in above.accounts.items():
                limit = above.quota(of).borrowing_limit
                unlimited = above.parent is not None and limit is None
                assert unlimited or account.used <= above.subtree.get(of, 0) + (limit or 0), (above, of)


@law
def quota_is_never_exceeded_and_deciding_comes_to_an_end(seed):
    history = History(Random(seed))
    for rounds in history.go_on():
        assert_within_quota(history.books)
        assert all(len({one.head.queue for one in outcomes}) == len(outcomes) for outcomes in rounds)


def never(of, amount):
    return Fitness(Granular.NO_CANDIDATES, 0)


def fits_now(history, one):
    node = history.books.forest.queues[one.queue]
    known = {name: flavor(name) for name in FLAVORS}
    return assign(FlavorAssigner(node, known, never), one.pod_set_requests).mode is Mode.FIT


@law
def nobody_waits_who_fits(seed):
    """Where nobody preempts and nobody keeps room for later: all that fit are admitted, queue order aside."""
    rules = {"preemption": QueuePreemption(), "strategy": QueueingStrategy.BEST_EFFORT_FIFO, "cohort": ""}
    history = History(Random(seed), **rules)
    for _ in history.go_on():
        for queue in history.pending:
            assert not [one.key.name for one in queue.everybody() if fits_now(history, one)]


@law
def in_a_strict_queue_nobody_overtakes(seed):
    rules = {"preemption": QueuePreemption(), "strategy": QueueingStrategy.STRICT_FIFO, "cohort": ""}
    history = History(Random(seed), **rules)
    for _ in history.go_on():
        for queue in history.pending:
            waiting = queue.everybody()
            assert not waiting or not fits_now(history, waiting[0])


def calm_down(history):
    """Nothing arrives and nothing ends: victims leave, and apply again, until there are none."""
    for _ in range(60):
        evicted = [
            one for name in history.books.forest.queues for one in history.books.reservations(name) if one.evicted
        ]
        if not evicted:
            return
        for holder in evicted:
            history.books.release(holder.queue, holder.uid)
            history.pending.wake(holder.queue, history.now)
            history.pending.add(history.known[holder.uid], history.now)
        history.decide()
    raise AssertionError("evictions go on for ever")


@law
def nobody_is_preempted_in_circles(seed):
    """Who left comes back only if there is room for it, or if it may preempt in turn, which ends somewhere.

    Also with fair sharing, where shares and priorities can contradict each other; and with fewer pods or other flavors
    to choose from, where who comes back after its victims left may want something else than before.
    """
    history = History(Random(seed))
    for _ in history.go_on():
        pass
    calm_down(history)


@law
def nobody_waits_who_fits_in_a_cohort_once_all_victims_are_gone(seed):
    """Where queues may always take back what is theirs, so that none keeps room for later."""
    rules = {"preemption": QueuePreemption(reclaim=Reclaim.ANY), "strategy": QueueingStrategy.BEST_EFFORT_FIFO}
    history = History(Random(seed), flavors=1, fair=(), may_shrink=False, **rules)
    for _ in history.go_on():
        calm_down(history)
        for queue in history.pending:
            assert not [one.key.name for one in queue.everybody() if fits_now(history, one)]


@law
def nobody_waits_who_fits_in_a_cohort_where_room_is_kept_for_a_cycle(seed):
    """Nobody can be preempted, so whoever waits keeps what is left of its quota, but steps aside then.

    Flavors are chosen one pod set after the other: so who did not fit may fit because others were admitted, as it then
    chooses otherwise. Nobody is tried again for that alone, but when somebody leaves.
    """
    rules = {"preemption": QueuePreemption(), "strategy": QueueingStrategy.BEST_EFFORT_FIFO}
    history = History(Random(seed), **rules)
    excused = set()
    for _ in range(60):
        history.happen()
        fitted = history.who_fits()
        excused -= history.who_was_woken()
        history.decide()
        waits = history.who_fits()
        assert not (fitted & waits) - excused
        excused |= waits


@law
def many_at_one_go_are_what_one_cycle_after_the_other_decides_by_the_rules(seed):
    """Each cycle of a go is what the rules say of its heads and of what those before left.

    With one flavor, for the rules as written down for comparison know nothing of flavors tried before.
    """
    history = History(Random(seed), flavors=1)
    rules = Rules(history.queues, history.world.cohorts, history.settings.fair)
    for _ in range(8):
        history.arrive()
        history.dice.choice((history.arrive, history.leave))()
        history.now += 1
        while heads := history.pending.heads():
            held = [one for name in history.books.forest.queues for one in history.books.reservations(name)]
            expected = rules.cycle(heads, State(tuple(held)))
            for outcome in cycle(history.shot, heads, history.settings):
                told = expected[outcome.head.queue][0]
                assert isinstance(outcome, Admitted) == (told == "admitted")
                assert isinstance(outcome, Preempting) == (told == "preempts")
                settle(outcome, history.pending, history.books, history.now)


@law
def what_is_given_back_leaves_no_trace(seed):
    """Whatever came and went, and in whatever order: usage is that of those who hold something now."""
    history = History(Random(seed))
    for _ in history.go_on():
        afresh = history.books.rebuilt(history.queues, history.world.cohorts)
        for name, node in history.books.forest.queues.items():
            other = afresh.forest.queues[name]
            for one, two in zip((node, *node.ancestors()), (other, *other.ancestors()), strict=True):
                assert _in_use(one) == _in_use(two), one
                assert _borrowing(one) == _borrowing(two), one


def _in_use(node):
    return {of: account.used for of, account in node.accounts.items() if account.used}


def _borrowing(node):
    accounts = node.accounts.items()
    return {of: {child.name for child in account.borrowers} for of, account in accounts if account.borrowers}


@law
def no_victim_is_needless(seed):
    """With any one of the victims still there, there is no room, or the queue would have to borrow."""
    dice = Random(seed)
    world, heads = crowded(dice)
    for head in heads:
        books = world.ledger
        (outcome,) = cycle(snapshot(books, *map(flavor, FLAVORS)), [head], world.settings)
        if isinstance(outcome, Preempting):
            victims = [victim.reservation for victim in outcome.victims]
            assert _has_room(books, outcome, victims)
            for spared in victims:
                others = [holder for holder in victims if holder is not spared]
                assert not _has_room(books, outcome, others) or _borrows(books, outcome, others)


def _has_room(books, outcome, gone):
    with books.trial():
        for holder in gone:
            books.release(holder.queue, holder.uid)
        return books.fits(outcome.head.queue, outcome.assignment.usage)


def _borrows(books, outcome, gone):
    node = books.forest.queues[outcome.head.queue]
    with books.trial():
        for holder in gone:
            books.release(holder.queue, holder.uid)
        wanted = [(node.accounts[of], amount) for of, amount in outcome.assignment.usage]
        return any(account.subtree < account.used + amount for account, amount in wanted)


@law
def a_closed_gate_changes_nothing_but_that_nobody_is_evicted(seed):
    """Whether it fits, which flavors it would get and who would have to go is the same with the gate open."""
    world, heads = crowded(Random(seed))
    settings = structs.replace(world.settings, preemption_gates=True)
    for head in heads:
        shot = snapshot(world.ledger, *map(flavor, FLAVORS))
        gated = structs.replace(head, workload=structs.replace(head.workload, preemption_gates=("g",)))
        (closed,), (opened,) = cycle(shot, [gated], settings), cycle(shot, [head], settings)
        if isinstance(opened, Preempting):
            assert isinstance(closed, Gated)
            assert closed.victims == opened.victims
        else:
            assert structs.replace(closed, head=head) == opened
