"""What queues show goes on being told: after a restart, after answers that were lost, and while they are deleted."""

import pytest
from msgspec.structs import replace
from quota_steps import QuotaSteps, local, queue, work

from headgate.model.effects import ClusterQueueStatus, PatchSpec, PatchStatus
from headgate.model.events import Outcome, WriteError
from headgate.model.keys import Target

NOT_WRITTEN = [WriteError.CONFLICT, WriteError.UNAVAILABLE, WriteError.UNKNOWN]


def about_queue(steps, kind=PatchStatus):
    return [write for write in steps.writes if isinstance(write, kind) and write.target.key == queue().key]


def held():
    """A queue that is about to tell of its one workload."""
    steps = QuotaSteps(queue()).see(work("a"))
    steps.held = True
    return steps.later(1.0)


def turned_away(steps, write, trouble):
    steps.writes = []
    return steps.step(Outcome(write, trouble))


def test_a_status_that_was_there_already_is_not_waited_for():
    """Such a write makes no new version, so there is nothing to see."""
    steps = QuotaSteps(queue()).later(1.0)
    steps.held = True
    steps.restart()
    steps.step(*(Outcome(write) for write in steps.writes))
    steps.writes, steps.held = [], False
    steps.see(work("a")).later(1.0)
    assert steps.status(queue().key).admitted == steps.status(local().key).admitted == 1


@pytest.mark.parametrize("trouble", NOT_WRITTEN)
def test_a_status_that_was_not_written_is_told_after_a_rest_that_grows(trouble):
    steps = held()
    for rest in (1.0, 2.0, 4.0):
        (write,) = about_queue(steps)
        turned_away(steps, write, trouble)
        assert steps.alarm == steps.now + rest
        steps.later(rest - 0.5)
        assert about_queue(steps) == []
        steps.later(0.5)
    steps.release()
    assert steps.status(queue().key).admitted == 1


def test_a_status_is_written_whatever_version_was_last_seen():
    """Nobody else writes it, and what is seen may lag behind."""
    steps = held()
    (write,) = about_queue(steps)
    assert write.target == Target(queue().key, queue().uid)


@pytest.mark.parametrize("trouble", NOT_WRITTEN)
def test_a_finalizer_that_was_not_written_is_tried_again_and_the_status_follows(trouble):
    steps = QuotaSteps()
    steps.held = True
    steps.see(queue())
    (write,) = about_queue(steps, PatchSpec)
    turned_away(steps, write, trouble)
    assert steps.writes == []
    steps.later(1.0)
    assert about_queue(steps, PatchSpec) == [write]
    steps.release()
    assert isinstance(steps.status(queue().key), ClusterQueueStatus)


def test_a_queue_that_is_deleted_while_it_is_used_says_so():
    steps = QuotaSteps(queue(), work("a")).later(1.0)
    steps.see(replace(steps.objects[queue().key], deleted=1.0)).later(1.0)
    (active,) = steps.status(queue().key).conditions
    assert (active.status, active.reason) == ("False", "Terminating")
    steps.finish("a").later(1.0)
    assert queue().key not in steps.objects


def test_queues_that_meet_count_each_other_s_workloads_as_far_as_they_share_them():
    steps = QuotaSteps(queue(), queue("more"), local("second"), work("a"), work("b", queue="second"))
    steps.see(local("second", "more"), work("c", queue="second")).later(1.0)
    shown = {one.key.name: steps.status(one.key) for one in (queue(), queue("more"), local(), local("second"))}
    assert {name: status.admitted for name, status in shown.items()} == {"cq": 2, "more": 1, "lq": 1, "second": 2}
    assert [use.total["cpu"] for use in shown["second"].usage] == [2000]
