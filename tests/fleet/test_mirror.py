"""What a job at home shows of its clone, and when it must not show it yet."""

import pytest
from builders import pod
from msgspec import Raw
from msgspec.structs import replace

from headgate.fleet.clones import job_status, pod_status
from headgate.model.effects import JobProgress, PodRun
from headgate.model.keys import Key, Kind
from headgate.model.objects import Job, JobIndexes
from headgate.model.pod import HeldPod, Phase

NOW = 100.5


def job(**fields):
    return Job(Key(Kind.JOB, "default", "j"), "u", "1", {}, {}, Raw(b"{}"), 0.0, **fields)


@pytest.mark.parametrize(
    "home, clone, shown",
    [
        pytest.param(job(), job(), None, id="both show the same"),
        pytest.param(
            job(), job(active=2, ready=1, started=7.0), JobProgress(2, 1, 0, 0, 7.0, 100.0), id="it runs there"
        ),
        pytest.param(
            job(suspended=True), job(active=2, started=7.0), None, id="a suspended Job shows no pods that run"
        ),
        pytest.param(
            job(suspended=True, active=2, started=7.0),
            job(suspended=True, suspension_shown=True),
            JobProgress(0, 0, 0, 0, None, 100.0, "Suspended", "JobSuspended"),
            id="both are suspended",
        ),
        pytest.param(
            job(suspended=True),
            job(ended="Complete", succeeded=1, started=7.0, ended_message="done"),
            JobProgress(0, 0, 1, 0, 7.0, 100.0, "Complete", "", "done"),
            id="what has ended is shown also by a suspended Job",
        ),
        pytest.param(
            job(active=1, started=3.0),
            job(ended="Failed", failed=1, started=7.0, active=1),
            JobProgress(0, 0, 0, 1, 3.0, 100.0, "Failed"),
            id="the time of the start stays while it runs, and nothing of it runs when it has failed",
        ),
        pytest.param(
            job(succeeded=4, failed=2),
            job(active=1, succeeded=1),
            JobProgress(1, 0, 4, 2, None, 100.0),
            id="counters never go back, when it runs elsewhere next",
        ),
        pytest.param(job(ended="Complete"), job(active=1), None, id="what has ended stays so"),
        pytest.param(job(active=1, started=3.0), None, None, id="a Job that is to run waits for its clone"),
        pytest.param(
            job(suspended=True, active=1, started=3.0),
            None,
            JobProgress(0, 0, 0, 0, None, 100.0, "Suspended", "JobSuspended", "Job suspended"),
            id="without a clone a suspended Job is at rest",
        ),
        pytest.param(
            job(suspended=True, suspension_shown=True, started=3.0), None, None, id="and shows that once only"
        ),
        pytest.param(
            job(indexes=JobIndexes("0"), succeeded=1),
            job(indexes=JobIndexes("0-1"), succeeded=2, active=1),
            JobProgress(1, 0, 2, 0, None, 100.0, completed_indexes="0-1"),
            id="the indexes of an Indexed Job",
        ),
    ],
)
def test_the_status_of_a_job(home, clone, shown):
    assert job_status(home, clone, NOW) == shown


def at(phase, ready=False):
    return pod("p", phase=phase, held=HeldPod(ready=ready))


@pytest.mark.parametrize(
    "home, clone, shown",
    [
        pytest.param(at(Phase.PENDING), None, None, id="it waits"),
        pytest.param(at(Phase.PENDING), at(Phase.RUNNING), None, id="it runs and is not ready yet"),
        pytest.param(at(Phase.PENDING), at(Phase.RUNNING, True), Phase.RUNNING, id="it is ready"),
        pytest.param(at(Phase.RUNNING, True), at(Phase.RUNNING), None, id="it is not ready any more"),
        pytest.param(at(Phase.RUNNING, True), None, Phase.PENDING, id="its clone is gone"),
        pytest.param(at(Phase.RUNNING, True), at(Phase.SUCCEEDED), Phase.SUCCEEDED, id="it succeeded"),
        pytest.param(at(Phase.SUCCEEDED), at(Phase.RUNNING, True), None, id="what has ended stays so"),
        pytest.param(
            at(Phase.RUNNING, True),
            replace(at(Phase.FAILED), deleted=1.0),
            None,
            id="it was stopped, not failed",
        ),
        pytest.param(
            replace(at(Phase.RUNNING, True), deleted=1.0),
            replace(at(Phase.FAILED), deleted=1.0),
            Phase.FAILED,
            id="it was stopped because it is deleted at home",
        ),
    ],
)
def test_the_status_of_a_pod(home, clone, shown):
    assert pod_status(home, clone, NOW) == (None if shown is None else PodRun(shown, 100.0))
