"""The Job controller, run against a tiny cluster that does what it asks."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from headgate.model.effects import Create, Delete, Effect, JobProgress, PatchStatus, WakeAt
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.keys import Key, Kind, Target
from headgate.model.objects import Job
from headgate.model.pod import Phase, Pod, PodShape
from headgate.world.jobs import JobController

TEMPLATE = Raw(b'{"metadata": {"annotations": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}')
KEY = Key(Kind.JOB, "default", "count")


def job(**fields: object) -> Job:
    return replace(Job(KEY, "job-uid", "1", {}, {}, TEMPLATE, 0.0, completions=1), **fields)


class Bench:
    """The controller, its Job and its pods; what it asks for is done, and then seen."""

    def __init__(self, wanted: Job) -> None:
        self.controller, self.job = JobController(), wanted
        self.pods: dict[str, Pod] = {}
        self.told: JobProgress | None = None
        self.names: list[str] = []
        self.wakes: list[WakeAt] = []
        self.see(Observed(wanted))

    def see(self, *batch: Event, now: float = 0.0) -> list[Effect]:
        events, asked = list(batch), []
        while events:
            effects = self.controller.react(events, now)
            asked += effects
            events = [event for effect in effects for event in self._do(effect)]
        return asked

    def _do(self, effect: Effect) -> list[Event]:
        match effect:
            case Create(key):
                pod = Pod(key, f"{key.name}-uid", "1", {}, {}, PodShape(), 0.0, owner=Target(KEY, "job-uid"))
                self.pods[key.name] = pod
                self.names.append(key.name)
                return [Observed(pod)]
            case Delete(target):
                self.pods.pop(target.key.name)
                return [Gone(target.key, target.uid)]
            case PatchStatus(_, JobProgress() as progress):
                self.told = progress
                ended = progress.condition if progress.condition in ("Complete", "Failed") else ""
                self.job = replace(self.job, succeeded=progress.succeeded, failed=progress.failed, ended=ended)
                return [Observed(self.job)]
            case WakeAt():
                self.wakes.append(effect)
        return []

    def turn(self, phase: Phase, name: str = "", now: float = 0.0) -> list[Effect]:
        name = name or next(iter(self.alive()))
        self.pods[name] = replace(self.pods[name], phase=phase)
        return self.see(Observed(self.pods[name]), now=now)

    def change(self, **fields: object) -> list[Effect]:
        self.job = replace(self.job, **fields)
        return self.see(Observed(self.job))

    def alive(self) -> list[str]:
        return [name for name, pod in self.pods.items() if pod.phase in (Phase.PENDING, Phase.RUNNING)]


@pytest.mark.parametrize(
    "wanted, pods",
    [
        pytest.param(job(), 1, id="one pod by default"),
        pytest.param(job(parallelism=3, completions=6), 3, id="as many as may run at once"),
        pytest.param(job(parallelism=5, completions=2), 2, id="no more than are left to complete"),
        pytest.param(job(parallelism=3, completions=None), 3, id="a work queue gets all its workers"),
        pytest.param(job(parallelism=0), 0, id="none when none may run"),
        pytest.param(job(completions=0), 0, id="none when nothing is to be done"),
        pytest.param(job(suspended=True), 0, id="none while suspended"),
        pytest.param(job(managed_by="kueue.x-k8s.io/multikueue"), 0, id="none when another controller manages it"),
        pytest.param(job(managed_by="kubernetes.io/job-controller"), 1, id="its own name is no other controller"),
        pytest.param(job(deleted=1.0), 0, id="none when it is being deleted"),
        pytest.param(job(ended="Complete"), 0, id="none when it has ended"),
    ],
)
def test_pods_at_the_start(wanted, pods):
    assert len(Bench(wanted).alive()) == pods


def test_a_pod_is_made_from_the_template_and_owned():
    create = next(e for e in JobController().react([Observed(job())], 0.0) if isinstance(e, Create))
    manifest = msgspec.json.decode(create.manifest)
    assert manifest["metadata"]["annotations"] == {"a": "b"}
    assert manifest["metadata"]["ownerReferences"][0]["uid"] == "job-uid"
    assert manifest["metadata"]["name"].startswith("count-") and len(manifest["metadata"]["name"]) == len("count-") + 5


def test_successes_are_replaced_until_complete():
    bench = Bench(job(parallelism=2, completions=3))
    bench.turn(Phase.SUCCEEDED)
    assert len(bench.alive()) == 2
    bench.turn(Phase.SUCCEEDED)
    assert len(bench.alive()) == 1, "only one completion is left"
    bench.turn(Phase.SUCCEEDED)
    assert (bench.told.succeeded, bench.told.active, bench.told.condition) == (3, 0, "Complete")
    assert bench.alive() == []


def test_a_work_queue_is_complete_when_one_succeeded_and_all_have_ended():
    bench = Bench(job(parallelism=2, completions=None))
    bench.turn(Phase.SUCCEEDED)
    assert len(bench.alive()) == 1, "no new worker after the first success"
    assert bench.told.condition == ""
    bench.turn(Phase.SUCCEEDED)
    assert bench.told.condition == "Complete"


def test_a_failed_pod_is_replaced_after_a_growing_pause():
    bench = Bench(job(backoff_limit=6))
    bench.turn(Phase.FAILED, now=5.0)
    assert bench.alive() == []
    assert bench.wakes[-1].at == 15.0
    bench.see(TimerFired(bench.wakes[-1].timer), now=15.0)
    assert len(bench.alive()) == 1
    bench.turn(Phase.FAILED, now=20.0)
    assert bench.wakes[-1].at == 40.0, "twice as long the second time"


def test_more_failures_than_the_backoff_limit_end_the_job():
    bench = Bench(job(parallelism=2, completions=2, backoff_limit=0))
    bench.turn(Phase.FAILED)
    assert (bench.told.failed, bench.told.condition, bench.told.reason) == (1, "Failed", "BackoffLimitExceeded")
    assert bench.alive() == [], "what still ran is sent away"


def test_a_deleted_pod_is_replaced_and_is_no_failure():
    bench = Bench(job())
    name = bench.alive()[0]
    going = replace(bench.pods[name], deleted=30.0)
    bench.see(Observed(going))
    assert len(bench.alive()) == 2, "replaced while it still terminates"
    del bench.pods[name]
    bench.see(Observed(replace(going, phase=Phase.FAILED)), Gone(going.key, going.uid))
    assert (len(bench.alive()), bench.told.failed) == (1, 0)


def test_suspending_sends_pods_away_and_resuming_starts_anew():
    bench = Bench(job(parallelism=2, completions=2))
    bench.change(suspended=True)
    assert (bench.alive(), bench.told.condition, bench.told.started) == ([], "Suspended", None)
    bench.controller.react([], 0.0)
    bench.change(suspended=False)
    assert (len(bench.alive()), bench.told.condition, bench.told.started) == (2, "", 0.0)
    assert len(set(bench.names)) == 4, "no name is used twice"


def test_lower_parallelism_sends_the_least_worth_away():
    bench = Bench(job(parallelism=3, completions=9))
    runs = bench.alive()[1]
    bench.pods[runs] = replace(bench.pods[runs], node="n")
    bench.turn(Phase.RUNNING, runs)
    bench.change(parallelism=1)
    assert bench.alive() == [runs]


def test_a_name_that_is_taken_is_not_tried_again():
    controller = JobController()
    first = next(e for e in controller.react([Observed(job())], 0.0) if isinstance(e, Create))
    again = controller.react([Outcome(first, WriteError.CONFLICT)], 0.0)
    second = next(e for e in again if isinstance(e, Create))
    assert second.key != first.key


def test_a_pod_the_server_will_never_accept_is_not_asked_for_again():
    controller = JobController()
    first = next(e for e in controller.react([Observed(job())], 0.0) if isinstance(e, Create))
    assert controller.react([Outcome(first, WriteError.REFUSED)], 0.0) == []
    assert controller.react([Observed(job())], 1.0) == []


def test_ends_counted_earlier_stay_counted_though_their_pods_are_gone():
    bench = Bench(job(parallelism=1, completions=3, succeeded=2))
    bench.turn(Phase.SUCCEEDED)
    assert (bench.told.succeeded, bench.told.condition) == (3, "Complete")


def test_pods_of_a_job_that_is_gone_are_left_alone():
    bench = Bench(job())
    pod = bench.pods[bench.alive()[0]]
    assert bench.see(Gone(KEY, "job-uid"), Observed(replace(pod, phase=Phase.FAILED)), Gone(pod.key, pod.uid)) == []


@given(st.data())
def test_hearing_things_twice_changes_nothing(data):
    bench = Bench(job(parallelism=3, completions=5, backoff_limit=2))
    for step in range(6):
        now = step * 1000.0  # longer than any pause before a failed pod is replaced
        bench.see(Observed(bench.job), now=now)
        if bench.alive():
            phase = data.draw(st.sampled_from([Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED]))
            bench.turn(phase, data.draw(st.sampled_from(bench.alive())), now=now)
        repeated = data.draw(st.lists(st.sampled_from([Observed(bench.job), *map(Observed, bench.pods.values())])))
        assert all(isinstance(effect, WakeAt) for effect in bench.controller.react(repeated, now))
        assert len(bench.alive()) <= 3
        assert bench.told.succeeded <= 5
