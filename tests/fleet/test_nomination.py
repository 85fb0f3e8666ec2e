"""To which worker clusters a workload is dispatched, and when the next ones are added."""

import pytest

from headgate.fleet.replicas import MOST_CLUSTERS, ROUND_SECONDS, Nominated, Workers, nominate
from headgate.model.settings import INCREMENTAL, MultiKueueSettings

AT_ONCE = MultiKueueSettings()
BY_TWO = MultiKueueSettings(dispatcher=INCREMENTAL, step_size=2)
EXTERNAL = MultiKueueSettings(dispatcher="example.com/dispatcher")
NOW = 10_000.0


def workers(clusters, connected=None):
    return Workers(tuple(clusters), frozenset(clusters if connected is None else connected))


@pytest.mark.parametrize(
    "settings, found, last, nominated",
    [
        pytest.param(AT_ONCE, workers("bac"), Nominated((), 0.0), "bac", id="all at once, in the order of the config"),
        pytest.param(AT_ONCE, workers("abc", "ac"), Nominated((), 0.0), "ac", id="who is not connected is left out"),
        pytest.param(
            AT_ONCE, workers("abc", "ac"), Nominated(("b",), 0.0), "abc", id="who was nominated stays while cut off"
        ),
        pytest.param(AT_ONCE, workers("ab"), Nominated(("c",), 0.0), "ab", id="who left the config is dropped"),
        pytest.param(AT_ONCE, workers(""), Nominated(("c",), 0.0), "", id="a config without clusters"),
        pytest.param(BY_TWO, workers("abcde"), Nominated((), 0.0), "ab", id="the first round at once"),
        pytest.param(
            BY_TWO, workers("abcde"), Nominated(("a", "b"), NOW - ROUND_SECONDS + 1), "ab", id="a round takes its time"
        ),
        pytest.param(
            BY_TWO, workers("abcde"), Nominated(("a", "b"), NOW - ROUND_SECONDS), "abcd", id="then the next are added"
        ),
        pytest.param(
            BY_TWO, workers("abcde"), Nominated(("a", "b"), NOW + 9_999), "abcd", id="a time ahead of ours is no round"
        ),
        pytest.param(
            BY_TWO, workers("abcde"), Nominated(("a", "b", "c", "d"), 0.0), "abcde", id="the last round is smaller"
        ),
        pytest.param(BY_TWO, workers("abc", "bc"), Nominated((), 0.0), "bc", id="a round has connected clusters only"),
        pytest.param(BY_TWO, workers("ab"), Nominated(("a", "b"), 0.0), "ab", id="none left"),
        pytest.param(EXTERNAL, workers("abc"), Nominated((), 0.0), "", id="another controller has not nominated yet"),
        pytest.param(EXTERNAL, workers("abc"), Nominated(("c",), 5.0), "c", id="another controller has nominated"),
    ],
)
def test_who_is_nominated(settings, found, last, nominated):
    assert nominate(settings, found, last, NOW).clusters == tuple(nominated)


@pytest.mark.parametrize(
    "found, last, at, next_round",
    [
        pytest.param(workers("abcde"), Nominated((), 0.0), NOW, NOW + ROUND_SECONDS, id="after the first round"),
        pytest.param(
            workers("abcde"), Nominated(("a", "b"), NOW - 7), NOW - 7, NOW - 7 + ROUND_SECONDS, id="in a round"
        ),
        pytest.param(workers("abc"), Nominated(("a", "b"), 0.0), NOW, None, id="there is no round after the last"),
        pytest.param(workers("ab"), Nominated(("a", "b"), 3.0), 3.0, None, id="nothing is left to add"),
    ],
)
def test_when_the_next_round_starts(found, last, at, next_round):
    after = nominate(BY_TWO, found, last, NOW)
    assert (after.at, after.next_round) == (at, next_round)


def test_no_more_are_nominated_than_a_workload_can_name():
    many = [f"w{number:02}" for number in range(30)]
    assert nominate(AT_ONCE, workers(many), Nominated((), 0.0), NOW).clusters == tuple(many[:MOST_CLUSTERS])


def test_a_round_is_the_same_after_any_number_of_looks():
    once = nominate(BY_TWO, workers("abcde"), Nominated((), 0.0), NOW)
    assert nominate(BY_TWO, workers("abcde"), once, NOW + 1.0) == once
