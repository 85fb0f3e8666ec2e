"""The cycle decides as the rules say, in the plainest words they have been written down in."""

from random import Random

import pytest
from hypothesis import given, settings
from quota_builders import flavor, snapshot
from quota_oracle import Rules
from quota_oracle_tree import State
from quota_worlds import FLAVORS, crowded, worlds, worlds_with_heads

from headgate.engine.quota.admission_cycle import Admitted, Deferred, Gated, Preempting, Waits, cycle
from headgate.quota.fair_sharing import share_of
from headgate.quota.tree import FlavorResource


def rules_of(world):
    return Rules(world.queues, world.cohorts, world.settings.fair), State(tuple(world.holders))


def as_told(outcome):
    match outcome:
        case Admitted(_, assignment):
            return "admitted", assignment.flavors, tuple(pod_set.count for pod_set in assignment.pod_sets)
        case Preempting(_, _, victims, _):
            return "preempts", {victim.reservation.uid: victim.reason for victim in victims}
        case Deferred():
            return ("deferred",)
        case Gated():
            return ("gated",)
        case Waits(_, reason, requeue):
            return "waits", reason, requeue


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_the_tree_counts_as_the_formulas_say(world):
    rules, state = rules_of(world)
    books = world.ledger
    pairs = [FlavorResource(one, name) for one in FLAVORS for name in ("cpu", "gpu")]
    for name, node in books.forest.queues.items():
        for above in (node, *node.ancestors()):
            plain = ("q" if above.is_queue else "c", above.name)
            assert {of: above.used(of) for of in pairs} == {of: rules.usage(plain, of, state) for of in pairs}
            assert {of: above.accounts[of].potential for of in pairs} == {
                of: rules.potential(plain, of) for of in pairs
            }
            assert share_of(above).order == rules.share(plain, state)
        for of in pairs:
            assert node.accounts[of].available() == rules.available(("q", name), of, state)
            assert node.accounts[of].level(2000) == rules.level(("q", name), of, 2000, state)


def assert_decided_as_the_rules_say(world, heads):
    rules, state = rules_of(world)
    found = cycle(snapshot(world.ledger, *map(flavor, FLAVORS)), heads, world.settings)
    assert {one.head.queue: as_told(one) for one in found} == rules.cycle(heads, state)


@settings(max_examples=60, deadline=None)
@given(worlds_with_heads())
def test_a_cycle_decides_as_the_rules_say(world_and_heads):
    assert_decided_as_the_rules_say(*world_and_heads)


@pytest.mark.parametrize("seed", range(8))
def test_a_cycle_decides_as_the_rules_say_where_little_is_free(seed):
    dice = Random(seed)
    for _ in range(40):
        assert_decided_as_the_rules_say(*crowded(dice))
