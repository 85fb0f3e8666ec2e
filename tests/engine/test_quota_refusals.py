"""Refusals are written within a rate limit, the oldest first, and not once they are out of date."""

from quota_steps import work

from headgate.engine.quota.workload_records import REFUSAL_BURST, Refusal, WorkloadRecords
from headgate.queueing.backoff import Backoff

NO_ROOM, TOO_LARGE = Refusal("WaitingForQuota", "4 more needed"), Refusal("ExceedsMaxQuota", "too large")


def records_of(*names):
    records = WorkloadRecords(Backoff(1.0, 10.0))
    for name in names:
        records.observe(work(name))
    return records, [records.get(work(name).key) for name in names]


def taken(records, now):
    return [(record.key.name, refusal.reason) for record, refusal in records.take_refusals(now)]


def test_a_later_refusal_takes_the_place_of_one_that_is_not_written():
    records, (a, b) = records_of("a", "b")
    for record, refusal in ((a, NO_ROOM), (b, NO_ROOM), (a, TOO_LARGE)):
        records.refuse(record, refusal)
    assert taken(records, 0.0) == [("a", "ExceedsMaxQuota"), ("b", "WaitingForQuota")]
    assert (a.refusal, records.next_refusal_at) == (None, None)


def test_an_admission_drops_the_refusal():
    records, (a,) = records_of("a")
    records.refuse(a, NO_ROOM)
    records.drop_refusal(a)
    records.drop_refusal(a)
    assert taken(records, 0.0) == []


def test_a_workload_that_is_gone_leaves_no_refusal_behind():
    records, (a,) = records_of("a")
    records.refuse(a, NO_ROOM)
    records.lose(a.key, a.observed.uid)
    assert (taken(records, 0.0), records.next_refusal_at) == ([], None)


def test_no_more_than_a_burst_is_written_at_once():
    records, all_ = records_of(*(f"w{number:03}" for number in range(REFUSAL_BURST + 2)))
    for record in all_:
        records.refuse(record, NO_ROOM)
    assert len(taken(records, 0.0)) + len(taken(records, 0.0)) == REFUSAL_BURST + 1
    at = records.next_refusal_at
    assert at is not None and at > 0.0
    assert taken(records, at) == [(all_[-1].key.name, "WaitingForQuota")]
