"""Writes about one workload: none gets lost, and none stands in the way of the next."""

import pytest
from msgspec import structs

from headgate.engine.quota.desk import PATIENCE, Desk
from headgate.lifecycle.quota_admission import refused, reserved
from headgate.lifecycle.quota_conditions import with_status
from headgate.lifecycle.quota_eviction import preempted, released
from headgate.model.events import Trouble
from headgate.model.keys import Key, Kind
from headgate.model.pod import PodShape
from headgate.model.queues import Admission, PodSet, PodSetAssignment, QueuedWorkload
from headgate.model.resources import Resources
from headgate.queueing.backoff import Backoff

KEY = Key(Kind.KUEUE_WORKLOAD, "team", "work")
WORK = QueuedWorkload(KEY, "uid", "1", 0.0, (PodSet("main", PodShape()),), "queue")


@pytest.fixture
def desk():
    made = Desk(Backoff(1.0, 10.0))
    list(made.observe(WORK))
    return made


def says(desk, text):
    return refused(desk.get(KEY).now, "WaitingForQuota", text, (), 5.0)


def seen(desk, written, version):
    found = structs.replace(with_status(desk.get(KEY).seen, written.change), version=version)
    return list(desk.observe(found))


def test_what_is_so_already_is_not_written_and_holds_nothing_up(desk):
    """Such a write would make no new version, and what is never seen would be waited for for ever."""
    desk.want(KEY, says(desk, "no longer fits"))
    (first,) = desk.send(5.0)
    desk.want(KEY, says(desk, "4 more needed"))
    desk.want(KEY, says(desk, "no longer fits"))
    list(desk.answer(first, None, 6.0))
    seen(desk, first, "2")
    assert list(desk.send(6.0)) == []
    desk.want(KEY, says(desk, "5 more needed"))
    assert len(list(desk.send(7.0))) == 1


def test_what_is_decided_meanwhile_is_sent_once_the_first_write_is_seen(desk):
    desk.want(KEY, says(desk, "4 more needed"))
    (first,) = desk.send(5.0)
    desk.want(KEY, says(desk, "2 more needed"))
    assert list(desk.send(5.5)) == []
    seen(desk, first, "2")
    (second,) = desk.send(6.0)
    assert second.target.version == "2"


def test_quota_that_is_given_back_while_its_grant_is_under_way_is_held_until_that_is_seen(desk):
    """The grant may still take hold, and somebody may start by it."""
    given = Admission("queue", (PodSetAssignment("main", (("cpu", "default"),), Resources.of({"cpu": 1000}), 1),))
    desk.want(KEY, reserved(WORK, given, (), 5.0))
    (grant,) = desk.send(5.0)
    sheet = desk.get(KEY)
    evicted = with_status(sheet.now, preempted(sheet.now, "InClusterQueue", "make way", 6.0))
    desk.want(KEY, released(evicted, 6.0, "PendingEvaluation"))
    assert sheet.now.admission is None
    assert sheet.held == given and sheet.now.is_true("Evicted")
    seen(desk, grant, "2")
    (back,) = desk.send(7.0)
    assert sheet.held == given
    seen(desk, back, "3")
    assert sheet.held is None


@pytest.mark.parametrize("trouble", [None, Trouble.CONFLICT], ids=["accepted", "refused as outdated"])
def test_what_was_answered_and_is_never_seen_is_decided_anew_in_the_end(desk, trouble):
    desk.want(KEY, says(desk, "4 more needed"))
    (first,) = desk.send(5.0)
    list(desk.answer(first, trouble, 6.0))
    due = desk.next_deadline()
    assert due is not None and due <= 6.0 + PATIENCE
    desk.give_up(due)
    assert desk.take_forgotten() == [KEY]
    assert desk.get(KEY).now == WORK


def test_an_event_is_put_into_words_only_when_it_is_emitted(desk):
    told = []
    desk.want(KEY, says(desk, "4 more needed"), lambda: told.append("refused"))
    (first,) = desk.send(5.0)
    (tell,) = desk.answer(first, None, 6.0)
    assert told == []
    tell()
    assert told == ["refused"]
    assert seen(desk, first, "2") == [], "it is told once"


def other(name):
    return structs.replace(WORK, key=Key(Kind.KUEUE_WORKLOAD, "team", name), uid=name)


def under_way(desk, *names):
    """Writes about these workloads, none of them answered."""
    for name in names:
        work = other(name)
        desk.observe(work)
        desk.want(work.key, refused(work, "WaitingForQuota", "4 more needed", (), 5.0))
    return list(desk.send(5.0))


def test_those_who_have_rested_are_sent_again_in_the_order_they_began_to(desk):
    writes = under_way(desk, "c", "a", "b")
    for write in writes:
        desk.answer(write, Trouble.UNAVAILABLE, 6.0)
    assert list(desk.send(6.5)) == []
    assert list(desk.send(7.0)) == writes
    assert desk.next_deadline() is None


def test_the_next_deadline_is_that_of_the_first_who_still_rests(desk):
    first, second = under_way(desk, "a", "b")
    desk.answer(first, Trouble.UNAVAILABLE, 6.0)
    desk.answer(second, None, 6.0)
    assert desk.next_deadline() == 7.0
    desk.observe(structs.replace(with_status(other("a"), first.change), version="2"))
    assert desk.next_deadline() == 6.0 + PATIENCE
    desk.lose(other("b").key, "b")
    assert desk.next_deadline() is None
