"""`headgate explain workload` on a cluster that Kueue wrote: the small Kubernetes, read over HTTP."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner
from kueue_scenes import KueueScene, owned
from scripted_server import Exchange, scripted, unused_port

from headgate.api.install_manifests import queue_definitions
from headgate.apiserver.kinds import INITIAL_OBJECTS
from headgate.apiserver.messages import Request
from headgate.apiserver.server import ApiServer
from headgate.simulator.clients import Kubectl
from headgate.ui.cli import main

NOW = 1_772_360_000.0
SCENE = KueueScene("team")


def explain(*arguments):
    return CliRunner().invoke(main, ["explain", "workload", *arguments])


class Served:
    """A small Kubernetes behind a socket; requests for paths that are not `allowed` are refused as RBAC would."""

    def __init__(self, definitions=True) -> None:
        kinds = queue_definitions() if definitions else ()
        self.server = ApiServer(objects=(*INITIAL_OBJECTS, *kinds))
        self.hand = Kubectl(self.server)
        self.allowed = lambda path: True
        self.asked = []

    def create(self, manifest):
        assert self.hand.create(manifest, NOW) is None
        metadata = manifest["metadata"]
        plural = f"{manifest['kind'].lower()}s"
        return self.get(
            f"/apis/{manifest['apiVersion']}/namespaces/{metadata.get('namespace')}/{plural}/{metadata['name']}"
        )

    def get(self, path):
        return self.server.handle(Request("GET", path), NOW).value

    async def __call__(self, exchange: Exchange) -> None:
        self.asked.append((exchange.method, exchange.path))
        if not self.allowed(exchange.path):
            message = f'{exchange.path.rpartition("/")[2]} is forbidden: User "kim" cannot list resource'
            exchange.reply(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": message})
            return
        answer = self.server.handle(Request(exchange.method, exchange.path, exchange.query), NOW)
        exchange.reply(answer.code, answer.value)


def as_kueue_left_it():
    served = Served()
    served.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    uids = {job["metadata"]["name"]: served.create(job)["metadata"]["uid"] for job in SCENE.jobs()}
    for manifest in SCENE.objects():
        served.create(owned(manifest, uids))
    return served


@asynccontextmanager
async def asking(served, folder, namespace="team"):
    """Runs the command against the cluster, from a kubeconfig whose context is for the namespace."""
    async with scripted(served) as server:
        document = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "namespace": namespace}}],
            "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}],
        }
        file = folder / "kubeconfig"
        file.write_text(json.dumps(document))
        yield lambda *arguments: asyncio.to_thread(explain, *arguments, "--kubeconfig", str(file))


async def test_a_waiting_job_is_explained_from_what_kueue_wrote(tmp_path):
    served = as_kueue_left_it()
    async with asking(served, tmp_path) as ask:
        result = await ask("job/wait")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[:3] == [
        "Workload team/job-wait: WaitingForQuota",
        "  LocalQueue user-a -> ClusterQueue team-a -> Cohort team-all, priority 50, 1 of 1 in the queue",
        "  job-wait needs 4 cpu of flavor team-flavor and 2 is free: Cohort team-all has 10 in total, 8 in use.",
    ]
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "team-flavor cpu total of Cohort team-all 10 8 2 4 2" in lines
    assert any(line.startswith("team/job-train 5 team-b 100 ") for line in lines)
    assert any(line.startswith("team/job-render 2 team-a 50 ") for line in lines), "one of its pods is done for good"
    assert not any("job-done" in line for line in lines), "what has finished holds nothing"
    assert lines[lines.index("Any one of these minimal changes would admit it:") + 1 :] == [
        "* raise nominalQuota of ClusterQueue team-a: cpu of flavor team-flavor by 2 (to 6)",
        "* run 1 instead of 2 pods of main (parallelism)",
        "* raise its priority from 50 to 51; preempts team/job-render",
        "* wait for, or end, team/job-render",
    ]
    assert {method for method, _ in served.asked} == {"GET"}, "it only reads"


async def test_json_has_amounts_as_quantities(tmp_path):
    async with asking(as_kueue_left_it(), tmp_path) as ask:
        told = json.loads((await ask("job-wait", "--output", "json")).stdout)
    assert (told["verdict"], told["clusterQueue"], told["cohorts"]) == ("WaitingForQuota", "team-a", ["team-all"])
    (short,) = told["flavors"][0]["shortages"]
    assert {name: short[name] for name in ("capacity", "used", "free", "requested", "missing")} == {
        "capacity": "10", "used": "8", "free": "2", "requested": "4", "missing": "2",
    }  # fmt: skip
    assert short["node"] == {"kind": "Cohort", "name": "team-all"}
    assert [(one["workload"], one["amount"]) for one in short["holders"]] == [
        ("team/job-train", "5"),
        ("team/job-render", "2"),
        ("team/job-checked", "1"),
    ]
    assert short["holders"][0]["since"] == "2026-03-01T09:00:00Z"
    assert told["remedies"][0]["change"] == {
        "kind": "RaiseQuota",
        "of": {"kind": "ClusterQueue", "name": "team-a"},
        "field": "nominalQuota",
        "amounts": [{"flavor": "team-flavor", "resource": "cpu", "by": "2", "to": "6"}],
    }


@pytest.mark.parametrize(
    "name, verdict",
    [
        pytest.param("job-train", "Admitted", id="what is admitted"),
        pytest.param("job-done", "Finished", id="what has finished"),
        pytest.param("job-checked", "WaitingForAdmissionChecks", id="what waits for a check"),
        pytest.param("wl/job-wait", "WaitingForQuota", id="by kind and name"),
        pytest.param("wait", "WaitingForQuota", id="by the name of its job alone"),
        pytest.param("jobs.batch/render", "Admitted", id="by its job, fully named"),
    ],
)
async def test_a_workload_is_found_and_its_verdict_comes_first(tmp_path, name, verdict):
    async with asking(as_kueue_left_it(), tmp_path) as ask:
        result = await ask(name)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].endswith(f": {verdict}")


async def test_what_has_nothing_to_do_with_amounts_is_told_as_to_be_done(tmp_path):
    async with asking(as_kueue_left_it(), tmp_path) as ask:
        lines = (await ask("job-checked")).stdout.splitlines()
    assert lines[-2:] == [
        "Required actions:",
        "  * the controller of admission check team-check must set it to Ready",
    ]


async def test_a_pod_leads_to_the_workload_of_its_job(tmp_path):
    served = as_kueue_left_it()
    uid = served.get("/apis/batch/v1/namespaces/team/jobs/render")["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "render", "uid": uid, "controller": True}
    spec = {"containers": [{"name": "c", "image": "registry.example/none"}], "nodeName": "n-1"}
    metadata = {"name": "render-0", "namespace": "team", "ownerReferences": [owner]}
    assert served.hand.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, NOW) is None
    async with asking(served, tmp_path) as ask:
        assert (await ask("pod/render-0")).stdout.startswith("Workload team/job-render: Admitted")


@pytest.mark.parametrize(
    "arguments, status, said",
    [
        pytest.param(["job-wat"], 1, "Workload team/job-wat not found; did you mean job-wait, ", id="a misspelling"),
        pytest.param(["job/wat"], 1, "Error: Job team/wat not found; did you mean ", id="a misspelt job"),
        pytest.param(["job-wait", "-n", "default"], 1,
                     "Error: Workload default/job-wait not found: no Workloads in namespace default; there is one in "
                     "namespace team", id="the wrong namespace"),
        pytest.param(["cronjob/x"], 2,
                     "pod/NAME, statefulset/NAME or deployment/NAME, got 'cronjob/x'",
                     id="a kind that has no workloads"),
        pytest.param(["job/"], 2, "Error: expected a name, got 'job/'", id="no name"),
        pytest.param(["x", "--at", "5s"], 2, "--at: expected --scenario FILE as well", id="a moment of nothing"),
        pytest.param(["x", "--context", "y"], 2, "expected a context named 'y'; there are: x", id="no such context"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_said_in_one_line(tmp_path, arguments, status, said):
    async with asking(as_kueue_left_it(), tmp_path) as ask:
        result = await ask(*arguments)
    assert (result.exit_code, result.stdout) == (status, "")
    assert said in result.stderr.splitlines()[-1]


async def test_without_the_right_to_see_workloads_the_right_is_named(tmp_path):
    served = as_kueue_left_it()
    served.allowed = lambda path: "workloads" not in path
    async with asking(served, tmp_path) as ask:
        result = await ask("job/wait")
    assert result.exit_code == 2
    assert result.stderr == (
        'Error: cannot read workloads.kueue.x-k8s.io: workloads is forbidden: User "kim" cannot list resource; '
        "expected the right to list workloads.kueue.x-k8s.io\n"
    )


PARTLY = "Limits and holders of quota are not shown: the rights to list"
MISSING = "in the whole cluster are missing (ClusterRole headgate-explain has them)"


@pytest.mark.parametrize(
    "allowed, note",
    [
        pytest.param(
            lambda path: "clusterqueues" not in path,
            f"{PARTLY} clusterqueues {MISSING}",
            id="without ClusterQueues",
        ),
        pytest.param(
            lambda path: "/namespaces/team" in path,
            f"{PARTLY} admissionchecks, clusterqueues, cohorts, resourceflavors, runtimeclasses, "
            f"workloadpriorityclasses, workloads {MISSING}",
            id="with rights for one namespace",
        ),
    ],
)
async def test_with_fewer_rights_the_status_of_the_workload_is_told(tmp_path, allowed, note):
    served = as_kueue_left_it()
    served.allowed = allowed
    async with asking(served, tmp_path) as ask:
        told = json.loads((await ask("job/wait", "-o", "json")).stdout)
        train = await ask("job-train")
    assert (told["verdict"], told["flavors"], told["remedies"]) == ("Pending", [], [])
    assert told["summary"].startswith("is pending; its status says: ")
    assert told["notes"] == [note]
    assert train.stdout.startswith("Workload team/job-train: Admitted"), "what its own status says needs no more"


async def test_with_rights_for_one_namespace_a_job_without_a_workload_is_explained(tmp_path):
    served = as_kueue_left_it()
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "registry.example/none"}]}}
    job = {"metadata": {"name": "alone", "namespace": "team"}, "spec": {"template": template}}
    served.create({"apiVersion": "batch/v1", "kind": "Job", **job})
    served.allowed = lambda path: "/namespaces/team" in path
    async with asking(served, tmp_path) as ask:
        result = await ask("job/alone")
    assert result.stdout.startswith("Job team/alone: NotManaged\n")
    assert "LocalQueues in namespace team: user-a, user-b" in result.stdout


async def test_a_cluster_without_queues_is_said_to_have_none(tmp_path):
    async with asking(Served(definitions=False), tmp_path) as ask:
        result = await ask("job/wait")
    assert result.exit_code == 2
    assert "does not serve Workloads of kueue.x-k8s.io/v1beta2; install them with `headgate install`" in result.stderr


async def test_a_server_that_is_not_there_is_named(tmp_path):
    file = tmp_path / "kubeconfig"
    server = f"http://127.0.0.1:{unused_port()}"
    cluster = {"name": "x", "cluster": {"server": server}}
    context = {"name": "x", "context": {"cluster": "x"}}
    file.write_text(json.dumps({"current-context": "x", "contexts": [context], "clusters": [cluster]}))
    result = await asyncio.to_thread(explain, "x", "--kubeconfig", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: API server {server}: ")


def test_without_any_cluster_it_says_where_one_is_looked_for(tmp_path, monkeypatch):
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    result = explain("x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "expected --kubeconfig FILE, KUBECONFIG, ~/.kube/config" in result.stderr


async def test_settings_are_read_from_the_configuration(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("resources: {excludeResourcePrefixes: [cpu]}")
    async with asking(as_kueue_left_it(), tmp_path) as ask:
        assert (await ask("job/wait", "--config", str(config))).stdout.startswith(
            "Workload team/job-wait: CouldBeAdmitted"
        )
        config.write_text("nobodyKnows: 1")
        wrong = await ask("job/wait", "--config", str(config))
    assert wrong.exit_code == 2
    assert "config.yaml: " in wrong.stderr
