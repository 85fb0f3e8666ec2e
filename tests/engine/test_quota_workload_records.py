"""Writes about one workload: none gets lost, and none stands in the way of the next."""

import pytest
from msgspec import structs

from headgate.engine.in_flight import InformPermits
from headgate.engine.quota.workload_records import PATIENCE, WorkloadRecords
from headgate.lifecycle.workload.admission import refused, reserved
from headgate.lifecycle.workload.conditions import with_status
from headgate.lifecycle.workload.eviction import preempted, released
from headgate.model.events import WriteError
from headgate.model.keys import Key, Kind
from headgate.model.pod import PodShape
from headgate.model.queues import Admission, PodSet, PodSetAssignment, QueuedWorkload
from headgate.model.resources import Resources
from headgate.queueing.backoff import Backoff

KEY = Key(Kind.KUEUE_WORKLOAD, "team", "work")
WORK = QueuedWorkload(KEY, "uid", "1", 0.0, (PodSet("main", PodShape()),), "queue")


@pytest.fixture
def records():
    made = WorkloadRecords(Backoff(1.0, 10.0), InformPermits())
    made.add(WORK)
    return made


def says(records, text):
    return refused(records.get(KEY).decided, "WaitingForQuota", text, (), 5.0)


def seen(records, written, version):
    found = structs.replace(with_status(records.get(KEY).observed, written.change), version=version)
    return list(records.observe(records.get(KEY), found))


def test_what_is_so_already_is_not_written_and_holds_nothing_up(records):
    """Such a write would make no new version, and what is never seen would be waited for for ever."""
    records.want(records.get(KEY), says(records, "no longer fits"))
    (first,) = records.send(0.0)
    records.want(records.get(KEY), says(records, "4 more needed"))
    records.want(records.get(KEY), says(records, "no longer fits"))
    list(records.answer(first, None, 6.0))
    seen(records, first, "2")
    assert list(records.send(0.0)) == []
    records.want(records.get(KEY), says(records, "5 more needed"))
    assert len(list(records.send(0.0))) == 1


def test_what_is_decided_meanwhile_is_sent_once_the_first_write_is_seen(records):
    records.want(records.get(KEY), says(records, "4 more needed"))
    (first,) = records.send(0.0)
    records.want(records.get(KEY), says(records, "2 more needed"))
    assert list(records.send(0.0)) == []
    seen(records, first, "2")
    (second,) = records.send(0.0)
    assert second.target.version == "2"


def test_quota_that_is_given_back_while_its_grant_is_under_way_is_held_until_that_is_seen(records):
    """The grant may still take hold, and somebody may start by it."""
    given = Admission("queue", (PodSetAssignment("main", (("cpu", "default"),), Resources.of({"cpu": 1000}), 1),))
    records.want(records.get(KEY), reserved(WORK, given, (), 5.0))
    (grant,) = records.send(0.0)
    record = records.get(KEY)
    evicted = with_status(record.decided, preempted(record.decided, "InClusterQueue", "make way", 6.0))
    records.want(records.get(KEY), released(evicted, 6.0, "PendingEvaluation"))
    assert record.decided.status.admission is None
    assert record.held() == given and record.decided.is_true("Evicted")
    seen(records, grant, "2")
    (back,) = records.send(0.0)
    assert record.held() == given
    seen(records, back, "3")
    assert record.held() is None


@pytest.mark.parametrize("trouble", [None, WriteError.CONFLICT], ids=["accepted", "refused as outdated"])
def test_what_was_answered_and_is_never_seen_is_decided_anew_in_the_end(records, trouble):
    records.want(records.get(KEY), says(records, "4 more needed"))
    (first,) = records.send(0.0)
    list(records.answer(first, trouble, 6.0))
    due = records.writes.deadlines.next_deadline()
    assert due is not None and due <= 6.0 + PATIENCE
    records.flush_due(due)
    assert records.take_forgotten() == [KEY]
    assert records.get(KEY).decided == WORK


def test_an_event_is_put_into_words_only_when_it_is_emitted(records):
    told = []
    records.want(records.get(KEY), says(records, "4 more needed"), lambda: told.append("refused"))
    (first,) = records.send(0.0)
    (tell,) = records.answer(first, None, 6.0)
    assert told == []
    tell()
    assert told == ["refused"]
    assert seen(records, first, "2") == [], "it is told once"


def other(name):
    return structs.replace(WORK, key=Key(Kind.KUEUE_WORKLOAD, "team", name), uid=name)


def under_way(records, *names):
    """Writes about these workloads, none of them answered."""
    for name in names:
        work = other(name)
        records.add(work)
        records.want(records.get(work.key), refused(work, "WaitingForQuota", "4 more needed", (), 5.0))
    return list(records.send(0.0))


def test_those_who_have_rested_are_sent_again_in_the_order_they_began_to(records):
    writes = under_way(records, "c", "a", "b")
    for write in writes:
        records.answer(write, WriteError.UNAVAILABLE, 6.0)
    records.flush_due(6.5)
    assert list(records.send(0.0)) == []
    records.flush_due(7.0)
    assert list(records.send(0.0)) == writes
    assert records.writes.deadlines.next_deadline() is None


def test_the_next_deadline_is_that_of_the_first_who_still_rests(records):
    first, second = under_way(records, "a", "b")
    records.answer(first, WriteError.UNAVAILABLE, 6.0)
    records.answer(second, None, 6.0)
    assert records.writes.deadlines.next_deadline() == 7.0
    found = structs.replace(with_status(other("a"), first.change), version="2")
    records.observe(records.get(found.key), found)
    assert records.writes.deadlines.next_deadline() == 6.0 + PATIENCE
    records.lose(other("b").key, "b")
    assert records.writes.deadlines.next_deadline() is None
