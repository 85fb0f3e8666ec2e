"""What local queues used lately: how it fades, and that busier ones are preempted first within their cluster queue."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quota_builders import CPU, holds, ledger, policy, queue

from headgate.model.queues import Reclaim, WithinQueue
from headgate.model.settings import DEFAULT_FAIR
from headgate.preemption.quota.classical import classical_victims
from headgate.preemption.quota.fair import fair_victims
from headgate.preemption.quota.search import QuotaPreemptor
from headgate.quota.fair_sharing import ONE, by_resource, decayed, entry_penalty, remaining
from headgate.quota.tree import FlavorResource

WEEK, FIVE_MINUTES = 168 * 3600.0, 300.0
CORE = 10**9


@pytest.mark.parametrize(
    ("seconds", "half_life", "left"),
    [
        pytest.param(0, 60, 1, id="all of it at once"),
        pytest.param(60, 60, 1 / 2, id="half of it after a half-life"),
        pytest.param(120, 60, 1 / 4, id="a quarter after two"),
        pytest.param(30, 60, 0.5**0.5, id="in between as the curve goes"),
        pytest.param(1, WEEK, 0.5 ** (1 / WEEK), id="almost all of it after a moment of a long one"),
        pytest.param(1e9, 60, 0, id="nothing after an age"),
        pytest.param(-5, 60, 1, id="all of it when clocks went back"),
    ],
)
def test_what_is_left_after_a_time(seconds, half_life, left):
    assert remaining(seconds, half_life) / ONE == pytest.approx(left, abs=1e-11)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**6))
def test_two_stretches_of_time_are_as_long_as_both_together(first, second, half_life):
    apart = remaining(first, half_life) * remaining(second, half_life)
    assert abs(Fraction(apart, ONE * ONE) - Fraction(remaining(first + second, half_life), ONE)) < Fraction(1, 10**11)


@pytest.mark.parametrize(
    ("consumed", "in_use", "seconds", "half_life", "now"),
    [
        pytest.param({"cpu": 8}, {}, 60, 60, {"cpu": 4}, id="what is not used any more fades"),
        pytest.param({}, {"cpu": 8}, 60, 60, {"cpu": 4}, id="what is in use is taken up"),
        pytest.param({"cpu": 8}, {"cpu": 8}, 37, 60, {"cpu": 8}, id="steady use stays what it is, but for rounding"),
        pytest.param({"cpu": 8}, {"gpu": 8}, 60, 60, {"cpu": 4, "gpu": 4}, id="each resource by itself"),
        pytest.param({"cpu": 8}, {"cpu": 8}, 60, 0, {}, id="without a half-life everything is forgotten"),
    ],
)
def test_the_average_moves_towards_what_is_in_use(consumed, in_use, seconds, half_life, now):
    found = decayed(_cores(consumed), _cores(in_use), seconds, half_life)
    assert found == pytest.approx(_cores(now), abs=1)


def _cores(amounts):
    return {name: amount * CORE for name, amount in amounts.items()}


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 10**6), st.integers(1, 10**6))
def test_the_average_never_leaves_what_it_moves_between(consumed, in_use, seconds, half_life):
    found = decayed({"cpu": consumed}, {"cpu": in_use}, seconds, half_life)["cpu"]
    assert min(consumed, in_use) - 1 <= found <= max(consumed, in_use)


def test_a_long_average_still_grows_with_every_sample():
    consumed = {}
    for _ in range(3):
        before, consumed = consumed, decayed(consumed, {"cpu": 2 * CORE, "gpu": CORE}, FIVE_MINUTES, WEEK)
        assert all(amount > before.get(name, 0) for name, amount in consumed.items())


def test_what_counts_in_advance_is_what_one_interval_will_add():
    asked = {"cpu": 4 * CORE}
    assert entry_penalty(asked, FIVE_MINUTES, FIVE_MINUTES) == {"cpu": 2 * CORE}
    assert entry_penalty(asked, FIVE_MINUTES, 0) == {}


def test_amounts_of_all_flavors_together_in_billionths():
    usage = ((FlavorResource("a", "cpu"), 500), (FlavorResource("b", "cpu"), 1500), (FlavorResource("b", "gpu"), 2))
    assert by_resource(usage) == {"cpu": 2 * CORE, "gpu": 2 * CORE}


# victims

USE = {"busy": 7, "quiet": 1}
OWN, ANY = policy(within_queue=WithinQueue.LOWER_PRIORITY), policy(reclaim=Reclaim.ANY)


def books(*parts):
    made = ledger(*parts)
    made.local_use = lambda holder: USE.get(holder.local, 0)
    return made


@pytest.mark.parametrize("victims_of", [classical_victims, lambda *about: fair_victims(*about, DEFAULT_FAIR)])
@pytest.mark.parametrize(
    ("parts", "cpu", "victims"),
    [
        pytest.param(
            [queue("q", 4, preemption=OWN), holds("b", "q", 2, local="busy"), holds("q", "q", 2, -1, local="quiet")],
            1,
            ["b"],
            id="those of the busier local queue, though more important",
        ),
        pytest.param(
            [queue("q", 4, preemption=OWN), holds("a", "q", 2, local="busy"), holds("b", "q", 2, -1, local="busy")],
            1,
            ["b"],
            id="of one local queue the less important",
        ),
        pytest.param(
            [
                queue("q", 4, preemption=OWN),
                holds("b", "q", 2, local="busy"),
                holds("gone", "q", 2, local="quiet", evicted=True),
            ],
            1,
            ["gone"],
            id="whoever is on the way out before all",
        ),
    ],
)
def test_victims_by_what_their_local_queues_used(victims_of, parts, cpu, victims):
    preemptor = QuotaPreemptor("q", 2, 5.0, ((CPU, cpu * 1000),), (CPU,))
    assert [victim.reservation.key.name for victim in victims_of(books(*parts), preemptor)] == victims


def test_between_cluster_queues_use_says_nothing():
    """The least important goes first, and from its queue the busier local queue's."""
    world = books(
        queue("q", 4, "c", preemption=ANY),
        queue("r", 0, "c"),
        queue("s", 0, "c"),
        holds("r-low", "r", 1, priority=-2, local="quiet"),
        holds("r-busy", "r", 1, priority=-1, local="busy"),
        holds("s-middle", "s", 2, priority=0, local="busy"),
    )
    found = classical_victims(world, QuotaPreemptor("q", 2, 5.0, ((CPU, 1000),), (CPU,)))
    assert [victim.reservation.key.name for victim in found] == ["r-busy"]
