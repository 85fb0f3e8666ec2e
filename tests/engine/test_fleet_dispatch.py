"""A workload runs on the first worker cluster that admits it; its job at home shows how it goes."""

import pytest
from fleet_scenes import CLUSTER_QUEUES, CLUSTERS, CONFIGS, JOBS, KUEUE, LOCAL_QUEUES, WORKLOADS, Fleet
from integration_scenes import GROUP, PODS, QUEUE, TOTAL, job, local_queue, member, pod, pod_spec

from headgate.model.effects import EmitEvent
from headgate.model.kueue_names import MULTIKUEUE, MULTIKUEUE_ORIGIN, PREBUILT_WORKLOAD
from headgate.model.settings import INCREMENTAL

NAMESPACES = "/api/v1/namespaces"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
READY = ("Ready", 'The workload was admitted on "a"')


def condition(found, type_="Active"):
    (shown,) = [each for each in found["status"]["conditions"] if each["type"] == type_]
    return shown["status"], shown["reason"]


def test_a_job_runs_on_one_cluster_and_its_status_is_shown_at_home():
    fleet = Fleet({"a": 4, "b": 4}).submit(parallelism=3).settle()
    assert (fleet.check(), fleet.running(), fleet.replicas()) == (READY, ["a"], ["a"])
    home = fleet.home.job()
    assert (home["status"]["active"], home["status"]["ready"]) == (3, 3)
    assert fleet.home.conditions()["Admitted"] == "True"
    assert fleet.home.workload()["status"]["clusterName"] == "a"
    assert "nominatedClusterNames" not in fleet.home.workload()["status"]
    assert fleet.home.names(PODS) == []


def test_the_clones_say_whose_they_are():
    worker = Fleet({"a": 4}).submit().settle().workers["a"]
    workload, clone = worker.workload(), worker.job()
    assert clone["metadata"]["labels"][MULTIKUEUE_ORIGIN] == workload["metadata"]["labels"][MULTIKUEUE_ORIGIN]
    assert clone["metadata"]["labels"][PREBUILT_WORKLOAD] == workload["metadata"]["name"]
    assert workload["spec"]["preemptionGates"] == [{"name": MULTIKUEUE}]
    assert workload["metadata"]["ownerReferences"][0]["uid"] == clone["metadata"]["uid"]
    assert "managedBy" not in clone["spec"]


@pytest.mark.parametrize("kind, reason", [("Complete", "Succeeded"), ("Failed", "Failed")])
def test_how_it_ends_is_shown_at_home_and_nothing_is_left_elsewhere(kind, reason):
    fleet = Fleet({"a": 4, "b": 4}).submit().settle()
    fleet.workers["a"].end(kind=kind)
    fleet.settle()
    assert kind in [each["type"] for each in fleet.home.job()["status"]["conditions"]]
    assert fleet.home.conditions()["Finished"] == "True"
    assert [each["reason"] for each in fleet.home.workload()["status"]["conditions"] if each["type"] == "Finished"] == [
        reason
    ]
    assert [cluster.names(JOBS) + cluster.names(WORKLOADS) for cluster in fleet.workers.values()] == [[], []]


def test_the_cluster_with_room_gets_it():
    fleet = Fleet({"a": 2, "b": 4}).submit(cpu=3).settle()
    assert (fleet.running(), fleet.replicas()) == (["b"], ["b"])


def test_a_workload_that_no_cluster_can_admit_says_so_at_home():
    fleet = Fleet({"a": 2, "b": 2}).submit(cpu=3).settle()
    state, message = fleet.check()
    assert state == "Pending"
    assert message == (
        "No worker cluster can admit it, not even by preemption: a (ExceedsMaxQuota), b (ExceedsMaxQuota)"
    )
    fleet.workers["b"].patch(
        f"{CLUSTER_QUEUES}/cq",
        spec={
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": 3}]}],
                }
            ]
        },
    )
    assert fleet.later(2.0).running() == ["b"]


def test_a_job_that_is_deleted_at_home_is_deleted_everywhere():
    fleet = Fleet({"a": 4, "b": 4}).submit().settle()
    fleet.home.delete(f"{JOBS}/job")
    fleet.settle()
    assert [cluster.names(JOBS) + cluster.names(WORKLOADS) for cluster in fleet.workers.values()] == [[], []]
    assert fleet.home.names(WORKLOADS) == []


@pytest.mark.parametrize(
    "made, message",
    [
        pytest.param(
            job("job"),
            f'The owner is not managed by Kueue: Expecting spec.managedBy to be "{MULTIKUEUE}" not ""',
            id="a Job that its own controller would run here",
        ),
    ],
)
def test_what_can_never_run_elsewhere_is_rejected(made, message):
    fleet = Fleet({"a": 4})
    fleet.home.create(JOBS, made)
    fleet.settle()
    conditions = fleet.home.workload()["status"]["conditions"]
    assert message in "".join(each["message"] for each in conditions)
    assert fleet.home.workload()["spec"]["active"] is False
    assert fleet.replicas() == []


@pytest.mark.parametrize(
    "annotations, message",
    [
        pytest.param({}, "No multikueue adapter found", id="nobody owns it"),
        pytest.param(
            {"kueue.x-k8s.io/job-owner-gvk": "example.com/v1, Kind=Set"},
            "No multikueue adapter found for example.com/v1, Kind=Set",
            id="a kind that we do not know",
        ),
    ],
)
def test_a_workload_without_a_job_is_rejected(annotations, message):
    fleet = Fleet({"a": 4})
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [], "restartPolicy": "Never"}}}
    fleet.home.create(
        WORKLOADS,
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": "alone-job-1", "annotations": annotations},
            "spec": {"queueName": "lq", "podSets": [pods]},
        },
    )
    fleet.settle()
    assert fleet.home.workload()["spec"]["active"] is False
    assert message in str(fleet.home.workload()["status"]["conditions"])


def test_a_cluster_that_does_not_take_it_is_named_and_tried_again():
    fleet = Fleet({"a": 4, "b": 1})
    fleet.home.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    fleet.home.create(LOCAL_QUEUES.replace("default", "team"), local_queue())
    manifest = job("job", managedBy=MULTIKUEUE)
    fleet.home.create(JOBS.replace("default", "team"), manifest)
    fleet.later(10.0)
    told = [each for each in fleet.home.effects if isinstance(each, EmitEvent) and each.reason == "DispatchFailed"]
    assert [each.message for each in told] == [
        'worker cluster a does not take it: namespaces "team" not found',
        'worker cluster b does not take it: namespaces "team" not found',
    ]
    worker = fleet.workers["a"]
    worker.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    worker.create(LOCAL_QUEUES.replace("default", "team"), local_queue())
    fleet.later(70.0)
    assert worker.names(JOBS.replace("default", "team")) == ["job"]


# rounds


def test_the_incremental_dispatcher_adds_clusters_round_by_round_also_across_a_restart():
    fleet = Fleet({"a": 1, "b": 1, "c": 4}, dispatcher=INCREMENTAL, step_size=1).submit(cpu=2).settle()
    assert fleet.replicas() == ["a"]
    assert fleet.later(200.0).replicas() == ["a"]
    assert fleet.restart().later(99.0).replicas() == ["a"]
    assert fleet.later(2.0).replicas() == ["a", "b"]
    assert fleet.home.workload()["status"]["nominatedClusterNames"] == ["a", "b"]
    assert fleet.later(301.0).running() == ["c"]


def test_another_controller_nominates():
    fleet = Fleet({"a": 4, "b": 4}, dispatcher="example.com/mine").submit().settle()
    assert fleet.replicas() == []
    name = fleet.home.workload()["metadata"]["name"]
    fleet.home.patch(f"{WORKLOADS}/{name}/status", status={"nominatedClusterNames": ["b"]})
    assert fleet.settle().running() == ["b"]


def test_it_waits_for_the_other_checks_of_its_queue():
    fleet = Fleet({"a": 4})
    other = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "other"}}
    fleet.home.create(f"{KUEUE}/admissionchecks", {**other, "spec": {"controllerName": "example.com/other"}})
    active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    conditions = [{**active, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    fleet.home.patch(f"{KUEUE}/admissionchecks/other/status", status={"conditions": conditions})
    checks = {"admissionChecks": [{"name": "fleet"}, {"name": "other"}]}
    fleet.home.patch(f"{CLUSTER_QUEUES}/cq", spec={"admissionChecksStrategy": checks})
    fleet.submit().settle()
    assert fleet.replicas() == []
    found = fleet.home.workload()
    states = [
        {**each, "state": "Ready"} if each["name"] == "other" else each for each in found["status"]["admissionChecks"]
    ]
    fleet.home.patch(f"{WORKLOADS}/{found['metadata']['name']}/status", status={"admissionChecks": states})
    assert fleet.settle().running() == ["a"]


# evictions on either side, and drift


def test_an_eviction_at_home_stops_it_elsewhere_before_its_quota_is_given_back():
    fleet = Fleet({"a": 4, "b": 4}).submit().settle()
    fleet.home.patch(f"{CLUSTER_QUEUES}/cq", spec={"stopPolicy": "HoldAndDrain"})
    seen = []
    fleet.watch = lambda: seen.append((fleet.home.conditions().get("QuotaReserved"), fleet.running()))
    fleet.settle()
    assert all(not running for reserved, running in seen if reserved == "False")
    assert (fleet.running(), fleet.replicas(), fleet.home.conditions()["QuotaReserved"]) == ([], [], "False")
    assert fleet.home.job()["spec"]["suspend"] is True
    assert not fleet.home.job()["status"]["active"]
    fleet.home.patch(f"{CLUSTER_QUEUES}/cq", spec={"stopPolicy": "None"})
    assert fleet.later(5.0).running() == ["a"]


def test_an_eviction_on_the_worker_has_it_dispatched_anew():
    fleet = Fleet({"a": 4, "b": 4}).submit().settle()
    fleet.workers["a"].patch(f"{CLUSTER_QUEUES}/cq", spec={"stopPolicy": "HoldAndDrain"})
    assert fleet.later(5.0).running() == ["b"]
    assert fleet.check() == ("Ready", 'The workload was admitted on "b"')
    assert fleet.replicas() == ["b"]


@pytest.mark.parametrize("kind", ["the Workload", "the Job, and the Workload with it"])
def test_a_replica_that_somebody_deleted_has_it_dispatched_anew(kind):
    fleet = Fleet({"a": 4, "b": 4}).submit().settle()
    worker = fleet.workers["a"]
    worker.delete(f"{WORKLOADS}/{worker.names(WORKLOADS)[0]}" if kind == "the Workload" else f"{JOBS}/job")
    fleet.later(5.0)
    assert (len(fleet.running()), fleet.check()[0]) == (1, "Ready")
    assert fleet.home.workload()["status"]["schedulingStats"]["evictions"][0]["reason"] == "AdmissionCheck"


def test_a_priority_that_changes_at_home_is_changed_elsewhere():
    fleet = Fleet({"a": 1}).submit(cpu=2).settle()
    name = fleet.home.workload()["metadata"]["name"]
    fleet.home.patch(f"{WORKLOADS}/{name}", spec={"priority": 7})
    fleet.settle()
    assert fleet.workers["a"].workload()["spec"]["priority"] == 7


def test_a_replica_that_somebody_changed_is_created_anew():
    fleet = Fleet({"a": 1}).submit(cpu=2).settle()
    before = fleet.workers["a"].workload()["metadata"]
    fleet.workers["a"].patch(f"{WORKLOADS}/{before['name']}", spec={"queueName": "other"})
    fleet.settle()
    after = fleet.workers["a"].workload()
    assert (after["spec"]["queueName"], after["metadata"]["uid"] != before["uid"]) == ("lq", True)


# pods


@pytest.mark.parametrize("group", [False, True])
def test_pods_run_elsewhere_and_stay_gated_at_home(group):
    fleet = Fleet({"a": 4, "b": 4})
    names = ["x", "y"] if group else ["x"]
    for name in names:
        fleet.home.create(PODS, member(name) if group else pod(name))
    fleet.settle()
    worker = fleet.workers["a"]
    assert worker.names(PODS) == names
    assert all(not found["spec"].get("schedulingGates") for found in worker.list(PODS))
    assert all(found["spec"]["schedulingGates"] for found in fleet.home.list(PODS))
    ready = [{"type": "Ready", "status": "True"}]
    for name in names:
        worker.patch(f"{PODS}/{name}/status", status={"phase": "Running", "conditions": ready})
    fleet.settle()
    assert [found["status"]["phase"] for found in fleet.home.list(PODS)] == ["Running"] * len(names)
    assert all(found["spec"]["schedulingGates"] for found in fleet.home.list(PODS))
    for name in names:
        worker.patch(f"{PODS}/{name}/status", status={"phase": "Succeeded"})
    fleet.settle()
    assert [found["status"]["phase"] for found in fleet.home.list(PODS)] == ["Succeeded"] * len(names)
    assert [cluster.names(PODS) + cluster.names(WORKLOADS) for cluster in fleet.workers.values()] == [[], []]


def test_a_pod_of_a_group_that_is_replaced_at_home_is_replaced_elsewhere():
    fleet = Fleet({"a": 4})
    for name in "xy":
        fleet.home.create(PODS, member(name))
    fleet.settle()
    fleet.home.delete(f"{PODS}/x")
    fleet.settle()
    assert fleet.workers["a"].names(PODS) == ["y"]
    fleet.home.create(PODS, member("z"))
    assert fleet.later(5.0).workers["a"].names(PODS) == ["y", "z"]


# a queue that dispatches no more


def without_check(fleet):
    fleet.home.patch(f"{CLUSTER_QUEUES}/cq", spec={"admissionChecksStrategy": None})
    return fleet.settle()


def test_what_runs_elsewhere_goes_on_there_when_its_queue_drops_the_check():
    fleet = without_check(Fleet({"a": 4, "b": 4}).submit().settle()).later(1000.0)
    assert (fleet.running(), fleet.home.workload()["status"]["clusterName"]) == (["a"], "a")
    fleet.restart().later(100.0)
    assert fleet.running() == ["a"]
    fleet.workers["a"].end()
    fleet.settle()
    assert fleet.home.conditions()["Finished"] == "True"
    assert fleet.workers["a"].names(JOBS) + fleet.workers["a"].names(WORKLOADS) == []


@pytest.mark.parametrize("fault", ["", "before", "after"])
def test_evicted_then_it_stops_there_before_its_quota_is_given_back(fault):
    fleet = without_check(Fleet({"a": 4, "b": 4}).submit().settle())
    seen, faults = [], iter([fault] * 3)
    fleet.fault = lambda cluster, write: next(faults, "")
    fleet.watch = lambda: seen.append((fleet.running(), fleet.home.conditions()["QuotaReserved"]))
    fleet.home.patch(f"{CLUSTER_QUEUES}/cq", spec={"stopPolicy": "HoldAndDrain"})
    fleet.later(120.0)
    assert (["a"], "True") in seen
    assert (["a"], "False") not in seen
    assert fleet.home.conditions()["QuotaReserved"] == "False"
    assert fleet.home.job()["status"].get("active", 0) == 0
    assert fleet.workers["a"].names(JOBS) + fleet.workers["a"].names(WORKLOADS) == []


def test_a_worker_that_is_lost_then_is_waited_for_as_before():
    fleet = without_check(Fleet({"a": 4, "b": 4}, worker_lost_timeout=100.0).submit().settle()).cut("a")
    fleet.later(90.0)
    assert "Evicted" not in fleet.home.conditions()
    fleet.later(20.0)
    assert "Evicted" in fleet.home.conditions()
    assert "clusterName" not in fleet.home.workload()["status"]
    assert fleet.heal("a").later(70.0).running() == []


def test_a_queue_with_another_check_keeps_what_runs_where_it_is():
    fleet = Fleet({"a": 4, "b": 4}).submit().settle()
    other = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "other"}
    fleet.home.create(CONFIGS, _made("MultiKueueConfig", "other", {"clusters": ["b"]}))
    check = {"controllerName": MULTIKUEUE, "parameters": other}
    fleet.home.create(f"{KUEUE}/admissionchecks", _made("AdmissionCheck", "other", check))
    fleet.settle()
    strategy = {"admissionChecks": [{"name": "other"}]}
    fleet.home.patch(f"{CLUSTER_QUEUES}/cq", spec={"admissionChecksStrategy": strategy})
    fleet.later(1000.0)
    assert (fleet.running(), fleet.replicas(), fleet.check()) == (["a"], ["a"], READY)


def _made(kind, name, spec):
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("group", [False, True])
def test_pods_that_were_evicted_and_are_deleted_at_home_leave_nothing_behind(group):
    fleet = Fleet({"a": 4})
    names = ["x", "y"] if group else ["x"]
    for name in names:
        fleet.home.create(PODS, member(name) if group else pod(name))
    fleet.settle()
    fleet.home.patch(f"{CLUSTER_QUEUES}/cq", spec={"stopPolicy": "HoldAndDrain"})
    fleet.settle()
    assert fleet.workers["a"].names(PODS) == []
    assert fleet.home.names(PODS) == names
    for name in names:
        fleet.home.delete(f"{PODS}/{name}")
    fleet.later(5.0)
    assert fleet.home.names(PODS) + fleet.home.names(WORKLOADS) == []


def stateful_set(name="web", **labels):
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec()}
    spec = {"replicas": 1, "serviceName": name, "selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "labels": {QUEUE: "lq", **labels}}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


def pod_of(found, group):
    """As the controller of StatefulSets and our webhook make it."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": found["metadata"]["uid"]}
    serving = {"kueue.x-k8s.io/pod-group-serving": "true", "kueue.x-k8s.io/pod-group-fast-admission": "true"}
    annotations = {GROUP: group, TOTAL: "1", "kueue.x-k8s.io/role-hash": "main", **serving}
    labels = found["spec"]["template"]["metadata"]["labels"]
    made = pod("web-0", labels=labels, annotations=annotations, finalizers=[])
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [{**owner, "controller": True}]}}


def test_a_stateful_set_runs_elsewhere_and_its_pods_at_home_show_it():
    fleet = Fleet({"a": 4, "b": 4})
    home = fleet.home.create(SETS, stateful_set())
    fleet.settle()
    (group,) = fleet.home.names(WORKLOADS)
    fleet.home.create(PODS, pod_of(home, group))
    fleet.settle()
    worker = fleet.workers["a"]
    (clone,) = worker.list(SETS)
    assert (worker.names(WORKLOADS), worker.names(PODS)) == ([group], [])
    assert clone["metadata"]["labels"][PREBUILT_WORKLOAD] == group
    worker.create(PODS, pod_of(clone, group))
    fleet.settle()
    assert not worker.list(PODS)[0]["spec"].get("schedulingGates")
    ready = [{"type": "Ready", "status": "True"}]
    worker.patch(f"{PODS}/web-0/status", status={"phase": "Running", "conditions": ready})
    fleet.settle()
    (shown,) = fleet.home.list(PODS)
    assert (shown["status"]["phase"], bool(shown["spec"]["schedulingGates"])) == ("Running", True)
    assert fleet.workers["b"].names(SETS) + fleet.workers["b"].names(WORKLOADS) == []
    fleet.home.delete(f"{SETS}/web")
    fleet.settle()
    assert worker.names(SETS) + worker.names(WORKLOADS) == []


# clusters and checks


def test_clusters_and_checks_show_who_is_connected():
    fleet = Fleet({"a": 4, "b": 4}).settle()
    assert [condition(found) for found in fleet.home.list(CLUSTERS)] == [("True", "Active")] * 2
    (check,) = fleet.home.list(f"{KUEUE}/admissionchecks")
    assert condition(check) == ("True", "Active")
    fleet.cut("b").settle()
    (check,) = fleet.home.list(f"{KUEUE}/admissionchecks")
    assert condition(check) == ("True", "SomeActiveClusters")
    assert condition(fleet.home.list(CLUSTERS)[1]) == ("False", "ClientConnectionFailed")
    fleet.cut("a").settle()
    (check,) = fleet.home.list(f"{KUEUE}/admissionchecks")
    assert condition(check) == ("False", "NoUsableClusters")
    fleet.heal("a").heal("b").settle()
    (check,) = fleet.home.list(f"{KUEUE}/admissionchecks")
    assert condition(check) == ("True", "Active")


def test_a_check_without_its_config_is_inactive_until_there_is_one():
    fleet = Fleet({"a": 4})
    config = fleet.home.list(CONFIGS)[0]
    fleet.home.delete(f"{CONFIGS}/all")
    fleet.settle()
    (check,) = fleet.home.list(f"{KUEUE}/admissionchecks")
    assert condition(check) == ("False", "BadConfig")
    spec = {"apiVersion": config["apiVersion"], "kind": config["kind"], "metadata": {"name": "all"}}
    fleet.home.create(CONFIGS, {**spec, "spec": config["spec"]})
    fleet.settle()
    (check,) = fleet.home.list(f"{KUEUE}/admissionchecks")
    assert condition(check) == ("True", "Active")
    assert fleet.submit().settle().running() == ["a"]
