"""What was decided counts until it is seen or failed; what failed is decided anew, not repeated blindly."""

import pytest
from integration_scenes import JOBS, PODS, Integrations, job, pod
from msgspec.structs import replace

from headgate.engine.integrations.writes import LONGEST_BACKOFF, UNSEEN_AFTER, JobWrites
from headgate.model.effects import (
    Create,
    Delete,
    EmitEvent,
    EventType,
    Finalizers,
    JobStart,
    JobStop,
    PatchSpec,
    PatchStatus,
    Suspension,
)
from headgate.model.events import Observed, Outcome, WriteError
from headgate.model.keys import Key, Kind, Target

JOB = Key(Kind.JOB, "default", "job")
WORK = Key(Kind.KUEUE_WORKLOAD, "default", "group")
SUSPENDED = {"type": "Suspended", "status": "True"}


def suspend(version=""):
    return PatchSpec(Target(JOB, "uid", version), Suspension(True))


def event(type_=EventType.NORMAL):
    return EmitEvent(Target(JOB, "uid"), type_, "Stopped", "Reconciling", "why", 0.0)


def decided(*effects, writes=None, version="1"):
    writes = writes or JobWrites()
    return writes, list(writes.passing(WORK, effects, {JOB: version}))


def test_nothing_more_is_decided_about_an_object_until_it_is_seen_in_another_version():
    writes, passed = decided(suspend())
    assert passed == [suspend()]
    assert decided(suspend(), writes=writes)[1] == []
    writes.observe(JOB, "1")
    assert JOB in writes.pending, "seen as it was before the write"
    writes.observe(JOB, "2")
    assert JOB not in writes.pending


def test_what_is_told_goes_out_with_what_it_tells_of():
    writes, passed = decided(suspend(), event())
    assert passed == [suspend(), event()]
    assert decided(suspend(), event(), writes=writes)[1] == []
    assert decided(suspend(), event(EventType.WARNING), writes=writes)[1] == [event(EventType.WARNING)]


@pytest.mark.parametrize("trouble", [None, *WriteError])
def test_what_a_write_does_is_told_when_it_was_done_and_not_when_it_failed(trouble):
    writes, _ = decided(suspend(), event())
    writes.hold(suspend(), event())
    assert writes.take_events(Outcome(suspend("7"))) == [], "the answer to another write"
    writes.observe(JOB, "2")  # what is seen first does not say whose change it is
    assert writes.take_events(Outcome(suspend(), trouble)) == ([] if trouble else [event()])
    assert writes.take_events(Outcome(suspend())) == [], "once"


@pytest.mark.parametrize("trouble, said", [(None, ["CreatedWorkload"]), (WriteError.REFUSED, [])])
def test_a_workload_that_could_not_be_created_is_not_said_to_be(trouble, said):
    scene = Integrations()
    scene.fault = lambda write: trouble if isinstance(write, Create) else None
    scene.create(JOBS, job())
    scene.settle()
    assert [effect.reason for effect in scene.effects if isinstance(effect, EmitEvent)] == said


def test_one_decision_may_need_two_writes_but_not_two_of_one_version():
    delete, finalizers = Delete(Target(JOB, "uid")), PatchSpec(Target(JOB, "uid", "1"), Finalizers(()))
    assert decided(suspend(), delete)[1] == [suspend(), delete]
    assert decided(suspend("1"), finalizers)[1] == [suspend("1")], "the version would be an old one"


def test_an_object_that_vanished_is_decided_about_when_that_is_observed():
    """Before, the same would be decided again, and again."""
    writes, _ = decided(suspend())
    assert writes.answer(Outcome(suspend(), WriteError.GONE), 0.0) == WORK
    assert JOB in writes.pending
    writes.gone(JOB)
    assert JOB not in writes.pending


def test_a_creation_is_not_forgotten_because_an_older_object_of_that_name_is_gone():
    create = Create(JOB, b"{}")
    writes = JobWrites()
    assert list(writes.passing(WORK, [create], {})) == [create]
    writes.gone(JOB)
    assert JOB in writes.pending
    writes.observe(JOB, "7")
    assert JOB not in writes.pending


@pytest.mark.parametrize(
    "trouble, after, idle",
    [
        pytest.param(WriteError.CONFLICT, 1.0, False, id="someone else wrote: soon, or as soon as that is seen"),
        pytest.param(WriteError.UNAVAILABLE, 1.0, False, id="not reached: soon"),
        pytest.param(WriteError.UNKNOWN, 1.0, False, id="the answer was lost: soon"),
        pytest.param(WriteError.GONE, 1.0, False, id="vanished: soon, or as soon as that is seen"),
        pytest.param(WriteError.REFUSED, LONGEST_BACKOFF, True, id="refused: much later"),
        pytest.param(None, UNSEEN_AFTER, True, id="accepted and never seen: in the end"),
    ],
)
def test_when_an_object_is_looked_at_again(trouble, after, idle):
    writes, _ = decided(suspend())
    assert writes.answer(Outcome(suspend(), trouble), 100.0) == WORK
    deadlines = (writes.in_flight.deadlines.next_deadline(), writes.in_flight.idle_deadlines.next_deadline())
    assert deadlines == ((None, 100.0 + after) if idle else (100.0 + after, None))
    assert list(writes.due(99.0 + after)) == []
    assert JOB in writes.pending
    assert list(writes.due(100.0 + after)) == [WORK]
    assert JOB not in writes.pending


def test_trouble_upon_trouble_is_tried_ever_more_rarely():
    writes, now = JobWrites(), 0.0
    waits = []
    for _ in range(8):
        assert list(writes.passing(WORK, [suspend()], {JOB: "1"})) == [suspend()]
        writes.answer(Outcome(suspend(), WriteError.UNAVAILABLE), now)
        at = writes.in_flight.deadlines.next_deadline()
        waits.append(at - now)
        now = at
        assert list(writes.due(now)) == [WORK]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_an_answer_to_somebody_elses_write_changes_nothing():
    writes, _ = decided(suspend())
    assert writes.answer(Outcome(PatchSpec(Target(JOB, "uid"), Suspension(False)), WriteError.GONE), 0.0) is None
    assert JOB in writes.pending


# the plane with a server that does not answer as it should


def by_hand(scene, *events):
    """A step whose writes are not carried out."""
    effects = [effect for each in events for effect in scene.plane.absorb(each, scene.now)]
    effects += scene.plane.decide(scene.now)
    scene.plane.check()
    return [each for each in effects if isinstance(each, PatchSpec | PatchStatus | Delete | Create)]


def admitted(manifest, path):
    scene = Integrations()
    scene.create(path, manifest)
    scene.settle()
    found = scene.workload()
    assignment = {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}, "count": 1}
    admission = {"clusterQueue": "cq", "podSetAssignments": [assignment]}
    scene.say(found, {"QuotaReserved": "True", "Admitted": "True"}, admission=admission)
    return scene


def test_quota_is_not_released_while_a_start_may_still_take_hold():
    scene = admitted(job(), JOBS)
    (start,) = by_hand(scene, *scene.news())
    assert isinstance(start.change, JobStart)
    scene.say(scene.workload(), {"Evicted": "True"}, "Preempted")
    assert by_hand(scene, *scene.news()) == [], "the start may be under way"
    found = replace(scene.decoded["job"], version="later", suspended=False)
    (stop,) = by_hand(scene, Outcome(start), Observed(found))
    assert isinstance(stop.change, JobStop)


def test_a_lost_start_is_decided_anew():
    scene = admitted(job(), JOBS)
    (start,) = by_hand(scene, *scene.news())
    assert by_hand(scene, Outcome(start, WriteError.UNKNOWN, "lost")) == []
    scene.now += 1
    assert by_hand(scene) == [start]


def test_an_unseen_write_of_another_makes_us_wait_for_it_and_decide_on_that():
    scene = admitted(pod(), PODS)
    (start,) = by_hand(scene, *scene.news())
    assert by_hand(scene, Outcome(start, WriteError.CONFLICT, "the object has been modified")) == []
    newer = replace(scene.decoded["pod"], version="later", gates=("kueue.x-k8s.io/admission", "example.com/new"))
    (again,) = by_hand(scene, Observed(newer))
    assert again.change.gates == start.change.gates


def test_a_refused_write_is_journalled_and_not_repeated():
    scene = admitted(job(), JOBS)
    (start,) = by_hand(scene, *scene.news())
    assert by_hand(scene, Outcome(start, WriteError.REFUSED, "spec.template: is immutable")) == []
    scene.now += 30
    assert by_hand(scene) == []
    assert [entry.message for entry in scene.journal.take() if entry.reason == "Refused"] == [
        "spec.template: is immutable"
    ]


def test_a_workload_is_created_once_however_late_it_is_seen():
    scene = Integrations()
    scene.create(JOBS, job())
    (create,) = by_hand(scene, *scene.news())
    assert isinstance(create, Create)
    job_again = replace(scene.decoded["job"], version="later")
    assert by_hand(scene, Observed(job_again)) == []
    assert by_hand(scene, Outcome(create)) == []


def test_a_workload_that_could_not_be_created_is_created_later():
    scene = Integrations()
    scene.create(JOBS, job())
    (create,) = by_hand(scene, *scene.news())
    assert by_hand(scene, Outcome(create, WriteError.UNAVAILABLE, "not reached")) == []
    scene.now += 1
    assert by_hand(scene) == [create]
