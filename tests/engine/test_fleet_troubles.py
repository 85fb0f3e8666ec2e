"""What a worker cluster does to our objects is said at home, harms nobody else, and is not answered in a hurry."""

import pytest
from fleet_scenes import JOBS, WORKLOADS, Fleet, GuardedFleet
from integration_scenes import job

import headgate.engine.fleet.reconciler as rules
from headgate.engine.fleet.fleet_index import FleetIndex
from headgate.model.effects import Create, Delete, EmitEvent, PatchStatus, RemoteWrite
from headgate.model.events import Observed, RemoteEvent, Unreadable
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import MULTIKUEUE_ORIGIN, PREBUILT_WORKLOAD
from headgate.model.queues import CheckState, QueuedWorkloadStatus

LOST = 200.0
WHY = "$.spec.parallelism: Expected `int | null`, got `str`"


def told(fleet):
    return [each for each in fleet.home.effects if isinstance(each, EmitEvent) and each.type == "Warning"]


def sent(fleet, cluster, kind):
    writes = [each.write for each in fleet.home.effects if isinstance(each, RemoteWrite) and each.cluster == cluster]
    return [each for each in writes if isinstance(each, kind)]


def of_its_job(fleet, cluster):
    """Its clone, as one that cannot be read."""
    clone = fleet.workers[cluster].job()["metadata"]
    key = Key(Kind.JOB, "default", clone["name"])
    return Unreadable(key, clone["uid"], "999", WHY, workload=clone["labels"][PREBUILT_WORKLOAD])


def of_its_replica(fleet, cluster):
    found = fleet.workers[cluster].workload()["metadata"]
    return Unreadable(Key(Kind.KUEUE_WORKLOAD, "default", found["name"]), found["uid"], "999", WHY)


def hide(fleet, cluster, *found):
    """The objects cannot be read any more, and nothing more is told of them but that they are gone."""
    remote, hidden = fleet.remotes[cluster], {each.uid for each in found}
    poll = remote.poll
    remote.poll = lambda origin: [
        each
        for each in poll(origin)
        if not isinstance(getattr(each, "event", None), Observed) or each.event.object.uid not in hidden
    ]
    fleet.home.inbox += [RemoteEvent(cluster, each) for each in found]
    return fleet


# objects that cannot be read


@pytest.mark.parametrize("which", [of_its_job, of_its_replica])
def test_what_cannot_be_read_is_said_at_home_and_the_others_go_on(which):
    fleet = Fleet({"a": 4, "b": 4}, worker_lost_timeout=LOST).submit().settle()
    found = which(fleet, "a")
    hide(fleet, "a", found).submit("other").settle()
    (said,) = told(fleet)
    text = f"worker cluster a: {found.key} is left out until it changes, because it cannot be read: {WHY}"
    assert (said.reason, said.message) == ("Quarantined", text)
    assert fleet.check() == ("Ready", f'The workload was admitted on "a"; {text}')
    assert (fleet.running(), fleet.running("other")) == (["a"], ["a"])
    counted = {name: value for (name, _), value in fleet.home.engine.gauges().items()}
    assert counted["headgate_worker_cluster_unreadable_objects"] == 1


def test_it_is_waited_for_as_for_a_cluster_that_does_not_answer_and_then_removed():
    fleet = Fleet({"a": 4, "b": 4}, worker_lost_timeout=LOST).submit().settle()
    found = of_its_job(fleet, "a")
    hide(fleet, "a", found).later(LOST - 5.0)
    assert (fleet.running(), sent(fleet, "a", Delete)) == (["a"], [])
    places = []
    fleet.watch = lambda: places.append(fleet.running())
    fleet.later(30.0)
    (where,) = fleet.running()
    assert fleet.workers[where].job()["metadata"]["uid"] != found.uid
    assert [] in places
    assert all(len(each) < 2 for each in places), "never in two clusters"
    assert fleet.check() == ("Ready", f'The workload was admitted on "{where}"')


def test_readable_again_it_goes_on_as_before():
    fleet = Fleet({"a": 4}, worker_lost_timeout=LOST).submit().settle()
    fleet.home.inbox.append(RemoteEvent("a", of_its_job(fleet, "a")))
    fleet.settle()
    fleet.workers["a"].end()
    fleet.settle()
    assert fleet.home.conditions()["Finished"] == "True"
    assert fleet.workers["a"].names(JOBS) + fleet.workers["a"].names(WORKLOADS) == []


def test_an_answer_that_cannot_be_read_leaves_the_workload_to_the_others():
    fleet = Fleet({"a": 1, "b": 1, "c": 4}, worker_lost_timeout=LOST)
    fleet.cut("c")
    fleet.submit(cpu=2).settle()
    hide(fleet, "a", of_its_replica(fleet, "a")).settle()
    assert "worker cluster a: " in fleet.check()[1]
    fleet.heal("c").settle()
    assert (fleet.running(), fleet.replicas()) == (["c"], ["c"])
    assert "worker cluster a: " not in fleet.check()[1]


def test_what_cannot_be_read_is_removed_with_its_workload():
    fleet = Fleet({"a": 4}).submit().settle()
    hide(fleet, "a", of_its_job(fleet, "a"), of_its_replica(fleet, "a")).settle()
    fleet.home.delete(f"{JOBS}/job")
    fleet.settle()
    assert fleet.workers["a"].names(JOBS) + fleet.workers["a"].names(WORKLOADS) == []


# objects that a rule raises for


@pytest.fixture
def broken_mirror(monkeypatch):
    """A rule with a bug, while it is decided about a workload."""
    judged = rules.job_status

    def job_status(home, clone, now):
        if clone is not None and "poison" in clone.annotations:
            raise ZeroDivisionError("poison")
        return judged(home, clone, now)

    monkeypatch.setattr(rules, "job_status", job_status)


@pytest.fixture
def broken_index(monkeypatch):
    """A rule with a bug, while an object is taken in."""
    put = FleetIndex.put_remote

    def put_remote(self, cluster, found):
        if "poison" in found.annotations:
            raise ZeroDivisionError("poison")
        return put(self, cluster, found)

    monkeypatch.setattr(FleetIndex, "put_remote", put_remote)


@pytest.mark.parametrize("broken", ["broken_mirror", "broken_index"])
def test_an_object_that_a_rule_raises_for_stops_nobody_else(broken, request):
    request.getfixturevalue(broken)
    fleet = GuardedFleet({"a": 4, "b": 4}, worker_lost_timeout=LOST).submit().settle()
    fleet.workers["a"].patch(f"{JOBS}/job", metadata={"annotations": {"poison": "1"}})
    fleet.settle()
    assert fleet.rebuilt == 1
    assert [each.reason for each in told(fleet)] == ["Quarantined"]
    fleet.submit("other").settle()
    assert (fleet.running(), fleet.running("other"), fleet.rebuilt) == (["a"], ["a"], 1)
    fleet.workers["a"].patch(f"{JOBS}/job", metadata={"annotations": {"poison": None}})
    fleet.later(1.0)
    assert not fleet.quarantine
    fleet.workers["a"].end()
    assert fleet.settle().home.conditions()["Finished"] == "True"


def test_what_is_gone_is_in_quarantine_no_more(monkeypatch):
    monkeypatch.setattr(rules, "job_status", lambda home, clone, now: 1 // 0 if clone is not None else None)
    fleet = GuardedFleet({"a": 4}, worker_lost_timeout=LOST).submit().settle()
    assert fleet.quarantine
    fleet.home.delete(f"{JOBS}/job")
    fleet.settle()
    assert not fleet.quarantine
    assert fleet.workers["a"].names(JOBS) + fleet.workers["a"].names(WORKLOADS) == []


# objects of the same name that are not ours


def their_workload(name):
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [], "restartPolicy": "Never"}}}
    spec = {"queueName": "theirs", "podSets": [pods]}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": name}, "spec": spec}


def test_a_workload_of_that_name_which_is_not_ours_is_left_alone_and_said_once():
    fleet = Fleet({"a": 4}).cut("a").submit().settle()
    worker, name = fleet.workers["a"], fleet.home.workload()["metadata"]["name"]
    worker.create(WORKLOADS, their_workload(name))
    fleet.heal("a").later(300.0)
    text = f"worker cluster a has workloads.kueue.x-k8s.io/default/{name} already, which is not ours"
    assert [(each.reason, each.message) for each in told(fleet)] == [("DispatchFailed", text)]
    assert fleet.check() == ("Pending", text)
    assert len(sent(fleet, "a", Create)) <= 12, "with a back-off up to a minute"
    assert worker.workload()["spec"]["queueName"] == "theirs"
    worker.delete(f"{WORKLOADS}/{name}")
    assert fleet.later(60.0).running() == ["a"]
    assert fleet.check() == ("Ready", 'The workload was admitted on "a"')


def test_a_job_of_that_name_which_is_not_ours_is_left_alone_and_said_once():
    fleet = Fleet({"a": 4})
    theirs = job("job")
    del theirs["metadata"]["labels"]
    fleet.workers["a"].create(JOBS, theirs)
    fleet.submit().later(300.0)
    text = "worker cluster a has jobs.batch/default/job already, which is not ours"
    assert [(each.reason, each.message) for each in told(fleet)] == [("DispatchFailed", text)]
    assert fleet.check() == ("Ready", f'The workload was admitted on "a"; {text}')
    assert len(sent(fleet, "a", Create)) <= 14
    assert MULTIKUEUE_ORIGIN not in fleet.workers["a"].job()["metadata"].get("labels", {})
    fleet.workers["a"].delete(f"{JOBS}/job")
    assert MULTIKUEUE_ORIGIN in fleet.later(70.0).workers["a"].job()["metadata"]["labels"]
    assert fleet.check() == ("Ready", 'The workload was admitted on "a"')


def test_a_creation_whose_answer_was_lost_is_not_taken_for_somebody_elses():
    fleet = Fleet({"a": 4})
    fleet.fault = lambda cluster, write: "lost" if cluster and isinstance(write, Create) else ""
    fleet.submit().later(60.0)
    assert (fleet.running(), told(fleet)) == (["a"], [])


# clusters that change what is created there


def changed_by(fleet, cluster, **spec):
    """Somebody on that cluster changes every replica at once."""
    worker = fleet.workers[cluster]

    def change():
        for found in worker.list(WORKLOADS):
            here = {name: found["spec"].get(name) for name in spec}
            if MULTIKUEUE_ORIGIN in found["metadata"].get("labels", {}) and here != spec:
                worker.patch(f"{WORKLOADS}/{found['metadata']['name']}", spec=spec)

    fleet.watch = change
    return fleet


def test_a_cluster_that_changes_what_is_created_there_gets_it_ever_more_rarely():
    fleet = changed_by(Fleet({"a": 4}), "a", queueName="theirs").submit().later(600.0)
    text = "worker cluster a changes what is created there: spec.queueName"
    assert [(each.reason, each.message) for each in told(fleet)] == [("DispatchFailed", text)]
    assert fleet.check() == ("Pending", text)
    assert 8 <= len(sent(fleet, "a", Create)) <= 18
    fleet.watch = lambda: None
    assert fleet.later(130.0).running() == ["a"]


def test_others_get_it_meanwhile():
    fleet = changed_by(Fleet({"a": 4, "b": 4}), "a", queueName="theirs").submit().settle()
    assert fleet.running() == ["b"]


def test_a_workload_that_changes_at_home_is_created_anew_at_once():
    fleet = Fleet({"a": 1}).submit(cpu=2).settle()
    for seconds in range(5, 10):
        name = fleet.home.workload()["metadata"]["name"]
        fleet.home.patch(f"{WORKLOADS}/{name}", spec={"maximumExecutionTimeSeconds": seconds})
        fleet.settle()
        assert fleet.workers["a"].workload()["spec"]["maximumExecutionTimeSeconds"] == seconds
    assert told(fleet) == []


# what a cluster says


def test_what_a_cluster_says_at_great_length_can_be_said_at_home():
    fleet = Fleet({"a": 4}).submit().settle()
    found = fleet.workers["a"].workload()
    said = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "x" * 32_768}
    conditions = [*found["status"]["conditions"], {**said, "lastTransitionTime": "1970-01-12T13:46:40Z"}]
    fleet.workers["a"].patch(f"{WORKLOADS}/{found['metadata']['name']}/status", status={"conditions": conditions})
    fleet.later(5.0)
    written = [each.change for each in fleet.home.effects if isinstance(each, PatchStatus)]
    checks = [check for each in written if isinstance(each, QueuedWorkloadStatus) for check in each.checks]
    (said,) = [check for check in checks if check.state is CheckState.RETRY]
    assert len(said.message) < 1100, "a server may take 32,768 characters and no more"
    assert fleet.running() == ["a"]
