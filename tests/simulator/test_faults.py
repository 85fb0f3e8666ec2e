"""Faults: planned ones come where planned, others as the seed says."""

from __future__ import annotations

import pytest

from headgate.simulator.faults import FaultInjector, Faults, ObservationFault, WriteFault, parse_faults


def test_planned_faults_come_at_their_write_and_only_there():
    injector = FaultInjector(Faults(at={1: WriteFault.LOST}), seed=0)
    assert [injector.for_write() for _ in range(3)] == [None, WriteFault.LOST, None]


def test_one_seed_gives_one_sequence_and_another_gives_another():
    faults = Faults(crash=0.2, lost=0.2, conflict=0.2)
    one, same, other = (FaultInjector(faults, seed) for seed in (1, 1, 2))
    sequences = [[injector.for_write() for _ in range(100)] for injector in (one, same, other)]
    assert sequences[0] == sequences[1] != sequences[2]
    assert set(sequences[0]) == {None, *WriteFault}


def test_without_chances_nothing_goes_wrong():
    injector = FaultInjector(Faults(), seed=3)
    assert {injector.for_write() for _ in range(100)} | {injector.for_observations() for _ in range(100)} == {None}


def test_what_is_seen_can_be_coalesced_or_dropped():
    injector = FaultInjector(Faults(coalesced=0.4, dropped=0.4), seed=3)
    assert {injector.for_observations() for _ in range(100)} == {None, *ObservationFault}


def test_faults_are_read_from_text():
    assert parse_faults("crash=0.01,lost=0.05,stale=2s") == Faults(crash=0.01, lost=0.05, stale=2.0)
    assert parse_faults("") == Faults()


@pytest.mark.parametrize(
    "text, complaint",
    [
        pytest.param("boom=1", 'expected one of crash, lost, .* got "boom"', id="an unknown fault"),
        pytest.param("crash=often", 'crash: expected a probability from 0 to below 1, got "often"', id="no number"),
        pytest.param(
            "lost=1", 'lost: expected a probability from 0 to below 1, got "1"', id="always: nothing would end"
        ),
        pytest.param("stale=2", "expected a duration", id="a duration without a unit"),
    ],
)
def test_unreadable_faults_are_named(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse_faults(text)
