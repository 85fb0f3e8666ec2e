"""The indexes of an Indexed Job: lists of them, and what becomes of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.api.owners import COMPLETION_INDEX
from headgate.model.keys import Key, Kind
from headgate.model.objects import JobIndexes
from headgate.model.pod import Phase, Pod, PodShape
from headgate.world.controller import backoff_after
from headgate.world.jobs import IndexProgress, intervals_of


def pod(name: str, index: int, phase: Phase = Phase.RUNNING, deleted: float | None = None) -> Pod:
    key, told = Key(Kind.POD, "d", name), {COMPLETION_INDEX: str(index)}
    return Pod(key, name, "1", {}, told, PodShape(), 0.0, phase=phase, deleted=deleted)


@given(st.sets(st.integers(0, 50)))
def test_a_list_of_indexes_says_which(indexes):
    progress = IndexProgress()
    progress.update(JobIndexes(intervals_of(indexes), ""), 51)
    assert progress.completed == indexes


@pytest.mark.parametrize(
    "text, indexes",
    [
        pytest.param("", set(), id="none"),
        pytest.param("0,2-4", {0, 2, 3, 4}, id="single ones and runs"),
        pytest.param("1,x,3", {1}, id="what comes after a mistake is left out"),
        pytest.param("3-9999999999,²", {3, 4}, id="what the Job has no pods for is left out"),
    ],
)
def test_lists_of_indexes(text, indexes):
    progress = IndexProgress()
    progress.update(JobIndexes("", text), 5)
    assert progress.failed == indexes


def test_an_index_fails_for_good_after_more_failures_than_its_limit():
    progress = IndexProgress()
    progress.add_pod(pod("a", 0, Phase.FAILED), 5.0)
    progress.add_pod(pod("a", 0, Phase.FAILED), 6.0)
    progress.fail(1)
    assert progress.failed == set() and progress.backoff_ends(0) == 15.0, "one pod fails once"
    progress.add_pod(pod("b", 0, Phase.FAILED), 20.0)
    assert progress.backoff_ends(0) == 40.0
    progress.fail(1)
    assert progress.failed == {0} and list(progress.next_open(2, ())) == [1]


def test_an_index_that_completed_cannot_fail_any_more():
    progress = IndexProgress()
    progress.add_pod(pod("a", 0, Phase.FAILED), 0.0)
    progress.add_pod(pod("b", 0, Phase.SUCCEEDED), 0.0)
    progress.fail(0)
    assert (progress.completed, progress.failed, progress.done(1)) == ({0}, set(), 1)


def test_a_pod_that_is_asked_to_leave_is_no_failure_and_leaves_its_index_open():
    progress = IndexProgress()
    progress.add_pod(pod("a", 0), 0.0)
    assert list(progress.next_open(1, progress.active.values())) == []
    progress.add_pod(pod("a", 0, Phase.FAILED, deleted=1.0), 1.0)
    assert progress.failures == {} and list(progress.next_open(1, progress.active.values())) == [0]


def test_what_the_status_says_is_kept():
    progress = IndexProgress()
    progress.update(JobIndexes("0-1", "3"), 6)
    assert list(progress.next_open(6, {4})) == [2, 5]


def test_the_pause_after_failures_doubles_and_ends_at_ten_minutes():
    assert [backoff_after([0.0] * count) for count in (0, 1, 2, 3, 20)] == [0.0, 10.0, 20.0, 40.0, 600.0]
