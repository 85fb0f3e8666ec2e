"""Clusters on this machine: API servers, the rest of a cluster and Headgate together, for a moment each."""

from __future__ import annotations

import asyncio
import contextlib
import re
import stat
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from headgate.api.requests import JSON, Call
from headgate.apiserver.authorization import AuthorizationMode
from headgate.live.client import Client
from headgate.live.kubeconfig import find_access
from headgate.local.up import UpPlan, run_clusters
from headgate.simulator import InvalidScenario, load_scenario, parse_scenario
from headgate.ui.cli import main
from headgate.ui.up_command import scenario_of

PATIENCE = 60.0  # seconds
AT_ONCE = 20.0  # seconds; on an idle machine less than one
FAST = 50.0
TEMPLATE = {
    "metadata": {"annotations": {"headgate.dev/run-seconds": "30"}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
    },
}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "report", "namespace": "default"},
    "spec": {"parallelism": 2, "completions": 4, "template": TEMPLATE},
}
EXAMPLE = Path(__file__).parents[2] / "examples" / "20-up"
NODES = [{"name": "n-%d", "count": 2, "capacity": {"cpu": "1"}}]


class Onlooker:
    """Keeps what is written and shown."""

    def __init__(self) -> None:
        self.text, self.shown, self.is_ready = "", [], asyncio.Event()

    def ready(self, kubeconfig: Path, clusters: Sequence[str]) -> None:
        self.clusters = list(clusters)
        self.is_ready.set()

    def write(self, text: str, /) -> None:
        self.text += text

    def flush(self) -> None:
        pass

    def show(self, lines: Sequence[str]) -> None:
        self.shown = list(lines)

    def close(self) -> None:
        pass


def planned(tmp_path: Path, text: str, **fields: object) -> UpPlan:
    scenario = parse_scenario(text, "scenario.yaml")
    return UpPlan(scenario=scenario, kubeconfig=tmp_path / "kubeconfig", speed=FAST, **fields)


def scenario(objects: Sequence[object] = (), **fields: object) -> str:
    return yaml.safe_dump({"kind": "Scenario", "clusters": [{"nodes": NODES, "objects": list(objects)}], **fields})


@contextlib.asynccontextmanager
async def running(plan: UpPlan) -> AsyncIterator[Onlooker]:
    view, stop = Onlooker(), asyncio.Event()
    task = asyncio.ensure_future(run_clusters(plan, view, stop))
    ready = asyncio.ensure_future(view.is_ready.wait())
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    yield view
    stop.set()
    await task


async def test_a_job_is_scheduled_and_runs_to_its_end(tmp_path):
    plan = planned(tmp_path, scenario([JOB], until="settled"), ends_when_idle=True)
    view = Onlooker()
    async with asyncio.timeout(PATIENCE):
        await run_clusters(plan, view, asyncio.Event())
    assert view.shown == ["2 nodes, pods: 4 Succeeded"]
    assert view.text.count(" bind pods/default/report-") == 4


@pytest.mark.parametrize(
    "example",
    ["07-gang", "11-queues", "13-reclaim", "14-pod-group", "18-fleet", "19-queue-allocation-gate"],
)
async def test_the_roles_that_are_installed_are_enough(tmp_path, example):
    """Headgate runs as its service account; whatever a rule is missing for would be refused and logged."""
    wanted = load_scenario(str(EXAMPLE.parent / example / "scenario.yaml"))
    plan = UpPlan(
        scenario=wanted,
        kubeconfig=tmp_path / "kubeconfig",
        speed=10 * FAST,
        ends_when_idle=True,
        authorization=AuthorizationMode.RBAC,
    )
    view = Onlooker()
    async with asyncio.timeout(PATIENCE):
        await run_clusters(plan, view, asyncio.Event())
    assert "forbidden" not in view.text.lower()
    assert " bind pods/" in view.text


async def test_without_a_rule_our_process_is_refused_and_says_so(tmp_path):
    """The test above can fail: Headgate has the rights of its roles and no others."""
    plan = planned(tmp_path, scenario(), authorization=AuthorizationMode.RBAC)
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/headgate-scheduler"
    async with running(plan) as view, asyncio.timeout(PATIENCE):
        found = await ask(tmp_path / "kubeconfig", "main", role)
        rules = [rule for rule in found["rules"] if rule["resources"] != ["pods/binding"]]
        await ask(tmp_path / "kubeconfig", "main", role, {**found, "rules": rules}, "PUT")
        await ask(tmp_path / "kubeconfig", "main", "/apis/batch/v1/namespaces/default/jobs", JOB)
        while "pods/binding" not in view.text or "is forbidden" not in view.text:
            await asyncio.sleep(0)


async def test_our_process_crashes_and_goes_on(tmp_path):
    late = {**JOB, "metadata": {"name": "late", "namespace": "default"}}
    timeline = [{"at": "1s", "crash": "20s"}, {"at": "5s", "apply": [late]}]
    plan = planned(tmp_path, scenario(timeline=timeline, until="settled"), ends_when_idle=True)
    view = Onlooker()
    async with asyncio.timeout(PATIENCE):
        await run_clusters(plan, view, asyncio.Event())
    assert view.shown == ["2 nodes, pods: 4 Succeeded"]


async def test_the_kubeconfig_is_ours_alone_and_names_every_cluster(tmp_path):
    text = scenario_of(["manager", "east", "west"], "1", {"cpu": "4"})
    async with running(planned(tmp_path, text)) as view:
        file = tmp_path / "kubeconfig"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert view.clusters == ["manager", "east", "west"]
        for context, nodes in (("manager", 0), ("east", 1), ("west", 1)):
            assert len((await ask(file, context, "/api/v1/nodes"))["items"]) == nodes
        connected = await until_connected(file)
    assert connected == {"east", "west"}, "the manager reaches its workers"


async def until_connected(file: Path) -> set[str]:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await ask(file, "manager", "/apis/kueue.x-k8s.io/v1beta2/multikueueclusters")
            active = {
                each["metadata"]["name"]
                for each in found["items"]
                for condition in each.get("status", {}).get("conditions", ())
                if (condition["type"], condition["status"]) == ("Active", "True")
            }
            if len(active) == 2:
                return active
            await asyncio.sleep(0)


async def ask(file: Path, context: str, path: str, new: object = None, method: str = "POST") -> dict:
    client = Client(find_access(str(file), context, {}), time.monotonic, time.time, asyncio.sleep)
    try:
        body = b"" if new is None else msgspec.json.encode(new)
        answer = await client.perform(Call("GET" if new is None else method, path, {}, JSON, body))
    finally:
        client.close()
    assert answer.status in (200, 201), answer.body
    return msgspec.json.decode(answer.body)


async def test_the_example_of_the_readme(tmp_path):
    """What `make run` starts, and the jobs that the README submits."""
    text = (EXAMPLE / "scenario.yaml").read_text()
    async with running(planned(tmp_path, text)) as view:
        for job in yaml.safe_load_all((EXAMPLE / "jobs.yaml").read_text()):
            await ask(tmp_path / "kubeconfig", "main", "/apis/batch/v1/namespaces/default/jobs", job)
        async with asyncio.timeout(PATIENCE):
            while view.shown != ["4 nodes, pods: 9 Succeeded"]:
                await asyncio.sleep(0)
    decided = re.findall(r"(admit|finish) \S+/default/(?:job-)?(train|evaluate)", view.text)
    assert decided.index(("finish", "train")) < decided.index(("admit", "evaluate")), "the second waits for its quota"


async def test_with_a_data_directory_it_goes_on_where_it_was(tmp_path):
    plan = planned(tmp_path, scenario([JOB], until="settled"), data_dir=tmp_path / "data", ends_when_idle=True)
    async with asyncio.timeout(PATIENCE):
        await run_clusters(plan, Onlooker(), asyncio.Event())
        view = Onlooker()
        await run_clusters(plan, view, asyncio.Event())
    assert view.shown == ["2 nodes, pods: 4 Succeeded"]
    assert " bind " not in view.text, "the job is done already"


async def test_it_stops_at_once(tmp_path):
    async with running(planned(tmp_path, scenario([JOB]))):
        began = time.monotonic()
    assert time.monotonic() - began < AT_ONCE


async def test_what_the_server_refuses_is_named_with_its_place(tmp_path):
    wrong = {**JOB, "spec": {**JOB["spec"], "completions": -1}}
    with pytest.raises(BaseExceptionGroup) as found:
        async with running(planned(tmp_path, scenario([wrong]))):
            pass
    refused = found.value.exceptions[0]
    assert isinstance(refused, InvalidScenario)
    assert "clusters[0].objects[0]: refused with 422 Invalid" in str(refused)


@pytest.mark.parametrize(
    "arguments, said",
    [
        pytest.param(["--node-shape", "cpu"], "expected RESOURCE=AMOUNT", id="a shape without amounts"),
        pytest.param(["--node-shape", "cpu=lots"], "got 'cpu=lots'", id="an amount that is none"),
        pytest.param(["--nodes", "no-such-file"], "No such file", id="no such file of nodes"),
        pytest.param(["--nodes", "-3"], "No such file", id="a negative number of nodes"),
        pytest.param(["--clusters", "a,a"], "different names", id="a name twice"),
        pytest.param(["--speed", "0"], "0.01", id="time that stands still"),
        pytest.param(["--scenario", "x.yaml", "--nodes", "3"], "a scenario has its own", id="nodes twice"),
        pytest.param(["--scenario", "no-such.yaml"], "cannot be read", id="no such scenario"),
        pytest.param(["--kube-apiserver", "--speed", "2"], "a clock of its own", id="a real server at speed"),
        pytest.param(["--kube-apiserver"], "KUBEBUILDER_ASSETS", id="a real server that is not named"),
    ],
)
def test_wrong_input_is_told_in_one_line(arguments, said):
    done = CliRunner().invoke(main, ["up", *arguments], env={"KUBEBUILDER_ASSETS": None})
    assert done.exit_code == 2
    assert said in done.output


def test_a_folder_without_the_programs_of_a_real_server_is_told(tmp_path):
    arguments = ["up", "--kube-apiserver", "--kubeconfig", str(tmp_path / "kubeconfig")]
    done = CliRunner().invoke(main, arguments, env={"KUBEBUILDER_ASSETS": str(tmp_path)})
    assert done.exit_code == 1


def test_nodes_come_from_a_file(tmp_path):
    file = tmp_path / "nodes.yaml"
    file.write_text(
        "[{name: 'big-%d', count: 2, capacity: {cpu: 8}, labels: {zone: a}}, {name: small, capacity: {cpu: 1}}]"
    )
    (cluster,) = parse_scenario(scenario_of(["main"], str(file), {}), str(file)).clusters
    names = [located.manifest["metadata"]["name"] for located in cluster.objects]
    assert names == ["big-0", "big-1", "small"]
