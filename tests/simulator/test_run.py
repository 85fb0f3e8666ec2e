"""Whole runs: what a timeline does to a cluster and to our process."""

from __future__ import annotations

import json

import pytest
from small_scenarios import decisions, found, job, nodes, pod, scenario, where

from headgate.simulator.faults import Faults
from headgate.simulator.scenario import InvalidScenario
from headgate.simulator.virtual_time import NeverSettles, run

DELETE_A = {"delete": {"kind": "Pod", "namespace": "default", "name": "a"}}
B_COMES_A_GOES = [{"at": "2s", "apply": [pod("b")]}, {"at": "3s", **DELETE_A}]


def test_a_pod_is_bound_runs_and_ends():
    report = run(scenario(pod("a", run="30")))
    assert (where(report, "a"), found(report, "Pod", "a")["status"]["phase"]) == ("n-0", "Succeeded")
    assert report.until == 30
    assert report.summary["pods"] == {"created": 1, "bound": 1, "succeeded": 1, "failed": 0, "pending": 0}
    assert report.summary["waitingSeconds"] == {"min": 0, "median": 0, "max": 0}


def test_nodes_are_completed():
    node = found(run(scenario(machines=[nodes(labels={"zone": "a"})])), "Node", "n-0")
    assert node["metadata"]["labels"] == {"kubernetes.io/hostname": "n-0", "zone": "a"}
    assert node["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "110"}
    assert node["status"]["conditions"][0]["type"] == "Ready"


def test_a_node_manifest_keeps_its_own_status():
    sick = [{"type": "Ready", "status": "False"}]
    status = {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "1"}, "conditions": sick}
    manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "sick"}, "status": status}
    node = found(run(scenario(manifest, machines=[])), "Node", "sick")
    assert node["status"]["conditions"] == sick
    assert node["status"]["allocatable"] == {"cpu": "1", "pods": "110"}


@pytest.mark.parametrize(
    "steps, a_is_on, at",
    [
        pytest.param([{"at": "5s", "apply": [pod("a")]}], "n-0", 5, id="applied, it is placed"),
        pytest.param(
            [{"at": "1s", "apply": [pod("a", cpu="9")]}, {"at": "9s", "addNodes": [nodes(1, "10", "big")]}],
            "big",
            9,
            id="a node that joins wakes it",
        ),
        pytest.param(
            [
                {"at": "0s", "apply": [pod("full", cpu="4")]},
                {"at": "1s", "apply": [pod("a")]},
                {"at": "7s", "delete": {"kind": "Pod", "namespace": "default", "name": "full"}},
            ],
            "n-0",
            7,
            id="room that becomes free wakes it",
        ),
        pytest.param(
            [
                {"at": "1s", "apply": [pod("a", schedulingGates=[{"name": "g"}])]},
                {"at": "3s", "patch": {"kind": "Pod", "name": "a", "merge": {"spec": {"schedulingGates": []}}}},
            ],
            "n-0",
            3,
            id="its owner opens its gate",
        ),
        pytest.param(
            [{"at": "1s", "crash": "10s"}, {"at": "2s", "apply": [pod("a")]}],
            "n-0",
            11,
            id="our process is down and finds it when it is back",
        ),
        pytest.param(
            [{"at": "1s", "disconnect": "10s"}, {"at": "2s", "apply": [pod("a")]}],
            "n-0",
            11,
            id="the cluster is out of reach and then back",
        ),
        pytest.param(
            [{"at": "1s", "stale": "5s"}, {"at": "2s", "apply": [pod("a")]}],
            "n-0",
            7,
            id="it is seen five seconds late",
        ),
        pytest.param(
            [{"at": "1s", "stale": "5s"}, {"at": "2s", "apply": [pod("a")]}, {"at": "4s", "stale": "0s"}],
            "n-0",
            4,
            id="the lag ends and all that was late is seen",
        ),
        pytest.param(
            [{"at": "1s", "crash": "10s"}, {"at": "5s", "crash": "2s"}, {"at": "2s", "apply": [pod("a")]}],
            "n-0",
            7,
            id="a later crash sets a new restart",
        ),
    ],
)
def test_a_timeline(steps, a_is_on, at):
    report = run(scenario(timeline=steps))
    assert where(report, "a") == a_is_on
    assert decisions(report, "a")[-1] == (at, "bind")
    assert report.refused == []


def test_a_job_replaces_what_a_lost_node_took_with_it():
    drops = [{"at": "4s", "dropNode": "n-0"}, {"at": "5s", "dropNode": "n-1"}]
    steps = [*drops, {"at": "9s", "addNodes": [nodes(1, name="new")]}]
    report = run(scenario(job("j"), machines=[nodes(2)], timeline=steps))
    assert found(report, "Job", "j")["status"]["succeeded"] == 1
    assert [value["spec"]["nodeName"] for value in report.final["main"] if value["kind"] == "Pod"] == ["new"]


def test_a_deleted_pod_takes_its_stop_seconds_and_its_room_until_then():
    report = run(scenario(pod("a", cpu="4", stop="6"), timeline=B_COMES_A_GOES))
    assert found(report, "Pod", "a") is None
    assert decisions(report, "b")[-1] == (9, "bind")


def test_a_pod_stuck_terminating_holds_its_room():
    stuck = Faults(stuck=frozenset({"default/a"}))
    report = run(scenario(pod("a", cpu="4"), timeline=B_COMES_A_GOES), faults=stuck)
    assert "deletionTimestamp" in found(report, "Pod", "a")["metadata"]
    assert where(report, "b") is None
    assert report.summary["pods"]["pending"] == 1


def test_apply_updates_what_exists_and_status_is_written_as_a_controller_would():
    labelled = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-0", "labels": {"zone": "b"}}}
    shrunk = labelled | {"status": {"allocatable": {"cpu": "1", "pods": "110"}}}
    report = run(scenario(timeline=[{"at": "1s", "apply": [shrunk]}, {"at": "2s", "apply": [pod("a", cpu="2")]}]))
    assert found(report, "Node", "n-0")["metadata"]["labels"] == {"kubernetes.io/hostname": "n-0", "zone": "b"}
    assert where(report, "a") is None


@pytest.mark.parametrize(
    "step, refused",
    [
        pytest.param(DELETE_A, ("delete", "Pod", "a", 404, "NotFound"), id="deleting what is not there"),
        pytest.param({"dropNode": "n-9"}, ("delete", "Node", "n-9", 404, "NotFound"), id="dropping no node"),
        pytest.param(
            {"apply": [pod("a") | {"spec": {"containers": []}}]},
            ("create", "Pod", "a", 422, "Invalid"),
            id="a pod without containers",
        ),
        pytest.param(
            {"patch": {"kind": "Gadget", "name": "g", "merge": {}}},
            ("patch", "Gadget", "g", 404, "NotFound"),
            id="a kind that is not served",
        ),
    ],
)
def test_a_refused_request_is_recorded_and_the_run_goes_on(step, refused):
    report = run(scenario(timeline=[{"at": "1s", **step}, {"at": "2s", "apply": [pod("b")]}]))
    (entry,) = report.refused
    about = entry["object"]
    assert (entry["verb"], about["kind"], about["name"], entry["code"], entry["reason"]) == refused
    assert (entry["at"], entry["cluster"]) == (1, "main")
    assert entry["message"]
    assert where(report, "b") == "n-0"


def test_a_refused_object_makes_the_input_wrong():
    with pytest.raises(InvalidScenario, match=r"clusters\[0\].objects\[0\]: refused with 422 Invalid: .*containers"):
        run(scenario(pod("a") | {"spec": {"containers": []}}))


def test_an_ambiguous_kind_names_the_groups_that_serve_it():
    step = {"delete": {"kind": "Event", "namespace": "default", "name": "e"}}
    with pytest.raises(InvalidScenario, match=r'"Event" is served in events.k8s.io/v1 and in v1'):
        run(scenario(timeline=[{"at": "1s", **step}]))


def test_snapshots_show_an_instant_when_all_of_it_has_happened():
    report = run(scenario(snapshots=["4s", "5s"], timeline=[{"at": "5s", "apply": [pod("a")]}], until="6s"))
    seen = [
        [o["spec"].get("nodeName") for o in shot.objects["main"] if o["kind"] == "Pod"] for shot in report.snapshots
    ]
    assert [shot.at for shot in report.snapshots] == [4, 5]
    assert seen == [[], ["n-0"]]


def test_expectations_that_do_not_hold_are_named_with_what_was_found():
    def expect(at, name, matches):
        return {"at": at, "object": {"kind": "Pod", "namespace": "default", "name": name}, "matches": matches}

    expectations = [
        expect("1s", "a", {"spec": {"nodeName": "n-0"}}),
        expect("1s", "a", {"spec": {"nodeName": "n-7"}}),
        expect("2s", "b", {"spec": {}}),
        expect("2s", "b", {}),
    ]
    report = run(scenario(pod("a"), expect=expectations, until="3s"))
    assert [str(failure) for failure in report.failures] == [
        'expect[1]: at 1s Pod default/a: spec.nodeName: expected "n-7", found "n-0"',
        "expect[2]: at 2s Pod default/b: not found",
    ]


def clusters(**fields_of):
    return [
        {"name": name, "nodes": [nodes()], "objects": [pod(f"in-{name}")], **fields}
        for name, fields in fields_of.items()
    ]


def test_clusters_are_apart():
    report = run(scenario(clusters=clusters(west={}, east={})))
    assert list(report.final) == ["west", "east"]
    assert found(report, "Pod", "in-east", "east") and not found(report, "Pod", "in-east", "west")
    assert {entry["cluster"] for entry in report.journal} == {"west", "east"}


def test_of_several_clusters_one_that_is_cut_off_goes_on_inside():
    steps = [
        {"at": "1s", "cluster": "east", "disconnect": "5s"},
        {"at": "2s", "cluster": "east", "apply": [pod("late")]},
    ]
    report = run(scenario(clusters=clusters(west={}, east={}), timeline=steps))
    assert decisions(report, "late") == [(2, "bind")]


def test_a_crash_without_a_cluster_is_one_of_every_process_and_with_one_of_that_process():
    def late(*steps):
        pods = [{"at": "2s", "cluster": name, "apply": [pod(f"late-in-{name}")]} for name in ("west", "east")]
        report = run(scenario(clusters=clusters(west={}, east={}), timeline=[*steps, *pods]))
        return [decisions(report, f"late-in-{name}")[-1] for name in ("west", "east")]

    assert late({"at": "1s", "crash": "10s"}) == [(11, "bind"), (11, "bind")]
    assert late({"at": "1s", "cluster": "east", "crash": "10s"}) == [(2, "bind"), (11, "bind")]


def test_a_process_has_the_roles_of_its_cluster():
    report = run(scenario(clusters=clusters(west={"roles": ["quota", "integrations"]}, east={}, south={"roles": []})))
    assert [name for name in ("west", "east", "south") if placed(report, name)] == ["east"]


def test_a_process_has_the_configuration_of_its_cluster_instead_of_the_common_one():
    common = {"scheduler": {"profiles": [{"schedulerName": "another"}]}}
    report = run(scenario(config=common, clusters=clusters(west={}, east={"config": {}})))
    assert [name for name in ("west", "east") if placed(report, name)] == ["east"]


def placed(report, cluster):
    return found(report, "Pod", f"in-{cluster}", cluster)["spec"].get("nodeName")


def test_json_has_the_promised_shape():
    report = json.loads(run(scenario(pod("a"), snapshots=["1s"], until="2s")).to_json())
    assert list(report) == ["until", "snapshots", "final", "journal", "refused", "summary"]
    objects = report["final"]["clusters"]["main"]["objects"]
    places = [(o["apiVersion"], o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]) for o in objects]
    assert places == sorted(places)
    assert report["snapshots"][0]["at"] == 1
    entry = report["journal"][0]
    assert entry["object"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "a"}
    assert {"at", "cluster", "decision", "reason", "message"} <= entry.keys()


def test_a_run_that_never_settles_ends_with_an_error(monkeypatch):
    monkeypatch.setattr("headgate.simulator.virtual_time.LONGEST", 50.0)
    with pytest.raises(NeverSettles, match="give `until` a duration"):
        run(scenario(pod("a", run="60")))


@pytest.mark.parametrize("seed", range(6))
def test_faults_of_every_kind_lose_nothing(seed):
    faults = Faults(crash=0.05, lost=0.1, conflict=0.1, coalesced=0.3, dropped=0.2, stale=1.5)
    objects = [job("j", parallelism=6, completions=12), *(pod(f"p-{n}", cpu="2", run="7") for n in range(5))]
    report = run(scenario(*objects, machines=[nodes(2)], timeline=[{"at": "8s", "crash": "3s"}]), seed, faults)
    assert report.summary["pods"] == {"created": 17, "bound": 17, "succeeded": 17, "failed": 0, "pending": 0}


def test_applying_again_changes_what_the_manifest_changed_and_nothing_else():
    before, after = pod("a"), pod("a")
    before["metadata"]["labels"], after["metadata"]["labels"] = {"old": "1", "kept": "1"}, {"kept": "1", "new": "1"}
    report = run(scenario(before, timeline=[{"at": "1s", "apply": [before]}, {"at": "2s", "apply": [after]}]))
    assert report.refused == []
    assert found(report, "Pod", "a")["metadata"]["labels"] == {"kept": "1", "new": "1"}
    assert where(report, "a") == "n-0"


def test_deleting_a_job_takes_its_pods_along():
    step = {"at": "3s", "delete": {"kind": "Job", "namespace": "default", "name": "j"}}
    report = run(scenario(job("j", parallelism=3, completions=3), timeline=[step]))
    assert [value for value in report.final["main"] if value["kind"] in ("Job", "Pod")] == []
    assert report.until == 3


def test_suspending_a_job_and_resuming_it():
    def suspend(at, suspended):
        change = {"kind": "Job", "namespace": "default", "name": "j", "merge": {"spec": {"suspend": suspended}}}
        return {"at": at, "patch": change}

    steps = [suspend("3s", True), suspend("20s", False)]
    report = run(scenario(job("j", parallelism=2, completions=2), timeline=steps, snapshots=["10s"]))
    assert report.refused == []
    (held,) = [value for value in report.snapshots[0].objects["main"] if value["kind"] == "Job"]
    assert [c["type"] for c in held["status"]["conditions"] if c["status"] == "True"] == ["Suspended"]
    assert "startTime" not in held["status"]
    assert not [value for value in report.snapshots[0].objects["main"] if value["kind"] == "Pod"]
    assert (found(report, "Job", "j")["status"]["succeeded"], report.until) == (2, 30)
