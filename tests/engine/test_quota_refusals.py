"""Refusals are written as far as permits go, the oldest first, and not once they are out of date."""

import pytest
from msgspec import structs
from quota_steps import work

from headgate.engine.in_flight import AwaitedPermits, InformPermits
from headgate.engine.quota.workload_records import MOST_PASSED_OVER, Refusal, WorkloadRecords
from headgate.lifecycle.workload.admission import IS_GATED
from headgate.model.events import WriteError
from headgate.model.queues import QueuedWorkloadStatus
from headgate.queueing.backoff import Backoff

NO_ROOM, TOO_LARGE = Refusal("WaitingForQuota", "4 more needed"), Refusal("ExceedsMaxQuota", "too large")
SIGNAL = Refusal("PreemptionGated", "closed", IS_GATED)
STATUS = QueuedWorkloadStatus(nominated_clusters=("a",))


class Told:
    """Records of workloads, with so many permits."""

    def __init__(self, *names: str, permits: int | None = None) -> None:
        self.permits = InformPermits()
        if permits is not None:
            self.permits.give(permits)
        self.records = WorkloadRecords(Backoff(1.0, 10.0), self.permits)
        for name in names:
            self.records.add(work(name))
        self.all = [self.records.get(work(name).key) for name in names]

    def taken(self) -> list[tuple[str, str]]:
        """The refusals of a step, which is over then."""
        found = []
        for record, refusal, informs in self.records.take_refusals():
            found.append((record.key.name, refusal.reason))
            self.records.want(record, STATUS, informs=informs, tells=refusal)
        self.sent = list(self.records.send(0.0))
        return found


def test_a_later_refusal_takes_the_place_of_one_that_is_not_written():
    told = Told("a", "b")
    a, b = told.all
    for record, refusal in ((a, NO_ROOM), (b, NO_ROOM), (a, TOO_LARGE)):
        told.records.refuse(record, refusal, 0.0)
    assert told.taken() == [("a", "ExceedsMaxQuota"), ("b", "WaitingForQuota")]
    assert (a.refusal, told.records.awaited_permits) == (None, None)


def test_an_admission_drops_the_refusal():
    told = Told("a")
    told.records.refuse(told.all[0], NO_ROOM, 0.0)
    told.records.drop_refusal(told.all[0])
    told.records.drop_refusal(told.all[0])
    assert told.taken() == []


def test_a_workload_that_is_gone_leaves_no_refusal_behind():
    told = Told("a", permits=0)
    told.records.refuse(told.all[0], NO_ROOM, 0.0)
    told.records.lose(told.all[0].key, told.all[0].observed.uid)
    assert (told.taken(), told.records.awaited_permits) == ([], None)


def test_no_more_are_written_than_there_are_permits_and_the_others_await_theirs():
    told = Told("a", "b", "c", permits=2)
    for at, record in enumerate(told.all):
        told.records.refuse(record, NO_ROOM, 10.0 + at)
    assert told.records.awaited_permits is None, "there are permits"
    assert [name for name, _ in told.taken()] == ["a", "b"]
    told.records.refuse(told.all[2], TOO_LARGE, 20.0)
    assert told.records.awaited_permits == AwaitedPermits(1, 12.0), "since the first text, which was never written"
    told.permits.give(5)
    assert told.taken() == [("c", "ExceedsMaxQuota")]


def test_what_another_controller_waits_for_needs_no_permit():
    told = Told("a", "b", permits=0)
    told.records.refuse(told.all[0], NO_ROOM, 0.0)
    told.records.refuse(told.all[1], SIGNAL, 0.0)
    assert [(record.key.name, informs) for record, _, informs in told.records.take_refusals()] == [("b", False)]


def test_workloads_that_cannot_be_written_to_keep_nobody_from_a_permit():
    told = Told(*(f"w{number:03}" for number in range(MOST_PASSED_OVER + 5)), "open", permits=1)
    for record in told.all:
        told.records.refuse(record, NO_ROOM, 0.0)
        if record.key.name != "open":
            record.refused_version = record.observed.version
    assert told.taken() + told.taken() == [("open", "WaitingForQuota")]


def changed_by_somebody(told: Told) -> None:
    """The write about the first workload conflicts, and then what it conflicted with is observed."""
    told.records.answer(told.sent[0], WriteError.CONFLICT, 1.0)
    found = structs.replace(told.all[0].observed, version="9", labels={"by": "somebody"})
    told.records.observe(told.all[0], found)


def test_a_refusal_whose_write_conflicts_is_told_again_and_nothing_is_decided_anew():
    told = Told("a", permits=1)
    told.records.refuse(told.all[0], NO_ROOM, 5.0)
    told.taken()
    changed_by_somebody(told)
    assert told.records.take_forgotten() == []
    assert told.records.awaited_permits == AwaitedPermits(1, 5.0), "it waits since it was refused"
    told.permits.give(1)
    assert told.taken() == [("a", "WaitingForQuota")]
    assert told.sent[0].target.version == "9"


def test_a_later_refusal_is_not_replaced_by_one_whose_write_conflicts():
    told = Told("a", permits=1)
    told.records.refuse(told.all[0], NO_ROOM, 5.0)
    told.taken()
    told.records.refuse(told.all[0], TOO_LARGE, 6.0)
    changed_by_somebody(told)
    told.permits.give(1)
    assert told.taken() == [("a", "ExceedsMaxQuota")]


def test_what_was_decided_on_top_of_a_refusal_whose_write_conflicts_is_decided_anew():
    told = Told("a", permits=1)
    told.records.refuse(told.all[0], NO_ROOM, 5.0)
    told.taken()
    told.records.want(told.all[0], structs.replace(STATUS, cluster="b"))
    changed_by_somebody(told)
    assert told.records.take_forgotten() == [told.all[0].key]


@pytest.mark.parametrize(
    "writes, permitted",
    [
        pytest.param([True], True, id="a refusal alone informs"),
        pytest.param([True, True], True, id="two of them do"),
        pytest.param([True, False], False, id="with a decision on top it decides"),
        pytest.param([False, True], False, id="a refusal on top of a decision makes it no less decisive"),
    ],
)
def test_a_write_informs_if_all_that_is_in_it_does(writes, permitted):
    told = Told("a")
    for one in writes:
        told.records.want(told.all[0], STATUS, informs=one)
    (write,) = told.records.send(0.0)
    assert write.permitted is permitted
